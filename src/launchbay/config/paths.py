"""Where files are looked for. Standard library only: every `bay` command starts here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("bay.yaml", "launch.yaml", "config/launch.yaml")
"""The names of an experiment file, the first one found in a folder wins."""
OVERLAY = "bay.local.yaml"
"""What goes over a project's file, for one person alone."""
SCHEMA = Path(__file__).with_name("bay.schema.json")
"""What editors may know of an experiment file; `docs/generate.py` writes it."""


def find_experiment_file(start: Path) -> Path | None:
    """The experiment file of `start` or of the nearest folder above it, up to the git root."""
    files = (folder / name for folder in _folders(start) for name in NAMES)
    return next((file for file in files if _is_file(file)), None)


def find_project(start: Path) -> Path:
    """The folder of the experiment file found, else the git root, else `start`."""
    file = find_experiment_file(start)
    if file:
        return project_of(file)
    last = list(_folders(start))[-1]
    return last if _has_git(last) else start.resolve()


def project_of(file: Path) -> Path:
    """The project folder that an experiment file belongs to."""
    folder = file.resolve().parent
    return folder.parent if (folder.name, file.name) == ("config", "launch.yaml") else folder


def user_config_path() -> Path:
    """The user's own configuration, whether or not it exists."""
    if chosen := os.environ.get("BAY_CONFIG"):
        return Path(chosen).expanduser().absolute()
    return _platform_folder("XDG_CONFIG_HOME", ".config") / "launchbay" / "config.yaml"


def state_folder() -> Path:
    """The folder of the index, whether or not it exists."""
    if chosen := os.environ.get("BAY_HOME"):
        return Path(chosen).expanduser().absolute()
    return _platform_folder("XDG_STATE_HOME", ".local/state") / "launchbay"


def shown_path(path: Path) -> str:
    """The path as a message names it: relative where it is below the working folder."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _folders(start: Path) -> Iterator[Path]:
    """`start` and the folders above it that may hold its experiment file."""
    start, home = start.resolve(), Path.home().resolve()
    for folder in (start, *start.parents):
        # A file in the home folder is not meant for every project below it.
        if folder == home != start:
            return
        yield folder
        if folder == home or _has_git(folder):
            return


def _platform_folder(variable: str, linux: str) -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    chosen = Path(os.environ.get(variable, ""))
    # The XDG specification: a relative path is invalid and ignored.
    return chosen if chosen.is_absolute() else Path.home() / linux


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:
        return False


def _has_git(folder: Path) -> bool:
    try:
        # In a worktree `.git` is a file.
        return (folder / ".git").exists()
    except PermissionError:
        return False
