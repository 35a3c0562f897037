"""Files of this machine, into the working folder of a run that runs."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.backend import Delivery, Parcel
from launchbay.core.errors import BadRequest, Unsupported
from launchbay.core.run import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

NOT_WALKED = frozenset({".git", ".bay", "__pycache__"})


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """What was copied into a run."""

    places: tuple[str, ...]
    """Paths below its working folder."""
    size: int


def deliver(lab: Lab, run: Run, files: Sequence[Path], *, to: str = "") -> Delivered:
    """Copy files and folders into the working folder of a run.

    What is of the project keeps its path in it; all else goes by its name.

    Args:
        lab: the project's.
        run: one that runs.
        files: what; none is the `file:` list that it was started with.
        to: a folder below the working folder, where everything goes by its name.

    Raises:
        BadRequest: when the run does not run, or a file is not there.
        Unsupported: when its target takes no files.
    """
    if run.state is State.CREATED or not run.native_id or run.state.final:
        where = "it waits on this side" if run.state is State.CREATED else f"it {run.state.phrase}"
        raise BadRequest(
            f"`{run.id}` does not run: {where}", hint="`bay ls --state running` shows what does"
        )
    parcels = gather(_project_folder(lab, run), files or _laid(lab, run), to)
    backend = lab.targets.reopen(run)
    if not isinstance(backend, Delivery):
        raise Unsupported(f"`{run.target}` takes no files into a run")
    backend.deliver(run.handle, parcels)
    return Delivered(
        places=tuple(parcel.place for parcel in parcels),
        size=sum(parcel.source.stat().st_size for parcel in parcels),
    )


def gather(project: Path, files: Sequence[Path], to: str = "") -> list[Parcel]:
    """Where each file goes; folders are walked.

    Raises:
        BadRequest: when a file is not there, or there is none.
    """
    found: dict[str, Parcel] = {}
    for file in files:
        if not file.exists():
            raise BadRequest(f"there is no file `{file}`")
        beside = _beside(project, file, to)
        for path in walk(file):
            inside = path.relative_to(file).as_posix() if path != file else ""
            place = posixpath.join(beside, inside) if inside else beside
            found[place] = Parcel(source=path, place=place)
    if not found:
        raise BadRequest("there is nothing to copy: no file is in what was named")
    return list(found.values())


def walk(path: Path) -> Iterator[Path]:
    """The file, or every file of the folder; what git and launchbay keep for themselves is not."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - NOT_WALKED)
        for name in sorted(names):
            found = Path(folder, name)
            # Not a socket or the like, nor a link to nothing.
            if found.is_file():
                yield found


def _beside(project: Path, file: Path, to: str) -> str:
    """Where a file or folder goes."""
    full = Path(os.path.normpath(file.absolute()))
    if to:
        return posixpath.join(to, full.name)
    if full == project:
        return ""
    return full.relative_to(project).as_posix() if full.is_relative_to(project) else full.name


def _laid(lab: Lab, run: Run) -> list[Path]:
    """What the run's own `file:` names."""
    names = lab.read_job(run).options.get("file") or ()
    if not names:
        raise BadRequest(
            "which files?", hint=f"name them: `bay copy {run.suffix} FILES`; `file:` lists none"
        )
    return [_project_folder(lab, run) / name for name in names]


def _project_folder(lab: Lab, run: Run) -> Path:
    projects = lab.store.projects()
    if run.project == lab.project.id or run.project not in projects:
        return lab.project.folder
    return projects[run.project][1]
