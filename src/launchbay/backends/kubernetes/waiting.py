"""Why a run has not started, or what goes on with one that has: its Job and pod have not ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.objects import condition, container_of, marks_of, moment
from launchbay.backends.kubernetes.reasons import (
    DISRUPTED,
    DISRUPTIONS,
    IMAGE_REASONS,
    explain_mount,
    explain_refusal,
    explain_unschedulable,
    explain_waiting,
)
from launchbay.core.run import Cause, State, Status

if TYPE_CHECKING:
    from launchbay.backends.kubernetes.objects import Case

ENDING = "it is ending"
OVERDUE_S = 60.0
"""A pod that was to be gone so long ago has a node that does not answer."""


def judge_going(case: Case) -> Status:
    """The status of a run that has not ended."""
    if case.job["spec"].get("suspend"):
        return _suspended(case)
    if not case.pod:
        return _without_pod(case)
    if not case.has_begun and case.about.get("phase") in {"Pending", None}:
        return _pending(case)
    return _running(case)


def _suspended(case: Case) -> Status:
    if case.pod and not case.is_over:
        return case.going(f"{ENDING}, for its Job was suspended; it may start again later")
    marks = marks_of(case.job)
    caps = {words.CAP: "of its experiment", words.TARGET_CAP: "on this target"}
    turns = [f"at most {marks[key]} {of} at once" for key, of in caps.items() if key in marks]
    if turns:
        said = f"waits for its turn: {', '.join(turns)}"
        return Status(state=State.QUEUED, reason=said, unfed=True)
    if queue := (case.job["metadata"].get("labels") or {}).get(words.QUEUE):
        said = f"waits in the queue `{queue}`, where Kueue decides; it starts by itself"
        return Status(state=State.QUEUED, reason=said)
    resume = f'kubectl patch job {case.name} -p \'{{"spec":{{"suspend":false}}}}\''
    said = f"somebody suspended its Job; `{resume}` lets it go on"
    return Status(state=State.QUEUED, reason=said)


def _without_pod(case: Case) -> Status:
    about = case.job.get("status", {})
    if case.blind and about.get("active"):
        return case.status(State.RUNNING if about.get("ready") else State.QUEUED, case.blind)
    for event in reversed(case.events.get(case.name, ())):
        if event.kind == "Job" and event.reason == "FailedCreate":
            said = explain_refusal(event.message).reason
            return case.status(State.QUEUED, f"it gets no pod: {said}")
    if "deletionTimestamp" in case.job["metadata"]:
        return case.status(State.QUEUED, "its Job is being deleted")
    return case.status(State.QUEUED, "the cluster is about to make its pod")


def _pending(case: Case) -> Status:
    if case.is_leaving:
        return case.status(State.QUEUED, "its pod is being deleted before it began")
    for one in case.about.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            if one.get("reason") == "SchedulingGated":
                return case.status(State.QUEUED, "the cluster holds it back, as its gates say")
            said = explain_unschedulable(str(one.get("message") or ""))
            return case.status(State.QUEUED, said)
    for one in (*(case.about.get("initContainerStatuses") or ()), container_of(case.pod)):
        waits = one.get("state", {}).get("waiting") or {}
        reason = str(waits.get("reason") or "")
        if reason not in {"", "ContainerCreating", "PodInitializing"}:
            image = str(one.get("image") or "")
            said = explain_waiting(reason, str(waits.get("message") or ""), image)
            cause = Cause.IMAGE if reason in IMAGE_REASONS else None
            return case.status(State.QUEUED, said, cause=cause)
    return case.status(State.QUEUED, _starting(case))


def _starting(case: Case) -> str:
    """What a pod waits for that has a node, or will have one in a moment."""
    for event in reversed(case.events.get(case.pod["metadata"]["name"], ())):
        if said := explain_mount(event.reason, event.message):
            return said
    if not case.node:
        return "waits for a node"
    waits = container_of(case.pod).get("state", {}).get("waiting")
    if waits is None:
        return f"its node `{case.node}` has not begun with it yet"
    return explain_waiting(str(waits.get("reason") or ""), "", "")


def _running(case: Case) -> Status:
    if _is_silent(case):
        said = f"its node `{case.node}` does not answer; it may still run, so it is not given up"
        return case.status(State.RUNNING, said)
    if told := condition(case.pod, "DisruptionTarget"):
        why = DISRUPTIONS.get(str(told.get("reason")), DISRUPTED)[1].partition(";")[0]
        return case.status(State.RUNNING, f"{ENDING}: {why}")
    if case.is_leaving:
        return case.status(State.RUNNING, f"{ENDING}: its pod is being deleted")
    phase = str(case.about.get("phase") or "")
    said = "" if phase in {"Running", "Pending"} else f"the cluster says `{phase}` of its pod"
    return case.status(State.RUNNING, said)


def _is_silent(case: Case) -> bool:
    """Whether nobody hears from the node of a pod."""
    if case.about.get("phase") == "Unknown" or case.why == "NodeLost":
        return True
    due = moment(case.pod["metadata"].get("deletionTimestamp"))
    if due is not None:
        return case.now - due > OVERDUE_S
    # The cluster takes back that a pod is ready; of its container only the node could say so.
    return bool(container_of(case.pod).get("ready")) and any(
        one.get("type") == "Ready" and one.get("status") != "True"
        for one in case.about.get("conditions") or ()
    )
