"""The first files of an experiment: a small example, a file beside code, one that repeats a run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.config.edits import render_mapping, render_scalar
from launchbay.config.files import parse_document
from launchbay.config.paths import NAMES
from launchbay.core.command import render
from launchbay.core.errors import ConfigError
from launchbay.core.job import DEFAULT_OUTPUTS
from launchbay.core.sugar import make_literal
from launchbay.engine.steps import written_policy, written_resources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.config.files import Value
    from launchbay.core.job import Job

FILE = NAMES[0]
SCRIPT = "train.py"
GUESSES = (SCRIPT, "main.py", "run.py")
NO_CODE = re.compile(r"\..*|(readme|licen[cs]e|copying)(\..*)?", re.IGNORECASE)
"""What a new repository holds before there is any code in it."""
LITERAL = re.compile(r"(?<=\\)<|<(?=[A-Za-z_][\w.-]*(?::\w+)?>)")
"""What would be read as a placeholder, or as the mark of one that is none."""

MODELINE = "# yaml-language-server: $schema=.bay/schema.json\n"
"""Tells editors what the file may say; `write_schema` puts that there."""

EXAMPLE = """\
# What one run does; `<key>` is the value of a parameter below.
command: {python} train.py --lr <lr> --width <width> --seed <seed>

# Every combination is one run: 2 x 2 x 3 = 12.
params:
  lr: [0.1, 0.01]
  width: [64, 128]
  seed: 0..2
"""

BESIDE_CODE = """\
# What one run does{remark}.
command: {python} {script}

# Parameters: every combination is one run. Write `--lr <lr>` into the command to use one.
# params:
#   lr: [0.1, 0.01]
#   seed: 0..4
"""

MORE = """
# More, when you need it:
# name: first-try                  # the experiment's name
# gpus: 1                          # of each run; 0.5 shares one
# memory: 8                        # GB
# time: 2h                         # a run that takes longer is ended
# parallel: 4                      # at most so many runs at once
# env: {OMP_NUM_THREADS: 1}
# python: requirements.txt         # or uv, conda:NAME; built once. Unset: your shell's
# setup: module load cuda          # shell lines before the command
# secrets: [WANDB_API_KEY]         # from your shell; a `.env` beside this file is read anyway
# metrics: {acc: 'acc=([0-9.]+)'}  # from the log, unless it writes $BAY_OUT/metrics.jsonl
# target: local                    # where to run; `bay target list` names the places
"""

TRAIN = '''\
"""A small experiment: learn which points lie near the centre, from noisy labels."""

import argparse
import json
import math
import os
import random

POINTS = 200


def make_points(rng):
    """Points of a square with 1 near the centre and 0 elsewhere; one label in twenty is wrong."""
    points = []
    for _ in range(POINTS):
        x, y = rng.uniform(-1, 1), rng.uniform(-1, 1)
        inside = math.hypot(x, y) < 0.7
        points.append((x, y, float(inside != (rng.random() < 0.05))))
    return points


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--width", type=int, default=64, help="number of random features")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()

    rng = random.Random(args.seed)
    waves = [(rng.gauss(0, 3), rng.gauss(0, 3), rng.uniform(0, 6)) for _ in range(args.width)]
    data = [
        ([math.cos(a * x + b * y + c) for a, b, c in waves], label)
        for x, y, label in make_points(rng)
    ]
    weights = [0.0] * args.width

    # Each run has an output folder of its own; bay shows the last value of each metric.
    out = os.environ.get("BAY_OUT")
    metrics = open(os.path.join(out, "metrics.jsonl"), "w") if out else None
    for epoch in range(args.epochs):
        loss, right = 0.0, 0
        for features, label in data:
            score = sum(weight * value for weight, value in zip(weights, features))
            guess = 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))
            loss -= math.log(max(guess if label else 1 - guess, 1e-12)) / POINTS
            right += (guess > 0.5) == bool(label)
            step = args.lr * (label - guess)
            weights = [weight + step * value for weight, value in zip(weights, features)]
        acc = right / POINTS
        print(f"epoch {epoch} loss={loss:.4f} acc={acc:.3f}", flush=True)
        if metrics:
            metrics.write(json.dumps({"loss": round(loss, 4), "acc": acc}) + "\\n")
            metrics.flush()


if __name__ == "__main__":
    main()
'''


def first_files(folder: Path) -> dict[str, str]:
    """The files that a folder needs for its first run: an example, or only `bay.yaml`."""
    python = "python" if shutil.which("python") else "python3"
    if not _has_code(folder):
        return {SCRIPT: TRAIN, FILE: MODELINE + EXAMPLE.format(python=python) + MORE}
    script = find_script(folder)
    remark = "" if script else "; put your own command here"
    text = BESIDE_CODE.format(python=python, script=shlex.quote(script or SCRIPT), remark=remark)
    return {FILE: MODELINE + text + MORE}


def find_script(folder: Path) -> str | None:
    """The script that one would run: by its usual name, or the only one there is."""
    scripts = sorted(path.name for path in folder.glob("*.py") if path.is_file())
    usual = [name for name in GUESSES if name in scripts]
    if usual:
        return usual[0]
    return scripts[0] if len(scripts) == 1 else None


def find_file(folder: Path) -> str | None:
    """The experiment file that the folder itself has already."""
    return next((name for name in NAMES if (folder / name).exists()), None)


def render_repeat(job: Job, *, target: str, folder: Path) -> str:
    """The experiment file that repeats one run.

    Args:
        job: what was run.
        target: where.
        folder: the project that the file will stand in.
    """
    project = job.labels.get("project_name") or folder.name
    named: dict[str, Value] = {
        "project": project if project != folder.name else None,
        "name": job.experiment if job.experiment != project else None,
    }
    rest: dict[str, Value] = {
        "params": dict(job.params),
        **written_resources(job.resources),
        **written_policy(job.policy),
        **{key: _plain(value) for key, value in job.options.items()},
        "parallel": None if job.parallel is None else str(job.parallel),
        "target": target if target != "local" else None,
        "env": {name: escape(value) for name, value in job.env.items()},
        "secrets": list(job.secrets),
        "modules": list(job.modules),
        "python": job.python,
        "setup": escape(job.setup),
        "image": escape(job.image),
        "outputs": list(job.outputs) if job.outputs != DEFAULT_OUTPUTS else None,
        "metrics": dict(job.metrics),
    }
    note = "# To sweep a parameter, write `<key>` in the place of its value and give it a list.\n"
    parts = [
        MODELINE,
        f"# Repeats {job.run_id}, whose code was {job.snapshot}; it runs today's code.\n",
        render_mapping(_given(named)),
        note if job.params else "",
        f"command: {render_command(_written_command(job))}\n",
        render_mapping(_given(rest)),
    ]
    return "".join(parts)


def _plain(value: object) -> Value:
    """An option as a file has it."""
    match value:
        case bool():
            return str(value).lower()
        case tuple() | list():
            return [_plain(one) for one in value]
        case dict():
            return {key: _plain(one) for key, one in value.items()}
    return escape(str(value))


def render_command(text: str) -> str:
    """A command as the value of a YAML key: as it is where it can be, else as a block or quoted.

    >>> render_command("python train.py --lr 0.1")
    'python train.py --lr 0.1'
    """
    block = "|-\n" + "".join(f"  {line}\n" if line else "\n" for line in text.split("\n"))
    for written in (text, block.removesuffix("\n")):
        try:
            faithful = parse_document(f"command: {written}\n", Path()).data == {"command": text}
        except ConfigError:
            continue
        if faithful:
            return written
    return render_scalar(text)


def escape(text: str) -> str:
    r"""Shell text in which nothing is read as a placeholder.

    >>> escape("echo <lr> < in")
    'echo \\<lr> < in'
    """
    return LITERAL.sub(r"\\<", text)


def _has_code(folder: Path) -> bool:
    return folder.is_dir() and not all(NO_CODE.fullmatch(path.name) for path in folder.iterdir())


def _written_command(job: Job) -> str:
    text = make_literal(escape(render(job.command).rstrip("\n")))
    # A file's command starts at the top of the project.
    return f"cd {shlex.quote(job.subfolder)} || exit\n{text}" if job.subfolder else text


def _given(written: Mapping[str, Value]) -> dict[str, Value]:
    return {key: value for key, value in written.items() if value}
