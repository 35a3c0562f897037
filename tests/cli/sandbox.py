"""A project, a home and a configuration of its own, and `bay` as people start it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

TMP = "TMP"
"""What stands for the sandbox's own folder in everything that `bay` said."""


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str


class Sandbox:
    """Everything that `bay` reads or writes, inside one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.config = folder / "config" / "launchbay" / "config.yaml"
        self.env = {
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "BAY_HOME": str(folder / "index"),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            # The tests' own interpreter is the `python` of every run.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        for path in (self.project, folder / "home"):
            path.mkdir(parents=True)

    def bay(self, *words: str, at: Path | None = None, **env: str) -> Said:
        """Run `bay` in the project, or in another folder."""
        inherited = {key: text for key, text in os.environ.items() if not key.startswith("BAY_")}
        done = subprocess.run(
            [sys.executable, "-m", "launchbay", *words],
            cwd=at or self.project,
            env={**inherited, **self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Said(done.returncode, self._shorten(done.stdout), self._shorten(done.stderr))

    def run(self, *words: str) -> list[str]:
        """Run an experiment to its end; the ids of its runs."""
        return self.bay("run", "-q", *words).out.split()

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this very process see what `bay` would."""
        for name, text in self.env.items():
            monkeypatch.setenv(name, text)
        monkeypatch.chdir(self.project)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def configure(self, text: str) -> None:
        """Write the user's configuration."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text)

    def _shorten(self, text: str) -> str:
        return text.replace(str(self.folder), TMP)


def files_of(folder: Path) -> dict[str, str]:
    """Every file below a folder, with its text; links are named as such."""
    return {
        path.relative_to(folder).as_posix(): "link" if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }
