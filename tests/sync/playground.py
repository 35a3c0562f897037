"""Projects to freeze, and a git that nobody has configured."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from launchbay.sync.snapshot import scan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

SETTINGS = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no configuration of the machine reach git."""
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


def git(folder: Path, *words: str) -> str:
    """What git prints, run in the folder."""
    # Since git 2.38.1 a submodule from a local folder needs leave.
    argv = ["git", "-c", "protocol.file.allow=always", *words]
    done = subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape")


def make_repository(folder: Path) -> Path:
    """Commit everything in the folder, if only a README, to a new repository."""
    write(folder / "README")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=first")
    return folder


def write(path: Path, text: str = "") -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def listed(project: Path, *, outputs: Sequence[str] = ()) -> list[str]:
    """The paths of the project's code."""
    listing = scan(project, store=project / ".bay", outputs=outputs)
    return [entry.path for entry in listing.entries]


def linked(project: Path, *, outputs: Sequence[str] = ()) -> list[str]:
    """The paths that would be linked beside the code."""
    return list(scan(project, store=project / ".bay", outputs=outputs).links)
