"""Whose turn it is, of Jobs that wait suspended because only so many may run at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def choose_next(jobs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of the Jobs that may start now, in their order.

    The same for everybody who sees the same Jobs, so that two who look at once choose alike.
    """
    waiting: list[Mapping[str, Any]] = []
    active = Counter[tuple[str, ...]]()
    begun: dict[str, str] = {}
    for job in jobs:
        plan, made = _plan(job), str(job["metadata"].get("creationTimestamp", ""))
        begun[plan] = min(made, begun.get(plan, made))
        if _is_over(job):
            continue
        if job["spec"].get("suspend") and _caps(job):
            waiting.append(job)
        else:
            active.update(_groups(job))
    chosen = []
    for job in sorted(waiting, key=lambda one: (begun[_plan(one)], *_turn(one))):
        if all(active[group] < most for group, most in _caps(job).items()):
            active.update(_groups(job))
            chosen.append(str(job["metadata"]["name"]))
    return chosen


def _is_over(job: Mapping[str, Any]) -> bool:
    marks = job["metadata"].get("annotations", {})
    conditions = job.get("status", {}).get("conditions", ())
    ended = any(
        one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in conditions
    )
    return ended or words.CANCELLED in marks or "deletionTimestamp" in job["metadata"]


def _caps(job: Mapping[str, Any]) -> dict[tuple[str, ...], int]:
    """How many there may be at once of each group that the Job is one of."""
    marks = job["metadata"].get("annotations", {})
    caps = {}
    for group, key in zip(_groups(job), (words.CAP, words.TARGET_CAP), strict=True):
        if key in marks:
            caps[group] = int(marks[key])
    return caps


def _groups(job: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    labels = job["metadata"].get("labels", {})
    experiment = (labels.get(words.PROJECT, ""), labels.get(words.EXPERIMENT, ""))
    return experiment, (labels.get(words.TARGET, ""),)


def _plan(job: Mapping[str, Any]) -> str:
    return str(job["metadata"].get("labels", {}).get(words.PLAN, ""))


def _turn(job: Mapping[str, Any]) -> tuple[int, str]:
    about = job["metadata"]
    return int(about.get("annotations", {}).get(words.INDEX, 0)), str(about["name"])
