"""A run: a job, where it went and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(StrEnum):
    """Where a run stands. Not hearing from a target is no state: the last one stands."""

    CREATED = "created"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self in FINAL

    @property
    def phrase(self) -> str:
        """What is said of a run that stands there: it `has failed`, it `was cancelled`."""
        return PHRASES[self]


PHRASES = {
    State.CREATED: "waits",
    State.QUEUED: "waits",
    State.RUNNING: "runs",
    State.SUCCEEDED: "has succeeded",
    State.FAILED: "has failed",
    State.CANCELLED: "was cancelled",
    State.LOST: "is lost",
}
FAILURES = frozenset({State.FAILED, State.LOST})
"""What may be tried again."""
FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST})


class Cause(StrEnum):
    """Why a run ended as it did."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    OOM = "oom"
    PREEMPTED = "preempted"
    NODE = "node"
    SETUP = "setup"
    IMAGE = "image"
    REFUSED = "refused"
    CANCELLED_ELSEWHERE = "cancelled-elsewhere"


@dataclass(frozen=True)
class Handle:
    """Enough to find a submitted job again from any later process."""

    run_id: str
    target: str
    native_id: str

    def __str__(self) -> str:
        return f"{self.target}:{self.native_id}"


@dataclass(frozen=True, kw_only=True)
class Status:
    """What a backend says about a job at one moment."""

    state: State
    cause: Cause | None = None
    exit_code: int | None = None
    reason: str = ""
    """One sentence that a person understands."""
    allocation: str = ""
    nodes: tuple[str, ...] = ()
    started_at: float | None = None
    ended_at: float | None = None
    metrics: Mapping[str, float | str] = field(default_factory=dict)
    attempt: int | None = None
    """Which attempt this is of, where the target counts on by itself."""
    unfed: bool = False
    """Whether the target has it and waits for a push to start it."""


def is_elsewhere(place: Mapping[str, str]) -> bool:
    """Whether what is kept at a place is on another machine, or in a pod."""
    return bool(place.get("host") or place.get("namespace"))


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try at a run, as stored."""

    number: int
    native_id: str
    target: str
    code: str
    created_at: float
    status: Status


@dataclass(frozen=True, kw_only=True)
class Run:
    """A job, where it went and what became of it, as stored."""

    id: str
    name: str
    experiment: str
    project: str
    """The project's id."""
    identity: str
    """What makes it the same run when a file is applied again."""
    target: str
    place: Mapping[str, str]
    """Host and root that the target had at submit."""
    native_id: str = ""
    attempt: int = 1
    code: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    resources: Mapping[str, str] = field(default_factory=dict)
    launch: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()
    status: Status
    cancel_requested: bool = False
    suspect_since: float | None = None
    """When the target first said that it is lost."""
    created_at: float
    seen_at: float | None = None

    @property
    def is_unsent(self) -> bool:
        """Whether no target knows of it, and it has not ended before that."""
        return self.state is State.CREATED and not self.native_id

    @property
    def waits_here(self) -> bool:
        """Whether it is for this side to send it."""
        return self.is_unsent and not self.cancel_requested

    @property
    def state(self) -> State:
        """Where the run stands."""
        return self.status.state

    @property
    def is_elsewhere(self) -> bool:
        """Whether its files are on another machine, or in a pod."""
        return is_elsewhere(self.place)

    @property
    def suffix(self) -> str:
        """The end of its id, short enough to type."""
        return self.id.rpartition("-")[2]

    @property
    def handle(self) -> Handle:
        """What its backend knows it by."""
        return Handle(self.id, self.target, self.native_id)
