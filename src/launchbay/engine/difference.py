"""What a file describes against what is stored of its experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from launchbay.core.command import render
from launchbay.engine.steps import render_resources
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from launchbay.engine.lab import Lab
    from launchbay.engine.launch import Draft
    from launchbay.engine.steps import Step


@dataclass(frozen=True, kw_only=True)
class Change:
    """One run that is not as the file would have it."""

    sign: Literal["+", "~", "-"]
    """To come, changed, or no longer described."""
    name: str
    what: str


def differences(lab: Lab, draft: Draft, steps: Iterable[Step]) -> Iterator[Change]:
    """What would be new, what was run otherwise, and what the file describes no more."""
    described: set[str] = set()
    for step in steps:
        described.add(step.identity)
        if step.run is None:
            yield Change(sign="+", name=step.name, what="never run")
        elif what := "; ".join(_changes(step, draft)):
            yield Change(sign="~", name=step.run.id, what=what)
    query = Query(project=lab.project.id, experiment=draft.request.experiment.name)
    stored = {run.identity: run for run in lab.store.runs(query)} if lab.project.id else {}
    for identity, run in stored.items():
        if identity not in described and run.target == draft.place.name:
            yield Change(sign="-", name=run.id, what=f"{run.state}; no longer described")


def _changes(step: Step, draft: Draft) -> Iterator[str]:
    run = step.run
    if run is None:
        return
    if not run.state.final:
        yield str(run.state)
    elif run.state != "succeeded":
        yield f"{run.state}, would run again"
    command = draft.vault.mask(render(step.command))
    if run.command != command:
        yield f"command was `{run.command}`"
    now = render_resources(step.recipe.resources)
    for key in sorted({*run.resources, *now}):
        if run.resources.get(key) != now.get(key):
            yield f"{key} was {run.resources.get(key, 'unset')}, is {now.get(key, 'unset')}"
    if run.code not in draft.same_code:
        yield "other code"
