"""How long 1,000 runs take to be with Slurm, beside submitit; and what asking after them costs.

Bounds: freezing the code, writing everything down and submitting takes at most twice as long as
submitit's `map_array` of a function; the status of all 1,000 costs one call with one `squeue` and
one read of the records, at most 150 ms above the same listing without asking. Each is the best of
several, timed in-process; the Slurm is the tests' own, on this machine, so this needs root.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.real.slurm_cluster import SlurmCluster

from launchbay.engine.open import open_lab
from launchbay.engine.settings import Wish, read_settings
from launchbay.engine.steps import Request
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Callable

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

RUNS = 1_000
ROUNDS = 5
MOST_RATIO = 2.0
MOST_MS = 150.0

FILE = """\
command: "true <seed>"
params: {{seed: 0..{last}}}
target: cluster
targets:
  cluster: {{kind: slurm, root: {root}, time: 10m, look_every: 0s}}
"""
SUBMITIT = """\
import sys, time
import submitit

folder, runs, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
best = None
for number in range(rounds):
    executor = submitit.AutoExecutor(folder=f"{folder}/{number}")
    executor.update_parameters(timeout_min=10, slurm_array_parallelism=runs)
    began = time.perf_counter()
    executor.map_array(abs, range(runs))
    took = time.perf_counter() - began
    best = took if best is None else min(best, took)
print(best)
"""


def main() -> int:
    """Print the times with their bounds; 1 when one is missed."""
    cluster = SlurmCluster(max_array=RUNS + 1)
    with tempfile.TemporaryDirectory(prefix="bay-bench-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        cluster.start()
        try:
            # Nothing may start meanwhile: starting is Slurm's work, and would be timed, too.
            cluster.run("scontrol", "update", "nodename=ALL", "state=drain", "reason=bench")
            os.environ.update(cluster.environment(), HOME=name, XDG_STATE_HOME=f"{name}/state")
            theirs = time_submitit(folder)
            ours, above_ms = time_launchbay(folder, cluster)
        finally:
            cluster.stop()
    print(f"bay run          {RUNS:,} in {ours:.3f} s, the code frozen and staged")
    print(f"submitit         {RUNS:,} in {theirs:.3f} s")
    print(f"ratio {ours / theirs:.2f}; asking after all takes {above_ms:.0f} ms more than not")
    claims = {
        f"at most {MOST_RATIO:g} times submitit": ours <= MOST_RATIO * theirs,
        f"at most {MOST_MS:g} ms for the status of all": above_ms <= MOST_MS,
    }
    for claim, held in claims.items():
        print(f"{'ok' if held else 'MISSED':<6} {claim}")
    return 0 if all(claims.values()) else 1


def time_launchbay(folder: Path, cluster: SlurmCluster) -> tuple[float, float]:
    """Seconds of a launch, and milliseconds that asking costs above listing."""
    took = []
    for number in range(ROUNDS):
        forget_jobs(cluster)
        project = make_project(folder, number)
        began = time.perf_counter()
        lab, runs = launch(project)
        took.append(time.perf_counter() - began)
        if sum(bool(run.native_id) for run in runs) != RUNS:
            raise SystemExit("not all were taken")
        listed, asked = best(partial(list_runs, lab)), best(partial(ask, lab))
        lab.store.close()
    return min(took), (asked - listed) * 1000


def list_runs(lab: Lab) -> list[Run]:
    """What `bay ls --no-refresh` reads."""
    return lab.store.runs(Query(project=lab.project.id))


def ask(lab: Lab) -> None:
    """The same, and what became of them."""
    lab.refresh(list_runs(lab))


def best(call: Callable[[], object]) -> float:
    """The least seconds that it took."""
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return min(took)


def make_project(folder: Path, number: int) -> Path:
    """A project with a little code, which nobody has frozen before."""
    project = folder / f"project{number}"
    project.mkdir()
    (project / "train.py").write_text("print('hello')\n" * 50)
    text = FILE.format(last=RUNS - 1, root=folder / f"root{number}")
    (project / "bay.yaml").write_text(text)
    return project


def forget_jobs(cluster: SlurmCluster) -> None:
    """End all jobs, and wait until Slurm no longer lists them: it would list them, too."""
    cluster.run("scancel", "--user=root")
    while cluster.run("squeue", "-h", "-t", "all").stdout:
        time.sleep(0.5)


def launch(project: Path) -> tuple[Lab, list[Run]]:
    """What `bay run --detach` does, from reading the file on."""
    settings = read_settings(project)
    lab = open_lab(project, settings=settings)
    experiment, target = settings.experiment(Wish())
    listing = settings.scan(experiment, lab.project.bay)
    draft = lab.draft(Request(experiment=experiment), target=target, listing=listing)
    return lab, lab.launch(draft)


def time_submitit(folder: Path) -> float:
    """Seconds of submitit's `map_array`."""
    venv = folder / "submitit"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "submitit"]
    subprocess.run(pip, check=True)
    argv = [python, "-c", SUBMITIT, str(folder / "jobs"), str(RUNS), str(ROUNDS)]
    return float(subprocess.check_output(argv, text=True))


if __name__ == "__main__":
    sys.exit(main())
