"""A person's shell on a pseudo-terminal: what is typed, and what is seen until the next prompt."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROMPT = "ready> "
ERASED = re.compile(r"[^\n]*\r\x1b\[K")
"""What was written to be written over: how far something is."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
LONGEST_S = 180.0


class Terminal:
    """A bash that somebody types into.

    Args:
        folder: where it starts.
        environment: its variables.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        # A person's shell has its own job control, and nothing of the test run's.
        self._process = subprocess.Popen(
            ["env", "--default-signal", "bash", "--norc", "--noprofile", "-i"],
            cwd=folder,
            env={**environment, "PS1": PROMPT, "TERM": "dumb", "COLUMNS": "200"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509
        )
        os.close(theirs)
        self._await(PROMPT)
        self("stty -echo cols 200")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._ours)

    def __call__(self, typed: str, *, until: str = PROMPT) -> str:
        """Type a line; what is seen until the prompt, or until something else is."""
        os.write(self._ours, f"{typed}\n".encode())
        return self._await(until)

    @property
    def code(self) -> int:
        """The exit code of what was typed last."""
        return int(self("echo $?"))

    def _await(self, wanted: str) -> str:
        seen, deadline = b"", time.monotonic() + LONGEST_S
        while True:
            text = CONTROL.sub("", ERASED.sub("", seen.decode(errors="replace")))
            if text.endswith(wanted):
                return text.removesuffix(wanted)
            if time.monotonic() > deadline:
                pytest.fail(f"no `{wanted}` after:\n{text}")
            if select.select([self._ours], [], [], 1)[0]:
                seen += self._read()

    def _read(self) -> bytes:
        try:
            return os.read(self._ours, 65536)
        except OSError:
            pytest.fail("the shell has ended")


def _take_terminal() -> None:
    import fcntl  # noqa: PLC0415
    import termios  # noqa: PLC0415

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
