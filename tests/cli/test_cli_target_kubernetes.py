"""`bay target add` for a Kubernetes, with a `kubectl` that answers from files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import Terminal
from tests.stubs import write_program

from launchbay.engine.kubernetes_arrival import describe_cluster, parse_contexts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

# Leaves the flags of the place out and answers the rest by its first words.
KUBECTL = """\
#!/bin/sh
here={folder}
while :; do
    case $1 in --*) shift ;; *) break ;; esac
done
case "$1 $2" in
    'config view') cat "$here/contexts" ;;
    'get namespaces') cat "$here/namespaces" 2>/dev/null || {{ echo "{forbidden}" >&2; exit 1; }} ;;
    'get nodes') echo "{forbidden}" >&2; exit 1 ;;
    'get namespace') echo "namespace/$3" ;;
    'get localqueues'*) cat "$here/queues" ;;
    'get resourcequotas'*) cat "$here/objects" ;;
    'version -o') echo '{{"serverVersion": {{"gitVersion": "v1.34.1"}}}}' ;;
    'create -f') printf '{{"verb":"create","group":"batch","resource":"jobs"}}\\ttrue\\n' ;;
    *) echo '{{"items": []}}' ;;
esac
"""
FORBIDDEN = "Error from server (Forbidden): nodes is forbidden: User cannot list resource nodes"
DETAILS: dict[str, Any] = {
    "version": "1.34.1",
    "nodes": None,
    "quotas": [],
    "limits": [],
    "claims": [],
    "queues": [],
    "classes": None,
    "storage": None,
    "unknown": [],
}


@dataclass
class Cluster:
    """What the stand-in tells."""

    folder: Path

    def contexts(self, current: str = "", **namespaces: str) -> None:
        found = [{"name": name, "context": {"namespace": own}} for name, own in namespaces.items()]
        self._write("contexts", {"current-context": current, "contexts": found})

    def namespaces(self, *names: str) -> None:
        (self.folder / "namespaces").write_text("".join(f"namespace/{name}\n" for name in names))

    def queues(self, *names: str) -> None:
        self._write("queues", {"items": [{"metadata": {"name": name}} for name in names]})

    def claims(self, *names: str) -> None:
        items = [
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name},
                "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"]},
            }
            for name in names
        ]
        self._write("objects", {"items": items})

    def _write(self, name: str, data: object) -> None:
        (self.folder / name).write_text(json.dumps(data))


@pytest.fixture
def cluster(bay: Bay, tmp_path: Path) -> Cluster:
    """Two contexts, of which `lab` has a namespace; no claims and no queues."""
    folder = tmp_path / "cluster"
    text = KUBECTL.format(folder=folder, forbidden=FORBIDDEN)
    program = write_program(folder / "bin" / "kubectl", text)
    bay.extra["PATH"] = f"{program.parent}:{bay.environment['PATH']}"
    made = Cluster(folder)
    made.contexts("other", lab="mine", other="")
    made.claims()
    made.queues()
    return made


def written(bay: Bay, name: str = "kub") -> dict[str, str]:
    found: dict[str, str] = bay.json("target", "show", name)["options"]
    return found


def add(bay: Bay, *words: str, code: int | None = 0) -> str:
    return bay("target", "add", "kub", *words, code=code).err


def test_a_context_is_a_place(bay: Bay, cluster: Cluster) -> None:
    """A word that is a context of `kubectl` makes a Kubernetes of its own namespace."""
    said = add(bay, "lab", "--yes", code=None)

    assert written(bay) == {"context": "lab", "namespace": "mine"}
    assert "namespaces may not be listed here\n" in said
    assert "nodes may not be listed here: sizes and GPU types are not checked\n" in said


def test_the_only_claim_takes_the_outputs(bay: Bay, cluster: Cluster) -> None:
    """Where there is one claim, or one queue, that is it."""
    cluster.claims("results")
    cluster.queues("team")
    add(bay, "lab", "--yes", "--image", "python:3.12", code=None)

    assert written(bay) == {
        "context": "lab",
        "namespace": "mine",
        "image": "python:3.12",
        "outputs_to": "claim:results",
        "queue": "team",
    }


def test_nobody_answers(bay: Bay, cluster: Cluster) -> None:
    """What has no default and cannot be asked is an error that names the flag and the choice."""
    cluster.claims("a", "b")
    cluster.queues("x", "y")
    said = add(bay, "lab", code=2)

    assert "error: `kub` is not complete, and nobody said --outputs-to, --queue\n" in said
    assert "hint: outputs_to: claim:a, claim:b, a bucket or none; queue: x, y\n" in said


def test_a_context_without_a_namespace(bay: Bay, cluster: Cluster) -> None:
    """Where neither the context nor a flag says it, the namespace is asked for by its flag."""
    cluster.namespaces("red", "blue")
    said = add(bay, "other", "--yes", code=2)

    assert said.endswith(
        "error: `kub` is not complete, and nobody said --namespace\n\nhint: namespace: red, blue\n"
    )


def test_every_answer_is_a_flag(bay: Bay, cluster: Cluster) -> None:
    """With flags for all nothing is asked, and they are written in a fixed order."""
    cluster.claims("a", "b")
    flags = ("--claim", "b", "--queue", "q", "--user", "she", "--namespace", "n")
    add(bay, "other", "--yes", *flags, code=None)

    assert list(written(bay).items()) == [
        ("context", "other"),
        ("namespace", "n"),
        ("user", "she"),
        ("outputs_to", "claim:b"),
        ("queue", "q"),
    ]


def test_a_person_is_asked(bay: Bay, cluster: Cluster) -> None:
    """In a terminal each thing is asked for where it depends on the answer before."""
    cluster.namespaces("red", "blue")
    cluster.claims("a", "b")
    terminal = Terminal(bay, "target", "add", "kub", "other")
    terminal.until("namespace: ")
    terminal.type("blue\n")
    terminal.until("image, unless each experiment names its own: ")
    terminal.type("\n")
    terminal.until("a bucket or none: ")
    terminal.type("claim:a\n")
    terminal.until("[y/N]: ")
    terminal.type("y\n")
    terminal.end()

    assert written(bay) == {"context": "other", "namespace": "blue", "outputs_to": "claim:a"}


def test_an_unknown_context(bay: Bay, cluster: Cluster) -> None:
    """A context that `kubectl` does not have is answered with those that it has."""
    said = add(bay, "--context", "lba", "--yes", code=1)

    assert said == "error: `kubectl` has no context `lba`\n\nhint: it has `lab`, `other`\n"


def test_a_namespace_can_be_written_unseen(bay: Bay, cluster: Cluster) -> None:
    """Whoever says context and namespace may add a cluster that does not answer now."""
    said = add(bay, "--context", "gone", "--namespace", "mine", "--yes", code=None)

    assert "warning: `kubectl` has no context `gone`; so it is written as it was typed\n" in said
    assert written(bay) == {"context": "gone", "namespace": "mine"}


def test_contexts_as_kubectl_tells_them() -> None:
    """A file without any context, as a new one is, has none."""
    nothing = parse_contexts('{"contexts": null, "current-context": ""}')

    assert (nothing.current, nothing.namespaces) == ("", {})


def test_what_is_said_of_a_cluster() -> None:
    """Nodes by their GPUs, quotas, claims and what else can be named stand in a line each."""
    node = {
        "name": "n",
        "ready": True,
        "product": "A100",
        "cpus": 8,
        "memory_mib": 1,
        "resources": {"nvidia.com/gpu": 4},
        "taints": [],
        "labels": {},
    }
    seen = describe_cluster(
        {
            **DETAILS,
            "nodes": [node, {**node, "product": "", "resources": {}}],
            "quotas": [{"name": "q", "hard": {"pods": 9}, "used": {"pods": 2}}],
            "claims": [{"name": "c", "size": "5Gi", "phase": "Bound", "modes": ["ReadWriteOnce"]}],
            "queues": ["team"],
            "classes": ["low", "system-node-critical"],
            "unknown": ["something"],
        }
    )

    assert seen.lines == (
        "Kubernetes 1.34.1",
        "1 node with A100, 4 in all",
        "1 node without GPUs",
        "quota q: 2 of 9 pods used",
        "claim c: 5Gi, Bound, one node at a time",
        "queues: team",
        "priority classes: low",
        "something",
    )
    assert {one.key: one.default for one in seen.questions} == {
        "image": "",
        "outputs_to": "claim:c",
        "queue": "team",
    }


def test_a_cluster_without_claims() -> None:
    """Where outputs could go nowhere, that is said with the way out, and asked for."""
    seen = describe_cluster(DETAILS)

    assert seen.lines[-1].startswith("no claims; `bay storage init` makes one")
    assert [(one.key, one.needed) for one in seen.questions] == [
        ("image", False),
        ("outputs_to", False),
    ]
    assert "s3://BUCKET/PATH or none" in seen.questions[1].what
