"""What a run's own records say of it, in the lab's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launchbay.core.run import Cause, State, Status

if TYPE_CHECKING:
    from collections.abc import Mapping


HELD = "held"
"""The phase of a run that had failed, and kept its place for somebody to look."""
COPYING = "it has ended and copies its outputs"
UNSHIPPED = "its outputs were not copied to where they were to go"
STATES = {
    "waiting": State.QUEUED,
    "running": State.RUNNING,
    "lost": State.LOST,
}


def parse_status(line: Mapping[str, Any]) -> Status:
    """What pack.py's `look` says of one run."""
    state = _ended_state(line) if line["state"] == "ended" else STATES[line["state"]]
    reason = _reason(line, state)
    if line.get("unshipped"):
        reason = "; ".join(filter(None, [reason, f"{UNSHIPPED}: {line['unshipped']}"]))
    return Status(
        state=state,
        cause=_cause(line) if state is State.FAILED else None,
        exit_code=line.get("code"),
        reason=reason,
        nodes=(line["host"],) if line.get("host") else (),
        started_at=line.get("started"),
        ended_at=line.get("ended"),
        metrics=line.get("metrics") or {},
    )


def _ended_state(line: Mapping[str, Any]) -> State:
    if line["phase"] == HELD:
        return State.FAILED
    if line["code"] == 0 and not line["signal"]:
        return State.SUCCEEDED
    if line["stop"] == "cancel":
        return State.CANCELLED
    return State.SUCCEEDED if line["code"] == 0 and line["stop"] != "timeout" else State.FAILED


def _cause(line: Mapping[str, Any]) -> Cause:
    if line["phase"] == HELD:
        return Cause.EXIT
    if line["stop"] == "timeout":
        return Cause.TIMEOUT
    return Cause.SETUP if line["phase"] == "setup" else Cause.EXIT


def _reason(line: Mapping[str, Any], state: State) -> str:
    match state:
        case State.QUEUED:
            ahead = (
                f"{line['ahead']} before it in this machine's queue" if line["ahead"] else "next"
            )
            return f"{ahead}; {line['why']}" if line["why"] else ahead
        case State.RUNNING if line.get("copying"):
            return COPYING
        case State.RUNNING if line.get("held") is not None:
            return f"it failed with code {line['held']} and keeps its place; `bay shell` goes there"
        case State.LOST if line["why"] == "unknown":
            return "the machine does not know it"
        case State.LOST:
            return str(line["why"])
        case State.FAILED:
            return _failure(line)
        case State.CANCELLED:
            return "cancelled before it started" if line["code"] is None else "cancelled"
    return ""


def _failure(line: Mapping[str, Any]) -> str:
    code = line["code"]
    if line["stop"] == "timeout" and line["phase"] != HELD:
        return "its time limit was over"
    if line["phase"] == "setup" and not line.get("why"):
        return f"its set-up failed with code {code}"
    if line.get("why"):
        return str(line["why"])
    if code == 128 + 9:
        return "killed by signal 9; often the kernel's, for want of memory"
    if code == 127:  # noqa: PLR2004
        return (
            "exit code 127: the command was not found; is it on the PATH there, or can `python:` "
            "or `setup:` bring it?"
        )
    return f"exit code {code}"
