"""A lab over a target in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from launchbay.core.job import Argv, Policy, Recipe
from launchbay.core.sweep import Branch, Experiment, Grid, Span
from launchbay.engine.lab import Lab
from launchbay.engine.project import read_project
from launchbay.engine.settings import Settings
from launchbay.engine.steps import Request
from launchbay.engine.targets import Targets
from launchbay.runstore.store import Query, RunStore
from launchbay.testing.fakes import Clock, MemoryBackend

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from launchbay.core.run import Run, State
    from launchbay.engine.launch import Draft

SEEDS = Grid.of({"seed": Span(0, 2)})
BRANCH = Branch.__dataclass_fields__.keys()


@dataclass
class Bench:
    """A lab whose clock and target are moved by hand."""

    lab: Lab
    backend: MemoryBackend
    clock: Clock

    def experiment(self, **changes: object) -> Experiment:
        branch: dict[str, object] = {"command": Argv(("true",)), "grid": SEEDS}
        own = {key: changes.pop(key) for key in list(changes) if key in BRANCH}
        fields: dict[str, object] = {
            "name": "demo",
            "project": "demo",
            "branches": (Branch(**{**branch, **own}),),  # type: ignore[arg-type]
            "append": "--",
        }
        return Experiment(**{**fields, **changes})  # type: ignore[arg-type]

    def draft(self, experiment: Experiment | None = None, **flags: object) -> Draft:
        experiment = experiment or self.experiment()
        listing = self.lab.settings.scan(experiment, self.lab.project.bay)
        request = Request(experiment=experiment, **flags)  # type: ignore[arg-type]
        return self.lab.draft(request, target="memory", listing=listing)

    def apply(self, experiment: Experiment | None = None, **flags: object) -> list[Run]:
        draft = self.draft(experiment, **flags)
        return self.lab.launch(draft) if draft.to_submit else []

    def apply_with_retries(self, retries: Mapping[str, int]) -> list[Run]:
        """Three runs with this policy."""
        recipe = Recipe(policy=Policy(retries=retries))
        return self.apply(self.experiment(recipe=lambda _: recipe))

    def stored(self) -> list[Run]:
        return self.lab.store.runs(Query())

    def look(self) -> list[State]:
        self.lab.refresh(self.stored())
        return [run.state for run in self.stored()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "code.py").write_text("1")
    clock, backend = Clock(), MemoryBackend(program=lambda job: (0, "ok\n"))
    project = read_project(folder)
    targets = Targets(
        project, lambda: {"memory": {"kind": "memory"}}, load=lambda kind: lambda opening: backend
    )
    store = RunStore(tmp_path / "index.sqlite")
    lab = Lab(
        project, store, targets=targets, settings=Settings(folder), clock=clock, sleep=clock.sleep
    )
    return Bench(lab, backend, clock)
