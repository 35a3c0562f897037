"""From a request to the steps of a plan: each point once, what is done about it, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from launchbay.core import rundir
from launchbay.core.command import fill, render
from launchbay.core.job import Policy
from launchbay.core.naming import digest, marked, run_name
from launchbay.core.quantity import render_limit, render_memory, render_span
from launchbay.core.run import Run, State
from launchbay.core.sweep import Branch, Choice, Experiment, Point
from launchbay.engine.project import Project, launch_lives
from launchbay.runstore.store import Query, RunStore
from launchbay.sync.compare import changed_paths

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from launchbay.core.job import Command, Recipe, Resources
    from launchbay.engine.lab import Lab
    from launchbay.engine.origin import Origin
    from launchbay.sync.snapshot import Listing

CHUNK = 1000
"""Points that are decided about at a time: a plan of any size holds no more."""
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
    origin: Origin | None = None
    """Whose outputs `$BAY_FROM` names."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One run of a plan: what will be done about it, and why."""

    name: str
    params: Point
    command: Command
    recipe: Recipe
    identity: str
    how: How
    why: str
    branch: Branch
    run: Run | None = None
    """The run it was before."""

    @property
    def model(self) -> str:
        """The model's name; empty where there are none."""
        return self.branch.model

    @property
    def dataset(self) -> str:
        """The dataset's name; empty where there are none."""
        return self.branch.dataset

    @property
    def action(self) -> Literal["submit", "skip"]:
        """What happens, in the word that users see."""
        return "skip" if self.how == "skip" else "submit"

    @property
    def standing(self) -> str:
        """Where its point stands: missing, or the state of its newest run."""
        if self.run is None:
            return "missing"
        if self.run.state in {State.CREATED, State.QUEUED}:
            return "waiting"
        return "done" if self.run.state is State.SUCCEEDED else str(self.run.state)


class SameCode:
    """Whether frozen code is today's: adding a value to the experiment file changes no program."""

    def __init__(self, lab: Lab, listing: Listing) -> None:
        self._listing = listing
        self._bay = lab.project.bay
        self._own = lab.settings.own_files()
        self._known = {listing.id: True}

    def add(self, code: str) -> None:
        """Note code that is the same."""
        self._known[code] = True

    def __contains__(self, code: object) -> bool:
        if not isinstance(code, str):
            return False
        if code not in self._known:
            tree = rundir.code_folder(self._bay, code)
            same = tree.is_dir() and set(changed_paths(self._listing, tree)) <= self._own
            self._known[code] = same
        return self._known[code]


@dataclass(kw_only=True)
class Tally:
    """What a plan comes to, counted while it is read."""

    runs: int = 0
    done: int = 0
    submit: int = 0
    gpu_hours: float | None = 0.0
    """At most; None where a run has no limit."""
    longest_s: float | None = None
    """The longest time limit."""
    standings: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    """By model and dataset: how many points stand where."""

    def add(self, step: Step) -> Step:
        """Count a step, and hand it on."""
        self.runs += 1
        self.done += step.standing == "done" and step.action == "skip"
        place = self.standings.setdefault((step.model, step.dataset), Counter())
        place[step.standing] += 1
        if step.action == "submit":
            self.submit += 1
            self._add_time(step.recipe.resources)
        return step

    def _add_time(self, need: Resources) -> None:
        if need.time_limit is None:
            self.gpu_hours = None
            return
        seconds = need.time_limit.total_seconds()
        self.longest_s = max(self.longest_s or 0.0, seconds)
        if self.gpu_hours is not None:
            self.gpu_hours += (need.gpus or 0.0) * need.nodes * seconds / 3600


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What all steps of a plan are decided by."""

    request: Request
    project: Project
    target: str
    same_code: Container[str]
    store: RunStore
    now: float

    def steps(self) -> Iterator[Step]:
        """Decide about every point, a chunk at a time."""
        points = self._points()
        living: dict[str, bool] = {}
        while chunk := list(islice(points, CHUNK)):
            yield from self._decide(chunk, living)

    def again(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Decide once more about the points of earlier steps.

        A project may have got its id since, and others may have been quicker.
        """
        living: dict[str, bool] = {}
        for start in range(0, len(steps), CHUNK):
            points = [
                _Point(
                    step.branch,
                    step.name,
                    step.params,
                    step.command,
                    self._identify(step.branch, step.params),
                )
                for step in steps[start : start + CHUNK]
            ]
            yield from self._decide(points, living)

    def _identify(self, branch: Branch, params: Point) -> str:
        experiment = self.request.experiment
        return identify(experiment, branch, params, project=self.project.id, target=self.target)

    def _points(self) -> Iterator[_Point]:
        """Each point once, whatever the grid says twice; each with a name of its own."""
        experiment = self.request.experiment
        seen: set[str] = set()
        names: set[str] = set()
        for branch, params in self.request.choice(experiment.branches):
            identity = self._identify(branch, params)
            if identity in seen:
                continue
            seen.add(identity)
            name = _name(experiment, branch, params)
            while name in names:
                name = marked(name, [name, sorted(params.items()), branch.written])
            names.add(name)
            command = fill(
                branch.command, params, append=experiment.append, unlisted=branch.unlisted
            )
            yield _Point(branch, name, params, command, identity)

    def _decide(self, points: Sequence[_Point], living: dict[str, bool]) -> Iterator[Step]:
        newest = self._newest(points)
        elsewhere = self._elsewhere(points) if self.request.anywhere else {}
        for point in points:
            run = newest.get(point.identity)
            if run and run.state is State.CREATED and run.launch not in living:
                living[run.launch] = launch_lives(self.project.launch_folder(run.launch))
            if (run is None or run.state is not State.SUCCEEDED) and point.identity in elsewhere:
                run = elsewhere[point.identity]
            recipe = point.branch.recipe(point.params)
            lives = living.get(run.launch, False) if run else False
            how, why = self.decide(run, recipe.resources, lives=lives)
            yield Step(
                name=point.name,
                params=point.params,
                command=point.command,
                recipe=recipe,
                identity=point.identity,
                how=how,
                why=why,
                branch=point.branch,
                run=run,
            )

    def _newest(self, points: Sequence[_Point]) -> dict[str, Run]:
        if not self.project.id or self.request.experiment.always:
            return {}
        identities = [point.identity for point in points]
        query = Query(project=self.project.id, identities=identities)
        return {run.identity: run for run in self.store.runs(query)}

    def _elsewhere(self, points: Sequence[_Point]) -> dict[str, Run]:
        """Successes of the same points on other targets, by the identity they have here."""
        done = self.store.runs(Query(project=self.project.id, states=[State.SUCCEEDED]))
        by_there = {run.identity: run for run in done}
        targets = {run.target for run in done}
        experiment, project = self.request.experiment, self.project.id
        found = {}
        for point in points:
            for target in targets:
                there = identify(
                    experiment, point.branch, point.params, project=project, target=target
                )
                if there in by_there:
                    found[point.identity] = by_there[there]
        return found

    def decide(self, run: Run | None, need: Resources, *, lives: bool) -> tuple[How, str]:
        """What to do about a point whose newest run is `run`, and why."""
        request = self.request
        if run is None or request.experiment.always:
            return "new", "new"
        ago = f"{render_span(self.now - (run.status.ended_at or run.created_at))} ago"
        match run.state:
            case State.CREATED:
                if lives:
                    return "skip", "another bay is sending it now"
                return "resend", "the bay that made it ended before it was sent"
            case State.QUEUED | State.RUNNING:
                changed = run.resources != render_resources(need)
                if request.replace and (changed or request.again):
                    return "replace", f"replaces the one {run.state}"
                return "skip", f"{run.state} as {run.suffix}"
            case State.SUCCEEDED:
                older = run.code not in self.same_code
                if request.again or (request.changed_code and older):
                    return "new", "again" if request.again else "the code has changed"
                note = " under older code" if older else ""
                return "skip", f"succeeded on {run.target} {ago}{note} as {run.suffix}"
        return "attempt", f"attempt {run.attempt + 1}: {run.state} {ago}"


@dataclass(frozen=True)
class _Point:
    branch: Branch
    name: str
    params: Point
    command: Command
    identity: str


def _name(experiment: Experiment, branch: Branch, params: Point) -> str:
    words = [experiment.prefix, experiment.project, branch.model, branch.dataset]
    return run_name(words, params, hidden=branch.hidden, ambiguous=branch.ambiguous)


def identify(
    experiment: Experiment, branch: Branch, params: Point, *, project: str, target: str
) -> str:
    """What makes two runs the same: not code, resources, environment, or the order of keys."""
    return digest(
        [
            project,
            sorted(params.items()),
            branch.written or render(branch.command),
            experiment.append,
            experiment.subfolder,
            target,
            branch.model,
            branch.dataset,
        ]
    )[:20]


def written_resources(need: Resources) -> dict[str, Any]:
    """What was asked for, in the words of a file; nothing for what nobody asked."""
    found = {
        "gpus": None if need.gpus is None else f"{need.gpus:g}",
        "gpu_type": list(need.gpu_types),
        "gpu_blacklist": list(need.gpu_types_denied),
        "cpus": None if need.cpus is None else f"{need.cpus:g}",
        "memory": None if need.memory_mib is None else render_memory(need.memory_mib),
        "disk": None if need.disk_mib is None else render_memory(need.disk_mib),
        "time": None if need.time_limit is None else render_limit(need.time_limit),
        "nodes": None if need.nodes == 1 else str(need.nodes),
        "processes": None if need.processes == 1 else str(need.processes),
        "hostname_whitelist": list(need.hosts),
        "hostname_blacklist": list(need.hosts_denied),
        "extra": dict(need.extra),
    }
    return {key: value for key, value in found.items() if value}


def written_policy(policy: Policy) -> dict[str, Any]:
    """What is to be done about a run, in the words of a file; nothing for what nobody said."""
    usual = Policy()
    found = {
        "pack": policy.pack,
        "retries": {key: str(number) for key, number in policy.retries.items()},
        "resume": "true" if policy.resume else "",
        "grace": _span(policy.grace_s) if policy.grace_s != usual.grace_s else "",
        "hold": _span(policy.hold_s) if policy.hold_s else "",
    }
    return {key: value for key, value in found.items() if value}


def _span(seconds: float) -> str:
    return render_limit(timedelta(seconds=seconds))


def render_resources(need: Resources) -> dict[str, str]:
    """The same, each as one text."""
    return {key: _render(value) for key, value in written_resources(need).items()}


def _render(value: object) -> str:
    match value:
        case list():
            return ", ".join(value)
        case dict():
            return ", ".join(f"{key}: {item}" for key, item in value.items())
    return str(value)


def tallied(steps: Iterable[Step]) -> Tally:
    """What steps that are there already come to."""
    tally = Tally()
    for step in steps:
        tally.add(step)
    return tally
