"""A job: one command, fully decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.core.python import Python

DEFAULT_OUTPUTS = (
    "outputs",
    "output",
    "out",
    "results",
    "runs",
    "logs",
    "checkpoints",
    "ckpts",
    "lightning_logs",
    "wandb",
    "mlruns",
    "multirun",
)
"""The folders that programs commonly write; each run has its own."""
CLAIM = "claim:"
"""What a folder's source or a place for outputs begins with that is a volume claim."""
CODE_FOLDER = ".bay-code"
"""The folder by which code comes that its target does not hold, as an archive."""
CODE_ARCHIVE = "code.tar.gz"
IN_IMAGE = "image"
"""What `code` says of code that is in the image already."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a job needs; `None` means that nobody asked."""

    nodes: int = 1
    processes: int = 1
    """On each node; above 1, or on several nodes, the command is started once for each."""
    cpus: float | None = None
    """Of one node."""
    gpus: float | None = None
    """Whole, or a fraction below 1: several runs share one."""
    gpu_types: tuple[str, ...] = ()
    """Names of which one must occur in the GPU's own name; empty allows all."""
    gpu_types_denied: tuple[str, ...] = ()
    memory_mib: int | None = None
    disk_mib: int | None = None
    """Scratch space; 0 asks for none."""
    time_limit: timedelta | None = None
    hosts: tuple[str, ...] = ()
    """Machines that it may run on; empty allows all."""
    hosts_denied: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further resources by the target's own names."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What is to be done about a run that waits, ends early or fails."""

    pack: str = ""
    """Runs that share an allocation: a number, or `node` for as many as one node holds."""
    retries: Mapping[str, int] = field(default_factory=dict)
    """How often a failed run is tried again, by its cause or by a pattern of its log."""
    resume: bool = False
    """Whether it is warned before its time limit, and continued after."""
    grace_s: float = 120.0
    """How long before the limit it is warned."""
    hold_s: float = 0.0
    """How long a run that failed keeps its place, for somebody to look."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder that a run finds in its working folder and that is not of its code."""

    name: str
    """Where in the working folder: `data`, `a/b`."""
    source: str
    """A path on the target's machine, a place in object storage, or `claim:NAME`."""
    at: str = ""
    """An absolute path where it is wanted, too."""
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Ship:
    """Where the outputs and logs of a run are copied while it runs and when it ends."""

    to: str
    """A place in object storage, as it was written; a run's files go below `<to>/<run id>/`."""
    every_s: float = 60.0
    """0 is only at the end."""
    only: tuple[str, ...] = ()
    """Patterns of the outputs that are wanted there; empty is all."""


@dataclass(frozen=True)
class Argv:
    """A command as words, handed to the program verbatim."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Script:
    """A command as shell text, run by bash where there is one, else sh."""

    text: str


Command = Argv | Script


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a run is given besides its command, fully decided."""

    resources: Resources = field(default_factory=Resources)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names only; the values are asked for at submit."""
    image: str = ""
    modules: tuple[str, ...] = ()
    python: Python | None = None
    setup: str = ""
    """Shell lines before the command; a failing one fails the run."""
    policy: Policy = field(default_factory=Policy)
    folders: tuple[Folder, ...] = ()
    ship: Ship | None = None
    fetch: tuple[str, ...] = ()
    """Patterns of outputs that come home with the first look after the end."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What only some kinds of target understand."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One command, fully decided, with its own run id."""

    run_id: str
    attempt: int = 1
    name: str
    experiment: str
    command: Command
    params: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names only; the values are asked for at submit."""
    modules: tuple[str, ...] = ()
    python: str = ""
    """As it was written."""
    entry: str = ""
    """Shell lines that load the modules and enter the environment, before `setup`."""
    setup: str = ""
    """Shell lines before the command; a failing one fails the run."""
    image: str = ""
    resources: Resources = field(default_factory=Resources)
    policy: Policy = field(default_factory=Policy)
    options: Mapping[str, Any] = field(default_factory=dict)
    """What only some kinds of target understand."""
    parallel: int | None = None
    """At most so many runs of this experiment at once."""
    snapshot: str = ""
    """The id of the frozen code; empty runs in an empty folder."""
    project_folder: str = ""
    """Where the code was frozen from; paths to it in PYTHONPATH are led to the frozen code."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Where in the working folder to link what, on this machine, stays outside the snapshot."""
    folders: tuple[Folder, ...] = ()
    ship: Ship | None = None
    fetch: tuple[str, ...] = ()
    """Patterns of outputs that come home with the first look after the end."""
    carriage: str = ""
    """Shell lines for the node: which folders to bring, where to ship, and what tools need."""
    subfolder: str = ""
    """Where in the code the command starts."""
    outputs: tuple[str, ...] = DEFAULT_OUTPUTS
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Name to regular expression, read from the log."""
    origin: str = ""
    """A folder of earlier outputs, `$BAY_FROM`."""
    fresh: bool = False
    """Start with empty outputs; what was there is kept beside them."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the lab wants back when it rebuilds its index from run folders."""


def to_record(job: Job) -> dict[str, Any]:
    """The job as plain data: what `job.json` holds on every target."""
    # By hand: `asdict` copies deeply, and a sweep has many jobs.
    record = dict(vars(job))
    command = record.pop("command")
    need = dict(vars(job.resources))
    limit = job.resources.time_limit
    need["time_limit"] = limit.total_seconds() if limit else None
    return {
        **record,
        "words": command.words if isinstance(command, Argv) else (),
        "script": command.text if isinstance(command, Script) else "",
        "resources": need,
        "policy": dict(vars(job.policy)),
        "folders": [dict(vars(folder)) for folder in job.folders],
        "ship": dict(vars(job.ship)) if job.ship else None,
    }


def from_record(record: Mapping[str, Any]) -> Job:
    """The job that `to_record` was given; keys that a backend added are left out."""
    known = {name: record[name] for name in Job.__dataclass_fields__ if name in record}
    need = dict(record["resources"])
    limit = need["time_limit"]
    words = record["words"]
    lists = {key: tuple(value) for key, value in need.items() if isinstance(value, list)}
    return Job(
        **{
            **known,
            "command": Argv(tuple(words)) if words else Script(record["script"]),
            "secrets": tuple(record["secrets"]),
            "outputs": tuple(record["outputs"]),
            "modules": tuple(record.get("modules", ())),
            "policy": Policy(**record.get("policy", {})),
            "folders": tuple(Folder(**folder) for folder in record.get("folders", ())),
            "ship": _read_ship(record.get("ship")),
            "fetch": tuple(record.get("fetch", ())),
            "resources": Resources(
                **{
                    **need,
                    **lists,
                    "time_limit": timedelta(seconds=limit) if limit else None,
                }
            ),
        }
    )


def _read_ship(record: Mapping[str, Any] | None) -> Ship | None:
    return Ship(**{**record, "only": tuple(record.get("only", ()))}) if record else None
