"""One file down: under its final name when it is whole, and not before.

A small file is one request. A big one comes in ranges, several at once; what is finished of it is
noted beside it, and taken up again while the object is the same:

```text
.bay-<hash>-<random>.part     a small file that is being written
.bay-<hash>.part              a big one
.bay-<hash>.part.done         which of its ranges are finished, with their MD5s
```
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import secrets
import threading
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from launchbay.core.errors import DataError
from launchbay.sync.bucket import SMALLEST_PART, Entry, kept_mode, kept_time_ns, part_size_for
from launchbay.sync.checksums import (
    count_parts,
    is_md5,
    join_digests,
    join_sums,
    likely_parts,
    md5,
)
from launchbay.sync.memory import file_mark, mark_of, object_mark
from launchbay.sync.transfer import (
    MD5_DETAIL,
    PART_DETAIL,
    SUM_DETAIL,
    WHOLE,
    Mismatch,
    local_errors,
    persist,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from hashlib import _Hash as Hash
    from pathlib import Path

    from typing_extensions import Buffer

    from launchbay.sync.steps import Step
    from launchbay.sync.transfer import Wire

HASH = 16
MOST_STREAMS = 4
PROCESS = secrets.token_hex(4)
NUMBERS = itertools.count()
CHUNK = 4 * 1024 * 1024
RUN = 2
"""Ranges that one request brings; some servers are slower with more, and a stall costs more."""


class Crc:
    """A checksum that notices what a disk lost, for little."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Buffer) -> None:
        """See more bytes."""
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        """As text."""
        return f"{self._value:08x}"


class Nothing:
    """No checksum, where that of the whole will tell."""

    def update(self, data: Buffer) -> None:
        """See more bytes."""

    def hexdigest(self) -> str:
        """As text."""
        return "-"


def fetch_whole(wire: Wire, step: Step) -> str:
    """Bring a small object; returns the mark of the pair."""
    data, details = wire.bucket.take(step.key, etag=step.etag)
    whole = memoryview(data)
    if whole.nbytes != step.size:
        raise Mismatch(f"{step.key} came with {whole.nbytes:,} bytes instead of {step.size:,}")
    _check_digest(wire, step, details, md5(whole).hexdigest())
    with local_errors(step.path):
        status = _write_small(step, whole, details)
    wire.count(whole.nbytes)
    return _mark(step, status)


def _write_small(step: Step, data: memoryview, details: Mapping[str, str]) -> os.stat_result:
    path = str(step.path)
    part = small_part(path)
    mode = kept_mode(details)
    descriptor = _create(part, 0o666 if mode is None else mode | 0o200)
    try:
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            status = _apply_details(descriptor, step, details)
        finally:
            os.close(descriptor)
        os.replace(part, path)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)  # noqa: PTH108
        raise
    return status


def small_part(path: str) -> str:
    """A name beside the file, which nobody else uses; text, since there are many of them."""
    folder, name = os.path.split(path)
    return f"{folder}/{_part_name(name, HASH)}-{PROCESS}{next(NUMBERS):x}.part"


def _create(part: str, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(part, flags, mode)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(part), exist_ok=True)  # noqa: PTH103, PTH120
        return os.open(part, flags, mode)


def _part_name(name: str, length: int) -> str:
    return f".bay-{hashlib.sha256(os.fsencode(name)).hexdigest()[:length]}"


def _apply_details(descriptor: int, step: Step, details: Mapping[str, str]) -> os.stat_result:
    """The time and mode that were kept, else the object's own time; how the file is then."""
    time_ns = kept_time_ns(details)
    if time_ns is None:
        time_ns = round(step.modified * 1e9)
    os.utime(descriptor, ns=(time_ns, time_ns))
    status = os.fstat(descriptor)
    mode = kept_mode(details)
    if mode is not None and status.st_mode & 0o777 != mode:
        os.fchmod(descriptor, mode)
    return status


def _check_digest(wire: Wire, step: Step, details: Mapping[str, str], digest: str) -> None:
    """Compare with the MD5 that was kept, else with the ETag where that is one."""
    kept = details.get(MD5_DETAIL, "")
    if is_md5(kept):
        if kept != digest:
            raise Mismatch(f"{step.key} came damaged from {wire.bucket.url}", hint="try again")
        return
    if not wire.trusts_etags or not is_md5(step.etag) or step.etag == digest:
        return
    # An encrypted object's ETag looks the same and is no checksum; a second look tells.
    again = md5(b"")
    for chunk in wire.bucket.read(step.key, etag=step.etag):
        again.update(chunk)
    if again.hexdigest() != digest:
        raise Mismatch(f"{step.key} came damaged from {wire.bucket.url}", hint="try again")
    wire.trusts_etags = False


def _mark(step: Step, status: os.stat_result) -> str:
    entry = Entry(step.key, step.size, step.modified, step.etag)
    return mark_of(file_mark(status), object_mark(entry))


def needs_ranges(step: Step) -> bool:
    """Whether the object is brought in ranges."""
    return step.size > WHOLE


@dataclass
class BigFetch:
    """A big object that comes in stretches of ranges; who brings the last one finishes the file."""

    step: Step
    ranges: int
    size_of_range: int
    stretches: int
    """How many streams bring it."""
    _noted: dict[int, str] = field(default_factory=dict)
    _details: Mapping[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _whole: Hash = field(default_factory=lambda: md5(b""))
    _hashed: int = 0
    """Up to here `_whole` has seen the file."""
    _descriptor: int = -1
    _notes: int = -1
    _over: bool = False

    @property
    def part(self) -> Path:
        """Where it is written until it is whole."""
        path = self.step.path
        return path.with_name(f"{_part_name(path.name, HASH)}.part")

    @property
    def notes(self) -> Path:
        """What is finished of it."""
        return self.part.with_name(f"{self.part.name}.done")

    def fetch(self, wire: Wire, stretch: int) -> str | None:
        """Bring one stretch; the mark of the pair when that was the last one missing."""
        with self._lock, local_errors(self.step.path):
            self._begin(wire)
        each = -(-self.ranges // self.stretches)
        numbers = range(stretch * each, min(self.ranges, (stretch + 1) * each))
        persist(wire, lambda: self._fetch_missing(wire, numbers))
        with self._lock:
            if len(self._noted) < self.ranges or self._over:
                return None
            self._over = True
        return self._finish(wire)

    def close(self) -> None:
        """Let go of the files; they stay."""
        for descriptor in (self._descriptor, self._notes):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._notes = -1

    def _begin(self, wire: Wire) -> None:
        if self._descriptor >= 0:
            return
        self._details = wire.bucket.details(self.step.key)
        self.part.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self.part, flags, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(
                f"`{self.step.path}` is being downloaded by another process",
                hint="wait for it, or end it",
            ) from error
        known = self._read_notes()
        self._notes = os.open(self.notes, flags | os.O_TRUNC | os.O_APPEND, 0o666)
        os.ftruncate(self._descriptor, self.step.size)
        kept = {number: digest for number, digest in known.items() if self._holds(number, digest)}
        lines = [self._title(), *(f"{number} {digest}" for number, digest in kept.items())]
        os.write(self._notes, "".join(f"{line}\n" for line in lines).encode())
        self._noted = kept
        wire.count(sum(self._length(number) for number in kept))

    def _title(self) -> str:
        return f"{self.step.etag} {self.step.size} {self.size_of_range} {self.step.key!r}"

    def _read_notes(self) -> dict[int, str]:
        """The ranges that an earlier attempt finished of this very object."""
        known: dict[int, str] = {}
        if not self.step.etag or not self.notes.exists():
            return known
        title, *lines = self.notes.read_text(errors="replace").split("\n")
        if title != self._title():
            return known
        # The last line may have been cut short; then it has no end.
        for line in lines[:-1]:
            number, _, digest = line.partition(" ")
            if number.isdecimal() and int(number) < self.ranges:
                known[int(number)] = digest
        return known

    def _new_digest(self) -> Hash | Crc | Nothing:
        """MD5 where the ETag is made of those; none where the whole has one; else a cheap one."""
        if self._has_sum:
            return Crc()
        if is_md5(self.step.etag):
            return Nothing()
        return md5(b"") if count_parts(self.step.etag) else Crc()

    @property
    def _has_sum(self) -> bool:
        """Whether whoever sent it kept a checksum of ranges as ours are."""
        parts = self._details.get(PART_DETAIL) == str(self.size_of_range)
        return parts and SUM_DETAIL in self._details

    def _holds(self, number: int, digest: str) -> bool:
        """Whether the range is there as noted: a machine that lost power may have lost it."""
        found = self._new_digest()
        if isinstance(found, Nothing):
            return True
        start, end = number * self.size_of_range, number * self.size_of_range + self._length(number)
        while start < end:
            chunk = os.pread(self._descriptor, min(CHUNK, end - start), start)
            if not chunk:
                return False
            found.update(chunk)
            start += len(chunk)
        return found.hexdigest() == digest

    def _length(self, number: int) -> int:
        return min(self.size_of_range, self.step.size - number * self.size_of_range)

    def _fetch_missing(self, wire: Wire, numbers: range) -> None:
        """All ranges that are missing, a few neighbours as one stream."""
        missing = [number for number in numbers if number not in self._noted]
        while missing:
            count = 1
            while count < min(RUN, len(missing)) and missing[count] == missing[0] + count:
                count += 1
            self._fetch_run(wire, missing[:count])
            missing = missing[count:]

    def _fetch_run(self, wire: Wire, numbers: list[int]) -> None:
        """One stream; each range is noted when it is complete."""
        start = numbers[0] * self.size_of_range
        end = numbers[-1] * self.size_of_range + self._length(numbers[-1])
        chunks = wire.bucket.read(self.step.key, start=start, end=end, etag=self.step.etag)
        pieces = self._cut(chunks, start)
        for number in numbers:
            self._fetch_range(wire, number, pieces)

    def _cut(self, chunks: Iterator[Buffer], start: int) -> Iterator[memoryview]:
        """The chunks, cut where a range ends."""
        at = start
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest.nbytes:
                room = self.size_of_range - at % self.size_of_range
                yield rest[:room]
                at += min(room, rest.nbytes)
                rest = rest[room:]

    def _fetch_range(self, wire: Wire, number: int, pieces: Iterator[memoryview]) -> None:
        digest, done, length = self._new_digest(), 0, self._length(number)
        try:
            while done < length:
                piece = next(pieces, None)
                wire.check()
                if piece is None:
                    self._came_short(number * self.size_of_range + done)
                    break
                at = number * self.size_of_range + done
                digest.update(piece)
                self._hash(piece, at)
                with local_errors(self.step.path):
                    done += _pwrite_all(self._descriptor, piece, at)
                wire.count(piece.nbytes)
        except BaseException:
            wire.count(-done)
            raise
        with self._lock, local_errors(self.notes):
            os.write(self._notes, f"{number} {digest.hexdigest()}\n".encode())
            self._noted[number] = digest.hexdigest()

    def _came_short(self, at: int) -> None:
        raise Mismatch(f"{self.step.key} ended at {at:,} in place of {self.step.size:,} bytes")

    def _hash(self, piece: memoryview, at: int) -> None:
        """Bytes that come in order are hashed while they are at hand."""
        unneeded = self._has_sum or count_parts(self.step.etag)
        if not unneeded and at <= self._hashed < at + piece.nbytes:
            self._whole.update(piece[self._hashed - at :])
            self._hashed = at + piece.nbytes

    def _finish(self, wire: Wire) -> str:
        try:
            self._check(wire)
        except Mismatch:
            # What is damaged is brought anew next time.
            self.notes.unlink(missing_ok=True)
            raise
        with local_errors(self.step.path):
            status = _apply_details(self._descriptor, self.step, self._details)
            self.part.replace(self.step.path)
            self.notes.unlink(missing_ok=True)
            self.close()
        return _mark(self.step, status)

    def _check(self, wire: Wire) -> None:
        """Compare with what is known of the content."""
        if self._has_sum:
            sums = (int(self._noted[number], 16) for number in range(self.ranges))
            if join_sums(sums) != self._details[SUM_DETAIL]:
                raise Mismatch(f"{self.step.key} came damaged from {wire.bucket.url}")
            return
        if count_parts(self.step.etag) == self.ranges:
            parts = (bytes.fromhex(self._noted[number]) for number in range(self.ranges))
            if join_digests(parts) == self.step.etag:
                return
            if wire.trusts_etags and self._details.get(PART_DETAIL) == str(self.size_of_range):
                raise Mismatch(f"{self.step.key} came damaged from {wire.bucket.url}")
        if is_md5(self.step.etag) or MD5_DETAIL in self._details:
            _check_digest(wire, self.step, self._details, self._digest_of_file(wire))

    def _digest_of_file(self, wire: Wire) -> str:
        """The MD5 of the whole; what was not hashed on its way is read again."""
        while chunk := os.pread(self._descriptor, CHUNK, self._hashed):
            wire.check()
            self._whole.update(chunk)
            self._hashed += len(chunk)
        return self._whole.hexdigest()


def plan_ranges(step: Step, *, streams: int = MOST_STREAMS) -> BigFetch:
    """The ranges of a big object: its own parts where they are known, since their MD5s are."""
    likely = likely_parts(step.size, count_parts(step.etag))
    size = likely[0] if likely and likely[0] <= 4 * SMALLEST_PART else part_size_for(step.size)
    ranges = -(-step.size // size)
    each = -(-ranges // min(streams, ranges))
    return BigFetch(step=step, ranges=ranges, size_of_range=size, stretches=-(-ranges // each))


def _pwrite_all(descriptor: int, data: memoryview, at: int) -> int:
    written = 0
    while written < data.nbytes:
        written += os.pwrite(descriptor, data[written:], at + written)
    return written
