"""Planning what to run, and sending it: remember first, then act."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from launchbay.core.backend import Foreground, Plan, Refusal, Staging
from launchbay.core.command import fill, render
from launchbay.core.errors import Unsupported
from launchbay.core.job import Command, Job, Resources
from launchbay.core.naming import digest, launch_tag, run_id, run_name
from launchbay.core.quantity import render_span
from launchbay.core.run import Cause, Run, State, Status
from launchbay.core.sweep import Choice, Experiment, Grid
from launchbay.engine.project import Project, ensure_project, launch_lives, owned_launch
from launchbay.runstore.store import Query, RunStore
from launchbay.sync.compare import changed_paths
from launchbay.sync.provenance import Git, read_git
from launchbay.sync.snapshot import Listing, freeze

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from launchbay.core.backend import Backend
    from launchbay.core.run import Handle
    from launchbay.engine.lab import Lab
    from launchbay.engine.targets import Place

STORE_EVERY_S = 0.1
How = Literal["skip", "new", "attempt", "resend", "replace"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody asked for."""

    experiment: Experiment
    choice: Choice = field(default_factory=Choice)
    again: bool = False
    """Everything once more, as new runs."""
    changed_code: bool = False
    """What succeeded under other code once more, as new runs."""
    replace: bool = False
    """Cancel and send anew what waits or runs with other resources."""
    anywhere: bool = False
    """A success on another target counts."""
    note: str = ""
    tags: tuple[str, ...] = ()
    origin: str = ""
    """The folder that `$BAY_FROM` names."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One run of a plan: what will be done about it, and why."""

    name: str
    params: Mapping[str, str]
    command: Command
    identity: str
    how: How
    why: str
    run: Run | None = None
    """The run it was before."""

    @property
    def action(self) -> Literal["submit", "skip"]:
        """What happens, in the word that users see."""
        return "skip" if self.how == "skip" else "submit"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Everything that is decided before anything is written or sent."""

    request: Request
    project: Project
    place: Place
    listing: Listing
    steps: tuple[Step, ...]
    same_code: frozenset[str]
    """Ids of frozen code that today's differs from in nothing but the experiment file."""

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


def draft(lab: Lab, request: Request, *, target: str, listing: Listing) -> Draft:
    """Expand the grid and decide about each point; writes nothing."""
    place = lab.targets.open(target)
    points = list(_points(request, lab.project, place.name))
    same_code = _same_code(lab, points, listing)
    steps = _decide_all(points, request, lab.project, same_code, store=lab.store, now=lab.clock())
    return Draft(
        request=request,
        project=lab.project,
        place=place,
        listing=listing,
        steps=tuple(steps),
        same_code=same_code,
    )


def _same_code(lab: Lab, points: Sequence[_Point], listing: Listing) -> frozenset[str]:
    """Whose code today's is: adding a value to the experiment file changes no program."""
    query = Query(project=lab.project.id, identities=[point.identity for point in points])
    codes = {run.code for run in lab.store.runs(query)} if lab.project.id else set()
    path = lab.settings.path
    own = {str(path.relative_to(lab.project.folder))} if path else set()
    same = {listing.id}
    for code in codes - same:
        tree = lab.project.bay / "snapshots" / code
        if tree.is_dir() and set(changed_paths(listing, tree)) <= own:
            same.add(code)
    return frozenset(same)


Deliver = Callable[[Sequence[Plan], Sequence[Run]], list[Run]]


def launch(lab: Lab, plan: Draft) -> list[Run]:
    """Freeze the code, remember the runs, send them; returns the runs as they then are.

    Whatever interrupts this, the next launch of the same experiment goes on where it stopped.
    What others did since the draft is looked at again.
    """
    backend = plan.place.backend
    return _launch(lab, plan, lambda plans, runs: send(lab, plans, runs, backend))


def launch_here(lab: Lab, plan: Draft) -> tuple[Run, list[str]]:
    """Make the plan's first point ready as a new run, and return the argv that runs it.

    Raises:
        Unsupported: when the target is not this machine.
    """
    backend, request = plan.place.backend, plan.request
    if not isinstance(backend, Foreground):
        raise Unsupported(f"`{plan.place.name}` cannot run in this terminal")
    first = replace(
        plan,
        request=replace(
            request,
            experiment=replace(request.experiment, always=True),
            choice=replace(request.choice, limit=1),
        ),
        steps=tuple(replace(step, how="new") for step in plan.steps[:1]),
    )
    argv: list[str] = []

    def prepare(plans: Sequence[Plan], runs: Sequence[Run]) -> list[Run]:
        handle, words = backend.prepare(plans[0])
        argv.extend(words)
        ready = _accepted(runs[0], handle, lab.clock())
        lab.store.update([ready])
        return [ready]

    (run,) = _launch(lab, first, prepare)
    return run, argv


def _launch(lab: Lab, plan: Draft, deliver: Deliver) -> list[Run]:
    lab.project = project = ensure_project(lab.project)
    plan = replace(plan, project=project)
    replaced = [step.run for step in plan.steps if step.how == "replace" and step.run]
    if replaced:
        lab.settle(replaced)
    snapshot = freeze(plan.listing, project.bay)
    # `bay clean` leaves alone what is young.
    os.utime(snapshot.tree)
    tag = launch_tag()
    with owned_launch(project, tag) as folder:
        record_launch(lab, folder)
        made = _Launch(plan, code=snapshot.id, tag=tag, now=lab.clock())
        with lab.store.transaction():
            lab.store.add_project(project.id, name=project.name, folder=project.folder)
            steps = _decide_again(made, lab.store)
            taken = lab.store.suffixes()
            runs = [made.run(step, lambda name: _fresh_id(name, taken)) for step in steps]
            plans = plan.place.backend.plan(made.jobs(steps, runs))
            lab.store.add(runs)
        stage(lab, plan.place.backend, runs)
        return deliver(plans, runs)


def record_launch(lab: Lab, folder: Path) -> None:
    """What was typed, where the code came from, and in which environment."""
    project, tag = lab.project, folder.name
    _write_provenance(folder, read_git(project.folder))
    _write_environment(folder)
    lab.store.add_launch(tag, project=project.id, argv=sys.argv, created_at=lab.clock())


def stage(lab: Lab, backend: Backend, runs: Sequence[Run]) -> None:
    """Have the runs' code where the backend wants it."""
    if isinstance(backend, Staging):
        for code in {run.code for run in runs}:
            backend.stage(code, lab.project.bay / "snapshots" / code)


def send(lab: Lab, plans: Sequence[Plan], runs: Sequence[Run], backend: Backend) -> list[Run]:
    """Submit plans whose runs are stored; answers are stored as they come."""
    by_id = {run.id: run for run in runs}
    for plan in plans:
        heard: list[Run] = []
        stored_at = lab.clock()
        try:
            for answer in backend.submit(plan):
                by_id[answer.run_id] = _accepted(by_id[answer.run_id], answer, lab.clock())
                heard.append(by_id[answer.run_id])
                # A transaction for each of a thousand that come at once would be the dearest part.
                if lab.clock() - stored_at > STORE_EVERY_S:
                    lab.store.update(heard)
                    heard, stored_at = [], lab.clock()
        finally:
            lab.store.update(heard)
    return list(by_id.values())


def preview(plan: Draft) -> list[str]:
    """Exactly what would be sent, the random end of each run id left open."""
    made = _Launch(plan, code=plan.listing.id, tag="", now=0.0)
    runs = [made.run(step, lambda name: f"{name}-?????") for step in plan.to_submit]
    plans = plan.place.backend.plan(made.jobs(plan.to_submit, runs))
    return [one.document for one in plans]


def check(plan: Draft) -> None:
    """Raise `Unsupported` now when the target cannot do what the plan asks."""
    preview(plan)


def decide(
    run: Run | None, request: Request, *, same_code: Collection[str], lives: bool, now: float
) -> tuple[How, str]:
    """What to do about a point whose newest run is `run`, and why."""
    if run is None or request.experiment.always:
        return "new", "new"
    ago = f"{render_span(now - (run.status.ended_at or run.created_at))} ago"
    match run.state:
        case State.CREATED:
            if lives:
                return "skip", "another bay is sending it now"
            return "resend", "the bay that made it ended before it was sent"
        case State.QUEUED | State.RUNNING:
            changed = run.resources != render_resources(request.experiment.resources)
            if request.replace and (changed or request.again):
                return "replace", f"replaces the one {run.state}"
            return "skip", f"{run.state} as {run.suffix}"
        case State.SUCCEEDED:
            older = run.code not in same_code
            if request.again or (request.changed_code and older):
                return "new", "again" if request.again else "the code has changed"
            note = " under older code" if older else ""
            return "skip", f"succeeded on {run.target} {ago}{note} as {run.suffix}"
    return "attempt", f"attempt {run.attempt + 1}: {run.state} {ago}"


def _decide_again(made: _Launch, store: RunStore) -> list[Step]:
    """The steps that still have to be sent: others may have been quicker."""
    plan = made.plan
    points = _points(plan.request, plan.project, plan.place.name)
    same_code = plan.same_code | {made.code}
    steps = _decide_all(points, plan.request, plan.project, same_code, store=store, now=made.now)
    # A first launch gives the project its id, and with it all identities: compare parameters.
    wanted = {tuple(step.params.items()) for step in plan.to_submit}
    return [
        step for step in steps if step.action == "submit" and tuple(step.params.items()) in wanted
    ]


@dataclass(frozen=True)
class _Point:
    name: str
    params: Mapping[str, str]
    command: Command
    identity: str


def _points(request: Request, project: Project, target: str) -> Iterator[_Point]:
    """Each point once, whatever the grid says twice."""
    experiment = request.experiment
    seen: set[str] = set()
    grid = experiment.grid or Grid({})
    for params in request.choice(grid):
        identity = identify(experiment, params, project=project.id, target=target)
        if identity in seen:
            continue
        seen.add(identity)
        yield _Point(
            name=run_name([experiment.project], params),
            params=params,
            command=fill(experiment.command, params, append=experiment.append),
            identity=identity,
        )


def identify(
    experiment: Experiment, params: Mapping[str, str], *, project: str, target: str
) -> str:
    """What makes two runs the same: not code, resources or environment."""
    written = render(experiment.command)
    return digest([project, params, written, experiment.append, experiment.subfolder, target])[:20]


def _decide_all(
    points: Iterable[_Point],
    request: Request,
    project: Project,
    same_code: Collection[str],
    *,
    store: RunStore,
    now: float,
) -> list[Step]:
    found = list(points)
    newest: dict[str, Run] = {}
    if project.id and not request.experiment.always:
        query = Query(project=project.id, identities=[point.identity for point in found])
        newest = {run.identity: run for run in store.runs(query)}
    elsewhere = _elsewhere(found, request, project, store) if request.anywhere else {}
    living: dict[str, bool] = {}
    steps = []
    for point in found:
        run = newest.get(point.identity)
        if run and run.state is State.CREATED and run.launch not in living:
            living[run.launch] = launch_lives(project, run.launch)
        if (run is None or run.state is not State.SUCCEEDED) and point.identity in elsewhere:
            run = elsewhere[point.identity]
        lives = living.get(run.launch, False) if run else False
        how, why = decide(run, request, same_code=same_code, lives=lives, now=now)
        steps.append(Step(**vars(point), how=how, why=why, run=run))
    return steps


def _elsewhere(
    points: Sequence[_Point], request: Request, project: Project, store: RunStore
) -> dict[str, Run]:
    """Successes of the same points on other targets, by the identity they have here."""
    done = store.runs(Query(project=project.id, states=[State.SUCCEEDED]))
    by_there = {run.identity: run for run in done}
    found = {}
    for point in points:
        for target in {run.target for run in done}:
            there = identify(request.experiment, point.params, project=project.id, target=target)
            if there in by_there:
                found[point.identity] = by_there[there]
    return found


@dataclass(frozen=True)
class _Launch:
    """One launch: from steps to the rows and jobs that they become."""

    plan: Draft
    code: str
    tag: str
    now: float

    def run(self, step: Step, fresh_id: Callable[[str], str]) -> Run:
        """The row that is stored before anything is sent."""
        request, old = self.plan.request, step.run
        if step.how == "resend" and old:
            return replace(old, launch=self.tag, seen_at=self.now)
        needs = render_resources(request.experiment.resources)
        if step.how in {"attempt", "replace"} and old:
            again = next_attempt(old, code=self.code, tag=self.tag, now=self.now)
            return replace(
                again,
                place=self.plan.place.where,
                resources=needs,
                note=request.note or old.note,
                tags=request.tags or old.tags,
            )
        return Run(
            id=fresh_id(step.name),
            name=step.name,
            experiment=request.experiment.name,
            project=self.plan.project.id,
            identity=step.identity,
            target=self.plan.place.name,
            place=self.plan.place.where,
            code=self.code,
            params=step.params,
            command=render(step.command),
            resources=needs,
            launch=self.tag,
            note=request.note,
            tags=request.tags,
            status=Status(state=State.CREATED),
            created_at=self.now,
        )

    def jobs(self, steps: Sequence[Step], runs: Sequence[Run]) -> list[Job]:
        """What the target is given for each row."""
        return [self._job(step, run) for step, run in zip(steps, runs, strict=True)]

    def _job(self, step: Step, run: Run) -> Job:
        experiment = self.plan.request.experiment
        return Job(
            run_id=run.id,
            attempt=run.attempt,
            name=run.name,
            experiment=experiment.name,
            command=step.command,
            params=step.params,
            env=experiment.env,
            setup=experiment.setup,
            resources=experiment.resources,
            parallel=experiment.parallel,
            snapshot=run.code,
            project_folder=str(self.plan.project.folder),
            links=self.plan.listing.links,
            subfolder=experiment.subfolder,
            outputs=experiment.outputs,
            metrics=experiment.metrics,
            origin=self.plan.request.origin,
            labels=labels_of(run, self.plan.project),
        )


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


def _accepted(run: Run, answer: Handle | Refusal, now: float) -> Run:
    """The run after its target took or refused it."""
    if isinstance(answer, Refusal):
        refused = Status(
            state=State.FAILED, cause=Cause.REFUSED, reason=answer.reason, ended_at=now
        )
        return replace(run, status=refused, seen_at=now)
    queued = Status(state=State.QUEUED)
    return replace(run, native_id=answer.native_id, status=queued, seen_at=now)


def render_resources(need: Resources) -> dict[str, str]:
    """What was asked for, as text."""
    given = {name: value for name, value in asdict(need).items() if value not in (None, ())}
    if need.nodes == 1:
        del given["nodes"]
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in given.items()
    }


# What tells how a run was made, and nothing that could be a key.
RECORDED = re.compile(
    r"(PATH|LANG|LC_\w+|SHELL|VIRTUAL_ENV|CONDA_\w+|PYTHON\w+|CUDA_\w+|NVIDIA_\w+|NCCL_\w+"
    r"|OMP_\w+|MKL_\w+|SLURM_\w+|LD_LIBRARY_PATH|TORCH_\w+|JAX_\w+|XLA_\w+|TF_\w+)"
)
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)


def _write_environment(folder: Path) -> None:
    chosen = {
        name: value
        for name, value in sorted(os.environ.items())
        if RECORDED.fullmatch(name) and not SECRET.search(name)
    }
    (folder / "environment.json").write_text(json.dumps(chosen), errors="surrogateescape")


def _write_provenance(folder: Path, git: Git | None) -> None:
    """Where the code came from, beside the launch; readable without launchbay."""
    if git is None:
        return
    record = asdict(git)
    for name in ("staged", "unstaged"):
        (folder / f"{name}.patch").write_text(record.pop(name), errors="surrogateescape")
    (folder / "git.json").write_text(json.dumps(record))
