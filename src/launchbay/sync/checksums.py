"""What an ETag says about content: nothing, an MD5, or an MD5 of the MD5s of parts."""

from __future__ import annotations

import hashlib
import re
import zlib
from typing import TYPE_CHECKING

from launchbay.sync.bucket import part_size_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MEBIBYTE = 1024 * 1024
# What common tools send parts of, when nobody asks for anything else.
USUAL_PARTS = tuple(number * MEBIBYTE for number in (16, 8, 5, 50, 10, 15, 32, 64, 100, 128, 256))
_MD5 = re.compile(r"[0-9a-f]{32}")
_PARTS = re.compile(r"[0-9a-f]{32}-([1-9][0-9]{0,4})")
CHUNK = MEBIBYTE


def is_md5(etag: str) -> bool:
    """Whether it looks like the MD5 of the whole."""
    return _MD5.fullmatch(etag) is not None


def count_parts(etag: str) -> int:
    """Of how many parts it is; 0 when it is of none.

    >>> count_parts("d41d8cd98f00b204e9800998ecf8427e-3")
    3
    """
    found = _PARTS.fullmatch(etag)
    return int(found[1]) if found else 0


def says_content(etag: str) -> bool:
    """Whether content could be compared with it."""
    return is_md5(etag) or count_parts(etag) > 0


def likely_parts(size: int, parts: int) -> list[int]:
    """Sizes of parts that would make so many of an object.

    >>> [size // MEBIBYTE for size in likely_parts(40 * MEBIBYTE, 5)]
    [8]
    """
    usual = dict.fromkeys([part_size_for(size), *USUAL_PARTS])
    return [one for one in usual if -(-size // one) == parts]


def md5(data: bytes | bytearray | memoryview) -> hashlib._Hash:
    """The digest of bytes, for telling content apart and nothing else."""
    return hashlib.md5(data, usedforsecurity=False)


def join_digests(digests: Iterable[bytes]) -> str:
    """The ETag of an object that came in parts with these MD5s."""
    parts = list(digests)
    return f"{md5(b''.join(parts)).hexdigest()}-{len(parts)}"


def join_sums(sums: Iterable[int]) -> str:
    """The checksum of an object by the CRC-32s of its parts: for little, and in any order."""
    joined = b"".join(one.to_bytes(4, "big") for one in sums)
    return f"{zlib.crc32(joined):08x}"


def same_content(path: Path, size: int, etag: str) -> bool | None:
    """Whether a file has the content that the ETag names; None when that cannot be told."""
    if is_md5(etag):
        return _whole_digest(path) == etag
    parts = count_parts(etag)
    for part in likely_parts(size, parts) if parts else []:
        if _parts_digest(path, part) == etag:
            return True
    # It may have come in parts of a size that nobody else uses.
    return None


def _whole_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: md5(b"")).hexdigest()


def _parts_digest(path: Path, part: int) -> str:
    digests: list[bytes] = []
    with path.open("rb", buffering=0) as file:
        while True:
            digest, left = md5(b""), part
            while left and (chunk := file.read(min(CHUNK, left))):
                digest.update(chunk)
                left -= len(chunk)
            if left == part:
                return join_digests(digests)
            digests.append(digest.digest())
            if left:
                return join_digests(digests)
