"""How long a plan takes to think of a run, beside Hydra's composition of a multirun.

Bounds: `bay plan --json` of 100,000 runs takes at most a twentieth of the time that Hydra takes
for each of 1,000 jobs of a sweep over the same parameters, composition only (its launcher is
replaced by one that does nothing); peak memory stays below 300 MB.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 100_000
JOBS = 1_000
MOST_MB = 300

FILE = """\
command: python train.py --lr <lr> --width <width> --wd <wd> --seed <seed>
params:
  lr: [0.1, 0.01, 0.001, 0.0001, 0.00001]
  width: [64, 128]
  wd: [0, 0.1]
  seed: 0..4999
"""

# The sweeper's own work: expanding the overrides and composing a configuration for each job.
HYDRA = """\
import sys, time
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser

folder, jobs = sys.argv[1], int(sys.argv[2])
overrides = ["lr=0.1,0.01,0.001,0.0001,0.00001", "width=64,128", "wd=0,0.1"]
overrides.append("seed=" + ",".join(map(str, range(jobs // 20))))
with initialize_config_dir(config_dir=folder, version_base=None):
    compose("config")
    began = time.perf_counter()
    parsed = OverridesParser.create().parse_overrides(overrides)
    (points,) = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    for point in points:
        compose("config", overrides=list(point))
    print(time.perf_counter() - began, len(points))
"""


def main() -> int:
    """Print both times and the memory with their bounds; 1 when one is missed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bay.yaml").write_text(FILE)
        ours, megabytes = plan(folder)
        theirs = compose(folder)
    for what, count, seconds in (("bay plan --json", RUNS, ours), ("hydra compose", JOBS, theirs)):
        each = seconds / count * 1e6
        print(f"{what:<16} {count:>7,} in {seconds:6.2f} s  {each:8.1f} µs each")
    ratio = (theirs / JOBS) / (ours / RUNS)
    print(f"ratio {ratio:.0f}; peak memory {megabytes:.0f} MB")
    claims = {
        "at least 20 times as fast a run": ratio >= 20,
        f"below {MOST_MB} MB": megabytes < MOST_MB,
    }
    for claim, held in claims.items():
        print(f"{'ok' if held else 'MISSED':<6} {claim}")
    return 0 if all(claims.values()) else 1


def plan(folder: Path) -> tuple[float, float]:
    """Seconds and megabytes of `bay plan --json`, from starting the program to its end."""
    kept = {key: text for key, text in os.environ.items() if not key.startswith("BAY_")}
    environment = {**kept, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    printed = folder / "plan.json"
    began = time.perf_counter()
    with printed.open("w") as out:
        argv = [sys.executable, "-m", "launchbay", "plan", "--json"]
        subprocess.run(argv, cwd=folder, env=environment, stdout=out, check=True)
    seconds = time.perf_counter() - began
    megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    if len(json.loads(printed.read_text())) != RUNS:
        raise SystemExit("the plan is not complete")
    return seconds, megabytes


def compose(folder: Path) -> float:
    """Seconds that Hydra takes to compose the jobs of a sweep."""
    venv = folder / "hydra"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "hydra-core"]
    subprocess.run(pip, check=True)
    (folder / "conf").mkdir()
    (folder / "conf" / "config.yaml").write_text("lr: 0.1\nwidth: 64\nwd: 0\nseed: 0\n")
    argv = [python, "-c", HYDRA, str(folder / "conf"), str(JOBS)]
    seconds, jobs = subprocess.check_output(argv, text=True).split()
    if int(jobs) != JOBS:
        raise SystemExit("hydra composed another number of jobs")
    return float(seconds)


if __name__ == "__main__":
    sys.exit(main())
