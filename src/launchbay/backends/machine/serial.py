"""The queue of a machine without Python: runs go one after another, by `node/serial.sh`."""

from __future__ import annotations

import re
import time
from math import ceil
from typing import TYPE_CHECKING, Any

from launchbay.backends.depot_programs import FIND_PROGRAMS
from launchbay.backends.names import SERIAL, attempt_of, plan_of, queue_id
from launchbay.backends.outcome import parse_status
from launchbay.backends.plan_archive import archive_plan
from launchbay.backends.records import Record, Records, flatten, is_copying, parse_look
from launchbay.backends.sheet import render_document, render_sheet
from launchbay.core.backend import Facts, Plan, Room
from launchbay.core.errors import Rejected, Unreachable
from launchbay.core.run import Handle, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from launchbay.backends.depot import Depot
    from launchbay.backends.machine.capacity import Limits
    from launchbay.core.job import Job

UNWRITTEN = 73
NAMED = 5
"""Lines that a survey prints in any case."""
ONE_BY_ONE = "runs go one after another there, for want of Python 3.8"
LOSSES = {
    "gone": "its process is gone and left no exit record",
    "restarted": "the machine was restarted",
    "unstarted": "it was claimed and never started",
}
HEARD = re.compile(r"^(waiting|alive|gone|restarted|unstarted) (\S+) (\d+)$", re.MULTILINE)

# Processors that we may use, memory in KiB, the home, the machine's name, programs that copy data;
# then a line for each GPU.
SURVEY = f"""\
nproc 2>/dev/null || grep -c '^processor' /proc/cpuinfo 2>/dev/null || echo
sed -n 's/^MemTotal: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo 2>/dev/null | grep . || echo
printf '%s\\n' "$HOME"
uname -n
{FIND_PROGRAMS}echo
nvidia-smi --query-gpu=index,name --format=csv,noheader 2>/dev/null || true
"""


class SerialQueue:
    """One user's queue on one host, as `MachineBackend` speaks to it where there is no Python.

    Args:
        depot: the target's root there.
        limits: what the machine has, and what runs may ask of it.
        secret: the value of a secret; called at submit only.
    """

    def __init__(self, depot: Depot, limits: Limits, secret: Callable[[str], str]) -> None:
        self._depot = depot
        self._limits = limits
        self._secret = secret

    def plan(self, plan_id: str, jobs: tuple[Job, ...]) -> Plan:
        """One plan of these jobs."""
        target = self._depot.target
        files = {
            "target": f"{target}\n",
            "needs": "".join(self._render_needs(job) for job in jobs),
            **render_sheet(jobs, target=target, plan=plan_id),
        }
        return Plan(id=plan_id, jobs=jobs, document=render_document(files))

    def submit(self, plan: Plan) -> list[Handle]:
        """Have the plan in the queue, once."""
        self._call("add", plan.id, stdin=archive_plan(plan, self._secret))
        return [
            Handle(
                job.run_id, self._depot.target, queue_id(SERIAL, plan.id, job.run_id, job.attempt)
            )
            for job in plan.jobs
        ]

    def poll(self, handles: Sequence[Handle]) -> dict[Handle, Status]:
        """What became of each, in one call, which also sees that somebody works."""
        runs = "".join(f"{handle.run_id} {attempt_of(handle)}\n" for handle in handles)
        text, records = parse_look(self._call("look", stdin=runs))
        heard = [(word, (run, int(attempt))) for word, run, attempt in HEARD.findall(text)]
        waiting = [key for word, key in heard if word == "waiting"]
        places = {key: place for place, key in enumerate(waiting)}
        words = {key: word for word, key in heard}
        seen = {}
        for handle in handles:
            key = handle.run_id, attempt_of(handle)
            own = records.get(handle.run_id, Records())
            record = own.attempts.get(key[1], Record())
            line = flatten(record, own) | _judge(record, words.get(key, ""), places.get(key))
            seen[handle] = parse_status(line)
        return seen

    def cancel(self, handles: Iterable[Handle]) -> None:
        """Ask to end them; what waits is ended at once."""
        lines = [f"{one.run_id} {attempt_of(one)} {plan_of(one)}\n" for one in handles]
        self._call("cancel", stdin="".join(lines))

    def discover(self) -> list[Handle]:
        """Every run of this root that waits or runs."""
        found: list[Handle] = []
        plan = target = ""
        for line in self._call("list").splitlines():
            first, second, *rest = line.split(" ")
            if first == "plan":
                plan, target = second, rest[0]
            else:
                found.append(Handle(first, target, queue_id(SERIAL, plan, first, int(second))))
        seen = self.poll(found) if found else {}
        return [handle for handle in found if not seen[handle].state.final]

    def survey(self) -> Facts:
        """Look round, without changing anything."""
        cpus, memory, home, _, programs, *gpus = self._look_round()
        return Facts(
            seen_at=time.time(),
            cpus=int(cpus) if cpus else None,
            memory_mib=int(memory) // 1024 if memory else None,
            gpus=tuple(_parse_gpu(line) for line in gpus),
            details={"python": "", "home": home, "programs": programs.split()},
        )

    def capacity(self) -> list[Room]:
        """All of the machine, or nothing while a run runs."""
        cpus, _, _, name, _, *gpus = self._look_round()
        said = self._call("look").splitlines()
        total = {"cpus": int(cpus or 1), "gpus": len(gpus)}
        return [
            Room(
                name=name,
                total=total,
                free=dict.fromkeys(total, 0) if "busy" in said else total,
                waiting=sum(line.startswith("waiting ") for line in said),
                note=ONE_BY_ONE,
            )
        ]

    def _render_needs(self, job: Job) -> str:
        needs = self._limits.render_needs(job.resources)
        gpus = needs.get("gpus", 0)
        ids = ",".join(needs.get("devices", ())) or ("hide" if needs.get("hide_gpus") else "-")
        # One run at a time: it may have the whole of what it wants a share of.
        words = [ceil(needs["time_s"] or 0), ceil(gpus), int(bool(needs.get("auto"))), ids]
        return " ".join(map(str, (job.run_id, job.attempt, *words))) + "\n"

    def _look_round(self) -> list[str]:
        done = self._depot.host.run(["/bin/sh", "-c", SURVEY])
        lines = done.stdout.splitlines()
        if not done.ok or len(lines) < NAMED:
            raise Unreachable(f"`{self._depot.target}` does not say what it has")
        return lines

    def _call(self, verb: str, *words: str, stdin: str = "") -> str:
        done = self._depot.call("serial.sh", verb, self._depot.root_path(), *words, stdin=stdin)
        if done.ok:
            return done.stdout
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        if done.code == UNWRITTEN:
            raise Rejected(
                f"`{self._depot.target}` cannot be written to: {last}",
                hint="free some space there, or choose another `root:`",
            )
        raise Unreachable(f"the queue of `{self._depot.target}` failed: {last}")


def _judge(record: Record, word: str, place: int | None) -> dict[str, Any]:
    """The state of a run, from its records and what was heard of it."""
    if is_copying(record) and word == "alive":
        return {"state": "running", "why": "", "copying": True}
    if "exit" in record.events:
        return {}
    if word in LOSSES:
        return {"state": "lost", "why": LOSSES[word]}
    if record.marks & {"claim"} or word == "alive":
        return {"state": "running", "why": ""}
    if place is None:
        return {"state": "lost", "why": "unknown"}
    return {"state": "waiting", "ahead": place, "why": ONE_BY_ONE if place else ""}


def _parse_gpu(line: str) -> tuple[str, str]:
    index, _, name = line.partition(",")
    return index.strip(), name.strip()
