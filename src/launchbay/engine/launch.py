"""Sending what was planned: remember first, then act."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from launchbay.core.backend import Foreground, Plan, Weighing
from launchbay.core.command import render
from launchbay.core.errors import BadRequest, Unsupported
from launchbay.core.job import IN_IMAGE, Job
from launchbay.core.naming import launch_tag, run_id
from launchbay.core.python import Python, render_setup
from launchbay.core.run import Run, State, Status
from launchbay.core.sweep import Choice
from launchbay.engine.environments import build_environments, foresee_environments
from launchbay.engine.plans import keep_plans
from launchbay.engine.project import Project, ensure_project, owned_launch
from launchbay.engine.record import record_launch
from launchbay.engine.sending import accepted, send, stage
from launchbay.engine.shipping import Arranger
from launchbay.engine.steps import Frame, Request, SameCode, Step, render_resources
from launchbay.sync.snapshot import Listing, freeze

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from launchbay.core.job import Recipe, Ship
    from launchbay.engine.lab import Lab
    from launchbay.engine.settings import Settings, Wish
    from launchbay.engine.targets import Place
    from launchbay.engine.vault import Vault


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Everything that is decided before anything is written or sent."""

    request: Request
    project: Project
    place: Place
    listing: Listing
    same_code: SameCode
    """Frozen code that today's differs from in nothing but the experiment file."""
    settings: Settings
    steps: tuple[Step, ...] = ()

    @property
    def vault(self) -> Vault:
        """Values that are not shown."""
        return self.settings.vault

    @property
    def to_submit(self) -> list[Step]:
        """The steps that send something."""
        return [step for step in self.steps if step.action == "submit"]

    @property
    def under_older_code(self) -> list[Run]:
        """Runs that succeeded, but with other code than today's."""
        return [
            step.run
            for step in self.steps
            if step.run
            and step.how == "skip"
            and step.run.state is State.SUCCEEDED
            and step.run.code not in self.same_code
        ]


def outline(
    lab: Lab, request: Request, *, target: str, listing: Listing, looking: bool = False
) -> tuple[Draft, Iterator[Step]]:
    """A draft without its steps, and these as they are decided; writes nothing.

    Args:
        lab: the lab.
        request: what is asked for.
        target: where.
        listing: today's code.
        looking: whether to look round at the target, or to take it as last seen.
    """
    place = lab.targets.open(target, look="lately" if looking else "never")
    draft = Draft(
        request=request,
        project=lab.project,
        place=place,
        listing=listing,
        same_code=SameCode(lab, listing),
        settings=lab.settings,
    )
    return draft, _frame(lab, draft, lab.clock()).steps()


def _frame(lab: Lab, draft: Draft, now: float) -> Frame:
    return Frame(
        request=draft.request,
        project=draft.project,
        target=draft.place.name,
        same_code=draft.same_code,
        store=lab.store,
        now=now,
    )


def draft(lab: Lab, request: Request, *, target: str, listing: Listing) -> Draft:
    """Expand the grid and decide about each point; writes nothing."""
    found, steps = outline(lab, request, target=target, listing=listing, looking=True)
    return replace(found, steps=tuple(steps))


def draft_one(lab: Lab, wish: Wish) -> Draft:
    """The first run alone, as if nothing had run before; the project is as it is called there.

    Raises:
        BadRequest: when the file describes no run.
    """
    experiment, target = lab.settings.experiment(wish)
    lab.project = replace(lab.project, name=experiment.project)
    listing = lab.settings.scan(experiment, lab.project.bay)
    request = Request(experiment=replace(experiment, always=True), choice=Choice(limit=1))
    found = draft(lab, request, target=target, listing=listing)
    if not found.steps:
        raise BadRequest("the file describes no run", hint="`bay plan` shows what it describes")
    return found


Deliver = Callable[[Sequence[Plan], Sequence[Run]], list[Run]]


def launch(lab: Lab, draft: Draft) -> list[Run]:
    """Freeze the code, build environments, remember the runs, send them; returns them as they are.

    Whatever interrupts this, the next launch of the same experiment goes on where it stopped.
    What others did since the draft is looked at again.
    """
    backend = draft.place.backend
    return _launch(lab, draft, lambda plans, runs: send(lab, plans, runs, backend))


def launch_here(lab: Lab, draft: Draft) -> tuple[Run, list[str]]:
    """Make the draft's first point ready as a new run, and return the argv that runs it.

    Raises:
        Unsupported: when the target is not this machine.
    """
    backend, request = draft.place.backend, draft.request
    if not isinstance(backend, Foreground):
        raise Unsupported(f"`{draft.place.name}` cannot run in this terminal")
    first = replace(
        draft,
        request=replace(
            request,
            experiment=replace(request.experiment, always=True),
            choice=replace(request.choice, limit=1),
        ),
        steps=tuple(replace(step, how="new") for step in draft.steps[:1]),
    )
    argv: list[str] = []

    def prepare(plans: Sequence[Plan], runs: Sequence[Run]) -> list[Run]:
        handle, words = backend.prepare(plans[0])
        argv.extend(words)
        ready = accepted(runs[0], handle, lab.clock())
        lab.store.update([ready])
        return [ready]

    (run,) = _launch(lab, first, prepare)
    return run, argv


def _launch(lab: Lab, draft: Draft, deliver: Deliver) -> list[Run]:
    lab.project = project = ensure_project(lab.project)
    draft = replace(draft, project=project)
    snapshot = freeze(draft.listing, project.bay)
    # `bay clean` leaves alone what is young.
    os.utime(snapshot.tree)
    # Before anything is cancelled or sent: a failure leaves nothing half done.
    activations = build_environments(
        draft.place,
        [step.recipe.python for step in draft.to_submit],
        code=snapshot.id,
        tree=snapshot.tree,
        tell=lab.tell,
    )
    origin = _lay_out(lab, draft)
    stage(lab, draft.place.backend, {snapshot.id})
    ships = [step.recipe.ship for step in draft.to_submit]
    bulky = carry_code(lab, draft.place, [snapshot.id], ships)
    replaced = [step.run for step in draft.steps if step.how == "replace" and step.run]
    if replaced:
        lab.settle(replaced)
    tag = launch_tag()
    with owned_launch(project, tag) as folder:
        record_launch(lab, folder)
        made = _Launch(
            draft,
            code=snapshot.id,
            tag=tag,
            now=lab.clock(),
            activations=activations,
            origin=origin,
            bulky=bulky,
        )
        with lab.store.transaction():
            lab.store.add_project(project.id, name=project.name, folder=project.folder)
            steps = _decide_again(made, lab)
            taken = lab.store.suffixes()
            runs = [made.run(step, lambda name: _fresh_id(name, taken)) for step in steps]
            jobs = made.jobs(steps, runs)
            plans = draft.place.backend.plan(jobs)
            note_carriage(lab, folder, jobs)
            if not draft.place.is_here:
                keep_plans(folder, plans, target=draft.place.name, place=draft.place.where)
            lab.store.add(runs)
        # What an earlier launch left over has that one's code.
        stage(lab, draft.place.backend, {run.code for run in runs} - {snapshot.id})
        return deliver(plans, runs)


def _lay_out(lab: Lab, draft: Draft) -> str:
    if draft.request.origin is None:
        return ""
    from launchbay.engine.origin import lay_out  # noqa: PLC0415 (few launches have one)

    return lay_out(lab, draft.request.origin, draft.place)


def preview(draft: Draft, steps: Sequence[Step]) -> list[str]:
    """Exactly what would be sent for these steps, the random end of each run id left open."""
    return [one.document for one in sketch(draft, steps)]


def sketch(
    draft: Draft,
    steps: Sequence[Step],
    *,
    tag: str = "",
    fresh_id: Callable[[str], str] = "{}-?????".format,
) -> list[Plan]:
    """The plans that would be sent for these steps.

    Args:
        draft: what they are of.
        steps: some of its steps.
        tag: the launch's, where there will be one.
        fresh_id: from the name of a run to its id.
    """
    made = _Launch(
        draft,
        code=draft.listing.id,
        tag=tag,
        now=0.0,
        activations=foresee_environments(
            draft.place, [step.recipe.python for step in steps], tree=draft.project.folder
        ),
    )
    runs = [made.run(step, fresh_id) for step in steps]
    return draft.place.backend.plan(made.jobs(steps, runs))


class Check:
    """Raises `Unsupported` when the target cannot do what a step asks, once for each kind of ask.

    A sweep has many steps and few kinds of need; each is tried on the backend.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._seen: dict[int, Recipe] = {}

    def __call__(self, step: Step) -> Step:
        """The step, if it can be done."""
        # Points that agree in what they are given share one recipe.
        if step.action == "submit" and id(step.recipe) not in self._seen:
            self._seen[id(step.recipe)] = step.recipe
            preview(self._draft, [step])
        return step


def _decide_again(made: _Launch, lab: Lab) -> list[Step]:
    """The steps that still have to be sent: others may have been quicker."""
    draft = made.draft
    draft.same_code.add(made.code)
    steps = _frame(lab, draft, made.now).again(draft.to_submit)
    return [step for step in steps if step.action == "submit"]


@dataclass(frozen=True)
class _Launch:
    """One launch: from steps to the rows and jobs that they become."""

    draft: Draft
    code: str
    tag: str
    now: float
    activations: Mapping[Python, str]
    origin: str = ""
    """The folder that `$BAY_FROM` names."""
    bulky: Mapping[str, str] = field(default_factory=dict)
    """Where code is that the target does not hold."""
    marked: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def run(self, step: Step, fresh_id: Callable[[str], str]) -> Run:
        """The row that is stored before anything is sent."""
        request, old = self.draft.request, step.run
        if step.how == "resend" and old:
            return replace(old, launch=self.tag, seen_at=self.now, cancel_requested=False)
        needs = render_resources(step.recipe.resources)
        if step.how in {"attempt", "replace"} and old:
            again = next_attempt(old, code=self.code, tag=self.tag, now=self.now)
            return replace(
                again,
                place=self.draft.place.where,
                resources=needs,
                note=request.note or old.note,
                tags=request.tags or old.tags,
            )
        return Run(
            id=fresh_id(step.name),
            name=step.name,
            experiment=request.experiment.name,
            project=self.draft.project.id,
            identity=step.identity,
            target=self.draft.place.name,
            place=self.draft.place.where,
            code=self.code,
            params=step.params,
            command=self.draft.vault.mask(render(step.command)),
            resources=needs,
            launch=self.tag,
            note=request.note,
            tags=request.tags,
            status=Status(state=State.CREATED),
            created_at=self.now,
        )

    def jobs(self, steps: Sequence[Step], runs: Sequence[Run]) -> list[Job]:
        """What the target is given for each row."""
        arrange = Arranger(
            settings=self.draft.settings,
            place=self.draft.place,
            project=self.draft.project.folder,
            launch=self.tag,
            bulky=self.bulky,
        )
        return [arrange(self._job(step, run)) for step, run in zip(steps, runs, strict=True)]

    def _options(self, recipe: Recipe) -> Mapping[str, Any]:
        """What only some kinds of target understand, one mapping for runs that agree."""
        if not self.draft.request.experiment.in_image:
            return recipe.options
        if id(recipe) not in self.marked:
            self.marked[id(recipe)] = {**recipe.options, "code": IN_IMAGE}
        return self.marked[id(recipe)]

    def _job(self, step: Step, run: Run) -> Job:
        experiment, recipe = self.draft.request.experiment, step.recipe
        return Job(
            run_id=run.id,
            attempt=run.attempt,
            name=run.name,
            experiment=experiment.name,
            command=step.command,
            params=step.params,
            env=recipe.env,
            secrets=recipe.secrets,
            modules=recipe.modules,
            python=str(recipe.python or ""),
            entry=render_setup(
                modules=recipe.modules,
                python=self.activations[recipe.python] if recipe.python else "",
            ),
            setup=recipe.setup,
            image=recipe.image,
            resources=recipe.resources,
            policy=recipe.policy,
            options=self._options(recipe),
            parallel=experiment.parallel,
            snapshot=run.code,
            project_folder=str(self.draft.project.folder),
            links=self.draft.listing.links if self.draft.place.is_here else {},
            folders=recipe.folders,
            ship=recipe.ship,
            fetch=recipe.fetch,
            subfolder=experiment.subfolder,
            outputs=experiment.outputs,
            metrics=experiment.metrics,
            origin=self.origin,
            labels=labels_of(run, self.draft.project),
        )


def carry_code(
    lab: Lab, place: Place, codes: Iterable[str], ships: Iterable[Ship | None]
) -> dict[str, str]:
    """Have code that the target does not hold in object storage; see `engine/bulky.py`."""
    if not isinstance(place.backend, Weighing):
        return {}
    from launchbay.engine import bulky  # noqa: PLC0415 (few launches have code of that size)

    return bulky.carry_code(lab, place.backend, codes, ships)


def note_carriage(lab: Lab, folder: Path, jobs: Sequence[Job]) -> None:
    """Keep with a launch where its runs copy their outputs to, and what is wanted of them here."""
    if any(job.ship or job.fetch for job in jobs):
        from launchbay.engine.homing import keep_carriage  # noqa: PLC0415

        keep_carriage(lab.settings, folder, jobs)


def next_attempt(run: Run, *, code: str, tag: str, now: float) -> Run:
    """The same run, about to be tried once more."""
    return replace(
        run,
        attempt=run.attempt + 1,
        native_id="",
        code=code,
        launch=tag,
        status=Status(state=State.CREATED),
        cancel_requested=False,
        suspect_since=None,
        seen_at=now,
    )


def _fresh_id(name: str, taken: set[str]) -> str:
    while True:
        fresh = run_id(name)
        suffix = fresh.rpartition("-")[2]
        if suffix not in taken:
            taken.add(suffix)
            return fresh


def labels_of(run: Run, project: Project) -> dict[str, str]:
    """What a run folder must hold so that the index can be rebuilt from it."""
    return {
        "project": run.project,
        "project_name": project.name,
        "identity": run.identity,
        "launch": run.launch,
        "note": run.note,
        "tags": json.dumps(list(run.tags)),
        "created_at": repr(run.created_at),
        "kind": run.place["kind"],
    }
