"""Which file here is which object: what earlier transfers saw of both, kept in one SQLite file.

It only saves work and tells who changed what. Without it, equal content is found by checksums and
times, and nothing is lost.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from launchbay.core.errors import StoreError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from launchbay.sync.bucket import Entry

VERSION = 1
BUSY_S = 30.0
RACY_NS = 20_000_000
"""File systems stamp times this coarsely: a write right after would leave no trace."""

LAST_LETTER = "\U0010ffff"

SCHEMA = """
CREATE TABLE place (id INTEGER PRIMARY KEY, bucket TEXT, folder TEXT, UNIQUE (bucket, folder));
CREATE TABLE pair (
    place INTEGER, key TEXT, mark TEXT, PRIMARY KEY (place, key)
) WITHOUT ROWID;
"""


class Mark(NamedTuple):
    """A file and an object as they were when they were equal."""

    file: str
    object: str


class Memory:
    """Pairs of files and objects that were equal; usable from one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    def recall(self, bucket: str, folder: Path, prefix: str = "") -> Mapping[str, str]:
        """What is known below a folder of a bucket: `mark_of` texts by key."""
        with self._open() as connection:
            place = self._place(connection, bucket, folder)
            query = "SELECT key, mark FROM pair WHERE place = ?"
            if not prefix:
                return dict(connection.execute(query, (place,)))
            end = prefix + LAST_LETTER
            return dict(
                connection.execute(f"{query} AND key >= ? AND key < ?", (place, prefix, end))
            )

    def remember(self, bucket: str, folder: Path, marks: Iterable[tuple[str, str]]) -> None:
        """Keep marks by key, in place of older ones."""
        with self._open() as connection:
            place = self._place(connection, bucket, folder)
            rows = [(place, key, mark) for key, mark in marks if _can_keep(key)]
            with connection:
                connection.executemany("INSERT OR REPLACE INTO pair VALUES (?, ?, ?)", rows)

    def forget(self, bucket: str, folder: Path, keys: Iterable[str]) -> None:
        """Know nothing more of these."""
        with self._open() as connection:
            place = self._place(connection, bucket, folder)
            rows = [(place, key) for key in keys]
            with connection:
                connection.executemany("DELETE FROM pair WHERE place = ? AND key = ?", rows)

    def close(self) -> None:
        """Let go of the file; it is opened again when needed."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _connect(self.path)
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                raise StoreError(
                    f"`{self.path}` cannot be used: {error}",
                    hint="it only remembers what was transferred; move it away and try again",
                ) from error

    def _place(self, connection: sqlite3.Connection, bucket: str, folder: Path) -> int:
        names = (bucket, str(folder))
        query = "SELECT id FROM place WHERE bucket = ? AND folder = ?"
        found = connection.execute(query, names).fetchone()
        if found is None:
            with connection:
                insert = "INSERT OR IGNORE INTO place (bucket, folder) VALUES (?, ?)"
                connection.execute(insert, names)
            found = connection.execute(query, names).fetchone()
        return int(found[0])


def file_mark(status: os.stat_result) -> str:
    """What tells a file from a changed one without reading it."""
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"


def object_mark(entry: Entry) -> str:
    """What tells an object from a changed one, as a listing shows it."""
    return entry.etag or f"{entry.size}.{entry.modified}"


def mark_of(file: str, obj: str) -> str:
    """Both, as one text."""
    return f"{file} {obj}"


def read_mark(text: str) -> Mark:
    """The inverse of `mark_of`."""
    file, _, obj = text.partition(" ")
    return Mark(file, obj)


def is_settled(status: os.stat_result) -> bool:
    """Whether a later change would show in the file's time."""
    return abs(time.time_ns() - status.st_mtime_ns) > RACY_NS


def _can_keep(key: str) -> bool:
    """Names that are no UTF-8 are compared anew each time."""
    return key.isascii() or key.encode(errors="replace").decode() == key


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    # Losing the last second of it to a power cut costs a comparison, not data.
    connection.execute("PRAGMA synchronous = OFF")
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found != VERSION:
        _make(connection)
    return connection


def _make(connection: sqlite3.Connection) -> None:
    """Make the tables, once, whoever comes first; those of another version are left behind."""
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        connection.execute("DROP TABLE IF EXISTS pair")
        connection.execute("DROP TABLE IF EXISTS place")
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
