"""A plain folder as object storage: a key is a path below it, verbatim."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import ChangedError, DataError, Unsupported
from launchbay.sync.bucket import (
    PARTS_AT_ONCE,
    SMALLEST_PART,
    Entry,
    Level,
    apply_details,
    details_of,
    split_url,
)
from launchbay.sync.bucket_errors import Attempt, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from typing_extensions import Buffer

    from launchbay.sync.bucket import Bucket, BucketOptions

CHUNK = 1024 * 1024
_TRIES = 50


class FolderBucket:
    """A folder; written through temporary names beside, never read through links out of it."""

    parts = False

    def __init__(self, options: BucketOptions) -> None:
        self.root = Path(split_url(options.url)[1])
        self.url = f"file://{self.root}"

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        """Everything below the folder, in order of key; folders that vanish meanwhile are gone."""
        with self._explained(prefix):
            self._check_there()
            yield from self._walk(self._folder(prefix), prefix)

    def level(self, prefix: str = "") -> Level:
        """What lies directly in the folder."""
        with self._explained(prefix):
            self._check_there()
            found = _scan(self._folder(prefix))
            folders = [prefix + name for name, item in found if item.is_dir(follow_symlinks=False)]
            seen = [self._listed(prefix + name, item) for name, item in found]
            return Level(folders, [entry for entry in seen if entry is not None])

    def head(self, key: str) -> Entry | None:
        """The file, if there is one."""
        with self._explained(key):
            return self._entry(key)

    def read(
        self, key: str, *, start: int = 0, end: int | None = None, etag: str = ""
    ) -> Iterator[Buffer]:
        """The bytes in chunks; a file that is written over meanwhile is noticed."""
        with self._explained(key), self._readable(key).open("rb", buffering=0) as file:
            before = _etag(os.fstat(file.fileno()))
            if etag and etag != before:
                raise self._changed(key)
            file.seek(start)
            left = None if end is None else end - start
            while left is None or left > 0:
                chunk = file.read(CHUNK if left is None else min(CHUNK, left))
                if not chunk:
                    break
                left = None if left is None else left - len(chunk)
                yield chunk
            if _etag(os.fstat(file.fileno())) != before:
                raise self._changed(key)

    def take(self, key: str, *, etag: str = "") -> tuple[Buffer, Mapping[str, str]]:
        """The file as a whole, with its mode and time."""
        return b"".join(self.read(key, etag=etag)), self.details(key)

    def details(self, key: str) -> Mapping[str, str]:
        """The file's own mode and time."""
        with self._explained(key):
            return details_of(self._readable(key).stat())

    def put(
        self,
        key: str,
        source: bytes | Path | Iterable[bytes],
        *,
        details: Mapping[str, str] | None = None,
        part_size: int = SMALLEST_PART,  # noqa: ARG002
        at_once: int = PARTS_AT_ONCE,  # noqa: ARG002
    ) -> str:
        """Write beside, then rename."""
        with self._explained(key):
            path = self._path(key)
            beside, descriptor = _open_beside(path)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    _fill(file.fileno(), source)
                apply_details(beside, details or {})
                made = _etag(beside.stat())
                _into_place(beside, path)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
            return made

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files, and folders that became empty."""
        emptied = set()
        for key in keys:
            with self._explained(key):
                path = self._path(key)
                # A missing one is no error, nor is one whose folder is a file.
                with suppress(FileNotFoundError, NotADirectoryError):
                    path.unlink()
                emptied.add(path.parent)
        for folder in emptied:
            self._prune(folder)

    def copy(self, key: str, to: str) -> None:
        """Copy a file with its mode and time."""
        self._copy_file(self._readable(key), key, to)

    def copy_from(self, other: Bucket, key: str, to: str) -> bool:
        """Copy from another folder; False for anything else."""
        if not isinstance(other, FolderBucket):
            return False
        self._copy_file(other._readable(key), key, to)  # noqa: SLF001 - one of us
        return True

    def sign(self, key: str, *, seconds: int, method: str = "GET") -> str:
        """A folder hands out no addresses."""
        del seconds, method
        raise Unsupported(
            f"{self.url} is a folder, which has no address to hand out",
            hint=f"the file is {self.root / key}",
        )

    def _copy_file(self, source: Path, key: str, to: str) -> None:
        with self._explained(key):
            self.put(to, source, details=details_of(source.stat()))

    def _walk(self, folder: Path, prefix: str) -> Iterator[Entry]:
        for name, item in _scan(folder):
            if name.endswith("/"):
                yield from self._walk(folder / name[:-1], prefix + name)
                continue
            entry = self._listed(prefix + name, item)
            if entry is not None:
                yield entry

    def _listed(self, key: str, item: os.DirEntry[str]) -> Entry | None:
        """A file that was found in a folder, without looking again at the way there."""
        if item.is_symlink():
            return self._entry(key)
        with suppress(FileNotFoundError):
            status = item.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                return Entry(key, status.st_size, status.st_mtime, _etag(status))
        return None

    def _entry(self, key: str) -> Entry | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            path = self._path(key)
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                if not self._inside(path):
                    return None
                status = path.stat()
            if stat.S_ISREG(status.st_mode):
                return Entry(key, status.st_size, status.st_mtime, _etag(status))
        return None

    def _folder(self, prefix: str) -> Path:
        return self._path(prefix.removesuffix("/")) if prefix else self.root

    def _path(self, key: str) -> Path:
        """Where the key's file is; raises where that would be outside."""
        segments = key.split("/")
        if not key or "\0" in key or {"", ".", ".."} & set(segments):
            raise DataError(
                f"{self.url} cannot hold a file named {key!r}", hint="give it another name"
            )
        path = self.root.joinpath(*segments)
        if not self._inside(path.parent):
            raise self._leads_out(key)
        return path

    def _readable(self, key: str) -> Path:
        path = self._path(key)
        if path.is_symlink() and not self._inside(path):
            raise self._leads_out(key)
        return path

    def _leads_out(self, key: str) -> DataError:
        return DataError(
            f"{key} lies behind a link that leads out of {self.url}",
            hint="name the place that the link leads to",
        )

    def _inside(self, path: Path) -> bool:
        root, real = os.path.realpath(self.root), os.path.realpath(path)
        return real == root or real.startswith(root.rstrip("/") + "/")

    def _check_there(self) -> None:
        """A folder that is still to be made is empty; one whose parent is missing is a mistake."""
        if not self.root.exists() and not self.root.parent.is_dir():
            raise DataError(
                f"there is no folder {self.root}",
                hint=f"check the name and whether it is mounted, or: mkdir -p {self.root}",
            )

    def _prune(self, folder: Path) -> None:
        while folder != self.root and self._inside(folder):
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return
            folder = folder.parent

    def _changed(self, key: str) -> ChangedError:
        return ChangedError(f"{key} in {self.url} was changed meanwhile", hint="try again")

    @contextmanager
    def _explained(self, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise explain(error, Attempt(url=self.url, key=key)) from error


def is_temporary(name: str) -> bool:
    """Whether a file's name is one that launchbay writes under until the file is whole.

    >>> is_temporary(".bay-1f.part"), is_temporary(".bay-notes")
    (True, False)
    """
    return name.startswith(".bay-") and ".part" in name


def _scan(folder: Path) -> list[tuple[str, os.DirEntry[str]]]:
    """What is in a folder, in order of key; names of folders end with a slash."""
    found = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found.append((f"{entry.name}/", entry))
            elif not is_temporary(entry.name):
                found.append((entry.name, entry))
    return sorted(found, key=itemgetter(0))


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}.{status.st_size:x}.{status.st_ino:x}"


def _open_beside(path: Path) -> tuple[Path, int]:
    """A new file with a temporary name; another may remove the folder as empty meanwhile."""
    for left in reversed(range(_TRIES)):
        beside = path.with_name(f".bay-{secrets.token_hex(8)}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return beside, os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError


def _fill(descriptor: int, source: bytes | Path | Iterable[bytes]) -> None:
    with open(descriptor, "wb", closefd=False) as file:
        if isinstance(source, Path):
            with source.open("rb") as given:
                shutil.copyfileobj(given, file, CHUNK)
            return
        file.writelines([source] if isinstance(source, bytes) else source)


def _into_place(beside: Path, path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(21, "is a folder", str(path))
    beside.replace(path)
