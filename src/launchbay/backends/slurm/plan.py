"""From jobs to what is sent to Slurm: which share an array, how many arrays, and their text."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from launchbay.backends.depot_programs import programs_version
from launchbay.backends.sheet import render_document, render_sheet
from launchbay.backends.slurm.fit import (
    allocation_minutes,
    check,
    limits,
    pack_width,
    partitions_of,
)
from launchbay.backends.slurm.shape import render_directives, shape_of
from launchbay.core.backend import Plan
from launchbay.core.errors import Unsupported
from launchbay.core.naming import digest, slug

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from launchbay.backends.slurm.shape import Shape
    from launchbay.core.job import Job

LONGEST_NAME = 40


@dataclass(frozen=True)
class Batch:
    """Jobs that one array can hold."""

    shape: Shape
    width: int
    """How many of them run side by side in an allocation."""
    share: int
    """How many of them share an allocation."""
    parallel: int | None


@dataclass(frozen=True)
class Planner:
    """What plans depend on besides their jobs."""

    target: str
    parallel: int | None
    """The target's own cap of runs at once."""
    details: Mapping[str, Any] | None
    """What the site was seen to be; None checks and splits by nothing."""

    def plan(self, jobs: Sequence[Job]) -> list[Plan]:
        """As few arrays as runs, site and caps allow.

        Raises:
            Unsupported: when the site can never do what a job asks.
        """
        batches: dict[Batch, list[Job]] = {}
        # The runs of a sweep are mostly given the very same.
        alike: dict[tuple[int | None, ...], Batch] = {}
        for job in jobs:
            given = (id(job.resources), id(job.policy), id(job.options), job.parallel)
            if given not in alike:
                alike[given] = self._batch(job)
            batches.setdefault(alike[given], []).append(job)
        return [plan for batch, members in batches.items() for plan in self._plans(batch, members)]

    def _batch(self, job: Job) -> Batch:
        """What the job can share an array with; raises for what the site can never do."""
        pack, details = job.policy.pack, self.details
        if pack and job.policy.resume:
            raise Unsupported(
                f"`{job.run_id}` has `pack:` and `resume:`, which do not go together",
                hint="leave one of them out",
            )
        caps = [cap for cap in (job.parallel, self.parallel) if cap]
        parallel = min(caps, default=None)
        width, share = pack_width(job, pack, details) if pack else (1, 1)
        width = min(width, parallel or width)
        shape = shape_of(job, width, details=details)
        if pack:
            most = [part.get("max_minutes") for part in partitions_of(details, shape.partition)]
            longest = min((one for one in most if one), default=None)
            minutes = allocation_minutes(shape.minutes, share, width, longest)
            shape = replace(shape, minutes=minutes)
        check(shape, details)
        return Batch(shape, width, share, parallel)

    def _plans(self, batch: Batch, jobs: Sequence[Job]) -> Iterator[Plan]:
        shape = batch.shape
        most = limits(self.details, account=shape.account, qos=shape.qos, partition=shape.partition)
        size = most.array * batch.share
        rest = iter(jobs)
        chunks = list(iter(lambda: tuple(islice(rest, size)), ()))
        ids = [digest([[job.run_id, job.attempt] for job in chunk])[:10] for chunk in chunks]
        # Several arrays under one cap go in lanes, one array of a lane after the other.
        lanes = len(chunks)
        if batch.parallel:
            lanes = min(lanes, batch.parallel // batch.width)
        for at, (plan_id, chunk) in enumerate(zip(ids, chunks, strict=True)):
            files = self._files(plan_id, batch, chunk, lanes)
            if batch.parallel and at >= lanes:
                files["behind"] = f"{ids[at - lanes]}\n"
            yield Plan(id=plan_id, jobs=chunk, document=render_document(files))

    def _files(self, plan_id: str, batch: Batch, jobs: Sequence[Job], lanes: int) -> dict[str, str]:
        tasks = -(-len(jobs) // batch.share)
        throttle = ""
        if batch.parallel:
            throttle = f"%{max(1, batch.parallel // (lanes * batch.width))}"
        array = f"0-{tasks - 1}{throttle}" if tasks > 1 else ""
        name = f"{slug(jobs[0].experiment)[:LONGEST_NAME]}-{plan_id}"
        packed = batch.share > 1 or bool(jobs[0].policy.pack)
        program = "allocation.sh" if packed else "task.sh"
        start = f'exec /bin/sh ../../node/{programs_version()}/{program} "$PWD"'
        lines = [
            "#!/bin/sh",
            *render_directives(batch.shape, name=name, array=array),
            f'{start} "${{SLURM_ARRAY_TASK_ID:-0}}"',
        ]
        after = "continue.sh" if jobs[0].policy.resume else ""
        files = {"job.sh": "".join(f"{line}\n" for line in lines)}
        if packed:
            files["pack.json"] = json.dumps(_pack_record(batch, jobs[0])) + "\n"
        return files | render_sheet(jobs, target=self.target, plan=plan_id, after=after)


def _pack_record(batch: Batch, job: Job) -> dict[str, Any]:
    """What an allocation has to know of the runs that share it."""
    limit, minutes = job.resources.time_limit, batch.shape.minutes
    return {
        "format": 1,
        "width": batch.width,
        "share": batch.share,
        "gpus": job.resources.gpus or 0,
        "time_s": int(limit.total_seconds()) if limit else None,
        "limit_s": minutes * 60 if minutes else None,
    }
