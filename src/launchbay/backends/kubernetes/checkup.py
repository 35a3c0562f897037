"""What works on a Kubernetes and what does not, for `bay doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.capacity import count_gpus
from launchbay.backends.kubernetes.facts import (
    RIGHTS,
    ask_all,
    check_place,
    parse_reviews,
    parse_survey,
    parse_versions,
    render_reviews,
    survey_calls,
)
from launchbay.core.backend import Finding
from launchbay.core.job import CLAIM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.core.errors import TargetError
    from launchbay.core.host import Completed

FAVOURS = {
    "list nodes": "sizes and GPU types are not checked before something is sent",
    "create pods": "`bay dev` and `bay storage` do not work, and `--check` tries no pods",
    "watch pods": "`bay dev` and `bay storage` cannot wait for their pods",
    "delete pods": "`bay dev` and `bay storage` leave their pods until these end by themselves",
    "create pods/portforward": "`bay port` does not work",
    "list persistentvolumeclaims": "whether a claim exists is not checked",
    "create persistentvolumeclaims": "`bay storage init` does not work",
    "list resourcequotas": "what is left of a quota is not told",
}
"""Rights that are good to have, and what is lost without."""
ROLE = "ask whoever runs the cluster for it; docs/guides/kubernetes.md has a Role to hand over"
NEARLY = 0.9
MOST_SKEW = 1


def diagnose(kubectl: Kubectl, *, image: str = "", claims: Sequence[str] = ()) -> list[Finding]:
    """What works and what does not, each problem with its remedy.

    Args:
        kubectl: of the target.
        image: what runs there start in unless they say otherwise; empty where nothing is set.
        claims: the volume claims that the target's options name.

    Raises:
        TargetError: when the cluster does not answer, or has no such namespace.
    """
    if not kubectl.host.run(["/bin/sh", "-c", "command -v kubectl"]).ok:
        return [_absent(kubectl)]
    wanted = [*RIGHTS, *FAVOURS]
    reviews = {"rights": render_reviews(kubectl.namespace, wanted)}
    answers = ask_all(kubectl, survey_calls(kubectl.namespace), stdin=reviews)
    check_place(kubectl, answers)
    details = parse_survey(answers)
    return [
        *_check_versions(answers["version"]),
        _check_context(kubectl),
        *_check_rights(kubectl.namespace, parse_reviews(answers["rights"]), wanted),
        *_check_nodes(details),
        *_check_quotas(details["quotas"] or ()),
        _check_image(image),
        *_check_claims(claims, details["claims"]),
    ]


def named_claims(options: Mapping[str, Any]) -> list[str]:
    """The volume claims that a target's options name, wherever in them.

    >>> named_claims({"outputs_to": "claim:a", "volumes": {"b": "/data"}, "data": {"x": "claim:c"}})
    ['b', 'a', 'c']
    """
    found = [*(options.get("volumes") or {})]
    left: list[Any] = [options]
    while left:
        one = left.pop(0)
        if isinstance(one, str) and one.startswith(CLAIM):
            found.append(one.removeprefix(CLAIM).partition("/")[0])
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, (list, tuple)):
            left += one
    return list(dict.fromkeys(found))


def _absent(kubectl: Kubectl) -> Finding:
    where = f"on `{kubectl.host.name}`" if kubectl.host.name else "here"
    return Finding(
        level="problem",
        subject="kubectl",
        message=f"is not found {where}",
        remedy="install it and have it in PATH, or name with `host:` a machine that has it",
    )


def _check_versions(answer: Completed | TargetError) -> Iterator[Finding]:
    """Both versions; clients serve servers of one minor version around their own."""
    client, server = parse_versions(answer)
    said = f"kubectl {client or 'unknown'}, the cluster is {server or 'unknown'}"
    apart = abs(_minor(client) - _minor(server)) if client and server else 0
    if apart <= MOST_SKEW:
        yield Finding(level="ok", subject="kubectl", message=said)
        return
    remedy = f"install kubectl {'.'.join(server.split('.')[:2])}; it serves one version around it"
    yield Finding(level="warning", subject="kubectl", message=said, remedy=remedy)


def _minor(version: str) -> int:
    """The second number of a version.

    >>> _minor("1.34.1"), _minor("1.30.2-gke.7"), _minor("1")
    (34, 30, 0)
    """
    word = (*version.split("."), "", "")[1]
    return int(word) if word.isdecimal() else 0


def _check_context(kubectl: Kubectl) -> Finding:
    context = f" of context `{kubectl.context}`" if kubectl.context else ""
    return Finding(
        level="ok", subject="namespace", message=f"`{kubectl.namespace}`{context} answers"
    )


def _check_rights(
    namespace: str, may: Mapping[str, bool], wanted: Sequence[str]
) -> Iterator[Finding]:
    if unsaid := [right for right in wanted if right not in may]:
        message = f"it does not tell whether you may {unsaid[0]} and {len(unsaid) - 1} more"
        yield Finding(level="warning", subject="rights", message=message)
    lacking = [right for right in RIGHTS if may.get(right) is False]
    if lacking:
        message = f"in namespace `{namespace}` you may not {', '.join(lacking)}"
        yield Finding(level="problem", subject="rights", message=message, remedy=ROLE)
    elif not unsaid:
        yield Finding(level="ok", subject="rights", message="all that runs need")
    for right, lost in FAVOURS.items():
        if may.get(right) is False:
            message = f"you may not {right}: {lost}"
            yield Finding(level="warning", subject="rights", message=message, remedy=ROLE)


def _check_nodes(details: Mapping[str, Any]) -> Iterator[Finding]:
    if details["nodes"] is None:
        return
    ready = [node for node in details["nodes"] if node["ready"]]
    gpus: dict[str, float] = {}
    for node in ready:
        if count := count_gpus(node["resources"]):
            name = node["product"] or "GPUs of no named kind"
            gpus[name] = gpus.get(name, 0) + count
    kinds = ", ".join(f"{count:g} {name}" for name, count in sorted(gpus.items()))
    message = f"{len(ready)} of {len(details['nodes'])} ready, {kinds or 'no GPUs'}"
    yield Finding(level="ok" if ready else "warning", subject="nodes", message=message)


def _check_quotas(quotas: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Those that are nearly used up."""
    for quota in quotas:
        full = [
            f"{quota['used'].get(name, 0):g} of {hard:g} {name}"
            for name, hard in quota["hard"].items()
            if hard and quota["used"].get(name, 0) >= NEARLY * hard
        ]
        subject = f"quota {quota['name']}"
        if full:
            message = f"is nearly used up: {', '.join(full)}"
            remedy = "`bay rm` and `kubectl delete` make room, or ask for a larger quota"
            yield Finding(level="warning", subject=subject, message=message, remedy=remedy)
        else:
            yield Finding(level="ok", subject=subject, message="has room")


def _check_image(image: str) -> Finding:
    if image:
        return Finding(level="ok", subject="image", message=image)
    return Finding(
        level="warning",
        subject="image",
        message="none is set, and every run needs one",
        remedy="set `image:` here, in the experiment's file, or with `--image`",
    )


def _check_claims(
    wanted: Sequence[str], there: Sequence[Mapping[str, Any]] | None
) -> Iterator[Finding]:
    """Whether each claim exists, and has a volume."""
    phases = {one["name"]: one["phase"] for one in there or ()}
    for name in dict.fromkeys(wanted):
        subject = f"claim {name}"
        if there is None:
            message = "may not be looked at here"
            yield Finding(level="warning", subject=subject, message=message)
        elif name not in phases:
            remedy = f"`bay storage init {name}` makes it; or name another"
            yield Finding(level="problem", subject=subject, message="does not exist", remedy=remedy)
        elif phases[name] == "Bound":
            yield Finding(level="ok", subject=subject, message="is bound to a volume")
        elif phases[name] == "Lost":
            message = "has lost its volume"
            remedy = "ask whoever runs the cluster; what was on it may be gone"
            yield Finding(level="problem", subject=subject, message=message, remedy=remedy)
        else:
            message = f"is {phases[name] or 'of unknown state'}: it has no volume yet"
            remedy = f"some wait for their first pod; `kubectl describe pvc {name}` says more"
            yield Finding(level="warning", subject=subject, message=message, remedy=remedy)
