"""Bringing outputs and logs of runs to where people look for them.

```text
results/
    .gitignore              everything
    <experiment>/
        results.csv         the table of all its runs
        <run id>/
            run.json        what is known of the run, for when it is forgotten
            params.json
            log.txt         of the last attempt; log.1.txt and so on of those before
            out/            what it wrote
            code/           its frozen code, when asked for
```

Every file is there as a whole or not at all; one that has not changed is not copied again.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import stat
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from launchbay.core import rundir
from launchbay.core.backend import Outputs
from launchbay.core.errors import BadRequest, StoreError, TargetError
from launchbay.core.job import to_record
from launchbay.core.run import Cause, Run, State, Status
from launchbay.core.whole import replacing
from launchbay.engine.code import find_code
from launchbay.engine.results import tabulate
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from launchbay.engine.lab import Lab

RESULTS = "results"
TABLE = "results.csv"
RECORD = "run.json"
MARK = "fetched"
CODE = "code"
IGNORE = ".gitignore"


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What came of one run."""

    run: Run
    folder: Path
    copied: int
    size: int
    """Bytes that were copied now."""
    left_out: tuple[str, ...]
    """Outputs that are links to elsewhere, or no files."""
    origin: str = ""
    """The place in object storage that it came from, where its target had it no more."""


@dataclass(frozen=True, kw_only=True)
class Fetching:
    """What is to be brought, and where to."""

    place: Path
    patterns: tuple[str, ...] = ()
    """Outputs that match one of them; empty is all."""
    code: bool = False


def prepare_results(folder: Path, experiments: Iterable[str]) -> Path:
    """The project's folder `results`, in which git ignores what is ours.

    Where somebody keeps a folder of that name already, only the experiments in it are ours.
    """
    place = folder / RESULTS
    ours = not place.exists() or _read(place / IGNORE) == "*\n"
    for top in [place] if ours else [experiment_folder(place, name) for name in experiments]:
        if not (top / IGNORE).exists():
            write_whole(top / IGNORE, "*\n")
    return place


def experiment_folder(place: Path, experiment: str) -> Path:
    """Where an experiment's runs go; whatever its name, inside of `place`."""
    return place / (re.sub(r"[/\x00-\x1f]", "-", experiment).lstrip(".") or "experiment")


def fetch(lab: Lab, run: Run, how: Fetching) -> Fetched:
    """Copy what a run left, as far as it has changed since the last time.

    Raises:
        StoreError: when something cannot be read or written.
    """
    origin = bring_home(lab, run, how.patterns)
    source, place = lab.folder(run), experiment_folder(how.place, run.experiment) / run.id
    outputs, left_out = _list_outputs(source, how.patterns, _unmoved(source, run))
    wanted = {**outputs, **_list_records(source, run)}
    tree = find_code(lab, run) if how.code else None
    if tree:
        wanted |= {f"{CODE}/{path}": file for path, file in _walk(tree, [tree]) if file}
    with _translated():
        # What came from elsewhere need not be here twice.
        copy = _link if run.is_elsewhere else shutil.copyfile
        sizes = [_update(file, place / path, copy) for path, file in wanted.items()]
        write_whole(place / RECORD, json.dumps(asdict(run), indent=1))
        if run.state.final and not how.patterns:
            write_whole(source / MARK, f"{run.attempt}\n")
    copied = [size for size in sizes if size is not None]
    return Fetched(
        run=run,
        folder=place,
        copied=len(copied),
        size=sum(copied),
        left_out=tuple(sorted(left_out)),
        origin=origin,
    )


def bring_home(lab: Lab, run: Run, patterns: Sequence[str] = ()) -> str:
    """Have the files of a run elsewhere in its folder here, as far as they are new.

    Where its target does not answer, or has no files of it any more, they come from where the run
    has copied them to: then that place is returned.

    Raises:
        DataError: when they are in object storage, and that does not let us.
        StoreError: when they cannot be written.
        TargetError: when its target does not answer, and they are nowhere else.
    """
    try:
        there = _pull(lab, run, patterns)
    except TargetError:
        if url := _from_store(lab, run, patterns):
            return url
        raise
    return "" if there or not run.state.final else _from_store(lab, run, patterns)


def _pull(lab: Lab, run: Run, patterns: Sequence[str]) -> bool:
    """Bring what the target has; whether it has a folder of the run."""
    if not run.is_elsewhere:
        return lab.folder(run).is_dir()
    backend = lab.targets.reopen(run)
    if not run.native_id or not isinstance(backend, Outputs):
        return True
    note_asked(lab, run)
    return backend.pull(run.handle, lab.folder(run), patterns=patterns)


def note_asked(lab: Lab, run: Run) -> None:
    """Have in the run's folder here what was asked for, where nothing came from there yet."""
    path = lab.folder(run) / rundir.JOB
    if path.exists():
        return
    try:
        job = lab.read_job(run)
    except BadRequest:
        return
    write_whole(path, json.dumps(to_record(job)))


def _from_store(lab: Lab, run: Run, patterns: Sequence[str]) -> str:
    if not lab.shipped_to(run):
        return ""
    from launchbay.engine.homing import bring_from_store  # noqa: PLC0415

    return bring_from_store(lab, run, patterns)


def has_files(lab: Lab, run: Run) -> bool:
    """Whether a run left anything that can be fetched: here, elsewhere, or in object storage."""
    return bool(run.is_elsewhere or lab.folder(run).is_dir() or lab.shipped_to(run))


def was_fetched(lab: Lab, run: Run) -> bool:
    """Whether all outputs of the run's last attempt were copied after its end."""
    return _read(lab.folder(run) / MARK).strip() == str(run.attempt)


def write_table(lab: Lab, place: Path, experiment: str, project: str | None) -> Path:
    """Write the table of an experiment's runs: those that exist, and those that were fetched."""
    folder = experiment_folder(place, experiment)
    runs = lab.store.runs(Query(project=project, experiment=experiment))
    known = {run.id for run in runs}
    runs += [run for run in _read_runs(folder) if run.id not in known]
    table = tabulate(sorted(runs, key=lambda run: run.created_at), now=lab.clock())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    write_whole(folder / TABLE, text.getvalue())
    return folder / TABLE


def write_whole(path: Path, text: str) -> None:
    """Write a file, and the folders above it; whoever reads it meets all of it or none.

    Raises:
        StoreError: when it cannot be written.
    """
    with _translated(), _replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="surrogateescape")


def _unmoved(source: Path, run: Run) -> list[str]:
    """Folders of outputs that a run still has in its working folder: they move when it ends."""
    if run.state.final:
        return []
    try:
        outputs = json.loads(_read(source / rundir.JOB))["outputs"]
    except (ValueError, KeyError):
        return []
    folders = {name: source / rundir.WORK / name for name in outputs}
    return [name for name, path in folders.items() if path.is_dir() and not path.is_symlink()]


def _list_outputs(
    source: Path, patterns: Sequence[str], unmoved: Sequence[str]
) -> tuple[dict[str, Path], list[str]]:
    """The outputs that match, by their place in the run folder, and those that cannot be copied."""
    # `job.json`'s neighbours may hold secrets, so links may not lead just anywhere in the folder.
    bases = [source / rundir.OUT, source / rundir.WORK]
    found = dict(_walk(source / rundir.OUT, bases))
    for name in unmoved:
        inside = _walk(source / rundir.WORK / name, bases)
        found |= {f"{name}/{path}": file for path, file in inside}
    chosen = {path: file for path, file in found.items() if _matches(path, patterns)}
    files = {f"{rundir.OUT}/{path}": file for path, file in chosen.items() if file}
    return files, [path for path, file in chosen.items() if file is None]


def _list_records(source: Path, run: Run) -> dict[str, Path]:
    found = {rundir.PARAMS: source / rundir.PARAMS}
    for number in range(1, run.attempt + 1):
        name = "log.txt" if number == run.attempt else f"log.{number}.txt"
        found[name] = rundir.attempt_folder(source, number) / rundir.log_name()
    return {name: path for name, path in found.items() if path.is_file()}


def _walk(top: Path, bases: Sequence[Path]) -> Iterator[tuple[str, Path | None]]:
    """Every file by its path below `top`; None for what is no file, or a link out of `bases`."""
    inside = [base.resolve() for base in bases]
    for folder, folders, files in os.walk(top):
        for name in (*files, *folders):
            path = Path(folder, name)
            end = path.resolve()
            # A folder is walked where it is, not where a link to it stands.
            if path.is_dir() and end.is_relative_to(inside[0]):
                continue
            at_home = any(end.is_relative_to(base) for base in inside) and path.is_file()
            yield path.relative_to(top).as_posix(), path if at_home else None


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether the path, its last word, or a folder above it matches; no pattern matches all."""
    parents = [str(parent) for parent in PurePosixPath(path).parents][:-1]
    words = (path, path.rpartition("/")[2], *parents)
    return not patterns or any(
        fnmatchcase(word, pattern.rstrip("/")) for pattern in patterns for word in words
    )


def _link(source: Path, place: Path) -> None:
    try:
        place.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, place)


def _update(source: Path, place: Path, copy: Callable[[Path, Path], object]) -> int | None:
    """Copy a file unless it is there as it is; returns its size if it was copied."""
    try:
        status = source.stat()
        if _is_copy(place, status):
            return None
        with _replacing(place) as draft:
            copy(source, draft)
            draft.chmod(stat.S_IMODE(status.st_mode) | stat.S_IWUSR)
            # As it was before the copy began: what is written meanwhile is fetched next time.
            os.utime(draft, ns=(status.st_atime_ns, status.st_mtime_ns))
    except FileNotFoundError:
        # A running program may take its files away.
        return None
    return status.st_size


def _is_copy(place: Path, status: os.stat_result) -> bool:
    try:
        there = place.stat()
    except OSError:
        return False
    return (there.st_size, there.st_mtime_ns) == (status.st_size, status.st_mtime_ns)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """As `replacing`, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        yield draft


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as err:
        hint = "make room, or choose another folder with `-o`"
        raise StoreError(f"`{err.filename}`: {err.strerror}", hint=hint) from err


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _read_runs(folder: Path) -> Iterator[Run]:
    """The runs that were fetched to a folder; what cannot be read is left out."""
    for path in sorted(folder.glob(f"*/{RECORD}")):
        try:
            yield _parse_run(json.loads(_read(path)))
        except (ValueError, TypeError, KeyError):
            continue


def _parse_run(record: Mapping[str, Any]) -> Run:
    status = record["status"]
    cause = status["cause"]
    return Run(
        **{
            **record,
            "tags": tuple(record["tags"]),
            "status": Status(
                **{
                    **status,
                    "state": State(status["state"]),
                    "cause": None if cause is None else Cause(cause),
                    "nodes": tuple(status["nodes"]),
                }
            ),
        }
    )
