"""What of a machine is held, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conftest import eventually
from tests.node.workshop import Desk, make_job

if TYPE_CHECKING:
    from pathlib import Path

NVIDIA = """#!/bin/sh
case $1 in
*index,uuid,name) echo '0, GPU-a, A100'; echo '1, GPU-b, A100'; echo '2, GPU-c, A100' ;;
*index,uuid) echo '0, GPU-a'; echo '1, GPU-b'; echo '2, GPU-c' ;;
*) echo 'GPU-c, 999999999'; echo 'GPU-a, 999999999' ;;
esac
"""


def test_what_runs_hold_is_told(desk: Desk, tmp_path: Path) -> None:
    """Amounts of what runs are summed, what waits is counted, GPUs of others are named."""
    desk.tools = tmp_path / "tools"
    desk.tools.mkdir()
    (desk.tools / "nvidia-smi").write_text(NVIDIA)
    (desk.tools / "nvidia-smi").chmod(0o755)
    needs = {"cpus": 1, "memory_mib": 10, "gpus": 0.5, "devices": ["0"]}
    caps = {"sweep e": [1, "`parallel` of `e`"]}
    (nothing,) = desk.call("capacity")
    assert not desk.state.exists()
    desk.add(*(make_job(run, ["sleep", "600"], needs=needs, caps=caps) for run in ("a", "b")))
    desk.until("running", "a")
    eventually(lambda: desk.call("capacity")[0]["running"])
    (seen,) = desk.call("capacity")

    assert (nothing["running"], nothing["waiting"], nothing["busy_gpus"]) == (0, 0, ["0", "2"])
    assert seen["held"] == {"cpus": 1, "memory_mib": 10, "gpus": 0.5}
    assert (seen["running"], seen["waiting"], seen["total"]["gpus"]) == (1, 1, 3)
    # The processes on our own GPU are the run's.
    assert seen["busy_gpus"] == ["2"]
