"""The user's code, frozen: listed, hashed, and stored once under the hash of its content.

```text
<store>/
    snapshots/<id>/                       a tree of hard links into objects/
    objects/<2 hex>/<62 hex>-<mode>       the bytes of one file, read-only
    stat-cache                            what files looked like when they were last read
    tmp/                                  what is being built
```
"""

from __future__ import annotations

import errno
import hashlib
import heapq
import os
import shutil
import stat
import tempfile
import time
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, NamedTuple

from launchbay.core import rundir
from launchbay.core.errors import ConfigError, StoreError
from launchbay.core.quantity import render_size
from launchbay.sync.codebase import (
    NEVER,
    Codebase,
    find_code,
    find_links,
    normalize,
    parents_of,
    stamp_of,
    start_listing,
)
from launchbay.sync.statcache import read_stat_cache, write_stat_cache

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from io import FileIO

    from launchbay.sync.codebase import Known, Row, Stamp

ID_LENGTH = 12
LIMIT_BYTES = 100_000_000
CHUNK = 1 << 20
# git's name for what may have changed unseen: racily clean.
RACY_NS = 2_000_000_000
OBJECT_AGE_S = 3600
BUILD_AGE_S = 24 * 3600
CACHE = "stat-cache"
LINK = "link:"
# ENOTSUP and EPERM: file systems without hard links; EMLINK: ext4 allows 65000 to one file.
NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP})


class Entry(NamedTuple):
    """A file or a symbolic link of a listing."""

    path: str
    """Where it lands, relative, with `/` between folders."""
    source: str
    """Where it was found."""
    stamp: Stamp
    """What it looked like before it was read."""
    mark: str
    """Its part of the id: `444:<sha256>` or `link:<target>`."""

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mark.startswith(LINK)

    @property
    def target(self) -> str:
        """Where a symbolic link points."""
        return self.mark.removeprefix(LINK)

    @property
    def mode(self) -> int:
        """The permissions of a file, without those to write."""
        return self.stamp[-1] & 0o555

    @property
    def sha256(self) -> str:
        """The hash of a file's bytes."""
        return self.mark[4:]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The code as it stands, hashed but not stored."""

    id: str
    rows: Sequence[Row]
    """The entries as plain tuples, sorted by path."""
    size: int
    links: Mapping[str, str]
    """What a run on this machine finds beside the code: its path there, and the original."""
    unreadable: tuple[str, ...]
    """Paths that are code but could not be read; they are left out."""
    taken_ns: int
    """When the first file was looked at."""

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The files and symbolic links, sorted by path."""
        return tuple(Entry(*row) for row in self.rows)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Frozen code: `tree` holds exactly what `id` names."""

    id: str
    tree: Path
    size: int
    files: int


def scan(
    project: Path,
    *,
    store: Path,
    code: Sequence[tuple[str, str]] = (),
    laid: Sequence[str] = (),
    fetched: Sequence[str] = (),
    in_image: bool = False,
    outputs: Sequence[str] = (),
    limit_bytes: int = LIMIT_BYTES,
) -> Listing:
    """List and hash the project's code; writes nothing.

    Args:
        project: its folder.
        store: where `freeze` will keep it; only its cache is read.
        code: files and folders from elsewhere, and the path each lands at.
        laid: files and folders of the project that travel although they are ignored.
        fetched: files and folders of the project that do not travel, for runs fetch them.
        in_image: whether the code is in an image already, and only what is laid over it travels.
        outputs: folders that each run has for itself, so they are not linked.
        limit_bytes: how much code is probably a mistake.

    Raises:
        ConfigError: the code is above the limit, or one of `code` is missing or in the way.
    """
    taken_ns = time.time_ns()
    project = project.resolve()
    listing = start_listing(str(project))
    # The cache is read while git works.
    known = read_stat_cache(store / CACHE)
    own = _place_inside(store, project)
    apart = normalize(outputs) | own
    base = find_code(str(project), listing, known, outputs=apart, own=own)
    if in_image:
        base = Codebase(rows=[], unreadable=[])
    base.rows[:] = [row for row in base.rows if not _is_below(row[0], fetched)]
    base.rows.extend(_find_laid(project, base.rows, laid))
    extras = _find_extras(project, base.rows, code, known)
    found = sorted(base.rows + extras.rows, key=itemgetter(0))
    _check_size(found, limit_bytes)
    rows, unread = _read_rows(found)
    unreadable = sorted(unread + base.unreadable + extras.unreadable)
    return Listing(
        id=identify(rows),
        rows=rows,
        size=_total(rows),
        links=_find_links(project, base, extras, apart),
        unreadable=tuple(unreadable),
        taken_ns=taken_ns,
    )


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def freeze(listing: Listing, store: Path) -> Snapshot:
    """Store the code once and return its read-only tree.

    The id is that of the bytes that were stored: where a file has changed since the scan, it
    differs from the listing's. May be called by several processes at once, and again.

    Raises:
        StoreError: the store cannot be written.
    """
    try:
        return _freeze(listing, store)
    except OSError as err:
        raise StoreError(f"cannot store the code in `{store}`: {err.strerror or err}") from err


def remove_objects(store: Path) -> tuple[int, int]:
    """Delete what no snapshot holds and nobody just stored; return how many and their bytes."""
    now = time.time()
    sizes = []
    for path in (store / "objects").glob("*/*"):
        status = path.lstat()
        if status.st_nlink == 1 and status.st_mtime < now - OBJECT_AGE_S:
            path.unlink(missing_ok=True)
            sizes.append(status.st_size)
    for path in (store / "tmp").glob("*"):
        if path.lstat().st_mtime < now - BUILD_AGE_S:
            shutil.rmtree(path, ignore_errors=True)
    return len(sizes), sum(sizes)


def identify(rows: Iterable[Row]) -> str:
    """The name of rows that are sorted by path."""
    # Neither a path nor a mark can hold a NUL.
    text = "\0".join([f"{path}\0{mark}" for path, _, _, mark in rows])
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:ID_LENGTH]


def _place_inside(store: Path, project: Path) -> frozenset[str]:
    place = store.resolve()
    if not place.is_relative_to(project):
        return frozenset()
    return frozenset({place.relative_to(project).as_posix()})


def _find_extras(
    project: Path, base: Sequence[Row], code: Sequence[tuple[str, str]], known: Known
) -> Codebase:
    extras = Codebase(rows=[], unreadable=[])
    for source, landing in code:
        extra = _find_extra(project, source, normpath(landing), known)
        _check_clash([*base, *extras.rows], extra.rows)
        extras.rows.extend(extra.rows)
        extras.unreadable.extend(extra.unreadable)
    return extras


def _find_laid(project: Path, base: Sequence[Row], laid: Sequence[str]) -> list[Row]:
    """Files that were named one by one, or by their folder; those that hold secrets stay here."""
    found: dict[str, Row] = {}
    for name in laid:
        place = normpath(name)
        origin = project / place
        if place.startswith(("/", "../")) or place == "..":
            raise ConfigError(
                f"`file`: `{name}` is outside of the project",
                hint="name files inside of it; `code: [../lib:lib]` brings others",
            )
        if not origin.exists() and not NEVER.search(f"/{place}"):
            raise ConfigError(f"`file`: there is no `{name}`", hint=f"looked for `{origin}`")
        paths = sorted(origin.rglob("*")) if origin.is_dir() else [origin]
        for path in paths:
            inside = path.relative_to(project).as_posix()
            if path.is_file() and not NEVER.search(f"/{inside}"):
                found[inside] = (inside, str(path), stamp_of(path.lstat()), "")
    taken = {path for path, *_ in base}
    return [row for path, row in found.items() if path not in taken]


def _find_extra(project: Path, source: str, landing: str, known: Known) -> Codebase:
    origin = (project / Path(source).expanduser()).resolve()
    _check_landing(source, origin, landing)
    if origin.is_file():
        path = origin.name if landing == "." else landing
        stamp = stamp_of(origin.stat())
        seen = known.get(str(origin))
        mark = seen[1] if seen and seen[0] == stamp else ""
        return Codebase(rows=[(path, str(origin), stamp, mark)], unreadable=[])
    if not origin.is_dir():
        raise ConfigError(f"`code`: there is no `{source}`", hint=f"looked for `{origin}`")
    found = find_code(str(origin), start_listing(str(origin)), known)
    prefix = "" if landing == "." else f"{landing}/"
    return Codebase(
        rows=[(prefix + row[0], *row[1:]) for row in found.rows],
        unreadable=[prefix + path for path in found.unreadable],
    )


def _check_landing(source: str, origin: Path, landing: str) -> None:
    if landing == ".." or landing.startswith(("/", "../")):
        raise ConfigError(
            f"`code`: `{source}` would land outside of the project, at `{landing}`",
            hint="name a path inside of it: `../lib:lib`",
        )
    if NEVER.search(f"/{landing}/{Path(source).name}/{origin.name}"):
        raise ConfigError(f"`code`: `{source}` may hold secrets and never enters a snapshot")


def _check_clash(base: Sequence[Row], extra: Sequence[Row]) -> None:
    taken = {path for path, *_ in base}
    landing = {path for path, *_ in extra}
    clash = taken & landing | taken & parents_of(landing) | parents_of(taken) & landing
    if clash:
        raise ConfigError(
            f"`code`: two files want to be `{min(clash)}`",
            hint="let the path land somewhere else: `../lib:other`",
        )


def _check_size(rows: Sequence[Row], limit_bytes: int) -> None:
    size = _total(rows)
    if size <= limit_bytes:
        return
    largest = heapq.nlargest(10, [(stamp[0], path) for path, _, stamp, _ in rows])
    lines = [f"{render_size(length):>10}  {path}" for length, path in largest]
    raise ConfigError(
        f"`snapshot_limit`: the code is {render_size(size)}, more than {render_size(limit_bytes)}",
        hint="add what is not code to `.gitignore` or `.bayignore`, or raise `snapshot_limit`;"
        " the largest files:\n" + "\n".join(lines),
    )


def _total(rows: Iterable[Row]) -> int:
    return sum([stamp[0] for _, _, stamp, _ in rows])


def _read_rows(found: Iterable[Row]) -> tuple[list[Row], list[str]]:
    """The rows, all of them read, and the paths that could not be."""
    rows: list[Row] = []
    unreadable: list[str] = []
    for row in found:
        path, source, stamp, mark = row
        if mark:
            rows.append(row)
            continue
        try:
            rows.append((path, source, stamp, _read_mark(source, stamp)))
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(path)
    return rows, unreadable


def _read_mark(source: str, stamp: Stamp) -> str:
    if stat.S_ISLNK(stamp[-1]):
        # Path.readlink would tidy the target up.
        return LINK + os.readlink(source)  # noqa: PTH115
    with _open_source(source) as file:
        return _render_mark(stamp, hashlib.file_digest(file, "sha256").hexdigest())


def _render_mark(stamp: Stamp, digest: str) -> str:
    return f"{stamp[-1] & 0o555:03o}:{digest}"


def _open_source(source: str) -> FileIO:
    # Whatever took the file's place meanwhile: no link is followed, no pipe waited for.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(source, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no longer a file", source)
    return os.fdopen(descriptor, "rb", buffering=0)


def _find_links(
    project: Path, base: Codebase, extras: Codebase, apart: Collection[str]
) -> dict[str, str]:
    inside = parents_of([path for path, _, _, _ in base.rows])
    landed = [path for path, _, _, _ in extras.rows]
    taken = {path for path, _, _, _ in base.rows}
    taken.update(inside, landed, parents_of(landed), apart, parents_of(apart), base.unreadable)
    return find_links(str(project), {"", *inside}, taken=taken)


def _freeze(listing: Listing, store: Path) -> Snapshot:
    for name in ("objects", "snapshots", "tmp"):
        (store / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    tree = rundir.code_folder(store, listing.id)
    stored = listing.rows
    with tempfile.TemporaryDirectory(dir=store / "tmp") as temporary:
        workshop = Path(temporary)
        if not tree.is_dir():
            stored = _build(listing.rows, workshop, store / "objects")
            tree = _publish(workshop / "tree", rundir.code_folder(store, identify(stored)))
        # What was written just before the scan may be written again within the same tick.
        believable_ns = listing.taken_ns - RACY_NS
        known = [row for row in stored if row[2][1] < believable_ns]
        write_stat_cache(store / CACHE, known, workshop=workshop)
    return Snapshot(id=tree.name, tree=tree, size=_total(stored), files=len(stored))


def _build(rows: Sequence[Row], workshop: Path, objects: Path) -> Sequence[Row]:
    """Build `workshop/tree` and return what is in it."""
    tree = workshop / "tree"
    for folder in ("", *sorted(parents_of(path for path, *_ in rows))):
        (tree / folder).mkdir()
        # mkdir obeys the umask; the tree is the same for everybody.
        (tree / folder).chmod(0o755)
    placed = [_place(row, tree, objects) for row in rows]
    stored = [row for row in placed if row is not None]
    if len(stored) == len(rows):
        return stored
    # What vanished may leave an empty folder, which the id would not speak of.
    shutil.rmtree(tree)
    return _build(stored, workshop, objects)


def _place(row: Row, tree: Path, objects: Path) -> Row | None:
    """Put one row into the tree as it is now; None when it is gone."""
    path, _, _, mark = row
    place = f"{tree}/{path}"
    if mark.startswith(LINK):
        Path(place).symlink_to(mark.removeprefix(LINK))
        return row
    try:
        _link(_object(objects, mark), place)
    except FileNotFoundError:
        stored = _store(row, tree.parent / "object", objects)
        if stored is not None:
            _link(_object(objects, stored[-1]), place)
        return stored
    return row


def _object(objects: Path, mark: str) -> str:
    mode, _, digest = mark.partition(":")
    return f"{objects}/{digest[:2]}/{digest[2:]}-{mode}"


def _link(source: str, place: str) -> None:
    try:
        os.link(source, place)
    except OSError as err:
        if err.errno not in NO_LINK:
            raise
        shutil.copy(source, place)


def _store(row: Row, temporary: Path, objects: Path) -> Row | None:
    """Copy the file's bytes to where their own hash says; None when it cannot be read."""
    path, origin, _, _ = row
    try:
        source = _open_source(origin)
    except OSError:
        return None
    with source, temporary.open("xb") as copy:
        stamp = stamp_of(os.fstat(source.fileno()))
        digest = hashlib.sha256()
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            copy.write(chunk)
    temporary.chmod(stamp[-1] & 0o555)
    mark = _render_mark(stamp, digest.hexdigest())
    _adopt(temporary, Path(_object(objects, mark)))
    return path, origin, stamp, mark


def _adopt(temporary: Path, place: Path) -> None:
    """Make the file an object, unless another process was faster."""
    place.parent.mkdir(exist_ok=True)
    try:
        # Not by a rename, which would replace an object: to link a file that is just being
        # replaced fails as if it had never been there (Linux, vfs_link).
        os.link(temporary, place)
    except FileExistsError:
        pass
    except OSError as err:
        if err.errno not in NO_LINK:
            raise
        temporary.replace(place)
    temporary.unlink(missing_ok=True)


def _publish(tree: Path, place: Path) -> Path:
    """Give the finished tree its name; another process may have been faster."""
    try:
        tree.rename(place)
    except OSError:
        if not place.is_dir():
            raise
    return place
