"""What becomes of a run, from Jobs, pods and events as a real cluster printed them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.conftest import DATA

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.status import (
    Event,
    Objects,
    judge,
    parse_events,
    parse_objects,
    wants_events,
)
from launchbay.core.errors import Rejected, Unreachable
from launchbay.core.run import Cause, State, Status

CAPTURED = DATA / "kubernetes_captured"
NOW = 1_794_774_100.0
"""A moment when these were captured."""
REFUSALS = json.loads((CAPTURED / "refusals.json").read_text())


def captured(name: str, *, refused: str = "") -> tuple[str, Objects]:
    """The Job of a capture and all that was listed."""
    objects = parse_objects((CAPTURED / f"{name}.json").read_text(), refused=refused)
    (job,) = objects.jobs
    return job, objects


def judged(name: str, *, with_events: bool = True) -> Status:
    job, objects = captured(name)
    events = parse_events((CAPTURED / "events.json").read_text()) if with_events else {}
    return judge(job, objects, events, now=NOW)


def listed(
    *, job: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, refused: str = ""
) -> Objects:
    """A Job `a` that runs, changed by merging, with its pod."""
    items = json.loads((CAPTURED / "runs.json").read_text())["items"]
    found = [_merge(items[0], job or {}), *([_merge(items[1], pod)] if pod is not None else [])]
    return parse_objects(json.dumps({"items": found}), refused=refused)


def seen(objects: Objects, events: dict[str, list[Event]] | None = None) -> Status:
    return judge("runs", objects, events or {}, now=NOW)


def ended(*lines: dict[str, Any], log: str | None = None, **state: Any) -> dict[str, Any]:
    """A pod whose container ended with this message."""
    message = "".join(f"{json.dumps(line)}\n" for line in lines)
    message += f"--log\n{log}" if log is not None else ""
    told = {"exitCode": 1, "reason": "Error", "message": message, **state}
    return {
        "status": {
            "phase": "Failed",
            "containerStatuses": [
                {"name": "main", "image": "i", "ready": False, "state": {"terminated": told}}
            ],
        }
    }


def exit_record(code: int | None, **more: Any) -> dict[str, Any]:
    plain = {"event": "exit", "at": 200.0, "code": code, "signal": "", "phase": "command"}
    return {**plain, **more}


def _merge(base: Any, change: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(change, dict):
        return copy.deepcopy(change)
    return {
        key: _merge(base.get(key), change[key]) if key in change else copy.deepcopy(base[key])
        for key in {**base, **change}
    }


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bigcpu", "waits for CPUs: no node that it may use has so much, even empty"),
        ("nogpu", "waits for GPUs: no node that it may use has so much"),
        ("waitsslot", "waits for `example.com/slot`: not enough is free on 1 of 1 nodes"),
        ("selector", "1 it may not use, see `gpu_type:`"),
        ("tainted", "1 with taints that it does not tolerate, see `tolerations:`"),
        ("noclaim", "the volume claim `nosuch` is not there"),
        ("noconfig", "its container cannot be made: the secret `nosuch` is not there"),
        ("noconfigmap", "what it mounts is missing: the configmap `nosuch` is not there"),
        ("quota", "it gets no pod: the namespace's quota `small` is used up, CPUs: 1 of 1"),
        ("gpuquota", "it asks for GPUs: 2, and the namespace's quota `small` gives 1 in all"),
        ("range", "memory of 1Gi at the most, and it asks for 4Gi"),
        ("priority", "no priority class `nosuch`"),
        ("suspended", "somebody suspended its Job; `kubectl patch job suspended -p"),
        ("kueue", "waits in the queue `team`"),
    ],
)
def test_waits(name: str, says: str) -> None:
    """What has not started is queued, and says what it waits for and what to try."""
    status = judged(name)

    assert (status.state, status.cause, status.unfed) == (State.QUEUED, None, False)
    assert says in status.reason


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("noimage", "the image `bay.test/none:9` cannot be pulled: its registry does not answer"),
        ("badimage", "`Bay.test/UPPER:1` is no name of an image"),
        ("nevers", "its node does not have the image `bay.test/none:9`"),
    ],
)
def test_waits_for_its_image(name: str, says: str) -> None:
    """A missing image is never an end, for it may still come; the cause tells what it waits for."""
    status = judged(name)

    assert (status.state, status.cause) == (State.QUEUED, Cause.IMAGE)
    assert says in status.reason


def test_waits_for_its_turn() -> None:
    """A Job that is held back for a cap waits for a push, and says how many may run at once."""
    status = judged("turn")

    assert (status.state, status.unfed) == (State.QUEUED, True)
    assert status.reason == "waits for its turn: at most 2 of its experiment at once"


def test_runs() -> None:
    """A pod that runs says where, as what, and since when."""
    status = judged("runs")

    assert (status.state, status.reason, status.exit_code) == (State.RUNNING, "", None)
    assert status.nodes == ("node1",)
    assert status.allocation.startswith("runs-")
    assert status.started_at == 1_794_774_028.0
    assert status.ended_at is None


@pytest.mark.parametrize(
    ("name", "cause", "code", "says"),
    [
        ("exit3", Cause.EXIT, 3, "exit code 3"),
        ("recorded", Cause.EXIT, 3, "exit code 3"),
        ("oom", Cause.OOM, 137, "more memory than its limit of 32Mi; ask for more with `memory:`"),
        ("disk", Cause.NODE, 137, "more to its scratch disk than its limit of 10Mi"),
        ("deadlinepod", Cause.TIMEOUT, 137, "its time limit of 3s was over"),
        ("deadlinepolicy", Cause.TIMEOUT, 137, "its time limit of 3s was over"),
        ("deadlinejob", Cause.TIMEOUT, None, "its deadline of 3s was over"),
        ("noshell", Cause.IMAGE, 128, "`bay.test/busybox:1` has no `/bin/none`"),
        ("preempted", Cause.PREEMPTED, None, "make way for a pod of higher priority"),
        ("podpolicy", Cause.NODE, None, "it had to leave its node"),
        ("deleted", Cause.CANCELLED_ELSEWHERE, None, "its pod was deleted"),
        ("evicted", Cause.CANCELLED_ELSEWHERE, None, "its pod was deleted"),
        ("killpolicy", Cause.CANCELLED_ELSEWHERE, None, "its pod was deleted"),
    ],
)
def test_failed(name: str, cause: Cause, code: int | None, says: str) -> None:
    """An end has its cause, its code where there is one, its moment, and a sentence."""
    status = judged(name)

    assert (status.state, status.cause, status.exit_code) == (State.FAILED, cause, code)
    assert says in status.reason
    assert status.ended_at is not None


@pytest.mark.parametrize("name", ["ok", "sidecar"])
def test_succeeded(name: str) -> None:
    """The end of the command is the end of the run, though containers beside it go on."""
    status = judged(name)

    assert (status.state, status.exit_code, status.cause) == (State.SUCCEEDED, 0, None)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cancelling", "it is ending"),
        ("deleting", "it is ending: its pod is being deleted"),
        ("evicting", "it is ending: it was evicted from its node"),
        ("preempting", "it is ending: it had to make way for a pod of higher priority"),
    ],
)
def test_is_ending(name: str, says: str) -> None:
    """As long as its pod is there a run goes on, and says that it is about to end."""
    status = judged(name)

    assert status.state is State.RUNNING
    assert status.reason.startswith(says)


@pytest.mark.parametrize(("name", "code"), [("cancelled", None), ("asked", 143)])
def test_cancelled(name: str, code: int | None) -> None:
    """A run that we ended is cancelled, whether its pod was taken away or asked to end."""
    status = judged(name)

    assert (status.state, status.cause, status.exit_code) == (State.CANCELLED, None, code)


def test_cancelled_before_it_started() -> None:
    """A Job that never had a pod was cancelled before it started."""
    job = {
        "metadata": {"annotations": {words.CANCELLED: "yes"}},
        "spec": {"suspend": True},
        "status": {"startTime": None, "active": 0},
    }
    status = seen(listed(job=job))

    assert (status.state, status.reason) == (State.CANCELLED, "cancelled before it started")


@pytest.mark.parametrize(
    ("record", "state"),
    [
        (exit_record(0), State.SUCCEEDED),
        (exit_record(3), State.FAILED),
        (exit_record(3, phase="held", signal="TERM"), State.FAILED),
        (exit_record(0, signal="TERM"), State.CANCELLED),
        (exit_record(143), State.CANCELLED),
        (exit_record(137), State.CANCELLED),
    ],
)
def test_own_end_outlives_a_cancel(record: dict[str, Any], state: State) -> None:
    """A run that had ended by itself before it was cancelled keeps its end."""
    job = {"metadata": {"annotations": {words.CANCELLED: "yes"}}}
    status = seen(listed(job=job, pod=ended(record)))

    assert (status.state, status.exit_code) == (state, record["code"])


def test_cancel_after_a_good_end_whose_pod_is_gone() -> None:
    """A Job that was complete when it was cancelled has succeeded."""
    job = {
        "metadata": {"annotations": {words.CANCELLED: "yes"}},
        "status": {"conditions": [{"type": "Complete", "status": "True"}], "active": 0},
    }

    assert seen(listed(job=job)).state is State.SUCCEEDED


def test_cancelled_while_its_pods_are_not_seen() -> None:
    """As long as the Job counts a pod, what was cancelled has not ended."""
    job = {"metadata": {"annotations": {words.CANCELLED: "yes"}}, "status": {"active": 1}}

    assert not seen(listed(job=job)).state.final


def test_metrics_and_moments_of_its_own() -> None:
    """The last value of each metric counts, those that patterns find in the log among them."""
    patterns = {"metadata": {"annotations": {words.METRICS: json.dumps({"acc": r"acc=(\S+)"})}}}
    lines = [
        {"event": "started", "at": 100.5, "host": "runs-x"},
        exit_record(0),
        {"event": "log", "size": 12},
        {"loss": 0.5, "step": 1},
        {"loss": 0.25},
    ]
    pod = _merge(patterns, ended(*lines, log="acc=0.5\nacc=0.75\n", exitCode=0))
    objects = listed(pod=pod)
    status = seen(objects)

    assert status.metrics == {"acc": 0.75, "loss": 0.25, "step": 1}
    assert (status.started_at, status.ended_at, status.nodes) == (100.5, 200.0, ("node1",))
    assert objects.log_size("runs") == 12


def test_message_that_is_cut_off() -> None:
    """Half a line, or a message that is none of ours, does no harm."""
    pod = ended(exit_record(3))
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    state["message"] += '{"loss": 0.'
    objects = listed(pod=pod)
    other = listed(pod=ended(message="Traceback\n[1]\n", exitCode=2))

    assert (seen(objects).exit_code, seen(objects).metrics) == (3, {})
    assert objects.log_size("runs") is None
    assert (seen(other).state, seen(other).exit_code) == (State.FAILED, 2)
    assert listed().log_size("runs") is None


@pytest.mark.parametrize(
    ("record", "cause", "says"),
    [
        (exit_record(1, phase="setup", why="no disk"), Cause.SETUP, "no disk"),
        (exit_record(127), Cause.EXIT, "not found"),
        (exit_record(137), Cause.EXIT, "killed by signal 9"),
        (exit_record(139), Cause.EXIT, "exit code 139"),
    ],
)
def test_record_decides(record: dict[str, Any], cause: Cause, says: str) -> None:
    """What the run recorded counts more than what became of its container."""
    status = seen(listed(pod=ended(record, exitCode=74)))

    assert (status.state, status.cause, status.exit_code) == (State.FAILED, cause, record["code"])
    assert says in status.reason


def test_outputs_that_were_not_copied() -> None:
    """A run whose outputs did not arrive says so, however it ended."""
    why = {"event": "unshipped", "why": "no such bucket"}
    status = seen(listed(pod=ended(exit_record(0, ships=1), why, exitCode=0)))

    assert status.state is State.SUCCEEDED
    assert "no such bucket" in status.reason


@pytest.mark.parametrize(
    ("code", "state", "cause"),
    [
        (0, State.SUCCEEDED, None),
        (1, State.FAILED, Cause.OOM),
        (137, State.FAILED, Cause.OOM),
    ],
)
def test_memory_ran_out_within(code: int, state: State, cause: Cause | None) -> None:
    """Who lost a part for want of memory failed for that, unless it came to a good end."""
    status = seen(listed(pod=ended(exit_record(code), reason="OOMKilled", exitCode=code)))

    assert (status.state, status.cause, status.exit_code) == (state, cause, code)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("PreemptionByScheduler", Cause.PREEMPTED),
        ("DeletionByTaintManager", Cause.NODE),
        ("EvictionByEvictionAPI", Cause.NODE),
        ("DeletionByPodGC", Cause.NODE),
        ("TerminationByKubelet", Cause.NODE),
        ("Novelty", Cause.NODE),
    ],
)
def test_had_to_leave_its_node(reason: str, cause: Cause) -> None:
    """A pod that has ended because it had to leave its node says who wanted that."""
    pod = ended(exit_record(143, signal="TERM"), exitCode=143)
    told = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    pod["status"]["conditions"] = [told]
    status = seen(listed(pod=pod))

    assert (status.state, status.cause, status.exit_code) == (State.FAILED, cause, 143)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Preempting", Cause.PREEMPTED),
        ("Terminated", Cause.NODE),
        ("OutOfnvidia", Cause.NODE),
        ("Novelty", Cause.NODE),
    ],
)
def test_pod_failed_without_a_container(reason: str, cause: Cause) -> None:
    """A pod that its node did not take, or gave up, failed for its node."""
    pod = {"status": {"phase": "Failed", "reason": reason, "containerStatuses": []}}
    status = seen(listed(pod=pod))

    assert (status.state, status.cause) == (State.FAILED, cause)
    assert status.reason


def test_node_that_restarted() -> None:
    """A container that its node cannot account for was lost with the node."""
    pod = ended(reason="ContainerStatusUnknown", exitCode=137)

    assert seen(listed(pod=pod)).cause is Cause.NODE


def test_told_to_end_while_others_run_on() -> None:
    """A command that was told to end is judged once the cluster has said why."""
    pod = ended(exit_record(143, signal="TERM"), exitCode=143)
    pod["status"]["phase"] = "Running"
    leaving = _merge(
        ended(exit_record(143, signal="TERM")),
        {"metadata": {"deletionTimestamp": "2026-11-15T20:21:00Z"}},
    )
    gone = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}

    assert seen(listed(pod=pod)).state is State.RUNNING
    assert seen(listed(pod=leaving)).state is State.RUNNING
    assert seen(listed(pod=leaving, job={"status": gone})).cause is Cause.CANCELLED_ELSEWHERE


@pytest.mark.parametrize(
    "pod",
    [
        {"status": {"phase": "Unknown"}},
        {"status": {"reason": "NodeLost"}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"metadata": {"deletionTimestamp": "2026-11-15T20:11:00Z"}},
    ],
)
def test_node_does_not_answer(pod: dict[str, Any]) -> None:
    """What runs on a node that nobody hears from still runs, as far as anybody knows."""
    status = seen(listed(pod=pod))

    assert status.state is State.RUNNING
    assert status.reason.startswith("its node `node1` does not answer")


def test_job_is_gone() -> None:
    """A Job that is not listed is lost, and its namespace is named where it is known."""
    nowhere = judge("other", parse_objects('{"items": []}'), {}, now=NOW)
    known = judge("other", listed(), {}, now=NOW)

    assert (nowhere.state, known.state) == (State.LOST, State.LOST)
    assert "its Job `other` is gone from its namespace" in nowhere.reason
    assert "from the namespace `lab`" in known.reason


def test_new_words_end_nothing() -> None:
    """A condition or a phase that nobody has met ends no run."""
    job = {"status": {"conditions": [{"type": "Novelty", "status": "True"}]}}
    pod = {"status": {"phase": "Novelty"}}
    status = seen(listed(job=job, pod=pod))

    assert status.state is State.RUNNING
    assert "`Novelty`" in status.reason


def test_failed_in_a_new_way() -> None:
    """A Job that failed has failed, also for a reason that nobody has met."""
    failed = {"type": "Failed", "status": "True", "reason": "Novelty", "message": "of a kind"}
    status = seen(listed(job={"status": {"conditions": [failed]}}))

    assert (status.state, status.cause) == (State.FAILED, Cause.EXIT)
    assert "of a kind" in status.reason


def test_exit_code_outlives_the_pod() -> None:
    """Where the Job remembers the exit code it is known though the pod is gone."""
    job, objects = captured("exitpolicy")
    status = judge(job, Objects(jobs=objects.jobs), {}, now=NOW)

    assert (status.state, status.cause, status.exit_code) == (State.FAILED, Cause.EXIT, 3)


@pytest.mark.parametrize(
    ("reason", "message", "cause"),
    [
        ("TaintManagerEviction", "Marking for deletion Pod lab/runs-abcde", Cause.NODE),
        ("TaintManagerEviction", "Cancelling deletion of Pod", Cause.CANCELLED_ELSEWHERE),
        ("Evicted", "The node was low on resource: memory.", Cause.NODE),
        ("Preempted", "Preempted by a pod", Cause.PREEMPTED),
    ],
)
def test_events_remember_why_a_pod_is_gone(reason: str, message: str, cause: Cause) -> None:
    """What happened to a pod is still known from its events, and only from its own."""
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    objects = listed(job={"status": {"conditions": [failed], "active": 0}})
    own, other = "runs-abcde", "runs-2-abcde"
    event = Event(kind="Pod", name=own, reason=reason, message=message, at=1.0)

    assert seen(objects, {own: [event]}).cause is cause
    assert seen(objects, {other: [event]}).cause is Cause.CANCELLED_ELSEWHERE


def test_pods_may_not_be_listed() -> None:
    """Without pods the Jobs alone tell, and what is not known is said."""
    refused = REFUSALS["half"]
    runs = seen(listed(refused=refused))
    waits = seen(listed(job={"status": {"ready": 0}}, refused=refused))
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    over = seen(listed(job={"status": {"conditions": [failed]}}, refused=refused))
    done = {"type": "Complete", "status": "True"}
    good = seen(listed(job={"status": {"conditions": [done]}}, refused=refused))

    assert [one.state for one in (runs, waits, over, good)] == [
        State.RUNNING,
        State.QUEUED,
        State.FAILED,
        State.SUCCEEDED,
    ]
    assert all("pods may not be listed" in one.reason for one in (runs, waits, over))


def test_jobs_may_not_be_listed() -> None:
    """Without Jobs nothing is known, and nothing is taken for lost."""
    with pytest.raises(Rejected, match="may not list jobs in the namespace `lab`"):
        parse_objects('{"items": []}', refused=REFUSALS["podsonly"])


@pytest.mark.parametrize(
    "line",
    [
        "Unable to connect to the server: EOF",
        "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host?",
        "Error from server (ServiceUnavailable): the server is not ready",
    ],
)
def test_list_breaks_off(line: str) -> None:
    """A list of which half is missing is no list: nothing is judged by it."""
    with pytest.raises(Unreachable):
        parse_objects((CAPTURED / "runs.json").read_text(), refused=line)


def test_chatter_is_no_complaint() -> None:
    """What a plug-in or a warning says beside the list does not matter."""
    said = "Warning: batch/v1 is fine\nlogging in …\n"

    assert parse_objects((CAPTURED / "runs.json").read_text(), refused=said).jobs.keys() == {"runs"}


def test_newest_pod_counts() -> None:
    """Of several pods the one that is not being deleted counts, then the newest."""
    items = json.loads((CAPTURED / "runs.json").read_text())["items"]
    leaving = _merge(
        items[1],
        {
            "metadata": {
                "name": "runs-old01",
                "creationTimestamp": "2026-11-15T20:30:00Z",
                "deletionTimestamp": "2026-11-15T20:31:00Z",
            }
        },
    )
    objects = parse_objects(json.dumps({"items": [*items, leaving]}))

    assert seen(objects).allocation == items[1]["metadata"]["name"]


def test_pods_by_label() -> None:
    """A pod that names no owner belongs to the Job of its label; others to none."""
    items = json.loads((CAPTURED / "runs.json").read_text())["items"]
    del items[1]["metadata"]["ownerReferences"]
    strange = _merge(items[1], {"metadata": {"name": "dev"}})
    strange["metadata"]["labels"] = {}
    objects = parse_objects(json.dumps({"items": [*items, strange]}))

    assert [pod["metadata"]["name"] for pod in objects.pods["runs"]] == [
        items[1]["metadata"]["name"]
    ]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("quota", True),
        ("noconfigmap", True),
        ("deleted", True),
        ("preempted", True),
        ("runs", False),
        ("noimage", False),
        ("bigcpu", False),
        ("ok", False),
        ("exit3", False),
        ("suspended", False),
        ("cancelled", False),
        ("deadlinejob", False),
    ],
)
def test_events_are_asked_for(name: str, wanted: bool) -> None:  # noqa: FBT001
    """Only where a pod is missing, or stuck on its node, are events worth a call."""
    assert wants_events(*captured(name)) == wanted


def test_events_are_not_asked_for_at_once() -> None:
    """What has only just been made is given a moment before anybody asks why it does not start."""
    made = 1_794_774_125.0

    assert not wants_events(*captured("quota"), now=made + 1)
    assert wants_events(*captured("quota"), now=made + 10)
    assert not wants_events("none", captured("quota")[1])


def test_without_events_it_waits() -> None:
    """A Job without a pod waits, also where events were not asked for."""
    assert judged("quota", with_events=False).state is State.QUEUED
    assert judged("noconfigmap", with_events=False).state is State.QUEUED


def test_events_are_in_order() -> None:
    """Events come newest last, whichever of their moments is given."""
    rows: list[dict[str, Any]] = [
        {"lastTimestamp": "2026-01-01T00:00:03Z", "eventTime": None},
        {"lastTimestamp": None, "eventTime": "2026-01-01T00:00:01.5Z"},
        {"series": {"lastObservedTime": "2026-01-01T00:00:02.000001Z"}},
    ]
    items = [
        {
            "metadata": {"creationTimestamp": "2026-01-01T00:00:09Z"},
            "involvedObject": {"kind": "Job", "name": "a"},
            "reason": str(number),
            "message": "m",
            **row,
        }
        for number, row in enumerate(rows)
    ]
    found = parse_events(json.dumps({"items": items}))

    assert [event.reason for event in found["a"]] == ["1", "2", "0"]


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        ({"status": {"conditions": [], "containerStatuses": []}}, "has not begun with it yet"),
        (
            {"spec": {"nodeName": None}, "status": {"conditions": [], "containerStatuses": []}},
            "waits for a node",
        ),
        (
            {
                "status": {
                    "conditions": [
                        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
                    ]
                }
            },
            "holds it back",
        ),
        (
            {
                "status": {
                    "initContainerStatuses": [
                        {
                            "name": "server",
                            "image": "s:1",
                            "state": {"waiting": {"reason": "ErrImagePull"}},
                        }
                    ]
                }
            },
            "the image `s:1` cannot be pulled",
        ),
        ({"metadata": {"deletionTimestamp": "2026-11-15T20:21:00Z"}}, "deleted before it began"),
    ],
)
def test_before_it_begins(pod: dict[str, Any], says: str) -> None:
    """What a pod waits for that has not begun is said, also of the containers beside it."""
    waiting = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
    begun = {"status": {"phase": "Pending", "containerStatuses": [waiting]}}
    status = seen(listed(pod=_merge(begun, pod)))

    assert status.state is State.QUEUED
    assert says in status.reason


def test_suspended_while_it_runs() -> None:
    """A Job that somebody suspends ends its pod, and may start again."""
    status = seen(listed(job={"spec": {"suspend": True}}, pod={}))

    assert status.state is State.RUNNING
    assert "suspended" in status.reason


def test_failed_while_its_pod_is_there() -> None:
    """A Job that has failed is over once its pod is."""
    failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}

    assert seen(listed(job={"status": {"conditions": [failed]}}, pod={})).state is State.RUNNING


def test_job_that_is_being_deleted() -> None:
    """A Job on its way out is said to be that, until it is gone."""
    job = {"metadata": {"deletionTimestamp": "2026-11-15T20:21:00Z"}}

    assert seen(listed(job=job)).reason == "its Job is being deleted"
