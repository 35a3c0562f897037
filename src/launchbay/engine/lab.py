"""Everything that a user can do with experiments and runs."""

from __future__ import annotations

import gc
import json
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core import rundir
from launchbay.core.errors import TargetError
from launchbay.core.run import FAILURES, Run, State
from launchbay.engine.watch import Look, by_place, ended_lately, look, removed, went_on
from launchbay.runstore.store import Query, RunStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from launchbay.core.backend import Backend
    from launchbay.core.job import Job
    from launchbay.engine.again import Rerun
    from launchbay.engine.launch import Draft
    from launchbay.engine.project import Project
    from launchbay.engine.settings import Settings
    from launchbay.engine.steps import Request, Step
    from launchbay.engine.targets import Targets
    from launchbay.sync.snapshot import Listing

SHORTEST_WAIT_S = 0.1
LONGEST_WAIT_S = 1.0
LOOKING_SHARE = 10
LONGEST_REST_S = 10.0
SETTLE_S = 60.0
CARRIAGE = "carriage.json"
"""In a launch's folder: where its runs copy to, and what is wanted here; see `homing.py`."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave the search for dead cycles for later: thousands of runs are many objects, none dead."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def attempts_of(runs: Sequence[Run]) -> list[int]:
    """The number of each run's newest attempt."""
    return [run.attempt for run in runs]


class Lab:
    """A project with its index and targets.

    What only some commands need is loaded by the verb that needs it: listing runs must not wait
    for the machinery that launches them.
    """

    def __init__(
        self,
        project: Project,
        store: RunStore,
        *,
        settings: Settings,
        targets: Targets | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.project = project
        self.store = store
        self.settings = settings
        self.clock = clock
        self.tell: Callable[[str], None] = lambda _: None
        """Is given what long work says while it lasts."""
        self._sleep = sleep
        if targets is not None:
            self.targets = targets

    @cached_property
    def targets(self) -> Targets:
        """The project's targets, opened when they are needed."""
        from launchbay.engine.targets import Targets  # noqa: PLC0415

        return Targets(self.project, self.settings.targets, secret=self.settings.secret)

    def draft(self, request: Request, *, target: str, listing: Listing) -> Draft:
        """What a launch would do; writes nothing."""
        from launchbay.engine.launch import draft  # noqa: PLC0415

        return draft(self, request, target=target, listing=listing)

    def outline(
        self, request: Request, *, target: str, listing: Listing
    ) -> tuple[Draft, Iterator[Step]]:
        """A draft without its steps, and these as they are decided; writes and asks nothing."""
        from launchbay.engine.launch import outline  # noqa: PLC0415

        return outline(self, request, target=target, listing=listing)

    def launch(self, draft: Draft) -> list[Run]:
        """Freeze, remember, send; what a launch that was interrupted left over is sent too."""
        from launchbay.engine.launch import launch  # noqa: PLC0415

        with uncollected():
            return launch(self, draft)

    def launch_here(self, draft: Draft) -> tuple[Run, list[str]]:
        """Make the draft's first point ready as a new run, and return the argv that runs it.

        Raises:
            Unsupported: when the target is not this machine.
        """
        from launchbay.engine.launch import launch_here  # noqa: PLC0415

        return launch_here(self, draft)

    def rerun(
        self, runs: Sequence[Run], how: Rerun, *, listing: Listing | None = None
    ) -> list[Run]:
        """A further attempt of each run, with the code it had or, given a listing, today's."""
        from launchbay.engine.again import rerun  # noqa: PLC0415

        return rerun(self, runs, how, listing=listing)

    def rebuild(self) -> int:
        """Read every run folder of the project into the index; returns how many there are."""
        from launchbay.engine.again import rebuild  # noqa: PLC0415

        return rebuild(self)

    def read_job(self, run: Run) -> Job:
        """What was asked for, from the run's own folder.

        Raises:
            BadRequest: when the folder is gone.
        """
        from launchbay.engine.again import read_job  # noqa: PLC0415

        return read_job(self, run)

    def refresh(self, runs: Sequence[Run]) -> Look:
        """Ask the targets, and remember what is new."""
        known = self._sent_meanwhile(runs)
        with uncollected():
            seen = look(known, self.targets.reopen, clock=self.clock, recall=self._recall)
        seen = self._remembered(self._told(seen), {run.id: run.attempt for run in known})
        self._bring_wanted(seen.news)
        return self._fed(seen.compared_with(runs))

    def _sent_meanwhile(self, runs: Sequence[Run]) -> Sequence[Run]:
        """The runs, with those that no target knows yet as the index has them: others send too."""
        unsent = [run.id for run in runs if run.is_unsent]
        if not unsent:
            return runs
        self._drop_unsent(unsent)
        stored = self.store.named(unsent)
        return [stored.get(run.id, removed(run)) if run.is_unsent else run for run in runs]

    def _drop_unsent(self, ids: Sequence[str]) -> None:
        """See to the end of what somebody wants ended and nobody is sending."""
        if unwanted := self.store.unwanted(ids):
            from launchbay.engine.feed import revoke  # noqa: PLC0415

            revoke(self, sorted(unwanted))

    def _remembered(self, seen: Look, before: Mapping[str, int]) -> Look:
        """The look, once the index has what is new.

        A run of which another bay has begun a further attempt is as that one left it: what we
        asked after was the attempt before.
        """
        if not seen.news:
            return seen
        with self.store.transaction():
            begun = self.store.newest_attempts([run.id for run in seen.news])
            overtaken = {one for one, number in begun.items() if number > before[one]}
            news = [run for run in seen.news if run.id not in overtaken]
            further = [run for run in news if run.attempt > before[run.id]]
            unwanted = self.store.unwanted([run.id for run in further])
            self.store.update(
                replace(run, attempt=before[run.id], status=went_on(run.attempt)) for run in further
            )
            self.store.add(replace(run, cancel_requested=run.id in unwanted) for run in further)
            self.store.update(run for run in news if run.attempt == before[run.id])
            theirs = self.store.named(sorted(overtaken))
        return seen.amended(theirs)

    def _bring_wanted(self, news: Sequence[Run]) -> None:
        """Have at home what runs elsewhere that have just ended were asked for."""
        ended = [run for run in news if run.state.final and run.is_elsewhere]
        launches = {run.launch: self.launch_folder(run) for run in ended}
        noted = {tag for tag, folder in launches.items() if (folder / CARRIAGE).exists()}
        if noted:
            from launchbay.engine.homing import fetch_wanted  # noqa: PLC0415

            fetch_wanted(self, [run for run in ended if run.launch in noted])

    def _told(self, seen: Look) -> Look:
        """The look, with what the logs of failed runs tell of why."""
        if not any(run.state is State.FAILED for run in seen.news):
            return seen
        from launchbay.engine.classify import classify  # noqa: PLC0415

        return seen.amended({run.id: run for run in classify(self, seen.news)})

    def _recall(self, group: list[Run], backend: Backend) -> list[Run] | None:
        """The runs as the index has them, where their target was asked just now by anybody."""
        if not backend.look_every_s:
            return None
        place = json.dumps([group[0].target, sorted(group[0].place.items())])
        if self.store.claim_look(place, now=self.clock(), every_s=backend.look_every_s):
            return None
        return self.store.runs(Query(ids=[run.id for run in group]))

    def _fed(self, seen: Look) -> Look:
        """The look, once what waits for a push has got it."""
        if not any(run.status.unfed or not run.native_id for run in seen.runs):
            return seen
        from launchbay.engine.feed import feed, push  # noqa: PLC0415

        push(self, seen.runs)
        if not any(run.waits_here for run in seen.runs):
            return seen
        sent = {run.id: run for run in feed(self, seen.runs)}
        now = tuple(sent.get(run.id, run) for run in seen.runs)
        return replace(seen, runs=now, news=(*seen.news, *sent.values()))

    def unfinished(self, project: str | None) -> list[Run]:
        """Runs that may have news."""
        states = [State.CREATED, State.QUEUED, State.RUNNING, State.LOST]
        return self.store.runs(Query(project=project, states=states))

    def follow(self, runs: Sequence[Run]) -> Iterator[Look]:
        """Look again and again until all have ended; the last look is the end.

        What nobody sends any more, see `left_over`, is not waited for.
        """
        wait_s = SHORTEST_WAIT_S
        while True:
            began = self.clock()
            seen = self.refresh(runs)
            took_s = self.clock() - began
            yield seen
            runs = self._tried_again(seen)
            going = [run for run in runs if not run.state.final]
            # An attempt that has come meanwhile was not in the look, even if it has ended too.
            if not going and attempts_of(runs) == attempts_of(seen.runs):
                return
            if going and len(self.left_over(going)) == len(going):
                return
            wait_s = SHORTEST_WAIT_S if seen.news else min(wait_s * 1.5, LONGEST_WAIT_S)
            # Looking at thousands is work too: a small share of the machine is enough for it.
            self._sleep(max(wait_s, min(LOOKING_SHARE * took_s, LONGEST_REST_S)))

    def left_over(self, runs: Iterable[Run]) -> list[Run]:
        """Those for this machine whose launch was killed before it sent them.

        Nobody but the same `bay run` sends them: it has the environment that they are to have.
        """
        waiting = [run for run in runs if run.waits_here]
        if not waiting:
            return []
        from launchbay.engine.project import launch_lives  # noqa: PLC0415
        from launchbay.engine.targets import is_here  # noqa: PLC0415

        mine = [run for run in waiting if is_here(run.place)]
        ended = [run.id for run in mine if not launch_lives(self.launch_folder(run))]
        # It may have sent them last of all, and another launch may have them now.
        now = [run for run in self.store.named(ended).values() if run.waits_here]
        return [run for run in now if not launch_lives(self.launch_folder(run))]

    def catch_up(self, runs: Sequence[Run]) -> list[Run]:
        """The runs as they are now, once what failed while nobody followed was tried again."""
        self.retry(ended_lately(runs, self.clock()))
        ids = list(dict.fromkeys(run.id for run in runs))
        known = self.store.named(ids)
        return [known[one] for one in ids if one in known]

    def _tried_again(self, seen: Look) -> Sequence[Run]:
        """The runs of a look, once what failed has a further attempt, whoever began it."""
        if not any(run.state in FAILURES for run in seen.news):
            return seen.runs
        self.retry(seen.news)
        stored = self.store.named([run.id for run in seen.news])
        return [stored.get(run.id, run) for run in seen.runs]

    def retry(self, runs: Sequence[Run]) -> list[Run]:
        """Try again what failed in a way that its `retries` names."""
        from launchbay.engine.retry import retry  # noqa: PLC0415

        return retry(self, runs)

    def cancel(self, runs: Sequence[Run]) -> None:
        """Ask for the end of runs, as they are now; what has failed is not tried again.

        What another bay is sending just now is ended by it.
        """
        ids = [run.id for run in runs]
        self.store.request_cancel(ids)
        self._drop_unsent(ids)
        now = self.store.named(ids).values()
        for group in by_place(run for run in now if run.native_id and not run.state.final):
            self.targets.reopen(group[0]).cancel([run.handle for run in group])

    def settle(self, runs: Sequence[Run]) -> None:
        """Cancel runs and wait until they have ended.

        Raises:
            TargetError: when one does not end.
        """
        self.cancel(runs)
        deadline = self.clock() + SETTLE_S
        for seen in self.follow([*self.store.named([run.id for run in runs]).values()]):
            if self.clock() > deadline:
                left = [run.id for run in seen.runs if not run.state.final]
                raise TargetError(f"{len(left)} runs did not end: {', '.join(left[:5])}")

    def folder(self, run: Run) -> Path:
        """Where the run's files are on this machine."""
        root = Path(run.place["root"])
        return rundir.run_folder(self._bay(run) if run.is_elsewhere else root, run.id)

    def where(self, run: Run) -> str:
        """The folder of the run where it runs, for a person to read."""
        if run.place.get("namespace"):
            return self._where_in_cluster(run)
        host, root = run.place.get("host"), run.place["root"]
        return f"{host}:{root}/runs/{run.id}" if host else str(self.folder(run))

    def _where_in_cluster(self, run: Run) -> str:
        from launchbay.backends.kubernetes.words import ON_CLAIM  # noqa: PLC0415
        from launchbay.engine.homing import claim_of  # noqa: PLC0415

        if claim := claim_of(self, run):
            return f"claim:{claim}/{ON_CLAIM}/runs/{run.id}"
        return self.shipped_to(run) or f"pod:{run.status.allocation or run.native_id}/runs/{run.id}"

    def outputs_of(self, run: Run) -> str:
        """Where its outputs are, for a person to read."""
        where = self.where(run)
        if where.startswith("pod:") and run.state.final:
            return "not kept; they were in its pod"
        return f"{where}/{rundir.OUT}"

    def launch_folder(self, run: Run) -> Path:
        """What belongs to all runs of the run's launch."""
        return self._bay(run) / "launches" / run.launch

    def shipped_to(self, run: Run) -> str:
        """Where in object storage a run copies its outputs to; empty for nowhere."""
        if not (self.launch_folder(run) / CARRIAGE).exists():
            return ""
        from launchbay.engine.homing import shipped_to  # noqa: PLC0415

        return shipped_to(self, run)

    def _bay(self, run: Run) -> Path:
        """Where the run's own project keeps what it knows."""
        if run.project == self.project.id:
            return self.project.bay
        projects = self.store.projects()
        return projects[run.project][1] / ".bay" if run.project in projects else self.project.bay
