"""A folder and a bucket made equal, over every kind of storage."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import STRESS
from tests.sync.mirrors import BIG, HOUR_S, Mirror, age

from launchbay.sync.bucket import open_bucket
from launchbay.sync.copying import copy_over, plan_copy
from launchbay.sync.deciding import HERE_CHANGED, THERE_CHANGED
from launchbay.sync.mirror import apply_mirror, plan_down, remove
from launchbay.sync.patterns import compile_patterns

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.object_servers import AzuriteServer, FolderServer, MotoServer, RcloneServer

    from launchbay.sync.bucket import BucketOptions

pytestmark = [pytest.mark.real, pytest.mark.slow]

MANY = 5000
FEW = 600
SLASHED = "quote'\"s/back\\slash/a*b?[c]~{}"
TREE = {
    "a.txt": b"hello",
    "deep/er/b.bin": os.urandom(5000),
    "empty": b"",
    ".hidden/x": b"h",
    "with blank/ü ñ/#1+2%20&=.txt": b"odd",
    SLASHED: b"odder",
    "long/" + "/".join("x" * 200 for _ in range(5))[:1000]: b"long",
}


@pytest.fixture
def here(store: BucketOptions, tmp_path: Path) -> Mirror:
    """The one who works here."""
    return Mirror(store, tmp_path / "here", tmp_path / "here.sqlite")


@pytest.fixture
def there(store: BucketOptions, tmp_path: Path) -> Mirror:
    """Somebody else with the same bucket."""
    return Mirror(store, tmp_path / "there", tmp_path / "there.sqlite")


def test_trees_are_equal_and_sent_once(here: Mirror, there: Mirror) -> None:
    """Whatever the names, the tree is equal on all sides, and a second run sends nothing."""
    tree = {**TREE, "big.bin": os.urandom(BIG)}
    if here.bucket.url.startswith("az:"):
        del tree[SLASHED]
    here.write(tree)
    (here.folder / "a.txt").chmod(0o755)

    assert here.up().sent == dict.fromkeys(tree, "new")
    assert here.objects == tree
    assert here.up().sent == {}
    assert there.down().sent == dict.fromkeys(tree, "new")
    assert there.files == tree
    assert there.down().sent == {}
    for name in ("a.txt", "big.bin"):
        mine, theirs = ((one.folder / name).stat() for one in (here, there))
        assert (mine.st_mtime_ns, mine.st_mode) == (theirs.st_mtime_ns, theirs.st_mode)


@pytest.mark.parametrize("damaged", [b"", b"the same size, and other bytes"])
def test_damage_is_noticed(s3: BucketOptions, tmp_path: Path, damaged: bytes) -> None:
    """What is not what was sent never gets its name, by the checksums that are kept beside it."""
    here, there = (Mirror(s3, tmp_path / one, tmp_path / f"{one}.sqlite") for one in ("a", "b"))
    data = os.urandom(BIG)
    here.write({"big.bin": data})
    here.up()
    kept = dict(here.bucket.details("big.bin"))
    here.bucket.put("big.bin", damaged + data[len(damaged) :], details=kept)
    plan = plan_down(there.bucket, there.folder, compile_patterns([""]), memory=there.memory)
    outcome = apply_mirror(plan, there.bucket, memory=there.memory)

    assert ("big.bin" in there.files) == (not damaged)
    assert [words for _, words in outcome.failed] == (
        [f"big.bin came damaged from {here.bucket.url}"] if damaged else []
    )


def test_without_memory_nothing_is_sent_again(
    store: BucketOptions, here: Mirror, there: Mirror, tmp_path: Path
) -> None:
    """What is whole on both sides is known without any memory."""
    tree = {"a.txt": b"hello", "sub/b": os.urandom(5000), "big.bin": os.urandom(BIG)}
    here.write(tree)
    here.up()
    there.down()

    for number, one in enumerate((here, there)):
        assert Mirror(store, one.folder, tmp_path / f"{number}a.sqlite").up().sent == {}
        assert Mirror(store, one.folder, tmp_path / f"{number}b.sqlite").down().sent == {}


def test_changes_on_either_side(here: Mirror, there: Mirror) -> None:
    """Another content of the same size is noticed both ways; touching alone sends nothing long."""
    here.write({"a": b"one", "b": b"two", "c": b"three"})
    here.up()
    there.down()
    here.write({"a": b"ONE"}, age_s=-5)
    age(here.folder / "c", -5)

    assert here.up().sent.get("a") == "changed"
    assert here.up().sent == {}
    assert there.down().sent.get("a") == "changed"
    assert there.files == here.files == {"a": b"ONE", "b": b"two", "c": b"three"}


def test_nobodys_change_is_lost(here: Mirror, there: Mirror) -> None:
    """Both changed: each way leaves the other's change alone, until it may be overwritten."""
    here.write({"a": b"one"})
    here.up()
    there.down()
    there.write({"a": b"theirs"}, age_s=-5)
    there.up()
    here.write({"a": b"mine"}, age_s=HOUR_S)

    assert here.up().left_out == {"a": THERE_CHANGED}
    assert here.down().left_out == {"a": HERE_CHANGED}
    assert here.up(overwrite=True).sent == {"a": "overwrite"}
    assert here.objects == {"a": b"mine"}
    here.write({"a": b"other"}, age_s=-10)
    assert here.down(overwrite=True).sent == {"a": "overwrite"}
    assert here.files == {"a": b"mine"}


def test_delete_include_and_exclude(here: Mirror, there: Mirror) -> None:
    """Mirroring removes exactly what is gone among what is meant."""
    here.write({"data/a.pt": b"1", "data/b.log": b"2", "data2/c.pt": b"3"})
    assert set(here.up("data/", include=["*.pt"]).sent) == {"data/a.pt"}
    here.up()
    there.down()
    for name in ("data/a.pt", "data/b.log", "data2/c.pt"):
        (here.folder / name).unlink()

    assert here.up("data/", exclude=["*.log"], delete=True).gone == ["data/a.pt"]
    assert set(here.objects) == {"data/b.log", "data2/c.pt"}
    assert there.down("data/", delete=True).gone == ["data/a.pt"]
    assert set(there.files) == {"data/b.log", "data2/c.pt"}


def test_removing_is_exact(here: Mirror, request: pytest.FixtureRequest) -> None:
    """`data/` with thousands of objects goes, `data2/` and `database/` stay."""
    count = FEW if is_slow(request) and not STRESS else MANY
    files = {f"data/{number % 7}/{number}": b"" for number in range(count)}
    here.write({**files, "data2/x": b"1", "database/y": b"2", "data.txt": b"3"})
    here.up()
    pattern = compile_patterns(["data/"])

    keys = [one.key for one in here.bucket.walk(pattern.folder) if pattern.matches(one.key)]

    assert remove(here.bucket, keys) == count
    assert here.objects == {"data2/x": b"1", "database/y": b"2", "data.txt": b"3"}


def is_slow(request: pytest.FixtureRequest) -> bool:
    """Whether the store is one that takes its time."""
    return any(name in request.node.name for name in ("moto", "azurite"))


@pytest.mark.parametrize("kinds", ["same", "to folder", "from folder", "other service"])
def test_copies_between_stores(
    kinds: str,
    rclone_server: RcloneServer,
    azurite_server: AzuriteServer,
    folder_server: FolderServer,
    tmp_path: Path,
) -> None:
    """Objects arrive equal with their details, once, and no file is made on the way."""
    pairs: dict[str, tuple[Any, Any]] = {
        "same": (rclone_server, rclone_server),
        "to folder": (azurite_server, folder_server),
        "from folder": (folder_server, rclone_server),
        "other service": (rclone_server, azurite_server),
    }
    ours, theirs = (one.fresh() for one in pairs[kinds])
    tree = {"in/a b#1": b"hello", "in/empty": b"", "in/big": os.urandom(BIG), "out/x": b"x"}
    here = Mirror(ours, tmp_path / "here", tmp_path / "here.sqlite")
    here.write(tree)
    here.up()
    there = Mirror(theirs, tmp_path / "there", tmp_path / "there.sqlite")
    pattern = compile_patterns(["in/"])

    plan = plan_copy(here.bucket, there.bucket, pattern, rename=lambda key: f"copy/{key[3:]}")
    outcome = copy_over(plan, here.bucket, there.bucket)

    assert not outcome.failed
    assert outcome.bytes == plan.size == BIG + 5
    assert there.objects == {f"copy/{key[3:]}": tree[key] for key in tree if key[:3] == "in/"}
    again = plan_copy(here.bucket, there.bucket, pattern, rename=lambda key: f"copy/{key[3:]}")
    assert (again.sends, again.same) == ((), 3)
    there.down("copy/big")
    mine, other = (here.folder / "in/big").stat(), (there.folder / "copy/big").stat()
    assert mine.st_mtime_ns == other.st_mtime_ns


def test_a_newer_copy_is_not_lost(
    rclone_server: RcloneServer, moto_server: MotoServer, tmp_path: Path
) -> None:
    """What is newer in the other bucket stays, until it may be overwritten."""
    here = Mirror(rclone_server.fresh(), tmp_path / "a", tmp_path / "a.sqlite")
    there = Mirror(moto_server.fresh(), tmp_path / "b", tmp_path / "b.sqlite")
    here.write({"x": b"old"})
    here.up()
    there.write({"x": b"newer"}, age_s=0)
    there.up()
    everything = compile_patterns([])

    plan = plan_copy(here.bucket, there.bucket, everything)
    assert plan.sends == ()
    assert "newer" in dict(plan.left_out)["x"]
    plan = plan_copy(here.bucket, there.bucket, everything, overwrite=True)
    copy_over(plan, here.bucket, there.bucket)
    assert there.objects == {"x": b"old"}


def test_etags_that_are_no_checksums(moto_server: MotoServer, tmp_path: Path) -> None:
    """An encrypted object's ETag looks like an MD5 and is none: its content is believed."""
    options = moto_server.fresh()
    here = Mirror(options, tmp_path / "here", tmp_path / "here.sqlite")
    here.bucket = Encrypted(open_bucket(options))  # type: ignore[assignment]
    here.write({"a": b"hello", "b": b"world", "big": os.urandom(BIG)})

    here.up()

    assert here.objects == here.files
    there = Mirror(options, tmp_path / "there", tmp_path / "there.sqlite")
    there.bucket = here.bucket
    there.down()
    assert there.files == here.files


class Encrypted:
    """A bucket whose ETags are those of what it really stores."""

    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def walk(self, prefix: str = "") -> object:
        from dataclasses import replace  # noqa: PLC0415

        for one in self.inner.walk(prefix):  # type: ignore[attr-defined]
            yield replace(one, etag=_other(one.etag))

    def put(self, key: str, source: object, **options: object) -> str:
        return _other(self.inner.put(key, source, **options))  # type: ignore[attr-defined]

    def read(self, key: str, *, etag: str = "", **span: object) -> object:
        return self.inner.read(key, **span)  # type: ignore[attr-defined]

    def take(self, key: str, *, etag: str = "") -> object:
        return self.inner.take(key)  # type: ignore[attr-defined]


def _other(etag: str) -> str:
    digest, dash, parts = etag.partition("-")
    return hashlib.md5(digest.encode()).hexdigest() + dash + parts  # noqa: S324
