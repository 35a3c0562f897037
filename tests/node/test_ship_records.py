"""What is said of a run that has ended and copies its outputs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from records import boot_id, read_attempt, start_ticks

if TYPE_CHECKING:
    from pathlib import Path

EXIT = {"event": "exit", "at": 2.0, "code": 0, "signal": "", "phase": "command", "ships": 1}


def look(folder: Path, pid: int, *events: dict[str, Any]) -> dict[str, Any]:
    """What is seen of an attempt of that process which recorded these."""
    records = folder / "attempts" / "1"
    records.mkdir(parents=True, exist_ok=True)
    start = start_ticks(pid) or "1"
    started = {"event": "started", "at": 1.0, "boot": boot_id(), "pid": pid, "start": start}
    lines = [json.dumps(event) + "\n" for event in (started, *events)]
    (records / "events.jsonl").write_text("".join(lines))
    return read_attempt(str(folder), 1)


def test_it_runs_until_all_is_copied(tmp_path: Path) -> None:
    """While its process copies outputs a run has not ended; once they are copied it has."""
    copying = look(tmp_path, os.getpid(), EXIT)
    copied = look(tmp_path, os.getpid(), EXIT, {"event": "shipped", "at": 3})

    assert (copying["state"], copying["copying"]) == ("running", True)
    assert copied["state"] == "ended"
    assert "unshipped" not in copied


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ([{"event": "unshipped", "at": 3, "why": "no bucket"}], "no bucket"),
        ([{"event": "unshipped", "at": 3, "why": ""}], "unknown"),
        ([], "it was ended meanwhile"),
    ],
)
def test_why_outputs_are_not_there(tmp_path: Path, last: list[dict[str, Any]], why: str) -> None:
    """A copy that failed, or was never finished, is said beside the run's own end."""
    seen = look(tmp_path, 2**22 + 1, EXIT, *last)

    assert (seen["state"], seen["code"], seen["unshipped"]) == ("ended", 0, why)
