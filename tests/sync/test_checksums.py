"""What ETags say about content."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.sync.checksums import MEBIBYTE, count_parts, is_md5, likely_parts, same_content
from launchbay.sync.transfer import _digest_of_object

if TYPE_CHECKING:
    from pathlib import Path

DATA = bytes(range(256)) * 50 * 1024  # 12.5 MiB


def _etag(data: bytes, part: int) -> str:
    parts = [data[at : at + part] for at in range(0, len(data), part)]
    joined = b"".join(hashlib.md5(one).digest() for one in parts)  # noqa: S324
    return f"{hashlib.md5(joined).hexdigest()}-{len(parts)}"  # noqa: S324


@pytest.mark.parametrize(
    ("etag", "whole", "parts"),
    [
        ("d41d8cd98f00b204e9800998ecf8427e", True, 0),
        ("d41d8cd98f00b204e9800998ecf8427e-3", False, 3),
        ("0x8DC0A6B3F5E4B60", False, 0),
        ("D41D8CD98F00B204E9800998ECF8427E", False, 0),
        ("d41d8cd98f00b204e9800998ecf8427e-0", False, 0),
        ("", False, 0),
    ],
)
def test_kinds(*, etag: str, whole: bool, parts: int) -> None:
    """An MD5, an MD5 of parts, or nothing that could be compared."""
    assert (is_md5(etag), count_parts(etag)) == (whole, parts)


@pytest.mark.parametrize("mebibytes", [5, 8])
def test_parts_of_usual_sizes_are_found(tmp_path: Path, mebibytes: int) -> None:
    """What other tools sent in their own parts is known to be the same."""
    path = tmp_path / "x"
    path.write_bytes(DATA)

    assert same_content(path, len(DATA), _etag(DATA, mebibytes * MEBIBYTE)) is True


def test_unusual_parts_cannot_be_told(tmp_path: Path) -> None:
    """Parts of a size that nobody uses prove nothing, neither way."""
    path = tmp_path / "x"
    path.write_bytes(DATA)

    assert same_content(path, len(DATA), _etag(DATA, 7 * MEBIBYTE)) is None
    assert same_content(path, len(DATA), "0x8DC0A6B3F5E4B60") is None


def test_another_byte_is_another_content(tmp_path: Path) -> None:
    """One byte differs, and the MD5 tells."""
    path = tmp_path / "x"
    path.write_bytes(b"abc")

    assert same_content(path, 3, hashlib.md5(b"abc").hexdigest()) is True  # noqa: S324
    assert same_content(path, 3, hashlib.md5(b"abd").hexdigest()) is False  # noqa: S324


def test_parts_of_one_object_are_few() -> None:
    """A size is likely only when it makes just as many parts."""
    assert likely_parts(100 * MEBIBYTE, 2) == [50 * MEBIBYTE, 64 * MEBIBYTE]
    assert likely_parts(100 * MEBIBYTE, 3) == []


@given(st.binary(min_size=1, max_size=60), st.integers(1, 20), st.integers(1, 20))
def test_digest_of_what_is_read(data: bytes, part: int, chunk: int) -> None:
    """However an object is cut when it is read, its parts are found again."""
    chunks = [data[at : at + chunk] for at in range(0, len(data), chunk)]

    assert _digest_of_object(chunks, part) == _etag(data, part)
    assert _digest_of_object(chunks, 0) == hashlib.md5(data).hexdigest()  # noqa: S324
