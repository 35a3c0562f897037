"""What came home of a log of a run elsewhere."""

from __future__ import annotations

import codecs
import fcntl
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from launchbay.core.backend import LOG_PIECE, LogChunk
from launchbay.core.host import encoded
from launchbay.core.whole import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO
    from pathlib import Path

COMPLETE = "complete"
"""The last word about a log that will not grow any more."""


class Mark(NamedTuple):
    """How far a log is here."""

    cursor: str = ""
    """Where its target goes on; empty where nothing came yet."""
    size: int = 0
    """Bytes that are here up to there; what may follow them was not brought by us."""
    complete: bool = False


@dataclass(frozen=True)
class KeptLog:
    """A file with what came, and a small one beside it that says how much of it counts.

    Two terminals may bring the same log; what one has written the other passes over. Whoever was
    killed, or had no room, left text that does not count; `bay fetch` may have put all of it there.
    """

    path: Path

    def mark(self) -> Mark:
        """How far it is here."""
        try:
            with self._locked("rb") as file:
                return self._read_mark(file)
        except OSError:
            return Mark()

    def found(self) -> Mark:
        """All of the file, whoever brought it."""
        try:
            return Mark(size=self.path.stat().st_size)
        except OSError:
            return Mark()

    def pieces(self, mark: Mark) -> Iterator[LogChunk]:
        """All of it that was there at the time of the mark."""
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        with suppress(OSError), self.path.open("rb") as file:
            left = mark.size
            while left and (data := file.read(min(left, LOG_PIECE))):
                left -= len(data)
                yield LogChunk(text=decoder.decode(data, final=not left), cursor=mark.cursor)

    def add(self, chunk: LogChunk, *, after: str, ended: bool) -> None:
        """Keep a piece that follows `after`; where that cannot be, nobody is stopped by it.

        Args:
            chunk: the piece.
            after: the cursor that it was asked with.
            ended: whether nothing will follow it.
        """
        another = not is_same_log(after, chunk.cursor)
        # Where nothing came at all it may be that nothing was to be had.
        if not chunk.text and not (after and (another or ended)):
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked("ab") as file:
                mark = self._read_mark(file)
                if mark.cursor == after:
                    self._append(file, chunk, 0 if another else mark.size, ended=ended)

    def _append(self, file: FileIO, chunk: LogChunk, size: int, *, ended: bool) -> None:
        file.truncate(size)
        text = encoded(chunk.text)
        rest = memoryview(text)
        while rest:
            rest = rest[file.write(rest) :]
        words = [chunk.cursor, str(size + len(text))] + [COMPLETE] * ended
        with replacing(self._beside) as draft:
            draft.write_text(" ".join(words))

    def _read_mark(self, file: FileIO) -> Mark:
        try:
            cursor, size, *rest = self._beside.read_text().split()
            mark = Mark(cursor, int(size), complete=rest == [COMPLETE])
        except (OSError, ValueError):
            return Mark()
        # Somebody has removed it, or begun it anew.
        return mark if mark.size <= file.seek(0, 2) else Mark()

    @property
    def _beside(self) -> Path:
        return self.path.with_suffix(".cursor")

    @contextmanager
    def _locked(self, how: Literal["rb", "ab"]) -> Iterator[FileIO]:
        # Without a buffer: one that a full disk does not take would be tried again at closing.
        with self.path.open(how, buffering=0) as file:
            # Some network disks know no locks; two terminals at the same moment are rare.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_SH if how == "rb" else fcntl.LOCK_EX)
            yield file


def is_same_log(cursor: str, later: str) -> bool:
    """Whether both are of the same attempt, where a target goes on to further ones by itself."""
    return ":" not in cursor or cursor.partition(":")[0] == later.partition(":")[0]
