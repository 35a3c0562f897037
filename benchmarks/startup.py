"""How long `bay` takes to start, beside the bare interpreter and torchx.

Bounds: `bay --help` at most 5 times, `bay ls --no-refresh` of 10,000 stored runs at most 9 times
the bare interpreter of the same environment; both faster than `torchx --help`. Base install: at
most 20 distributions and 60 MB. All is installed with compiled bytecode, or the figures mean
nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from launchbay.core.run import Run, State, Status
from launchbay.runstore.store import RunStore

ROUNDS = 15
RUNS = 10_000
REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print every figure with its bound; 1 when one is missed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = install(folder / "ours", [str(REPOSITORY)])
        torchx = install(folder / "torchx", ["torchx"]).with_name("torchx")
        environment = make_home(folder)
        bay = str(python.with_name("bay"))
        project = folder / "project"
        commands = {
            "bare": [str(python), "-c", "pass"],
            "bay --help": [bay, "--help"],
            "bay ls --no-refresh": [bay, "ls", "--no-refresh"],
            "bay ls --all --json --no-refresh": [bay, "ls", "--all", "--json", "--no-refresh"],
            "torchx --help": [str(torchx), "--help"],
        }
        best = {what: fastest(argv, environment, project) for what, argv in commands.items()}
        count, megabytes = weigh(python)
    for what, seconds in best.items():
        print(f"{what:<36} {seconds * 1000:7.1f} ms  {seconds / best['bare']:5.1f} × bare")
    print(f"base install: {count} distributions, {megabytes:.0f} MB")
    claims = {
        "bay --help at most 5 × bare": best["bay --help"] <= 5 * best["bare"],
        "bay ls at most 9 × bare": best["bay ls --no-refresh"] <= 9 * best["bare"],
        "bay --help faster than torchx": best["bay --help"] < best["torchx --help"],
        "bay ls faster than torchx": best["bay ls --no-refresh"] < best["torchx --help"],
        "at most 20 distributions": count <= 20,
        "at most 60 MB": megabytes <= 60,
    }
    for claim, held in claims.items():
        print(f"{'ok' if held else 'MISSED':<6} {claim}")
    return 0 if all(claims.values()) else 1


def install(folder: Path, packages: list[str]) -> Path:
    """A fresh environment with compiled bytecode; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [
        str(python),
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "--compile",
    ]
    subprocess.run([*pip, *packages], check=True)
    return python


def make_home(folder: Path) -> dict[str, str]:
    """A home with an index of many runs of one project."""
    project = folder / "project"
    (project / ".bay").mkdir(parents=True)
    (project / ".bay" / "project.json").write_text(f'{{"id": "p", "folder": "{project}"}}')
    store = RunStore(folder / "state" / "index.sqlite")
    store.add_project("p", name="project", folder=project)
    store.add(
        Run(
            id=f"demo-lr-0-1-seed-{number}-a{number:04d}",
            name=f"demo-lr-0-1-seed-{number}",
            # Most in large sweeps, the newest as single lines.
            experiment=f"sweep-{number % 20}" if number < RUNS - 60 else f"try-{number % 6}",
            project="p",
            identity=f"identity-{number}",
            target="local",
            place={"kind": "machine", "root": str(project / ".bay")},
            native_id=f"queue/p/{number}",
            params={"lr": "0.1", "seed": str(number)},
            command=f"python train.py --seed {number}",
            status=Status(
                state=State.SUCCEEDED,
                exit_code=0,
                started_at=float(number),
                ended_at=number + 1.0,
                metrics={"acc": number / RUNS},
            ),
            created_at=float(number),
            seen_at=number + 1.0,
        )
        for number in range(RUNS)
    )
    store.close()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("BAY_", "PYTHON"))
    }
    return {**kept, "HOME": str(folder), "BAY_HOME": str(folder / "state")}


def fastest(argv: list[str], environment: dict[str, str], folder: Path) -> float:
    """The best of several warm starts, in seconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run(argv, env=environment, cwd=folder, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - began)
    return min(times)


def weigh(python: Path) -> tuple[int, float]:
    """How many distributions a base install has besides pip's own, and their megabytes."""
    code = (
        "import importlib.metadata as m, os\n"
        "d = [x for x in m.distributions() if x.metadata['Name'] not in ('pip', 'setuptools')]\n"
        "f = {str(x.locate_file(p)) for x in d for p in x.files or ()}\n"
        "print(len(d), sum(os.path.getsize(p) for p in f if os.path.exists(p)))\n"
    )
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    count, size = done.stdout.split()
    return int(count), int(size) / 1e6


if __name__ == "__main__":
    sys.exit(main())
