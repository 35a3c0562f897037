"""What a run recorded of itself, and whether it still lives."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import Any

from files import has, read_json, read_tail, read_text

CLAIM_AGE_S = 60.0
STOPS = ("cancel", "timeout")


def records_folder(folder: str, attempt: int) -> str:
    """Where one attempt of a run keeps its records."""
    return os.path.join(folder, "attempts", str(attempt))


def claimed(folder: str, attempt: int) -> bool:
    """Whether somebody has begun the attempt, or ended it unbegun."""
    return has(records_folder(folder, attempt), "claim")


def claim(records: str) -> bool:
    """Make the attempt ours; whether that went well."""
    path = os.path.join(records, "claim")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def young_claim(records: str) -> bool:
    """Whether there is a claim whose maker may be about to say who it is."""
    try:
        made_at = os.stat(os.path.join(records, "claim")).st_mtime
    except OSError:
        return False
    return time.time() - made_at < CLAIM_AGE_S


def read_attempt(folder: str, attempt: int) -> dict[str, Any]:
    """The state `absent`, `running`, `ended` or `lost` of one attempt, and what is known of it."""
    records = records_folder(folder, attempt)
    events = read_events(records)
    if "exit" not in events and "started" in events and not lives(events["started"]):
        # It may have ended between the two looks.
        events = read_events(records)
    started, ended = events.get("started", {}), events.get("exit")
    seen = {key: started.get(key) for key in ("host", "devices")}
    seen["started"] = started.get("at")
    if started:
        seen["metrics"] = read_metrics(folder, records)
    if "held" in events:
        seen["held"] = events["held"].get("code")
    if ended and is_copying(events) and lives(started):
        return {**seen, "state": "running", "why": "", "copying": True}
    if ended:
        unshipped = find_unshipped(events)
        if unshipped:
            seen["unshipped"] = unshipped
        stop = next((mark for mark in STOPS if has(records, mark)), "")
        end = {key: value for key, value in ended.items() if key not in ("at", "event")}
        return {"why": "", **seen, **end, "ended": ended["at"], "state": "ended", "stop": stop}
    return {**seen, **_unended(records, started)}


def is_copying(events: dict[str, dict[str, Any]]) -> bool:
    """Whether the command has ended and what it wrote is, or was, on its way to somewhere else."""
    return bool(events.get("exit", {}).get("ships")) and not events.keys() & {
        "shipped",
        "unshipped",
    }


def find_unshipped(events: dict[str, dict[str, Any]]) -> str:
    """Why what an ended run wrote is not where it was to be copied; empty when it is."""
    if is_copying(events):
        return "it was ended meanwhile"
    return str(events.get("unshipped", {}).get("why") or "") or "unknown" * ("unshipped" in events)


def _unended(records: str, started: dict[str, Any]) -> dict[str, str]:
    if started:
        why = death(started)
        return {"state": "lost" if why else "running", "why": why}
    if not has(records, "claim"):
        return {"state": "absent", "why": ""}
    if young_claim(records):
        return {"state": "running", "why": ""}
    return {"state": "lost", "why": "it was claimed and never started"}


def read_events(records: str) -> dict[str, dict[str, Any]]:
    """The last event of each kind; a line that is no JSON is half written and left out."""
    events = {}
    for line in read_text(os.path.join(records, "events.jsonl")).splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            event = json.loads(line)
            events[event["event"]] = event
    return events


def record_exit(records: str, code: int | None, why: str = "") -> None:
    """Record an end in the run's place."""
    event = {
        "event": "exit",
        "at": round(time.time(), 2),
        "code": code,
        "signal": "",
        "phase": "command",
        "why": why,
    }
    path = os.path.join(records, "events.jsonl")
    # A disk that was full may have left half a line.
    before = read_text(path)
    gap = "\n" if before and not before.endswith("\n") else ""
    with open(path, "a") as file:
        file.write(gap + json.dumps(event) + "\n")


def end_unstarted(records: str) -> bool:
    """Take the claim, so that nobody starts the attempt, and record its end; False if it began."""
    if not claim(records):
        return False
    record_exit(records, None)
    return True


def read_metrics(folder: str, records: str) -> dict[str, Any]:
    """The last value of each metric: from the log by pattern, then from `metrics.jsonl`."""
    metrics: dict[str, Any] = {}
    patterns = read_json(os.path.join(records, "job.json")).get("metrics", {})
    log = read_tail(os.path.join(records, "log-0.txt")) if patterns else ""
    for name, pattern in patterns.items():
        with contextlib.suppress(re.error, IndexError):
            last = re.findall(pattern, log)[-1]
            metrics[name] = _number(last if isinstance(last, str) else last[0])
    now = read_tail(os.path.join(folder, "out", "metrics.jsonl"))
    metrics.update(_last_values(now or read_tail(os.path.join(records, "metrics.jsonl"))))
    return metrics


def _last_values(text: str) -> dict[str, Any]:
    metrics = {}
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict):
                metrics.update({k: v for k, v in row.items() if isinstance(v, (int, float, str))})
    return metrics


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def lives(started: dict[str, Any]) -> bool:
    """Whether the very process that wrote `started` is still there."""
    return not death(started)


def death(started: dict[str, Any]) -> str:
    """Why the process that wrote `started` cannot be there any more; empty while it is."""
    pid, start = int(started.get("pid") or 0), str(started.get("start") or "")
    if started.get("boot") and started["boot"] != boot_id():
        return "the machine was restarted"
    there = start_ticks(pid) == start if start else pid > 0 and _exists(pid)
    return "" if there else "its process is gone and left no exit record"


def start_ticks(pid: int) -> str:
    """When the process began, in ticks since boot; empty when it has ended."""
    fields = read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()
    # A zombie has ended; its parent has not noticed.
    return fields[19] if fields and fields[0] != "Z" else ""


def boot_id() -> str:
    """What the kernel calls this boot."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
