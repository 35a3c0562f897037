"""The Slurm backend on a real cluster: here and over SSH, with accounting and without."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from launchbay.backends.depot import Depot
from launchbay.backends.slurm.backend import SlurmBackend, SlurmOptions
from launchbay.core.run import Handle
from launchbay.hosts.local import LocalHost
from launchbay.testing.contract import BackendContract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.conftest import Sshd
    from tests.real.slurm_cluster import SlurmCluster

    from launchbay.core.backend import Backend
    from launchbay.core.host import Host
    from launchbay.hosts.ssh import SSHHost

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture
def tmp_path(sshd: Sshd) -> Iterator[Path]:
    """A folder that the ordinary account can write, too."""
    folder = Path(tempfile.mkdtemp(prefix="bay-root-", dir="/tmp"))
    folder.chmod(0o755)
    shutil.chown(folder, sshd.account)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def opened(host: Host, root: Path) -> SlurmBackend:
    """A backend that has looked round."""
    depot = Depot(host, root, target="brc", programs="root")
    options = SlurmOptions(root=root)
    facts = SlurmBackend("brc", options, depot).survey()
    return SlurmBackend("brc", options, depot, facts=facts)


class SlurmContract(BackendContract):
    """What every backend promises, on a target that numbers jobs by itself."""

    def stranger(self, known: Handle) -> Handle:
        """A job that this cluster never had."""
        return Handle("gone-aaaaa", known.target, "999999_7")


class TestSlurmHere(SlurmContract):
    """Slurm's commands are on this machine; no accounting."""

    @pytest.fixture
    def backend(self, slurm: SlurmCluster, tmp_path: Path) -> Backend:
        return opened(LocalHost(), tmp_path / "root")


class TestCountedSlurmHere(SlurmContract):
    """Slurm's commands are on this machine; with accounting and limits."""

    @pytest.fixture
    def backend(self, counted: SlurmCluster, tmp_path: Path) -> Backend:
        return opened(LocalHost(), tmp_path / "root")


class TestSlurmOverSSH(SlurmContract):
    """An ordinary account on a login host; no accounting."""

    @pytest.fixture
    def backend(self, slurm: SlurmCluster, box: SSHHost, tmp_path: Path) -> Backend:
        return opened(box, tmp_path / "root")


class TestCountedSlurmOverSSH(SlurmContract):
    """An ordinary account on a login host; with accounting and limits."""

    @pytest.fixture
    def backend(self, counted: SlurmCluster, box: SSHHost, tmp_path: Path) -> Backend:
        return opened(box, tmp_path / "root")


def test_account_is_ordinary(slurm: SlurmCluster, box: SSHHost) -> None:
    """What the tests over SSH show is shown for somebody who is not root."""
    assert box.run(["id", "-u"]).stdout.strip() != str(os.getuid())
