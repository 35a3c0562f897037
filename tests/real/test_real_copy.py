"""`bay copy` into runs elsewhere: a machine over SSH, and a Slurm behind it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import end_queue, eventually

from launchbay.hosts.ssh import SSHHost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Bay
    from tests.real.conftest import Sshd
    from tests.real.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.real]
BYTES = bytes(range(256)) * 4
CONFIG = """\
targets:
  brc: {{kind: slurm, host: box, partition: main, root: {root}, look_every: 0s}}
  plain: {{kind: machine, host: box, root: {root}}}
"""


@pytest.fixture
def far(bay: Bay, sshd: Sshd, control: Path) -> Iterator[Bay]:
    """`bay` with targets of another account."""
    account = Path(tempfile.mkdtemp(dir=sshd.home))
    shutil.chown(account, sshd.account)
    sshd.give({"XDG_STATE_HOME": str(account / "state")})
    bay.extra = {"BAY_SSH_CONFIG": str(sshd.config), "XDG_RUNTIME_DIR": str(control)}
    config = bay.home / "config" / "launchbay" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG.format(root=account / "bay"))
    yield bay
    end_queue(account / "state")
    SSHHost("box", config=sshd.config).close()
    shutil.rmtree(account, ignore_errors=True)


def copies(bay: Bay, target: str) -> None:
    """A run there goes on once a file of this machine has come, and has it byte for byte."""
    text = "until [ -e data/go ]; do sleep 0.1; done; cksum <data/bytes"
    bay("run", "-q", "-d", "--target", target, "sh", "-c", text)
    eventually(lambda: bay.states() == ["running"])
    bay.write("data/go", "")
    (bay.project / "data" / "bytes").write_bytes(BYTES)
    (row,) = bay.json("ls")
    said = bay("copy", row["id"], "data/bytes", "data/go")
    bay("wait", row["id"])

    assert said.out.splitlines() == ["data/bytes", "data/go"]
    assert bay("logs", row["id"]).out.split()[1] == str(len(BYTES))
    assert "does not run: it has succeeded" in bay("copy", row["id"], "data/go", code=2).err


def test_into_a_run_over_ssh(far: Bay) -> None:
    """A machine behind SSH takes files into its runs."""
    copies(far, "plain")


def test_into_a_run_of_slurm(far: Bay, sshd: Sshd, slurm: SlurmCluster) -> None:
    """A Slurm behind SSH takes files into its runs."""
    sshd.give(slurm.environment())
    copies(far, "brc")
