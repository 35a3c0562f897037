"""What becomes of a run, from its Job, its pods, what it told at its end, and events.

Met: Kubernetes 1.34. The run's own word of its end counts most, then what the cluster says of its
pod, then what it says of the Job. A word that we do not know never ends a run.
"""

from __future__ import annotations

import re
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.objects import (
    Case,
    Event,
    Objects,
    asked_of,
    condition,
    container_of,
    marks_of,
    moment,
    parse_events,
    parse_objects,
    told_of,
)
from launchbay.backends.kubernetes.reasons import (
    AGAIN,
    DISRUPTED,
    DISRUPTIONS,
    explain_eviction,
    explain_start,
    of_pod_reason,
)
from launchbay.backends.kubernetes.waiting import ENDING, judge_going
from launchbay.backends.outcome import HELD, parse_status
from launchbay.core.quantity import render_limit
from launchbay.core.run import Cause, State, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Event", "Objects", "judge", "parse_events", "parse_objects", "wants_events"]

SOON_S = 5.0
"""How long a pod may take to come, or its container, before anybody is asked why."""
TOLD_CODES = frozenset({128 + signal.SIGTERM, 128 + signal.SIGKILL})
"""Exit codes of a command that somebody ended."""
POLICY_CODE = re.compile(r"^Container \S+ for pod \S+ failed with exit code (\d+)")
POLICY_CONDITION = re.compile(r"^Pod \S+ has condition (\w+)")


def wants_events(name: str, objects: Objects, *, now: float | None = None) -> bool:
    """Whether only events can say why a run does not go on, or what took its pod away.

    Args:
        name: the Job's.
        objects: what was listed.
        now: where it is known, what has only just been made is given a moment.
    """
    job, pods = objects.jobs.get(name), objects.pods.get(name)
    if job is None or words.CANCELLED in marks_of(job) or condition(job, "Complete"):
        return False
    if pods:
        # Its image, where that is the trouble, says so itself.
        pod = pods[-1]
        state = container_of(pod).get("state") or {}
        waits = state.get("waiting", {}).get("reason", "") in {"", "ContainerCreating"}
        begun = bool(state.get("running") or state.get("terminated"))
        return (
            bool(pod.get("spec", {}).get("nodeName")) and waits and not begun and _is_old(pod, now)
        )
    if failed := condition(job, "Failed"):
        return failed.get("reason") != "DeadlineExceeded"
    return not job["spec"].get("suspend") and _is_old(job, now)


def judge(
    name: str, objects: Objects, events: Mapping[str, Sequence[Event]], *, now: float
) -> Status:
    """The status of the run whose Job has this name.

    Args:
        name: the Job's.
        objects: what was listed.
        events: by the name of the object they are about; none where they were not asked for.
        now: seconds since the epoch.
    """
    job = objects.jobs.get(name)
    if job is None:
        where = next((one["metadata"].get("namespace") for one in objects.jobs.values()), "")
        gone = f"the namespace `{where}`" if where else "its namespace"
        return Status(
            state=State.LOST, reason=f"its Job `{name}` is gone from {gone}; `bay rerun` makes anew"
        )
    pods = objects.pods.get(name)
    pod = pods[-1] if pods else {}
    line = told_of(pod).line() if pod else {}
    case = Case(job=job, pod=pod, line=line, events=events, blind=objects.blind, now=now)
    looks: tuple[Callable[[Case], Status | None], ...] = (
        _own_end,
        _cancelled,
        _end_of_pod,
        _end_of_job,
    )
    return next((found for look in looks if (found := look(case))), None) or judge_going(case)


def _own_end(case: Case) -> Status | None:
    """The end that the run came to by itself, whatever happened to its pod afterwards."""
    line = case.line
    if not case.ended or line.get("state") != "ended":
        return None
    code = line.get("code")
    told = bool(line.get("signal")) or code is None or code in TOLD_CODES
    if told and line.get("phase") != HELD:
        return None
    if case.ended.get("reason") == "OOMKilled" and code:
        return _out_of_memory(case)
    return _recorded(case)


def _recorded(case: Case, stop: str = "") -> Status:
    status = parse_status({"stop": stop, "signal": "", "phase": "", "code": None, **case.line})
    return case.status(status.state, status.reason, cause=status.cause)


def _cancelled(case: Case) -> Status | None:
    if not case.is_cancelled:
        return None
    if condition(case.job, "Complete") and not case.ended:
        return case.status(State.SUCCEEDED, "", code=0)
    active = bool(case.pod) and not case.ended and not case.is_over
    if active or (not case.pod and case.job.get("status", {}).get("active")):
        return case.going(ENDING)
    begun = case.has_begun or case.job.get("status", {}).get("startTime")
    return case.status(State.CANCELLED, "cancelled" if begun else "cancelled before it started")


def _end_of_pod(case: Case) -> Status | None:
    """What the cluster says of how the pod ended."""
    if case.ended.get("reason") == "OOMKilled" and case.ended.get("exitCode"):
        return _out_of_memory(case)
    if not case.is_over:
        return _end_before_others(case) if case.ended else None
    if case.why == "DeadlineExceeded":
        limit = _limit(case.pod)
        return case.failed(
            Cause.TIMEOUT, f"its time limit{limit} was over; ask for more with `time:`"
        )
    if case.why == "Evicted":
        return case.failed(Cause.NODE, explain_eviction(case.about.get("message") or ""))
    if told := condition(case.pod, "DisruptionTarget"):
        cause, reason = DISRUPTIONS.get(str(told.get("reason")), DISRUPTED)
        return case.failed(cause, reason)
    if found := of_pod_reason(case.why):
        return case.failed(*found)
    if case.is_leaving and not _verdict(case.job):
        return case.status(State.RUNNING, ENDING)
    return _end_of_container(case)


def _end_before_others(case: Case) -> Status:
    """The end of the command, while containers beside it have not ended."""
    told = case.line.get("state") == "ended" or case.ended.get("exitCode") in TOLD_CODES
    return case.status(State.RUNNING, ENDING) if told else _end_without_record(case)


def _end_of_container(case: Case) -> Status | None:
    if _verdict(case.job).get("reason") == "DeadlineExceeded":
        return _past_deadline(case)
    if case.line.get("state") == "ended":
        return _deleted(case) if case.is_leaving else _recorded(case)
    if not case.ended:
        message = str(case.about.get("message") or case.why)
        said = f"its pod failed{f': {message}' if message else ''}; {AGAIN}"
        return case.failed(Cause.NODE, said) if case.why or message else None
    return _end_without_record(case)


def _end_without_record(case: Case) -> Status:
    """What there is to say of a container that ended before its run could tell."""
    reason, code = str(case.ended.get("reason")), case.ended.get("exitCode")
    message = str(case.ended.get("message") or "")
    image = str(container_of(case.pod).get("image"))
    if reason in {"StartError", "ContainerCannotRun"}:
        return case.failed(
            Cause.IMAGE, f"its container could not be started: {explain_start(message, image)}"
        )
    if reason in {"ContainerStatusUnknown", "Unknown"}:
        return case.failed(Cause.NODE, f"its node lost it, perhaps in a restart; {AGAIN}")
    if code == 0:
        return case.status(State.SUCCEEDED, "")
    if case.is_leaving and code in TOLD_CODES:
        return _deleted(case)
    if code == 128 + signal.SIGKILL:
        said = "killed by signal 9; often the kernel's, for want of memory"
        return case.failed(Cause.EXIT, said)
    return case.failed(Cause.EXIT, f"exit code {code}; `bay logs` shows why")


def _end_of_job(case: Case) -> Status | None:
    """What the Job says, where no pod can tell."""
    if condition(case.job, "Complete"):
        return case.status(State.SUCCEEDED, "", code=0)
    failed = condition(case.job, "Failed")
    if not failed:
        return None
    if case.pod and not case.is_over:
        # Older clusters say so before the pod has gone.
        return case.going(ENDING)
    if failed.get("reason") == "DeadlineExceeded":
        return _past_deadline(case)
    if disrupted := _disruption(case, str(failed.get("message") or "")):
        return case.failed(*disrupted)
    code = POLICY_CODE.search(str(failed.get("message") or ""))
    if code and int(code[1]) not in TOLD_CODES:
        more = case.blind or "its pod is gone, and what it told with it"
        return case.failed(Cause.EXIT, f"exit code {code[1]}; {more}", code=int(code[1]))
    if case.blind:
        return case.failed(Cause.EXIT, f"it failed; {case.blind}")
    if failed.get("reason") in {"BackoffLimitExceeded", "PodFailurePolicy"}:
        return _deleted(case)
    message = failed.get("message") or failed.get("reason") or "nothing"
    return case.failed(Cause.EXIT, f"its Job failed, and the cluster says: {message}")


def _disruption(case: Case, message: str) -> tuple[Cause, str] | None:
    """Why the pod had to leave its node, as events or the Job remember it."""
    for event in _events_of_pods(case):
        if event.reason == "Preempted":
            return DISRUPTIONS["PreemptionByScheduler"]
        if event.reason == "TaintManagerEviction" and "Cancelling" not in event.message:
            return DISRUPTIONS["DeletionByTaintManager"]
        if event.reason == "Evicted":
            return Cause.NODE, explain_eviction(event.message)
    told = POLICY_CONDITION.search(message)
    return DISRUPTED if told and told[1] == "DisruptionTarget" else None


def _events_of_pods(case: Case) -> list[Event]:
    mine = re.compile(rf"{re.escape(case.name)}-[a-z0-9]{{5}}")
    found = (own for pod, own in case.events.items() if mine.fullmatch(pod))
    return [event for own in found for event in own if event.kind == "Pod"]


def _deleted(case: Case) -> Status:
    said = f"its pod was deleted by somebody, or by the cluster; {AGAIN}"
    return case.failed(Cause.CANCELLED_ELSEWHERE, said)


def _past_deadline(case: Case) -> Status:
    limit = _limit(case.job)
    return case.failed(
        Cause.TIMEOUT, f"its deadline{limit} was over; give it longer with `deadline:`"
    )


def _out_of_memory(case: Case) -> Status:
    most = asked_of(case.pod).get("resources", {}).get("limits", {}).get("memory")
    of = f"its limit of {most}" if most else "there was on its node"
    return case.failed(Cause.OOM, f"it needed more memory than {of}; ask for more with `memory:`")


def _verdict(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Why the Job has failed, or is about to."""
    return condition(job, "Failed") or condition(job, "FailureTarget")


def _limit(found: Mapping[str, Any]) -> str:
    seconds = found.get("spec", {}).get("activeDeadlineSeconds")
    return f" of {render_limit(timedelta(seconds=seconds))}" if seconds else ""


def _is_old(found: Mapping[str, Any], now: float | None) -> bool:
    made = moment(found["metadata"].get("creationTimestamp"))
    return now is None or made is None or now - made > SOON_S
