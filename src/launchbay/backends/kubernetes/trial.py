"""What would become of a plan on a Kubernetes, without sending it: `bay plan --check`."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Literal

from launchbay.backends.kubernetes.calls import FORBIDDEN, items_of
from launchbay.backends.kubernetes.facts import UNKNOWN, amount, amounts, ask_all
from launchbay.backends.kubernetes.refusals import explain_refusal, noun_of, refused_lines
from launchbay.backends.kubernetes.words import CAP
from launchbay.core.backend import Finding
from launchbay.core.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.core.host import Completed

UNDECIDED, STAND_IN = "?????", "check"
"""How the ids of runs end that are not decided yet, and what is asked about instead."""
ASKED = 50
"""Jobs that are sent for a trial; others are like them."""
KINDS_OF_PODS = 4
DRY = ("create", "--dry-run=server", "-o", "name", "-f", "-")
NOT_DRY = "does not support dry run"
JOBS = "count/jobs.batch"
SPENT = re.compile(r"^.*exceeded quota.*$", re.MULTILINE)
WARNING = re.compile(r"^Warning: (.*)", re.MULTILINE)


def trial(kubectl: Kubectl, document: str) -> list[Finding]:
    """Whether the server would take it, and whether the quota holds it.

    Args:
        kubectl: of the target.
        document: a plan's, in which ids of runs may be undecided.

    Raises:
        TargetError: when nothing answers.
    """
    import yaml  # noqa: PLC0415 (dear, and only this needs it)

    texts = [part for part in document.replace(UNDECIDED, STAND_IN).split("\n---\n") if part]
    load = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    objects = [yaml.load(text, Loader=load) or {} for text in texts]  # noqa: S506 - a safe one
    jobs = [one for one in objects if one.get("kind") == "Job"]
    sent = _chosen(texts, objects)
    calls = {"jobs": DRY, "pods": DRY, "quotas": ("get", "resourcequotas", "-o", "json")}
    stdin = {"jobs": "\n---\n".join(sent), "pods": _render_pods(jobs)}
    answers = ask_all(kubectl, calls, stdin=stdin)
    count = sum(one.get("kind") == "Job" for one in objects[: len(sent)])
    return [
        *_judge_jobs(kubectl.target, answers["jobs"], asked=count, all_of=len(jobs)),
        *_judge_pods(kubectl.target, answers["pods"]),
        *_judge_quotas(kubectl.target, answers["quotas"], jobs),
    ]


def _chosen(texts: Sequence[str], objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first Jobs, and whatever stands before or between them."""
    chosen: list[str] = []
    count = 0
    for text, one in zip(texts, objects, strict=True):
        count += one.get("kind") == "Job"
        if count > ASKED:
            break
        chosen.append(text)
    return chosen


def _render_pods(jobs: Sequence[Mapping[str, Any]]) -> str:
    """A pod for each kind of Job: much is only decided about pods, and too late to be told."""
    kinds: dict[str, dict[str, Any]] = {}
    for job in jobs:
        template = job["spec"]["template"]
        spec = template["spec"]
        key = json.dumps([spec.get(name) for name in sorted(spec) if name != "volumes"])
        name = f"{job['metadata']['name'][:57]}-pod"
        labels = template.get("metadata", {}).get("labels", {})
        metadata = {"name": name, "labels": labels}
        kinds.setdefault(
            key, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )
    items = list(kinds.values())[:KINDS_OF_PODS]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _judge_jobs(
    target: str, answer: Completed | TargetError, *, asked: int, all_of: int
) -> Iterator[Finding]:
    if isinstance(answer, TargetError):
        yield Finding(level="warning", subject=target, message=f"was not asked: {answer}")
        return
    refused = _refusals(answer.stderr)
    lost = sum(refused.values())
    taken = max(0, asked - lost)
    rest = f"; {all_of - asked} more are like these" if all_of > asked else ""
    if taken:
        message = f"would take {_runs(taken)}{f' of {asked}' if lost else ''}{rest}"
        yield Finding(level="ok", subject=target, message=message)
    for reason, count in refused.items():
        message = f"would refuse {_runs(count)}: {reason}"
        yield Finding(level="problem", subject=target, message=message)
    yield from _warnings(target, answer.stderr)


def _judge_pods(target: str, answer: Completed | TargetError) -> Iterator[Finding]:
    """What stops pods, though their Jobs would be taken."""
    if isinstance(answer, TargetError):
        return
    if FORBIDDEN.search(answer.stderr) and "cannot create resource" in answer.stderr:
        message = "you may not create pods yourself, so what is said of pods could not be asked"
        yield Finding(level="ok", subject=target, message=message)
        return
    # Quotas are counted below: what is used up now may be free when it matters.
    for reason in _refusals(SPENT.sub("", answer.stderr)):
        message = f"would take the Jobs, and refuse their pods: {reason}"
        yield Finding(level="problem", subject=target, message=message)


def _refusals(stderr: str) -> Counter[str]:
    """Why something was refused, and how often; what is there already was not."""
    lines = [line for line in refused_lines(stderr) if NOT_DRY not in line]
    return Counter(explain_refusal(line).reason for line in lines)


def _warnings(target: str, stderr: str) -> Iterator[Finding]:
    for said in dict.fromkeys(WARNING.findall(stderr)):
        yield Finding(level="warning", subject=target, message=f"warns: {said}")
    if NOT_DRY in stderr:
        message = "a check of this cluster cannot be tried, so it may still refuse"
        yield Finding(level="warning", subject=target, message=message)


def _judge_quotas(
    target: str, answer: Completed | TargetError, jobs: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """What all runs ask for, against what is left."""
    if isinstance(answer, TargetError) or not answer.ok:
        yield Finding(level="ok", subject=target, message=UNKNOWN["resourcequotas"])
        return
    each = [_demand(job) for job in jobs]
    at_once = _at_once(jobs)
    for quota in items_of(answer.stdout):
        spec = quota.get("spec", {})
        if spec.get("scopes") or spec.get("scopeSelector"):
            # It counts some pods only, those of a priority for example.
            continue
        for level, said in _judge_quota(quota, each, at_once):
            message = f"quota `{quota['metadata']['name']}`: {said}"
            yield Finding(level=level, subject=target, message=message)


def _judge_quota(
    quota: Mapping[str, Any], each: Sequence[Mapping[str, float]], at_once: int
) -> Iterator[tuple[Literal["ok", "warning", "problem"], str]]:
    """How it stands with each thing that is counted and asked for."""
    hard, used = (amounts(quota.get("status", {}).get(key)) for key in ("hard", "used"))
    room = []
    for key, bound in hard.items():
        demands = sorted((demand.get(key, 0) for demand in each), reverse=True)
        # Jobs count until they are removed, pods only while they run.
        asked = sum(demands if key == JOBS else demands[:at_once])
        left = max(0, bound - used.get(key, 0))
        said = f"{_amount(key, left)} of {_amount(key, bound)} {noun_of(key)[0]} left"
        if asked and demands[0] > bound:
            yield "problem", f"{said}, and one run asks for {_amount(key, demands[0])}"
        elif asked > left:
            yield "warning", f"{said}, and the runs ask for {_amount(key, asked)}: some would wait"
        elif asked:
            room.append(f"{_amount(key, asked)} of {_amount(key, left)} {noun_of(key)[0]}")
    if room:
        yield "ok", f"the runs ask for {', '.join(dict.fromkeys(room))} left"


def _at_once(jobs: Sequence[Mapping[str, Any]]) -> int:
    """How many of them run side by side at most."""
    caps = [job["metadata"].get("annotations", {}).get(CAP) for job in jobs]
    known = [int(cap) for cap in caps if cap]
    return min(len(jobs), max(known)) if len(known) == len(jobs) and known else len(jobs)


def _demand(job: Mapping[str, Any]) -> dict[str, float]:
    """What a quota counts for one run, by all the names that a quota may have for it."""
    spec = job["spec"]["template"]["spec"]
    beside = [one for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"]
    found: dict[str, float] = defaultdict(float)
    found |= {"pods": 1, "count/pods": 1, JOBS: 1}
    for container in (*spec.get("containers", ()), *beside):
        limits = container.get("resources", {}).get("limits", {})
        requests = {**limits, **container.get("resources", {}).get("requests", {})}
        for name, text in requests.items():
            found[f"requests.{name}"] += amount(text)
            if "/" not in name:
                found[name] += amount(text)
        for name, text in limits.items():
            found[f"limits.{name}"] += amount(text)
    return found


def _amount(key: str, value: float) -> str:
    if "memory" in key or "storage" in key:
        return f"{value / 2**30:.4g} GiB"
    return f"{value:g}"


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"
