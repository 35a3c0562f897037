"""Runs as jobs of Slurm, on the host where `sbatch` is: this machine or one that SSH reaches.

Met: Slurm 22.05, with accounting and without. A sweep is an array, or a few where the site's limits
or the runs' needs ask for it; a run finds its line of the plan's sheet by its index. Runs that
share an allocation (`pack:`) are found there by `node/pack.py`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.backends.delivery import deliver_to_run
from launchbay.backends.depot import Depot
from launchbay.backends.dev import enter_argv, make_folder, srun_words
from launchbay.backends.disposal import remove_folders
from launchbay.backends.environments import build_environment
from launchbay.backends.names import (
    QUEUE,
    attempt_of,
    is_queued,
    job_id,
    job_of,
    plan_of,
    queue_id,
)
from launchbay.backends.plan_archive import archive_plan
from launchbay.backends.records import Records, parse_look
from launchbay.backends.sheet import (
    parse_document,
)
from launchbay.backends.slurm.facts import (
    CAPACITY_SCRIPT,
    SURVEY_SCRIPT,
    WHY_SCRIPT,
    parse_capacity,
    parse_survey,
)
from launchbay.backends.slurm.plan import Planner
from launchbay.backends.slurm.refusals import explain_refusal
from launchbay.backends.slurm.status import Doubt, is_ending, judge, settle
from launchbay.backends.slurm.words import (
    SACCT_FORMAT,
    SQUEUE_FORMAT,
    Listed,
    parse_sacct,
    parse_show_job,
    parse_squeue,
    parse_submitted,
)
from launchbay.core import rundir
from launchbay.core.backend import (
    LOG_PIECE,
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
    Trial,
)
from launchbay.core.errors import BadRequest, Rejected, Unreachable, Unsupported
from launchbay.core.host import decoded_so_far, encoded
from launchbay.core.quantity import render_span
from launchbay.core.run import Handle, State, Status
from launchbay.hosts.reach import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from launchbay.core.job import Job
    from launchbay.core.python import Python

REFUSED = 70
"""What `slurm.sh` exits with when Slurm said no."""
UNWRITTEN = 73
LOOK_EVERY_S = 10.0


@dataclass(frozen=True, kw_only=True)
class SlurmOptions:
    """What a target of kind `slurm` can say."""

    root: Path
    parallel: int | None = None
    look_every_s: float = LOOK_EVERY_S


class SlurmBackend(
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
    Trial,
    Development,
    Diagnosis,
):
    """One user's jobs on one cluster."""

    def __init__(
        self,
        target: str,
        options: SlurmOptions,
        depot: Depot,
        *,
        facts: Facts | None = None,
        secret: Callable[[str], str] = str,
    ) -> None:
        self.target = target
        self.look_every_s = options.look_every_s
        self._options = options
        self._depot = depot
        self._details = facts.details if facts else None
        self._secret = secret

    def plan(self, jobs: Sequence[Job]) -> list[Plan]:
        return Planner(self.target, self._options.parallel, self._details).plan(jobs)

    def submit(self, plan: Plan) -> Iterator[Handle | Refusal]:
        done = self._depot.call(
            "slurm.sh", "submit", plan.id, stdin=archive_plan(plan, self._secret)
        )
        if done.code == REFUSED:
            refused = explain_refusal(done.stderr)
            for job in plan.jobs:
                yield Refusal(run_id=job.run_id, reason=refused.reason, transient=refused.transient)
            return
        number = parse_submitted(self._said(done.code, done.stdout, done.stderr))
        packed = "pack.json" in parse_document(plan.document)
        for index, job in enumerate(plan.jobs):
            if packed:
                native = queue_id(QUEUE, plan.id, job.run_id, job.attempt)
            else:
                native = job_id(number, index, len(plan.jobs), job.attempt)
            yield Handle(job.run_id, self.target, native)

    def poll(self, handles: Sequence[Handle]) -> dict[Handle, Status]:
        if not handles:
            return {}
        seen, doubts = self._look(handles)
        known = self._ask(doubts.values()) if doubts else {}
        for handle, (job, records, listed) in doubts.items():
            base, found, packed = attempt_of(handle), known.get(job), not job_of(handle)
            if _is_unfed(handle, records):
                why = "waits for the next allocation, which the next look asks for"
                seen[handle] = Status(state=State.QUEUED, reason=why, unfed=True)
            elif listed and is_ending(base, found, records, time.time()):
                seen[handle] = Status(state=State.RUNNING, reason="it is ending", attempt=base)
            else:
                if found is None or (found.alive and listed):
                    # Accounting may not have heard yet what the list says already.
                    found = listed
                seen[handle] = settle(base, found, records, job=job, packed=packed)
        return seen

    def cancel(self, handles: Sequence[Handle]) -> None:
        if not handles:
            return
        lines = [
            f"{one.run_id} {attempt_of(one)} {job_of(one) or f'- {plan_of(one)}'}\n"
            for one in handles
        ]
        done = self._depot.call("slurm.sh", "cancel", stdin="".join(lines))
        self._said(done.code, done.stdout, done.stderr)

    def read_log(self, handle: Handle, *, rank: int = 0, cursor: str = "") -> LogChunk:
        at, _, offset = cursor.partition(":")
        words = [str(attempt_of(handle)), rundir.log_name(rank), at, offset or "0", str(LOG_PIECE)]
        done = self._depot.call("log.sh", handle.run_id, *words)
        number, _, rest = done.stdout.partition("\n")
        data = encoded(rest)
        text, used = decoded_so_far(data)
        before = int(offset or 0) if at == number else 0
        more = len(data) == LOG_PIECE
        return LogChunk(text=text, cursor=f"{number}:{before + used}", more=more)

    def stage(self, snapshot: str, tree: Path) -> None:
        self._depot.stage(snapshot, tree)

    def build_python(
        self, python: Python, *, snapshot: str, key: str, tell: Callable[[str], None]
    ) -> str:
        return build_environment(self._depot, python, snapshot=snapshot, key=key, tell=tell)

    def survey(self) -> Facts:
        done = self._depot.host.run(["sh", "-c", SURVEY_SCRIPT])
        details = parse_survey(done.stdout)
        if not done.ok or not details.get("partitions"):
            said = _last(self._depot.host.run(["sh", "-c", WHY_SCRIPT]).stderr)
            raise Unreachable(
                f"`{self.target}` does not answer as a Slurm: {said or 'sinfo names no partition'}",
                hint="`sinfo` has to work in this shell, or as `ssh HOST sinfo` elsewhere",
            )
        return Facts(seen_at=time.time(), details=details)

    def discover(self) -> list[Handle]:
        done = self._depot.call("slurm.sh", "plans")
        found: list[Handle] = []
        for plan, number, packed, runs in _parse_plans(
            self._said(done.code, done.stdout, done.stderr)
        ):
            for index, (run_id, attempt) in enumerate(runs):
                if packed:
                    native = queue_id(QUEUE, plan, run_id, attempt)
                else:
                    native = job_id(number, index, len(runs), attempt)
                found.append(Handle(run_id, self.target, native))
        seen, doubts = self._look(found)
        return [one for one in found if one not in doubts and not seen[one].state.final]

    def feed(self, handles: Sequence[Handle]) -> None:
        plans = Counter(plan_of(one) for one in handles if is_queued(one))
        for plan, count in plans.items():
            done = self._depot.call("slurm.sh", "submit", plan, str(count))
            if done.code != REFUSED:
                self._said(done.code, done.stdout, done.stderr)

    def pull(self, handle: Handle, twin: Path, *, patterns: Sequence[str] = ()) -> bool:
        return self._depot.pull(handle.run_id, twin, patterns)

    def deliver(self, handle: Handle, parcels: Sequence[Parcel]) -> None:
        self._running(handle)
        deliver_to_run(self._depot.host, self._depot.run_path(handle.run_id), parcels)

    def dispose(self, handles: Sequence[Handle]) -> None:
        remove_folders(self._depot, [handle.run_id for handle in handles])

    def shell_argv(self, handle: Handle, command: Sequence[str] = ()) -> list[str]:
        status = self._running(handle)
        inside = ["sh", f"{self._depot.programs()}/enter.sh", self._depot.run_path(handle.run_id)]
        where = [f"--nodelist={node}" for node in status.nodes[:1]]
        step = [f"--jobid={status.allocation}", "--overlap", "--nodes=1", "--ntasks=1", *where]
        return self._srun([*step, *inside, *command])

    def forward_argv(self, handle: Handle, port: int, to_port: int) -> list[str]:
        node = next(iter(self._running(handle).nodes), "")
        return self._depot.host.forward_argv(port, node, to_port)

    def capacity(self) -> list[Room]:
        done = self._depot.host.run(["sh", "-c", CAPACITY_SCRIPT])
        return parse_capacity(self._said(done.code, done.stdout, done.stderr))

    def trial(self, plan: Plan) -> list[Finding]:
        script = parse_document(plan.document)["job.sh"]
        done = self._depot.call("slurm.sh", "trial", stdin=script)
        said = _last(done.stdout) or _last(done.stderr)
        if done.ok:
            message = _render_start(said.removeprefix("sbatch: "), time.time())
            return [Finding(level="ok", subject=self.target, message=message)]
        refused = explain_refusal(done.stdout + done.stderr)
        return [Finding(level="problem", subject=self.target, message=refused.reason)]

    def dev_argv(
        self,
        plan: Plan,
        *,
        command: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _: None,  # noqa: ARG002
    ) -> list[str]:
        (job,) = plan.jobs
        if job.image:
            raise Unsupported(
                f"`bay dev` does not enter an image, and `{job.image}` is asked for",
                hint="start the container by hand, or take `image:` out meanwhile",
            )
        folder = make_folder(self._depot, job, secret=self._secret)
        gpus = f"{job.resources.gpus or 0:g}"
        inside = enter_argv(self._depot, folder, command, gpus=gpus)
        return self._srun([*srun_words(parse_document(plan.document)["job.sh"]), *inside])

    def diagnose(self) -> list[Finding]:
        details = self.survey().details
        there = ", ".join(part["name"] for part in details.get("partitions", ()))
        limit = details.get("submit_limit")
        said = {
            "Slurm": str(details.get("version") or "unknown"),
            "partitions": there or "none seen",
            "limits": f"arrays of {details.get('max_array')}"
            + (f", {limit} jobs at once" if limit else ""),
            "accounting": "sacct answers" if details.get("accounting") else "none; squeue serves",
        }
        findings = [Finding(level="ok", subject=key, message=text) for key, text in said.items()]
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

    def _look(
        self, handles: Sequence[Handle]
    ) -> tuple[dict[Handle, Status], dict[Handle, tuple[str, Records, Listed | None]]]:
        """What is certain of each handle, and what has to be asked about."""
        runs = "".join(f"{handle.run_id}\n" for handle in handles)
        done = self._depot.call("slurm.sh", "look", SQUEUE_FORMAT, stdin=runs)
        text, records = parse_look(self._said(done.code, done.stdout, done.stderr))
        listed = parse_squeue(text)
        tasks = {one.native_id: one for one in listed}
        plans = _allocations(listed)
        seen: dict[Handle, Status] = {}
        doubts: dict[Handle, tuple[str, Records, Listed | None]] = {}
        for handle in handles:
            own = records.get(handle.run_id, Records())
            packed, task = not job_of(handle), own.task(attempt_of(handle))
            # Where a plan was handed over twice, the job that began the run has it.
            job = "" if packed else task or job_of(handle)
            entry = tasks.get(job or task) if job or task else plans.get(plan_of(handle))
            found = judge(attempt_of(handle), entry, own, job=job, packed=packed)
            if isinstance(found, Doubt):
                doubts[handle] = (found.job, own, entry)
            else:
                seen[handle] = found
        return seen, doubts

    def _ask(self, doubts: Iterable[tuple[str, Records, Listed | None]]) -> dict[str, Listed]:
        """What the scheduler remembers of jobs that it no longer lists, or lists as ended."""
        jobs = sorted({job for job, _, _ in doubts if job})
        if not jobs:
            return {}
        done = self._depot.call(
            "slurm.sh", "ask", SACCT_FORMAT, stdin="".join(f"{one}\n" for one in jobs)
        )
        text, _, source = self._said(done.code, done.stdout, done.stderr).rpartition("--")
        parse = parse_sacct if source.startswith("sacct") else parse_show_job
        return {one.native_id: one for one in parse(text)}

    def _srun(self, words: Sequence[str]) -> list[str]:
        """What a terminal here executes to have `srun` there."""
        program = f"{self._depot.programs()}/dev.sh"
        return self._depot.host.terminal_argv(["/bin/sh", program, "srun", *words])

    def _running(self, handle: Handle) -> Status:
        status = self.poll([handle])[handle]
        if status.state is not State.RUNNING or not status.allocation:
            raise BadRequest(
                f"`{handle.run_id}` is {status.state}, not running",
                hint=f"`bay show {handle.run_id.rpartition('-')[2]}` tells more",
            )
        return status

    def _said(self, code: int, stdout: str, stderr: str) -> str:
        """What a call printed; raises for one that failed."""
        if code == UNWRITTEN:
            raise Rejected(
                f"`{self.target}` cannot be written to: {_last(stderr)}",
                hint="free some space there, or choose another `root:`",
            )
        if code == REFUSED:
            refused = explain_refusal(stderr)
            raise (Unreachable if refused.transient else Rejected)(
                f"`{self.target}`: {refused.reason}"
            )
        if code:
            raise Unreachable(f"`{self.target}` failed: {_last(stderr) or f'exit code {code}'}")
        return stdout


def open_slurm(opening: Opening) -> SlurmBackend:
    """A target of kind `slurm`."""
    options = opening.options
    host = reach(str(options.get("host") or ""), opening.target)
    root = Path(options.get("root") or "~/bay")
    return SlurmBackend(
        opening.target,
        SlurmOptions(
            root=root,
            parallel=int(options["parallel"]) if options.get("parallel") else None,
            look_every_s=float(options.get("look_every", LOOK_EVERY_S)),
        ),
        Depot(host, root, target=opening.target, programs="root"),
        facts=opening.facts,
        secret=opening.secret,
    )


def _allocations(listed: Sequence[Listed]) -> dict[str, Listed]:
    """An allocation of each plan that is alive, one that runs rather than one that waits."""
    alive = [one for one in listed if one.alive]
    alive.sort(key=lambda one: one.state == "RUNNING")
    return {one.name.rpartition("-")[2]: one for one in alive}


def _is_unfed(handle: Handle, records: Records) -> bool:
    """Whether it shares an allocation, and neither began nor was cancelled."""
    base = attempt_of(handle)
    begun = any(number >= base and one.marks for number, one in records.attempts.items())
    return not job_of(handle) and not begun


def _parse_plans(text: str) -> Iterator[tuple[str, str, bool, list[tuple[str, int]]]]:
    """Plan, job, whether its runs share allocations, and the runs with their attempts."""
    for part in text.split("\nplan ")[1:]:
        head, *lines = part.splitlines()
        plan, job, *packed = head.split()
        pairs = (line.split() for line in lines)
        yield plan, job, bool(packed), [(run, int(attempt)) for run, attempt in pairs]


def _render_start(said: str, now: float) -> str:
    """What `sbatch --test-only` expects; `slurm.sh` has it tell moments as numbers.

    >>> _render_start("Job 7 to start at 460 using 1 processors on nodes n1 in partition gpu", 100)
    'would start in 6m00s on n1 in partition gpu'
    """
    match = re.search(r"to start at (\d+)\b.*? on (?:nodes )?(\S.*)", said)
    if not match:
        return said
    wait_s = int(match[1]) - now
    when = f"in {render_span(wait_s)}" if wait_s >= 1 else "at once"
    return f"would start {when} on {match[2]}"


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
