"""Handing the terminal to another program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence


def become(argv: Sequence[str]) -> NoReturn:
    """Be that program from now on; its exit code is ours."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp(argv[0], list(argv))  # noqa: S606 (words, and no shell)


def call_in_terminal(argv: Sequence[str]) -> int:
    """Run a program that has the terminal; what is typed there, Ctrl-C too, is for it alone."""
    sys.stdout.flush()
    sys.stderr.flush()
    # A handler, not SIG_IGN: what is ignored would stay so in the program.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.call(argv)
    finally:
        signal.signal(signal.SIGINT, before)
