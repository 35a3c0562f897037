"""Everything that a user can do with experiments and runs."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.core import rundir
from launchbay.core.backend import Feeding, Foreground, Staging
from launchbay.core.command import render
from launchbay.core.errors import BadRequest, TargetError, Unsupported
from launchbay.core.job import Job, Resources, from_record
from launchbay.core.naming import launch_tag
from launchbay.core.run import Run, State, Status
from launchbay.engine import launch as launching
from launchbay.engine.project import Project, ensure_project, launch_lives, owned_launch
from launchbay.engine.watch import Look, look
from launchbay.runstore.store import Query, RunStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from launchbay.core.backend import LogChunk, Plan
    from launchbay.engine.launch import Draft, Request
    from launchbay.engine.settings import Settings
    from launchbay.engine.targets import Targets
    from launchbay.sync.snapshot import Listing

SHORTEST_WAIT_S = 0.1
LONGEST_WAIT_S = 1.0
SETTLE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """How runs are to be run again."""

    latest_code: bool = False
    fresh: bool = False
    target: str | None = None
    resources: Callable[[Resources], Resources] = lambda need: need


class Lab:
    """A project with its index and targets."""

    def __init__(
        self,
        project: Project,
        store: RunStore,
        targets: Targets,
        *,
        settings: Settings,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.project = project
        self.store = store
        self.targets = targets
        self.settings = settings
        self.clock = clock
        self._sleep = sleep

    def draft(self, request: Request, *, target: str, listing: Listing) -> Draft:
        """What a launch would do; writes nothing."""
        return launching.draft(
            request,
            project=self.project,
            place=self.targets.open(target),
            listing=listing,
            store=self.store,
            now=self.clock(),
        )

    def launch(self, draft: Draft) -> list[Run]:
        """Freeze, remember, send; what a launch that was interrupted left over is sent too."""
        deliver = partial(
            launching.send, backend=draft.place.backend, store=self.store, clock=self.clock
        )
        return self._launch(draft, deliver)

    def launch_here(self, draft: Draft) -> tuple[Run, list[str]]:
        """Make the draft's first point ready as a new run, and return the argv that runs it.

        Raises:
            Unsupported: when the target is not this machine.
        """
        backend = draft.place.backend
        if not isinstance(backend, Foreground):
            raise Unsupported(f"`{draft.place.name}` cannot run in this terminal")
        request = draft.request
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
            ready = launching.accepted(runs[0], handle, self.clock())
            self.store.update([ready])
            return [ready]

        (run,) = self._launch(first, prepare)
        return run, argv

    def _launch(
        self, draft: Draft, deliver: Callable[[Sequence[Plan], Sequence[Run]], list[Run]]
    ) -> list[Run]:
        self.project = ensure_project(self.project)
        ready = replace(draft, project=self.project)
        return launching.launch(
            ready, store=self.store, clock=self.clock, settle=self.settle, deliver=deliver
        )

    def refresh(self, runs: Sequence[Run]) -> Look:
        """Ask the targets, and remember what is new."""
        seen = look(runs, self.targets.reopen, clock=self.clock)
        self.store.update(seen.news)
        return seen

    def unfinished(self, project: str | None) -> list[Run]:
        """Runs that may have news."""
        states = [State.CREATED, State.QUEUED, State.RUNNING, State.LOST]
        return self.store.runs(Query(project=project, states=states))

    def follow(self, runs: Sequence[Run]) -> Iterator[Look]:
        """Look again and again until all have ended; the last look is the end."""
        wait_s = SHORTEST_WAIT_S
        while True:
            seen = self.refresh(runs)
            runs = seen.runs
            yield seen
            if all(run.state.final for run in runs):
                return
            wait_s = SHORTEST_WAIT_S if seen.news else min(wait_s * 1.5, LONGEST_WAIT_S)
            self._sleep(wait_s)

    def cancel(self, runs: Sequence[Run]) -> None:
        """Ask for the end of runs; those that ended already are left alone."""
        open_runs = [run for run in runs if not run.state.final]
        self.store.request_cancel([run.id for run in open_runs])
        groups: dict[tuple[str, ...], list[Run]] = {}
        for run in open_runs:
            if run.native_id:
                groups.setdefault((run.target, *sorted(run.place.values())), []).append(run)
            elif not launch_lives(self.project, run.launch):
                # Nobody has sent it, and now nobody will.
                gone = Status(state=State.CANCELLED, reason="cancelled before it was sent")
                self.store.update([replace(run, status=gone)])
        for group in groups.values():
            self.targets.reopen(group[0]).cancel([run.handle for run in group])

    def settle(self, runs: Sequence[Run]) -> None:
        """Cancel runs and wait until they have ended.

        Raises:
            TargetError: when one does not end.
        """
        self.cancel(runs)
        deadline = self.clock() + SETTLE_S
        for seen in self.follow(runs):
            if self.clock() > deadline:
                left = [run.id for run in seen.runs if not run.state.final]
                raise TargetError(f"{len(left)} runs did not end: {', '.join(left[:5])}")

    def rerun(
        self, runs: Sequence[Run], how: Rerun, *, listing: Listing | None = None
    ) -> list[Run]:
        """A further attempt of each run, with the code it had or, given a listing, today's."""
        for run in runs:
            if not run.state.final:
                raise BadRequest(
                    f"`{run.id}` is {run.state}", hint=f"end it first: `bay cancel {run.suffix}`"
                )
        code = self._freeze(listing) if listing else None
        now = self.clock()
        sent: list[Run] = []
        for target in sorted({how.target or run.target for run in runs}):
            group = [run for run in runs if (how.target or run.target) == target]
            sent += self._rerun_on(target, group, how, code, now)
        return sent

    def _rerun_on(
        self, target: str, runs: Sequence[Run], how: Rerun, code: str | None, now: float
    ) -> list[Run]:
        place = self.targets.open(target)
        tag = launch_tag()
        again = [
            replace(
                launching.next_attempt(run, code=code or run.code, tag=tag, now=now),
                target=target,
                place=place.where,
            )
            for run in runs
        ]
        jobs = [
            replace(
                self.read_job(old),
                attempt=new.attempt,
                snapshot=new.code,
                fresh=how.fresh,
                resources=how.resources(self.read_job(old).resources),
                labels=launching.labels_of(new, self.project),
            )
            for old, new in zip(runs, again, strict=True)
        ]
        with owned_launch(self.project, tag):
            plans = place.backend.plan(jobs)
            with self.store.transaction():
                self.store.add(again)
            if isinstance(place.backend, Staging):
                for snapshot in {run.code for run in again}:
                    place.backend.stage(snapshot, self.project.bay / "snapshots" / snapshot)
            return launching.send(
                plans, again, backend=place.backend, store=self.store, clock=self.clock
            )

    def _freeze(self, listing: Listing) -> str:
        from launchbay.sync.snapshot import freeze  # noqa: PLC0415

        return freeze(listing, self.project.bay).id

    def read_job(self, run: Run) -> Job:
        """What was asked for, from the run's own folder.

        Raises:
            BadRequest: when the folder is gone.
        """
        path = self.folder(run) / rundir.JOB
        try:
            return from_record(json.loads(path.read_text(errors="surrogateescape")))
        except (OSError, ValueError, KeyError) as err:
            raise BadRequest(
                f"`{run.id}` cannot be repeated: `{path}` is not readable",
                hint="run its experiment again with `bay run`",
            ) from err

    def folder(self, run: Run) -> Path:
        """Where the run's files are on this machine."""
        return rundir.run_folder(Path(run.place["root"]), run.id)

    def read_log(self, run: Run, *, rank: int = 0, cursor: str = "") -> LogChunk:
        """What the run's present attempt printed since `cursor`."""
        return self.targets.reopen(run).read_log(run.handle, rank=rank, cursor=cursor)

    def feed(self, runs: Sequence[Run]) -> None:
        """Push what waits, where a target may need it."""
        places = {(run.target, *sorted(run.place.values())): run for run in runs}
        for run in places.values():
            backend = self.targets.reopen(run)
            if isinstance(backend, Feeding):
                backend.feed()

    def rebuild(self) -> int:
        """Read every run folder of the project into the index; returns how many there are."""
        known = {run.id for run in self.store.runs(Query(project=self.project.id))}
        self.store.add_project(self.project.id, name=self.project.name, folder=self.project.folder)
        folders = sorted(self.project.bay.glob("runs/*"))
        number = 1
        while found := [run for folder in folders if (run := _read_attempt(folder, number))]:
            # One attempt after the other: the last one is what a run is now.
            new = [run for run in found if run.id not in known]
            self.store.add(new)
            self.refresh(new)
            number += 1
        return len(folders)


def _read_attempt(folder: Path, number: int) -> Run | None:
    """The run as it was at one attempt, from its own folder."""
    path = rundir.attempt_folder(folder, number) / rundir.JOB
    try:
        return _run_from_record(json.loads(path.read_text(errors="surrogateescape")))
    except (OSError, ValueError, KeyError):
        return None


def _run_from_record(record: dict[str, Any]) -> Run:
    job = from_record(record)
    labels = job.labels
    return Run(
        id=job.run_id,
        name=job.name,
        experiment=job.experiment,
        project=labels["project"],
        identity=labels["identity"],
        target=str(record["target"]),
        place={"kind": labels["kind"], "root": str(record["root"])},
        native_id=record["native_id"],
        attempt=job.attempt,
        code=job.snapshot,
        params=job.params,
        command=render(job.command),
        resources=launching.render_resources(job.resources),
        launch=labels["launch"],
        note=labels["note"],
        tags=tuple(json.loads(labels["tags"])),
        status=Status(state=State.QUEUED),
        created_at=float(labels["created_at"]),
    )
