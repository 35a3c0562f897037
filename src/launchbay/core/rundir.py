"""The names inside a run directory, the same on every target.

```text
runs/<run id>/
    job.json            what was asked, enough to rebuild the index
    command.sh          the command, as it runs
    env.sh              its environment, mode 600
    params.json         its parameters, `$BAY_PARAMS`
    work/               its own writable folder of the frozen code
    out/                its outputs, `$BAY_OUT`, the same for all attempts
    attempts/<n>/
        claim           made once, by whoever runs the attempt
        events.jsonl    started, exit
        log-<rank>.txt  what it printed
```

`node/run.sh` and `node/pack.py` write these; a test compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

JOB = "job.json"
COMMAND = "command.sh"
ENV = "env.sh"
PARAMS = "params.json"
WORK = "work"
OUT = "out"
METRICS = "metrics.jsonl"
CLAIM = "claim"
EVENTS = "events.jsonl"


def run_folder(root: Path, run_id: str) -> Path:
    """Where the run's files are under a target's root."""
    return root / "runs" / run_id


def code_folder(root: Path, code: str) -> Path:
    """Where frozen code is under a root, named by its content."""
    return root / "snapshots" / code


def attempt_folder(run: Path, number: int) -> Path:
    """Where one attempt's records are."""
    return run / "attempts" / str(number)


def log_name(rank: int = 0) -> str:
    """The log of one rank, inside an attempt's folder."""
    return f"log-{rank}.txt"
