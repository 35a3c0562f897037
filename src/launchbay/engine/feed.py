"""Sending what waits on this side: what a site had no room for, and what an ended bay left over."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from launchbay.backends.names import QUEUE, queue_id
from launchbay.core.backend import Feeding
from launchbay.core.errors import BayError, TargetError
from launchbay.core.run import Handle, State, Status
from launchbay.engine.plans import kept_plans, mark_sent
from launchbay.engine.project import adopted_launch, launch_lives
from launchbay.engine.sending import send, stage
from launchbay.engine.watch import by_place
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.plans import Kept


def feed(lab: Lab, runs: Iterable[Run]) -> list[Run]:
    """Send what waits on this side, as far as there is room; returns the runs that were sent.

    Only what was kept as a plan can be: the rest is for the next `bay run`. What somebody is
    sending just now is left alone.
    """
    sent: list[Run] = []
    full: set[str] = set()
    for tag in dict.fromkeys(run.launch for run in _in_turn(lab, runs)):
        with adopted_launch(lab.project, tag) as folder:
            if folder is None:
                continue
            for kept in kept_plans(folder, unsent=True):
                if kept.target in full:
                    continue
                try:
                    now = _send_kept(lab, kept)
                except BayError as err:
                    # A secret that only another shell has may be missing, too.
                    lab.tell(f"{kept.target} cannot be fed: {err}")
                    full.add(kept.target)
                    continue
                sent += [run for run in now if run.native_id]
                if any(run.waits_here for run in now):
                    full.add(kept.target)
    return sent


def revoke(lab: Lab, run_ids: Sequence[str]) -> None:
    """See to the end of what somebody wants ended, has no name yet and nobody is sending.

    A sender that was interrupted may not have heard that its target took them: the target is asked
    to keep them from starting. While it does not answer they stay as they are.
    """
    unsent = [run for run in lab.store.named(run_ids).values() if run.is_unsent]
    lives = {folder: launch_lives(folder) for folder in {lab.launch_folder(run) for run in unsent}}
    idle = [run for run in unsent if not lives[lab.launch_folder(run)]]
    # A reason to wait is what a target said that did not take it.
    gone = [run.id for run in idle if run.status.reason]
    unheard = [run for run in idle if not run.status.reason]
    names = _unheard_names(lab, unheard)
    for group in by_place(unheard):
        with suppress(TargetError):
            lab.targets.reopen(group[0]).cancel([names[run.id] for run in group])
            gone += [run.id for run in group]
    ended = Status(state=State.CANCELLED, reason="cancelled before it was sent")
    if gone:
        with lab.store.transaction():
            now = lab.store.named(gone).values()
            lab.store.update(replace(run, status=ended) for run in now if run.is_unsent)


def _unheard_names(lab: Lab, runs: Sequence[Run]) -> dict[str, Handle]:
    """What runs are called that were perhaps taken; the plans of each launch are read once."""
    folders = {run.id: lab.launch_folder(run) for run in runs}
    plans = {
        (folder, run_id): str(kept.record["id"])
        for folder in set(folders.values())
        for kept in kept_plans(folder)
        for run_id in kept.run_ids
    }
    return {
        run.id: _name(run.target, plans.get((folders[run.id], run.id), "-"), run.id, run.attempt)
        for run in runs
    }


def _name(target: str, plan: str, run_id: str, attempt: int) -> Handle:
    """What an attempt is called that has no name of its target's own yet."""
    return Handle(run_id, target, queue_id(QUEUE, plan, run_id, attempt))


def push(lab: Lab, runs: Sequence[Run]) -> None:
    """Have targets start what they have and nobody works on."""
    for group in by_place(run for run in runs if run.status.unfed):
        backend = lab.targets.reopen(group[0])
        if isinstance(backend, Feeding) and _is_our_turn(lab, group[0], "push"):
            try:
                backend.feed([run.handle for run in group])
            except TargetError as err:
                lab.tell(f"{group[0].target} cannot be fed: {err}")


def _in_turn(lab: Lab, runs: Iterable[Run]) -> list[Run]:
    """The runs that wait here for a place that nobody has tried to feed just now."""
    groups = by_place(run for run in runs if run.waits_here)
    return [run for group in groups if _is_our_turn(lab, group[0], "feed") for run in group]


def _is_our_turn(lab: Lab, run: Run, what: str) -> bool:
    """Whether a place may be fed by us now; looking at it and feeding it take turns alike."""
    every_s = lab.targets.reopen(run).look_every_s
    place = json.dumps([what, run.target, sorted(run.place.items())])
    return not every_s or lab.store.claim_look(place, now=lab.clock(), every_s=every_s)


def _send_kept(lab: Lab, kept: Kept) -> list[Run]:
    """Submit one plan; what was cancelled meanwhile is kept from starting first."""
    plan = kept.plan()
    attempts = {job.run_id: job.attempt for job in plan.jobs}
    stored = lab.store.runs(Query(ids=kept.run_ids))
    runs = [run for run in stored if run.attempt == attempts[run.id]]
    if not any(run.waits_here for run in runs):
        mark_sent(kept.path.parent.parent, plan.id, {run.id: run.native_id for run in runs})
        return []
    backend = lab.targets.reopen(runs[0])
    gone = {run.id for run in runs if run.state.final or run.cancel_requested}
    gone |= attempts.keys() - {run.id for run in runs}
    backend.cancel([_name(kept.target, plan.id, one, attempts[one]) for one in sorted(gone)])
    stage(lab, backend, {run.code for run in runs})
    return send(lab, [plan], [run for run in runs if run.id not in gone], backend)
