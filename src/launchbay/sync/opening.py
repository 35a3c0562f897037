"""Opening objects like files: read through a cache, written whole or not at all.

```text
CACHE/<bucket>/<key>/          both hashed, so that any name is a short one
    lock                       held by whoever fetches
    current                    JSON: the version that was fetched last, and when it was asked for
    <version>                  its bytes, named by its etag
```
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import BadRequest
from launchbay.core.whole import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from launchbay.sync.bucket import Bucket, Entry

READING = frozenset({"r", "rb", "rt", "br", "tr"})
WRITING = frozenset({"w", "wb", "wt", "bw", "tw"})


def open_cached(
    bucket: Bucket,
    key: str,
    *,
    cache: Path,
    place: str = "",
    mode: str = "rb",
    encoding: str | None = None,
    refresh: bool = False,
    max_age_s: float | None = None,
) -> io.BufferedReader | io.TextIOWrapper:
    """The object's bytes or text, from the cache when it was opened before.

    Args:
        bucket: where it is.
        key: its name there.
        cache: the folder of what was fetched before.
        place: the service that has the bucket; another may have one of the same name.
        mode: `rb` or `r`.
        encoding: of text; UTF-8 if not given.
        refresh: whether to ask the store if there is a newer one.
        max_age_s: how long after it was last asked for it need not be asked for again.

    Raises:
        FileNotFoundError: when there is no such object.
    """
    _check(mode, READING)
    folder = _folder(bucket, key, cache, place)
    file = None if refresh else _open_kept(folder, max_age_s)
    if file is None:
        began = time.time()
        with _locked(folder):
            # Somebody else may have fetched it while we waited.
            file = _open_kept(folder, time.time() - began if refresh else max_age_s)
            file = file or _renew(bucket, key, folder).open("rb")
    return file if "b" in mode else io.TextIOWrapper(file, encoding=encoding or "utf-8")


def forget(bucket: Bucket, key: str, *, cache: Path, place: str = "") -> None:
    """Have the next one who opens the object ask for it."""
    (_folder(bucket, key, cache, place) / "current").unlink(missing_ok=True)


def _folder(bucket: Bucket, key: str, cache: Path, place: str) -> Path:
    return cache / _hashed(f"{place}\n{bucket.url}") / _hashed(key)


def _renew(bucket: Bucket, key: str, folder: Path) -> Path:
    entry = bucket.head(key)
    if entry is None:
        raise FileNotFoundError(2, "there is no such object", f"{bucket.url.rstrip('/')}/{key}")
    path = folder / _version(entry)
    if not path.exists():
        _download(bucket, entry, path)
    _write_current(folder, path, entry)
    for other in folder.iterdir():
        if other.name not in {"lock", "current", path.name}:
            # Who has it open keeps it.
            other.unlink(missing_ok=True)
    return path


def _download(bucket: Bucket, entry: Entry, path: Path) -> None:
    with replacing(path) as draft:
        with draft.open("wb") as file:
            for chunk in bucket.read(entry.key, etag=entry.etag):
                file.write(chunk)
            size = file.tell()
        if size != entry.size:
            raise OSError(5, f"{size} of {entry.size} bytes came", entry.key)


def _open_kept(folder: Path, max_age_s: float | None) -> io.BufferedReader | None:
    """What was fetched before, when it is whole and young enough."""
    try:
        current = json.loads((folder / "current").read_text())
        path = folder / current["version"]
        young = max_age_s is None or time.time() - current["asked_at"] <= max_age_s
        return path.open("rb") if young and path.stat().st_size == current["size"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_current(folder: Path, path: Path, entry: Entry) -> None:
    record = {
        "version": path.name,
        "size": entry.size,
        "key": entry.key,
        "etag": entry.etag,
        "asked_at": time.time(),
    }
    with replacing(folder / "current") as draft:
        draft.write_text(json.dumps(record))


def _version(entry: Entry) -> str:
    return _hashed(f"{entry.etag}\n{entry.size}\n{entry.modified if not entry.etag else ''}")


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _check(mode: str, allowed: frozenset[str]) -> None:
    if mode not in allowed:
        raise BadRequest(f"mode `{mode}` is not known", hint="`rb`, `r`, `wb` and `w` are")


def is_writing(mode: str) -> bool:
    """Whether the mode is one to write with.

    Raises:
        BadRequest: when it is neither that nor one to read with.
    """
    _check(mode, READING | WRITING)
    return mode in WRITING


def open_outgoing(
    send: Callable[[Path], object], *, mode: str = "wb", encoding: str | None = None
) -> io.BufferedWriter | io.TextIOWrapper:
    """A file whose bytes are sent when it is closed; nothing is when its `with` block fails.

    Args:
        send: takes the path of the whole file.
        mode: `wb` or `w`.
        encoding: of text; UTF-8 if not given.
    """
    _check(mode, WRITING)
    descriptor, name = tempfile.mkstemp(prefix="bay-outgoing-")
    raw = io.FileIO(descriptor, "w")
    letter = _Letter(Path(name), send)
    if "b" in mode:
        return _OutgoingBytes(raw, letter)
    return _OutgoingText(io.BufferedWriter(raw), letter, encoding=encoding or "utf-8")


class _Letter:
    """What is written and not yet sent."""

    def __init__(self, path: Path, send: Callable[[Path], object]) -> None:
        self._path = path
        self._send = send
        self._open = True

    def post(self) -> None:
        if self._open:
            try:
                self._send(self._path)
            finally:
                self.drop()

    def drop(self) -> None:
        self._open = False
        with suppress(OSError):
            self._path.unlink()


class _OutgoingBytes(io.BufferedWriter):
    def __init__(self, raw: io.FileIO, letter: _Letter) -> None:
        super().__init__(raw)
        self._letter = letter

    def close(self) -> None:
        super().close()
        self._letter.post()

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is not None:
            self._letter.drop()
        self.close()

    def __del__(self) -> None:
        # Nobody closed it: the program may have failed in the middle.
        self._letter.drop()


class _OutgoingText(io.TextIOWrapper):
    def __init__(self, buffer: io.BufferedWriter, letter: _Letter, *, encoding: str) -> None:
        super().__init__(buffer, encoding=encoding)
        self._letter = letter

    def close(self) -> None:
        super().close()
        self._letter.post()

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is not None:
            self._letter.drop()
        self.close()

    def __del__(self) -> None:
        self._letter.drop()
