"""Pods that are no run's: waiting until one is ready, with what keeps it, and taking it away."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.calls import items_of
from launchbay.backends.kubernetes.reasons import (
    explain_eviction,
    explain_mount,
    explain_start,
    explain_unschedulable,
    explain_waiting,
)
from launchbay.core.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl

LOOK_S = 2
FATAL = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
    }
)
"""Why a container waits that will not start by itself."""
CREATING = frozenset({"", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Why a pod is not ready."""

    why: str
    ended: bool = False
    """Whether it never will be."""
    stuck: bool = False
    """Whether it will not be by itself."""


def await_pod(
    kubectl: Kubectl, name: str, *, tell: Callable[[str], None], within_s: float | None = None
) -> None:
    """Wait until a pod is ready; what keeps it is told, each thing once.

    Args:
        kubectl: how to reach the cluster.
        name: the pod.
        tell: is told why it is not ready yet.
        within_s: give up after so long, and at once where waiting does not help; None never does.

    Raises:
        Rejected: when it ended, or does not become ready.
    """
    began, told = time.monotonic(), set[str]()
    while not _becomes_ready(kubectl, name):
        wait = look_at_pod(kubectl, name)
        over = within_s is not None and time.monotonic() - began > within_s
        if wait.ended or over or (wait.stuck and within_s is not None):
            why = wait.why or f"it is not ready after {time.monotonic() - began:.0f} s"
            raise Rejected(f"pod `{name}` of `{kubectl.target}` does not start: {why}")
        if wait.why and wait.why not in told:
            told.add(wait.why)
            tell(wait.why)


def _becomes_ready(kubectl: Kubectl, name: str) -> bool:
    """Whether it is ready, or within a moment."""
    words = ("wait", f"pod/{name}", "--for=condition=Ready", f"--timeout={LOOK_S}s")
    return kubectl.call(*words).ok


def look_at_pod(kubectl: Kubectl, name: str) -> Wait:
    """Why a pod is not ready now; no word where nobody says anything."""
    found = kubectl.get("pod", name, "--ignore-not-found")
    wait = judge_pod(found[0]) if found else Wait(why="it was deleted", ended=True)
    return wait if wait.why else Wait(why=_ask_events(kubectl, name))


def judge_pod(pod: Mapping[str, Any]) -> Wait:
    """Why a pod is not ready, as far as it says itself; no word where only events tell."""
    status = pod.get("status", {})
    containers: Sequence[Mapping[str, Any]] = status.get("containerStatuses", ())
    if status.get("phase") in {"Succeeded", "Failed"}:
        return Wait(why=_why_ended(status, containers), ended=True)
    for container in containers:
        state = container.get("state", {}).get("waiting")
        if state and state.get("reason", "") not in CREATING:
            reason, image = state.get("reason", ""), str(container.get("image", ""))
            why = explain_waiting(reason, state.get("message", ""), image)
            return Wait(why=why, stuck=reason in FATAL)
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return Wait(why=explain_unschedulable(condition.get("message", "")))
    return Wait(why="")


def _why_ended(status: Mapping[str, Any], containers: Sequence[Mapping[str, Any]]) -> str:
    if status.get("reason") == "Evicted":
        return explain_eviction(status.get("message", ""))
    if status.get("reason"):
        return f"it ended ({status['reason']}): {status.get('message', 'no word')}"
    for container in containers:
        state = container.get("state", {}).get("terminated")
        if state and state.get("reason") in {"StartError", "ContainerCannotRun"}:
            return explain_start(state.get("message", ""), str(container.get("image", "")))
        if state and (state.get("message") or state.get("exitCode")):
            said = state.get("message", "").strip() or state.get("reason", "")
            return f"it ended with exit code {state.get('exitCode')}: {said}"
    return "it ended at once"


def _ask_events(kubectl: Kubectl, name: str) -> str:
    """What keeps a pod on its node, such as a volume that cannot be mounted."""
    chosen = f"--field-selector=involvedObject.name={name}"
    done = kubectl.call("get", "events", chosen, "-o", "json")
    found = items_of(done.stdout) if done.ok else []
    said = [explain_mount(one.get("reason", ""), one.get("message", "")) for one in found]
    return next(filter(None, reversed(said)), "")


def delete_pods(kubectl: Kubectl, *names: str) -> None:
    """Ask for the end of pods; gone already is fine."""
    if names:
        flags = ("--ignore-not-found", "--wait=false", "--grace-period=1")
        kubectl.said("delete", "pod", *names, *flags)
