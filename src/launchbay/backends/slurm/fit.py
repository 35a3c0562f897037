"""Whether a Slurm cluster can give what a job asks for, and how many jobs it takes at once.

Everything here reads the details of the target's facts; without them nothing is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from launchbay.backends.slurm.facts import submit_limit
from launchbay.core.errors import Unsupported
from launchbay.core.nearest import suggest
from launchbay.core.quantity import render_limit, render_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.backends.slurm.shape import Shape
    from launchbay.core.job import Job

    Entry = Mapping[str, Any]

DEFAULT_ARRAY = 1000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many jobs may be sent at once."""

    array: int
    """Tasks of one array at most; its indices begin at 0."""
    submit: int | None = None
    """Jobs that may wait or run at once; None is unknown or unlimited."""


def limits(
    details: Entry | None, *, account: str = "", qos: str = "", partition: str = ""
) -> Limits:
    """How many jobs may be sent at once.

    An array is a quarter of what the user may have at once, so that others of theirs find room.
    """
    if not details:
        return Limits(array=DEFAULT_ARRAY)
    submit = submit_limit(details, account=account, qos=qos, partition=partition)
    largest = details.get("max_array")
    bounds = [DEFAULT_ARRAY if largest is None else largest]
    bounds += [bound // 4 for bound in (submit, details.get("max_jobs")) if bound]
    return Limits(array=max(1, min(bounds)), submit=submit)


def partitions_of(details: Entry | None, names: str) -> list[Entry]:
    """The known partitions among those that are named; for no name the default one."""
    known = (details or {}).get("partitions", ())
    wanted = names.split(",") if names else []
    return [entry for entry in known if (entry["name"] in wanted if wanted else entry["default"])]


def check(shape: Shape, details: Entry | None) -> None:
    """See that the cluster has what a shape asks for.

    Raises:
        Unsupported: naming the nearest that it has.
    """
    if not details:
        return
    _check_names(shape, details)
    places = partitions_of(details, shape.partition)
    refusals = [found for place in places if (found := _refusal(shape, place, details))]
    # Of several partitions one is enough.
    if refusals and len(refusals) == len(places):
        raise refusals[0]


def _check_names(shape: Shape, details: Entry) -> None:
    partitions = [entry["name"] for entry in details.get("partitions", ())]
    for name in filter(None, shape.partition.split(",")):
        if partitions and name not in partitions:
            raise Unsupported(
                f"there is no partition `{name}`", hint=suggest(name, partitions, listing=True)
            )
    accounts = [entry["name"] for entry in details.get("accounts", ())]
    if shape.account and accounts and shape.account not in accounts:
        raise Unsupported(
            f"account `{shape.account}` is not yours",
            hint=suggest(shape.account, accounts, listing=True),
        )
    account = shape.account or details.get("default_account", "")
    qos = {
        name
        for entry in details.get("accounts", ())
        if not account or entry["name"] == account
        for name in entry["qos"]
    }
    if shape.qos and qos and shape.qos not in qos:
        raise Unsupported(
            f"QoS `{shape.qos}` is not yours", hint=suggest(shape.qos, qos, listing=True)
        )


def _refusal(shape: Shape, place: Entry, details: Entry) -> Unsupported | None:
    for test in (_check_admission, _check_time, _check_node, _check_nodes):
        try:
            test(shape, place, details)
        except Unsupported as error:
            return error
    return None


def _check_admission(shape: Shape, place: Entry, details: Entry) -> None:
    account = shape.account or details.get("default_account", "")
    allowed, denied = place["accounts_allowed"], place["accounts_denied"]
    if account and ((allowed and account not in allowed) or account in denied):
        other = f"; it takes {', '.join(allowed)}" if allowed else ""
        raise Unsupported(
            f"partition `{place['name']}` takes no jobs of account `{account}`{other}",
            hint="choose another `partition:` or `account:`",
        )
    if shape.qos and place["qos_allowed"] and shape.qos not in place["qos_allowed"]:
        raise Unsupported(
            f"partition `{place['name']}` takes no jobs of QoS `{shape.qos}`",
            hint=suggest(shape.qos, place["qos_allowed"], listing=True),
        )


def _check_time(shape: Shape, place: Entry, details: Entry) -> None:
    bounds = [(place["max_minutes"], f"`{place['name']}`")]
    bounds += [
        (entry["max_minutes"], f"QoS `{shape.qos}`")
        for entry in details.get("qos", ())
        if entry["name"] == shape.qos
    ]
    for most, owner in bounds:
        if shape.minutes and most and shape.minutes > most:
            limit = render_limit(timedelta(minutes=most))
            raise Unsupported(
                f"{owner} lets a job run for at most {limit}, not for "
                f"{render_limit(timedelta(minutes=shape.minutes))}",
                hint=f"ask for `--time {limit}`",
            )


def _check_node(shape: Shape, place: Entry, _: Entry) -> None:
    """See that some node is large enough; of what is too much, the first is named."""
    if not place["kinds"] or any(_fits(shape, kind) for kind in place["kinds"]):
        _check_cap(shape, place)
        return
    _check_cap(shape, place)
    name, most = place["name"], _most_gpus(shape, place)
    if shape.gpus > most:
        kind = f" {shape.gpu_type}" if shape.gpu_type else ""
        there = ", ".join(f"{n} {t}".strip() for t, n in place["gpus"].items()) or "none"
        usable = most - most % shape.processes
        raise Unsupported(
            f"a node of `{name}` has at most {most}{kind} GPUs, not {shape.gpus}; it has {there}",
            hint=f"ask for at most `--gpus {usable}`" if usable else "choose another `partition:`",
        )
    raise Unsupported(
        f"no node of `{name}` has {_asked(shape)} together",
        hint=f"there are {'; '.join(_describe(kind) for kind in place['kinds'][:4])}",
    )


def _check_cap(shape: Shape, place: Entry) -> None:
    name, cpus, memory = place["name"], place["cpus_per_node"], place["memory_mib_per_node"]
    wanted = shape.cpus or shape.processes
    if cpus and wanted > cpus:
        usable = cpus - cpus % shape.processes
        raise Unsupported(
            f"a node of `{name}` has at most {cpus} CPUs, not {wanted}",
            hint=f"ask for at most `--cpus {usable}`"
            if usable
            else f"run {cpus} processes or fewer",
        )
    if memory and shape.memory_mib and shape.memory_mib > memory:
        raise Unsupported(
            f"a node of `{name}` has at most {render_memory(memory)} of memory, not "
            f"{render_memory(shape.memory_mib)}",
            hint=f"ask for at most `--memory {render_memory(memory)}`",
        )


def _check_nodes(shape: Shape, place: Entry, _: Entry) -> None:
    fitting = sum(kind["count"] for kind in place["kinds"] if _fits(shape, kind))
    there = fitting if place["kinds"] else place["nodes"]
    bounds = [bound for bound in (there, place["max_nodes"]) if bound]
    if bounds and shape.nodes > min(bounds):
        raise Unsupported(
            f"a job in `{place['name']}` can have at most {min(bounds)} such nodes, not "
            f"{shape.nodes}",
            hint=f"ask for at most `--nodes {min(bounds)}`",
        )


def _fits(shape: Shape, kind: Entry) -> bool:
    gpus = kind["gpus"]
    have = gpus.get(shape.gpu_type, 0) if shape.gpu_type else sum(gpus.values())
    return (
        (shape.cpus or shape.processes) <= (kind["cpus"] or float("inf"))
        and (shape.memory_mib or 0) <= (kind["memory_mib"] or float("inf"))
        and shape.gpus <= have
        # Anything but a single word is an expression that Slurm alone understands.
        and (not shape.constraint.isalnum() or shape.constraint in kind["features"])
    )


def _most_gpus(shape: Shape, place: Entry) -> int:
    counts = (
        kind["gpus"].get(shape.gpu_type, 0) if shape.gpu_type else sum(kind["gpus"].values())
        for kind in place["kinds"]
    )
    return max(counts, default=0)


def _asked(shape: Shape) -> str:
    parts = [
        f"{shape.cpus} CPUs" if shape.cpus else "",
        f"{render_memory(shape.memory_mib)} of memory" if shape.memory_mib else "",
        f"{shape.gpus} {shape.gpu_type} GPUs".replace("  ", " ") if shape.gpus else "",
        f"feature `{shape.constraint}`" if shape.constraint else "",
    ]
    return ", ".join(part for part in parts if part)


def _describe(kind: Entry) -> str:
    gpus = [f"{count} {name or 'GPUs'}" for name, count in kind["gpus"].items()]
    memory = render_memory(kind["memory_mib"]) if kind["memory_mib"] else ""
    features = "/".join(kind["features"])
    parts = [f"{kind['cpus']} CPUs", memory, *gpus, features]
    return f"{kind['count']} nodes of {', '.join(part for part in parts if part)}"


def pack_width(
    job: Job, pack: str, details: Entry | None, *, partition: str = ""
) -> tuple[int, int]:
    """How many runs go side by side in an allocation, and how many share it in all.

    Measured on the commonest kind of node that holds one run.

    Args:
        job: one of the runs.
        pack: a number of runs, or `node` for as many as one node holds.
        details: of the target's facts; without them runs follow one another.
        partition: where they go, unless the job says.

    Raises:
        Unsupported: when they cannot share one.
    """
    need = job.resources
    if need.nodes > 1 or need.processes > 1:
        raise Unsupported(
            f"`{job.run_id}` has several nodes or processes and cannot share an allocation",
            hint="leave `pack:` out, or ask for one node and one process",
        )
    by_node = pack.strip().lower() == "node"
    if not by_node and not (pack.strip().isascii() and pack.strip().isdigit() and int(pack)):
        raise Unsupported(f"`pack: {pack}` is no number of runs", hint="write `pack: 20` or `node`")
    name = str(job.options.get("partition") or partition)
    held = [_held(job, kind) for kind in _common(partitions_of(details, name))]
    width = next((count for count in held if count), 1)
    if not by_node:
        return min(width, int(pack)), int(pack)
    if not held:
        raise Unsupported(
            "`pack: node` needs to know how large a node is",
            hint="run `bay doctor` for this target first, or write a number",
        )
    return width, width


def _common(places: Sequence[Entry]) -> list[Entry]:
    """Kinds of nodes, the commonest first, each as far as its partition gives it."""
    kinds = [
        {
            **kind,
            "cpus": _least(kind["cpus"], place["cpus_per_node"]),
            "memory_mib": _least(kind["memory_mib"], place["memory_mib_per_node"]),
        }
        for place in places
        for kind in place["kinds"]
    ]
    return sorted(kinds, key=lambda kind: (kind["count"], kind["cpus"] or 0), reverse=True)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound), default=None)


def _held(job: Job, kind: Entry) -> int:
    """Runs that one node of a kind holds."""
    need, bounds = job.resources, []
    if kind["cpus"]:
        bounds.append(int(kind["cpus"] // (need.cpus or 1)))
    if need.memory_mib and kind["memory_mib"]:
        bounds.append(kind["memory_mib"] // need.memory_mib)
    if need.gpus:
        wanted = [word.lower() for word in need.gpu_types]
        there = sum(
            count
            for name, count in kind["gpus"].items()
            if not wanted or any(word in name.lower() for word in wanted)
        )
        share = need.gpus < 1
        bounds.append(there * int(1 / need.gpus) if share else int(there // need.gpus))
    return min(bounds, default=1)


def allocation_minutes(
    job_minutes: int | None, runs: int, width: int, partition_max: int | None = None
) -> int | None:
    """How long an allocation is asked for in which runs follow one another; None asks for none."""
    if job_minutes is None:
        return None
    whole = job_minutes * ceil(runs / max(1, width))
    return min(whole, partition_max) if partition_max else whole
