"""What a Kubernetes is, as one user of one namespace can see it.

Each part is asked for by itself, all at once; a part that may not be seen, or is not there, is
left out, and `unknown` says in words what is thereby not known.
"""

from __future__ import annotations

import json
import re
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.calls import FORBIDDEN, items_of, last_words
from launchbay.core.backend import Facts
from launchbay.core.errors import Rejected, TargetError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.core.host import Completed

QUANTITY = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d+))?", re.ASCII
)
DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
MIB = 2**20

PRODUCTS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
)
"""Labels of a node that name its GPUs, the first that is there counts."""
UNKEPT_LABELS = ("feature.node.kubernetes.io/", "beta.kubernetes.io/")
"""Labels that begin so are many, and not kept in the facts."""
COUNTED = ("cpu", "memory", "ephemeral-storage", "pods")
"""What every node has; what else it can give out has a `/` in its name."""
QUEUES = "localqueues.kueue.x-k8s.io"
NODES = (
    '{range .items[*]}{.metadata.name}{"\\t"}{.metadata.labels}{"\\t"}{.status.allocatable}'
    '{"\\t"}{.spec.taints}{"\\t"}{.status.conditions[?(@.type=="Ready")].status}'
    '{"\\t"}{.spec.unschedulable}{"\\n"}{end}'
)
"""What of a node matters, a line each; whole nodes are long, with all their images."""
KINDS = {
    "ResourceQuota": "resourcequotas",
    "LimitRange": "limitranges",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PriorityClass": "priorityclasses",
    "StorageClass": "storageclasses",
}
UNKNOWN = {
    "nodes": "nodes may not be listed here: sizes and GPU types are not checked",
    "resourcequotas": "quotas may not be listed here: what is left of them is not checked",
    "limitranges": "limit ranges may not be listed here: their bounds are not checked",
    "persistentvolumeclaims": "claims may not be listed here: whether they exist is not checked",
    "priorityclasses": "priority classes may not be listed here: their names are not checked",
    "storageclasses": "storage classes may not be listed here",
    "queues": "local queues of Kueue may not be listed here: their names are not checked",
}
RIGHTS = (
    *(f"{verb} jobs.batch" for verb in ("create", "get", "list", "patch", "delete")),
    *(f"{verb} pods" for verb in ("get", "list")),
    "get pods/log",
    "create pods/exec",
    *(f"{verb} configmaps" for verb in ("create", "get", "list", "delete")),
    *(f"{verb} secrets" for verb in ("create", "list", "delete")),
    "list events",
)
"""What a user must be allowed to, as `kubectl auth can-i` takes it."""
CLUSTER_WIDE = ("nodes", "namespaces")
ALLOWED = '{.spec.resourceAttributes}{"\\t"}{.status.allowed}{"\\n"}'


def parse_quantity(text: str) -> Decimal:
    """A quantity as Kubernetes writes it, exactly: processors, bytes, or a count.

    >>> parse_quantity("100m"), parse_quantity("32Gi"), parse_quantity("1e3")
    (Decimal('0.100'), Decimal('34359738368'), Decimal('1E+3'))

    Raises:
        ValueError: when it is none.
    """
    match = QUANTITY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"`{text}` is no quantity; Kubernetes writes `500m`, `2` or `32Gi`")
    number, suffix, exponent = Decimal(match[1]), match[2], match[3]
    if suffix in BINARY:
        return number * (1 << BINARY[suffix])
    return number.scaleb(DECIMAL[suffix] if suffix else int(exponent or 0))


def amount(text: object) -> float:
    """A quantity as plain data: whole where it is; 0 where it cannot be read."""
    try:
        found = parse_quantity(str(text))
    except ValueError:
        return 0
    return int(found) if found == found.to_integral_value() else float(found)


def amounts(quantities: Mapping[str, object] | None) -> dict[str, float]:
    """Several quantities by their names."""
    return {name: amount(text) for name, text in (quantities or {}).items()}


def ask_all(
    kubectl: Kubectl, calls: Mapping[str, Sequence[str]], *, stdin: Mapping[str, str] | None = None
) -> dict[str, Completed | TargetError]:
    """What `kubectl` answers to each of several calls, made at once.

    Raises:
        TargetError: when none of them was answered.
    """
    # Dear to load, and only a look round needs it.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    given = stdin or {}

    def ask(name: str) -> Completed | TargetError:
        try:
            return kubectl.call(*calls[name], stdin=given.get(name, ""))
        except TargetError as err:
            return err

    with ThreadPoolExecutor(max_workers=len(calls)) as pool:
        answers = dict(zip(calls, pool.map(ask, calls), strict=True))
    errors = [one for one in answers.values() if isinstance(one, TargetError)]
    if len(errors) == len(answers):
        raise errors[0]
    return answers


def survey(kubectl: Kubectl) -> Facts:
    """Look round, without changing anything.

    Raises:
        Unreachable: when nothing answers.
        Unauthorized: when a login is wanted first.
        Rejected: when there is no such namespace, or nothing may be done in it.
    """
    reviews = render_reviews(kubectl.namespace, RIGHTS)
    answers = ask_all(kubectl, survey_calls(kubectl.namespace), stdin={"rights": reviews})
    check_place(kubectl, answers)
    return Facts(seen_at=time.time(), details=parse_survey(answers))


def survey_calls(namespace: str) -> dict[str, tuple[str, ...]]:
    """What `kubectl` is asked to look round; `rights` reads the reviews."""
    return {
        "nodes": ("get", "nodes", "-o", f"jsonpath={NODES}"),
        "objects": ("get", ",".join(KINDS.values()), "-o", "json"),
        "queues": ("get", QUEUES, "-o", "json"),
        "version": ("version", "-o", "json"),
        "namespace": ("get", "namespace", namespace, "-o", "name"),
        "rights": ("create", "-f", "-", "-o", f"jsonpath={ALLOWED}"),
    }


def check_place(kubectl: Kubectl, answers: Mapping[str, Completed | TargetError]) -> None:
    """Raise for a namespace that is not there, or in which we may do nothing.

    Args:
        kubectl: that was asked.
        answers: to `survey_calls`.

    Raises:
        Unreachable: when nothing was said by a server.
        Rejected: when there is no such namespace, or nothing may be done in it.
    """
    _check_answered(kubectl, list(answers.values()))
    space = answers["namespace"]
    if not isinstance(space, TargetError) and not space.ok and is_missing(space):
        raise Rejected(
            f"`{kubectl.target}` has no namespace `{kubectl.namespace}`",
            hint="set `namespace:` to one of yours; `kubectl config get-contexts` names it",
        )
    may = parse_reviews(answers["rights"])
    if may and not any(may.values()):
        raise Rejected(
            f"you may do nothing in namespace `{kubectl.namespace}` of `{kubectl.target}`",
            hint="set `namespace:` to one of yours, or ask whoever runs the cluster for rights",
        )


def parse_survey(answers: Mapping[str, Completed | TargetError]) -> dict[str, Any]:
    """What the cluster is, as plain data: the `details` of its facts.

    Keys: version, nodes, quotas, limits, claims, queues, classes, storage, unknown. A part that
    could not be seen is None.
    """
    objects, unseen = _objects(answers["objects"])
    nodes = answers["nodes"]
    seen = not isinstance(nodes, TargetError) and nodes.ok
    queues = _queues(answers["queues"])
    if not seen:
        unseen = ["nodes", *unseen]
    if queues is None:
        unseen = [*unseen, "queues"]
    return {
        "version": parse_versions(answers["version"])[1],
        "nodes": list(parse_nodes(_printed(nodes))) if seen else None,
        "quotas": _each(objects["resourcequotas"], _quota),
        "limits": _limits(objects["limitranges"]),
        "claims": _each(objects["persistentvolumeclaims"], _claim),
        "queues": queues,
        "classes": _each(objects["priorityclasses"], _name),
        "storage": _each(objects["storageclasses"], _name),
        "unknown": [UNKNOWN[name] for name in unseen],
    }


def parse_nodes(text: str) -> Iterator[dict[str, Any]]:
    """The nodes of what the template `NODES` prints."""
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != NODES.count("\\t") + 1:
            continue
        name, labels, allocatable, taints, ready, closed = fields
        yield _node(
            name,
            labels=json.loads(labels or "{}"),
            there=amounts(json.loads(allocatable or "{}")),
            taints=json.loads(taints or "[]"),
            ready=ready == "True" and closed != "true",
        )


def parse_versions(answer: Completed | TargetError) -> tuple[str, str]:
    """Of `kubectl` and of the server; empty where it is not told.

    >>> from launchbay.core.host import Completed
    >>> said = '{"clientVersion": {"gitVersion": "v1.34.1"}}'
    >>> parse_versions(Completed(code=0, stdout=said, stderr=""))
    ('1.34.1', '')
    """
    try:
        told = json.loads(_printed(answer))
    except ValueError:
        return "", ""
    client, server = (
        str((told.get(key) or {}).get("gitVersion", "")).removeprefix("v")
        for key in ("clientVersion", "serverVersion")
    )
    return client, server


def render_reviews(namespace: str, rights: Iterable[str]) -> str:
    """Asks whether we may, for one `kubectl create`; nothing is made by that."""
    items = []
    for right in rights:
        verb, thing = right.split(" ")
        resource, _, part = thing.partition("/")
        resource, _, group = resource.partition(".")
        asked = {"verb": verb, "resource": resource, "subresource": part, "group": group}
        if resource not in CLUSTER_WIDE:
            asked["namespace"] = namespace
        spec = {"resourceAttributes": {key: value for key, value in asked.items() if value}}
        version = "authorization.k8s.io/v1"
        items.append({"apiVersion": version, "kind": "SelfSubjectAccessReview", "spec": spec})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def parse_reviews(answer: Completed | TargetError) -> dict[str, bool]:
    """Whether we may, by right; what was not answered is left out."""
    found = {}
    for line in _printed(answer).splitlines():
        asked, _, allowed = line.partition("\t")
        one = json.loads(asked)
        parts = [(".", one.get("group")), ("/", one.get("subresource"))]
        thing = one["resource"] + "".join(f"{sign}{word}" for sign, word in parts if word)
        found[f"{one['verb']} {thing}"] = allowed == "true"
    return found


def is_missing(answer: Completed) -> bool:
    """Whether it failed because there is no such thing, rather than because we may not see it."""
    return bool(re.search(r"\(NotFound\)|doesn't have a resource type", answer.stderr))


def _check_answered(kubectl: Kubectl, answers: Sequence[Completed | TargetError]) -> None:
    """Raise when nothing was said by a server: `kubectl` knows its own version without one."""
    told = [one for one in answers if not isinstance(one, TargetError)]
    if any(one.ok or FORBIDDEN.search(one.stderr) or is_missing(one) for one in told):
        return
    for one in answers:
        if isinstance(one, TargetError):
            raise one
    said = next((last_words(one.stderr) for one in told if one.stderr), "no word")
    raise Unreachable(
        f"`{kubectl.target}` does not answer as a Kubernetes: {said}",
        hint="`kubectl version` has to work there, with the same `context:`",
    )


def _printed(answer: Completed | TargetError) -> str:
    return "" if isinstance(answer, TargetError) else answer.stdout


def _objects(
    answer: Completed | TargetError,
) -> tuple[dict[str, list[dict[str, Any]] | None], list[str]]:
    """The objects by resource, None for what may not be listed; and the names of those."""
    error = answer if isinstance(answer, TargetError) else None
    stderr = "" if isinstance(answer, TargetError) else answer.stderr
    found: dict[str, list[dict[str, Any]] | None] = {name: [] for name in KINDS.values()}
    unseen = [
        name
        for name in found
        if error or re.search(rf'cannot list resource "{name}"|^{name}\b.* is forbidden', stderr)
    ]
    for one in items_of(_printed(answer)):
        there = found.get(KINDS.get(one.get("kind", ""), ""))
        if there is not None:
            there.append(one)
    return {**found, **dict.fromkeys(unseen)}, unseen


def _queues(answer: Completed | TargetError) -> list[str] | None:
    """The names; none where there is no Kueue, None where they may not be listed."""
    if isinstance(answer, TargetError):
        return None
    if not answer.ok:
        return [] if is_missing(answer) else None
    return [one["metadata"]["name"] for one in items_of(answer.stdout)]


def _each(found: list[dict[str, Any]] | None, render: Any) -> list[Any] | None:  # noqa: ANN401
    return None if found is None else [render(one) for one in found]


def _name(one: Mapping[str, Any]) -> str:
    return str(one["metadata"]["name"])


def _quota(one: Mapping[str, Any]) -> dict[str, Any]:
    spec, status = one.get("spec", {}), one.get("status", {})
    return {
        "name": _name(one),
        "hard": amounts(status.get("hard") or spec.get("hard")),
        "used": amounts(status.get("used")),
        # It counts some pods only, those of a priority for example.
        "scoped": bool(spec.get("scopes") or spec.get("scopeSelector")),
    }


def _limits(found: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Bounds and defaults by what they are of: a container, a pod or a claim."""
    if found is None:
        return None
    return [
        {
            "type": limit.get("type", ""),
            **{
                key: amounts(limit.get(key))
                for key in ("min", "max", "default", "defaultRequest")
                if limit.get(key)
            },
        }
        for one in found
        for limit in one.get("spec", {}).get("limits", ())
    ]


def _claim(one: Mapping[str, Any]) -> dict[str, Any]:
    spec, status = one.get("spec", {}), one.get("status", {})
    asked = spec.get("resources", {}).get("requests", {}).get("storage", "")
    return {
        "name": _name(one),
        "modes": list(status.get("accessModes") or spec.get("accessModes") or ()),
        "phase": status.get("phase", ""),
        "size": str((status.get("capacity") or {}).get("storage") or asked),
    }


def _node(
    name: str,
    *,
    labels: Mapping[str, str],
    there: Mapping[str, float],
    taints: Sequence[Mapping[str, str]],
    ready: bool,
) -> dict[str, Any]:
    product = next((key for key in PRODUCTS if labels.get(key)), "")
    return {
        "name": name,
        "ready": ready,
        "product": labels.get(product, ""),
        "product_label": product,
        "cpus": there.get("cpu", 0),
        "memory_mib": int(there.get("memory", 0) // MIB),
        "disk_mib": int(there.get("ephemeral-storage", 0) // MIB),
        "resources": {key: value for key, value in there.items() if "/" in key and value},
        "taints": [
            {key: str(taint.get(key) or "") for key in ("key", "value", "effect")}
            for taint in taints
        ],
        "labels": {
            key: value for key, value in labels.items() if not key.startswith(UNKEPT_LABELS)
        },
    }
