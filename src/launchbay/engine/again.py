"""Runs once more: another attempt, and the index from run folders."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from launchbay.core import rundir
from launchbay.core.command import render
from launchbay.core.errors import BadRequest, Overtaken
from launchbay.core.job import Job, Policy, Resources, from_record
from launchbay.core.naming import launch_tag
from launchbay.core.python import parse_python, render_setup
from launchbay.core.run import Run, State, Status
from launchbay.engine.environments import build_environments
from launchbay.engine.launch import (
    carry_code,
    labels_of,
    next_attempt,
    note_carriage,
)
from launchbay.engine.plans import find_job, keep_plans, kept_plans
from launchbay.engine.project import owned_launch
from launchbay.engine.record import record_launch
from launchbay.engine.sending import send, stage
from launchbay.engine.shipping import Arranger
from launchbay.engine.steps import render_resources
from launchbay.runstore.store import Query
from launchbay.sync.snapshot import freeze

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from launchbay.engine.lab import Lab
    from launchbay.engine.targets import Place
    from launchbay.sync.snapshot import Listing


def _as_it_was(need: Resources) -> Resources:
    return need


def _as_was_said(policy: Policy) -> Policy:
    return policy


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """How runs are to be run again."""

    fresh: bool = False
    target: str | None = None
    resources: Callable[[Resources], Resources] = _as_it_was
    policy: Callable[[Policy], Policy] = _as_was_said
    parallel: int | None = None
    image: str | None = None


def rerun(
    lab: Lab, runs: Sequence[Run], how: Rerun, *, listing: Listing | None = None
) -> list[Run]:
    """A further attempt of each run, with the code it had or, given a listing, today's.

    Raises:
        BadRequest: when one has not ended, its folder is gone, or a secret of it is.
        Overtaken: when another bay has begun a further attempt meanwhile.
    """
    for run in runs:
        if not run.state.final:
            raise BadRequest(
                f"`{run.id}` is {run.state}", hint=f"end it first: `bay cancel {run.suffix}`"
            )
    # Of several targets none begins when one of the runs cannot.
    _refuse_overtaken(lab, runs)
    code = freeze(listing, lab.project.bay).id if listing else None
    sent: list[Run] = []
    for target in sorted({how.target or run.target for run in runs}):
        group = [run for run in runs if (how.target or run.target) == target]
        sent += _rerun_on(lab, target, group, how, code)
    return sent


def _rerun_on(
    lab: Lab, target: str, runs: Sequence[Run], how: Rerun, code: str | None
) -> list[Run]:
    place = lab.targets.open(target, look="lately")
    tag, now = launch_tag(), lab.clock()
    again = [
        replace(
            next_attempt(run, code=code or run.code, tag=tag, now=now),
            target=target,
            place=place.where,
        )
        for run in runs
    ]
    jobs = [_next_job(lab, old, new, how) for old, new in zip(runs, again, strict=True)]
    for name in sorted({name for job in jobs for name in job.secrets}):
        # Those of ours are made when they are sent.
        if not name.startswith("bay_"):
            lab.settings.secret(name)
    # Before anything is remembered: a target that does not answer leaves nothing half done.
    codes = {run.code for run in again}
    stage(lab, place.backend, codes)
    bulky = carry_code(lab, place, codes, [job.ship for job in jobs])
    arrange = Arranger(
        settings=lab.settings, place=place, project=lab.project.folder, launch=tag, bulky=bulky
    )
    jobs = [arrange(job) for job in _enter(lab, place, jobs)]
    with owned_launch(lab.project, tag) as folder:
        record_launch(lab, folder)
        plans = place.backend.plan(jobs)
        with lab.store.transaction():
            _refuse_overtaken(lab, runs)
            note_carriage(lab, folder, jobs)
            if not place.is_here:
                keep_plans(folder, plans, target=target, place=place.where)
            lab.store.add(again)
        return send(lab, plans, again, place.backend)


def _refuse_overtaken(lab: Lab, runs: Sequence[Run]) -> None:
    """See that the runs are as they were when somebody decided to run them again."""
    stored = lab.store.named([run.id for run in runs])
    if moved := [run.suffix for run in runs if _is_other(run, stored.get(run.id))]:
        raise Overtaken(
            f"begun again, cancelled or removed in another terminal: {' '.join(moved[:5])}",
            hint="`bay ls` shows what became of them",
        )


def _is_other(run: Run, now: Run | None) -> bool:
    if now is None or now.attempt != run.attempt or now.state is not run.state:
        return True
    return now.cancel_requested and not run.cancel_requested


def _next_job(lab: Lab, old: Run, new: Run, how: Rerun) -> Job:
    job = read_job(lab, old)
    return replace(
        job,
        attempt=new.attempt,
        snapshot=new.code,
        fresh=how.fresh,
        resources=how.resources(job.resources),
        policy=how.policy(job.policy),
        parallel=how.parallel or job.parallel,
        image=how.image or job.image,
        labels=labels_of(new, lab.project),
    )


def _enter(lab: Lab, place: Place, jobs: Sequence[Job]) -> list[Job]:
    """The jobs with the environments of their code, built anew where they are gone."""
    entered = []
    for job in jobs:
        python = parse_python(job.python) if job.python else None
        tree = rundir.code_folder(lab.project.bay, job.snapshot)
        lines = build_environments(place, [python], code=job.snapshot, tree=tree, tell=lab.tell)
        entry = render_setup(modules=job.modules, python=lines[python]) if python else job.entry
        entered.append(replace(job, entry=entry))
    return entered


def read_job(lab: Lab, run: Run) -> Job:
    """What was asked for, from the run's own folder.

    Raises:
        BadRequest: when the folder is gone.
    """
    kept = find_job(lab.launch_folder(run), run.id)
    if kept is not None:
        return kept
    path = lab.folder(run) / rundir.JOB
    try:
        return from_record(json.loads(path.read_text(errors="surrogateescape")))
    except (OSError, ValueError, KeyError) as err:
        raise BadRequest(
            f"`{run.id}` cannot be repeated: `{path}` is not readable",
            hint="run its experiment again with `bay run`",
        ) from err


def rebuild(lab: Lab) -> int:
    """Read every run folder of the project into the index; returns how many there are."""
    project, store = lab.project, lab.store
    known = {run.id for run in store.runs(Query(project=project.id))}
    store.add_project(project.id, name=project.name, folder=project.folder)
    launches = sorted(project.bay.glob("launches/*"))
    planned = [run for launch in launches for run in _read_plans(launch)]
    store.add(run for run in sorted(planned, key=lambda run: run.attempt) if run.id not in known)
    elsewhere = {run.id for run in planned}
    folders = [path for path in sorted(project.bay.glob("runs/*")) if path.name not in elsewhere]
    number = 1
    while found := [run for folder in folders if (run := _read_attempt(folder, number))]:
        # One attempt after the other: the last one is what a run is now.
        new = [run for run in found if run.id not in known]
        store.add(new)
        lab.refresh(new)
        number += 1
    lab.refresh([*store.named(sorted(elsewhere)).values()])
    return len(folders) + len(elsewhere)


def _read_plans(launch: Path) -> Iterator[Run]:
    """The runs that a launch sent elsewhere, or was about to send."""
    for kept in kept_plans(launch):
        names = kept.names()
        for job in kept.jobs():
            yield _run_of(job, kept.target, kept.place, native_id=names.get(job.run_id, ""))


def _read_attempt(folder: Path, number: int) -> Run | None:
    """The run as it was at one attempt, from its own folder."""
    path = rundir.attempt_folder(folder, number) / rundir.JOB
    try:
        return _run_from_record(json.loads(path.read_text(errors="surrogateescape")))
    except (OSError, ValueError, KeyError):
        return None


def _run_from_record(record: dict[str, Any]) -> Run:
    job = from_record(record)
    place = {"kind": job.labels["kind"], "root": str(record["root"])}
    return _run_of(job, str(record["target"]), place, native_id=record["native_id"])


def _run_of(job: Job, target: str, place: Mapping[str, str], *, native_id: str) -> Run:
    labels = job.labels
    return Run(
        id=job.run_id,
        name=job.name,
        experiment=job.experiment,
        project=labels["project"],
        identity=labels["identity"],
        target=target,
        place=place,
        native_id=native_id,
        attempt=job.attempt,
        code=job.snapshot,
        params=job.params,
        command=render(job.command),
        resources=render_resources(job.resources),
        launch=labels["launch"],
        note=labels["note"],
        tags=tuple(json.loads(labels["tags"])),
        status=Status(state=State.QUEUED if native_id else State.CREATED),
        created_at=float(labels["created_at"]),
    )
