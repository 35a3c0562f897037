"""What of a Kubernetes is free, counted from what it lists."""

from __future__ import annotations

import json
from typing import Any

from launchbay.backends.kubernetes.capacity import (
    NO_GPU,
    PODS,
    Pod,
    _blind,
    _quota_room,
    parse_pods,
    rooms_of,
)

A100 = {"nvidia.com/gpu.product": "A100"}


def node(name: str, gpus: int = 0, product: str = "", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "ready": True,
        "product": product,
        "cpus": 8,
        "memory_mib": 1024,
        "resources": {"nvidia.com/gpu": gpus} if gpus else {},
        "taints": [],
        "labels": {"nvidia.com/gpu.product": product} if product else {},
        **more,
    }


def pod(where: str = "", user: str = "me", gpus: int = 0, cpus: float = 0, **more: Any) -> Pod:
    requests = {"cpu": cpus, "nvidia.com/gpu": gpus}
    return Pod(user=user, node=where, requests=requests, **more)


def line(**parts: str) -> str:
    names = ("space", "user", "node", "affinity", "selector", "overhead", "whole", "own", "first")
    return "\t".join(parts.get(name, "") for name in names) + "\n"


def requested(**parts: str) -> dict[str, float]:
    (found,) = parse_pods(line(**parts))
    return dict(found.requests)


def test_parts_are_kinds_of_gpus() -> None:
    """Nodes with the same GPUs are one part, those without are another, the most GPUs first."""
    nodes = [node("c"), node("a", 4, "A100"), node("b", 2, "V100"), node("d", 8, "A100")]
    rooms = rooms_of(nodes, [])

    assert [(room.name, room.total) for room in rooms] == [
        ("A100", {"nodes": 2, "cpus": 16, "memory_mib": 2048, "gpus": 12}),
        ("V100", {"nodes": 1, "cpus": 8, "memory_mib": 1024, "gpus": 2}),
        (NO_GPU, {"nodes": 1, "cpus": 8, "memory_mib": 1024}),
    ]


def test_gpus_without_a_name() -> None:
    """A resource of its own name is a kind of GPU where no label names one."""
    dear = node("a", resources={"nvidia.com/h200": 8, "rdma/ib": 1})

    assert [room.name for room in rooms_of([dear, node("b", 1)], [])] == ["h200", "GPU"]


def test_free_is_what_pods_leave() -> None:
    """What pods ask for is taken from the node they are on, and told by who has it."""
    pods = [pod("a", gpus=3, cpus=2.5), pod("a", "she", cpus=1), pod("gone", gpus=1)]
    (room,) = rooms_of([node("a", 4, "A100"), node("b", 4, "A100")], pods)

    assert room.free == {"cpus": 12.5, "memory_mib": 2048, "gpus": 5}
    assert room.users == {"me": {"cpus": 2.5, "gpus": 3}, "she": {"cpus": 1, "gpus": 0}}
    assert room.note == "at most 4 GPUs on one node"


def test_more_is_never_free_than_there_is() -> None:
    """A node that gives out more than it has is full, and takes nothing from others."""
    (room,) = rooms_of([node("a"), node("b")], [pod("a", cpus=99)])

    assert room.free["cpus"] == 8


def test_nodes_that_take_nothing() -> None:
    """A node that is not ready has nothing free, one with a taint is told of."""
    taints = [{"key": "lab", "value": "", "effect": "NoSchedule"}]
    soft = [{"key": "soft", "value": "", "effect": "PreferNoSchedule"}]
    nodes = [node("a", ready=False), node("b", taints=taints), node("c", taints=soft)]
    (room,) = rooms_of(nodes, [], note="less")

    assert (room.total["cpus"], room.free["cpus"]) == (24, 16)
    assert room.note == ("1 node is not ready or closed; 1 only for pods that tolerate lab; less")


def test_who_waits_waits_for_what_would_do() -> None:
    """A pod without a node waits for each part that its own choice leaves."""
    nodes = [node("a", 4, "A100"), node("b", 4, "V100"), node("c")]
    only = [
        {
            "matchExpressions": [
                {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["V100"]}
            ]
        }
    ]
    never = [
        {
            "matchExpressions": [
                {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["V100"]}
            ]
        }
    ]
    pods = [
        pod(gpus=1),
        pod(gpus=1, terms=only),
        pod(gpus=1, terms=never),
        pod(gpus=1, selector=A100),
        pod(),
    ]

    waiting = {room.name: room.waiting for room in rooms_of(nodes, pods)}
    assert waiting == {"A100": 3, "V100": 2, NO_GPU: 1}


def test_pods_wait_for_gpu_nodes_where_there_are_no_others() -> None:
    """A pod that asks for no GPU waits for whatever nodes there are."""
    (room,) = rooms_of([node("a", 4, "A100")], [pod()])

    assert room.waiting == 1


def test_a_pod_counts_for_all_its_containers() -> None:
    """Containers side by side add up, those before them count where they ask for more."""
    own = '{"cpu":"1","memory":"1Mi"}|{"cpu":"500m"}|'

    assert requested(own=own) == {"cpu": 1.5, "memory": 2**20}
    assert requested(own=own, first='={"cpu":"4"}|') == {"cpu": 4, "memory": 2**20}
    assert requested(own=own, first='Always={"cpu":"2"}|') == {"cpu": 3.5, "memory": 2**20}
    assert requested(own=own, whole='{"cpu":"9"}', overhead='{"cpu":"1"}')["cpu"] == 10
    assert requested(own="|") == {}


def test_pods_are_somebodys() -> None:
    """The label says whose a pod is, else its namespace does; a cut line is left out."""
    text = line(space="lab", user="me", node="n") + line(space="lab") + "lab\t\n"

    assert [(one.user, one.node) for one in parse_pods(text)] == [("me", "n"), ("lab", "")]
    assert PODS.count("\\t") == 8


def test_where_nodes_may_not_be_listed() -> None:
    """Only who waits and who runs is told, and what is not known."""
    room = _blind("lab", [pod(gpus=1), pod("n", cpus=2)])

    assert (room.name, room.total, room.free, room.waiting) == ("namespace lab", {}, {}, 1)
    assert room.users == {"me": {"cpus": 2, "gpus": 0}}
    assert "nodes may not be listed" in room.note


def test_a_quota_is_a_part() -> None:
    """What is left of a quota is told in the words of other parts."""
    status = {
        "hard": {"requests.nvidia.com/gpu": "4", "limits.memory": "2Mi", "count/jobs.batch": "9"},
        "used": {"requests.nvidia.com/gpu": "1", "limits.memory": "3Mi"},
    }
    text = json.dumps({"metadata": {"name": "q"}, "status": status})
    room = _quota_room(json.loads(text))

    assert room.name == "quota q"
    assert room.total == {"memory_mib": 2, "gpus": 4, "jobs": 9}
    assert room.free == {"memory_mib": 0, "gpus": 3, "jobs": 9}
