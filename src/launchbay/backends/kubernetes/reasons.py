"""Kubernetes' reasons in words: why a pod waits, what became of one, and what to try next.

Pure: text in, sentences out. Met: Kubernetes 1.34 for real, others by their documentation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from launchbay.backends.kubernetes.refusals import (
    Refused,
    explain_refusal,
    is_there,
    noun_of,
    refused_lines,
    which_object,
)
from launchbay.core.run import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DISRUPTIONS",
    "IMAGE_REASONS",
    "Refused",
    "explain_eviction",
    "explain_mount",
    "explain_refusal",
    "explain_start",
    "explain_unschedulable",
    "explain_waiting",
    "is_there",
    "of_pod_reason",
    "refused_lines",
    "which_object",
]

AGAIN = "`bay rerun` starts it again, `retries:` does so by itself"

IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""Why a container waits for its image."""
PULLS: tuple[tuple[str, str], ...] = (
    (
        r"toomanyrequests|rate limit|\b429\b",
        (
            "its registry lets nobody pull so often; it is tried again by itself, or log in with "
            "`image_pull_secrets:`"
        ),
    ),
    (
        r"pull access denied|repository does not exist or may require",
        (
            "its registry does not have it, or wants a login; correct `image:`, or name a secret "
            "with `image_pull_secrets:`"
        ),
    ),
    (
        (
            r"unauthori[sz]ed|\b401\b|\b403\b|forbidden|denied|authentication required|"
            r"insufficient_scope|no basic auth|authorization failed"
        ),
        "its registry wants a login; name a secret with `image_pull_secrets:`",
    ),
    (
        r"no match for platform|no matching manifest|does not match the specified platform",
        "there is none of it for the processors of its node; take another `image:`",
    ),
    (r"no space left", "its node has no room for it; it is tried again by itself"),
    (
        r"manifest unknown|not found|does not exist|\b404\b|name unknown",
        "its registry does not have it; correct the name or the tag in `image:`",
    ),
    (
        (
            r"no such host|connection refused|i/o timeout|timed? ?out|dial tcp|no route to host|"
            r"server misbehaving|x509|EOF|unavailable"
        ),
        (
            "its registry does not answer; correct the name in `image:`, or wait: it is tried "
            "again by itself"
        ),
    ),
)
"""What a registry or its absence says, and what it means; the first that fits."""

SCHEDULED = re.compile(r"^\d+/(?P<nodes>\d+) nodes are available: (?P<rest>.*)$", re.DOTALL)
PREEMPTION = re.compile(
    r"[.,]? ?(?:no new claims to deallocate, )?preemption: (?P<rest>.*)$", re.DOTALL
)
PART = re.compile(r"(?P<count>\d+) (?P<what>.+?)(?=, \d+ |\.? ?$|\. )")
HOPELESS = re.compile(r"Preemption is not helpful")
HOPEFUL = re.compile(r"No preemption victims|not eligible|victims")
SHORT = re.compile(r"Insufficient (?P<what>\S+)|(?P<pods>Too many pods)")
TAINT = re.compile(
    r"untolerated taint(?:\(s\))?(?: \{(?P<key>[^:}]+)[^}]*\})?|had taint \{(?P<old>[^:}]+):"
)
MISSING_CLAIM = re.compile(
    r'persistentvolumeclaim "(?P<name>[^"]+)" (?P<why>not found|is being deleted)'
)
OTHERS: tuple[tuple[str, str], ...] = (
    (
        r"didn't match Pod's node affinity|didn't match node selector",
        "it may not use, see `gpu_type:`, `hostname_whitelist:` and `node_selector:`",
    ),
    (r"were unschedulable", "closed for maintenance"),
    (
        r"unbound immediate PersistentVolumeClaims|available persistent volumes",
        "without its volume",
    ),
    (r"volume node affinity conflict|volume zone", "out of reach of its volume"),
    (r"exceed max volume count", "with no place for a further volume"),
    (r"free ports", "with its ports in use"),
    (r"anti-affinity|topology spread|pod affinity", "left out by rules of affinity"),
)
"""Why nodes do not take a pod, as it follows their number."""
SYSTEM_TAINTS: Mapping[str, str] = {
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable",
    "node.kubernetes.io/unschedulable": "closed for maintenance",
    "node.kubernetes.io/disk-pressure": "with no room on the disk",
    "node.kubernetes.io/memory-pressure": "with no memory left",
    "node.kubernetes.io/pid-pressure": "with too many processes",
    "node.kubernetes.io/network-unavailable": "without a network",
}

DISRUPTIONS: Mapping[str, tuple[Cause, str]] = {
    "PreemptionByScheduler": (
        Cause.PREEMPTED,
        f"it had to make way for a pod of higher priority; {AGAIN}",
    ),
    "DeletionByTaintManager": (
        Cause.NODE,
        f"its node failed or was closed, and its pod was taken away; {AGAIN}",
    ),
    "EvictionByEvictionAPI": (
        Cause.NODE,
        f"it was evicted from its node, perhaps for maintenance; {AGAIN}",
    ),
    "DeletionByPodGC": (Cause.NODE, f"its node is gone from the cluster; {AGAIN}"),
    "TerminationByKubelet": (
        Cause.NODE,
        f"its node ended it, for want of resources or to shut down; {AGAIN}",
    ),
}
"""Why a pod had to leave its node: the reasons of the condition `DisruptionTarget`."""
DISRUPTED = (Cause.NODE, f"it had to leave its node; {AGAIN}")
POD_REASONS: tuple[tuple[str, Cause, str], ...] = (
    ("Preempting", Cause.PREEMPTED, f"it had to make way for a pod of the cluster itself; {AGAIN}"),
    ("Terminated|NodeShutdown|Shutdown", Cause.NODE, f"its node was shut down; {AGAIN}"),
    ("NodeLost", Cause.NODE, f"its node failed; {AGAIN}"),
    (
        (
            r"OutOf\w+|NodeAffinity|NodePorts|TopologyAffinityError|\w*AdmissionError"
            r"|InvalidNodeInfo|PodOSNotSupported|SysctlForbidden"
        ),
        Cause.NODE,
        f"its node would not take it after all ({{reason}}); {AGAIN}",
    ),
)
"""What the kubelet says of a pod that it ended or did not take."""


def explain_unschedulable(message: str) -> str:
    """Why no node takes a pod, from what the scheduler says of it."""
    if claim := MISSING_CLAIM.search(message):
        gone = "is being removed" if claim["why"] == "is being deleted" else "is not there"
        return f"the volume claim `{claim['name']}` {gone}; make it, or correct `volumes:`"
    if "unbound immediate PersistentVolumeClaims" in message and "node(s)" not in message:
        return "a volume claim that it mounts has no volume yet; `kubectl get pvc` shows which"
    match = SCHEDULED.match(message.strip())
    if not match:
        if "no nodes available" in message:
            return "the cluster has no nodes that are up; it starts by itself when some are"
        return f"no node takes it: {message.strip().rstrip('.')}" if message else "no node takes it"
    rest = PREEMPTION.sub("", match["rest"])
    hint = PREEMPTION.search(match["rest"])
    never = bool(hint and HOPELESS.search(hint["rest"]) and not HOPEFUL.search(hint["rest"]))
    parts = [(int(part["count"]), part["what"].strip()) for part in PART.finditer(rest)]
    return _nodes_in_words(int(match["nodes"]), parts, never=never) or f"no node takes it: {rest}"


def explain_waiting(reason: str, message: str, image: str) -> str:
    """Why a container has not started, for what its state says."""
    if reason in IMAGE_REASONS:
        return _explain_pull(reason, message, image)
    if reason == "CreateContainerConfigError":
        return f"its container cannot be made: {explain_missing(message)}"
    if reason in {"CreateContainerError", "RunContainerError", "PostStartHookError"}:
        return f"its container cannot be started: {explain_start(message, image)}"
    if reason == "CrashLoopBackOff":
        return "a container that it waits for ends again and again; `kubectl logs` shows why"
    if reason == "PodInitializing":
        return "the containers of `server:` start before it"
    if reason in {"", "ContainerCreating"}:
        return "its node makes its container ready"
    return f"it waits on its node: {reason}{f', {_short(message)}' if message else ''}"


def explain_missing(message: str) -> str:
    """What a pod refers to and the namespace does not have, and what to do."""
    if match := re.search(r'\b(secret|configmap)s? "([^"]+)" not found', message, re.IGNORECASE):
        return (
            f"the {match[1].lower()} `{match[2]}` is not there; `bay rerun` sends what it needs "
            "anew, or correct its name"
        )
    if match := re.search(r"couldn't find key (\S+) in (\w+) (\S+)", message):
        return f"{match[2].lower()} `{match[3].rpartition('/')[2]}` has no key `{match[1]}`"
    if "runAsNonRoot" in message:
        return "the image runs as root, which is not allowed here; take another `image:`"
    return _short(message) or "the cluster does not say why"


def explain_start(message: str, image: str) -> str:
    """Why the container runtime could not start a command."""
    if re.search(
        r"no such file or directory|executable file not found|not found in \$PATH", message
    ):
        shell = re.search(r'exec: "?([^":]+)"?', message)
        what = f"`{shell[1]}`" if shell else "what it is to start"
        return f"the image `{image}` has no {what}; take one with a POSIX shell in `image:`"
    if "exec format error" in message:
        return f"the image `{image}` is for other processors; take another `image:`"
    if "permission denied" in message:
        return f"it may not start the shell of the image `{image}`; take another `image:`"
    return _short(message) or "the cluster does not say why"


def explain_mount(reason: str, message: str) -> str:
    """What an event of a pod that is being made ready means; empty where it is no trouble."""
    if reason in {"FailedMount", "FailedAttachVolume", "FailedMapVolume"}:
        if re.search(r'\b(?:secret|configmap)s? "', message) and "not found" in message:
            return f"what it mounts is missing: {explain_missing(message)}"
        if claim := MISSING_CLAIM.search(message):
            return (
                f"the volume claim `{claim['name']}` is not there; make it, or correct `volumes:`"
            )
        if "Multi-Attach" in message:
            return (
                "another node holds a volume that only one may have; it starts by itself when that "
                "pod ends"
            )
        return f"a volume cannot be mounted: {_short(message)}; its node tries again by itself"
    if reason == "FailedCreatePodSandBox":
        return f"its node cannot make its pod: {_short(message)}; it is tried again by itself"
    return ""


def explain_eviction(message: str) -> str:
    """Why the kubelet evicted a pod."""
    if volume := re.search(r'EmptyDir volume "([^"]+)" exceeds the limit "([^"]+)"', message):
        return (
            f"it wrote more than {volume[2]} to its volume `{volume[1]}`; ask for more with `shm:` "
            "or `disk:`"
        )
    if re.search(r"ephemeral (?:local )?storage|exceeded its local ephemeral", message):
        most = re.search(r"(?:limit of containers|limit) \"?(\d\S*?)\"?\.?(?:\s|$)", message)
        of = f" its limit of {most[1]}" if most else " it may"
        return f"it wrote more to its scratch disk than{of}; ask for more with `disk:`"
    if low := re.search(r"low on resource: (\S+?)[.,\s]", message + " "):
        noun, key = noun_of(low[1])
        fix = f", ask for as much as it uses with `{key}:`" if key else ""
        return f"its node had no {noun} left{fix}; {AGAIN}"
    return f"its node evicted it: {_short(message)}; {AGAIN}"


def of_pod_reason(reason: str) -> tuple[Cause, str] | None:
    """The cause and the sentence for a pod's own reason; None for one that is no end."""
    for pattern, cause, sentence in POD_REASONS:
        if re.fullmatch(pattern, reason):
            return cause, sentence.format(reason=reason)
    return None


def _explain_pull(reason: str, message: str, image: str) -> str:
    if reason == "InvalidImageName":
        return f"`{image}` is no name of an image; correct `image:`"
    if reason == "ErrImageNeverPull":
        return f"its node does not have the image `{image}` and may not pull it; take another one"
    # What is said of the image may not be taken from its name.
    said = message.replace(image, "")
    why = next((why for pattern, why in PULLS if re.search(pattern, said, re.IGNORECASE)), "")
    if not why:
        why = (
            "correct its name or tag in `image:`, or name a secret with `image_pull_secrets:` "
            "where its registry wants a login; it is tried again by itself"
        )
    return f"the image `{image}` cannot be pulled: {why}"


def _nodes_in_words(nodes: int, parts: list[tuple[int, str]], *, never: bool) -> str:
    short: dict[str, int] = {}
    rest: list[str] = []
    for count, what in parts:
        if match := SHORT.search(what):
            resource = "pods" if match["pods"] else match["what"].rstrip(".,")
            short[resource] = count
        elif said := _of_nodes(what):
            rest.append(f"{count} {said}")
    if not short:
        return f"no node takes it; of {nodes}: {', '.join(rest)}" if rest else ""
    nouns = [noun_of(one) for one in short]
    waits = " and ".join(noun for noun, _ in nouns)
    keys = " and ".join(f"`{key}:`" for _, key in nouns if key)
    said = f"waits for {waits}: not enough is free on {max(short.values())} of {nodes} nodes"
    if never:
        ask = f"; ask for less with {keys}" if keys else ""
        said = f"waits for {waits}: no node that it may use has so much, even empty{ask}"
    return f"{said}; others: {', '.join(rest)}" if rest else said


def _of_nodes(what: str) -> str:
    if match := TAINT.search(what):
        key = (match["key"] or match["old"] or "").strip()
        if key in SYSTEM_TAINTS:
            return SYSTEM_TAINTS[key]
        named = f"the taint `{key}`" if key else "taints that it does not tolerate"
        return f"with {named}, see `tolerations:`"
    return next((said for pattern, said in OTHERS if re.search(pattern, what)), what)


def _short(message: str) -> str:
    """The message in one line that a terminal can show."""
    line = " ".join(message.split()).rstrip(".")
    return line if len(line) <= 200 else f"{line[:200]}…"  # noqa: PLR2004
