"""What `bay plan --check` makes of what a Kubernetes answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from launchbay.backends.kubernetes.trial import (
    ASKED,
    _at_once,
    _chosen,
    _demand,
    _judge_jobs,
    _judge_pods,
    _judge_quotas,
    _render_pods,
)
from launchbay.backends.kubernetes.words import CAP
from launchbay.core.errors import Unreachable
from launchbay.core.host import Completed

DENIED = (
    'Error from server (Forbidden): error when creating "STDIN": jobs.batch "a" is forbidden: '
    'User "me" cannot create resource "jobs" in API group "batch" in the namespace "lab"\n'
)
THERE = 'Error from server (AlreadyExists): configmaps "code" already exists\n'
SPENT = (
    'Error from server (Forbidden): error when creating "STDIN": pods "a" is forbidden: '
    "exceeded quota: q, requested: requests.cpu=9, used: requests.cpu=0, limited: requests.cpu=4\n"
)
RANGE = (
    'Error from server (Forbidden): error when creating "STDIN": pods "a" is forbidden: '
    "maximum memory usage per Container is 1Gi, but limit is 2Gi\n"
)


def said(stderr: str = "", stdout: str = "") -> Completed:
    return Completed(code=int(bool(stderr)), stdout=stdout, stderr=stderr)


def job(cpu: str = "1", cap: str = "", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}
    pod = {"containers": [{"name": "main", "resources": resources}], **spec}
    return {
        "kind": "Job",
        "metadata": {"name": "a", "annotations": {CAP: cap} if cap else {}},
        "spec": {"template": {"metadata": {"labels": {"user": "me"}}, "spec": pod}},
    }


def quotas(hard: dict[str, str], used: dict[str, str], **spec: Any) -> Completed:
    status = {"hard": hard, "used": used}
    one = {"metadata": {"name": "q"}, "spec": spec, "status": status}
    return said(stdout=json.dumps({"items": [one]}))


def messages(found: Any) -> list[tuple[str, str]]:
    return [(one.level, one.message) for one in found]


def test_all_would_be_taken() -> None:
    """A dry run without a word counts its runs; those that are like them are named."""
    assert messages(_judge_jobs("lab", said(), asked=3, all_of=3)) == [("ok", "would take 3 runs")]
    assert messages(_judge_jobs("lab", said(), asked=50, all_of=80)) == [
        ("ok", "would take 50 runs; 30 more are like these")
    ]


def test_what_is_there_already_is_no_refusal() -> None:
    """Code that an earlier launch left is found again, and counts against nobody."""
    assert messages(_judge_jobs("lab", said(THERE), asked=1, all_of=1)) == [
        ("ok", "would take 1 run")
    ]


def test_refusals_are_counted_by_reason() -> None:
    """Runs that are refused for the same reason are one finding."""
    found = messages(_judge_jobs("lab", said(DENIED * 2), asked=3, all_of=3))

    assert found[0] == ("ok", "would take 1 run of 3")
    assert [level for level, _ in found[1:]] == ["problem"]
    assert found[1][1].startswith("would refuse 2 runs: ")


def test_warnings_of_the_server_are_passed_on() -> None:
    """What the server warns of while it takes a Job is told once."""
    warned = said('Warning: would violate PodSecurity "restricted"\n' * 2)

    assert messages(_judge_jobs("lab", warned, asked=1, all_of=1)) == [
        ("ok", "would take 1 run"),
        ("warning", 'warns: would violate PodSecurity "restricted"'),
    ]


def test_a_check_that_cannot_be_tried() -> None:
    """An admission check without dry run is no refusal, and that it may refuse is said."""
    cannot = said(
        'Error from server (BadRequest): error when creating "STDIN": admission webhook '
        '"x" does not support dry run\n'
    )

    assert messages(_judge_jobs("lab", cannot, asked=1, all_of=1)) == [
        ("ok", "would take 1 run"),
        ("warning", "a check of this cluster cannot be tried, so it may still refuse"),
    ]


def test_silence_is_no_verdict() -> None:
    """Where the trial itself was not answered, nothing is claimed of it."""
    found = messages(_judge_jobs("lab", Unreachable("no answer"), asked=1, all_of=1))

    assert found == [("warning", "was not asked: no answer")]


def test_pods_are_tried_too() -> None:
    """What stops pods and not their Jobs is a problem before it is sent."""
    ((level, message),) = messages(_judge_pods("lab", said(RANGE)))

    assert level == "problem"
    assert message.startswith("would take the Jobs, and refuse their pods: ")


def test_a_spent_quota_is_counted_elsewhere() -> None:
    """That nothing is left of a quota now does not mean that a run is refused."""
    assert messages(_judge_pods("lab", said(SPENT))) == []


def test_who_may_not_create_pods() -> None:
    """Without the right to create pods, what is not known is said and no more."""
    denied = said(DENIED.replace("jobs", "pods"))

    assert messages(_judge_pods("lab", denied)) == [
        ("ok", "you may not create pods yourself, so what is said of pods could not be asked")
    ]


def test_one_pod_of_each_kind() -> None:
    """Jobs that differ only in what they read are tried by one pod."""
    made = json.loads(_render_pods([job(), job(volumes=[1]), job("2")]))["items"]

    assert [one["kind"] for one in made] == ["Pod", "Pod"]
    assert made[0]["metadata"] == {"name": "a-pod", "labels": {"user": "me"}}


def test_a_trial_has_an_end() -> None:
    """Of a great many Jobs the first are sent, with what stands before them."""
    objects = [{"kind": "ConfigMap"}, *[{"kind": "Job"}] * (ASKED + 5)]
    texts = [str(number) for number in range(len(objects))]

    assert _chosen(texts, objects) == texts[: ASKED + 1]


def test_what_a_quota_counts() -> None:
    """A run counts by its requests, its limits, its pod and its Job; sidecars add to it."""
    beside = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
    before = {"resources": {"requests": {"cpu": "9"}}}

    assert _demand(job(initContainers=[beside, before])) == {
        "pods": 1,
        "count/pods": 1,
        "count/jobs.batch": 1,
        "cpu": 1.5,
        "requests.cpu": 1.5,
        "limits.cpu": 2,
        "requests.nvidia.com/gpu": 1,
        "limits.nvidia.com/gpu": 1,
    }


def test_a_cap_bounds_what_is_asked_for() -> None:
    """With `parallel` so many count as may run at once."""
    assert _at_once([job(cap="2"), job(cap="2"), job(cap="2")]) == 2
    assert _at_once([job(cap="2"), job()]) == 2
    assert _at_once([job(), job(), job()]) == 3


@pytest.mark.parametrize(
    ("hard", "used", "found"),
    [
        ("9", "1", ("ok", "quota `q`: the runs ask for 3 of 8 CPUs left")),
        (
            "4",
            "2",
            ("warning", "quota `q`: 2 of 4 CPUs left, and the runs ask for 3: some would wait"),
        ),
        ("500m", "0", ("problem", "quota `q`: 0.5 of 0.5 CPUs left, and one run asks for 1")),
    ],
)
def test_all_runs_are_counted(hard: str, used: str, found: tuple[str, str]) -> None:
    """What all runs ask for together is held against what is left."""
    answer = quotas({"requests.cpu": hard}, {"requests.cpu": used})

    assert messages(_judge_quotas("lab", answer, [job()] * 3)) == [found]


def test_jobs_count_whether_or_not_they_run() -> None:
    """A quota of Jobs counts those that wait for their turn, too."""
    answer = quotas({"count/jobs.batch": "2", "pods": "2"}, {})

    assert messages(_judge_quotas("lab", answer, [job(cap="1")] * 3)) == [
        ("warning", "quota `q`: 2 of 2 Jobs left, and the runs ask for 3: some would wait"),
        ("ok", "quota `q`: the runs ask for 1 of 2 pods left"),
    ]


def test_a_quota_of_some_pods_only_is_left_out() -> None:
    """A quota with a scope may not be about these runs, so nothing is said of it."""
    answer = quotas({"pods": "0"}, {}, scopes=["BestEffort"])

    assert messages(_judge_quotas("lab", answer, [job()])) == []


def test_quotas_that_may_not_be_listed() -> None:
    """What is not known is said."""
    assert messages(_judge_quotas("lab", said(DENIED), [job()])) == [
        ("ok", "quotas may not be listed here: what is left of them is not checked")
    ]
