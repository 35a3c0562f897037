"""Short runs on this machine, beside GNU parallel and submitit's local executor.

1,000 no-op runs, two at a time, from the typed command to the last record. Bounds: at most 1.3
times the time of `parallel --joblog --results` in the same minute, and at least ten times as many
a second as submitit's local executor (which is given 20).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 1_000
PEER_RUNS = 20
ROUNDS = 3
SUBMITIT = """
import sys, submitit
executor = submitit.LocalExecutor(folder=sys.argv[1])
jobs = []
for number in range(int(sys.argv[2])):
    while sum(not job.done() for job in jobs) >= 2:
        pass
    jobs.append(executor.submit(abs, number))
for job in jobs:
    job.result()
"""


def main() -> int:
    """Print every figure with its bound; 1 when one is missed."""
    if shutil.which("parallel") is None:
        print("GNU parallel is not installed")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, theirs = [], []
        for number in range(ROUNDS):
            theirs.append(time_parallel(folder / f"parallel-{number}"))
            ours.append(time_bay(folder / f"bay-{number}"))
        submitit = time_submitit(folder / "submitit")
    best, peer = min(ours), min(theirs)
    rate, slow = RUNS / best, PEER_RUNS / submitit
    print(f"bay run        {best:6.2f} s  {rate:6.0f} runs a second  (all rounds: {rounds(ours)})")
    print(
        f"GNU parallel   {peer:6.2f} s  {RUNS / peer:6.0f} a second  (all rounds: {rounds(theirs)})"
    )
    print(f"submitit       {submitit:6.2f} s  {slow:6.1f} a second, of {PEER_RUNS}")
    claims = {
        f"at most 1.3 × GNU parallel ({best / peer:.2f})": best <= 1.3 * peer,
        f"at least 10 × submitit ({rate / slow:.0f})": rate >= 10 * slow,
    }
    for claim, held in claims.items():
        print(f"{'ok' if held else 'MISSED':<6} {claim}")
    return 0 if all(claims.values()) else 1


def rounds(times: list[float]) -> str:
    """Every round, for the honest."""
    return ", ".join(f"{seconds:.2f}" for seconds in times)


def time_bay(folder: Path) -> float:
    """Seconds from `bay run` to its end; every run is checked."""
    folder.mkdir()
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("BAY_", "PYTHON"))
    }
    environment = {**kept, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text("pass\n")
    bay = [sys.executable, "-m", "launchbay"]
    grid = f"number=1..{RUNS}"
    began = time.perf_counter()
    words = [*bay, "run", "-q", "--yes", "-j", "2", grid, "true", "<number>"]
    subprocess.run(words, cwd=project, env=environment, stdout=subprocess.DEVNULL, check=True)
    seconds = time.perf_counter() - began
    records = list(project.glob(".bay/runs/*/attempts/1/events.jsonl"))
    if len(records) != RUNS or not all('"exit"' in path.read_text() for path in records):
        raise SystemExit("not every run was recorded")
    return seconds


def time_parallel(folder: Path) -> float:
    """Seconds of the same with a job log and kept results."""
    folder.mkdir()
    words = ["parallel", "-j2", "--joblog", "log", "--results", "results", "true", ":::"]
    numbers = [str(number) for number in range(RUNS)]
    began = time.perf_counter()
    subprocess.run(
        [*words, *numbers],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def time_submitit(folder: Path) -> float:
    """Seconds of a few calls of its local executor, two at a time."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--compile"]
    subprocess.run([*pip, "submitit"], check=True)
    began = time.perf_counter()
    subprocess.run([python, "-c", SUBMITIT, str(folder / "jobs"), str(PEER_RUNS)], check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
