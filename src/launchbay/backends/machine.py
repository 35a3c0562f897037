"""A queue of runs on one host: this machine or, later, any that SSH reaches.

Drives `node/pack.py`, one call a verb. The queue and its GPU slots belong to the user and the
host, whatever the project or the target's name.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.backends.machine_capacity import Capacity
from launchbay.backends.machine_status import parse_status
from launchbay.core import rundir
from launchbay.core.backend import (
    Backend,
    Diagnosis,
    Discovery,
    Environments,
    Facts,
    Feeding,
    Finding,
    Foreground,
    LogChunk,
    Opening,
    Plan,
    Refusal,
    Staging,
    Survey,
)
from launchbay.core.errors import Rejected, StoreError, Unreachable
from launchbay.core.job import Job, to_record
from launchbay.core.naming import digest
from launchbay.core.python import Python, activation, build_argv, build_failure
from launchbay.core.run import Handle, Status
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from launchbay.core.host import Host

FORMAT = 1
NODE_PROGRAMS = (
    "entries.py",
    "environment.sh",
    "files.py",
    "hardware.py",
    "line.py",
    "live.py",
    "pack.py",
    "processes.py",
    "records.py",
    "run.sh",
    "runfolder.py",
    "slots.py",
    "waiting.py",
    "worker.py",
)
CHUNK = 500
"""Runs per plan: each chunk's handles are stored before the next is sent."""


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """What a target of kind `machine` can say."""

    root: Path
    parallel: int | None = None
    """At most so many runs of this target at once on the host."""
    devices: tuple[str, ...] | None = None
    """The GPUs to give out; `None` takes all but those that others use."""


class MachineBackend(
    Backend, Staging, Environments, Survey, Discovery, Feeding, Foreground, Diagnosis
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
        self._capacity = Capacity(
            target=target, facts=facts, parallel=options.parallel, devices=options.devices
        )
        self._secret = secret

    def plan(self, jobs: Sequence[Job]) -> list[Plan]:
        for job in jobs:
            self._capacity.check(job)
        chunks = (jobs[start : start + CHUNK] for start in range(0, len(jobs), CHUNK))
        return [self._plan_chunk(tuple(chunk)) for chunk in chunks]

    def submit(self, plan: Plan) -> Iterator[Handle | Refusal]:
        jobs = {job.run_id: job for job in plan.jobs}
        for line in self._pack("add", self._sealed(plan)):
            yield self._handle(plan.id, jobs[line["ok"]])

    def poll(self, handles: Sequence[Handle]) -> dict[Handle, Status]:
        if not handles:
            return {}
        by_run = {handle.run_id: handle for handle in handles}
        lines = self._pack("look", self._question(handles))
        seen = {by_run[line["run"]]: parse_status(line) for line in lines}
        if len(seen) < len(by_run):
            raise Unreachable(f"`{self.target}` answered for {len(seen)} of {len(by_run)} runs")
        return seen

    def cancel(self, handles: Sequence[Handle]) -> None:
        if handles:
            list(self._pack("cancel", self._question(handles)))

    def read_log(self, handle: Handle, *, rank: int = 0, cursor: str = "") -> LogChunk:
        run = rundir.run_folder(self._options.root, handle.run_id)
        path = rundir.attempt_folder(run, _attempt(handle)) / rundir.log_name(rank)
        offset = int(cursor or 0)
        data = self._host.read_bytes(path, offset=offset)
        # A character that is half written stays for the next time.
        text, used = codecs.utf_8_decode(data, "replace", False)  # noqa: FBT003
        return LogChunk(text=text, cursor=str(offset + used))

    def stage(self, snapshot: str, tree: Path) -> None:
        place = self._options.root / "snapshots" / snapshot
        if place == tree or place.is_dir():
            return
        # Its target's root is elsewhere on this machine, perhaps on another disk.
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = place.with_name(f"{snapshot}.{os.getpid()}")
        done = self._host.run(["cp", "-a", str(tree), str(draft)])
        if not done.ok:
            raise Rejected(f"the code could not be copied to `{place}`: {done.stderr.strip()}")
        draft.rename(place)

    def build_python(
        self, python: Python, *, snapshot: str, key: str, tell: Callable[[str], None]
    ) -> str:
        place = str(self._options.root / "envs" / key)
        if python.is_built:
            tree = str(self._options.root / "snapshots" / snapshot)
            script = str(_install_node_programs() / "environment.sh")
            argv = build_argv(python, script, place=place, tree=tree)
            done = self._host.run(argv, tell=partial(_tell_progress, tell))
            if not done.ok:
                raise build_failure(python, self.target, done)
        return activation(python, place)

    def survey(self) -> Facts:
        (line,) = self._pack("survey", "")
        return Facts(
            seen_at=time.time(),
            cpus=line["cpus"],
            memory_mib=line["memory_mib"],
            gpus=tuple((index, name) for index, name in line["gpus"]),
        )

    def discover(self) -> list[Handle]:
        lines = [line for line in self._pack("list", "") if line["root"] == str(self._options.root)]
        return [Handle(line["run"], line["target"], line["native_id"]) for line in lines]

    def feed(self) -> None:
        list(self._pack("look", self._question([])))

    def prepare(self, plan: Plan) -> tuple[Handle, list[str]]:
        (line,) = self._pack("prepare", self._sealed(plan))
        (job,) = plan.jobs
        script = _install_node_programs() / "run.sh"
        argv = ["sh", str(script), line["folder"], str(job.attempt)]
        return self._handle(plan.id, job), ["env", f"BAY_HERE={job.project_folder}", *argv]

    def diagnose(self) -> list[Finding]:
        facts = self.survey()
        gpus = ", ".join(f"{index}: {name}" for index, name in facts.gpus) or "none seen"
        findings = [
            Finding(level="ok", subject="processors", message=f"{facts.cpus}"),
            Finding(level="ok", subject="memory", message=f"{facts.memory_mib} MiB"),
            Finding(level="ok", subject="GPUs", message=gpus),
        ]
        root = self._options.root
        nearest = next(folder for folder in (root, *root.parents) if folder.exists())
        if not os.access(nearest, os.W_OK):
            findings.append(
                Finding(
                    level="problem",
                    subject="root",
                    message=f"`{nearest}` is not writable",
                    remedy=f"choose another `root:` for target `{self.target}`",
                )
            )
        return findings

    def _plan_chunk(self, jobs: tuple[Job, ...]) -> Plan:
        plan_id = digest([[job.run_id, job.attempt] for job in jobs])[:10]
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
            "native_id": _native(plan_id, job.run_id, job.attempt),
            "needs": self._capacity.render_needs(job.resources),
            "caps": self._capacity.render_caps(job),
        }

    def _sealed(self, plan: Plan) -> str:
        """The plan with what may not stand in it: environment and secrets."""
        names = sorted({name for job in plan.jobs for name in job.secrets})
        private = {
            "environment": dict(self._host.environment()),
            "umask": f"{_umask():03o}",
            "secrets": {name: self._secret(name) for name in names},
        }
        return plan.document + json.dumps(private) + "\n"

    def _handle(self, plan_id: str, job: Job) -> Handle:
        return Handle(job.run_id, self.target, _native(plan_id, job.run_id, job.attempt))

    def _question(self, handles: Iterable[Handle]) -> str:
        runs = [[handle.run_id, _attempt(handle)] for handle in handles]
        return json.dumps({"root": str(self._options.root), "runs": runs})

    def _pack(self, verb: str, stdin: str) -> Iterator[dict[str, Any]]:
        # A survey is part of planning, which writes nothing.
        folder = _packaged_programs() if verb == "survey" else _install_node_programs()
        argv = [sys.executable, "-S", "-E", str(folder / "pack.py"), verb]
        done = self._host.run(argv, stdin=stdin)
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
    devices = options.get("devices", "auto")
    root = options.get("root")
    return MachineBackend(
        opening.target,
        MachineOptions(
            root=Path(root).expanduser().absolute() if root else opening.root,
            parallel=int(options["parallel"]) if options.get("parallel") else None,
            devices=parse_devices(devices),
        ),
        LocalHost(),
        facts=opening.facts,
        secret=opening.secret,
    )


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


def _tell_progress(tell: Callable[[str], None], line: str) -> None:
    # Where nothing was left to do there is nothing to tell.
    if not line.startswith("ready "):
        tell(line)


def _native(plan_id: str, run_id: str, attempt: int) -> str:
    return f"queue/{plan_id}/{run_id}" + (f"-{attempt}" if attempt > 1 else "")


def _attempt(handle: Handle) -> int:
    tail = handle.native_id.rpartition("/")[2].removeprefix(handle.run_id)
    return int(tail.lstrip("-") or 1)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _packaged_programs() -> Path:
    return Path(str(files("launchbay.node")))


def _install_node_programs() -> Path:
    """Keep the node programs where a queue outlives the environment that brought them."""
    texts = {name: (_packaged_programs() / name).read_bytes() for name in NODE_PROGRAMS}
    version = hashlib.sha256(b"".join(texts.values())).hexdigest()[:12]
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    folder = Path(state) / "launchbay" / "node" / version
    if not folder.is_dir():
        draft = folder.with_name(f"{version}.{os.getpid()}")
        try:
            draft.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name, text in texts.items():
                (draft / name).write_bytes(text)
            draft.rename(folder)
        except OSError as err:
            # Somebody else may have been quicker.
            if not folder.is_dir():
                raise StoreError(
                    f"`{folder}` cannot be written: {err.strerror}",
                    hint="free some space, or set XDG_STATE_HOME to a folder you can write",
                ) from err
    return folder
