"""Looking round a real Kubernetes as its ordinary user: facts, what is free, check-up, trials."""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import eventually
from tests.real.kubernetes_cluster import BUSYBOX, KubernetesCluster, Namespace

from launchbay.backends.kubernetes.backend import open_kubernetes
from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.capacity import NO_NODES, ONLY_OURS, capacity
from launchbay.backends.kubernetes.checkup import diagnose
from launchbay.backends.kubernetes.facts import survey
from launchbay.core.backend import Opening
from launchbay.core.errors import Rejected, Unauthorized, Unreachable
from launchbay.core.job import Argv, Job, Resources
from launchbay.core.naming import run_id
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Bay

    from launchbay.core.backend import Finding

QUOTA = {"requests.cpu": "4", "requests.memory": "64Gi", "count/jobs.batch": "100"}


def made(kind: str, name: str, **fields: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields})


@pytest.fixture
def place(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Namespace:
    """The namespace, as the one that `kubectl` here speaks to as its user."""
    for name, value in namespace.cluster.environment(namespace.kubeconfig).items():
        monkeypatch.setenv(name, value)
    return namespace


@pytest.fixture
def kubectl(place: Namespace) -> Kubectl:
    return Kubectl(LocalHost(), "cluster", place.name)


@contextmanager
def limited(place: Namespace, **hard: str) -> Iterator[None]:
    """The namespace with a quota that already counts."""
    place.admin("create", "-f", "-", input=made("ResourceQuota", "share", spec={"hard": hard}))
    where = ("get", "resourcequota", "share", "-o", "jsonpath={.status.used}")
    eventually(lambda: place.admin(*where))
    yield
    place.admin("delete", "resourcequota", "share")


def pod(name: str, *, node: str = "", selector: str = "", **requests: str) -> str:
    container = {"name": "main", "image": BUSYBOX, "command": ["sleep", "600"]}
    asked = {key.replace("_", "/"): value for key, value in requests.items()}
    spec: dict[str, Any] = {"containers": [{**container, "resources": {"limits": asked}}]}
    spec |= {"nodeName": node} if node else {}
    spec |= {"nodeSelector": {"nvidia.com/gpu.product": selector}} if selector else {}
    return made("Pod", name, spec=spec)


def plan_of(place: Namespace, tmp_path: Path, count: int = 1, **need: Any) -> tuple[Any, Any]:
    backend = open_kubernetes(
        Opening(target="cluster", options={"namespace": place.name}, root=tmp_path)
    )
    jobs = [
        Job(
            run_id=run_id(f"try-{number}").rpartition("-")[0] + "-?????",
            name="try",
            experiment="try",
            command=Argv(("true",)),
            image=BUSYBOX,
            resources=Resources(**need),
            options={"outputs_to": "none"},
        )
        for number in range(count)
    ]
    (plan,) = backend.plan(jobs)
    return backend, plan


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.level, one.message) for one in findings]


def test_a_look_round(kubectl: Kubectl, place: Namespace) -> None:
    """Who may list nodes sees sizes and GPUs, and what the namespace has."""
    place.kubectl(
        "create",
        "-f",
        "-",
        input=made(
            "PersistentVolumeClaim",
            "results",
            spec={
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        ),
    )
    bounds = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
    place.admin("create", "-f", "-", input=made("LimitRange", "bounds", spec=bounds))
    with limited(place, **QUOTA):
        details = survey(kubectl).details

    assert re.fullmatch(r"\d+\.\d+\.\d+", details["version"])
    (node,) = [one for one in details["nodes"] if one["name"] == "node1"]
    assert (node["ready"], node["cpus"]) == (True, os.cpu_count())
    assert node["resources"]["nvidia.com/gpu"] == 2
    assert node["memory_mib"] > 1000 < node["disk_mib"]
    assert details["quotas"] == [
        {
            "name": "share",
            "hard": {"requests.cpu": 4, "requests.memory": 64 * 2**30, "count/jobs.batch": 100},
            "used": {"requests.cpu": 0, "requests.memory": 0, "count/jobs.batch": 0},
            "scoped": False,
        }
    ]
    assert details["limits"][0]["max"] == {"memory": 2**30}
    assert details["claims"] == [
        {"name": "results", "modes": ["ReadWriteMany"], "phase": "Pending", "size": "1Gi"}
    ]
    assert {"low"} <= set(details["classes"])
    assert (details["storage"], details["queues"]) == (["shared"], [])
    assert details["unknown"] == []


def test_namespace_rights_only(
    kubernetes: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without rights beyond the namespace it goes on, and says what is not known."""
    narrow = kubernetes.namespace(nodes=False)
    for name, value in kubernetes.environment(narrow.kubeconfig).items():
        monkeypatch.setenv(name, value)
    kubectl = Kubectl(LocalHost(), "cluster", narrow.name)
    details = survey(kubectl).details
    (room,) = capacity(kubectl)
    lost = [one for one in diagnose(kubectl) if one.level == "warning"]
    narrow.remove()

    assert (details["nodes"], details["classes"], details["claims"]) == (None, None, [])
    assert details["unknown"] == [
        "nodes may not be listed here: sizes and GPU types are not checked",
        "priority classes may not be listed here: their names are not checked",
        "storage classes may not be listed here",
    ]
    assert (room.name, room.note) == (f"namespace {narrow.name}", NO_NODES)
    assert "you may not list nodes: sizes and GPU types" in lost[0].message


def test_places_that_cannot_be(kubectl: Kubectl, place: Namespace, tmp_path: Path) -> None:
    """Another's namespace, a wrong token and a server that is not there are told apart."""
    text = place.kubeconfig.read_text()
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(re.sub(r'("token": ")\w+', r"\1wrong", text))
    silent = tmp_path / "silent.conf"
    silent.write_text(re.sub(r"(127\.0\.0\.1):\d+", r"\1:1", text))

    with pytest.raises(Rejected, match="you may do nothing in namespace `kube-system`"):
        survey(replace(kubectl, namespace="kube-system"))
    with pytest.raises(Rejected, match="has no namespace `nowhere`"):
        survey(replace(kubectl, namespace="nowhere", kubeconfig=str(place.cluster.admin)))
    with pytest.raises(Unauthorized, match="wants a login"):
        survey(replace(kubectl, kubeconfig=str(wrong)))
    with pytest.raises(Unreachable, match="does not answer"):
        survey(replace(kubectl, kubeconfig=str(silent)))
    with pytest.raises(Unreachable, match='context "nope" does not exist'):
        survey(replace(kubectl, context="nope"))


def test_what_is_free(kubectl: Kubectl, place: Namespace) -> None:
    """Pods take from the kind of node they are on; others wait for the kind that they chose."""
    labels = {"nvidia.com/gpu.product": "A100"}
    size = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"}
    place.cluster.add_node("big", labels=labels, capacity=size, taints=["lab=x:NoSchedule"])
    one = {"cpu": "2", "nvidia.com_gpu": "3"}
    for text in (
        pod("held", node="big", **one),
        pod("waits", selector="A100", **one),
        pod("nothing", cpu="100"),
    ):
        place.kubectl("create", "-f", "-", input=text)
    place.kubectl("label", "pod", "held", "user=she")
    with limited(place, pods="5"):
        mine = {room.name: room for room in capacity(kubectl)}
    everybody = capacity(replace(kubectl, kubeconfig=str(place.cluster.admin)))

    big = mine["A100"]
    assert (big.total["gpus"], big.free["gpus"], big.total["cpus"] - big.free["cpus"]) == (8, 5, 2)
    assert big.users == {"she": {"cpus": 2, "gpus": 3}}
    assert big.note == f"1 only for pods that tolerate lab; {ONLY_OURS}"
    assert {name: room.waiting for name, room in mine.items()} == {
        "A100": 2,
        "GPU": 1,
        "quota share": 0,
    }
    assert (mine["quota share"].total, mine["quota share"].free) == ({"pods": 5}, {"pods": 2})
    assert not any(ONLY_OURS in room.note for room in everybody)
    assert everybody[0].free["gpus"] == 5


def test_a_check_up(kubectl: Kubectl, place: Namespace) -> None:
    """All is well at first; then a right is gone, a claim is missing and a quota is full."""
    well = diagnose(kubectl, image=BUSYBOX)
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]}]
    patch = json.dumps({"rules": rules})
    place.admin("patch", "role", "works", "--type=merge", "-p", patch)
    eventually(lambda: place.run("auth", "can-i", "create", "jobs").returncode == 1)
    ill = {one.message: one for one in diagnose(kubectl, claims=["results"])}

    assert [one.subject for one in well] == ["kubectl", "namespace", "rights", "nodes", "image"]
    assert {one.level for one in well} == {"ok"}
    lacking = next(one for one in ill.values() if one.subject == "rights" and "jobs" in one.message)
    assert lacking.level == "problem"
    assert "create jobs.batch, patch jobs.batch, delete jobs.batch, get pods" in lacking.message
    assert "a Role to hand over" in lacking.remedy
    assert ill["may not be looked at here"].subject == "claim results"
    assert "you may not create pods/portforward: `bay port` does not work" in ill


def test_a_trial(place: Namespace, tmp_path: Path) -> None:
    """A dry run tells what would be taken, counts the quota for all runs, and makes nothing."""
    backend, plan = plan_of(place, tmp_path, 3, cpus=1)
    with limited(place, **QUOTA):
        fits = backend.trial(plan)
        _, larger = plan_of(place, tmp_path, 3, cpus=2)
        waits = backend.trial(larger)
        _, never = plan_of(place, tmp_path, 1, cpus=5)
        refused = backend.trial(never)

    asked = "3 of 100 Jobs, 3 of 4 CPUs, 12 GiB of 64 GiB memory"
    assert told(fits) == [
        ("ok", "would take 3 runs"),
        ("ok", f"quota `share`: the runs ask for {asked} left"),
    ]
    assert (
        "warning",
        "quota `share`: 4 of 4 CPUs left, and the runs ask for 6: some would wait",
    ) in (told(waits))
    assert ("problem", "quota `share`: 4 of 4 CPUs left, and one run asks for 5") in told(refused)
    assert place.kubectl("get", "jobs,pods", "-o", "name") == ""


def test_a_trial_that_is_refused(place: Namespace, tmp_path: Path) -> None:
    """What the server would say of the pods, long after it took their Jobs, is said before."""
    backend, plan = plan_of(place, tmp_path, 2, memory_mib=4096)
    bounds = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
    place.admin("create", "-f", "-", input=made("LimitRange", "bounds", spec=bounds))
    # The server learns of a bound a moment after it took it.
    eventually(lambda: len(told(backend.trial(plan))) > 1)
    found = told(backend.trial(plan))
    broken = replace(
        plan, document=plan.document.replace("restartPolicy: Never", "restartPolicy: x")
    )
    invalid = told(backend.trial(broken))

    assert found[0] == ("ok", "would take 2 runs")
    assert found[1][0] == "problem"
    assert found[1][1].startswith("would take the Jobs, and refuse their pods: ")
    assert (invalid[0][0], "would refuse 2 runs: " in invalid[0][1]) == ("problem", True)


def test_add_looks_round(bay: Bay, place: Namespace) -> None:
    """`bay target add` finds the context's namespace and its claim, writes them, and checks."""
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "shared",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    place.cluster.volumes(1)
    text = made("PersistentVolumeClaim", "results", spec=claim)
    place.kubectl("create", "-f", "-", input=text)
    bound = ("get", "pvc", "results", "-o", "jsonpath={.status.phase}")
    eventually(lambda: place.kubectl(*bound) == "Bound")
    said = bay("target", "add", "cluster", "bay", "--image", BUSYBOX, "--yes")

    assert "claim results: 1Gi, Bound" in said.err
    assert bay.json("target", "show", "cluster")["options"] == {
        "context": "bay",
        "namespace": place.name,
        "image": BUSYBOX,
        "outputs_to": "claim:results",
    }
    assert "problem" not in said.out
    assert f"`{place.name}` of context `bay` answers" in said.out
