"""The one interface between the lab and everything that runs jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from launchbay.core.job import Job
    from launchbay.core.python import Python
    from launchbay.core.run import Handle, Status


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Exactly the text that will be sent, for one or more jobs."""

    id: str
    jobs: tuple[Job, ...]
    document: str


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A job that the target did not take."""

    run_id: str
    reason: str
    transient: bool = False
    """Whether trying later may help."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a target was seen to be, and when."""

    seen_at: float
    cpus: int | None = None
    memory_mib: int | None = None
    gpus: tuple[tuple[str, str], ...] = ()
    """The id and the name of each GPU."""


@dataclass(frozen=True, kw_only=True)
class LogChunk:
    """A piece of a log; `cursor` asks for what follows it."""

    text: str
    cursor: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a check-up found."""

    level: Literal["ok", "warning", "problem"]
    subject: str
    message: str
    remedy: str = ""


class Backend(Protocol):
    """Drives one target. A backend holds no state: what lasts is in handles and on the target.

    Every method may raise `Unreachable`; nothing it then leaves behind is lost, `discover` tells.
    """

    target: str

    def plan(self, jobs: Sequence[Job]) -> list[Plan]:
        """Pure given the options and facts it was opened with: no network, files, clock, chance.

        What is printed is what is sent.

        Raises:
            Unsupported: when the target cannot do what a job asks.
        """

    def submit(self, plan: Plan) -> Iterator[Handle | Refusal]:
        """Send a plan; yields as the target accepts or refuses, so that each is stored at once.

        What already exists under our mark is a `Handle`: submitting twice starts nothing twice.
        """

    def poll(self, handles: Sequence[Handle]) -> dict[Handle, Status]:
        """What became of each, in as few round trips as the target allows; all are answered.

        A state that we have no word for is never final.
        """

    def cancel(self, handles: Sequence[Handle]) -> None:
        """Ask to end them, do not wait; ended or gone already is fine."""

    def read_log(self, handle: Handle, *, rank: int = 0, cursor: str = "") -> LogChunk:
        """What came since `cursor`, without waiting."""


@runtime_checkable
class Staging(Protocol):
    """Takes a frozen tree of code directly."""

    def stage(self, snapshot: str, tree: Path) -> None:
        """Have the code there, once per content."""


@runtime_checkable
class Environments(Protocol):
    """Can build a Python environment from the frozen code."""

    def build_python(
        self, python: Python, *, snapshot: str, key: str, tell: Callable[[str], None]
    ) -> str:
        """The environment, once per key under the target's root; shell lines that activate it.

        Takes as long as it takes, and tells each line of progress as it comes. The snapshot is
        there already. Called again, or by several at once, it is built by one of them.

        Raises:
            Rejected: when it cannot be built; nothing is left of it.
        """


@runtime_checkable
class Survey(Protocol):
    """Can say what the target is."""

    def survey(self) -> Facts:
        """Look round, without changing anything."""


@runtime_checkable
class Discovery(Protocol):
    """Can list our jobs by their mark."""

    def discover(self) -> list[Handle]:
        """Every job that this target's place holds, waiting or running."""


@runtime_checkable
class Feeding(Protocol):
    """May need a push to start what was already asked for."""

    def feed(self) -> None:
        """Start what waits on this side; nothing to do is fine."""


@runtime_checkable
class Foreground(Protocol):
    """Can run a job in the terminal that asks for it."""

    def prepare(self, plan: Plan) -> tuple[Handle, list[str]]:
        """Make ready the plan's one job, claimed by nobody yet; the argv runs and records it."""


@runtime_checkable
class Diagnosis(Protocol):
    """Can be checked up."""

    def diagnose(self) -> list[Finding]:
        """What works and what does not, each problem with its remedy."""


CAPABILITIES: Mapping[str, type] = {
    "Staging": Staging,
    "Environments": Environments,
    "Survey": Survey,
    "Discovery": Discovery,
    "Feeding": Feeding,
    "Foreground": Foreground,
    "Diagnosis": Diagnosis,
}
"""The optional abilities, by the name that the documentation gives them."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a backend is opened with."""

    target: str
    options: Mapping[str, Any]
    """The target's entry in the configuration, `kind` left out."""
    root: Path
    """Where this target keeps runs when its options do not say."""
    facts: Facts | None = None
    secret: Callable[[str], str] = str
    """The value of a secret; called at submit only."""
