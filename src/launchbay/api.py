"""Launchbay from Python: the same runs as on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

from launchbay.config.build import read_grids
from launchbay.core.run import Run, State
from launchbay.core.sweep import Choice
from launchbay.engine.logs import read_all
from launchbay.engine.open import open_lab
from launchbay.engine.results import tabulate
from launchbay.engine.settings import Wish, read_settings
from launchbay.engine.steps import Request

if TYPE_CHECKING:
    from launchbay.config.files import Value
    from launchbay.core.sweep import Point
    from launchbay.engine.lab import Lab
    from launchbay.engine.results import Cell

__all__ = ["Runs", "open_lab", "run"]

Scalar = str | int | float | bool
Params = Mapping[str, object]


class Runs(Sequence[Run]):
    """The runs of one call, in the order of the grid; each item is a run as last seen."""

    def __init__(self, lab: Lab, runs: Sequence[Run]) -> None:
        self._lab = lab
        self._runs = list(runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        states = ", ".join(f"{run.suffix} {run.state}" for run in self._runs[:10])
        return f"Runs({len(self)}: {states}{' …' if len(self) > 10 else ''})"  # noqa: PLR2004

    @property
    def states(self) -> dict[str, State]:
        """Where each run stands now, by its id."""
        self._runs = list(self._lab.refresh(self._runs).runs)
        return {run.id: run.state for run in self._runs}

    def wait(self) -> Runs:
        """These runs, once all have ended."""
        for seen in self._lab.follow(self._lab.catch_up(self._runs)):
            self._runs = list(seen.runs)
        return self

    def results(self) -> list[dict[str, Cell]]:
        """A dict a run: parameters that vary, metrics, state, time; for pandas."""
        self._runs = list(self._lab.refresh(self._runs).runs)
        table = tabulate(self._runs, now=self._lab.clock())
        return [dict(zip(table.columns, row, strict=True)) for row in table.rows]

    def logs(self) -> dict[str, str]:
        """What each run has printed, by its id."""
        return {run.id: read_all(self._lab, run) for run in self._runs}

    def outputs(self) -> dict[str, Path]:
        """Each run's output folder on this machine, by its id."""
        return {run.id: self._lab.folder(run) / "out" for run in self._runs}

    def cancel(self) -> None:
        """Ask for the end of those that have not ended."""
        self._lab.cancel(self._lab.refresh(self._runs).runs)


def run(
    command: str | Sequence[str],
    *,
    params: Params | Sequence[Params] | None = None,
    base: Params | None = None,
    each: Callable[[dict[str, str]], Mapping[str, Scalar] | None] | None = None,
    target: str | None = None,
    name: str | None = None,
    again: bool = False,
    folder: Path | str | None = None,
    **resources: Scalar,
) -> Runs:
    """Run a command over a grid, as `bay run` does, and return its runs without waiting.

    What succeeded before with the same parameters and command is not run again; it is among
    the runs all the same.

    Args:
        command: shell text with `<key>` placeholders, or words; words get keys that no
            placeholder uses appended as `--key value`.
        params: each parameter's value or values; `"0..4"` is a range. All that `params:` of a
            file may say is understood: groups, nested keys, a list of grids, `zip`, `exclude`.
        base: parameters below those; the same key of `params` goes over it.
        each: is given every point, and returns the one to run, or None to leave it out.
        target: where to run; the default target if not given.
        name: the experiment's name.
        again: whether to run everything once more.
        folder: where the project is; here if not given.
        resources: `gpus`, `cpus`, `memory`, `time`, `parallel`, … as on the command line.
    """
    settings = read_settings(Path(folder or ".").absolute())
    lab = open_lab(settings=settings)
    words = () if isinstance(command, str) else tuple(command)
    wish = Wish(
        words=words,
        script=command if isinstance(command, str) else "",
        grids=tuple(read_grids(_as_text(params or {}), _as_text(base or {}))),
        resources={key: str(value) for key, value in resources.items()},
        target=target,
        name=name,
    )
    experiment, chosen = settings.experiment(wish)
    lab.project = replace(lab.project, name=experiment.project)
    if lab.project.id:
        lab.refresh(lab.unfinished(lab.project.id))
    listing = settings.scan(experiment, lab.project.bay)
    request = Request(experiment=experiment, choice=Choice(hook=_hook(each)), again=again)
    draft = lab.draft(request, target=chosen, listing=listing)
    sent = {run.identity: run for run in lab.launch(draft)} if draft.to_submit else {}
    before = [step.run.id for step in draft.steps if step.run]
    known = {run.identity: run for run in lab.store.named(before).values()}
    return Runs(lab, [*{**known, **sent}.values()])


def _as_text(value: object) -> Value:
    """What a file would have said: mappings, lists, and text for everything else."""
    match value:
        case str():
            return value
        case Mapping():
            return {str(key): _as_text(item) for key, item in value.items()}
        case list() | tuple() | range():
            return [_as_text(item) for item in value]
    # Arrays, without loading the library that they come from.
    listed = getattr(value, "tolist", None)
    return _as_text(listed()) if callable(listed) else str(value)


def _hook(
    each: Callable[[dict[str, str]], Mapping[str, Scalar] | None] | None,
) -> Callable[[Point], Point | None] | None:
    if each is None:
        return None

    def hook(point: Point) -> Point | None:
        changed = each(dict(point))
        return None if changed is None else {key: str(value) for key, value in changed.items()}

    return hook
