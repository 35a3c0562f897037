"""A backend and a host that live in memory."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from launchbay.core.backend import (
    LOG_PIECE,
    Backend,
    Discovery,
    Environments,
    LogChunk,
    Plan,
    Refusal,
)
from launchbay.core.command import render
from launchbay.core.errors import Rejected, Unreachable
from launchbay.core.run import Cause, Handle, State, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from launchbay.core.job import Job
    from launchbay.core.python import Python

LOST = Status(state=State.LOST, reason="it is not known here")


@dataclass
class Clock:
    """A clock that you move by hand; sleeping moves it too."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        """The time now."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def run_really(job: Job) -> tuple[int, str]:
    """Run the job's command to its end; its code and what it printed."""
    done = subprocess.run(
        ["sh", "-c", render(job.command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout


@dataclass
class MemoryBackend(Backend, Environments, Discovery):
    """Keeps jobs in memory; they run when you say so."""

    target: str = "memory"
    program: Callable[[Job], tuple[int, str]] = run_really
    """What running a job means."""
    fails_after: int | None = None
    """Accept so many jobs, then break off, as a lost connection does."""
    silent: bool = False
    """Do not answer."""
    room: int | None = None
    """How many jobs it holds that have not ended; a plan that does not fit is refused for now."""
    chunk: int | None = None
    """How many jobs a plan has at most."""
    look_every_s: float = 0.0
    looks: int = 0
    """How often it was asked what became of jobs."""
    revoked: set[str] = field(default_factory=set)
    """Runs that were cancelled before they came."""
    jobs: dict[str, Job] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    starts: list[str] = field(default_factory=list)
    """Every start of a job, by native id: none may be here twice."""
    broken: str = ""
    """Why no environment can be built."""
    builds: list[str] = field(default_factory=list)
    """The key of every environment that was built: none may be here twice."""

    def plan(self, jobs: Sequence[Job]) -> list[Plan]:
        """A plan a chunk, with a line a job."""
        size = self.chunk or len(jobs) or 1
        chunks = [tuple(jobs[start : start + size]) for start in range(0, len(jobs), size)]
        return [
            Plan(
                id=f"plan{number}",
                jobs=chunk,
                document="".join(
                    f"{job.run_id} {job.attempt} {render(job.command)}\n" for job in chunk
                ),
            )
            for number, chunk in enumerate(chunks)
        ]

    def submit(self, plan: Plan) -> Iterator[Handle | Refusal]:
        """Take jobs, until `fails_after`."""
        self._listen()
        new = [job for job in plan.jobs if f"{job.run_id}-{job.attempt}" not in self.jobs]
        if self.room is not None and len(self.discover()) + len(new) > self.room:
            for job in plan.jobs:
                yield Refusal(run_id=job.run_id, reason="there is no room", transient=True)
            return
        for number, job in enumerate(plan.jobs):
            if self.fails_after is not None and number >= self.fails_after:
                self.fails_after = None
                raise Unreachable("the connection broke off")
            native = f"{job.run_id}-{job.attempt}"
            if native not in self.jobs:
                self.jobs[native] = job
                gone = job.run_id in self.revoked
                self.statuses[native] = Status(state=State.CANCELLED if gone else State.QUEUED)
            yield Handle(job.run_id, self.target, native)

    def poll(self, handles: Sequence[Handle]) -> dict[Handle, Status]:
        """What stands here, `lost` for what does not."""
        self._listen()
        self.looks += 1
        return {handle: self.statuses.get(handle.native_id, LOST) for handle in handles}

    def cancel(self, handles: Sequence[Handle]) -> None:
        """End what has not ended."""
        self._listen()
        for handle in handles:
            if handle.native_id not in self.statuses:
                self.revoked.add(handle.run_id)
            elif not self.statuses[handle.native_id].state.final:
                self.statuses[handle.native_id] = Status(state=State.CANCELLED)

    def read_log(self, handle: Handle, *, rank: int = 0, cursor: str = "") -> LogChunk:
        """The text since the cursor."""
        self._listen()
        text = self.texts.get(f"{handle.native_id}/{rank}", "")
        # A character has four bytes at most.
        begin, end = int(cursor or 0), min(len(text), int(cursor or 0) + LOG_PIECE // 4)
        return LogChunk(text=text[begin:end], cursor=str(end), more=end < len(text))

    def build_python(
        self, python: Python, *, snapshot: str, key: str, tell: Callable[[str], None]
    ) -> str:
        """Note the key, unless `broken`; the lines do nothing."""
        self._listen()
        if self.broken:
            raise Rejected(f"`{self.target}` cannot build `python: {python}`: {self.broken}")
        if key not in self.builds:
            tell(f"building from {snapshot}")
            self.builds.append(key)
        return f": {key}\n"

    def discover(self) -> list[Handle]:
        """Everything that has not ended."""
        return [
            Handle(job.run_id, self.target, native)
            for native, job in self.jobs.items()
            if not self.statuses[native].state.final
        ]

    def work(self) -> None:
        """Run everything that waits."""
        for native, job in self.jobs.items():
            if self.statuses[native].state is State.QUEUED:
                self.starts.append(native)
                code, text = self.program(job)
                self.texts[f"{native}/0"] = text
                self.statuses[native] = Status(
                    state=State.FAILED if code else State.SUCCEEDED,
                    cause=Cause.EXIT if code else None,
                    exit_code=code,
                    reason=f"exit code {code}" if code else "",
                )

    def forget(self, native: str) -> None:
        """Lose a job, as a node does that burns down."""
        del self.statuses[native]

    def give(self, native: str, **changes: object) -> None:
        """Set what is said of a job."""
        self.statuses[native] = replace(self.statuses[native], **changes)  # type: ignore[arg-type]

    def _listen(self) -> None:
        if self.silent:
            raise Unreachable("nobody answers")
