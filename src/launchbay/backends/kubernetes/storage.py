"""Volume claims: which there are, making one, and a host that has one. None is ever removed."""

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.calls import items_of
from launchbay.backends.kubernetes.pods import claims_mounted, helper_pod
from launchbay.backends.kubernetes.refusals import explain_refusal, is_there
from launchbay.backends.kubernetes.words import CLAIMS_AT, MANAGED, OURS, RUN, USER, label
from launchbay.core.backend import Claim
from launchbay.core.errors import BadRequest, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.core.host import Host

BOUND = "Bound"
BINDING_S = 60.0
SHORT = {
    "ReadWriteMany": "rwx",
    "ReadWriteOnce": "rwo",
    "ReadOnlyMany": "rox",
    "ReadWriteOncePod": "rwop",
}
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
HELPER_IMAGE = "busybox:stable"
"""What a helper runs in where a target names no image."""


def list_claims(kubectl: Kubectl) -> list[Claim]:
    """Every claim of the namespace, and the pods that have it now."""
    done = kubectl.call("get", "pvc,pods", "-o", "json")
    found = items_of(done.stdout)
    if not done.ok and not found:
        raise kubectl.error(done)
    return parse_claims(found)


def parse_claims(objects: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """The claims among objects, by name; a pod that ended has none any more."""
    users: dict[str, list[str]] = {}
    for pod in (one for one in objects if one["kind"] == "Pod"):
        if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
            continue
        who = pod["metadata"].get("labels", {}).get(RUN) or pod["metadata"]["name"]
        for claim in claims_mounted(pod):
            users.setdefault(claim, []).append(who)
    claims = [one for one in objects if one["kind"] == "PersistentVolumeClaim"]
    made = [parse_claim(one, users.get(one["metadata"]["name"], ())) for one in claims]
    return sorted(made, key=lambda one: one.name)


def parse_claim(found: Mapping[str, Any], users: Sequence[str] = ()) -> Claim:
    """One claim, as the cluster has it."""
    spec, status = found["spec"], found.get("status", {})
    asked = spec.get("resources", {}).get("requests", {}).get("storage", "")
    phase = "Terminating" if "deletionTimestamp" in found["metadata"] else status.get("phase", "")
    return Claim(
        name=found["metadata"]["name"],
        size=status.get("capacity", {}).get("storage") or asked,
        modes=tuple(SHORT.get(mode, mode) for mode in spec.get("accessModes", ())),
        phase=phase or "Pending",
        storage_class=spec.get("storageClassName") or "",
        used_by=tuple(sorted(set(users))),
    )


def make_claim(kubectl: Kubectl, wanted: Mapping[str, Any]) -> tuple[Claim, bool]:
    """Have a claim, as `render_claim` describes it; and whether it was made now.

    One of that name that is there stays as it is.

    Raises:
        Rejected: when the cluster refuses it.
    """
    name = wanted["metadata"]["name"]
    found = kubectl.get("pvc", name, "--ignore-not-found")
    made = False
    if not found:
        done = kubectl.call("create", "-f", "-", stdin=json.dumps(wanted))
        if not done.ok and not is_there(done.stderr.strip()):
            raise Rejected(f"`{kubectl.target}`: {explain_refusal(done.stderr.strip()).reason}")
        made = done.ok
    return _await_bound(kubectl, name), made


def render_claim(
    name: str, *, size_mib: int, storage_class: str, shared: bool, user: str
) -> dict[str, Any]:
    """A claim as it is sent.

    Raises:
        BadRequest: when that is no name of one.
    """
    if not NAME.fullmatch(name):
        raise BadRequest(
            f"`{name}` is no name of a claim", hint="use small letters, digits and `-`: `results`"
        )
    size = f"{size_mib // 1024}Gi" if size_mib % 1024 == 0 else f"{size_mib}Mi"
    chosen = {"storageClassName": storage_class} if storage_class else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": {MANAGED: OURS, USER: label(user)}},
        "spec": {
            "accessModes": ["ReadWriteMany" if shared else "ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **chosen,
        },
    }


def _await_bound(kubectl: Kubectl, name: str) -> Claim:
    """The claim, once it is bound or somebody says why it is not."""
    deadline = time.monotonic() + BINDING_S
    bound = "--for=jsonpath={.status.phase}=Bound"
    while True:
        kubectl.call("wait", f"pvc/{name}", bound, "--timeout=2s")
        (found,) = kubectl.get("pvc", name)
        claim = parse_claim(found)
        if claim.phase == BOUND:
            return claim
        note, settled = _why_unbound(kubectl, name)
        if settled or time.monotonic() > deadline:
            return Claim(**{**vars(claim), "note": note or "the cluster does not say why"})


def _why_unbound(kubectl: Kubectl, name: str) -> tuple[str, bool]:
    """Why a claim has no volume yet, and whether waiting longer would not help."""
    chosen = f"--field-selector=involvedObject.name={name}"
    done = kubectl.call("get", "events", chosen, "-o", "json")
    events = items_of(done.stdout) if done.ok else []
    # Of a claim there may be many; the last one counts.
    last = max(events, key=lambda one: str(one.get("lastTimestamp") or ""), default={})
    reason, message = last.get("reason", ""), " ".join(str(last.get("message", "")).split())
    if reason == "WaitForFirstConsumer":
        return "it is bound with the first pod that mounts it", True
    if reason in {"ProvisioningFailed", "FailedBinding"}:
        return message, True
    return message, False


@contextmanager
def open_claim(
    kubectl: Kubectl,
    name: str,
    *,
    image: str,
    user: str,
    tell: Callable[[str], None],
    spec: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Host, str]]:
    """A helper that has the claim, and the folder of it there, until the end of the block.

    Args:
        kubectl: how to reach the cluster.
        name: the claim.
        image: what the helper runs in; empty is a public one.
        user: whose helper it is.
        tell: is told why it does not start yet.
        spec: more of its specification, see `helper_spec`.

    Raises:
        BadRequest: when there is no such claim.
        Rejected: when the helper does not start, and why.
    """
    chosen = image or HELPER_IMAGE
    with helper_pod(kubectl, image=chosen, claims=[name], user=user, spec=spec, tell=tell) as host:
        yield host, f"{CLAIMS_AT}/{name}"
