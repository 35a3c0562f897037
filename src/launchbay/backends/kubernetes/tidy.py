"""Objects that no Job needs any more: the code, programs and secrets of runs that were removed.

What is in them is never asked for: only their names, their age, and who refers to them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.calls import chunked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl

OURS = f"{words.ROLE} in (code,node,plan,secret)"
AGES = (
    '-o=jsonpath={range .items[*]}{.kind}{" "}{.metadata.name}{" "}{.metadata.creationTimestamp}'
    '{" "}{.metadata.annotations.launchbay/used}{"\\n"}{end}'
)
NAMES = 200
USED_AGAIN_S = 86_400
"""After a day it is noted that somebody uses them still."""


def find_leftovers(kubectl: Kubectl, selector: str, *, before: float) -> list[str]:
    """What is chosen, that nobody refers to and nobody has used since then, as `KIND/NAME`."""
    # Code of the same content is one object, whoever sent it first: others may still need ours.
    users = f"{words.MANAGED}={words.OURS}"
    needed = set(_needed(kubectl.get("jobs,pods", "-l", users)))
    listed = kubectl.said("get", "configmaps,secrets", "-l", f"{selector},{OURS}", AGES)
    found = []
    for line in listed.splitlines():
        kind, name, made, *used = line.split(" ")
        seen_at = max(parse_moment(made), float(used[0]) if used and used[0] else 0.0)
        if seen_at < before and f"{kind.lower()}/{name}" not in needed:
            found.append(f"{kind.lower()}/{name}")
    return found


def remove_leftovers(kubectl: Kubectl, names: Sequence[str]) -> None:
    """Remove these; gone already is fine."""
    for some in chunked(names, NAMES):
        kubectl.said("delete", *some, "--ignore-not-found", "--wait=false")


def is_long_ago(made: str, used: str, *, now: float) -> bool:
    """Whether it is time to note that an object is in use still."""
    return max(parse_moment(made), float(used or 0)) < now - USED_AGAIN_S


def _needed(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What Jobs and pods refer to."""
    for one in found:
        spec = one["spec"].get("template", one).get("spec", {})
        for volume in spec.get("volumes", ()):
            yield from _sources([volume, *volume.get("projected", {}).get("sources", ())])
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            for source in container.get("envFrom", ()):
                yield f"secret/{source.get('secretRef', {}).get('name')}"


def _sources(volumes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for volume in volumes:
        if name := volume.get("configMap", {}).get("name"):
            yield f"configmap/{name}"
        secret = volume.get("secret", {})
        if name := secret.get("secretName") or secret.get("name"):
            yield f"secret/{name}"


def parse_moment(text: str) -> float:
    """When it was, as the cluster writes it."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
