"""The documentation has everything that the program has, and its first page works as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from launchbay import backends
from launchbay.cli.app import app
from launchbay.cli.main import COMMANDS
from launchbay.config.schema import (
    Dataset,
    ExperimentFile,
    KubeFile,
    Model,
    RunBlock,
    SiteFile,
    Target,
    UserConfig,
)
from launchbay.core.backend import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Bay

    from launchbay.config.common import Part

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
TESTED = re.compile(r"<!-- tested -->\n```bash\n(.*?)```", re.DOTALL)


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one."""
    _, found, rest = (REFERENCE / page).read_text().partition(f"\n{heading}\n")
    assert found, f"{page} has no `{heading}`"
    return re.split(r"\n##+ ", rest)[0]


def load(name: str) -> click.Command:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return command


def subcommands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The command and, of a group, every command in it, with the words that call it."""
    yield name, command
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            yield from subcommands(inner, f"{name} {word}")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_command_is_documented(name: str) -> None:
    """Every command has a heading of its own in the reference."""
    assert f"\n## bay {name}\n" in (REFERENCE / "commands.md").read_text()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_options_are_documented(name: str) -> None:
    """Every spelling of every option stands below its command."""
    missing = [
        f"bay {words} {spelling}"
        for words, command in subcommands(load(name), name)
        for option in command.params
        if isinstance(option, click.Option)
        for spelling in (*option.opts, *option.secondary_opts)
        if f"`{spelling}`" not in section("commands.md", f"{_depth(words)} bay {words}")
    ]

    assert missing == []


def _depth(words: str) -> str:
    return "#" * (len(words.split()) + 1)


def test_options_of_bay_itself_are_documented() -> None:
    """What may stand before the command is on the page too."""
    text = (REFERENCE / "commands.md").read_text().partition("\n## ")[0]

    assert [one.opts for one in app.params if f"`{one.opts[0]}`" not in text] == []


@pytest.mark.parametrize(
    "model", [ExperimentFile, Model, Dataset, RunBlock, Target, UserConfig, SiteFile, KubeFile]
)
def test_keys_are_documented(model: type[Part]) -> None:
    """Every spelling of every key of a file has a row."""
    text = (REFERENCE / "file.md").read_text()
    keys = re.findall(r"`([\w.]+)`", "".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE)))

    assert set(model.spellings()) - set(keys) == set()


def test_kinds_and_abilities_are_documented() -> None:
    """Every kind of target has a row, every ability a column."""
    text = (REFERENCE / "backends.md").read_text()

    assert [kind for kind in backends.kinds() if f"\n| `{kind}` | " not in text] == []
    assert f"| kind | {' | '.join(CAPABILITIES)} |" in text


def test_generated_pages_are_up_to_date() -> None:
    """`docs/generate.py --check` has nothing to complain about."""
    words = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_first_page_works_as_printed(bay: Bay) -> None:
    """Every marked block of the first page is typed in order, in an empty home; none fails."""
    blocks = TESTED.findall((ROOT / "docs" / "start" / "first-sweep.md").read_text())
    script = "".join(f"echo block {at} >&2\n{block}" for at, block in enumerate(blocks))
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=bay.project,
        env=bay.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert len(blocks) > 5
    assert done.returncode == 0, done.stderr
