"""Jobs and pods by the labels of their user and project, with a `kubectl` that answers as told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.workloads import (
    deliver_to_pod,
    describe,
    list_workloads,
)
from launchbay.core.errors import BadRequest
from launchbay.core.host import Completed
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Answering(LocalHost):
    """A machine whose `kubectl` has these objects, and notes what it is asked."""

    def __init__(self, *found: dict[str, Any]) -> None:
        self.found = list(found)
        self.calls: list[list[str]] = []

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        assert not stdin
        assert tell is None
        self.calls.append(list(argv))
        return Completed(code=0, stdout=json.dumps({"items": self.found}), stderr="")


def an_object(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """An object as the cluster lists it."""
    about = {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {}}
    return {"kind": kind, "metadata": {**about, **more.pop("about", {})}, **more}


def test_one_selector_with_user_and_project() -> None:
    """Of two selectors `kubectl` takes the last, so there is one, of both labels."""
    host = Answering(an_object("Job", "a"))
    found = list_workloads(Kubectl(host, "kube", "lab"), "me@box", "example")
    (call,) = host.calls

    assert call.count("-l") == 1
    assert call[call.index("-l") + 1] == "user=me-box,project=example"
    assert [(one.kind, one.name) for one in found] == [("job", "a")]


def test_pods_of_jobs_are_theirs() -> None:
    """A pod that a Job made goes with it; one that helps us goes by itself."""
    helper = {"labels": {"launchbay/role": "helper"}}
    host = Answering(
        an_object("Job", "a"),
        an_object("Pod", "a-1", about={"ownerReferences": [{"kind": "Job"}]}),
        an_object("Pod", "helper", about=helper),
        an_object("Pod", "alone", status={"phase": "Running"}),
    )
    found = list_workloads(Kubectl(host, "kube", "lab"), "me", "example")

    assert [(one.kind, one.name, one.state) for one in found] == [
        ("pod", "alone", "running"),
        ("job", "a", "pending"),
    ]


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "pending"),
        ({"active": 1}, "pending"),
        ({"active": 1, "ready": 1}, "running"),
        ({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}, "succeeded"),
        ({"failed": 1}, "failed"),
        ({"failed": 1, "active": 1}, "pending"),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, "failed"),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, "pending"),
    ],
)
def test_the_state_of_a_job(status: dict[str, Any], state: str) -> None:
    """As the first tool knew them: failed counts only while nothing is active."""
    assert describe(an_object("Job", "a", status=status)).state == state


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ((), "there is no pod `p` in `lab`"),
        ((an_object("Pod", "p", status={"phase": "Pending"}),), "is pending, not running"),
        ((an_object("Pod", "p", status={"phase": "Running"}),), "was not made by launchbay"),
    ],
)
def test_a_pod_that_takes_no_files(found: tuple[dict[str, Any], ...], told: str) -> None:
    """What cannot be copied to is said before anything is."""
    with pytest.raises(BadRequest, match=told):
        deliver_to_pod(Kubectl(Answering(*found), "kube", "lab"), "p", [])
