"""The Slurm that other tests use: whole, closed to the outside, and left as it was found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually, require_program
from tests.real.slurm_cluster import (
    NODES,
    PROGRAMS,
    SlurmCluster,
    can_enforce_memory,
    named_on_loopback,
)

if TYPE_CHECKING:
    from tests.real.conftest import Sshd

pytestmark = [pytest.mark.slow, pytest.mark.real]


def submit(cluster: SlurmCluster, *words: str, user: str | None = None) -> str:
    """Submit a job and give back its id."""
    done = cluster.run("sbatch", "--parsable", "-o", "/dev/null", *words, user=user)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def shown(cluster: SlurmCluster, job: str) -> dict[str, str]:
    """What the controller says of a job."""
    done = cluster.run("scontrol", "-o", "show", "job", job)
    return dict(word.partition("=")[::2] for word in done.stdout.split())


def reaches(cluster: SlurmCluster, job: str, state: str) -> None:
    eventually(lambda: shown(cluster, job).get("JobState") == state)


def test_four_nodes_are_idle(slurm: SlurmCluster) -> None:
    """All four nodes are free in the partition for all, two of them in the one with GPUs."""
    said = slurm.run("sinfo", "-h", "-o", "%P %T %D %G").stdout.splitlines()
    assert {"main* idle 2 gpu:a100:2", "main* idle 2 (null)", "gpu idle 2 gpu:a100:2"} <= set(said)


def test_an_array_runs_as_the_account(slurm: SlurmCluster, sshd: Sshd) -> None:
    """Every task of an ordinary account's array runs as that account and writes its file."""
    script = "#!/bin/sh\nid -un > $SLURM_ARRAY_TASK_ID.txt\n"
    words = ("sbatch", "--parsable", "--array=0-7", "-o", "/dev/null")
    done = slurm.run(*words, user=sshd.account, cwd=sshd.home, input=script)
    assert done.returncode == 0, done.stderr
    eventually(slurm.empty, within_s=180)
    written = [(sshd.home / f"{number}.txt").read_text() for number in range(8)]
    assert written == [f"{sshd.account}\n"] * 8


def test_gpus_are_scheduled(slurm: SlurmCluster) -> None:
    """A job that asks for a GPU is told that it has one; a third on a node is refused."""
    done = slurm.run("srun", "--gres=gpu:a100:1", "sh", "-c", "echo $SLURM_GPUS_ON_NODE")
    assert done.stdout == "1\n", done.stderr
    refused = slurm.run("sbatch", "--gres=gpu:3", "--wrap", "true")
    assert "Requested node configuration is not available" in refused.stderr


def test_ssh_sessions_speak_to_the_cluster(slurm: SlurmCluster, sshd: Sshd) -> None:
    """A session over SSH finds the cluster through what sshd sets for it."""
    job = submit(slurm, "--hold", "--wrap", "true", user=sshd.account)
    words = ["ssh", "-F", str(sshd.config), "box", "squeue -h -o %i.%u"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == f"{job}.{sshd.account}\n"


def test_nothing_is_open_beyond_loopback(counted: SlurmCluster) -> None:
    """No daemon with a port listens on an address that others could reach."""
    if not named_on_loopback():
        pytest.skip("this machine's own name is not on loopback")
    assert {port: _listening(port) for port in counted.ports.values()} == {
        port: {"0100007F"} for port in counted.ports.values()
    }


def _listening(port: int) -> set[str]:
    """The addresses, as the kernel writes them, on which somebody listens at a port."""
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    ends = [words[1].split(":") for words in lines if words[3] == "0A"]
    return {address for address, number in ends if int(number, 16) == port}


def test_the_controller_comes_back_with_its_jobs(slurm: SlurmCluster) -> None:
    """A restarted controller still knows the job that waits and the one that runs."""
    waits = submit(slurm, "--hold", "--wrap", "true")
    runs = submit(slurm, "--wrap", "sleep 600")
    reaches(slurm, runs, "RUNNING")
    slurm.restart_controller()
    assert shown(slurm, waits)["JobState"] == "PENDING"
    assert shown(slurm, runs)["JobState"] == "RUNNING"


def test_a_killed_controller_gives_no_id_again(slurm: SlurmCluster) -> None:
    """What it forgot when it was killed nodes remember, and would refuse to start."""
    forgotten = submit(slurm, "--wrap", "true")
    slurm.restart_controller(signal.SIGKILL)

    assert int(submit(slurm, "--wrap", "true")) > int(forgotten)


def test_what_a_test_broke_is_mended(slurm: SlurmCluster) -> None:
    """Between tests a controller and a node that ended are back, and no node stays drained."""
    submit(slurm, "--array=0-20", "--wrap", "trap '' TERM; sleep 600 & wait")
    slurm.run("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    slurm.processes["n4"].kill()
    slurm.stop_controller(signal.SIGKILL)
    slurm.clean()
    assert slurm.empty()
    assert slurm.idle()
    assert [slurm.node_processes(name) for name in NODES] == [[]] * 4


def test_a_dead_node_takes_its_job_with_it(slurm: SlurmCluster) -> None:
    """Nothing runs on a killed node, the job fails with it, and the node can come back."""
    job = submit(slurm, "--no-requeue", "-w", "n2", "--wrap", "sleep 600")
    reaches(slurm, job, "RUNNING")
    eventually(lambda: len(slurm.node_processes("n2")) > 1)
    slurm.fail_node("n2")
    assert slurm.node_processes("n2") == []
    reaches(slurm, job, "NODE_FAIL")
    slurm.start_node("n2")
    eventually(slurm.idle)


def test_urgent_work_pushes_out_the_low(slurm: SlurmCluster) -> None:
    """A job in `low` is requeued for one in `urgent` that needs its node; one in `main` stays."""
    low = submit(slurm, "-p", "low", "-w", "n3", "--exclusive", "--wrap", "sleep 600")
    main = submit(slurm, "-p", "main", "-w", "n4", "--exclusive", "--wrap", "sleep 600")
    reaches(slurm, low, "RUNNING")
    reaches(slurm, main, "RUNNING")
    urgent = submit(slurm, "-p", "urgent", "-w", "n3", "--exclusive", "--wrap", "sleep 600")
    reaches(slurm, urgent, "RUNNING")
    assert shown(slurm, low)["JobState"] == "PENDING"
    assert shown(slurm, low)["Restarts"] == "1"
    assert shown(slurm, main)["JobState"] == "RUNNING"


def test_sacct_answers(counted: SlurmCluster, sshd: Sshd) -> None:
    """Accounting tells an ordinary account how its job ended."""
    job = submit(counted, "--wrap", "exit 3", user=sshd.account)
    asked = ("sacct", "-X", "-n", "-P", "-j", job, "-o", "state,exitcode,account")
    eventually(
        lambda: counted.run(*asked, user=sshd.account).stdout.strip() == "FAILED|3:0|lab",
        within_s=30,
    )


def test_the_submit_limit_is_enforced(counted: SlurmCluster, sshd: Sshd) -> None:
    """The account may have 500 tasks in the queue and not one more; arrays end at index 100."""
    for _ in range(5):
        submit(counted, "--hold", "--array=0-99", "--wrap", "true", user=sshd.account)
    refused = counted.run("sbatch", "--hold", "--wrap", "true", user=sshd.account)
    assert "job submit limit" in refused.stderr
    submit(counted, "--hold", "--array=0-100", "--wrap", "true")
    refused = counted.run("sbatch", "--hold", "--array=0-101", "--wrap", "true")
    assert "Invalid job array specification" in refused.stderr


def test_a_stopped_cluster_leaves_nothing(plain_slurm: SlurmCluster) -> None:
    """A second cluster lives beside the first, and with it end its folder, daemons and jobs."""
    other = SlurmCluster()
    try:
        other.start()
        job = submit(other, "--wrap", "trap '' TERM; sleep 600 & wait")
        reaches(other, job, "RUNNING")
        assert plain_slurm.folder != other.folder
        ours = {process.pid for process in other.processes.values()}
        ours |= {pid for name in NODES for pid in other.node_processes(name)}
    finally:
        other.stop()
    assert not other.folder.exists()
    eventually(lambda: not any(Path(f"/proc/{pid}/cwd").exists() for pid in ours))


def test_too_much_memory_ends_a_job() -> None:
    """A cluster that enforces memory says of a job that took more: out of memory."""
    if os.getuid() or not can_enforce_memory():
        pytest.skip("limits of memory need root and control groups of version 1")
    for program in PROGRAMS:
        require_program(program)
    cluster = SlurmCluster(enforce_memory=True)
    try:
        cluster.start()
        greedy = f"{sys.executable} -c 'bytearray(10**9)'"
        job = submit(cluster, "--mem=50", "--wrap", greedy)
        reaches(cluster, job, "OUT_OF_MEMORY")
        assert shown(cluster, job)["ExitCode"] == "0:125"
    finally:
        cluster.stop()
