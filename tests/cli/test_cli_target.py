"""`bay target`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Bay

WRITTEN = """\
# mine
use: desk
targets:
  desk: {kind: machine, parallel: 2}  # the fast one
"""


@pytest.fixture
def config(bay: Bay) -> Path:
    """The user's configuration, with one target."""
    path = bay.home / "config" / "launchbay" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(WRITTEN)
    return path


def test_list_without_configuration(bay: Bay) -> None:
    """This computer is always a target, and the default; nobody needs empty columns."""
    assert bay("target", "list").out == (
        "target   kind     defined in\nlocal *  machine  always there\n"
    )


def test_no_verb_lists(bay: Bay, config: Path) -> None:
    """`bay target` alone lists."""
    assert bay("target").out == bay("target", "list").out


def test_list_as_json(bay: Bay, config: Path) -> None:
    """A project's entry is merged over the user's; both places are named."""
    bay.write("bay.yaml", "command: true\ntargets:\n  desk: {devices: [0, 1]}\n")

    assert bay.json("target", "list") == [
        {
            "name": "desk",
            "kind": "machine",
            "default": True,
            "options": {"parallel": "2", "devices": ["0", "1"]},
            "sources": [f"{config}:4", "bay.yaml:3"],
        },
        {"name": "local", "kind": "machine", "default": False, "options": {}, "sources": []},
    ]


def test_show(bay: Bay, config: Path) -> None:
    """One target is shown as YAML under the place that it was read from."""
    assert bay("target", "show", "desk").out == (
        f"# {config}:4\ndesk:\n  kind: machine\n  parallel: 2\n"
    )


def test_unknown_name(bay: Bay, config: Path) -> None:
    """A name that does not exist is answered with the nearest."""
    assert bay("target", "show", "desc", code=2).err == (
        "error: there is no target `desc`\n\nhint: did you mean `desk`?\n"
    )


def test_kinds(bay: Bay) -> None:
    """The installed kinds are those that entry points name."""
    assert "machine" in bay("target", "kinds").out.splitlines()


def test_kind_of_another_package(bay: Bay, tmp_path: Path) -> None:
    """A kind that another package brings is listed, and can be added."""
    package = tmp_path / "site" / "toy-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[launchbay.backends]\ntoy = launchbay.backends.machine.backend:open_machine\n"
    )
    bay.extra["PYTHONPATH"] = str(package.parent)
    bay("target", "add", "mine", "--kind", "toy", "--set", "colour=red", "--yes")

    assert bay.json("target", "kinds") == ["kubernetes", "machine", "slurm", "toy"]
    assert bay.json("target", "show", "mine")["options"] == {"colour": "red"}


def test_add(bay: Bay, config: Path) -> None:
    """A new target is shown, written beside the others, and checked."""
    words = ("--parallel", "2", "--devices", "0,1", "--memory", "8", "--yes")
    said = bay("target", "add", "box", *words)

    assert said.err == "box:\n  kind: machine\n  parallel: 2\n  devices: [0, 1]\n  memory: 8\n\n"
    assert [line.split()[:3] for line in said.out.splitlines()] == [
        ["ok", "box", "processors"],
        ["ok", "box", "memory"],
        ["ok", "box", "GPUs"],
    ]
    assert config.read_text() == WRITTEN + (
        "  box:\n    kind: machine\n    parallel: 2\n    devices: [0, 1]\n    memory: 8\n"
    )


def test_add_asks(bay: Bay, config: Path) -> None:
    """Without anybody to answer and without `--yes` nothing is written."""
    said = bay("target", "add", "box", code=2)

    assert said.err.endswith(
        f"error: write this to {config}? — nobody is here to answer\n\nhint: add `--yes`\n"
    )
    assert config.read_text() == WRITTEN


def test_add_an_existing_name(bay: Bay, config: Path) -> None:
    """A target is not replaced by the way, not even with `--yes`."""
    said = bay("target", "add", "desk", "--yes", code=2)

    assert said.err == (
        "error: there is a target `desk` already\n\n"
        "hint: `bay target edit desk` changes it, `--replace` writes it anew\n"
    )
    assert config.read_text() == WRITTEN


def test_add_the_same_again(bay: Bay, config: Path) -> None:
    """Adding what is there already changes nothing, so that a script may."""
    said = bay("target", "add", "desk", "--parallel", "2")

    assert said.err == f"desk:\n  kind: machine\n  parallel: 2\n\n{config} says so already\n"
    assert config.read_text() == WRITTEN


def test_replace(bay: Bay, config: Path) -> None:
    """`--replace` writes a target anew."""
    bay("target", "add", "desk", "--time", "8h", "--replace", "--yes")

    assert bay.json("target", "show", "desk")["options"] == {"time": "8h"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("box", "--parallel", "no"),
            "targets.box.parallel: `no` is no whole number of at least 1",
        ),
        (("box", "--set", "colour=red"), "targets.box.colour: unknown key"),
        (("box", "--set", "colour"), "`--set colour` has no `=`"),
        (("a/b",), "targets.a/b: `a/b` is no name of a target"),
        (("box", "--kind", "machin"), "kind `machin` is not installed"),
    ],
)
def test_add_what_cannot_be(bay: Bay, config: Path, words: tuple[str, ...], error: str) -> None:
    """A wrong option is refused before anything is asked."""
    said = bay("target", "add", *words, "--yes", code=2)

    assert said.err.splitlines()[0] == f"error: {error}"
    assert config.read_text() == WRITTEN


def test_add_finds_a_problem(bay: Bay) -> None:
    """A target that cannot work is written, and the exit code says that it does not."""
    said = bay("target", "add", "box", "--set", "host=me@box", "--yes", code=1)

    assert "problem  box  " in said.out
    assert bay.json("target", "show", "box")["options"] == {"host": "me@box"}


def test_copy(bay: Bay, config: Path) -> None:
    """A copy says what the other says, and an existing name is not overwritten."""
    bay("target", "copy", "desk", "box")

    assert bay.json("target", "show", "box")["options"] == {"parallel": "2"}
    assert bay("target", "copy", "local", "box", code=2).err == (
        "error: there is a target `box` already\n\n"
        "hint: choose another name, or `bay target rm box` first\n"
    )


def test_copy_of_local(bay: Bay, config: Path) -> None:
    """`local` can be copied although nobody wrote it."""
    bay("target", "copy", "local", "box")

    assert config.read_text() == WRITTEN + "  box:\n    kind: machine\n"


def test_rm(bay: Bay, config: Path) -> None:
    """A target that is removed is no longer the default either."""
    said = bay("target", "rm", "desk", "--yes")

    assert (said.err, config.read_text()) == ("removed `desk`; `local` is used now\n", "# mine\n")


def test_rm_asks(bay: Bay, config: Path) -> None:
    """Without anybody to answer nothing is removed."""
    bay("target", "rm", "desk", code=2)

    assert config.read_text() == WRITTEN


def test_rm_of_a_project_target(bay: Bay, config: Path) -> None:
    """A target that only the project's file writes is not ours to remove."""
    bay.write("bay.yaml", "command: true\ntargets:\n  box: {kind: machine}\n")

    assert bay("target", "rm", "box", "--yes", code=2).err == (
        f"error: `box` is not in {config}\n\nhint: edit bay.yaml:3\n"
    )


def test_use(bay: Bay, config: Path) -> None:
    """The default is written to the configuration and holds from then on."""
    said = bay("target", "use", "local")

    assert said.err == "runs go to `local` now\n"
    assert config.read_text() == WRITTEN.replace("use: desk", "use: local")


def test_use_where_something_is_stronger(bay: Bay, config: Path) -> None:
    """Where the project's file names a target, it is said that it wins."""
    bay.write("bay.yaml", "command: true\ntarget: desk\n")

    assert bay("target", "use", "local").err == (
        "runs go to `local` now; here bay.yaml says otherwise and wins\n"
    )


def test_use_of_nothing(bay: Bay, config: Path) -> None:
    """A target that does not exist cannot be the default."""
    bay("target", "use", "nope", code=2)

    assert config.read_text() == WRITTEN


def test_run_target_changes_nothing(bay: Bay, config: Path) -> None:
    """Choosing a target for one launch leaves the default as it was."""
    bay("run", "-q", "--target", "local", "true")

    assert ([run["target"] for run in bay.json("ls")], config.read_text()) == (["local"], WRITTEN)


def test_edit(bay: Bay, config: Path) -> None:
    """What the editor leaves is the configuration, once it is known to be right."""
    bay.extra["EDITOR"] = "sed -i 's/parallel: 2/parallel: 3/'"
    said = bay("target", "edit", "desk")

    assert (said.err, [path.name for path in config.parent.iterdir()]) == (
        f"{config} is changed\n",
        ["config.yaml"],
    )
    assert bay.json("target", "show", "desk")["options"] == {"parallel": "3"}


def test_broken_edit(bay: Bay, config: Path) -> None:
    """A broken edit is refused with its line, the old text stays, the new one is kept."""
    bay.extra["EDITOR"] = "sed -i 's/parallel/paralel/'"
    said = bay("target", "edit", "desk", code=2)

    assert said.err == (
        f"error: {config}:4:25: targets.desk.paralel: unknown key; did you mean `parallel`?\n\n"
        f"hint: the configuration is as it was; your text is in {config}.rejected\n"
    )
    assert config.read_text() == WRITTEN
    assert "paralel" in Path(f"{config}.rejected").read_text()


def test_edit_of_local(bay: Bay) -> None:
    """A target that nobody wrote cannot be edited, but can be added."""
    assert bay("target", "edit", "local", code=2).err == (
        "error: `local` is always there, without being written\n\n"
        "hint: `bay target add local --parallel 2` gives it options\n"
    )
