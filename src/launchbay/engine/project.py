"""A project: the folder whose code is run, and what launchbay keeps in it."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.config.paths import OVERLAY, SCHEMA
from launchbay.core import rundir
from launchbay.core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, kw_only=True)
class Project:
    """The folder whose code is run; `id` is empty until something was run there."""

    folder: Path
    name: str
    id: str

    @property
    def bay(self) -> Path:
        """Where launchbay keeps snapshots and runs of this project."""
        return self.folder / ".bay"

    def run_folder(self, run_id: str) -> Path:
        """The run's own folder, or its twin when it ran elsewhere."""
        return rundir.run_folder(self.bay, run_id)

    def launch_folder(self, tag: str) -> Path:
        """What belongs to all runs of one launch."""
        return self.bay / "launches" / tag


def read_project(folder: Path) -> Project:
    """The project in this folder, as far as there is one; writes nothing."""
    known = _read_mark(folder)
    mine = known.get("folder") in {None, str(folder)} or not _is_copy(folder, known)
    return Project(folder=folder, name=folder.name, id=known.get("id", "") if mine else "")


def ensure_project(project: Project) -> Project:
    """The same project with an id and a folder `.bay` that git ignores.

    Raises:
        StoreError: when the folder cannot be written.
    """
    if project.id and _read_mark(project.folder).get("folder") == str(project.folder):
        write_schema(project.folder)
        if (project.folder / OVERLAY).exists():
            _hide_overlay(project.folder)
        return project
    try:
        project.bay.mkdir(mode=0o700, exist_ok=True)
        (project.bay / ".gitignore").write_text("*\n")
        write_schema(project.folder)
        _hide_overlay(project.folder)
        with _locked(project.bay / "lock"):
            again = read_project(project.folder)
            known = replace(project, id=again.id or os.urandom(8).hex())
            draft = project.bay / f".project.{os.getpid()}"
            draft.write_text(json.dumps({"format": 1, "id": known.id, "folder": str(known.folder)}))
            draft.replace(project.bay / "project.json")
            return known
    except OSError as err:
        raise StoreError(
            f"`{project.bay}` cannot be written: {err.strerror}",
            hint="launchbay keeps runs in the project; make it writable, or free some space",
        ) from err


def write_schema(folder: Path) -> None:
    """Put what editors check experiment files by where their first line says that it is.

    Nothing else in `.bay` is touched, and where it cannot be written nobody is stopped by that.
    """
    bay = folder / ".bay"
    draft = bay / f".schema.{os.getpid()}"
    with suppress(OSError):
        packaged = SCHEMA.read_bytes()
        if _read_bytes(bay / "schema.json") == packaged:
            return
        bay.mkdir(mode=0o700, exist_ok=True)
        if not (bay / ".gitignore").exists():
            (bay / ".gitignore").write_text("*\n")
        try:
            draft.write_bytes(packaged)
            draft.replace(bay / "schema.json")
        finally:
            draft.unlink(missing_ok=True)


def _hide_overlay(folder: Path) -> None:
    """Have git leave the private overlay alone, in this clone, without touching a tracked file."""
    from launchbay.sync.git import run_git  # noqa: PLC0415

    inside = run_git(str(folder), "rev-parse", "--show-prefix", "--git-path", "info/exclude")
    ignored = run_git(str(folder), "check-ignore", "--quiet", OVERLAY)
    if inside is None or ignored is not None:
        return
    prefix, _, path = os.fsdecode(inside).partition("\n")
    exclude = folder / path.rstrip("\n")
    # Where it cannot be written, nobody is stopped by that.
    with suppress(OSError):
        exclude.parent.mkdir(exist_ok=True)
        with exclude.open("a") as file:
            file.write(f"/{prefix}{OVERLAY}\n")


@contextmanager
def owned_launch(project: Project, tag: str) -> Iterator[Path]:
    """The launch's folder; while this lasts, others see that its owner lives."""
    folder = project.launch_folder(tag)
    folder.mkdir(parents=True, mode=0o700)
    with _locked(folder / "lock"):
        yield folder


@contextmanager
def adopted_launch(project: Project, tag: str) -> Iterator[Path | None]:
    """The folder of a launch whose owner has ended, ours meanwhile; None when somebody has it."""
    folder = project.launch_folder(tag)
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        yield None
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield None
    else:
        yield folder
    finally:
        os.close(descriptor)


def launch_lives(folder: Path) -> bool:
    """Whether a process is still at the launch of this folder."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _read_mark(folder: Path) -> dict[str, str]:
    try:
        mark = json.loads((folder / ".bay" / "project.json").read_text())
    except (OSError, ValueError):
        return {}
    return mark if isinstance(mark, dict) else {}


def _is_copy(folder: Path, mark: dict[str, str]) -> bool:
    """Whether the mark came along when the whole folder was copied; a moved one keeps its id."""
    other = Path(mark["folder"])
    return other.resolve() != folder.resolve() and _read_mark(other).get("id") == mark.get("id")
