"""Processes known again, and found by their mark."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from processes import age_s, ended_children, processes_of, spawn_session
from records import lives, start_ticks
from tests.conftest import eventually

if TYPE_CHECKING:
    from pathlib import Path


def sleeper(**variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], **variables})


def test_stragglers_of_one_attempt() -> None:
    """A process carries run and attempt; those of another attempt or root are not ours to end."""
    first = sleeper(BAY_OUT="/a/r/out", BAY_ATTEMPT="1")
    second = sleeper(BAY_OUT="/a/r/out", BAY_ATTEMPT="2")
    other = sleeper(BAY_OUT="/b/r/out", BAY_ATTEMPT="1")
    with first, second, other:
        eventually(lambda: processes_of("/b/r", 1, None))
        found = [processes_of("/a/r", 1, None), processes_of("/a/r", 2, None)]
        for process in (first, second, other):
            process.kill()

    assert found == [{first.pid}, {second.pid}]


def test_members_of_a_group() -> None:
    """What has no mark is found by its group."""
    argv = ["sh", "-c", "env -i sleep 600 & wait"]
    with subprocess.Popen(argv, start_new_session=True) as leader:
        eventually(lambda: len(processes_of("/none", 1, leader.pid)) == 2)
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()
        eventually(lambda: not processes_of("/none", 1, leader.pid))


def test_session_outlives_us_and_has_ordinary_signals(tmp_path: Path) -> None:
    """A started program leads a session, and a broken pipe ends it as it would in a shell."""
    out = tmp_path / "out"
    text = f'(yes; echo "$?" >{out}) | head -n 1 >/dev/null; echo "$$" >>{out}'
    pid = spawn_session(["/bin/sh", "-c", text], {"PATH": os.environ["PATH"]})
    leads = os.getsid(pid) == pid
    _, status = os.waitpid(pid, 0)

    assert (leads, status) == (True, 0)
    assert out.read_text().split() == [str(128 + signal.SIGPIPE), str(pid)]


def test_program_that_does_not_exist() -> None:
    """A program that cannot be started is an error of the caller."""
    with pytest.raises(FileNotFoundError):
        spawn_session(["/no/such/program"], {})


def test_ended_children_are_told_once() -> None:
    """Every child that has ended is told with its status."""
    pid = spawn_session(["/bin/sh", "-c", "exit 3"], {})
    seen: dict[int, int] = {}
    eventually(lambda: seen.update(ended_children()) is None and pid in seen)

    assert seen[pid] == 3 << 8
    assert list(ended_children()) == []


def test_age_needs_no_date() -> None:
    """How long a process has run follows from its start, whatever the record's date says."""
    pid = os.getpid()
    started = {"boot": "", "pid": pid, "start": start_ticks(pid), "at": time.time() + 10**6}

    assert lives(started)
    assert 0 < age_s(started) < 10**5
