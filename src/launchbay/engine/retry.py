"""Trying again what failed in a way that its `retries` names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from launchbay.core.errors import BayError
from launchbay.core.run import Cause, State
from launchbay.engine.again import Rerun, read_job, rerun
from launchbay.engine.logs import read_end
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

ANY = "any"
LOST = "lost"
CAUSES = frozenset({*Cause, ANY, LOST})


def retry(lab: Lab, runs: Sequence[Run]) -> list[Run]:
    """Send a further attempt of each run that failed and may be tried again.

    Whoever comes second, in another terminal, finds that the run has a further attempt.
    """
    once = {run.id: run for run in runs}.values()
    failed = [run for run in once if run.state in {State.FAILED, State.LOST}]
    again = [run for run in failed if not run.cancel_requested and _may_try(lab, run)]
    stored = (
        {run.id: run for run in lab.store.runs(Query(ids=[run.id for run in again]))}
        if again
        else {}
    )
    sent: list[Run] = []
    for run in again:
        if stored[run.id].attempt != run.attempt or not stored[run.id].state.final:
            continue
        lab.tell(f"{run.suffix} is tried again: {run.status.reason}")
        try:
            sent += rerun(lab, [run], Rerun())
        except BayError as err:
            lab.tell(f"{run.suffix} cannot be tried again: {err}")
    return sent


def _may_try(lab: Lab, run: Run) -> bool:
    try:
        retries = read_job(lab, run).policy.retries
    except BayError:
        return False
    return bool(retries) and is_retried(lab, run, retries)


def is_retried(lab: Lab, run: Run, retries: Mapping[str, int]) -> bool:
    """Whether the attempts that failed so far leave one to be tried."""
    failures = sum(
        attempt.status.state in {State.FAILED, State.LOST} for attempt in lab.store.attempts(run.id)
    )
    cause = LOST if run.state is State.LOST else str(run.status.cause or Cause.EXIT)
    if cause in retries:
        return failures <= retries[cause]
    patterns = {key: number for key, number in retries.items() if key not in CAUSES}
    log = read_end(lab, run) if patterns else ""
    for pattern, number in patterns.items():
        if re.search(pattern, log):
            return failures <= number
    return failures <= retries.get(ANY, -1)
