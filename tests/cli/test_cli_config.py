"""`bay config`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

WRITTEN = "# mine\nuse: desk\ntargets:\n  desk: {kind: machine, memory: 8}\n"


@pytest.fixture
def config(bay: Bay) -> Path:
    """The user's configuration."""
    path = bay.home / "config" / "launchbay" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(WRITTEN)
    return path


@pytest.mark.parametrize("words", [("config",), ("config", "show")])
def test_show(bay: Bay, config: Path, words: tuple[str, ...]) -> None:
    """The text goes to standard output as it is, and where it lies to standard error."""
    said = bay(*words)

    assert (said.out, said.err) == (WRITTEN, f"{config}\n")


def test_show_as_json(bay: Bay, config: Path) -> None:
    """Scripts get the path and every value as typed."""
    assert bay.json("config", "show") == {
        "path": str(config),
        "exists": True,
        "data": {"use": "desk", "targets": {"desk": {"kind": "machine", "memory": "8"}}},
    }


def test_show_nothing(bay: Bay) -> None:
    """Where there is no configuration, it is said where it would be."""
    said = bay("config", "show")
    path = bay.home / "config" / "launchbay" / "config.yaml"

    assert (said.out, said.err) == (
        "",
        f"{path} is not there yet; everything is as by default\n",
    )


def test_set(bay: Bay, config: Path) -> None:
    """One key is set; everything else stays as it is written."""
    said = bay("config", "set", "targets.desk.devices", "[0, 1]")

    assert said.err == f"set `targets.desk.devices` in {config}\n"
    assert config.read_text() == WRITTEN.replace("memory: 8}", "memory: 8, devices: [0, 1]}")


def test_set_what_cannot_be(bay: Bay, config: Path) -> None:
    """A key that does not exist is refused with the nearest, and nothing is written."""
    said = bay("config", "set", "uses", "desk", code=2)

    assert said.err == "error: uses: unknown key\n\nhint: did you mean `use`?\n"
    assert config.read_text() == WRITTEN


def test_unset(bay: Bay, config: Path) -> None:
    """One key is removed."""
    bay("config", "unset", "use")

    assert config.read_text() == WRITTEN.replace("use: desk\n", "")


def test_explain(bay: Bay, config: Path) -> None:
    """The strongest place that sets a key is named with file and line."""
    bay.write("bay.yaml", "command: true\nparams:\n  lr: [0.1, 0.01]\n")
    keys = ("params.lr", "memory", "target", "gpus")

    assert [bay("config", "explain", key).out for key in keys] == [
        "params.lr = [0.1, 0.01]  (bay.yaml:3)\n",
        f"memory = 8  ({config}:4)\n",
        f"target = desk  ({config}:2)\n",
        "gpus is not set (default)\n",
    ]


def test_explain_as_json(bay: Bay, config: Path) -> None:
    """Scripts get value, file and line."""
    assert bay.json("config", "explain", "use") == {
        "key": "use",
        "value": "desk",
        "source": str(config),
        "line": 2,
        "over": [],
    }


def test_explain_an_unknown_key(bay: Bay, config: Path) -> None:
    """A key that no file can have is a wrong request, with a suggestion."""
    assert bay("config", "explain", "comand", code=2).err == (
        "error: `comand` is not set and no key of a file\n\nhint: did you mean `command`?\n"
    )
