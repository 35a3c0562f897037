"""What files looked like when they were last read, so that unchanged ones need not be."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from launchbay.sync.codebase import Known, Row

# Packed numbers and one text load as fast as marshal would and, unlike it, cannot harm the
# reader: the file may have come with somebody's repository.
MAGIC = b"launchbay stat cache 1\n"
HEAD = struct.Struct("<IQ")
STAMP = struct.Struct("<QqqQI")


def read_stat_cache(path: Path) -> Known:
    """What was known; nothing where there is no cache or it is damaged."""
    try:
        return parse_stat_cache(path.read_bytes())
    except (OSError, ValueError, struct.error):
        return {}


def write_stat_cache(path: Path, rows: Sequence[Row], *, workshop: Path) -> None:
    """Replace the cache as a whole; a reader meets the old one or the new one.

    Args:
        path: the cache.
        rows: what it shall know.
        workshop: a private folder of the same file system.
    """
    temporary = workshop / path.name
    temporary.write_bytes(render_stat_cache(rows))
    temporary.chmod(0o600)
    temporary.replace(path)


def render_stat_cache(rows: Sequence[Row]) -> bytes:
    """Magic, checksum, size of the stamps, the stamps, then sources and marks between NULs."""
    stamps = b"".join([STAMP.pack(*stamp) for _, _, stamp, _ in rows])
    words = [source for _, source, _, _ in rows] + [mark for *_, mark in rows]
    body = stamps + "\0".join(words).encode("utf-8", "surrogateescape")
    return MAGIC + HEAD.pack(zlib.crc32(body), len(stamps)) + body


def parse_stat_cache(data: bytes) -> Known:
    """The inverse of `render_stat_cache`.

    Raises:
        ValueError: when the bytes are damaged, or of another version.
    """
    start = len(MAGIC) + HEAD.size
    if not data.startswith(MAGIC) or len(data) < start:
        raise ValueError("no stat cache of this version")
    checksum, length = HEAD.unpack_from(data, len(MAGIC))
    body = memoryview(data)[start:]
    if zlib.crc32(body) != checksum:
        raise ValueError("a damaged stat cache")
    words = str(body[length:], "utf-8", "surrogateescape").split("\0")
    count = length // STAMP.size
    seen = zip(STAMP.iter_unpack(body[:length]), words[count:], strict=False)
    return dict(zip(words, seen, strict=False))
