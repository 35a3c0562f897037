"""GPU slots: never given twice, whoever asks."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from tests.conftest import Bay

if TYPE_CHECKING:
    from pathlib import Path

SMI = """#!/bin/sh
case "$1" in
--query-gpu=index,uuid,name) for i in 0 1 2 3; do echo "$i, GPU-$i, NVIDIA A100-SXM4"; done ;;
--query-gpu=index,uuid) for i in 0 1 2 3; do echo "$i, GPU-$i"; done ;;
esac
"""
PROGRAM = """
import json, os, sys, time
began = time.time()
time.sleep(0.15)
with open(sys.argv[1], "a") as file:
    ids, need = os.environ["CUDA_VISIBLE_DEVICES"], float(sys.argv[2])
    file.write(json.dumps([ids, need, began, time.time()]) + "\\n")
"""


@pytest.fixture
def gpus(bay: Bay) -> Bay:
    """A machine with four GPUs, by a stand-in nvidia-smi."""
    tools = bay.home / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(SMI)
    (tools / "nvidia-smi").chmod(0o755)
    bay.extra = {"PATH": f"{tools}:{bay.environment['PATH']}", "CUDA_VISIBLE_DEVICES": "7"}
    return bay


def records(path: Path) -> list[tuple[list[str], float, float, float]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [(ids.split(","), need, began, ended) for ids, need, began, ended in rows]


def test_no_gpu_is_given_twice(gpus: Bay) -> None:
    """Forty runs of mixed need, two projects, two target names: by the programs' own records."""
    record = gpus.home / "record"
    other = Bay(home=gpus.home, project=gpus.home / "other", extra=gpus.extra)
    other.project.mkdir()
    gpus("target", "add", "desk", "--kind", "machine", "--yes")
    for bay in (gpus, other):
        bay.write("main.py", PROGRAM)
    needs = {"1": 8, "2": 4, "0.5": 6, "4": 2}
    for bay, target in ((gpus, "local"), (other, "desk")):
        for need, number in needs.items():
            words = ("run", "-q", "-d", "-t", target, "--gpus", need, f"seed=1..{number}")
            bay(*words, "--name", f"need-{need}", "python3", "main.py", str(record), need, "<seed>")
    gpus("wait", "--everywhere", "--state", "queued,running,succeeded,failed")
    seen = records(record)

    assert len(seen) == 40
    assert all(len(ids) == max(1, int(need)) for ids, need, _, _ in seen)
    _check_never_over_given(seen)
    assert _most_busy(seen) == 4


def _check_never_over_given(seen: list[tuple[list[str], float, float, float]]) -> None:
    for device in "0123":
        changes = sorted(
            change
            for ids, need, began, ended in seen
            if device in ids
            for change in ((began, min(need, 1.0)), (ended, -min(need, 1.0)))
        )
        used = 0.0
        for _, change in changes:
            used += change
            assert used <= 1.0 + 1e-9, device


def _most_busy(seen: list[tuple[list[str], float, float, float]]) -> int:
    moments = sorted({moment for _, _, began, ended in seen for moment in (began, ended)})
    busy = [
        {
            device
            for ids, _, began, ended in seen
            if began <= early and ended >= late
            for device in ids
        }
        for early, late in pairwise(moments)
    ]
    return max(map(len, busy))


def test_more_gpus_than_there_are_is_refused_at_plan_time(gpus: Bay) -> None:
    """Five of four can never be; nothing is submitted."""
    said = gpus("plan", "--gpus", "5", "true", code=2)
    run = gpus("run", "--gpus", "5", "true", code=2)

    assert said.err.splitlines()[0] == "error: `local` has 4 GPUs; `project-?????` wants 5"
    assert run.err.splitlines()[0] == said.err.splitlines()[0]
    assert gpus.json("ls", "--all") == []


def test_one_gpu_unless_asked_and_none_on_request(gpus: Bay) -> None:
    """On a machine with GPUs a run has one; `--gpus 0` hides them; the shell's are not sent."""
    show = 'echo "[$CUDA_VISIBLE_DEVICES]"'

    assert gpus("run", "--", "sh", "-c", show).out == "[0]\n"
    assert gpus("run", "--gpus", "0", "--", "sh", "-c", show).out == "[]\n"


def test_type_of_gpu_is_checked(gpus: Bay) -> None:
    """A type that the machine does not have is refused with what it has."""
    gpus("run", "-q", "--gpu-type", "a100", "true")
    said = gpus("run", "--gpu-type", "h100", "--gpus", "1", "true", code=2)

    assert (
        said.err.splitlines()[0]
        == "error: `local` has no GPUs of type h100; `project-?????` wants 1"
    )
