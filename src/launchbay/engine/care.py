"""Removing what nobody needs: runs that were told to go, and what no run refers to.

Folders are given another name first, so that whoever looks meets all of one or nothing. No link is
ever followed: working folders hold links to the user's own data.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core import rundir
from launchbay.core.backend import Discovery, Disposal
from launchbay.core.errors import BadRequest, StoreError
from launchbay.core.run import State
from launchbay.engine.fetch import was_fetched
from launchbay.engine.project import launch_lives
from launchbay.engine.watch import by_place
from launchbay.runstore.store import Query
from launchbay.sync.snapshot import OBJECT_AGE_S, remove_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

SCRATCH = "tmp"
ENVIRONMENT = re.compile(r"/envs/([0-9a-f]{12})\b")
"""How a run names the environment that it enters."""
KEPT = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")
"""How a run names a folder that was fetched for it."""
SNAPSHOT = re.compile(r'"snapshot": "([^"]+)"')
"""How a job names its code."""
SHEETS = ("sheet", "shared.sh")
"""The files of a plan that name what its runs need: each, or all of them."""
STRAYS = "stored files"
LETTING_GO_S = 15.0
LOOK_EVERY_S = 0.2
ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED)


@dataclass(frozen=True, kw_only=True)
class Remains:
    """What an ended run left."""

    run: Run
    folder: Path
    size: int
    fetched: bool


def list_remains(lab: Lab, runs: Sequence[Run]) -> list[Remains]:
    """What would go with the runs.

    Raises:
        BadRequest: when one has not ended.
        StoreError: when a run's folder is not where runs are.
    """
    going_on = [run for run in runs if not run.state.final]
    if going_on:
        named = " ".join(run.suffix for run in going_on[:5])
        raise BadRequest(
            f"{len(going_on)} of {len(runs)} runs have not ended: {named}",
            hint=f"`bay cancel {named}` ends them; `--state failed` leaves them out",
        )
    return [
        Remains(
            run=run,
            folder=_own_folder(lab, run),
            size=measure([lab.folder(run)]),
            fetched=was_fetched(lab, run),
        )
        for run in runs
    ]


def remove_runs(
    lab: Lab, remains: Sequence[Remains], *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Forget runs, with everything that they left.

    Raises:
        BadRequest: when a target still has to do with one; nothing is removed.
        StoreError: when a folder cannot be removed; those before it are.
    """
    _await_release(lab, [one.run for one in remains], sleep)
    _refuse_living(lab, [one.run for one in remains])
    for group in by_place(one.run for one in remains if one.run.is_elsewhere):
        backend = lab.targets.reopen(group[0])
        if isinstance(backend, Disposal):
            backend.dispose([run.handle for run in group])
    for one in remains:
        with _translated():
            aside = _set_aside(one.folder.parent.parent, one.folder)
            lab.store.forget([one.run.id])
            _remove(aside)


@dataclass(frozen=True, kw_only=True)
class Waste:
    """Something that no run refers to any more."""

    kind: str
    root: Path
    path: Path


def find_waste(lab: Lab, *, older_s: float) -> list[Waste]:
    """What no run refers to (code, launches, copies, environments), and what ended runs worked in.

    Raises:
        BadRequest: while something is being launched.
        StoreError: when a run's own record cannot be read, so that nobody knows what it needs.
    """
    launches = lab.project.bay / "launches"
    if any(launch_lives(path) for path in _entries(launches)):
        raise BadRequest("something is being launched here just now", hint="try again after it")
    roots = _roots(lab)
    needed = _references(lab, roots)
    before, young = lab.clock() - older_s, lab.clock() - OBJECT_AGE_S
    found = [
        Waste(kind=kind, root=root, path=path)
        for root in roots
        for kind in ("snapshots", "trees", "launches", "origins", "envs", "data")
        for path in _entries(root / kind)
        if path.lstat().st_mtime < before and not _is_needed(kind, path, needed)
    ]
    return [*found, *_find_work(lab, before), *_find_strays(lab, min(before, young))]


def measure_waste(lab: Lab, waste: Sequence[Waste]) -> int:
    """The bytes that removing it frees, with the stored files that then nobody has."""
    return measure([*(one.path for one in waste), lab.project.bay / "objects"])


def remove_waste(lab: Lab, waste: Sequence[Waste], *, older_s: float) -> None:
    """Remove what is still waste now.

    Raises:
        StoreError: when something cannot be removed.
    """
    still = set(find_waste(lab, older_s=older_s))
    for one in waste:
        if one in still and one.kind != STRAYS:
            with _translated():
                _remove(_set_aside(one.root, one.path))
    remove_objects(lab.project.bay)


def measure(paths: Iterable[Path]) -> int:
    """The bytes that would be free without these; a file that has a name elsewhere stays."""
    names: dict[tuple[int, int], int] = {}
    files: dict[tuple[int, int], os.stat_result] = {}
    for path in paths:
        for folder, _, found in os.walk(path):
            for name in found:
                status = os.lstat(Path(folder, name))
                key = (status.st_dev, status.st_ino)
                files[key] = status
                names[key] = names.get(key, 0) + 1
    return sum(one.st_size for key, one in files.items() if one.st_nlink <= names[key])


def _own_folder(lab: Lab, run: Run) -> Path:
    folder = lab.folder(run)
    if not _is_own(run, folder):
        message = f"`{folder}` leads to somewhere else; nothing was removed"
        raise StoreError(message, hint="look at it and remove it by hand")
    return folder


def _is_own(run: Run, folder: Path) -> bool:
    """Whether the folder is one of those that runs are in, and no link."""
    # What is kept here of a run elsewhere is in the project.
    runs = folder.parent if run.is_elsewhere else Path(run.place["root"]) / "runs"
    return not folder.is_symlink() and folder.resolve().parent == runs.resolve()


def _await_release(lab: Lab, runs: Sequence[Run], sleep: Callable[[float], None]) -> None:
    """Wait until no target has to do with the runs: the end is recorded a little before that."""
    places = {(run.target, *sorted(run.place.values())): run for run in runs if run.native_id}
    wanted = {run.id for run in runs}
    for run in places.values():
        backend = lab.targets.reopen(run)
        if not isinstance(backend, Discovery):
            continue
        deadline = lab.clock() + LETTING_GO_S
        while left := wanted & {handle.run_id for handle in backend.discover()}:
            if lab.clock() > deadline:
                raise BadRequest(
                    f"`{run.target}` still has to do with {len(left)} of them: {min(left)}",
                    hint="try again in a minute",
                )
            sleep(LOOK_EVERY_S)


def _refuse_living(lab: Lab, runs: Sequence[Run]) -> None:
    """See that nobody has begun one again since they were listed, and that nobody does."""
    ids = [run.id for run in runs]
    with lab.store.transaction():
        stored = lab.store.named(ids)
        for run in runs:
            now = stored.get(run.id, run)
            if now.attempt != run.attempt or not now.state.final:
                raise BadRequest(
                    f"`{run.id}` was begun again meanwhile; nothing was removed",
                    hint=f"`bay cancel {run.suffix}` ends it",
                )
        lab.store.request_cancel(ids)


def _roots(lab: Lab) -> list[Path]:
    """Every folder that runs of this project are or were under."""
    runs = lab.store.runs(Query(project=lab.project.id))
    here = (Path(run.place["root"]) for run in runs if not run.is_elsewhere)
    return sorted({lab.project.bay, *here})


def _references(lab: Lab, roots: Iterable[Path]) -> set[str]:
    """The code, launches and origins that runs name, in the index or in their own folders."""
    needed: set[str] = set()
    for run in lab.store.runs(Query(project=lab.project.id)):
        needed |= {run.code, run.launch}
        needed |= {attempt.code for attempt in lab.store.attempts(run.id)}
    for root in roots:
        for folder in _entries(root / "runs"):
            for path in (folder / rundir.JOB, *folder.glob(f"attempts/*/{rundir.JOB}")):
                needed |= _read_references(path)
        for name in SHEETS:
            # Of any project: until a run starts, nothing else there says what it needs.
            for sheet in root.glob(f"plans/*/{name}"):
                needed |= _read_sheet(sheet)
    return needed


def _read_sheet(path: Path) -> set[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as err:
        hint = "mend or remove that plan first; nothing was removed"
        raise StoreError(f"`{path}` cannot be read: {err}", hint=hint) from err
    return {*SNAPSHOT.findall(text), *ENVIRONMENT.findall(text), *KEPT.findall(text)}


def _read_references(path: Path) -> set[str]:
    try:
        job = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
        named = [
            *ENVIRONMENT.findall(job.get("entry", "")),
            *KEPT.findall(job.get("carriage", "")),
        ]
        return {job["snapshot"], job["labels"].get("launch", ""), job["origin"], *named}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError) as err:
        hint = "mend or remove that run folder first; nothing was removed"
        raise StoreError(f"`{path}` cannot be read: {err}", hint=hint) from err


def _is_needed(kind: str, path: Path, needed: set[str]) -> bool:
    match kind:
        case "trees":
            # Named `<code>-<kind>`, with a process id while it is being made.
            return path.name.partition("-")[0] in needed
        case "origins":
            return str(path) in needed
        case "envs" | "data":
            # Beside each stand the code that it was built from, its lock and its mark.
            return path.name.partition(".")[0] in needed
    return path.name in needed


def _find_work(lab: Lab, before: float) -> Iterator[Waste]:
    for run in lab.store.runs(Query(project=lab.project.id, states=ENDED)):
        folder = lab.folder(run)
        work = folder / rundir.WORK
        old = (run.status.ended_at or run.created_at) < before
        if old and _is_own(run, folder) and work.is_dir() and not work.is_symlink():
            yield Waste(kind="working folders", root=folder.parent.parent, path=work)


def _find_strays(lab: Lab, before: float) -> Iterator[Waste]:
    """Stored files that are in no frozen tree; `remove_objects` takes them."""
    root = lab.project.bay
    for path in sorted((root / "objects").glob("*/*")):
        status = path.lstat()
        if status.st_nlink == 1 and status.st_mtime < before:
            yield Waste(kind=STRAYS, root=root, path=path)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _set_aside(root: Path, path: Path) -> Path:
    """Where the folder is now; nobody takes it for what it was."""
    scratch = root / SCRATCH
    aside = scratch / f"gone-{path.parent.name}-{path.name}-{os.getpid()}"
    try:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path.rename(aside)
    except OSError:
        # Somebody may have moved the folder to another disk and left a link.
        return path


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        try:
            shutil.rmtree(path)
        except PermissionError:
            _make_writable(path)
            shutil.rmtree(path)


def _make_writable(top: Path) -> None:
    """Programs may make their own folders read-only; only folders are touched, no files."""
    top.chmod(0o700)
    for folder, folders, _ in os.walk(top):
        for name in folders:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o700)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise StoreError(
            f"cannot remove `{err.filename}`: {err.strerror}", hint="check whose folder it is"
        ) from err
