"""Sending what waits on this side: what a site had no room for, and what an ended bay left over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from launchbay.backends.names import QUEUE, queue_id
from launchbay.core.backend import Feeding
from launchbay.core.errors import TargetError
from launchbay.core.run import Handle, State
from launchbay.engine.plans import kept_plans, mark_sent
from launchbay.engine.project import adopted_launch
from launchbay.engine.sending import send, stage
from launchbay.engine.watch import by_place
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.plans import Kept


def waits_here(run: Run) -> bool:
    """Whether it may be for this side to send it."""
    return run.state is State.CREATED and not run.native_id and not run.cancel_requested


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
                except TargetError as err:
                    lab.tell(f"{kept.target} cannot be fed: {err}")
                    full.add(kept.target)
                    continue
                sent += [run for run in now if run.native_id]
                if any(waits_here(run) for run in now):
                    full.add(kept.target)
    return sent


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
    groups = by_place(run for run in runs if waits_here(run))
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
    if not any(waits_here(run) for run in runs):
        mark_sent(kept.path.parent.parent, plan.id, {run.id: run.native_id for run in runs})
        return []
    backend = lab.targets.reopen(runs[0])
    gone = {run.id for run in runs if run.state.final or run.cancel_requested}
    gone |= attempts.keys() - {run.id for run in runs}
    backend.cancel(
        [
            Handle(run_id, kept.target, queue_id(QUEUE, plan.id, run_id, attempts[run_id]))
            for run_id in sorted(gone)
        ]
    )
    stage(lab, backend, {run.code for run in runs})
    return send(lab, [plan], [run for run in runs if run.id not in gone], backend)
