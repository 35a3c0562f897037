"""One file up: whole or not at all, with its checksum compared; and what both ways share.

A small file is one request, a big one goes in parts, several at once. `fetching` is the way down.
"""

from __future__ import annotations

import errno
import os
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from launchbay.core.errors import ChangedError, DataError, Unauthorized, Unreachable
from launchbay.sync.bucket import details_of, part_size_for
from launchbay.sync.checksums import count_parts, is_md5, join_digests, join_sums, md5
from launchbay.sync.memory import file_mark, is_settled, mark_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from typing_extensions import Buffer

    from launchbay.sync.bucket import Bucket
    from launchbay.sync.steps import Step

WHOLE = 8 * 1024 * 1024
"""Up to here a file is one request and one piece of memory."""
READ = 1024 * 1024
TRIES = 3
FIRST_PAUSE_S = 0.3
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
PART_DETAIL = "part"
MD5_DETAIL = "md5"
SUM_DETAIL = "crc32"
"""Of the CRC-32s of the parts: four times as fast as an MD5, which not every ETag is anyhow."""

T = TypeVar("T")


class Mismatch(DataError):
    """What arrived is not what was sent."""


@dataclass
class Wire:
    """A bucket, and how those who move files tell and are told."""

    bucket: Bucket
    count: Callable[[int], None]
    """Told of bytes that are done."""
    check: Callable[[], None]
    """Raises when it is time to stop."""
    pause: Callable[[float], object]
    parts_at_once: int = 8
    trusts_etags: bool = True
    """Whether ETags that look like MD5s are: those of encrypted objects are not."""

    @property
    def keeps_md5(self) -> bool:
        """Whether the MD5 must be kept beside the object, since its ETag is something else."""
        return self.bucket.parts and not self.bucket.url.startswith("s3:")


def is_fatal(error: Exception) -> bool:
    """Whether every other file would fail alike: wrong keys, a full disk."""
    if isinstance(error, Unauthorized):
        return True
    causes = (error, error.__cause__)
    return any(isinstance(one, OSError) and one.errno in FULL for one in causes)


def persist(wire: Wire, attempt: Callable[[], T]) -> T:
    """Try, and try again where the network or a byte on its way was at fault."""
    for number in range(TRIES):
        try:
            return attempt()
        except (Unreachable, Mismatch):
            if number == TRIES - 1:
                raise
        wire.pause(FIRST_PAUSE_S * 2**number)
        wire.check()
    raise AssertionError


def send_file(wire: Wire, step: Step) -> str:
    """Send a file; returns the mark of the pair, "" when it must not be remembered.

    Raises:
        ChangedError: when the file changes meanwhile.
    """
    with local_errors(step.path), step.path.open("rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        if before.st_size > WHOLE:
            etag = _send_parts(wire, step, file.fileno(), before)
        else:
            etag = _send_whole(wire, step, file.fileno(), before)
    return mark_of(file_mark(before), etag) if etag and is_settled(before) else ""


def _send_whole(wire: Wire, step: Step, descriptor: int, before: os.stat_result) -> str:
    data = _pread_all(descriptor, before.st_size, 0)
    _check_unchanged(step, descriptor, before)
    digest = md5(data).hexdigest()
    details = details_of(before)
    if wire.keeps_md5:
        details[MD5_DETAIL] = digest
    etag = wire.bucket.put(step.key, data, details=details)
    _check_sent(wire, step, etag, digest)
    wire.count(len(data))
    return etag


def _send_parts(wire: Wire, step: Step, descriptor: int, before: os.stat_result) -> str:
    part = part_size_for(before.st_size)
    details = details_of(before) | {PART_DETAIL: str(part)}
    details[SUM_DETAIL] = _sum_of_file(wire, descriptor, before.st_size, part)
    if wire.keeps_md5:
        details[MD5_DETAIL] = _digest_of_file(wire, descriptor, before.st_size)
    digests: list[bytes] = []
    counted = 0

    def read_parts() -> Iterator[bytes]:
        nonlocal counted
        digests.clear()
        for start in range(0, before.st_size, part):
            wire.check()
            data = _pread_all(descriptor, min(part, before.st_size - start), start)
            digests.append(md5(data).digest())
            yield data
            wire.count(len(data))
            counted += len(data)
        _check_unchanged(step, descriptor, before)

    try:
        etag = wire.bucket.put(
            step.key, read_parts(), details=details, part_size=part, at_once=wire.parts_at_once
        )
    except BaseException as error:
        etag = join_digests(digests)
        lost = _is_unknown_upload(error)
        if lost and (found := wire.bucket.head(step.key)) and found.etag == etag:
            return etag
        wire.count(-counted)
        if lost:
            raise Mismatch(f"{step.key} may not have arrived in {wire.bucket.url}") from error
        raise
    _check_sent(wire, step, etag, join_digests(digests), part=part)
    return etag


def _is_unknown_upload(error: BaseException) -> bool:
    """Whether the store, asked again to finish, knows no such upload: an answer was lost."""
    return isinstance(error, DataError) and isinstance(error.__cause__, FileNotFoundError)


def _pread_all(descriptor: int, size: int, start: int) -> bytes:
    """So many bytes from there, fewer where the file ends before."""
    data = os.pread(descriptor, size, start)
    while len(data) < size and (more := os.pread(descriptor, size - len(data), start + len(data))):
        data += more
    return data


def _digest_of_file(wire: Wire, descriptor: int, size: int) -> str:
    whole = md5(b"")
    for start in range(0, size, WHOLE):
        wire.check()
        whole.update(os.pread(descriptor, WHOLE, start))
    return whole.hexdigest()


def _sum_of_file(wire: Wire, descriptor: int, size: int, part: int) -> str:
    sums = []
    for start in range(0, size, part):
        wire.check()
        found = 0
        for at in range(start, min(size, start + part), READ):
            found = zlib.crc32(os.pread(descriptor, min(READ, size - at), at), found)
        sums.append(found)
    return join_sums(sums)


def _check_unchanged(step: Step, descriptor: int, before: os.stat_result) -> None:
    if file_mark(os.fstat(descriptor)) != file_mark(before):
        raise ChangedError(f"`{step.path}` changed while it was sent", hint="send it again")


def _check_sent(wire: Wire, step: Step, etag: str, digest: str, *, part: int = 0) -> None:
    """Compare what the store says it has with what we sent."""
    if not wire.trusts_etags or etag == digest or _kind(etag) != _kind(digest):
        return
    # An encrypted object's ETag looks the same and is no checksum: only the content can tell.
    if _digest_of_object(wire.bucket.read(step.key, etag=etag), part) != digest:
        raise Mismatch(f"{step.key} arrived damaged in {wire.bucket.url}", hint="send it again")
    wire.trusts_etags = False


def _kind(etag: str) -> str:
    return "md5" if is_md5(etag) else f"{count_parts(etag)} parts"


def _digest_of_object(chunks: Iterable[Buffer], part: int) -> str:
    """The MD5 of the bytes, or that of the MD5s of their parts."""
    digests, left = [md5(b"")], part
    for chunk in chunks:
        rest = memoryview(chunk)
        while part and len(rest) >= left:
            digests[-1].update(rest[:left])
            rest, left = rest[left:], part
            digests.append(md5(b""))
        digests[-1].update(rest)
        left -= len(rest)
    if not part:
        return digests[0].hexdigest()
    ended = digests[:-1] if left == part else digests
    return join_digests(digest.digest() for digest in ended)


@contextmanager
def local_errors(path: Path) -> Iterator[None]:
    """Errors of files on this side, in one sentence."""
    try:
        yield
    except OSError as error:
        words = error.strerror or str(error)
        hint = "make room, then run it again: it goes on where it was"
        if error.errno in FULL:
            raise DataError(f"`{path}` cannot be written: {words}", hint=hint) from error
        raise DataError(f"`{path}`: {words}", hint="check the name and its permissions") from error
