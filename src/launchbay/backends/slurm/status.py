"""What becomes of a run: from what Slurm lists, what the run recorded, and what Slurm remembers."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from launchbay.backends.outcome import COPYING, HELD, parse_status
from launchbay.backends.records import Record, Records, flatten, is_copying
from launchbay.backends.slurm.words import (
    ended_status,
    explain_waiting,
    parse_exit,
    parse_moment,
)
from launchbay.core.run import Cause, State, Status

if TYPE_CHECKING:
    from launchbay.backends.slurm.words import Listed

TOLD_WITHIN_S = 10.0
"""How long accounting may take to hear how a job ended."""
UNBEGUN = (
    "its node could not begin it, for it may not see the target's `root:`; "
    "choose one on a disk that nodes share, `bay doctor` checks it"
)
KILLED = 128
"""Exit codes above it are signals, and Slurm may know who sent them."""
SAME_END_S = 120.0
"""A run that ended so long before its allocation did not end with it."""


@dataclass(frozen=True)
class Doubt:
    """Only the scheduler's memory can say what became of it."""

    job: str


def judge(
    base: int, listed: Listed | None, records: Records, *, job: str, packed: bool = False
) -> Status | Doubt:
    """The status of a run, or what has to be asked.

    Args:
        base: the attempt that was submitted; what Slurm queued again counts up from it.
        listed: what Slurm lists it as; for a packed run the allocation in which it began, or one
            that may take it.
        records: what the run recorded.
        job: what Slurm calls it.
        packed: whether it shares an allocation, so that the list says nothing of the run itself.
    """
    number, record = records.latest(base)
    line = flatten(record, records)
    ended = "exit" in record.events
    if packed:
        job = records.task(base)
    if listed is not None and listed.alive:
        return _going(line, number, listed, record, packed=packed)
    return _finished(line, number) if ended and _is_plain(record) else Doubt(job)


def is_ending(base: int, known: Listed | None, records: Records, now: float) -> bool:
    """Whether it has just ended, and what Slurm remembers does not say so yet."""
    at = records.latest(base)[1].events.get("exit", {}).get("at")
    told = known is not None and not known.alive
    return not told and at is not None and abs(now - at) < TOLD_WITHIN_S


def settle(
    base: int, known: Listed | None, records: Records, *, job: str, packed: bool = False
) -> Status:
    """The status of a run in doubt, now that the scheduler's memory was asked.

    Args:
        base: as `judge` has it.
        known: what Slurm remembers; None where nobody remembers.
        records: what the run recorded.
        job: what Slurm calls it.
        packed: whether it shares an allocation, whose good end is not the run's.
    """
    number, record = records.latest(base)
    line = flatten(record, records)
    if "cancel" in record.marks or "cancel" in records.attempts.get(base, Record()).marks:
        return _cancelled(line, number)
    if known and not known.alive and not (packed and _is_apart(known, record)):
        return _remembered(known, line, number, record)
    if "exit" in record.events:
        return _finished(line, number)
    if known and known.alive:
        # It is between two lists.
        going = State.RUNNING if "started" in record.events else State.QUEUED
        return _status(line, number, going, "")
    whose = f"job {job}" if job else "its allocation"
    why = (
        f"{whose} is gone and left no exit record"
        if record.marks
        else f"Slurm does not know {whose}"
    )
    return _status(line, number, State.LOST, why)


def _going(
    line: dict[str, Any], number: int, listed: Listed, record: Record, *, packed: bool
) -> Status:
    begun = "started" in record.events and "exit" not in record.events
    if not packed:
        line = {**line, "host": line["host"] or next(iter(listed.nodes), None)}
    completing = listed.state == "COMPLETING"
    if listed.state == "RUNNING" and is_copying(record):
        return _status(line, number, State.RUNNING, COPYING)
    if packed and "exit" in record.events and not _is_told(record):
        return _finished(line, number)
    if (packed or completing) and "exit" in record.events:
        return (
            _finished(line, number)
            if _is_plain(record)
            else _status(line, number, State.RUNNING, "it is ending")
        )
    if begun and line["held"] is not None:
        return _status(line, number, State.RUNNING, parse_status(line).reason)
    if packed and begun:
        return _status(line, number, State.RUNNING, "")
    if packed and listed.state == "RUNNING":
        return _status(
            line, number, State.QUEUED, "next in an allocation that runs", job=listed.job
        )
    if listed.state in {"RUNNING", "COMPLETING", "SUSPENDED"} and not packed:
        why = "it is suspended by the cluster" if listed.state == "SUSPENDED" else ""
        return _status(line, number, State.RUNNING, why)
    return _status(
        line, number, State.QUEUED, explain_waiting(listed.reason, partition=listed.partition)
    )


def _finished(line: dict[str, Any], number: int) -> Status:
    status = parse_status(line)
    if line.get("warned") and status.state is State.FAILED:
        why = (
            "Slurm would not queue it again; `bay logs` shows why"
            if line.get("cut")
            else "it had written nothing new under BAY_OUT to go on from"
        )
        return _status(
            line, number, State.FAILED, f"its time was up, and {why}", cause=Cause.TIMEOUT
        )
    return _numbered(status, line, number)


def _cancelled(line: dict[str, Any], number: int) -> Status:
    if (line.get("code") == 0 and not line.get("signal")) or line.get("phase") == HELD:
        return _finished(line, number)
    started = "cancelled" if line.get("started") else "cancelled before it started"
    return _status(line, number, State.CANCELLED, started)


def _remembered(known: Listed, line: dict[str, Any], number: int, record: Record) -> Status:
    state, cause, reason = ended_status(
        known.state, known.exit_code, reason=known.reason, time_limit=known.time_limit
    )
    if "exit" in record.events and cause in {None, Cause.EXIT}:
        return _finished(line, number)
    line = {**line, "host": line.get("host") or next(iter(known.nodes), None)}
    if cause is Cause.EXIT and "claim" not in record.marks:
        return _status(line, number, state, UNBEGUN, cause=Cause.SETUP)
    return _status(line, number, state, reason, cause=cause, exit_code=_code(known.exit_code))


def _status(
    line: dict[str, Any],
    number: int,
    state: State,
    reason: str,
    *,
    cause: Cause | None = None,
    exit_code: int | None = None,
    job: str = "",
) -> Status:
    return Status(
        state=state,
        cause=cause,
        exit_code=line.get("code", exit_code) if state.final else None,
        reason=reason,
        allocation=line.get("allocation") or job,
        nodes=(line["host"],) if line.get("host") else (),
        started_at=line.get("started"),
        ended_at=line.get("ended") if state.final else None,
        metrics=line.get("metrics") or {},
        attempt=number,
    )


def _numbered(status: Status, line: dict[str, Any], number: int) -> Status:
    return Status(**{**vars(status), "attempt": number, "allocation": line.get("allocation") or ""})


def _is_plain(record: Record) -> bool:
    """Whether the exit record says all there is to say."""
    if record.events["exit"].get("phase") == HELD:
        return True
    if "cancel" in record.marks or "timeout" in record.marks:
        return True
    ended = record.events["exit"]
    code = ended.get("code")
    return not ended.get("signal") and code is not None and code <= KILLED


def _is_told(record: Record) -> bool:
    """Whether somebody told it to end, and it was neither the lab nor its own time limit."""
    ended = record.events["exit"]
    # Slurm tells all processes, and the command may have gone before run.sh heard of it.
    told = ended.get("signal") or ended.get("code") == KILLED + signal.SIGTERM
    return bool(told) and not _is_plain(record)


def _is_apart(known: Listed, record: Record) -> bool:
    """Whether the end of its allocation is none of a run's."""
    word, ended = known.state.partition(" ")[0], record.events.get("exit")
    if ended is None:
        return word in {"COMPLETED", "FAILED"}
    killed = _is_told(record) or ended.get("code") == KILLED + signal.SIGKILL
    at, over = ended.get("at"), parse_moment(known.ended_at)
    long_before = at is not None and over is not None and over - at > SAME_END_S
    return word != "OUT_OF_MEMORY" and (not killed or long_before)


def _code(exit_code: str) -> int | None:
    code, number = parse_exit(exit_code)
    return KILLED + number if number else code
