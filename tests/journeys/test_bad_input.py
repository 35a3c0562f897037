"""What a tired person types: one clear error with the fix, and nothing lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import Bay

if TYPE_CHECKING:
    from collections.abc import Iterator

SIMPLE = "command: echo <lr>\nparams:\n  lr: [0.1, 0.01]\n"


def error(bay: Bay, *words: str) -> list[str]:
    """The lines of the error of a command that is wrong."""
    said = bay(*words, code=2)
    assert said.out == ""
    return [line for line in said.err.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["run", "none.yaml"],
            ["error: there is no file `none.yaml`", "hint: `bay init` writes an example"],
        ),
        (
            ["run", "-t", "lokal", "true"],
            ["error: there is no target `lokal`", "hint: did you mean `local`?"],
        ),
        (
            ["run", "wdith=3"],
            ["error: `wdith` is no parameter of bay.yaml", "hint: did you mean `width`?"],
        ),
        (
            ["run", "--only", "lr=7"],
            ["error: --only: `lr` is never `7`", "hint: there are: `0.01`, `0.1`"],
        ),
        (
            ["run", "--gpus", "lots", "true"],
            ["error: --gpus: `lots` is no number of GPUs; write 0, 2, or a fraction below 1"],
        ),
        (
            ["run", "--time", "soon", "true"],
            [
                "error: --time: `soon` is no span of time; write `90m`, `8h`, `2d` or `HH:MM:SS`",
            ],
        ),
        (
            ["rnu"],
            [
                "error: there is no command `rnu`; did you mean `run`?",
                "hint: `bay --help` explains",
            ],
        ),
        (
            ["show", "zzz"],
            [
                "error: no run or experiment is called `zzz`",
                "hint: `bay ls --all` shows what there is",
            ],
        ),
        (["cancel"], ["error: which runs?", "hint: name an id, an experiment or `--state failed`"]),
        (["ls", "--state", "done"], ["error: there is no state `done`", None]),
        (
            ["run", "lr=1", "lr=2", "true"],
            ["error: `lr` is given twice", "hint: lr=a,b for two values"],
        ),
        (
            ["run", "bay.yaml", "true"],
            ["error: a file and a command, `true`", "hint: give one of the two"],
        ),
    ],
)
def test_wrong_words(bay: Bay, words: list[str], lines: list[str | None]) -> None:
    """Each is told with what was meant, or what to type."""
    bay.write("bay.yaml", "command: echo <lr> <width>\nparams:\n  lr: [0.1, 0.01]\n  width: 1\n")
    told = error(bay, *words)

    assert told[0] == lines[0]
    assert len(lines) == 1 or lines[1] is None or told[1] == lines[1]
    assert bay.json("ls", "--all") == []


def test_unknown_key_in_the_file(bay: Bay) -> None:
    """File, line, column, key and the nearest valid one."""
    bay.write("bay.yaml", SIMPLE + "paralel: 2\n")

    assert error(bay, "run") == [
        "error: bay.yaml:4:1: paralel: unknown key",
        "hint: did you mean `parallel`?",
    ]


def test_nothing_to_run(bay: Bay) -> None:
    """No file and no command: says what to type."""
    assert error(bay, "run") == [
        "error: there is nothing to run: no command was typed and there is no `bay.yaml` here",
        "hint: type `bay run python train.py`, or `bay init` for an example",
    ]


def test_unwritable_project(ordinary: Bay) -> None:
    """A folder that cannot be written is told, and left alone."""
    ordinary.project.chmod(0o555)
    said = ordinary("run", "true", code=1)
    ordinary.project.chmod(0o755)

    assert said.err.splitlines()[-3].endswith(
        f"error: `{ordinary.project}/.bay` cannot be written: Permission denied"
    )


@pytest.fixture
def tiny(bay: Bay) -> Iterator[Bay]:
    """A project on a disk of 256 kB."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(bay.project)],
        capture_output=True,
        check=False,
    )
    if done.returncode and os.environ.get("BAY_REQUIRE_REAL") == "1":
        pytest.fail(f"no tmpfs: {done.stderr.decode()}")
    if done.returncode:
        pytest.skip("a tmpfs needs root")
    yield bay
    subprocess.run(["umount", "--lazy", str(bay.project)], check=True)


def test_full_disk(tiny: Bay) -> None:
    """A full disk is told in one line; with room again the same command does everything once."""
    tiny.write("bay.yaml", "command: echo <seed>\nparams: {seed: 0..9}\nparallel: 2\n")
    ballast = tiny.project / "data.bin"
    tiny.write(".bayignore", "data.bin\n")
    room = os.statvfs(tiny.project)
    ballast.write_bytes(b"x" * (room.f_bavail * room.f_bsize - 40_960))
    full = tiny("run", code=1)
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(tiny.project)], check=True)
    tiny("run")

    assert "No space left on device" in full.err
    assert full.err.count("error:") == 1
    assert "Traceback" not in full.err
    assert tiny.states() == ["succeeded"] * 10


def test_broken_index(bay: Bay) -> None:
    """A damaged index is set aside; run folders bring everything back, nothing runs twice."""
    bay("run", "-q", "x=1", "true")
    index = bay.home / "state/launchbay/index.sqlite"
    for extra in index.parent.glob("index.sqlite-*"):
        extra.unlink()
    index.write_bytes(b"no database " * 100)
    bay("run", "-q", "x=1", "true")

    assert index.with_name("index.sqlite.damaged").exists()
    assert bay.states() == ["succeeded"]


def test_works_in_any_folder(bay: Bay) -> None:
    """Outside a project `ls` and help answer, and nothing is written there."""
    said = bay("ls")
    bay("--help")
    bay("plan", "true")

    assert said.out == "no runs yet; start one with `bay run`\n"
    assert list(bay.project.iterdir()) == []


def test_plan_writes_nothing_anywhere(bay: Bay) -> None:
    """Neither in the project nor at home."""
    bay.write("bay.yaml", SIMPLE)
    before = sorted(Path(bay.project.parent).rglob("*"))
    bay("plan")
    bay("plan", "--json")
    bay("plan", "--document")

    assert sorted(Path(bay.project.parent).rglob("*")) == before


def test_too_much_code_is_refused(bay: Bay) -> None:
    """A data set that was not ignored is named, largest first."""
    bay.write("bay.yaml", SIMPLE + "snapshot_limit: 1M\n")
    (bay.project / "big.bin").write_bytes(b"x" * 3_000_000)
    said = bay("run", code=2)

    assert "big.bin" in said.err
    assert ".bayignore" in said.err


def test_path_with_a_space_and_a_quote(bay: Bay) -> None:
    """Nothing on the way splits a path."""
    odd = bay.project / "it's a folder"
    odd.mkdir()
    other = Bay(home=bay.home, project=odd)
    other.write("data dir/x y", "here")
    other.write(".bayignore", "data dir\n")
    said = other("run", "--", "cat", "data dir/x y")

    assert said.out == "here"


def test_destructive_commands_refuse_without_an_answer(bay: Bay) -> None:
    """Without a terminal and without `--yes` nothing is deleted or ended."""
    bay("run", "-q", "x=1,2", "true")
    told = error(bay, "rm", "-e", "true")

    assert told[-1] == "hint: add `--yes`"
    assert len(bay.states()) == 2


def test_more_than_a_hundred_runs_ask(bay: Bay) -> None:
    """A slip of the keyboard does not start a thousand."""
    assert error(bay, "run", "x=1..101", "true")[-2:] == [
        "error: start 101 runs? — nobody is here to answer",
        "hint: add `--yes`",
    ]


def test_full_disk_behind_the_output(bay: Bay) -> None:
    """What cannot be printed is one line with a remedy, not a bug."""
    with Path("/dev/full").open("w") as full:
        said = bay("plan", "--json", "true", code=1, stdout=full)

    assert said.err == (
        "error: no space left for what it prints\n\nhint: free some space, then type it again\n"
    )
