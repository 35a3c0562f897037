"""What `bay doctor` says of a Kubernetes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.checkup import (
    FAVOURS,
    _check_claims,
    _check_image,
    _check_nodes,
    _check_quotas,
    _check_rights,
    _check_versions,
    diagnose,
    named_claims,
)
from launchbay.backends.kubernetes.facts import RIGHTS
from launchbay.core.host import Completed
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from pathlib import Path

WANTED = [*RIGHTS, *FAVOURS]
ALL = dict.fromkeys(WANTED, True)


def versions(client: str, server: str) -> Completed:
    told = {"clientVersion": {"gitVersion": client}, "serverVersion": {"gitVersion": server}}
    return Completed(code=0, stdout=json.dumps(told), stderr="")


def test_kubectl_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `kubectl` that is the one thing to say."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = diagnose(Kubectl(LocalHost(), "cluster", "lab"))

    assert (found.level, found.message) == ("problem", "is not found here")
    assert "install it" in found.remedy


@pytest.mark.parametrize(
    ("client", "server", "level"),
    [("v1.34.1", "v1.33.0", "ok"), ("v1.34.1", "v1.32.9-gke.7", "warning"), ("v1.34.1", "", "ok")],
)
def test_versions_too_far_apart(client: str, server: str, level: str) -> None:
    """`kubectl` serves servers of one minor version around its own."""
    (found,) = _check_versions(versions(client, server))

    assert found.level == level
    assert bool(found.remedy) == (level == "warning")


def test_all_rights() -> None:
    """Who may do everything reads one line about it."""
    assert [(one.level, one.message) for one in _check_rights("lab", ALL, WANTED)] == [
        ("ok", "all that runs need")
    ]


def test_rights_that_runs_need() -> None:
    """What runs need and is not allowed is a problem, with whom to ask."""
    may = {**ALL, "create jobs.batch": False, "get pods/log": False}
    (found,) = _check_rights("lab", may, WANTED)

    assert found.level == "problem"
    assert found.message == "in namespace `lab` you may not create jobs.batch, get pods/log"
    assert "a Role to hand over" in found.remedy


def test_rights_that_are_good_to_have() -> None:
    """What only makes something less handy is a warning that says what is lost."""
    found = list(_check_rights("lab", {**ALL, "list nodes": False}, WANTED))

    assert [(one.level, one.message) for one in found] == [
        ("ok", "all that runs need"),
        (
            "warning",
            "you may not list nodes: sizes and GPU types are not checked before something is sent",
        ),
    ]


def test_rights_that_nobody_tells() -> None:
    """Where the cluster does not say what we may, nothing is claimed."""
    (found,) = _check_rights("lab", {}, WANTED)

    assert found.level == "warning"
    assert found.message.startswith("it does not tell whether you may create jobs.batch and ")


def test_nodes_by_their_gpus() -> None:
    """Those that are ready are counted, with the GPUs they have."""
    nodes = [
        {"ready": True, "product": "A100", "resources": {"nvidia.com/gpu": 4}},
        {"ready": True, "product": "A100", "resources": {"nvidia.com/gpu": 4}},
        {"ready": False, "product": "V100", "resources": {"nvidia.com/gpu": 4}},
    ]
    (found,) = _check_nodes({"nodes": nodes})

    assert (found.level, found.message) == ("ok", "2 of 3 ready, 8 A100")
    assert list(_check_nodes({"nodes": None})) == []


def test_a_quota_that_is_nearly_used_up() -> None:
    """Nine tenths of anything is worth a warning."""
    quotas = [
        {"name": "a", "hard": {"pods": 10, "cpu": 4}, "used": {"pods": 9, "cpu": 1}},
        {"name": "b", "hard": {"pods": 10, "requests.nvidia.com/gpu": 0}, "used": {"pods": 8}},
    ]

    assert [(one.level, one.subject, one.message) for one in _check_quotas(quotas)] == [
        ("warning", "quota a", "is nearly used up: 9 of 10 pods"),
        ("ok", "quota b", "has room"),
    ]


def test_an_image_is_needed() -> None:
    """A target without one works only where the experiment names it."""
    assert _check_image("python:3.12").level == "ok"
    assert _check_image("").level == "warning"


def test_claims_have_to_be_there() -> None:
    """A claim that does not exist is a problem, one without a volume may only be new."""
    there = [
        {"name": "a", "phase": "Bound"},
        {"name": "b", "phase": "Pending"},
        {"name": "c", "phase": "Lost"},
    ]
    found = _check_claims(["a", "b", "c", "d", "a"], there)

    assert [(one.subject, one.level) for one in found] == [
        ("claim a", "ok"),
        ("claim b", "warning"),
        ("claim c", "problem"),
        ("claim d", "problem"),
    ]


def test_claims_that_may_not_be_listed() -> None:
    """What cannot be looked at is neither right nor wrong."""
    assert [one.level for one in _check_claims(["a"], None)] == ["warning"]


def test_claims_that_a_target_names() -> None:
    """Outputs, mounts and data may name claims, each is looked at once."""
    options = {
        "outputs_to": "claim:results/sub",
        "volumes": {"data": "/data"},
        "folders": [{"source": "claim:models"}, "claim:data", "s3://bucket"],
    }

    assert named_claims(options) == ["data", "results", "models"]
    assert named_claims({}) == []
