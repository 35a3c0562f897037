"""A queue of runs on one host: this machine or any that SSH reaches.

Drives `node/pack.py`, one call a verb, or where there is no Python for it `node/serial.sh`, see
`serial.py` beside this. The queue and its GPU slots belong to the user and the
host, whatever the project, the target's name, or the machine that somebody sits at.

A run on another machine has the environment of its login there, not the one of this terminal; what
the frozen code leaves out is not linked there, since it is here.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.backends.depot import Depot
from launchbay.backends.depot_programs import NoPython, no_python
from launchbay.backends.disposal import remove_folders
from launchbay.backends.environments import build_environment
from launchbay.backends.machine.capacity import Limits, parse_room
from launchbay.backends.names import QUEUE, SERIAL, attempt_of, is_queued, queue_id
from launchbay.backends.outcome import parse_status
from launchbay.core.backend import (
    Backend,
    Capacity,
    Delivery,
    Development,
    Diagnosis,
    Discovery,
    Disposal,
    Environments,
    Facts,
    Feeding,
    Finding,
    Foreground,
    Forwarding,
    Interactive,
    LogChunk,
    Opening,
    Outputs,
    Parcel,
    Plan,
    Refusal,
    Room,
    Staging,
    Survey,
)
from launchbay.core.errors import BadRequest, Rejected, Unreachable, Unsupported
from launchbay.core.job import Job, to_record
from launchbay.core.naming import digest
from launchbay.core.quantity import render_size
from launchbay.core.run import Handle, State, Status
from launchbay.hosts.reach import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from launchbay.backends.machine.serial import SerialQueue
    from launchbay.core.host import Host
    from launchbay.core.python import Python

FORMAT = 1
CHUNK = 500
"""Runs per plan: each chunk's handles are stored before the next is sent."""
FAR_ROOT = "~/bay"
"""Where a target on another machine keeps runs when it does not say."""
FAR_UMASK = 0o077
COPYING_S = 30.0
"""For a run that copies its outputs, from the word to end to its end."""
SEEN = frozenset({"devices", "hide_gpus"})
"""What of a job's needs says which GPUs it sees."""

# $1 the run's folder, $2 the attempt, then a command; none is a shell. The GPUs are the run's own.
ENTER = r"""
bay_run=$1 bay_attempt=$2
shift 2
. "$bay_run/env.sh"
cd "$bay_run/work/$bay_subfolder" 2>/dev/null || cd "$bay_run" || exit 1
bay_events=$bay_run/attempts/$bay_attempt/events.jsonl
bay_given=$(sed -n 's/.*"devices":"\([^"]\{1,\}\)".*/\1/p' "$bay_events")
[ -z "$bay_given" ] || export CUDA_VISIBLE_DEVICES="$bay_given" CUDA_DEVICE_ORDER=PCI_BUS_ID
[ $# -gt 0 ] || set -- "${SHELL:-sh}"
export BAY_ATTEMPT="$bay_attempt"
exec "$@"
"""
MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """What a target of kind `machine` can say."""

    root: Path
    parallel: int | None = None
    """At most so many runs of this target at once on the host."""
    devices: tuple[str, ...] | None = None
    """The GPUs to give out; `None` takes all but those that others use."""


class MachineBackend(
    Backend,
    Staging,
    Environments,
    Survey,
    Discovery,
    Feeding,
    Outputs,
    Delivery,
    Disposal,
    Interactive,
    Forwarding,
    Capacity,
    Foreground,
    Development,
    Diagnosis,
):
    """The queue of one user on one host."""

    def __init__(
        self,
        target: str,
        options: MachineOptions,
        host: Host,
        *,
        facts: Facts | None = None,
        secret: Callable[[str], str] = str,
    ) -> None:
        self.target = target
        self._options = options
        self._host = host
        self._depot = Depot(host, options.root, target=target)
        self._limits = Limits(
            target=target, facts=facts, parallel=options.parallel, devices=options.devices
        )
        self._secret = secret
        self._one_by_one = facts is not None and facts.details.get("python") == ""

    def plan(self, jobs: Sequence[Job]) -> list[Plan]:
        for job in jobs:
            self._limits.check(job)
        chunks = (jobs[start : start + CHUNK] for start in range(0, len(jobs), CHUNK))
        return [self._plan_chunk(tuple(chunk)) for chunk in chunks]

    def submit(self, plan: Plan) -> Iterator[Handle | Refusal]:
        # As it was planned, whatever the machine has got since.
        if plan.document.startswith("==> "):
            yield from self._serial.submit(plan)
            return
        jobs = {job.run_id: job for job in plan.jobs}
        for line in self._pack("add", self._sealed(plan)):
            yield self._handle(plan.id, jobs[line["ok"]])

    def poll(self, handles: Sequence[Handle]) -> dict[Handle, Status]:
        serial, packed = _by_queue(handles)
        statuses = self._serial.poll(serial) if serial else {}
        return {**statuses, **self._poll_packed(packed)} if packed else statuses

    def _poll_packed(self, handles: Sequence[Handle]) -> dict[Handle, Status]:
        by_run = {handle.run_id: handle for handle in handles}
        try:
            lines = list(self._pack("look", self._question(handles)))
        except NoPython as err:
            # It had one when they were sent.
            raise Unreachable(str(err), hint=err.hint) from err
        seen = {by_run[line["run"]]: parse_status(line) for line in lines}
        if len(seen) < len(by_run):
            raise Unreachable(f"`{self.target}` answered for {len(seen)} of {len(by_run)} runs")
        return seen

    def cancel(self, handles: Sequence[Handle]) -> None:
        serial, packed = _by_queue(handles)
        if serial:
            self._serial.cancel(serial)
        if packed:
            try:
                list(self._pack("cancel", self._question(packed)))
            except NoPython:
                # What was never sent is called as if the machine had one.
                self._serial.cancel(packed)

    def read_log(self, handle: Handle, *, rank: int = 0, cursor: str = "") -> LogChunk:
        return self._depot.read_log(handle.run_id, attempt_of(handle), rank, cursor)

    def stage(self, snapshot: str, tree: Path) -> None:
        self._depot.stage(snapshot, tree)

    def build_python(
        self, python: Python, *, snapshot: str, key: str, tell: Callable[[str], None]
    ) -> str:
        return build_environment(self._depot, python, snapshot=snapshot, key=key, tell=tell)

    def survey(self) -> Facts:
        try:
            # This machine is looked at by every plan, and has launchbay.
            (line,) = self._pack("survey", "", *(["programs"] if self._host.name else []))
        except NoPython:
            return self._serial.survey()
        programs = {"programs": line["programs"]} if "programs" in line else {}
        return Facts(
            seen_at=time.time(),
            cpus=line["cpus"],
            memory_mib=line["memory_mib"],
            gpus=tuple((index, name) for index, name in line["gpus"]),
            details={"python": line["python"], "home": line["home"], **programs},
        )

    def discover(self) -> list[Handle]:
        root = self._depot.root_path()
        try:
            lines = [line for line in self._pack("list", "") if line["root"] == root]
        except NoPython:
            return self._serial.discover()
        return [Handle(line["run"], line["target"], line["native_id"]) for line in lines]

    def feed(self, handles: Sequence[Handle]) -> None:
        serial, packed = _by_queue(handles)
        if serial:
            self._serial.poll(serial[:1])
        if packed or not serial:
            list(self._pack("look", self._question([])))

    def pull(self, handle: Handle, twin: Path, *, patterns: Sequence[str] = ()) -> bool:
        return self._depot.pull(handle.run_id, twin, patterns)

    def deliver(self, handle: Handle, parcels: Sequence[Parcel]) -> None:
        # Most commands send no files.
        from launchbay.backends.delivery import deliver_to_run  # noqa: PLC0415

        self._check_running(handle)
        deliver_to_run(self._host, self._depot.run_path(handle.run_id), parcels)

    def dispose(self, handles: Sequence[Handle]) -> None:
        remove_folders(self._depot, [handle.run_id for handle in handles])

    def shell_argv(self, handle: Handle, command: Sequence[str] = ()) -> list[str]:
        self._check_running(handle)
        words = [self._depot.run_path(handle.run_id), str(attempt_of(handle)), *command]
        return self._host.terminal_argv(["sh", "-c", ENTER, "sh", *words])

    def forward_argv(self, handle: Handle, port: int, to_port: int) -> list[str]:
        self._check_running(handle)
        return self._host.forward_argv(port, "127.0.0.1", to_port)

    def capacity(self) -> list[Room]:
        try:
            (line,) = self._pack("capacity", "")
        except NoPython:
            return self._serial.capacity()
        return [parse_room(line)]

    def prepare(self, plan: Plan) -> tuple[Handle, list[str]]:
        if self._host.name:
            raise Unsupported(
                f"`--here` runs on this machine, and `{self.target}` is `{self._host.name}`",
                hint="choose a target on this machine, such as `--target local`",
            )
        (line,) = self._pack("prepare", self._sealed(plan))
        (job,) = plan.jobs
        script = f"{self._depot.programs()}/run.sh"
        argv = ["sh", script, line["folder"], str(job.attempt)]
        return self._handle(plan.id, job), ["env", f"BAY_HERE={job.project_folder}", *argv]

    def dev_argv(
        self,
        plan: Plan,
        *,
        command: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _: None,  # noqa: ARG002
    ) -> list[str]:
        # Most commands make no such place.
        from launchbay.backends.dev import enter_argv, make_folder  # noqa: PLC0415

        (job,) = plan.jobs
        here = not self._host.name
        folder = make_folder(self._depot, job, secret=self._secret, links=here)
        needs, limit = self._limits.render_needs(job.resources), job.resources.time_limit
        # Nothing is queued for: a person sees the GPUs that would do.
        gpus = f"see:{','.join(needs.get('devices', ()))}" if needs.keys() & SEEN else ""
        seconds = int(limit.total_seconds()) if limit else 0
        argv = enter_argv(self._depot, folder, command, seconds=seconds, gpus=gpus)
        return self._host.terminal_argv(argv)

    def diagnose(self) -> list[Finding]:
        facts = self.survey()
        gpus = ", ".join(f"{index}: {name}" for index, name in facts.gpus) or "none seen"
        memory = render_size(facts.memory_mib * MIB) if facts.memory_mib else "not told"
        findings = [
            Finding(level="ok", subject="processors", message=f"{facts.cpus}"),
            Finding(level="ok", subject="memory", message=memory),
            Finding(level="ok", subject="GPUs", message=gpus),
        ]
        if not facts.details["python"]:
            findings.append(
                Finding(
                    level="warning",
                    subject="Python",
                    message="none of 3.8 or newer: runs go one after another",
                    remedy=str(no_python(self._host, self.target).hint),
                )
            )
        if folder := self._depot.unwritable():
            findings.append(
                Finding(
                    level="problem",
                    subject="root",
                    message=f"`{folder}` is not writable",
                    remedy=f"choose another `root:` for target `{self.target}`",
                )
            )
        return findings

    @cached_property
    def _serial(self) -> SerialQueue:
        # Few machines have no Python.
        from launchbay.backends.machine.serial import SerialQueue  # noqa: PLC0415

        return SerialQueue(self._depot, self._limits, self._secret)

    def _check_running(self, handle: Handle) -> None:
        state = self.poll([handle])[handle].state
        if state is not State.RUNNING:
            raise BadRequest(
                f"`{handle.run_id}` does not run: it {state.phrase}",
                hint="`bay ls` shows what runs",
            )

    def _plan_chunk(self, jobs: tuple[Job, ...]) -> Plan:
        plan_id = digest([[job.run_id, job.attempt] for job in jobs])[:10]
        if self._one_by_one:
            return self._serial.plan(plan_id, jobs)
        header = {
            "format": FORMAT,
            "plan": plan_id,
            "target": self.target,
            "root": str(self._options.root),
        }
        lines = [header, *(self._render_job(plan_id, job) for job in jobs)]
        document = "".join(json.dumps(line) + "\n" for line in lines)
        return Plan(id=plan_id, jobs=jobs, document=document)

    def _render_job(self, plan_id: str, job: Job) -> dict[str, Any]:
        return {
            **to_record(job),
            # They lead to places on this machine.
            "links": {} if self._host.name else job.links,
            "native_id": queue_id(QUEUE, plan_id, job.run_id, job.attempt),
            "needs": self._limits.render_needs(job.resources) | _grace(job),
            "caps": self._limits.render_caps(job),
        }

    def _sealed(self, plan: Plan) -> str:
        """The plan with what may not stand in it: environment and secrets."""
        names = sorted({name for job in plan.jobs for name in job.secrets})
        private = {
            "environment": dict(self._host.environment()),
            "umask": f"{FAR_UMASK if self._host.name else _umask():03o}",
            "secrets": {name: self._secret(name) for name in names},
        }
        return plan.document + json.dumps(private) + "\n"

    def _handle(self, plan_id: str, job: Job) -> Handle:
        return Handle(job.run_id, self.target, queue_id(QUEUE, plan_id, job.run_id, job.attempt))

    def _question(self, handles: Iterable[Handle]) -> str:
        runs = [[handle.run_id, attempt_of(handle)] for handle in handles]
        return json.dumps({"root": str(self._options.root), "runs": runs})

    def _pack(self, verb: str, stdin: str, *words: str) -> Iterator[dict[str, Any]]:
        # A survey is part of planning, which writes nothing.
        look_round = verb == "survey"
        depot = self._depot
        done = (
            depot.visit("pack.py", verb, *words)
            if look_round
            else depot.call("pack.py", verb, stdin=stdin)
        )
        for text in done.stdout.splitlines():
            line = json.loads(text)
            if "error" in line:
                raise Rejected(f"the queue of `{self.target}` cannot go on: {line['error']}")
            yield line
        if not done.ok:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise Unreachable(f"the queue of `{self.target}` failed: {last}")


def open_machine(opening: Opening) -> MachineBackend:
    """A target of kind `machine`."""
    options = opening.options
    host = str(options.get("host") or "")
    return MachineBackend(
        opening.target,
        MachineOptions(
            root=_root(opening, host),
            parallel=int(options["parallel"]) if options.get("parallel") else None,
            devices=parse_devices(options.get("devices", "auto")),
        ),
        reach(host, opening.target),
        facts=opening.facts,
        secret=opening.secret,
    )


def _root(opening: Opening, host: str) -> Path:
    root = opening.options.get("root")
    if host:
        # `~` is the home there.
        return Path(root or FAR_ROOT)
    return Path(root).expanduser().absolute() if root else opening.root


def parse_devices(value: str | Sequence[str]) -> tuple[str, ...] | None:
    """`auto`, a number, or a list of ids.

    >>> parse_devices("auto"), parse_devices("2"), parse_devices(["1", "3"])
    (None, ('0', '1'), ('1', '3'))
    """
    if value == "auto":
        return None
    if isinstance(value, str):
        return tuple(map(str, range(int(value))))
    return tuple(map(str, value))


def _grace(job: Job) -> dict[str, float]:
    """How long a run that is told to end may take, where it has outputs to copy."""
    return {"grace_s": COPYING_S} if job.ship else {}


def _by_queue(handles: Iterable[Handle]) -> tuple[list[Handle], list[Handle]]:
    """Those of the queue where runs go one after another, and the others."""
    serial, packed = list[Handle](), list[Handle]()
    for handle in handles:
        (serial if is_queued(handle, SERIAL) else packed).append(handle)
    return serial, packed


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
