"""Which runs somebody means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.core.run import Run, State
    from launchbay.runstore.store import RunStore


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What was typed to say which runs are meant; what is not given does not matter."""

    ids: tuple[str, ...] = ()
    experiment: str | None = None
    states: tuple[State, ...] = ()
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Words that runs were given, or the names of launches."""
    since: float | None = None
    project: str | None = None
    """A project's id; None is everywhere."""

    @property
    def given(self) -> bool:
        """Whether anything was said at all."""
        return bool(
            self.ids
            or self.experiment
            or self.states
            or self.only
            or self.targets
            or self.tags
            or self.since
        )


def select(store: RunStore, selection: Selection) -> list[Run]:
    """The runs meant, oldest first, each once.

    Raises:
        BadRequest: when a name means nothing, or several runs where one is meant.
    """
    if selection.experiment is not None:
        _check_experiment(store, selection.experiment, selection.project)
    query = Query(
        project=selection.project,
        experiment=selection.experiment,
        states=selection.states,
        targets=selection.targets,
        since=selection.since,
    )
    if not selection.ids:
        return _filtered(store.runs(query), selection)
    named = [run for word in selection.ids for run in _resolve(store, word, selection.project)]
    if not (selection.experiment or selection.states or selection.targets or selection.since):
        return _filtered(list({run.id: run for run in named}.values()), selection)
    wanted = {run.id for run in named}
    return _filtered([run for run in store.runs(query) if run.id in wanted], selection)


def newest(store: RunStore, project: str | None) -> Run:
    """The newest run.

    Raises:
        BadRequest: when there is none.
    """
    found = store.runs(Query(project=project, last=1))
    if not found:
        raise BadRequest("there are no runs yet", hint="start one with `bay run`")
    return found[0]


def _resolve(store: RunStore, word: str, project: str | None) -> list[Run]:
    found = store.find(word, project)
    if not found:
        # Before ends of ids: a short name must not be taken for a chance ending.
        of_experiment = store.runs(Query(project=project, experiment=word))
        if of_experiment:
            return of_experiment
        found = store.find_named(word, project)
    if len(found) == 1:
        return found
    if found:
        listed = ", ".join(f"`{run.id}`" for run in found[-10:])
        raise BadRequest(f"`{word}` may mean {len(found)} runs", hint=f"type more of one: {listed}")
    known = {run.name for run in store.runs(Query(project=project, last=1000))}
    known |= {name for name, *_ in store.experiments(Query(project=project))}
    near = suggest(word, known) or ""
    hint = near if near.startswith("did") else "`bay ls --all` shows what there is"
    raise BadRequest(f"no run or experiment is called `{word}`", hint=hint)


def _check_experiment(store: RunStore, name: str, project: str | None) -> None:
    known = {experiment for experiment, *_ in store.experiments(Query(project=project))}
    if name not in known:
        raise BadRequest(f"there is no experiment `{name}`", hint=suggest(name, known))


def _filtered(runs: list[Run], selection: Selection) -> list[Run]:
    tags = set(selection.tags)
    if tags:
        runs = [run for run in runs if tags & {*run.tags, run.launch}]
    return _only(runs, selection.only)


def _only(runs: list[Run], only: Mapping[str, Sequence[str]]) -> list[Run]:
    if not only or not runs:
        return runs
    known = {key for run in runs for key in run.params}
    for key in only:
        if key not in known:
            raise BadRequest(f"no run has a parameter `{key}`", hint=suggest(key, known))
    return [
        run for run in runs if all(run.params.get(key) in values for key, values in only.items())
    ]
