"""The Kubernetes backend on a real cluster, as an ordinary user of one namespace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.real.kubernetes_cluster import BUSYBOX, PYTHON

from launchbay.backends.kubernetes.backend import open_kubernetes
from launchbay.core.backend import Opening
from launchbay.core.job import Ship
from launchbay.testing.contract import BackendContract

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.kubernetes_cluster import Namespace

    from launchbay.backends.kubernetes.backend import KubernetesBackend
    from launchbay.core.backend import Backend
    from launchbay.core.job import Command, Job

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture
def tmp_path(namespace: Namespace) -> Path:
    """A folder that is a volume of the cluster, which the namespace's claim is bound to."""
    return namespace.claim("results")


def opened(namespace: Namespace, image: str = BUSYBOX) -> KubernetesBackend:
    """A backend that has looked round."""
    options = {
        "namespace": namespace.name,
        "kubeconfig": str(namespace.kubeconfig),
        "user": "me",
        "image": image,
    }
    opening = Opening(target="lab", options=options, root=namespace.kubeconfig)
    return open_kubernetes(replace(opening, facts=open_kubernetes(opening).survey()))


class KubernetesContract(BackendContract):
    """What every backend promises, with outputs on a claim."""

    image = BUSYBOX

    @pytest.fixture(autouse=True)
    def tools(self, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The cluster's kubectl is the user's."""
        monkeypatch.setenv("PATH", namespace.cluster.environment(namespace.kubeconfig)["PATH"])
        self.marks = tmp_path

    @pytest.fixture
    def backend(self, namespace: Namespace) -> Backend:
        return opened(namespace, self.image)

    def job(self, command: Command) -> Job:
        """A job that keeps what it writes."""
        return replace(
            super().job(command),
            image=self.image,
            ship=Ship(to="claim:results"),
            # What tests look at on this machine, runs have at the same path.
            options={"volumes": {"results": str(self.marks)}},
        )


class TestBusybox(KubernetesContract):
    """An image that has a shell, and no Python."""


class TestPython(KubernetesContract):
    """An image of Debian with Python."""

    image = PYTHON
