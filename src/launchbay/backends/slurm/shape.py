"""What of a job decides its sbatch directives, and the directives.

Jobs of one shape go into one array.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from launchbay.backends.slurm.fit import (
    Limits,
    allocation_minutes,
    check,
    limits,
    pack_width,
    partitions_of,
)
from launchbay.backends.slurm.words import expand_nodes
from launchbay.core.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.core.job import Job, Resources

__all__ = [
    "OPTIONS",
    "Limits",
    "Shape",
    "allocation_minutes",
    "check",
    "limits",
    "pack_width",
    "render_directives",
    "render_time",
    "shape_of",
]

OPTIONS = (
    "partition",
    "account",
    "qos",
    "constraint",
    "reservation",
    "licenses",
    "exclusive",
    "sbatch",
)
"""What a job or a target may say of Slurm itself."""
OWN = frozenset(
    {
        "array",
        "comment",
        "error",
        "job-name",
        "no-requeue",
        "open-mode",
        "output",
        "parsable",
        "requeue",
        "test-only",
        "wait",
        "wrap",
    }
)
"""Options that are ours alone: without them a run is not found again, or starts again unasked."""
INSTEAD: Mapping[str, str] = {
    "gpus": "gres",
    "gpus-per-node": "gres",
    "gpus-per-task": "gres",
    "mem-per-cpu": "mem",
    "mem-per-gpu": "mem",
    "ntasks": "ntasks-per-node",
}
"""Options that sbatch does not take beside one of ours."""
BARE = frozenset({"exclusive", "no-requeue", "requeue"})
SHORT: Mapping[str, str] = {
    "A": "account",
    "C": "constraint",
    "D": "chdir",
    "G": "gpus",
    "J": "job-name",
    "L": "licenses",
    "N": "nodes",
    "W": "wait",
    "a": "array",
    "c": "cpus-per-task",
    "e": "error",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
MOST_GRACE_S = 65535
"""The earliest warning that Slurm can give."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What jobs have in common that go into one array; every amount is of one node."""

    nodes: int = 1
    processes: int = 1
    cpus: int | None = None
    gpus: int = 0
    gpu_type: str = ""
    gres: tuple[str, ...] = ()
    """Further resources: `name:amount`."""
    memory_mib: int | None = None
    disk_mib: int | None = None
    minutes: int | None = None
    hosts: tuple[str, ...] = ()
    """All of them are taken."""
    hosts_denied: tuple[str, ...] = ()
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    licenses: str = ""
    exclusive: str = ""
    """`yes`, or what sbatch takes: `user`, `mcs`, `topo`."""
    sbatch: tuple[str, ...] = ()
    """Further directives, without `#SBATCH`."""
    resume: bool = False
    grace_s: int = 120


def shape_of(
    job: Job,
    width: int = 1,
    *,
    options: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
) -> Shape:
    """The shape of a job, or of an allocation in which several such run side by side.

    Args:
        job: one of them.
        width: how many run side by side.
        options: what the target says, where the job says nothing.
        details: of the target's facts; without them GPU types are taken as they are written.

    Raises:
        Unsupported: when Slurm cannot be asked for that.
    """
    need, said = job.resources, {**(options or {}), **job.options}
    words = {key: _word(key, said.get(key)) for key in OPTIONS if key != "sbatch"}
    places = partitions_of(details, words["partition"])
    cpus = _cpus(need, width)
    gpus = _gpus(job, width)
    _check_shares(need.processes, cpus, gpus)
    hosts, denied = _hosts(need, places)
    limit = need.time_limit
    return Shape(
        nodes=need.nodes,
        processes=need.processes,
        cpus=cpus,
        gpus=gpus,
        gpu_type=_gpu_type(need, places) if gpus else "",
        gres=tuple(_plain("extra", f"{key}:{need.extra[key]}") for key in sorted(need.extra)),
        memory_mib=need.memory_mib * width if need.memory_mib else None,
        disk_mib=need.disk_mib * width if need.disk_mib else None,
        minutes=ceil(limit.total_seconds() / 60) if limit else None,
        hosts=hosts,
        hosts_denied=denied,
        sbatch=_extra_lines(said.get("sbatch")),
        resume=job.policy.resume,
        grace_s=min(MOST_GRACE_S, ceil(job.policy.grace_s)),
        **words,
    )


def _word(key: str, value: object) -> str:
    """An option as one word of a directive; lists are joined by commas."""
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if isinstance(value, (list, tuple)):
        return ",".join(_plain(key, str(item)) for item in value)
    return _plain(key, str(value).strip())


def _plain(key: str, word: str) -> str:
    if re.search(r"[\s\"'\\#\x00-\x1f\x7f]", word) or not word.isprintable():
        raise Unsupported(
            f"`{key}: {word!r}` cannot stand in a directive of sbatch",
            hint="leave out spaces, quotes, `#` and line ends",
        )
    return word


def _cpus(need: Resources, width: int) -> int | None:
    if need.cpus is None:
        return width if width > 1 else None
    return max(1, ceil(need.cpus * width))


def _gpus(job: Job, width: int) -> int:
    gpus = job.resources.gpus or 0
    if gpus == int(gpus):
        return int(gpus) * width
    if not job.policy.pack:
        raise Unsupported(
            f"Slurm gives whole GPUs, and `{job.run_id}` wants {gpus:g}",
            hint="ask for `--gpus 1`, or let several runs share an allocation with `pack:`",
        )
    return ceil(gpus) * width if gpus > 1 else ceil(width / int(1 / gpus))


def _check_shares(processes: int, cpus: int | None, gpus: int) -> None:
    for amount, word, flag in ((cpus, "CPU", "--cpus"), (gpus, "GPU", "--gpus")):
        if not amount or amount % processes == 0:
            continue
        below = amount - amount % processes
        valid = " or ".join(str(number) for number in (below, below + processes) if number)
        plural = "" if amount == 1 else "s"
        raise Unsupported(
            f"{amount} {word}{plural} of a node cannot be shared by {processes} processes; "
            f"{valid} can",
            hint=f"ask for {valid} with `{flag}`",
        )


def _hosts(
    need: Resources, places: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Hosts to take and hosts to leave out.

    sbatch takes every host that it is given; to choose among more, all others are left out.
    """
    hosts = tuple(_plain("hosts", name) for name in need.hosts)
    denied = tuple(_plain("hosts", name) for name in need.hosts_denied)
    if len(hosts) <= need.nodes:
        return hosts, denied
    there = {
        name for place in places for kind in place["kinds"] for name in expand_nodes(kind["names"])
    }
    if not there & set(hosts):
        known = f"; there are {', '.join(sorted(there)[:8])}" if there else ""
        raise Unsupported(
            f"Slurm cannot choose {need.nodes} of the hosts {', '.join(hosts)}{known}",
            hint="name as many hosts as `nodes:`, or run `bay doctor` to learn which there are",
        )
    return (), tuple(sorted((there - set(hosts)) | set(denied)))


def _gpu_type(need: Resources, places: Sequence[Mapping[str, Any]]) -> str:
    there = [str(name) for place in places for name in place["gpus"]]
    listed = ", ".join(f"`{name}`" for name in sorted(set(there)) if name)
    hint = f"there are {listed}" if listed else "`bay capacity` shows which there are"
    if need.gpu_types_denied:
        raise Unsupported(
            f"Slurm cannot leave out GPUs of type {', '.join(need.gpu_types_denied)}",
            hint=f"name the one that you want with `gpu_type:`; {hint}",
        )
    wanted = [_plain("gpu_type", word) for word in need.gpu_types]
    if not wanted:
        return ""
    if there:
        # The user's order decides; a name that is the very one comes before one that holds it.
        for word in wanted:
            near = sorted((n for n in there if word.lower() in n.lower()), key=len)
            if near:
                return near[0]
        raise Unsupported(f"there are no GPUs of type {' or '.join(wanted)} here", hint=hint)
    if len(wanted) > 1:
        raise Unsupported(
            f"Slurm can be asked for one type of GPU, not for {' or '.join(wanted)}",
            hint="name one with `gpu_type:`, or run `bay doctor` to learn which there are",
        )
    return wanted[0]


def _extra_lines(value: object) -> tuple[str, ...]:
    lines = value.splitlines() if isinstance(value, str) else value or ()
    if not isinstance(lines, (list, tuple)):
        raise Unsupported(
            "`sbatch:` is a list of options", hint="write `sbatch: [--mail-type=END]`"
        )
    return tuple(_extra_line(str(line)) for line in lines if str(line).strip())


def _extra_line(line: str) -> str:
    text = re.sub(r"^#SBATCH\s+", "", line.strip())
    if not text.isprintable() or not re.match(r"-{0,2}[A-Za-z]", text):
        raise Unsupported(
            f"`sbatch:` has {line!r}, which is no option", hint="write `--mail-type=END`"
        )
    text = text if text.startswith("-") else f"--{text}"
    if (name := _option_name(text)) in OWN:
        raise Unsupported(
            f"`--{name}` is set by launchbay itself", hint="leave it out of `sbatch:`"
        )
    return text


def _option_name(text: str) -> str:
    if text.startswith("--"):
        return re.split(r"[=\s]", text[2:], maxsplit=1)[0]
    return SHORT.get(text[1], text[1])


def render_time(minutes: int) -> str:
    """A time limit as sbatch takes it.

    >>> render_time(90), render_time(2 * 24 * 60)
    ('0-01:30:00', '2-00:00:00')
    """
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-{hour:02d}:{minute:02d}:00"


def render_directives(
    shape: Shape,
    *,
    name: str,
    comment: str = "",
    array: str = "",
    minutes: int | None = None,
    output: str = "/dev/null",
) -> list[str]:
    """The `#SBATCH` lines, each option once, always in the same order.

    Who it is and where it runs, what it takes of each node, how long, how often, what becomes of
    it, where Slurm's own words go; then the lines of `sbatch:`, which replace ours.

    Args:
        shape: what the jobs have in common.
        name: the native name.
        comment: our mark.
        array: its indices, with `%k` when at most k run at once; empty is a job of its own.
        minutes: the time limit of an allocation that many runs share, in place of the shape's.
        output: the file for what Slurm itself says.
    """
    lines = {
        **_identity(shape, name=name, comment=comment),
        **_amounts(shape),
        "time": render_time(limit) if (limit := minutes or shape.minutes) else "",
        "array": array,
        **_endings(shape),
        "output": output,
    }
    names = {_option_name(line) for line in shape.sbatch}
    replaced = names | {INSTEAD.get(name, "") for name in names}
    rendered = [
        f"#SBATCH --{key}"
        if key in BARE and value == "yes"
        else f"#SBATCH --{key}={_plain(key, value)}"
        for key, value in lines.items()
        if value and key not in replaced
    ]
    return [*rendered, *(f"#SBATCH {line}" for line in shape.sbatch)]


def _identity(shape: Shape, *, name: str, comment: str) -> dict[str, str]:
    return {
        "job-name": name,
        "comment": comment,
        "partition": shape.partition,
        "account": shape.account,
        "qos": shape.qos,
        "constraint": shape.constraint,
        "reservation": shape.reservation,
        "licenses": shape.licenses,
        "nodelist": ",".join(shape.hosts),
        "exclude": ",".join(shape.hosts_denied),
    }


def _amounts(shape: Shape) -> dict[str, str]:
    kind = f":{shape.gpu_type}" if shape.gpu_type else ""
    gpus = (f"gpu{kind}:{shape.gpus}",) if shape.gpus else ()
    return {
        "nodes": str(shape.nodes),
        "ntasks-per-node": str(shape.processes),
        "cpus-per-task": str(shape.cpus // shape.processes) if shape.cpus else "",
        "exclusive": shape.exclusive,
        "gres": ",".join((*gpus, *shape.gres)),
        "mem": f"{shape.memory_mib}M" if shape.memory_mib else "",
        "tmp": f"{shape.disk_mib}M" if shape.disk_mib else "",
    }


def _endings(shape: Shape) -> dict[str, str]:
    if not shape.resume:
        return {"no-requeue": "yes"}
    return {
        "signal": f"B:USR1@{shape.grace_s}",
        "requeue": "yes",
        "open-mode": "append",
    }
