"""The Jobs and pods of one user in one project, whoever made them, by their labels.

The first tool gave its objects the same two, `user` and `project`, so that what is left of it is
found, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launchbay.backends.delivery import deliver_to_run
from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.calls import chunked
from launchbay.backends.kubernetes.pods import PodHost
from launchbay.backends.kubernetes.tidy import parse_moment
from launchbay.core.backend import Workload
from launchbay.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.core.backend import Parcel

NAMES = 200
"""Objects that one command line names."""


def list_workloads(kubectl: Kubectl, user: str, project: str) -> list[Workload]:
    """Jobs, and pods that belong to none, the oldest first."""
    # One selector: of two the cluster's own command takes the last.
    chosen = f"{words.USER}={words.label(user)},{words.PROJECT}={words.label(project)}"
    found = [
        describe(one)
        for one in kubectl.get("jobs,pods", "-l", chosen)
        if not one["metadata"].get("ownerReferences")
        and one["metadata"].get("labels", {}).get(words.ROLE) != "helper"
    ]
    return sorted(found, key=lambda one: (one.kind != "pod", one.created_at, one.name))


def describe(found: Mapping[str, Any]) -> Workload:
    """A Job or a pod, as people are told of it."""
    metadata = found["metadata"]
    kind, labels = str(found["kind"]).lower(), metadata.get("labels", {})
    return Workload(
        kind=kind,
        name=str(metadata["name"]),
        state=_pod_state(found) if kind == "pod" else _job_state(found),
        created_at=parse_moment(metadata["creationTimestamp"]),
        run_id=str(labels.get(words.RUN, "")),
        plan=str(labels.get(words.PLAN, "")),
    )


def _pod_state(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase") or "pending").lower()


def _job_state(job: Mapping[str, Any]) -> str:
    status = job.get("status", {})
    told = {one["type"] for one in status.get("conditions", ()) if one["status"] == "True"}
    if told & {"Failed", "FailureTarget"} or (status.get("failed") and not status.get("active")):
        return "failed"
    if told & {"Complete", "SuccessCriteriaMet"}:
        return "succeeded"
    return "running" if status.get("ready") else "pending"


def delete_workloads(kubectl: Kubectl, workloads: Sequence[Workload], selector: str) -> None:
    """Delete these and what stands beside them; gone already is fine, and nobody is waited for.

    Args:
        kubectl: how to reach the cluster.
        workloads: such as are no run's, so that each has a plan of its own.
        selector: what chooses objects of this user.
    """
    for some in chunked(workloads, NAMES):
        names = [f"{one.kind}/{one.name}" for one in some]
        kubectl.said("delete", *names, "--ignore-not-found", "--wait=false")
        if plans := ",".join(one.plan for one in some if one.plan):
            beside = f"{selector},{words.PLAN} in ({plans})"
            kubectl.said("delete", "configmaps,secrets", "-l", beside, "--wait=false")


def deliver_to_pod(kubectl: Kubectl, name: str, parcels: Sequence[Parcel]) -> None:
    """Have files in the working folder of a pod.

    Raises:
        BadRequest: when it does not run, or is none of ours.
    """
    found = kubectl.get("pod", name, "--ignore-not-found")
    if not found:
        raise BadRequest(
            f"there is no pod `{name}` in `{kubectl.namespace}`",
            hint=f"`kubectl get pods -n {kubectl.namespace}` lists them",
        )
    (pod,) = found
    if (state := _pod_state(pod)) != "running":
        raise BadRequest(f"pod `{name}` is {state}, not running", hint="try again once it runs")
    marks: Mapping[str, str] = pod["metadata"].get("annotations", {})
    run_id = marks.get(words.LINE, "").partition(" ")[0]
    if not run_id:
        raise BadRequest(
            f"pod `{name}` was not made by launchbay", hint="`kubectl cp` copies to it"
        )
    folder = f"{words.root_of(marks.get(words.CLAIM, ''))}/runs/{run_id}"
    deliver_to_run(PodHost(kubectl, name), folder, parcels)
