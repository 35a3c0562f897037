"""`bay completion`, and what the shell is told."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from launchbay.cli.completion import complete_commands
from launchbay.cli.main import COMMANDS

if TYPE_CHECKING:
    from tests.conftest import Bay


def complete(bay: Bay, line: str) -> list[str]:
    """What bash would offer for the last word of a line."""
    bay.extra |= {
        "_BAY_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    said = bay()
    for name in ("_BAY_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        del bay.extra[name]
    assert said.err == ""
    return [item.removeprefix("plain,") for item in said.out.split()]


def test_commands(bay: Bay) -> None:
    """The first word is a command."""
    assert complete(bay, "bay re") == ["results", "rerun"]


def test_all_commands() -> None:
    """Every command can be completed without loading it."""
    assert [item.value for item in complete_commands("")] == list(COMMANDS)


def test_words_of_a_group(bay: Bay) -> None:
    """A group's own commands are completed."""
    assert complete(bay, "bay config ") == ["explain", "set", "show", "unset"]


def test_options(bay: Bay) -> None:
    """Options are completed, also between what `bay run` is given."""
    assert complete(bay, "bay run lr=1 --lim") == ["--limit"]


@pytest.mark.parametrize("line", ["bay run --target ", "bay run -n 1 lr=0.1 -t ", "bay doctor "])
def test_targets(bay: Bay, line: str) -> None:
    """Targets are completed wherever one is meant."""
    bay("target", "add", "desk", "--yes")

    assert complete(bay, line) == ["desk", "local"]


def test_runs(bay: Bay) -> None:
    """Runs are completed by the ends of their ids, and by their experiments."""
    bay("run", "-q", "true")
    (run,) = bay.json("ls")
    suffix = run["id"].rpartition("-")[2]

    assert complete(bay, "bay show ") == [suffix, "true"]
    assert complete(bay, f"bay rm {suffix[:2]}") == [suffix]


def test_nothing_is_written(bay: Bay) -> None:
    """Pressing TAB makes no files."""
    complete(bay, "bay show ")

    assert list(bay.project.iterdir()) == []
    assert not (bay.home / "state").exists()


def test_unknown_command(bay: Bay) -> None:
    """After a word that is no command, commands are offered, and nothing is said."""
    assert complete(bay, "bay nothing re") == ["results", "rerun"]


def test_broken_configuration(bay: Bay) -> None:
    """A broken file offers nothing, and does not talk into the line that is being typed."""
    bay.write("bay.yaml", "comand: true\n")

    assert complete(bay, "bay doctor ") == []


@pytest.mark.parametrize(
    ("shell", "first", "last"),
    [
        ("bash", "_bay_completion() {", '#   eval "$(bay completion bash)"'),
        ("zsh", "#compdef bay", "#   bay completion zsh > ~/.zfunc/_bay"),
        (
            "fish",
            "function _bay_completion;",
            "#   bay completion fish > ~/.config/fish/completions/bay.fish",
        ),
    ],
)
def test_script(bay: Bay, shell: str, first: str, last: str) -> None:
    """The script for each shell ends with how to install it."""
    lines = bay("completion", shell).out.splitlines()

    assert (lines[0], lines[-1]) == (first, last)


def test_bash_takes_the_script(bay: Bay) -> None:
    """Bash can read the script, and then knows how to complete `bay`."""
    script = bay("completion", "bash").out
    done = subprocess.run(
        ["bash", "-c", f"{script}\ncomplete -p bay"], capture_output=True, text=True, check=True
    )

    assert done.stdout == "complete -o nosort -F _bay_completion bay\n"


def test_unknown_shell(bay: Bay) -> None:
    """A shell that we do not know is a wrong request."""
    assert bay("completion", "tcsh", code=2).err.startswith("error: invalid value")
