"""A person's `bay` with a target `lab` in one namespace of a real Kubernetes."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import eventually
from tests.real.kubernetes_cluster import BUSYBOX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Bay
    from tests.real.kubernetes_cluster import KubernetesCluster, Namespace

MARK = 'echo "$BAY_RUN_ID $BAY_ATTEMPT" >>/marks/marks'
"""What a run does to be counted; a line so short arrives as a whole."""


@dataclass(frozen=True)
class KubernetesDesk:
    """`bay`, the namespace that it works in, and a folder that all pods see at `/marks`."""

    bay: Bay
    namespace: Namespace
    shared: Path

    @property
    def marks(self) -> list[str]:
        """What began: run and attempt, each time that it did."""
        path = self.shared / "marks"
        return path.read_text().splitlines() if path.exists() else []

    def write(self, command: str, **keys: Any) -> None:
        """An experiment whose runs leave a mark and then do the rest."""
        target = {
            "kind": "kubernetes",
            "namespace": self.namespace.name,
            "user": "me",
            "image": BUSYBOX,
            "cpus": "0.1",
            "memory": "64M",
            "volumes": {"marks": "/marks"},
            "outputs_to": "none",
            "look_every": "0s",
            **keys.pop("site", {}),
        }
        text = "".join(f"  {line}\n" for line in [MARK, *command.splitlines()])
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in keys.items()]
        head = f"target: lab\ntargets: {{lab: {json.dumps(target)}}}\n"
        self.bay.write("bay.yaml", f"{head}{''.join(lines)}command: |\n{text}")

    def rows(self) -> list[dict[str, Any]]:
        """Every run, as the target has it now."""
        return list(self.bay.json("ls", "--all"))

    def row(self, **params: str) -> dict[str, Any]:
        """The run of these parameters, as the target has it now."""
        (found,) = [row for row in self.rows() if params.items() <= row["params"].items()]
        return found

    def await_states(self, *states: str) -> list[dict[str, Any]]:
        """The runs, once each is in one of the states."""
        seen: list[dict[str, Any]] = []

        def all_there() -> bool:
            seen[:] = self.rows()
            return bool(seen) and all(row["state"] in states for row in seen)

        try:
            eventually(all_there, within_s=120)
        except pytest.fail.Exception as err:
            told = [(row["id"], row["state"], row["reason"]) for row in seen]
            pytest.fail(f"{err}: {told}\n{self.namespace.admin('get', 'jobs,pods,events')}")
        return seen

    def await_marks(self, number: int) -> None:
        """Wait until so many attempts have begun."""
        eventually(lambda: len(self.marks) >= number)

    def once(self, number: int) -> None:
        """So many runs began, and each only once."""
        ids = sorted(row["id"] for row in self.rows())
        assert len(ids) == number
        assert sorted(self.marks) == [f"{one} 1" for one in ids]

    def jobs(self) -> list[dict[str, Any]]:
        """The Jobs of the namespace, as the cluster has them."""
        found = json.loads(self.namespace.kubectl("get", "jobs", "-o", "json"))
        return list(found["items"])

    def forget_jobs(self) -> None:
        """Take all Jobs and pods away, behind everybody's back."""
        self.namespace.admin("delete", "jobs,pods", "--all", "--grace-period=1")


@contextmanager
def kubernetes_desk(
    bay: Bay, kubernetes: KubernetesCluster, namespace: Namespace
) -> Iterator[KubernetesDesk]:
    """The lab, with claims `marks` and `results`."""
    marks, _ = namespace.claim("marks"), namespace.claim("results")
    bay.extra |= kubernetes.environment(namespace.kubeconfig)
    bay.extra["PATH"] = f"{bay.environment['PATH']}:{kubernetes.binary.parent}"
    yield KubernetesDesk(bay, namespace, marks)
