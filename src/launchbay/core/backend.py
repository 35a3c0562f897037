"""The one interface between the lab and everything that runs jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from launchbay.core.host import Host
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
    details: Mapping[str, Any] = field(default_factory=dict)
    """What only its kind of target knows of itself, as plain data."""


LOG_PIECE = 4 * 1024 * 1024
"""The most of a log, in bytes, that is handed out at once: it is copied some times on its way."""


@dataclass(frozen=True, kw_only=True)
class LogChunk:
    """A piece of a log; `cursor` asks for what follows it."""

    text: str
    cursor: str
    more: bool = False
    """Whether what follows is there already, and only too much for one piece."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a check-up found."""

    level: Literal["ok", "warning", "problem"]
    subject: str
    message: str
    remedy: str = ""


class Backend(Protocol):
    """Drives one target. What has to outlive the process is in handles and on the target.

    Every method may raise `Unreachable`; nothing it then leaves behind is lost, `discover` tells.
    """

    target: str
    look_every_s: float = 0.0
    """How often one user may ask it what became of runs, over all terminals; 0 is at any time."""

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
        """What came since `cursor`, at most a piece of it, without waiting."""


@runtime_checkable
class Staging(Protocol):
    """Takes a frozen tree of code directly."""

    def stage(self, snapshot: str, tree: Path) -> None:
        """Have the code there, once per content."""


@runtime_checkable
class Weighing(Protocol):
    """Holds only so much code; what is more has to come to runs from elsewhere."""

    def is_too_big(self, snapshot: str) -> bool:
        """Whether code that was handed over is more than it holds."""


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

    def feed(self, handles: Sequence[Handle]) -> None:
        """Start what of these was taken and nobody works on; nothing to do is fine."""


@runtime_checkable
class Outputs(Protocol):
    """Holds the files of runs elsewhere."""

    def pull(self, handle: Handle, twin: Path, *, patterns: Sequence[str] = ()) -> bool:
        """Have in `twin` what is new of the run's folder: outputs, logs, records.

        Whether the run has a folder there.

        A file that is there as it is, by size and time, is not sent again; each is written whole
        or not at all. What may hold secrets stays where it is, and so does the working folder.

        Args:
            handle: the run.
            twin: its folder here; made where it is missing.
            patterns: outputs that are wanted, as `bay fetch` takes them; none wants all.
        """


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """A file of this machine on its way to another."""

    source: Path
    place: str
    """Where it belongs there: a path below the folder that it is for, with `/`."""


@runtime_checkable
class Delivery(Protocol):
    """Takes files into runs that run."""

    def deliver(self, handle: Handle, parcels: Sequence[Parcel]) -> None:
        """Have the files in the run's working folder, byte for byte, each whole or not at all.

        Raises:
            BadRequest: when it does not run.
            Rejected: when one cannot be written, or would lead out of the run's folder.
        """


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Storage that outlives runs and that they can have among their folders."""

    name: str
    size: str
    """As the target writes it: `100Gi`."""
    modes: tuple[str, ...]
    phase: str
    """`Bound`, or why it is not yet there."""
    storage_class: str = ""
    used_by: tuple[str, ...] = ()
    """What has it now."""
    note: str = ""
    """Why it cannot be used yet."""


@runtime_checkable
class Claims(Protocol):
    """Has storage that is claimed by name; none of it is ever removed from here."""

    def list_claims(self) -> list[Claim]:
        """Every claim, and who has it now."""

    def make_claim(
        self, name: str, *, size_mib: int, storage_class: str = "", shared: bool = True
    ) -> tuple[Claim, bool]:
        """Have a claim of that name, and whether it was made now; one that is there stays as it is.

        Args:
            name: what it is called.
            size_mib: how much to ask for.
            storage_class: of which kind; empty is the target's own choice.
            shared: whether several nodes may have it at once.
        """

    def open_claim(
        self, name: str, *, tell: Callable[[str], None]
    ) -> AbstractContextManager[tuple[Host, str]]:
        """A host that has the claim, and the folder there, until the end of the block.

        Raises:
            BadRequest: when there is no such claim.
        """


@runtime_checkable
class Disposal(Protocol):
    """Can remove what ended runs left there."""

    def dispose(self, handles: Sequence[Handle]) -> None:
        """Remove the folders of these runs, and nothing else; gone already is fine."""


@runtime_checkable
class Tidying(Protocol):
    """Keeps things for several runs, which may outlive all of them."""

    def find_leftovers(self, *, before: float) -> list[str]:
        """What is ours there, that no run refers to and nobody has used since."""

    def remove_leftovers(self, names: Sequence[str]) -> None:
        """Remove these, and nothing else; gone already is fine."""


@runtime_checkable
class Interactive(Protocol):
    """Lets a person in."""

    def shell_argv(self, handle: Handle, command: Sequence[str] = ()) -> list[str]:
        """What a terminal executes to be where the run runs; no command is a shell.

        Raises:
            BadRequest: when it does not run.
        """


@runtime_checkable
class Forwarding(Protocol):
    """Can lead a port of this machine to one where a run runs."""

    def forward_argv(self, handle: Handle, port: int, to_port: int) -> list[str]:
        """What stays in the foreground as long as `port` here is the run's `to_port`.

        Raises:
            BadRequest: when it does not run.
        """


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a part of a target has, what is free of it, and who waits or uses it."""

    name: str
    total: Mapping[str, float]
    """What there is, by its word: nodes, cpus, gpus."""
    free: Mapping[str, float]
    waiting: int = 0
    """Jobs that wait for it."""
    users: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Who uses how much, as far as the target tells."""
    note: str = ""


@runtime_checkable
class Capacity(Protocol):
    """Can say what is free."""

    def capacity(self) -> list[Room]:
        """What each part has, and what of it is free now."""


@runtime_checkable
class Trial(Protocol):
    """Can ask what would become of a plan, without sending it."""

    def trial(self, plan: Plan) -> list[Finding]:
        """When it is expected to start, or why it would be refused."""


@runtime_checkable
class Foreground(Protocol):
    """Can run a job in the terminal that asks for it."""

    def prepare(self, plan: Plan) -> tuple[Handle, list[str]]:
        """Make ready the plan's one job, claimed by nobody yet; the argv runs and records it."""


@runtime_checkable
class Development(Protocol):
    """Gives a person a place to work by hand, with the code and the Python of a job."""

    def dev_argv(
        self,
        plan: Plan,
        *,
        command: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> list[str]:
        """What a terminal executes to work where the plan's one job would run.

        A fresh folder is made there from the frozen code, which is there already; it stays where
        the place does. No command is a shell. All of it ends when the job's time is over; nothing
        is recorded. What is waited for meanwhile is told.

        Raises:
            Unsupported: when the target cannot give what the job asks.
        """


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A batch object of a cluster, or a pod that stands alone."""

    kind: str
    """`job` or `pod`."""
    name: str
    state: str
    """In the cluster's own sense: pending, running, succeeded, failed."""
    created_at: float
    run_id: str = ""
    """Whose it is; empty for what is no run's."""
    plan: str = ""
    """What it was sent with, where we sent it."""


@runtime_checkable
class Workloads(Protocol):
    """Shows people the objects of the cluster themselves, and lets them make and delete some."""

    def make_pod(self, plan: Plan, *, name: str) -> str:
        """Make a pod that stays until it is deleted, with what the plan's one job would find.

        Its name is returned, which has a number behind it where the wanted one is taken.

        Raises:
            Rejected: when the cluster refuses it.
        """

    def render_pod(self, plan: Plan, *, name: str) -> str:
        """The same as a document; nothing is sent."""

    def prepare_manifest(self, plan: Plan, *, name: str, lasting: bool) -> dict[str, Any]:
        """The object that would start the plan's one job, once all else that it needs is there.

        Args:
            plan: of one job.
            name: what the object is called.
            lasting: whether it is a pod that stays after the command.

        Raises:
            Rejected: when the cluster refuses what stands beside it.
        """

    def list_workloads(self, project: str) -> list[Workload]:
        """The user's own of a project, whoever made them; nobody else's."""

    def delete_workloads(self, workloads: Sequence[Workload]) -> None:
        """Delete these, with what only they needed, and nothing else; gone already is fine."""

    def deliver_to_pod(self, name: str, parcels: Sequence[Parcel]) -> None:
        """Have files in the working folder of a pod, each whole or not at all.

        Raises:
            BadRequest: when no such pod of ours runs.
        """


@runtime_checkable
class Diagnosis(Protocol):
    """Can be checked up."""

    def diagnose(self) -> list[Finding]:
        """What works and what does not, each problem with its remedy."""


CAPABILITIES: Mapping[str, type] = {
    "Staging": Staging,
    "Weighing": Weighing,
    "Environments": Environments,
    "Survey": Survey,
    "Discovery": Discovery,
    "Feeding": Feeding,
    "Outputs": Outputs,
    "Delivery": Delivery,
    "Claims": Claims,
    "Disposal": Disposal,
    "Tidying": Tidying,
    "Interactive": Interactive,
    "Forwarding": Forwarding,
    "Capacity": Capacity,
    "Trial": Trial,
    "Foreground": Foreground,
    "Development": Development,
    "Workloads": Workloads,
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
