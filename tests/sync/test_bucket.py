"""Addresses of buckets, names of objects, sizes of parts, and what this machine refuses."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import BadRequest
from launchbay.sync.bucket import (
    MOST_PARTS,
    SMALLEST_PART,
    apply_details,
    details_of,
    kept_mode,
    kept_time_ns,
    part_size_for,
    split_url,
    why_refused,
)
from launchbay.sync.bucket_errors import Attempt, explain

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("s3://lab", ("s3", "lab", "")),
        ("s3://lab/", ("s3", "lab", "")),
        ("s3://lab/a b/#1/", ("s3", "lab", "a b/#1/")),
        ("gcs://lab/x", ("gs", "lab", "x/")),
        ("abfss://lab/x", ("az", "lab", "x/")),
        ("file:///a/b/", ("file", "/a/b", "")),
        ("file:////a/%20", ("file", "/a/%20", "")),
        ("file:///", ("file", "/", "")),
    ],
)
def test_addresses(url: str, parts: tuple[str, str, str]) -> None:
    """An address has a kind, a bucket and a prefix, all verbatim."""
    assert split_url(url) == parts


@pytest.mark.parametrize("url", ["lab", "ftp://lab", "s3://", "s3:///x", "file://rel"])
def test_no_addresses(url: str) -> None:
    """What is no address is refused with an example."""
    with pytest.raises(BadRequest) as caught:
        split_url(url)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "empty"),
        ("/a", "slash"),
        ("a/", "slash"),
        ("a//b", "empty part"),
        ("a/./b", "a part"),
        ("../b", "a part"),
        ("a\tb", "control"),
        ("a\x7fb", "control"),
        ("a\udcff", "UTF-8"),
        ("é" * 513, "1024 bytes"),
    ],
)
def test_names_that_cannot_be(key: str, reason: str) -> None:
    """Each name that object storage cannot take has a reason."""
    assert reason in why_refused(key)


@pytest.mark.parametrize("key", ["a", ".a/..b/c.", "é" * 512, "a b/#+%?*[]~{}\\'\""])
def test_names_that_can_be(key: str) -> None:
    """All others are taken."""
    assert why_refused(key) == ""


@pytest.mark.parametrize("size", [0, 1, 160 * 1024**3, 1024**4, 5 * 1024**4])
def test_parts_are_never_too_many(size: int) -> None:
    """Whatever the size, the parts are big enough to be few enough."""
    part = part_size_for(size)
    assert part >= SMALLEST_PART
    assert part * MOST_PARTS >= size
    assert part_size_for(size, 64 * 1024**2) >= 64 * 1024**2


def test_mode_and_time_go_there_and_back(tmp_path: Path) -> None:
    """What is kept of a file makes another one like it; special bits are not given."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    other.touch()
    one.chmod(0o4751)
    os.utime(one, ns=(5, 1_234_567_890_000_000_007))
    kept = details_of(one.stat())
    assert kept == {"mode": "4751", "mtime": "1234567890.000000007"}
    apply_details(other, kept)
    assert other.stat().st_mode & 0o7777 == 0o751
    assert other.stat().st_mtime_ns == 1_234_567_890_000_000_007


def test_times_of_other_tools_are_read() -> None:
    """Fewer digits, none or nonsense: what can be read is."""
    assert kept_time_ns({"mtime": "12.5"}) == 12_500_000_000
    assert kept_time_ns({"mtime": "12"}) == 12_000_000_000
    assert kept_time_ns({"mtime": "soon"}) is None
    assert kept_time_ns({}) is None
    assert kept_mode({"mode": "rwx"}) is None


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "you may not"),
        (errno.EROFS, "read-only"),
        (errno.ENAMETOOLONG, "too long"),
        (errno.EMFILE, "too many files"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_what_this_machine_refuses(number: int, sentence: str) -> None:
    """An error of this side names the file, says what is wrong, and has a fix."""
    error = explain(OSError(number, os.strerror(number), "/data/x"), Attempt(url="s3://lab"))
    assert str(error).startswith("/data/x: ")
    assert sentence in str(error)
    assert error.hint


def test_an_unknown_error_shows_no_address_and_no_markup() -> None:
    """What nobody foresaw is cut to a line without anything that may be signed."""
    text = 'Generic error: Error for https://x/?sig=hush - odd <a b="hush">thing</a>\n\nDebug: hush'
    error = explain(RuntimeError(text), Attempt(url="s3://lab", key="k"))
    assert str(error) == "s3://lab/k: odd …thing…"


def test_nothing_is_loaded_before_it_is_used() -> None:
    """The library for object storage is loaded when a bucket is opened, not before."""
    script = (
        "import sys, launchbay.cli.main, launchbay.sync.bucket as b, launchbay.sync.credentials\n"
        "b.open_bucket(b.BucketOptions(url='file:///tmp'))\n"
        "assert 'obstore' not in sys.modules\n"
        "b.open_bucket(b.BucketOptions(url='s3://lab'))\n"
        "assert 'obstore' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
