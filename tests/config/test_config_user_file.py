"""Changing the user's configuration."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from launchbay.config.user_file import remove_target, set_value, unset_value, write_target
from launchbay.core.errors import BadRequest, BayError, ConfigError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITTEN = """\
# mine
use: desk  # the fast one
targets:
  desk: {kind: machine, parallel: 2}
  brc:
    kind: slurm
    partition: gpu  # not the small one
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration, in a folder in which it is named shortly."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "config.yaml"
    file.write_text(WRITTEN, encoding="utf-8")
    return file


def read(path: Path) -> str:
    """What the file says now."""
    return path.read_text(encoding="utf-8")


def refusal(action: Callable[[], None], kind: type[BayError]) -> tuple[str, str | None]:
    """What an action that must fail says, and its hint."""
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value), caught.value.hint


def test_first_value(tmp_path: Path) -> None:
    """The first value makes the file and its folders, for nobody else to read."""
    path = tmp_path / "a" / "b" / "config.yaml"
    set_value(path, "use", "desk")

    assert read(path) == "use: desk\n"
    assert [
        stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, path.parent.parent)
    ] == [
        0o600,
        0o700,
        0o700,
    ]
    assert list(path.parent.iterdir()) == [path]


def test_set_value(path: Path) -> None:
    """One value changes; comments and all else stay."""
    set_value(path, "targets.brc.partition", "big")
    set_value(path, "targets.desk.devices", "[0, 1]")
    set_value(path, "targets.brc.env.A", "1")

    assert read(path) == (
        "# mine\n"
        "use: desk  # the fast one\n"
        "targets:\n"
        "  desk: {kind: machine, parallel: 2, devices: [0, 1]}\n"
        "  brc:\n"
        "    kind: slurm\n"
        "    partition: big  # not the small one\n"
        "    env:\n"
        "      A: 1\n"
    )


@pytest.mark.parametrize(
    ("key", "value", "message", "hint"),
    [
        ("usee", "x", "usee: unknown key", "did you mean `use`?"),
        (
            "use.x",
            "x",
            "use: must be text, not a mapping",
            "write `use: value`, in quotes if it begins with a bracket",
        ),
        ("use", "[a]", "use: must be text, not a list", "write `use: a`"),
        (
            "targets",
            "x",
            "targets: must be a mapping, not text",
            "write lines such as `desk: {kind: machine}` below it",
        ),
        (
            "targets.a b.kind",
            "x",
            "targets.a b: `a b` is no name of a target",
            "write `a-b`",
        ),
        (
            "targets.desk.paralel",
            "2",
            "targets.desk.paralel: unknown key",
            "did you mean `parallel`?",
        ),
        (
            "targets.desk.parallel",
            "0",
            "targets.desk.parallel: `0` is no whole number of at least 1",
            "write `1` or more",
        ),
        (
            "targets.local.kind",
            "slurm",
            "targets.local.kind: `local` is always this computer",
            "choose another name for that target",
        ),
    ],
)
def test_refused_value(path: Path, key: str, value: str, message: str, hint: str | None) -> None:
    """What would break the file is refused, and the file stays as it was."""
    assert refusal(lambda: set_value(path, key, value), BadRequest) == (message, hint)
    assert read(path) == WRITTEN


def test_value_that_is_no_list(path: Path) -> None:
    """A value that begins like a list must be one."""
    assert refusal(lambda: set_value(path, "use", "[a"), BadRequest) == (
        "`[a` is no list or mapping",
        "close its brackets; put quotes inside the shell's around text with `,` or `:`",
    )
    assert read(path) == WRITTEN


def test_unset_value(path: Path) -> None:
    """A value is removed with its line."""
    unset_value(path, "use")
    unset_value(path, "targets.desk.parallel")

    assert read(path) == (
        "# mine\n"
        "targets:\n"
        "  desk: {kind: machine}\n"
        "  brc:\n"
        "    kind: slurm\n"
        "    partition: gpu  # not the small one\n"
    )


def test_unset_nothing(path: Path) -> None:
    """A key that is not set is an error that names the nearest."""
    assert refusal(lambda: unset_value(path, "targets.desk.parallell"), BadRequest) == (
        "`targets.desk.parallell` is not set in config.yaml",
        "did you mean `targets.desk.parallel`?",
    )


def test_old_problems_are_in_nobodys_way(path: Path) -> None:
    """A file with a mistake can be mended key by key."""
    path.write_text("usee: x\nus: y\n", encoding="utf-8")
    set_value(path, "use", "desk")
    unset_value(path, "usee")

    assert read(path) == "us: y\nuse: desk\n"


def test_broken_file(path: Path) -> None:
    """A file that cannot be read is not written."""
    path.write_text("a: [\n", encoding="utf-8")

    assert refusal(lambda: set_value(path, "use", "desk"), ConfigError) == (
        "config.yaml:2:1: the text ends where a value should be",
        "close the `[` or `{` that is open, or write the value",
    )
    assert read(path) == "a: [\n"


def test_write_target(path: Path) -> None:
    """A target is added at the end, or takes the place of the one of its name."""
    write_target(path, "box", {"kind": "machine", "root": "~/bay", "devices": ["0"]})
    write_target(path, "desk", {"kind": "machine"})

    assert read(path) == (
        "# mine\n"
        "use: desk  # the fast one\n"
        "targets:\n"
        "  desk:\n"
        "    kind: machine\n"
        "  brc:\n"
        "    kind: slurm\n"
        "    partition: gpu  # not the small one\n"
        "  box:\n"
        "    kind: machine\n"
        "    root: ~/bay\n"
        "    devices: [0]\n"
    )


def test_refused_target(path: Path) -> None:
    """A target that cannot be is not written."""
    assert refusal(lambda: write_target(path, "box", {"kind": "machine", "x": "1"}), BadRequest)[
        0
    ] == ("targets.box.x: unknown key")
    assert read(path) == WRITTEN


def test_remove_target(path: Path) -> None:
    """A target is removed; what is gone is not in use."""
    remove_target(path, "desk")

    assert read(path) == (
        "# mine\ntargets:\n  brc:\n    kind: slurm\n    partition: gpu  # not the small one\n"
    )
    assert refusal(lambda: remove_target(path, "bcr"), BadRequest) == (
        "`targets.bcr` is not set in config.yaml",
        "did you mean `targets.brc`?",
    )


def test_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    """A configuration that is linked from elsewhere stays linked."""
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    set_value(link, "use", "brc")

    assert link.is_symlink()
    assert read(path) == WRITTEN.replace("use: desk", "use: brc")


def test_cannot_write(path: Path) -> None:
    """A folder that cannot be made is an error with a way out."""
    assert refusal(lambda: set_value(path / "config.yaml", "use", "desk"), StoreError) == (
        "cannot write config.yaml/config.yaml: Not a directory",
        "check the folder, or set $BAY_CONFIG to a file that you can write",
    )
