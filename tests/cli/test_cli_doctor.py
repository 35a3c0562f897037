"""`bay doctor`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Bay


def test_all_is_well(bay: Bay) -> None:
    """In an empty project everything is said to work, and nothing is written."""
    findings = bay.json("doctor")

    assert {one["level"] for one in findings} == {"ok"}
    assert [one["subject"] for one in findings] == [
        "python",
        "git",
        "index",
        "config",
        "project",
        "disk",
        "local processors",
        "local memory",
        "local GPUs",
    ]
    assert list(bay.project.iterdir()) == []


def test_table(bay: Bay) -> None:
    """People get a line a finding, the level first, and remedies below."""
    bay.extra["PATH"] = str(Path(bay.python).parent)
    said = bay("doctor")
    lines = said.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("warning  git"))

    assert [line.split()[:2] for line in lines[: at + 2]] == [
        ["ok", "python"],
        ["warning", "git"],
        ["→", "install"],
    ]


def test_broken_configuration(bay: Bay) -> None:
    """A file that cannot be understood is a problem with its line; the exit code says so."""
    bay.write("bay.yaml", "comand: true\n")
    said = bay("doctor", code=1)

    assert (
        "problem  config   bay.yaml:1:1: comand: unknown key\n"
        "                  → did you mean `command`?\n"
    ) in said.out
    assert "warning  targets  not checked before that\n" in said.out


def test_one_target(bay: Bay) -> None:
    """A target that is named is checked alone; a wrong name is answered with the nearest."""
    bay("target", "add", "desk", "--yes")
    subjects = [one["subject"] for one in bay.json("doctor", "desk")]

    assert [word for word in subjects if word.startswith(("desk", "local"))] == [
        "desk processors",
        "desk memory",
        "desk GPUs",
    ]
    assert bay("doctor", "desc", code=2).err == (
        "error: there is no target `desc`\n\nhint: did you mean `desk`?\n"
    )


def test_target_that_cannot_work(bay: Bay) -> None:
    """A target that cannot be used is a problem; the others are still checked."""
    bay.write("bay.yaml", "command: true\ntargets:\n  box: {kind: machine, host: me@box}\n")
    said = bay("doctor", "--json", code=1)

    assert '"level": "problem"' in said.out
    assert '"local GPUs"' in said.out


def test_damaged_index(bay: Bay) -> None:
    """An index that was begun anew is said, with how to fill it again."""
    index = bay.home / "state" / "launchbay" / "index.sqlite"
    bay("run", "-q", "true")
    for path in index.parent.glob("index.sqlite*"):
        path.unlink()
    index.write_bytes(b"no database" * 1000)
    found = {one["subject"]: one for one in bay.json("doctor")}

    assert found["index"] == {
        "level": "warning",
        "subject": "index",
        "message": f"was damaged and begun anew; the old one is {index}.damaged",
        "remedy": f"in each project `bay ls --rebuild`, then rm '{index}.damaged'",
    }


def test_index_that_cannot_be_used(bay: Bay) -> None:
    """An index that cannot be opened is a problem, and everything else is still checked."""
    (bay.home / "state" / "launchbay" / "index.sqlite").mkdir(parents=True)
    said = bay("doctor", "--json", code=1)

    assert '"level": "problem",\n  "subject": "index"' in said.out
    assert '"local GPUs"' in said.out


def test_runs_that_the_index_does_not_know(bay: Bay) -> None:
    """What a target runs without our knowing is said, with how to know it again."""
    bay("run", "-q", "-d", "sleep", "60")
    (run,) = bay.json("ls")
    for path in (bay.home / "state" / "launchbay").glob("index.sqlite*"):
        path.unlink()
    found = {one["subject"]: one for one in bay.json("doctor")}
    bay("ls", "--rebuild")
    after = [one["subject"] for one in bay.json("doctor")]

    assert found["local runs"] == {
        "level": "warning",
        "subject": "local runs",
        "message": f"1 that the index does not know: {run['id']}",
        "remedy": "`bay ls --rebuild`",
    }
    assert "local runs" not in after


def test_trouble_of_the_queue(bay: Bay) -> None:
    """What the queue's worker complained about lately is shown."""
    log = bay.home / "state" / "launchbay" / "hosts" / os.uname().nodename / "pack.log"
    log.parent.mkdir(parents=True)
    log.write_text("Traceback\nOSError: no space\n\n")
    found = {one["subject"]: one for one in bay.json("doctor")}

    assert found["queue"]["message"].endswith("ago: OSError: no space")
    assert found["queue"]["level"] == "warning"


def test_project_that_cannot_be_written(ordinary: Bay) -> None:
    """A project that cannot keep runs is a problem."""
    ordinary.project.chmod(0o555)
    said = ordinary("doctor", code=1)
    ordinary.project.chmod(0o755)

    assert f"`{ordinary.project}` is not writable, and keeps frozen code and runs\n" in said.out


def test_git_is_named(bay: Bay) -> None:
    """The git that is used is named with its version."""
    found = {one["subject"]: one["message"] for one in bay.json("doctor")}

    assert found["git"].startswith("git version ") == bool(shutil.which("git"))
