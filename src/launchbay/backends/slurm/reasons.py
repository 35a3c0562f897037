"""Why a Slurm job waits: every reason code in one sentence, with the next thing to try.

Codes of Slurm 22.05 to 25.05. The limits of associations and QoS, some hundred and fifty codes, are
put together from few words by Slurm, and taken apart again here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from launchbay.core.quantity import render_limit

if TYPE_CHECKING:
    from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "None": "it is new in the queue; it will start by itself",
    "Priority": "jobs with a higher priority are first; it will start by itself, sooner with "
    "less `--time` or fewer resources",
    "Resources": "it is next in line and what it asks for is not free yet; it will start by "
    "itself, and {capacity} shows what is free",
    "Dependency": "it waits for another job to end; it will start by itself",
    "DependencyNeverSatisfied": "the job it depends on ended in the wrong way, so it will never "
    "start; `bay cancel` it and run it again",
    "Prolog": "its nodes are being prepared; it will start by itself",
    "Cleaning": "its last attempt is being cleaned up; it will start by itself",
    "BeginTime": "it may not start before a set time, as after a requeue; it will start by itself "
    "within minutes unless `--begin` was asked for",
    "PartitionNodeLimit": "it asks for more or fewer nodes than partition{partition} allows now, "
    "or those are down; ask for others with `--nodes`, or see {capacity}",
    "PartitionTimeLimit": "its time limit is longer than partition{partition} allows"
    "{longest}, so it will not start; cancel it and ask for less with `--time`",
    "PartitionDown": "partition{partition} takes no jobs at the moment; it will start by itself "
    "when the site opens it, or choose another `partition:`",
    "PartitionInactive": "partition{partition} is closed; choose another `partition:` or ask the "
    "site when it opens",
    "PartitionConfig": "partition{partition} has no node that fits what it asks for, so it will "
    "not start; cancel it and ask for less, {capacity} shows what there is",
    "JobHeldAdmin": "an administrator holds it; ask the site why",
    "JobHeldUser": "it is held; `scontrol release` on the cluster lets it go",
    "JobHoldMaxRequeue": "it was put back into the queue too often and is held now; look at its "
    "log for why it ends, then `bay rerun`",
    "RequeueHold": "it was put back into the queue and is held; `scontrol release` on the "
    "cluster lets it go",
    "Licenses": "a license that it asks for is in use; it will start by itself",
    "AssociationJobLimit": "as many jobs of your account run as may at once; it will start by "
    "itself when one ends",
    "AssociationResourceLimit": "your account uses as much as it may at once; it will start by "
    "itself when one of its jobs ends",
    "AssociationTimeLimit": "the computing time of your account is used up; ask the site for "
    "more, or choose another `account:`",
    "AccountingPolicy": "a limit of your account or QoS holds it back; it may start by itself, "
    "or ask the site which limits you have",
    "AccountNotAllowed": "your account may not use partition{partition}, so it will not start; "
    "choose another `partition:` or `account:`",
    "InvalidAccount": "its account is not valid here, so it will not start; choose another "
    "`account:`, `bay doctor` lists yours",
    "InvalidQOS": "its QoS is not valid here, so it will not start; choose another `qos:`, "
    "`bay doctor` lists yours",
    "QOSNotAllowed": "its QoS may not be used in partition{partition}, so it will not start; "
    "choose another `qos:` or `partition:`",
    "QOSUsageThreshold": "your account used more lately than its QoS allows; it will start by "
    "itself when that has faded, or choose another `qos:`",
    "QOSJobLimit": "as many jobs of its QoS run as may at once; it will start by itself when one "
    "ends",
    "QOSResourceLimit": "the jobs of its QoS use as much as they may at once; it will start by "
    "itself when one ends",
    "QOSTimeLimit": "the computing time of its QoS is used up; choose another `qos:` or ask the "
    "site",
    "Reservation": "the reservation it asks for has not begun; it will start by itself",
    "ReservationDeleted": "the reservation it asks for is gone, so it will not start; cancel it "
    "and leave `reservation:` out",
    "ReservationInvalid": "the reservation it asks for is not valid, so it will not start; cancel "
    "it and correct `reservation:`",
    "ReqNodeNotAvail": "nodes that it needs{nodes} are down, drained or reserved, perhaps for "
    "maintenance; it will start by itself when they are back, or sooner with less `--time`",
    "NodeDown": "a node that it needs is down; it will start by itself when it is back, or leave "
    "that host out",
    "NodesDown": "the nodes that it could use are down, drained or kept for jobs of higher "
    "priority; it will start by itself when some are back, {capacity} shows others",
    "FrontEndDown": "the cluster's front end is down; it will start by itself when it is back",
    "MaxPoweredUpNodes": "as many nodes are switched on as the site allows; it will start by "
    "itself when one is free",
    "PowerNotAvail": "the cluster has no electric power left for it; it will start by itself",
    "PowerReserved": "electric power is reserved for other jobs; it will start by itself",
    "MpiPortsBusy": "no network ports are left for its processes; it will start by itself",
    "MaxMemPerLimit": "it asks for more memory for each processor or node than partition"
    "{partition} allows, so it will not start; cancel it and ask for less with `--memory`",
    "BadConstraints": "no node can ever fit what it asks for, so it will not start; cancel it, "
    "ask for less or another `constraint:`, {capacity} shows what there is",
    "Constraints": "no node with the features it asks for is there now; it may start by itself, "
    "or choose another `constraint:`",
    "SystemFailure": "Slurm had a failure of its own; ask the site, or `bay rerun`",
    "JobLaunchFailure": "Slurm could not start it on its node, for a bad node or a folder that "
    "is missing there; `bay rerun`, or leave that host out",
    "LaunchFailedHeld": "Slurm could not start it on its node, and holds it now; cancel it and "
    "`bay rerun`, without that host",
    "EnvironmentHeld": "Slurm could not read your environment on the node, and holds it now; "
    "`scontrol release` on the cluster tries again, or ask the site",
    "NonZeroExitCode": "it ended with an exit code other than 0; `bay logs` shows why",
    "RaisedSignal": "it was ended by a signal; `bay logs` shows its last lines",
    "TimeLimit": "its time limit was over; ask for more with `--time`",
    "OutOfMemory": "it needed more memory than it had asked for; ask for more with `--memory`",
    "InactiveLimit": "it did nothing for longer than the site allows; ask the site",
    "DeadLine": "it could not end before its deadline; ask for less `--time`",
    "JobArrayTaskLimit": "as many runs of its sweep go on as `parallel:` allows; it will start by "
    "itself when one ends",
    "BurstBufferResources": "the burst buffer has no room for it yet; it will start by itself",
    "BurstBufferStageIn": "its files are being copied to the burst buffer; it will start by itself",
    "BurstBufferOperation": "the burst buffer failed; ask the site",
    "FedJobLock": "another cluster of the federation is looking at it; it will start by itself",
    "SchedDefer": "Slurm is busy and looks at it later; it will start by itself",
}
"""What a code means; placeholders are filled in as far as it is known."""

ALIASES: Mapping[str, str] = {
    "PartNodeLimit": "PartitionNodeLimit",
    "PartTimeLimit": "PartitionTimeLimit",
    "MaxRequeue": "JobHoldMaxRequeue",
    "Held": "JobHeldAdmin",
    "DependencyNotSatisfied": "Dependency",
    "BurstBuffer": "BurstBufferResources",
}
"""Other names that documents and older versions give to a code."""

PHRASES: tuple[tuple[str, str], ...] = (
    ("nodes required for job are down", "NodesDown"),
    ("launch failed requeued held", "LaunchFailedHeld"),
    ("user env retrieval failed", "EnvironmentHeld"),
    ("job requeued in held state", "RequeueHold"),
    ("job's account not permitted", "AccountNotAllowed"),
    ("job's qos not permitted", "QOSNotAllowed"),
    ("burst_buffer", "BurstBufferOperation"),
    ("burst buffer", "BurstBufferOperation"),
    ("resources not available", "Resources"),
)
"""How the free text begins that Slurm puts in place of a code."""

LIMIT = re.compile(
    r"(?P<who>QOS|Assoc)?(?P<kind>Grp|Max|Min)"
    r"(?P<what>SubmitJobs?|Jobs?|Cpu|GRES|Mem(?:ory)?|Nodes?|Billing|BB|Energy|License|Unknown"
    r"|Wall(?:Duration)?)"
    r"(?P<minutes>RunMinutes|RunMins|Minutes|Mins)?"
    r"(?:Per(?P<scope>User|Account|Job|Node))?(?:Limit|NotSatisfied)?",
    re.IGNORECASE,
)
NOUNS: Mapping[str, tuple[str, str]] = {
    "cpu": ("CPUs", "--cpus"),
    "gres": ("GPUs", "--gpus"),
    "mem": ("memory", "--memory"),
    "memory": ("memory", "--memory"),
    "node": ("nodes", "--nodes"),
    "billing": ("billing units", ""),
    "bb": ("burst buffer space", ""),
    "energy": ("energy", ""),
    "license": ("licenses", ""),
    "unknown": ("units of some resource", ""),
    "wall": ("time", "--time"),
    "wallduration": ("time", "--time"),
}
"""What is limited, in words, and the flag that asks for it."""
UNCOUNTED = frozenset({"memory", "energy", "time", "burst buffer space"})


@dataclass(frozen=True, kw_only=True)
class LimitCode:
    """A limit of an association or a QoS, as its code says it."""

    owner: str
    """`qos` or `account`."""
    kind: str
    """`grp`, `max` or `min`."""
    what: str
    """`jobs`, `submitjobs`, or a key of `NOUNS`."""
    minutes: str
    """Empty, `minutes` (a budget) or `runminutes` (of what runs now)."""
    scope: str
    """`user`, `account`, `job`, `node`, or empty."""


def parse_limit(code: str) -> LimitCode | None:
    """Take apart the code of a limit; None for any other code.

    >>> parse_limit("QOSMaxGRESPerUser").scope
    'user'
    """
    match = LIMIT.fullmatch(code)
    if not match:
        return None
    words = {key: (value or "").lower() for key, value in match.groupdict().items()}
    what = words["what"].rstrip("s")
    return LimitCode(
        owner="account" if words["who"] == "assoc" else "qos",
        kind=words["kind"],
        what=what + "s" if what.endswith("job") else "gres" if what == "gre" else what,
        minutes=words["minutes"].replace("mins", "minutes"),
        scope=words["scope"],
    )


def explain_waiting(
    reason: str,
    *,
    facts: Mapping[str, Any] | None = None,
    partition: str = "",
    target: str = "",
) -> str:
    """Why it waits and what to do, in one sentence.

    Args:
        reason: what Slurm says, a code or free text, from squeue, sacct or scontrol.
        facts: the details of the target, as `parse_survey` gives them.
        partition: where it waits.
        target: our name of the cluster, for the command that shows what is free.
    """
    text = reason.strip().strip("()").strip()
    code, _, rest = text.replace("_", " ").partition(",")
    known = _known(code, text)
    if known is None:
        limit = parse_limit(code)
        return explain_limit(limit) if limit else f"Slurm says `{text}`"
    return known.format(
        capacity=f"`bay capacity {target}`" if target else "`bay capacity`",
        partition=f" `{partition}`" if partition else "",
        longest=_longest(facts, partition),
        nodes=_unavailable(rest),
    )


def _known(code: str, text: str) -> str | None:
    code = code or "None"
    if sentence := REASONS.get(ALIASES.get(code, code)):
        return sentence
    plain = text.replace("_", " ").lower()
    matches = (REASONS[name] for start, name in PHRASES if plain.startswith(start))
    return next(matches, None)


def _longest(facts: Mapping[str, Any] | None, partition: str) -> str:
    for known in (facts or {}).get("partitions", ()):
        if known["name"] == partition and known.get("max_minutes"):
            return f" (at most {render_limit(timedelta(minutes=known['max_minutes']))})"
    return ""


def _unavailable(rest: str) -> str:
    match = re.search(r"UnavailableNodes:(\S+)", rest)
    return f" ({match[1]})" if match else ""


def explain_limit(limit: LimitCode) -> str:
    """What a limit means for a job that waits for it."""
    if limit.what in {"jobs", "submitjobs"}:
        return _explain_jobs(limit)
    noun, flag = NOUNS[limit.what]
    owner = "its QoS" if limit.owner == "qos" else "your account"
    if limit.kind == "min":
        fewer = "less" if noun in UNCOUNTED else "fewer"
        return (
            f"it asks for {fewer} {noun} than {owner} wants of a job, so it will not start; ask "
            f"for more{f' with `{flag}`' if flag else ''}, or choose another `qos:`"
        )
    if limit.scope in {"job", "node"}:
        return _explain_each(limit, noun, flag, owner)
    if limit.minutes == "runminutes":
        return (
            f"{_whose(limit)} that run have claimed as much {_time_of(noun)} ahead as they may; "
            "it will start by itself as they go on, sooner with less `--time`"
        )
    if limit.minutes or limit.what.startswith("wall"):
        other = "qos" if limit.owner == "qos" else "account"
        return (
            f"the {_time_of(noun)} that {owner} was given is used up, or too little is left for "
            f"it; ask the site for more, or choose another `{other}:`"
        )
    amount = "much" if noun in UNCOUNTED else "many"
    return (
        f"{_whose(limit)} use as {amount} {noun} as they may at once; it will start by itself "
        "when one of them ends"
    )


def _explain_jobs(limit: LimitCode) -> str:
    doing = "wait or run" if limit.what == "submitjobs" else "run"
    return (
        f"as many of {_whose(limit)} {doing} as may at once; it will start by itself when one of "
        "them ends"
    )


def _explain_each(limit: LimitCode, noun: str, flag: str, owner: str) -> str:
    asked = _time_of(noun) if limit.minutes else noun
    where = "a job have on one node" if limit.scope == "node" else "one job have"
    flags = [flag] if flag else []
    if limit.minutes:
        flags.append("--time")
    fix = " or ".join(f"`{name}`" for name in flags)
    return (
        f"it asks for more {asked} than {owner} lets {where}, so it will not start; cancel it and "
        f"ask for less{f' with {fix}' if fix else ''}"
    )


def _whose(limit: LimitCode) -> str:
    if limit.owner == "account":
        return "the jobs of your account" if limit.kind == "grp" else "your jobs in this account"
    if limit.scope == "user":
        return "your jobs under this QoS"
    if limit.scope == "account":
        return "the jobs of your account under this QoS"
    return "the jobs of this QoS"


def _time_of(noun: str) -> str:
    if noun == "time":
        return noun
    return f"{noun[:-1]} time" if noun in {"CPUs", "GPUs", "nodes"} else f"{noun} × time"
