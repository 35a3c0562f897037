"""Whether a cluster can give what a run asks for, as far as its facts tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launchbay.backends.kubernetes.manifest import Carried, Frame, check_job, render_job
from launchbay.core.errors import Unsupported
from launchbay.core.job import Argv, Folder, Job, Resources, Ship

UNTOLERATED = {"key": "example.org/reserved", "value": "true", "effect": "NoSchedule"}


def node(name: str, **more: Any) -> dict[str, Any]:
    usual = {
        "name": name,
        "ready": True,
        "product": "",
        "cpus": 16.0,
        "memory_mib": 64 * 1024,
        "disk_mib": 100 * 1024,
        "resources": {},
        "taints": [],
        "labels": {"kubernetes.io/hostname": name},
    }
    return {**usual, **more}


def gpu_node(name: str, product: str, gpus: int, **more: Any) -> dict[str, Any]:
    return node(name, product=product, resources={"nvidia.com/gpu": gpus}, **more)


NODES = [
    node("plain"),
    node("large", cpus=64.0, memory_mib=32 * 1024),
    gpu_node("a10", "NVIDIA-A10", 4),
    gpu_node("a100", "NVIDIA-A100-SXM4-80GB", 8, taints=[{**UNTOLERATED, "key": "nvidia.com/gpu"}]),
    gpu_node("short", "NVIDIA-A100-SXM4-40GB", 2),
    node("huge", cpus=256.0, memory_mib=1024 * 1024, taints=[UNTOLERATED]),
    node("broken", cpus=512.0, ready=False),
]


def frame(**details: Any) -> Frame:
    known = {"version": "1.34.1", "nodes": NODES, "unknown": [], **details}
    return Frame(target="lab", namespace="space", user="ada", details=known)


def job(options: dict[str, Any] | None = None, **need: Any) -> Job:
    return Job(
        run_id="lr-4x7ab",
        name="lr",
        experiment="sweep",
        command=Argv(("true",)),
        image="python:3.12",
        resources=Resources(**need),
        options={"outputs_to": "none", **(options or {})},
    )


def refusal(wanted: Job, where: Frame) -> tuple[str, str]:
    with pytest.raises(Unsupported) as caught:
        check_job(wanted, where)
    return str(caught.value), str(caught.value.hint)


def products(wanted: Job, where: Frame) -> tuple[str, list[str]]:
    made = render_job(wanted, where, Carried(plan="p", programs="n"), line="", index=0)
    affinity = made["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (found,) = term["matchExpressions"]
    return found["key"], found["values"]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        # No product is called so, and all have it in their names.
        (("a10",), ["NVIDIA-A10", "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"]),
        (("nvidia-a10",), ["NVIDIA-A10"]),
        (("A100",), ["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"]),
        (("80gb", "h100"), ["NVIDIA-A100-SXM4-80GB"]),
        (("sxm4 80gb", "NVIDIA-A10"), ["NVIDIA-A100-SXM4-80GB", "NVIDIA-A10"]),
    ],
)
def test_gpu_types_are_parts_of_names(words: tuple[str, ...], meant: list[str]) -> None:
    """A type means every product with it in its name; a product of the very name, that alone."""
    assert products(job(gpus=1, gpu_types=words), frame()) == ("nvidia.com/gpu.product", meant)


def test_denied_types_need_not_be_there() -> None:
    """What is to be kept away from is named by its products, or as typed where it is not there."""
    found = products(job(gpus=1, gpu_types_denied=("a100", "H100")), frame())

    assert found[1] == ["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "H100"]


def test_other_labels_for_products() -> None:
    """Where a cluster names its GPUs by another label, that one is asked for."""
    there = gpu_node("n", "nvidia-l4", 1, product_label="cloud.example.org/accelerator")
    found = products(job(gpus=1, gpu_types=("L4",)), frame(nodes=[there]))

    assert found == ("cloud.example.org/accelerator", ["nvidia-l4"])


def test_no_such_gpu() -> None:
    """A type that no product has is refused, with those that there are."""
    assert refusal(job(gpus=1, gpu_types=("H100", "B200")), frame()) == (
        "there are no GPUs of type H100 or B200 here",
        "there are `NVIDIA-A10`, `NVIDIA-A100-SXM4-40GB`, `NVIDIA-A100-SXM4-80GB`",
    )


def test_no_such_host() -> None:
    """Hosts of which none is there are refused, with the nearest."""
    said, hint = refusal(job(hosts=("larg",)), frame())

    assert said == "there is no node `larg`"
    assert hint.startswith("did you mean `large`?")
    check_job(job(hosts=("larg", "large")), frame())


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        (
            job(cpus=100),
            "no node that it may use has 100 CPUs; the largest has 64 CPUs",
            "ask for less with `--cpus`",
        ),
        (
            job(memory_mib=512 * 1024),
            "no node that it may use has 512G of memory; the largest has 64G of memory",
            "ask for less with `--memory`",
        ),
        (
            job(disk_mib=1024 * 1024),
            "no node that it may use has 1024G of disk; the largest has 100G of disk",
            "ask for less with `--disk`",
        ),
        (
            job(gpus=16),
            "no node that it may use has 16 `nvidia.com/gpu`; the largest has 8 `nvidia.com/gpu`",
            "ask for less with `--gpus`",
        ),
        (
            job(gpus=8, gpu_types=("NVIDIA-A10",)),
            "no node that it may use has 8 `nvidia.com/gpu`; the largest has 4 `nvidia.com/gpu`",
            "ask for less with `--gpus`",
        ),
        (
            job(gpus=1, extra={"example.com/tpu": "1"}),
            "no node that it may use has 1 `example.com/tpu`; the largest has 0 `example.com/tpu`",
            "`bay capacity` shows which nodes have `example.com/tpu`",
        ),
        (
            job(cpus=64, memory_mib=64 * 1024),
            "no node that it may use has 64 CPUs, 64G of memory together",
            "the largest, `plain`, has 16 CPUs, 64G of memory",
        ),
        (
            job({"server": {"s": {"command": "serve", "cpus": "60"}}}, cpus=10),
            "no node that it may use has 70 CPUs; the largest has 64 CPUs",
            "ask for less with `--cpus`",
        ),
    ],
)
def test_no_node_is_large_enough(wanted: Job, message: str, hint: str) -> None:
    """What no usable node has is refused with the most that one has, servers counted in."""
    assert refusal(wanted, frame()) == (message, hint)


@pytest.mark.parametrize(
    "wanted",
    [
        job(),
        job(cpus=64),
        job(gpus=8, gpu_types=("80GB",)),
        job({"tolerations": ("example.org/reserved",)}, cpus=200),
        job({"tolerations": ({"operator": "Exists"},)}, cpus=200),
        job({"tolerations": ({"key": "example.org/reserved", "operator": "Exists"},)}, cpus=200),
        job(extra={"hugepages-2Mi": "64Mi"}),
    ],
)
def test_a_node_is_large_enough(wanted: Job) -> None:
    """What some node has is let pass, also behind a taint that is tolerated."""
    check_job(wanted, frame())

    assert refusal(replace(wanted, resources=Resources(cpus=10_000)), frame())


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "example.org/reserved", "operator": "Equal", "value": "false"},
        {"key": "example.org/reserved", "operator": "Exists", "effect": "NoExecute"},
        {"key": "other", "operator": "Exists"},
    ],
)
def test_tolerations_of_something_else(toleration: dict[str, str]) -> None:
    """A toleration of another key, value or effect opens no node."""
    said, _ = refusal(job({"tolerations": (toleration,)}, cpus=200), frame())

    assert said == "no node that it may use has 200 CPUs; the largest has 64 CPUs"


def test_no_node_may_be_used() -> None:
    """A run that may go to no node at all is told what keeps it away."""
    said, hint = refusal(job({"node_selector": {"kubernetes.io/hostname": "none"}}), frame())

    assert said.startswith("none of the 7 nodes may be used: kubernetes.io/hostname=none;")
    assert "`bay capacity`" in hint


def test_labels_that_are_not_known() -> None:
    """A selector of a label that the facts do not have is left to the cluster."""
    check_job(job({"node_selector": {"unheard": "of"}}), frame())

    assert refusal(job({"node_selector": {"unheard": "of"}}, cpus=1000), frame())


@pytest.mark.parametrize(
    ("hard", "wanted", "message"),
    [
        (
            {"requests.cpu": 4.0},
            job(cpus=5),
            "quota `q` gives 4 CPUs in all (`requests.cpu`), and a run asks for 5 CPUs",
        ),
        (
            {"cpu": 4.0},
            job(cpus=5),
            "quota `q` gives 4 CPUs in all (`cpu`), and a run asks for 5 CPUs",
        ),
        (
            {"limits.memory": 1024.0**3},
            job(memory_mib=1000),
            "quota `q` gives 1G of memory in all (`limits.memory`), and a run asks for 1200M",
        ),
        (
            {"requests.nvidia.com/gpu": 0},
            job(gpus=1),
            "quota `q` gives 0 `nvidia.com/gpu` in all (`requests.nvidia.com/gpu`), and a run asks",
        ),
        (
            {"count/jobs.batch": 0},
            job(),
            "quota `q` gives 0 `count/jobs.batch` in all (`count/jobs.batch`), and a run asks",
        ),
    ],
)
def test_quota_that_never_has_room(hard: dict[str, float], wanted: Job, message: str) -> None:
    """A run that is larger than the whole quota is refused with both numbers."""
    quota = {"name": "q", "hard": hard, "used": {}}

    assert refusal(wanted, frame(quotas=[quota]))[0].startswith(message)


def test_quota_with_room() -> None:
    """A quota that is used up now, or that counts other pods only, is no reason to refuse."""
    full = {"name": "q", "hard": {"requests.cpu": 4.0, "pods": 10}, "used": {"requests.cpu": 4.0}}
    other = {"name": "o", "hard": {"requests.cpu": 0.0}, "used": {}, "scoped": True}
    check_job(job(cpus=4), frame(quotas=[full, other]))

    assert refusal(job(cpus=5), frame(quotas=[full, other]))


@pytest.mark.parametrize(
    ("kind", "most", "message"),
    [
        (
            "Container",
            {"cpu": 10},
            "a container of this namespace may have at most 10 CPUs, and its limit would be 12 ",
        ),
        (
            "Pod",
            {"memory": 1024.0**3},
            "a pod of this namespace may have at most 1G of memory, and its limit would be 6145M ",
        ),
    ],
)
def test_limit_ranges(kind: str, most: dict[str, float], message: str) -> None:
    """What a container, or the pod with its servers, may have at most is looked at before."""
    wanted = job({"server": {"s": {"command": "serve"}}}, cpus=10)
    limits = [{"type": kind, "max": most}, {"type": "PersistentVolumeClaim", "max": {"cpu": 0}}]
    said, hint = refusal(wanted, frame(limits=limits))

    assert said.startswith(message)
    assert hint.endswith("`limit_ratio: 1` lowers the limit")


def test_missing_claims() -> None:
    """A claim that is not there is refused, with those that are and how to make it."""
    wanted = replace(job(), folders=(Folder(name="d", source="claim:dat"),))
    there = [{"name": "data"}, {"name": "out"}]

    assert refusal(wanted, frame(claims=there)) == (
        "there is no volume claim `dat`",
        "did you mean `data`? there are: `data`, `out`; `bay storage init dat` makes one",
    )
    assert refusal(wanted, frame(claims=[]))[1] == "`bay storage init dat` makes one"
    check_job(replace(job(), ship=Ship(to="claim:out")), frame(claims=there))


@pytest.mark.parametrize(("key", "fact"), [("queue", "queues"), ("priority_class", "classes")])
def test_names_that_are_not_there(key: str, fact: str) -> None:
    """A queue or a priority class that is not there is refused, with those that are."""
    wanted = job({key: "nite"})

    assert refusal(wanted, frame(**{fact: ["night", "day"]})) == (
        f"`{key}: nite` is not there",
        "did you mean `night`? there are: `day`, `night`",
    )
    assert refusal(wanted, frame(**{fact: []}))[1] == f"leave `{key}:` out, there are none"
    check_job(wanted, frame(**{fact: ["nite"]}))


def test_what_is_not_known_is_not_checked() -> None:
    """Without facts, and where they do not know, everything is left to the cluster."""
    wanted = replace(
        job({"queue": "a", "priority_class": "b"}, gpus=99, gpu_types=("H100",), hosts=("n",)),
        ship=Ship(to="claim:c"),
    )
    parts = ("nodes", "quotas", "limits", "claims", "queues", "classes")
    unknown = frame(**dict.fromkeys(parts))
    for where in (unknown, replace(unknown, details=None), frame(nodes=[])):
        check_job(wanted, where)

    assert products(job(gpus=1, gpu_types=("H100",)), unknown)[1] == ["H100"]
