"""How runs in pods are ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.stubs import write_program

from launchbay.backends.kubernetes.backend import KubernetesBackend, KubernetesOptions
from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.words import CANCELLED
from launchbay.core.run import Handle
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from pathlib import Path

NAME = "run-aaaaa"
JOB = {"kind": "Job", "metadata": {"name": NAME, "creationTimestamp": None}, "spec": {}}
STARTING = {"state": {"waiting": {"reason": "ContainerCreating"}}}
RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
KUBECTL = """\
#!/bin/sh
printf '%s\\n' "$*" >>"$0.asked"
case $* in
*" get events "*) echo '{"items": []}' ;;
*" get "*) cat "$0.objects" ;;
*" exec "*) exit "$(cat "$0.exec")" ;;
esac
"""


def pod(container: dict[str, Any], node: str) -> dict[str, Any]:
    labels = {"batch.kubernetes.io/job-name": NAME}
    return {
        "kind": "Pod",
        "metadata": {"name": f"{NAME}-x1", "labels": labels, "creationTimestamp": None},
        "spec": {"nodeName": node},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "main", **container}]},
    }


@pytest.mark.parametrize(
    ("container", "node", "code", "asked", "suspended"),
    [
        (RUNNING, "n1", 0, True, False),
        (RUNNING, "n1", 1, True, True),
        # A node tells the cluster a moment later that a container runs.
        (STARTING, "n1", 0, True, False),
        (STARTING, "n1", 1, True, True),
        (STARTING, "", 0, False, True),
    ],
)
def test_run_that_may_have_begun_ends_from_inside(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    container: dict[str, Any],
    node: str,
    code: int,
    *,
    asked: bool,
    suspended: bool,
) -> None:
    """So that its pod and its log stay; what nobody can be in is ended by the cluster."""
    program = tmp_path / "kubectl"
    write_program(program, KUBECTL)
    (tmp_path / "kubectl.objects").write_text(json.dumps({"items": [JOB, pod(container, node)]}))
    (tmp_path / "kubectl.exec").write_text(str(code))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    options = KubernetesOptions(user="me")
    backend = KubernetesBackend("lab", options, Kubectl(LocalHost(), "lab", "space"))
    backend.cancel([Handle(NAME, "lab", NAME)])
    said = (tmp_path / "kubectl.asked").read_text()

    assert ("kill -TERM 1" in said) is asked
    assert ('"suspend": true' in said) is suspended
    assert f'"{CANCELLED}": "yes"' in said
