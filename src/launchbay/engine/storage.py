"""Storage that outlives runs and that a target has by name: claims."""

from __future__ import annotations

import posixpath
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.backends.delivery import check_place, deliver
from launchbay.backends.retrieval import fetch_files, is_here, list_files, look_up
from launchbay.core.backend import Claims, Parcel
from launchbay.core.errors import BadRequest, Unsupported
from launchbay.core.nearest import suggest
from launchbay.engine.deliver import walk
from launchbay.sync.steps import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launchbay.backends.depot_pull import Remote
    from launchbay.engine.lab import Lab

    Show = Callable[[Progress], None]
    Tell = Callable[[str], None]
    """Is told what is waited for."""

UMASK = 0o022
"""Pods of other accounts read what is on a claim."""
KUBERNETES = "kubernetes"
MOST_TOPS = 500


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What was moved, and what was not, with why."""

    files: tuple[tuple[str, int], ...] = ()
    """Names and sizes."""
    same: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    links: int = 0
    seconds: float = 0.0

    @property
    def size(self) -> int:
        """Bytes that were moved."""
        return sum(size for _, size in self.files)


def find_storage(lab: Lab, target: str | None) -> Claims:
    """The target whose claims are meant: the one named, the default, or the only one that has any.

    Raises:
        BadRequest: when there is no target of that name.
        Unsupported: when it has no claims.
    """
    from launchbay.config.configuration import default_target  # noqa: PLC0415

    name = target or default_target(lab.settings.config)
    entries = lab.settings.targets()
    if not target and entries.get(name, {}).get("kind") != KUBERNETES:
        having = [one for one, entry in entries.items() if entry.get("kind") == KUBERNETES]
        name = having[0] if len(having) == 1 else name
    backend = lab.targets.open(name, look="never").backend
    if not isinstance(backend, Claims):
        raise Unsupported(
            f"`{name}` has no claims", hint="name a Kubernetes: `bay storage … --target NAME`"
        )
    return backend


def parse_place(text: str, *, needs_path: bool = False) -> tuple[str, str]:
    """`NAME:PATH`, or `NAME` alone.

    >>> parse_place("data:sets/a"), parse_place("data"), parse_place("data:/sets/")
    (('data', 'sets/a'), ('data', ''), ('data', 'sets'))

    Raises:
        BadRequest: when it is not.
    """
    name, colon, path = text.partition(":")
    if not name or (needs_path and not colon) or "/" in name:
        raise BadRequest(f"`{text}` is no place of a claim", hint="write `NAME:PATH`: `data:sets/`")
    plain = posixpath.normpath(path.strip("/")) if path.strip("/") else ""
    return name, check_place(plain) if plain and plain != "." else ""


def list_below(claims: Claims, place: str, *, tell: Tell) -> list[Remote]:
    """The files of a claim at a path, or that match."""
    name, pattern = parse_place(place)
    with claims.open_claim(name, tell=tell) as (host, folder):
        return list(list_files(host, folder, pattern).files)


def push(
    claims: Claims, files: Sequence[str], place: str, *, tell: Tell, show: Show | None = None
) -> Moved:
    """Copy files and folders into a folder of a claim; what is there as it is stays.

    A folder keeps its name; with `/` at its end what is in it goes.

    Raises:
        BadRequest: when a file is not there, or there is no such claim.
        Rejected: when one cannot be written.
    """
    name, folder = parse_place(place, needs_path=True)
    parcels = gather(files, folder)
    began = time.monotonic()
    with claims.open_claim(name, tell=tell) as (host, root):
        there = look_up(host, root, _tops(parcels, folder))
        new = [parcel for parcel in parcels if not _is_there(parcel, there)]
        sizes = [(parcel.place, parcel.source.stat().st_size) for parcel in new]
        count = _Count(len(new), sum(size for _, size in sizes), show)
        deliver(host, root, new, umask=UMASK, moved=count.add)
    return Moved(files=tuple(sizes), same=len(parcels) - len(new), seconds=time.monotonic() - began)


def gather(files: Sequence[str], folder: str) -> list[Parcel]:
    """Where each file goes; folders are walked.

    Raises:
        BadRequest: when a file is not there, or two would have one place.
    """
    found: dict[str, Parcel] = {}
    for word in files:
        top = Path(word)
        if not top.exists():
            raise BadRequest(f"there is no file `{word}`")
        whole = top.resolve().name if top.is_dir() and not word.endswith("/") else ""
        for path in walk(top):
            inside = path.name if top.is_file() else path.relative_to(top).as_posix()
            place = check_place(posixpath.join(folder, whole, inside))
            if place in found:
                raise BadRequest(
                    f"`{path}` and `{found[place].source}` would both be `{place}`",
                    hint="copy them one after the other, to different folders",
                )
            found[place] = Parcel(source=path, place=place)
    return list(found.values())


def _tops(parcels: Sequence[Parcel], folder: str) -> list[str]:
    """The fewest paths that hold all places; many files are looked for in their folder."""
    depth = len(folder.split("/")) + 1 if folder else 1
    tops = dict.fromkeys("/".join(one.place.split("/")[:depth]) for one in parcels)
    return list(tops) if len(tops) <= MOST_TOPS else [folder]


def _is_there(parcel: Parcel, there: dict[str, Remote]) -> bool:
    other = there.get(parcel.place)
    own = parcel.source.stat()
    return other is not None and (other.size, other.mtime_ns // 10**9) == (
        own.st_size,
        int(own.st_mtime),
    )


def pull(claims: Claims, place: str, into: Path, *, tell: Tell, show: Show | None = None) -> Moved:
    """Copy what matches of a claim below a folder here; what is here as it is stays.

    Raises:
        BadRequest: when nothing matches, or there is no such claim.
    """
    name, pattern = parse_place(place)
    began = time.monotonic()
    with claims.open_claim(name, tell=tell) as (host, folder):
        listed = list_files(host, folder, pattern)
        if not listed.files:
            raise BadRequest(
                f"nothing of `{name}` matches `{pattern}`" if pattern else f"`{name}` is empty",
                hint=_nearest([file.place for file in list_files(host, folder).files], pattern),
            )
        new = [file for file in listed.files if not is_here(file, into)]
        count = _Count(len(new), sum(file.size for file in new), show)
        fetched = fetch_files(host, folder, new, into, count.add)
    return Moved(
        files=tuple((file.place, file.size) for file in fetched.done),
        same=len(listed.files) - len(new),
        failed=fetched.failed,
        links=listed.links,
        seconds=time.monotonic() - began,
    )


def _nearest(places: Sequence[str], pattern: str) -> str | None:
    known = {part for place in places for part in (place, place.partition("/")[0])}
    return suggest(pattern, known) if known else None


class _Count:
    """Adds up what was moved, and shows how far it is."""

    def __init__(self, files: int, size: int, show: Show | None) -> None:
        self._of = files, size
        self._show = show
        self._files = self._bytes = 0
        self._began = time.monotonic()

    def add(self, files: int, size: int) -> None:
        """So many more."""
        self._files += files
        self._bytes += size
        if self._show is None:
            return
        rate = self._bytes / max(time.monotonic() - self._began, 0.001)
        left = (self._of[1] - self._bytes) / rate if rate else None
        self._show(
            Progress(
                files=self._files,
                of_files=self._of[0],
                bytes=self._bytes,
                of_bytes=self._of[1],
                rate=rate,
                seconds_left=left,
            )
        )
