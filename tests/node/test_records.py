"""What an attempt recorded, read back with everything that can have gone wrong."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from records import boot_id, end_unstarted, read_attempt, read_events, record_exit, start_ticks

if TYPE_CHECKING:
    from pathlib import Path

EXIT = {"event": "exit", "at": 2.0, "code": 0, "signal": "", "phase": "command"}


def me(**fields: Any) -> dict[str, Any]:
    """A start that this very process recorded."""
    pid = os.getpid()
    started = {"event": "started", "at": 1.0, "host": "box", "devices": ""}
    return {**started, "boot": boot_id(), "pid": pid, "start": start_ticks(pid), **fields}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with one attempt."""
    (tmp_path / "attempts" / "1").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    return tmp_path


def record(run: Path, *events: dict[str, Any], tail: str = "") -> None:
    text = "".join(json.dumps(event) + "\n" for event in events)
    (run / "attempts/1/events.jsonl").write_text(text + tail)


def judge(run: Path) -> tuple[str, str]:
    seen = read_attempt(str(run), 1)
    return seen["state"], seen.get("why", "")


def test_nothing_recorded(run: Path) -> None:
    """An attempt that nobody began is absent."""
    assert judge(run) == ("absent", "")
    assert judge(run / "none") == ("absent", "")


def test_running(run: Path) -> None:
    """A living process that wrote the start is running."""
    record(run, me())

    assert judge(run) == ("running", "")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"start": "1"}, "its process is gone and left no exit record"),
        ({"pid": 2**22 + 1}, "its process is gone and left no exit record"),
        ({"boot": "another"}, "the machine was restarted"),
    ],
)
def test_lost(run: Path, change: dict[str, Any], why: str) -> None:
    """A process that is gone, or another of its number, left no end: lost."""
    record(run, me(**change))

    assert judge(run) == ("lost", why)


def test_zombie_has_ended(run: Path) -> None:
    """A process that ended and was not waited for is not running."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        record(run, me(pid=child.pid, start=start_ticks(child.pid)))
        before = judge(run)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        after = judge(run)

    assert (before[0], after[0]) == ("running", "lost")


def test_ended(run: Path) -> None:
    """An end is an end, whatever became of the process."""
    record(run, me(pid=1, start="0"), EXIT)
    seen = read_attempt(str(run), 1)

    assert seen == {
        "state": "ended",
        "started": 1.0,
        "ended": 2.0,
        "host": "box",
        "devices": "",
        "code": 0,
        "signal": "",
        "phase": "command",
        "why": "",
        "stop": "",
        "metrics": {},
    }


@pytest.mark.parametrize("mark", ["cancel", "timeout"])
def test_end_that_somebody_asked_for(run: Path, mark: str) -> None:
    """The mark of who stopped it goes with the end."""
    record(run, me(), EXIT)
    (run / "attempts/1" / mark).touch()

    assert read_attempt(str(run), 1)["stop"] == mark


@pytest.mark.parametrize("tail", ['{"event": "ex', "\0\0\0", "null\n", "[]\n", "7\n", '{"a": 1}\n'])
def test_broken_line_is_left_out(run: Path, tail: str) -> None:
    """Half a line, or something that is no event, does not hide the others."""
    record(run, me(), tail=tail)

    assert judge(run) == ("running", "")


def test_end_after_a_broken_line(run: Path) -> None:
    """An end recorded for a run whose disk was full stands on a line of its own."""
    record(run, me(), tail='{"event": "exit", "at"')
    record_exit(str(run / "attempts/1"), 137, "killed")
    seen = read_events(str(run / "attempts/1"))["exit"]

    assert (seen["code"], seen["why"]) == (137, "killed")


def test_claimed_and_not_started(run: Path) -> None:
    """A young claim is a run about to start; an old one was never started."""
    path = run / "attempts/1/claim"
    path.touch()
    young = judge(run)
    os.utime(path, (time.time() - 100,) * 2)

    assert young == ("running", "")
    assert judge(run) == ("lost", "it was claimed and never started")


def test_ended_before_it_started(run: Path) -> None:
    """Ending an unstarted attempt claims it and records an end without a code, once."""
    for _ in range(2):
        end_unstarted(str(run / "attempts/1"))
    seen = read_attempt(str(run), 1)

    assert (seen["state"], seen["code"]) == ("ended", None)
    assert (run / "attempts/1/events.jsonl").read_text().count("\n") == 1


def test_metrics_from_the_log_and_from_the_program(run: Path) -> None:
    """The last match of a pattern, then what the program itself wrote; the rest is left out."""
    record(run, me(), EXIT)
    patterns = {"loss": r"loss=(\S+)", "acc": r"(acc)=([0-9.]+)", "bad": "(", "none": "zzz"}
    (run / "attempts/1/job.json").write_text(json.dumps({"metrics": patterns}))
    (run / "attempts/1/log-0.txt").write_text("loss=3\nloss=2.5\nacc=1\n")
    lines = ['{"loss": 1, "note": "x", "list": []}', "half a li", "[1]", '{"step": 7}']
    (run / "out/metrics.jsonl").write_text("\n".join(lines))

    assert read_attempt(str(run), 1)["metrics"] == {
        "loss": 1,
        "acc": "acc",
        "note": "x",
        "step": 7,
    }


def test_metrics_outlive_the_outputs(run: Path) -> None:
    """What was copied with the exit counts when the outputs are gone."""
    record(run, me(), EXIT)
    (run / "attempts/1/metrics.jsonl").write_text('{"loss": 1}\n')

    assert read_attempt(str(run), 1)["metrics"] == {"loss": 1}
