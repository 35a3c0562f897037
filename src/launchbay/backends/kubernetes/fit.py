"""Whether a Kubernetes can give what a run asks for.

Everything here reads the details of the target's facts; what they do not know is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.facts import MIB, amount
from launchbay.backends.kubernetes.placing import accepts, host_of, known_nodes
from launchbay.core.errors import Unsupported
from launchbay.core.nearest import suggest
from launchbay.core.quantity import render_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from launchbay.backends.kubernetes.amounts import Amounts

    Entry = Mapping[str, Any]

BYTES = frozenset({"memory", "ephemeral-storage"})
FLAGS = {"cpu": "--cpus", "memory": "--memory", "ephemeral-storage": "--disk"}
WORDS = {"cpu": "CPUs", "memory": "of memory", "ephemeral-storage": "of disk"}
COUNTED = {"pods": 1.0, "count/pods": 1.0, "count/jobs.batch": 1.0}
"""What one run adds to quotas that count objects."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a run's pod asks of the cluster."""

    containers: tuple[Amounts, ...]
    """That of the command first."""
    products: tuple[str, ...] = ()
    products_denied: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    hosts_denied: tuple[str, ...] = ()
    tolerations: Sequence[Entry] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    claims: Sequence[str] = ()
    queue: str = ""
    priority_class: str = ""

    def total(self, side: str) -> dict[str, float]:
        """What all containers together ask for, `requests` or `limits`."""
        found: dict[str, float] = {}
        for amounts in self.containers:
            for name, quantity in getattr(amounts, side)().items():
                found[name] = found.get(name, 0) + amount(quantity)
        return found

    def limits_of(self, kind: str) -> list[dict[str, float]]:
        """The limits of each `Container`, or of the `Pod`."""
        match kind:
            case "Container":
                each = [one.limits().items() for one in self.containers]
                return [{name: amount(text) for name, text in one} for one in each]
            case "Pod":
                return [self.total("limits")]
        return []


def check_fit(asked: Asked, details: Entry | None) -> None:
    """See that the cluster has what is asked for.

    Raises:
        Unsupported: naming the most, or the names, that there are.
    """
    if not details:
        return
    _check_claims(asked.claims, details)
    _check_name("queue", asked.queue, details.get("queues"))
    _check_name("priority_class", asked.priority_class, details.get("classes"))
    for item in details.get("limits") or ():
        _check_range(asked, item)
    for quota in details.get("quotas") or ():
        # One that counts some pods only may not count these.
        if not quota.get("scoped"):
            _check_quota(asked, quota)
    # A cluster that has none at the moment gets them when somebody waits.
    if nodes := known_nodes(details):
        _check_nodes(asked, nodes)


def _check_claims(claims: Iterable[str], details: Entry) -> None:
    there = details.get("claims")
    if there is None:
        return
    names = [one["name"] for one in there]
    for name in claims:
        if name not in names:
            known = f"{suggest(name, names, listing=True)}; " if names else ""
            raise Unsupported(
                f"there is no volume claim `{name}`",
                hint=f"{known}`bay storage init {name}` makes one",
            )


def _check_name(key: str, name: str, there: Sequence[str] | None) -> None:
    if name and there is not None and name not in there:
        hint = suggest(name, there, listing=True) or f"leave `{key}:` out, there are none"
        raise Unsupported(f"`{key}: {name}` is not there", hint=hint)


def _check_range(asked: Asked, item: Entry) -> None:
    """See that no container, and not the pod, may grow larger than the namespace allows."""
    kind = str(item.get("type"))
    for limits in asked.limits_of(kind):
        for name, most in (item.get("max") or {}).items():
            if limits.get(name, 0) > amount(most):
                raise Unsupported(
                    f"a {kind.lower()} of this namespace may have at most "
                    f"{_show(name, amount(most))}, and its limit would be "
                    f"{_show(name, limits[name])}",
                    hint=_less(name, "`limit_ratio: 1` lowers the limit"),
                )


def _check_quota(asked: Asked, quota: Entry) -> None:
    requests, limits = asked.total("requests"), asked.total("limits")
    wanted = {f"requests.{name}": amount for name, amount in requests.items()}
    wanted |= {f"limits.{name}": amount for name, amount in limits.items()}
    wanted |= {name: requests[name] for name in FLAGS if name in requests} | COUNTED
    for name, hard in (quota.get("hard") or {}).items():
        if wanted.get(name, 0) > amount(hard):
            plain = name.split(".", 1)[1] if name.startswith(("requests.", "limits.")) else name
            most = _show(plain, amount(hard))
            raise Unsupported(
                f"quota `{quota['name']}` gives {most} in all (`{name}`), and a run asks for "
                f"{_show(plain, wanted[name])}",
                hint=_less(plain),
            )


def _check_nodes(asked: Asked, nodes: Sequence[Entry]) -> None:
    requests = asked.total("requests")
    ready = [node for node in nodes if node.get("ready", True)]
    open_ones = [node for node in ready if _admits(node, asked, requests)]
    if any(_holds(node, requests) for node in open_ones):
        return
    if not open_ones:
        raise Unsupported(
            f"none of the {len(nodes)} nodes may be used: {_reason(asked)}",
            hint="`bay capacity` shows the nodes; see `gpu_type`, `hostname_…` and `tolerations`",
        )
    for name, wanted in requests.items():
        most = max(_has(node, name) for node in open_ones)
        if wanted > most:
            less = _less(name) if most else f"`bay capacity` shows which nodes have {_word(name)}"
            raise Unsupported(
                f"no node that it may use has {_show(name, wanted)}; "
                f"the largest has {_show(name, most)}",
                hint=less,
            )
    largest = max(open_ones, key=lambda node: [_has(node, name) for name in reversed(requests)])
    raise Unsupported(
        f"no node that it may use has {_list(requests)} together",
        hint=f"the largest, `{largest['name']}`, has "
        + _list({name: _has(largest, name) for name in requests}),
    )


def _admits(node: Entry, asked: Asked, requests: Mapping[str, float]) -> bool:
    product, labels = node.get("product") or "", node.get("labels") or {}
    host = host_of(node)
    return (
        (not asked.products or product in asked.products)
        and product not in asked.products_denied
        and (not asked.hosts or host in asked.hosts)
        and host not in asked.hosts_denied
        # Not every label of a node is known.
        and all(labels.get(key, value) == value for key, value in asked.selector.items())
        and all(
            # Many clusters let pods that ask for a resource past a taint of its name.
            accepts(asked.tolerations, taint) or taint.get("key") in requests
            for taint in node.get("taints") or ()
        )
    )


def _holds(node: Entry, requests: Mapping[str, float]) -> bool:
    return all(_has(node, name) >= wanted for name, wanted in requests.items())


def _has(node: Entry, name: str) -> float:
    match name:
        case "cpu":
            return float(node.get("cpus") or 0)
        case "memory":
            return float(node.get("memory_mib") or 0) * MIB
        case "ephemeral-storage":
            return float(node["disk_mib"]) * MIB if node.get("disk_mib") else float("inf")
    # What a node can give out besides has a `/` in its name; of other things nothing is known.
    return amount((node.get("resources") or {}).get(name, 0)) if "/" in name else float("inf")


def _reason(asked: Asked) -> str:
    parts = [
        f"GPUs {' or '.join(asked.products)}" if asked.products else "",
        f"no GPUs {' or '.join(asked.products_denied)}" if asked.products_denied else "",
        f"hosts {', '.join(asked.hosts)}" if asked.hosts else "",
        f"not {', '.join(asked.hosts_denied)}" if asked.hosts_denied else "",
        ", ".join(f"{key}={value}" for key, value in asked.selector.items()),
    ]
    wanted = "; ".join(part for part in parts if part)
    kept = "the others are not ready, or have taints that are not tolerated"
    return f"{wanted}; {kept}" if wanted else "they are not ready, or have taints"


def _show(name: str, amount: float) -> str:
    """An amount for people.

    >>> _show("cpu", 1.5), _show("memory", 2 * 1024**3), _show("nvidia.com/gpu", 8)
    ('1.5 CPUs', '2G of memory', '8 `nvidia.com/gpu`')
    """
    number = render_memory(int(amount / MIB)) if name in BYTES else f"{amount:g}"
    return f"{number} {_word(name)}"


def _word(name: str) -> str:
    return WORDS.get(name, f"`{name}`")


def _list(amounts: Mapping[str, float]) -> str:
    known = {name: amount for name, amount in amounts.items() if amount < float("inf")}
    return ", ".join(_show(name, amount) for name, amount in known.items())


def _less(name: str, more: str = "") -> str:
    flag = FLAGS.get(name, "--gpus" if name.endswith("/gpu") else "")
    hint = f"ask for less with `{flag}`" if flag else f"ask for less of `{name}`"
    return f"{hint}; {more}" if more and name in {"cpu", "memory"} else hint
