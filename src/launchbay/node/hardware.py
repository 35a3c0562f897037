"""What this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess

LONGEST_ANSWER_S = 20


def usable_cpus() -> int:
    """Processors that we may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_mib() -> int | None:
    """All of the memory; None where nobody tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    except (ValueError, OSError):
        return None


def read_gpus() -> list[list[str]]:
    """Id and name of each GPU; exactly those of CUDA_VISIBLE_DEVICES in a batch allocation."""
    rows = _ask_nvidia("--query-gpu=", "index", "uuid", "name")
    given = os.environ.get("CUDA_VISIBLE_DEVICES") if os.environ.get("SLURM_JOB_ID") else None
    if given is None:
        return [[index, name] for index, _, name in rows]
    names = {key: name for index, uuid, name in rows for key in (index, uuid)}
    return [[item, names.get(item, "")] for item in given.split(",") if item]


def busy_gpus() -> set[str]:
    """Index and UUID of the GPUs on which other people's processes run."""
    index_of = {uuid: index for index, uuid in _ask_nvidia("--query-gpu=", "index", "uuid")}
    busy = set()
    for uuid, pid in _ask_nvidia("--query-compute-apps=", "gpu_uuid", "pid"):
        try:
            others = os.stat("/proc/%s" % pid).st_uid != os.getuid()
        except OSError:
            # Outside our view of processes, so not one of ours.
            others = True
        if others:
            busy.update({uuid, index_of.get(uuid, uuid)})
    return busy


def find_programs() -> list[str]:
    """The programs here that copy data; a stub that only complains is none."""
    asked = {
        "bay": ["carry", "--help"],
        "s5cmd": ["version"],
        "rclone": ["version"],
        "aws": ["--version"],
        "curl": ["--version"],
        "python3": ["--version"],
    }
    return [name for name, words in asked.items() if shutil.which(name) and _works([name, *words])]


def _works(argv: list[str]) -> bool:
    null = subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv, stdin=null, stdout=null, stderr=null, timeout=LONGEST_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _ask_nvidia(query: str, *columns: str) -> list[list[str]]:
    try:
        done = subprocess.run(
            ["nvidia-smi", query + ",".join(columns), "--format=csv,noheader"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=LONGEST_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stdout.decode("utf-8", "replace").splitlines() if not done.returncode else []
    # The name comes last and may hold commas.
    rows = [[part.strip() for part in line.split(",", len(columns) - 1)] for line in lines]
    return [row for row in rows if len(row) == len(columns)]
