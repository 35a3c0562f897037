"""Which nodes a pod may be put on: affinity, tolerations, and what of them a node satisfies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from launchbay.core.errors import Unsupported
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from launchbay.core.job import Resources

    Entry = Mapping[str, Any]

PRODUCT = "nvidia.com/gpu.product"
HOSTNAME = "kubernetes.io/hostname"
TOLERATION_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")
KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})


def render_affinity(need: Resources, gpus: int, details: Entry | None) -> dict[str, Any]:
    """The one required term that says where a pod may go; empty when it may go anywhere.

    Args:
        need: what the run asks for.
        gpus: how many it gets; without any, their kinds do not matter.
        details: of the target's facts; without them GPU types are taken as they are written.

    Raises:
        Unsupported: when both lists of a pair are set, or there is no such GPU or host.
    """
    _check_pair("gpu_type", need.gpu_types, "gpu_blacklist", need.gpu_types_denied)
    _check_pair("hostname_whitelist", need.hosts, "hostname_blacklist", need.hosts_denied)
    _check_hosts(need.hosts, details)
    allowed = match_products(need.gpu_types, details, required=True) if gpus else []
    denied = match_products(need.gpu_types_denied, details) if gpus else []
    expressions = [
        *_expression(HOSTNAME, "In", need.hosts),
        *_expression(HOSTNAME, "NotIn", need.hosts_denied),
        *_expression(_product_label(allowed, details), "In", allowed),
        *_expression(_product_label(denied, details), "NotIn", denied),
    ]
    if not expressions:
        return {}
    term = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}


def _expression(key: str, operator: str, values: Sequence[str]) -> list[dict[str, Any]]:
    return [{"key": key, "operator": operator, "values": list(values)}] if values else []


def _check_pair(one: str, ones: Sequence[str], other: str, others: Sequence[str]) -> None:
    if ones and others:
        raise Unsupported(f"`{one}` and `{other}` are both set", hint="keep one of them")


def _check_hosts(hosts: Sequence[str], details: Entry | None) -> None:
    there = [host_of(node) for node in known_nodes(details) or ()]
    missing = [name for name in hosts if name not in there]
    if there and len(missing) == len(hosts) > 0:
        raise Unsupported(
            f"there is no node `{missing[0]}`", hint=suggest(missing[0], there, listing=True)
        )


def host_of(node: Entry) -> str:
    """What a node is called by affinity, mostly its name."""
    return str((node.get("labels") or {}).get(HOSTNAME) or node["name"])


def known_nodes(details: Entry | None) -> Sequence[Entry] | None:
    """The nodes of the cluster; nothing when they may not be listed."""
    found: Sequence[Entry] | None = (details or {}).get("nodes")
    return found


def match_products(
    words: Iterable[str], details: Entry | None, *, required: bool = False
) -> list[str]:
    """The GPU products that are meant; a word stands for all that have it in their name.

    A product of the very name is meant alone. Products have no spaces in their names.

    Raises:
        Unsupported: when one is required and there is none.
    """
    words = [re.sub(r"\s+", "-", word.strip()) for word in words]
    there = sorted({node["product"] for node in known_nodes(details) or () if node["product"]})
    if not there:
        return list(dict.fromkeys(words))
    found: list[str] = []
    for word in words:
        # What is kept away from need not be there.
        found += _named(word, there) or ([] if required else [word])
    if words and not found:
        raise Unsupported(
            f"there are no GPUs of type {' or '.join(words)} here",
            hint=f"there are {', '.join(f'`{name}`' for name in there)}",
        )
    return list(dict.fromkeys(found))


def _product_label(products: Sequence[str], details: Entry | None) -> str:
    """The label that names these GPUs; makers and clouds have their own."""
    nodes = [node for node in known_nodes(details) or () if node["product"] in products]
    labels = {str(node.get("product_label") or PRODUCT) for node in nodes}
    return labels.pop() if len(labels) == 1 else PRODUCT


def _named(word: str, there: Sequence[str]) -> list[str]:
    same = [name for name in there if name.lower() == word.lower()]
    return same or [name for name in there if word.lower() in name.lower()]


def render_tolerations(written: Iterable[Any]) -> list[dict[str, Any]]:
    """The taints that a pod accepts; a key alone is one whose value is `true`.

    Raises:
        Unsupported: when a mapping has a key that Kubernetes does not know.
    """
    return [_toleration(one) for one in written]


def _toleration(one: object) -> dict[str, Any]:
    if not isinstance(one, dict):
        return {"key": str(one), "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    for key in one:
        if key not in TOLERATION_KEYS:
            hint = suggest(key, TOLERATION_KEYS, listing=True)
            raise Unsupported(f"a toleration has no `{key}`", hint=hint)
    found: dict[str, Any] = {key: str(value) for key, value in one.items() if value is not None}
    if "tolerationSeconds" in found:
        found["tolerationSeconds"] = _seconds(found["tolerationSeconds"])
        # Of no other effect it can be said.
        found.setdefault("effect", "NoExecute")
    return found


def _seconds(text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text, re.ASCII):
        raise Unsupported(
            f"`tolerationSeconds: {text}` is no number of seconds", hint="write `300`"
        )
    return int(text)


def accepts(tolerations: Sequence[Entry], taint: Entry) -> bool:
    """Whether a pod with these tolerations may go where that taint is."""
    if taint.get("effect") not in KEEPS_AWAY:
        return True
    return any(_matches(one, taint) for one in tolerations)


def _matches(toleration: Entry, taint: Entry) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    if toleration["key"] != taint.get("key"):
        return False
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")


def render_access(options: Mapping[str, Any]) -> dict[str, Any]:
    """What lets a pod have its image and its node, a run's or a helper's alike."""
    found: dict[str, Any] = {}
    if secrets := _words(options.get("image_pull_secrets")):
        found["imagePullSecrets"] = [{"name": name} for name in secrets]
    if selector := options.get("node_selector"):
        found["nodeSelector"] = {key: str(value) for key, value in selector.items()}
    if tolerations := render_tolerations(options.get("tolerations") or ()):
        found["tolerations"] = tolerations
    return found


def _words(written: object) -> list[str]:
    """Names, in a list or separated by commas."""
    words = written.split(",") if isinstance(written, str) else written
    if not isinstance(words, list | tuple):
        return []
    return [text for word in words if (text := str(word).strip())]
