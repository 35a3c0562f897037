"""What of a Kubernetes is free, as far as one user of one namespace can see it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.calls import items_of
from launchbay.backends.kubernetes.facts import MIB, NODES, PRODUCTS, amounts, ask_all, parse_nodes
from launchbay.backends.kubernetes.words import USER
from launchbay.core.backend import Room
from launchbay.core.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.core.host import Completed

PODS = (
    '{range .items[*]}{.metadata.namespace}{"\\t"}{.metadata.labels.' + USER + '}{"\\t"}'
    '{.spec.nodeName}{"\\t"}{.spec.affinity.nodeAffinity}{"\\t"}{.spec.nodeSelector}{"\\t"}'
    '{.spec.overhead}{"\\t"}{.spec.resources.requests}{"\\t"}'
    '{range .spec.containers[*]}{.resources.requests}{"|"}{end}{"\\t"}'
    '{range .spec.initContainers[*]}{.restartPolicy}{"="}{.resources.requests}{"|"}{end}'
    '{"\\n"}{end}'
)
"""What of a pod matters, a line each."""
LIVE = "--field-selector=status.phase!=Succeeded,status.phase!=Failed"
NO_GPU = "without GPUs"
GPU = "/gpu"
GPUS_BEGIN = ("nvidia.com/", "amd.com/", "gpu.intel.com/", "habana.ai/")
"""Resources that are GPUs: a site may name dear ones apart, `nvidia.com/a100`."""
NOT_GPUS = ("memory", "monitoring", "core")
CLOSED = ("NoSchedule", "NoExecute")
GIB = 2**30
QUOTA_WORDS = {
    "cpu": ("cpus", 1),
    "memory": ("memory_mib", MIB),
    "ephemeral-storage": ("GiB disk", GIB),
    "storage": ("GiB of claims", GIB),
    "persistentvolumeclaims": ("claims", 1),
    "jobs.batch": ("jobs", 1),
}
ONLY_OURS = "others' pods may not be listed here, so less may be free"
NO_NODES = "nodes may not be listed here: what there is, and what of it is free, is not known"

Amounts = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Pod:
    """What a pod that has not ended holds, or waits for."""

    user: str
    node: str
    requests: Mapping[str, float]
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: Sequence[Mapping[str, Any]] = ()
    """Of its node affinity; one of them has to hold."""

    @property
    def gpus(self) -> float:
        """How many it asks for."""
        return count_gpus(self.requests)


def capacity(kubectl: Kubectl) -> list[Room]:
    """A part for each kind of GPU, one for nodes without, and one for each quota.

    Raises:
        TargetError: when nothing answers.
    """
    calls = {
        "nodes": ("get", "nodes", "-o", f"jsonpath={NODES}"),
        "all": ("get", "pods", "--all-namespaces", LIVE, "-o", f"jsonpath={PODS}"),
        "ours": ("get", "pods", LIVE, "-o", f"jsonpath={PODS}"),
        "quotas": ("get", "resourcequotas", "-o", "json"),
    }
    answers = ask_all(kubectl, calls)
    everybody = _told(answers["all"])
    pods = list(parse_pods(_text(answers["all" if everybody else "ours"])))
    quotas = items_of(_text(answers["quotas"])) if _told(answers["quotas"]) else []
    if _told(answers["nodes"]):
        nodes = list(parse_nodes(_text(answers["nodes"])))
        rooms = rooms_of(nodes, pods, note="" if everybody else ONLY_OURS)
    else:
        rooms = [_blind(kubectl.namespace, pods)]
    return [*rooms, *(_quota_room(one) for one in quotas)]


def rooms_of(
    nodes: Sequence[Mapping[str, Any]], pods: Sequence[Pod], *, note: str = ""
) -> list[Room]:
    """A part for each kind of GPU, the most first, and one for nodes without."""
    held: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        held[pod.node].append(pod)
    parts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for node in nodes:
        parts[room_name(node)].append(node)
    waiting = _waiting(held.pop("", []), parts)
    rooms = [
        _room(name, there, held, waiting=waiting[name], note=note) for name, there in parts.items()
    ]
    return sorted(rooms, key=lambda room: -room.total.get("gpus", 0))


def room_name(node: Mapping[str, Any]) -> str:
    """The kind of GPU that a node has."""
    if not count_gpus(node["resources"]):
        return NO_GPU
    own = [name.partition("/")[2] for name in node["resources"] if is_gpu(name)]
    return str(node["product"]) or (own[0] if own[0] != "gpu" else "GPU")


def is_gpu(resource: str) -> bool:
    """Whether a resource is a number of GPUs.

    >>> is_gpu("nvidia.com/gpu"), is_gpu("nvidia.com/a100"), is_gpu("google.com/tpu")
    (True, True, False)
    """
    known = resource.endswith(GPU) or resource.startswith(GPUS_BEGIN)
    return known and not resource.endswith(NOT_GPUS)


def count_gpus(resources: Mapping[str, float]) -> float:
    """How many GPUs these are, whatever they are called."""
    return sum(count for name, count in resources.items() if is_gpu(name))


def parse_pods(text: str) -> Iterator[Pod]:
    """The pods of what the template `PODS` prints."""
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != PODS.count("\\t") + 1:
            continue
        space, user, node, affinity, selector, overhead, whole, own, first = fields
        required = json.loads(affinity or "{}").get(
            "requiredDuringSchedulingIgnoredDuringExecution", {}
        )
        yield Pod(
            user=user or space,
            node=node,
            requests=_requests(overhead, whole, own, first),
            selector=json.loads(selector or "{}"),
            terms=required.get("nodeSelectorTerms", ()),
        )


def _requests(overhead: str, whole: str, own: str, first: str) -> Amounts:
    """What a pod counts for: all that run side by side, or the most before them."""
    together: Amounts = defaultdict(float)
    before: Amounts = defaultdict(float)
    for text in own.split("|"):
        _add(together, amounts(json.loads(text or "{}")))
    for entry in filter(None, first.split("|")):
        policy, _, text = entry.partition("=")
        asked = amounts(json.loads(text or "{}"))
        if policy == "Always":
            _add(together, asked)
        for name, value in asked.items():
            before[name] = max(before[name], value)
    found = {name: max(together[name], before[name]) for name in {*together, *before}}
    # What is said of the whole pod counts instead of what its containers say.
    found |= amounts(json.loads(whole or "{}"))
    _add(found, amounts(json.loads(overhead or "{}")))
    return found


def _add(to: Amounts, more: Mapping[str, float]) -> None:
    for name, value in more.items():
        to[name] = to.get(name, 0.0) + value


def _room(
    name: str,
    nodes: Sequence[Mapping[str, Any]],
    held: Mapping[str, Sequence[Pod]],
    *,
    waiting: int,
    note: str,
) -> Room:
    total: Amounts = defaultdict(float)
    free: Amounts = defaultdict(float)
    users: dict[str, Amounts] = {}
    words = ("cpus", "memory_mib") if name == NO_GPU else ("cpus", "memory_mib", "gpus")
    most = 0.0
    for node in nodes:
        pods = held.get(node["name"], ())
        there = {**node, "gpus": count_gpus(node["resources"])}
        taken = {word: sum(_use(pod)[word] for pod in pods) for word in words}
        left = {word: max(0.0, there[word] - taken[word]) * node["ready"] for word in words}
        _add(total, {"nodes": 1, **{word: there[word] for word in words}})
        _add(free, left)
        most = max(most, left.get("gpus", 0.0))
        for pod in pods:
            use = users.setdefault(pod.user, {"cpus": 0.0, "gpus": 0.0})
            _add(use, {word: _use(pod)[word] for word in use})
    return Room(
        name=name,
        total=dict(total),
        free={word: round(amount, 3) for word, amount in free.items()},
        waiting=waiting,
        users=dict(sorted(users.items())),
        note="; ".join([*_notes(nodes, most, free.get("gpus", 0.0)), *([note] if note else [])]),
    )


def _use(pod: Pod) -> Amounts:
    return {
        "cpus": pod.requests.get("cpu", 0.0),
        "memory_mib": pod.requests.get("memory", 0.0) / MIB,
        "gpus": pod.gpus,
    }


def _notes(nodes: Sequence[Mapping[str, Any]], most: float, free: float) -> Iterator[str]:
    """What a sum over nodes does not tell."""
    if 0 < most < free:
        yield f"at most {most:g} GPU{'s' * (most != 1)} on one node"
    if away := sum(not node["ready"] for node in nodes):
        yield f"{away} {'node is' if away == 1 else 'nodes are'} not ready or closed"
    keys: dict[str, int] = defaultdict(int)
    for node in nodes:
        for key in {one["key"] for one in node["taints"] if one["effect"] in CLOSED}:
            keys[key] += 0 if key.startswith("node.kubernetes.io/") else 1
    for key, count in sorted(keys.items()):
        if count:
            yield f"{count} only for pods that tolerate {key}"


def _waiting(
    pods: Iterable[Pod], parts: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, int]:
    """How many wait for each part; a pod that may go to several waits for each of them."""
    counts: dict[str, int] = defaultdict(int)
    for pod in pods:
        fitting = [
            name
            for name, nodes in parts.items()
            if bool(pod.gpus) == (name != NO_GPU) and any(_allows(pod, node) for node in nodes)
        ]
        # Where nothing but GPU nodes is, others wait for these.
        for name in fitting or ([] if pod.gpus else parts):
            counts[name] += 1
    return counts


def _allows(pod: Pod, node: Mapping[str, Any]) -> bool:
    """Whether the pod's own choice of GPUs leaves this node."""
    labels = node["labels"]
    chosen = {key: value for key, value in pod.selector.items() if key in PRODUCTS}
    if any(labels.get(key) != value for key, value in chosen.items()):
        return False
    return not pod.terms or any(
        all(
            (labels.get(one["key"]) in one.get("values", ())) == (one["operator"] == "In")
            for one in term.get("matchExpressions", ())
            if one["key"] in PRODUCTS and one["operator"] in {"In", "NotIn"}
        )
        for term in pod.terms
    )


def _blind(namespace: str, pods: Sequence[Pod]) -> Room:
    """Our own namespace, where nothing else may be seen."""
    users: dict[str, Amounts] = {}
    for pod in pods:
        if pod.node:
            use = users.setdefault(pod.user, {"cpus": 0.0, "gpus": 0.0})
            _add(use, {word: _use(pod)[word] for word in use})
    waiting = sum(not pod.node for pod in pods)
    name = f"namespace {namespace}"
    return Room(name=name, total={}, free={}, waiting=waiting, users=users, note=NO_NODES)


def _quota_room(one: Mapping[str, Any]) -> Room:
    status = one.get("status", {})
    hard, used = amounts(status.get("hard")), amounts(status.get("used"))
    left = {name: min(value, max(0.0, value - used.get(name, 0))) for name, value in hard.items()}
    name = f"quota {one['metadata']['name']}"
    return Room(name=name, total=_worded(hard), free=_worded(left))


def _worded(quantities: Mapping[str, float]) -> Amounts:
    """By the words of other parts; what is limited is told where nothing is said of requests.

    >>> _worded({"requests.cpu": 4, "limits.cpu": 8, "nvidia.com/gpu": 2, "limits.memory": 2**21})
    {'cpus': 4.0, 'memory_mib': 2.0, 'gpus': 2.0}
    """
    found: Amounts = {}
    for name in sorted(quantities, key=lambda name: not name.startswith("limits.")):
        bare = name.removeprefix("requests.").removeprefix("limits.").removeprefix("count/")
        word, size = QUOTA_WORDS.get(bare, (bare, 1))
        found["gpus" if bare.endswith(GPU) else word] = quantities[name] / size
    return found


def _told(answer: Completed | TargetError) -> bool:
    return not isinstance(answer, TargetError) and answer.ok


def _text(answer: Completed | TargetError) -> str:
    return "" if isinstance(answer, TargetError) else answer.stdout
