"""A plain folder as object storage: what only folders have."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import ChangedError, DataError
from launchbay.sync.bucket import BucketOptions, open_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from launchbay.sync.bucket import Bucket


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


@pytest.fixture
def bucket(root: Path) -> Bucket:
    return open_bucket(BucketOptions(url=f"file://{root}"))


def keys(bucket: Bucket, prefix: str = "") -> list[str]:
    return [entry.key for entry in bucket.walk(prefix)]


def test_links_out_of_the_folder_are_not_followed(
    bucket: Bucket, root: Path, tmp_path: Path
) -> None:
    """Neither a listing nor a name leads out; a link to a file inside is that file."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("no")
    (root / "real").write_text("yes")
    (root / "inside").symlink_to("real")
    (root / "out").symlink_to(outside)
    (root / "leak").symlink_to(outside / "secret")
    (root / "loop").symlink_to(root)
    assert keys(bucket) == ["inside", "real"]
    assert bucket.head("leak") is None
    assert bucket.level().folders == []
    with pytest.raises(DataError, match="leads out of"):
        bucket.put("out/new", b"1")
    with pytest.raises(DataError, match="leads out of"):
        list(bucket.read("leak"))
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_unfinished_files_are_not_shown(bucket: Bucket, root: Path) -> None:
    """A file appears when it is whole; until then its name is a temporary one."""
    seen: list[list[str]] = []

    def pieces() -> Iterator[bytes]:
        yield b"1"
        seen.append(keys(bucket))
        seen.append([path.name for path in root.iterdir()])
        yield b"2"

    bucket.put("k", pieces())
    shown, there = seen
    assert shown == []
    assert len(there) == 1
    assert there[0].startswith(".bay-")
    assert there[0].endswith(".part")
    assert [path.name for path in root.iterdir()] == ["k"]


def test_folders_that_became_empty_go(bucket: Bucket, root: Path) -> None:
    """Deleting takes the folders along, but never the root."""
    bucket.put("a/b/c/one", b"1")
    bucket.put("a/two", b"2")
    bucket.delete(["a/b/c/one"])
    assert sorted(path.name for path in (root / "a").iterdir()) == ["two"]
    bucket.delete(["a/two"])
    assert root.is_dir()
    assert list(root.iterdir()) == []


def test_a_file_and_a_folder_cannot_share_a_name(bucket: Bucket, root: Path) -> None:
    """Object storage could keep both; a folder says that it cannot, and keeps what it has."""
    bucket.put("a/b", b"1")
    with pytest.raises(DataError, match="there is a folder of this name"):
        bucket.put("a", b"2")
    with pytest.raises(DataError, match="a part of this path is a file"):
        bucket.put("a/b/c", b"3")
    assert keys(bucket) == ["a/b"]
    assert [path.name for path in root.iterdir()] == ["a"]


def test_a_folder_is_made_when_something_is_put(tmp_path: Path) -> None:
    """One that is still to be made is empty; one whose parent is missing is a mistake."""
    bucket = open_bucket(BucketOptions(url=f"file://{tmp_path}/new"))
    assert keys(bucket) == []
    bucket.put("a", b"1")
    assert keys(bucket) == ["a"]
    lost = open_bucket(BucketOptions(url=f"file://{tmp_path}/not/mounted"))
    with pytest.raises(DataError, match="there is no folder"):
        keys(lost)
    with pytest.raises(DataError, match="there is no folder"):
        lost.level()


def test_a_file_that_changes_while_it_is_read_is_noticed(bucket: Bucket, root: Path) -> None:
    """What was read of two versions is no whole."""
    bucket.put("k", b"x" * 3_000_000)
    chunks = bucket.read("k")
    next(chunks)
    with (root / "k").open("r+b") as file:
        file.truncate(2_500_000)
    with pytest.raises(ChangedError, match="changed meanwhile"):
        list(chunks)


def test_a_mode_that_was_kept_is_the_files_own(bucket: Bucket, root: Path) -> None:
    """Mode and time become those of the file; without any, the usual ones apply."""
    bucket.put("k", b"1", details={"mode": "0640", "mtime": "1000000000.000000001"})
    status = (root / "k").stat()
    assert status.st_mode & 0o7777 == 0o640
    assert status.st_mtime_ns == 1_000_000_000_000_000_001
    bucket.put("odd", b"1", details={"mode": "what", "mtime": "when"})
    before = os.umask(0)
    os.umask(before)
    assert (root / "odd").stat().st_mode & 0o777 == 0o666 & ~before


def test_putting_and_deleting_beside_each_other(bucket: Bucket) -> None:
    """A folder that one removes as empty while another puts into it is made again."""
    stop = threading.Event()

    def remove() -> None:
        while not stop.is_set():
            bucket.delete(["a/b/gone"])

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        for number in range(200):
            bucket.put("a/b/gone", b"x")
            bucket.delete(["a/b/gone"])
            bucket.put(f"kept/{number}", b"x")
    finally:
        stop.set()
        remover.join()
    assert len(keys(bucket, "kept/")) == 200


def test_names_with_control_characters_are_names_here(bucket: Bucket) -> None:
    """A folder takes what a file system takes."""
    bucket.put("tab\there\nline", b"1")
    assert keys(bucket) == ["tab\there\nline"]
