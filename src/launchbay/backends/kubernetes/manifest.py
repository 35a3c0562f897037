"""From a job to what Kubernetes is asked for: a batch/v1 Job, or a pod for `bay dev`.

Everything here is pure. A run's Job is never tried again by Kubernetes itself: whether a run is
started once more is decided by launchbay, which gives every attempt a Job of its own.
"""

from __future__ import annotations

import json
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.fit import Asked, check_fit
from launchbay.backends.kubernetes.override import apply_override
from launchbay.backends.kubernetes.placing import match_products, render_tolerations
from launchbay.backends.kubernetes.podspec import (
    COMMAND,
    Frame,
    main_amounts,
    project_of,
    render_pod_spec,
    sidecars_of,
)
from launchbay.backends.kubernetes.volumes import Carried, claim_of, claims_of
from launchbay.backends.kubernetes.words import (
    ATTEMPT,
    CAP,
    CLAIM,
    DEV,
    EXPERIMENT,
    INDEX,
    LASTING,
    LINE,
    MAIN,
    MANAGED,
    METRICS,
    OURS,
    PARAMS,
    PLAN,
    PROJECT,
    QUEUE,
    ROLE,
    RUN,
    TARGET,
    TARGET_CAP,
    USER,
    job_name,
    label,
)
from launchbay.core.errors import Unsupported
from launchbay.core.quantity import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from launchbay.core.job import Job

__all__ = [
    "Carried",
    "Frame",
    "check_job",
    "check_jobs",
    "claim_of",
    "claims_of",
    "render_job",
    "render_pod",
]

DEV_S = 3600
NOWHERE = "none"


def render_job(
    job: Job, frame: Frame, carried: Carried, *, line: str, index: int
) -> dict[str, Any]:
    """The Job of a run's attempt.

    Args:
        job: the run.
        frame: what else the manifest depends on.
        carried: what its pod finds mounted.
        line: the run's line of the plan's sheet.
        index: its place among those of its plan.

    Raises:
        Unsupported: when Kubernetes cannot be asked for that.
    """
    options = {**frame.options, **job.options}
    spec: dict[str, Any] = {"backoffLimit": 0, "completions": 1, "parallelism": 1}
    # Nothing is tried again there either way; but the Job remembers how its pod ended.
    left = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    failed = {"onExitCodes": {"containerName": MAIN, "operator": "NotIn", "values": [0]}}
    rules = [{"action": "FailJob", **rule} for rule in (left, failed)]
    spec["podFailurePolicy"] = {"rules": rules}
    marks = _caps(job, frame, options, index)
    if marks:
        spec["suspend"] = True
    spec |= _spans(options, activeDeadlineSeconds="deadline", ttlSecondsAfterFinished="ttl")
    pod = render_pod_spec(job, frame, carried, options)
    if limit := job.resources.time_limit:
        pod["activeDeadlineSeconds"] = ceil(limit.total_seconds())
    labels = _labels(job, frame, carried) | _run_labels(job)
    annotations = _annotations(job)
    spec["template"] = {
        "metadata": {"labels": labels, "annotations": annotations | {LINE: line}},
        "spec": pod,
    }
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(job.run_id, job.attempt),
            "namespace": frame.namespace,
            "labels": labels | _queue(options),
            "annotations": annotations | marks,
        },
        "spec": spec,
    }
    override = options.get("override")
    return apply_override(made, override) if override else made


def render_pod(
    job: Job,
    frame: Frame,
    carried: Carried,
    *,
    line: str,
    name: str,
    role: str = DEV,
    command: Iterable[str] = COMMAND,
) -> dict[str, Any]:
    """A pod for a person to work in, with what the job asks for.

    It ends when its time is over, which is an hour unless the job says so, or it is one that lasts.

    Args:
        job: what a run of it would be.
        frame: what else the manifest depends on.
        carried: what it finds mounted.
        line: the line of the plan's sheet.
        name: of the pod.
        role: `DEV`, or `LASTING` for one that stays until it is deleted.
        command: what its container does.

    Raises:
        Unsupported: when Kubernetes cannot be asked for that.
    """
    options = {**frame.options, **job.options}
    spec = render_pod_spec(job, frame, carried, options, command)
    limit = job.resources.time_limit
    if limit or role != LASTING:
        spec["activeDeadlineSeconds"] = ceil(limit.total_seconds()) if limit else DEV_S
    labels = _labels(job, frame, carried) | {ROLE: role} | _queue(options)
    metadata = {"labels": labels, "annotations": _annotations(job) | {LINE: line}}
    # What is laid over a Job holds for its pod.
    around = {"spec": {"template": {"metadata": metadata, "spec": spec}}}
    override = options.get("override")
    whole = apply_override(around, override) if override else around
    made: dict[str, Any] = whole["spec"]["template"]
    identity = {"name": name, "namespace": frame.namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": identity | made["metadata"],
        "spec": made["spec"],
    }


def check_job(job: Job, frame: Frame) -> None:
    """See that a run can be asked for, and that the cluster can give it.

    Raises:
        Unsupported: with what to do about it.
    """
    options = {**frame.options, **job.options}
    need = job.resources
    if job.policy.pack:
        raise Unsupported(
            f"`{job.run_id}` has `pack:`, and runs on Kubernetes share no allocation",
            hint="leave it out: pods start quickly, and nodes hold as many as they can",
        )
    if need.nodes > 1 or need.processes > 1:
        raise Unsupported(
            f"a run on Kubernetes is one process in one pod, and `{job.run_id}` asks for "
            f"{need.nodes} nodes and {need.processes} processes",
            hint="leave `nodes:` and `processes:` out, or start processes in the command",
        )
    where = options.get("outputs_to") or (NOWHERE if frame.first_tool else "")
    if job.ship is None and where != NOWHERE:
        raise Unsupported(
            f"the outputs of `{job.run_id}` would be gone with its pod",
            hint="say where they are to go, in the file or in the target: `outputs_to: claim:NAME` "
            "or `outputs_to: s3://…`; or `outputs_to: none`, to do without",
        )
    render_job(job, frame, Carried(plan="p", programs="p"), line="", index=0)
    check_fit(_asked(job, frame, options), frame.details)


def check_jobs(jobs: Iterable[Job], frame: Frame) -> None:
    """See that runs can be asked for; those that differ in nothing of it are looked at once.

    Raises:
        Unsupported: with what to do about it.
    """
    seen: set[tuple[object, ...]] = set()
    jobs = list(jobs)
    for job in jobs:
        # The same objects are alike; they are all alive while this runs.
        alike = (id(job.resources), id(job.options), job.ship, job.folders)
        key = (*alike, job.image, job.parallel)
        if key not in seen:
            seen.add(key)
            check_job(job, frame)


def _asked(job: Job, frame: Frame, options: Mapping[str, Any]) -> Asked:
    need = job.resources
    main = main_amounts(job, frame, options)
    sidecars = sidecars_of(job, frame, options)
    products = match_products(need.gpu_types, frame.details) if main.gpus else ()
    denied = match_products(need.gpu_types_denied, frame.details) if main.gpus else ()
    return Asked(
        containers=(main, *(one.amounts for one in sidecars)),
        products=tuple(products),
        products_denied=tuple(denied),
        hosts=need.hosts,
        hosts_denied=need.hosts_denied,
        tolerations=render_tolerations(options.get("tolerations") or ()),
        selector=options.get("node_selector") or {},
        claims=claims_of(job, options),
        queue=str(options.get("queue") or ""),
        priority_class=str(options.get("priority_class") or ""),
    )


def _labels(job: Job, frame: Frame, carried: Carried) -> dict[str, str]:
    return {
        MANAGED: OURS,
        USER: label(frame.user),
        PROJECT: label(project_of(job)),
        EXPERIMENT: label(job.experiment),
        PLAN: label(carried.plan),
        TARGET: label(frame.target),
    }


def _run_labels(job: Job) -> dict[str, str]:
    return {RUN: label(job.run_id), ATTEMPT: str(job.attempt)}


def _queue(options: Mapping[str, Any]) -> dict[str, str]:
    return {QUEUE: str(options["queue"])} if options.get("queue") else {}


def _annotations(job: Job) -> dict[str, str]:
    found = {PARAMS: json.dumps(dict(job.params), ensure_ascii=False)}
    if job.metrics:
        found[METRICS] = json.dumps(dict(job.metrics), ensure_ascii=False)
    if claim := claim_of(job):
        found[CLAIM] = claim
    return found


def _caps(job: Job, frame: Frame, options: Mapping[str, Any], index: int) -> dict[str, str]:
    caps = {CAP: job.parallel, TARGET_CAP: frame.parallel}
    found = {name: str(cap) for name, cap in caps.items() if cap}
    if found and options.get("queue"):
        raise Unsupported(
            f"`queue: {options['queue']}` decides how many runs there are at once, and so does "
            "`parallel:`",
            hint="leave one of them out",
        )
    return found | {INDEX: str(index)} if found else {}


def _spans(options: Mapping[str, Any], **keys: str) -> dict[str, int]:
    return {field: _seconds(options[key]) for field, key in keys.items() if options.get(key)}


def _seconds(span: object) -> int:
    """A span of time in whole seconds, as a configuration or a job's record has it."""
    if isinstance(span, str):
        span = parse_time(span)
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(str(span))
    return max(1, ceil(seconds))
