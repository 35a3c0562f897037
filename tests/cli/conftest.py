"""What tests of `bay data` share: a project whose bucket is a folder."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay


@dataclass
class Place:
    """A project, and the folder that is its bucket."""

    bay: Bay
    bucket: Path

    def put(self, **files: str) -> None:
        """Objects of the bucket, by keys with `__` for `/` and `_dot_` for `.`."""
        for name, text in files.items():
            self.put_key(name.replace("__", "/").replace("_dot_", "."), text)

    def put_key(self, key: str, text: str) -> None:
        path = self.bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def objects(self) -> list[str]:
        """Every object of the bucket."""
        return files_below(self.bucket)

    def files(self) -> list[str]:
        """Every file of the project but its own."""
        own = {"bay.yaml", ".env"}
        found = files_below(self.bay.project)
        return [name for name in found if name not in own and not name.startswith(".bay/")]


def files_below(folder: Path) -> list[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(map(str, found))


@pytest.fixture
def place(bay: Bay, tmp_path: Path) -> Place:
    """A project with a folder as its bucket."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    bay.write("bay.yaml", f"command: 'true'\nbucket: {bucket}\n")
    return Place(bay=bay, bucket=bucket)


class Terminal:
    """`bay` on a pseudo-terminal."""

    def __init__(self, bay: Bay, *words: str) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(bay.project)
            # Whoever runs the tests in the background ignores Ctrl-C, and so would this.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execve(
                bay.python,
                [bay.python, "-m", "launchbay", *words],
                {**bay.environment, "TERM": "xterm", "LINES": "24", "COLUMNS": "100"},
            )
        self.seen = ""

    def until(self, text: str) -> str:
        """Wait until the text was shown; everything since the last time."""
        deadline = time.monotonic() + 60
        fresh = ""
        while text not in fresh:
            if time.monotonic() > deadline or not self._more():
                pytest.fail(f"`{text}` was never shown: {fresh!r}")
            fresh = self.seen
        self.seen = ""
        return fresh

    def _more(self) -> bool:
        if not select.select([self.descriptor], [], [], 1)[0]:
            return True
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.descriptor, text.encode())

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._more():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
