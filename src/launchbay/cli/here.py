"""`bay run --here`: the first run in this terminal and folder, recorded like any other."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

from launchbay.cli.following import summarize
from launchbay.cli.screen import say
from launchbay.core import rundir
from launchbay.core.run import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.launch import Draft


def run_here(lab: Lab, draft: Draft) -> int:
    """Run the plan's first point in the foreground, so that a debugger works."""
    run = perform(lab, draft, lambda run: say(f"{run.id}: {run.command}"))
    summarize(lab, [run])
    return 0 if run.state is State.SUCCEEDED else 1


def perform(lab: Lab, draft: Draft, begin: Callable[[Run], None]) -> Run:
    """Have the plan's first point run in this terminal; what became of it.

    Args:
        lab: the lab.
        draft: the plan.
        begin: is called right before it starts.
    """
    run, argv = lab.launch_here(draft)
    begin(run)
    log = rundir.attempt_folder(lab.folder(run), run.attempt) / rundir.log_name()
    _execute(argv, log)
    (run,) = lab.refresh([run]).runs
    return run


def _execute(argv: Sequence[str], log: Path) -> None:
    """Show what it prints, and keep it."""
    with log.open("ab", buffering=0) as file:

        def copy(descriptor: int) -> bytes:
            data = os.read(descriptor, 65536)
            file.write(data)
            return data

        if sys.stdin.isatty():
            # A terminal of its own: a debugger works, and everything shown is also kept.
            pty.spawn(list(argv), copy)
            return
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            stream = process.stdout
            while stream and (data := copy(stream.fileno())):
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
