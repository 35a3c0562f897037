"""Trying again what failed in a way that its `retries` names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from launchbay.core.errors import BayError, Overtaken
from launchbay.core.run import FAILURES, Cause, State
from launchbay.engine.again import Rerun, read_job, rerun
from launchbay.engine.logs import read_end
from launchbay.engine.plans import kept_plans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

ANY = "any"
LOST = "lost"
CAUSES = frozenset({*Cause, ANY, LOST})


def retry(lab: Lab, runs: Sequence[Run]) -> list[Run]:
    """Send a further attempt of each run that failed and may be tried again.

    Whoever comes second, in another terminal, finds that the run has a further attempt.
    """
    ours = (run for run in runs if run.project == lab.project.id)
    failed = {run.id: run for run in ours if run.state in FAILURES}
    policies = _Policies(lab)
    sent: list[Run] = []
    for seen in failed.values():
        retries = policies.retries(seen)
        # One after the other: over SSH each takes a while, and somebody may cancel the rest.
        if retries and (run := _still_failed(lab, seen)) and is_retried(lab, run, retries):
            sent += _try_again(lab, run)
    return sent


def _still_failed(lab: Lab, seen: Run) -> Run | None:
    """The run as the index has it now; None where it went on, or nobody wants it any more."""
    run = lab.store.named([seen.id]).get(seen.id)
    if run is None or run.cancel_requested:
        return None
    return run if run.state in FAILURES and run.attempt == seen.attempt else None


def _try_again(lab: Lab, run: Run) -> list[Run]:
    try:
        sent = rerun(lab, [run], Rerun())
    except Overtaken:
        return []
    except BayError as err:
        lab.tell(f"{run.suffix} cannot be tried again: {err}")
        return []
    lab.tell(f"{run.suffix} is tried again: {run.status.reason}")
    return sent


class _Policies:
    """What launches said of trying again; each is read once, whatever it has of failed runs."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._kept: dict[Path, dict[str, Mapping[str, int]]] = {}

    def retries(self, run: Run) -> Mapping[str, int]:
        """The causes for which a run is tried again, and how often."""
        folder = self._lab.launch_folder(run)
        if folder not in self._kept:
            jobs = (job for kept in kept_plans(folder) for job in kept.jobs())
            self._kept[folder] = {job.run_id: job.policy.retries for job in jobs}
        if run.id in self._kept[folder]:
            return self._kept[folder][run.id]
        try:
            return read_job(self._lab, run).policy.retries
        except BayError:
            return {}


def is_retried(lab: Lab, run: Run, retries: Mapping[str, int]) -> bool:
    """Whether the attempts that failed so far leave one to be tried."""
    failures = sum(attempt.status.state in FAILURES for attempt in lab.store.attempts(run.id))
    cause = LOST if run.state is State.LOST else str(run.status.cause or Cause.EXIT)
    if cause in retries:
        return failures <= retries[cause]
    patterns = {key: number for key, number in retries.items() if key not in CAUSES}
    log = read_end(lab, run) if patterns else ""
    for pattern, number in patterns.items():
        if re.search(pattern, log):
            return failures <= number
    return failures <= retries.get(ANY, -1)
