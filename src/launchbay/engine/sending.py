"""Handing plans to their target: code first, and every answer stored as it comes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from launchbay.core import rundir
from launchbay.core.backend import Plan, Refusal, Staging
from launchbay.core.errors import TargetError
from launchbay.core.run import Cause, Run, State, Status
from launchbay.engine.plans import mark_sent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from launchbay.core.backend import Backend
    from launchbay.core.run import Handle
    from launchbay.engine.lab import Lab

STORE_EVERY_S = 0.1


def stage(lab: Lab, backend: Backend, codes: Iterable[str]) -> None:
    """Have frozen code where the backend wants it."""
    if isinstance(backend, Staging):
        for code in codes:
            backend.stage(code, rundir.code_folder(lab.project.bay, code))


def send(lab: Lab, plans: Sequence[Plan], runs: Sequence[Run], backend: Backend) -> list[Run]:
    """Submit plans whose runs are stored; answers are stored as they come."""
    by_id = {run.id: run for run in runs}
    for plan in plans:
        ids = {job.run_id for job in plan.jobs}
        if ids <= lab.store.unwanted(sorted(ids)):
            # Cancelled while those before it were sent: whoever looks next sees to their end.
            continue
        waits = False
        heard: list[Run] = []
        stored_at = lab.clock()
        try:
            for answer in backend.submit(plan):
                waits |= isinstance(answer, Refusal) and answer.transient
                if answer.run_id not in by_id:
                    continue
                by_id[answer.run_id] = accepted(by_id[answer.run_id], answer, lab.clock())
                heard.append(by_id[answer.run_id])
                # A transaction for each of a thousand that come at once would be the dearest part.
                if lab.clock() - stored_at > STORE_EVERY_S:
                    lab.store.update(heard)
                    heard, stored_at = [], lab.clock()
        finally:
            lab.store.update(heard)
            _end_unwanted(lab, [by_id[one] for one in sorted(ids & by_id.keys())], backend)
        if waits:
            # What comes after it would not fare better, and may not overtake it.
            by_id |= _held_back(lab, by_id[plan.jobs[0].run_id], by_id.values())
            break
        names = {
            job.run_id: by_id[job.run_id].native_id for job in plan.jobs if job.run_id in by_id
        }
        tag = next((by_id[run_id].launch for run_id in names), "")
        mark_sent(lab.project.launch_folder(tag), plan.id, names)
    return list(by_id.values())


def _end_unwanted(lab: Lab, runs: Iterable[Run], backend: Backend) -> None:
    """End what somebody cancelled while it was being sent: whoever did could not know its name."""
    sent = {run.id: run for run in runs if run.native_id}
    unwanted = lab.store.unwanted(list(sent)) if sent else set()
    try:
        if unwanted:
            backend.cancel([sent[one].handle for one in sorted(unwanted)])
    except TargetError as err:
        named = " ".join(sent[one].suffix for one in sorted(unwanted)[:5])
        lab.tell(f"cancelled, and not ended yet: {err}; `bay cancel {named}` asks again")


def _held_back(lab: Lab, first: Run, runs: Iterable[Run]) -> dict[str, Run]:
    """The runs behind the first that has to wait on this side; they wait for the same."""
    behind = [run for run in runs if run.is_unsent]
    waiting = [replace(run, status=first.status, seen_at=first.seen_at) for run in behind]
    lab.store.update(waiting)
    return {run.id: run for run in waiting}


def accepted(run: Run, answer: Handle | Refusal, now: float) -> Run:
    """The run after its target took or refused it."""
    if isinstance(answer, Refusal) and answer.transient:
        waits = Status(state=State.CREATED, reason=f"waits on this side: {answer.reason}")
        return replace(run, status=waits, seen_at=now)
    if isinstance(answer, Refusal):
        refused = Status(
            state=State.FAILED, cause=Cause.REFUSED, reason=answer.reason, ended_at=now
        )
        return replace(run, status=refused, seen_at=now)
    queued = Status(state=State.QUEUED)
    return replace(run, native_id=answer.native_id, status=queued, seen_at=now)
