"""Mirroring between a folder and a folder bucket: what is sent, what is left, what stays whole."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.sync.mirrors import BIG, HOUR_S, Mirror, age

from launchbay.core.errors import DataError, Unauthorized, Unreachable
from launchbay.sync import local_files
from launchbay.sync.bucket import BucketOptions
from launchbay.sync.deciding import HERE_CHANGED, HERE_NEWER, THERE_CHANGED, THERE_NEWER
from launchbay.sync.fetching import plan_ranges
from launchbay.sync.folder_bucket import FolderBucket
from launchbay.sync.local_files import (
    LINK_OUT,
    LINK_TO_FOLDER,
    LINK_TO_NOTHING,
    NO_FILE,
    Places,
    list_files,
)
from launchbay.sync.mirror import apply_mirror, plan_down, plan_up, remove
from launchbay.sync.patterns import compile_patterns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Buffer

    from launchbay.sync.mirror import Progress

TREE = {"a.txt": b"hello", "deep/er/b.bin": bytes(1000), "empty": b"", ".hidden": b"h"}
RANGE = 16 * 1024 * 1024
EVERYTHING = compile_patterns([])


@pytest.fixture
def options(tmp_path: Path) -> BucketOptions:
    """A folder as a bucket."""
    return BucketOptions(url=f"file://{tmp_path / 'bucket'}")


@pytest.fixture
def here(options: BucketOptions, tmp_path: Path) -> Mirror:
    """The one who works here."""
    return Mirror(options, tmp_path / "here", tmp_path / "here.sqlite")


@pytest.fixture
def there(options: BucketOptions, tmp_path: Path) -> Mirror:
    """Somebody else with the same bucket."""
    return Mirror(options, tmp_path / "there", tmp_path / "there.sqlite")


def test_both_ways_and_again(here: Mirror, there: Mirror) -> None:
    """A tree arrives on the other side, and nothing is sent a second time."""
    here.write(TREE)

    assert here.up().sent == dict.fromkeys(TREE, "new")
    assert here.up().plan.same == len(TREE)
    assert there.down().sent == dict.fromkeys(TREE, "new")
    assert there.down().sent == {}
    assert there.files == here.files == TREE


def test_without_memory_nothing_is_sent_again(here: Mirror, there: Mirror, tmp_path: Path) -> None:
    """Times tell what is the same where no memory does."""
    here.write(TREE)
    here.up()
    there.down()

    options = BucketOptions(url=f"file://{tmp_path / 'bucket'}")
    for one in (here, there):
        fresh = Mirror(options, one.folder, tmp_path / f"{one.folder.name}-fresh.sqlite")
        assert fresh.up().sent == {}
        assert fresh.down().sent == {}


def test_a_change_here_goes_up(here: Mirror) -> None:
    """Same size or not, a changed file is sent, and alone."""
    here.write(TREE)
    here.up()
    here.write({"a.txt": b"HELLO", "deep/er/b.bin": b"short"}, age_s=0)

    assert here.up().sent == {"a.txt": "changed", "deep/er/b.bin": "changed"}
    assert here.objects["a.txt"] == b"HELLO"


def test_a_change_there_comes_down(here: Mirror, there: Mirror) -> None:
    """What was only downloaded is replaced by what is new in the bucket."""
    here.write(TREE)
    here.up()
    there.down()
    here.write({"a.txt": b"HELLO"}, age_s=10)
    here.up()

    assert there.down().sent == {"a.txt": "changed"}
    assert there.files["a.txt"] == b"HELLO"


def test_a_change_here_is_not_lost_by_down(here: Mirror, there: Mirror) -> None:
    """A file that was edited since stays, with the reason, until it may be overwritten."""
    here.write(TREE)
    here.up()
    there.down()
    there.write({"a.txt": b"mine!"}, age_s=2 * HOUR_S)

    done = there.down()
    assert (done.sent, done.left_out) == ({}, {"a.txt": HERE_CHANGED})
    assert there.files["a.txt"] == b"mine!"
    assert there.down(overwrite=True).sent["a.txt"] == "overwrite"
    assert there.files["a.txt"] == b"hello"


def test_a_newer_stranger_is_not_lost_by_down(here: Mirror, there: Mirror) -> None:
    """A file that nothing is known of stays when it is newer, and is replaced when it is older."""
    here.write(TREE)
    here.up()
    there.write({"a.txt": b"mine"}, age_s=0)
    there.write({".hidden": b"old one"}, age_s=2 * HOUR_S)

    done = there.down()
    assert done.left_out == {"a.txt": HERE_NEWER}
    assert done.sent[".hidden"] == "changed"


def test_a_change_there_is_not_lost_by_up(here: Mirror, there: Mirror) -> None:
    """An object that somebody else changed since stays, with the reason."""
    here.write(TREE)
    here.up()
    there.write({"a.txt": b"theirs"}, age_s=60)
    there.up()
    here.write({"a.txt": b"mine"}, age_s=120)

    done = here.up()
    assert (done.sent, done.left_out) == ({}, {"a.txt": THERE_CHANGED})
    assert here.up(overwrite=True).sent["a.txt"] == "overwrite"
    assert here.objects["a.txt"] == b"mine"


def test_an_unknown_newer_object_is_not_lost_by_up(here: Mirror, there: Mirror) -> None:
    """An older file of another size replaces no newer object that nobody here has seen."""
    there.write({"a.txt": b"theirs, newer"}, age_s=60)
    there.up()
    here.write({"a.txt": b"mine"})

    assert here.up().left_out == {"a.txt": THERE_NEWER}


def test_touched_is_not_changed_for_long(here: Mirror) -> None:
    """A folder tells by times alone: touched is sent once, and then is the same again."""
    here.write(TREE)
    here.up()
    age(here.folder / "a.txt", 60)

    assert here.up().sent == {"a.txt": "changed"}
    assert here.up().sent == {}


def test_delete_makes_both_equal(here: Mirror, there: Mirror) -> None:
    """What is gone on one side goes on the other, with folders that became empty."""
    here.write({**TREE, "old/x": b"x", "keep.log": b"k"})
    here.up()
    there.down()
    there.write({"mine/y": b"y"})
    (here.folder / "old/x").unlink()

    assert here.up("*", exclude=["*.log"], delete=True).gone == ["old/x"]
    done = there.down(delete=True)
    assert done.gone == ["mine/y", "old/x"]
    assert there.files == here.files
    assert not (there.folder / "mine").exists()


def test_nothing_is_deleted_without_asking(here: Mirror, there: Mirror) -> None:
    """Without `delete`, what is gone here stays there."""
    here.write(TREE)
    here.up()
    (here.folder / "a.txt").unlink()

    assert here.up().gone == []
    assert "a.txt" in here.objects


def test_deleting_waits_for_all_to_arrive(here: Mirror) -> None:
    """When a file could not be sent, nothing is removed."""
    here.write({"old": b"x"})
    here.up()
    (here.folder / "old").unlink()
    here.write({"new": b"y", "other": b"z"})
    plan = plan_up(here.bucket, here.folder, EVERYTHING, delete=True, memory=here.memory)
    (here.folder / "new").unlink()

    outcome = apply_mirror(plan, here.bucket, memory=here.memory)

    assert [step.key for step, _ in outcome.failed] == ["new"]
    assert [step.key for step in outcome.done] == ["other"]
    assert set(here.objects) == {"old", "other"}


def test_a_missing_folder_deletes_nothing(here: Mirror, tmp_path: Path) -> None:
    """A folder that is not there is a mistake, not an empty one."""
    here.write(TREE)
    here.up()

    with pytest.raises(DataError, match="no folder"):
        plan_up(here.bucket, tmp_path / "no", EVERYTHING, delete=True, memory=here.memory)
    assert set(here.objects) == set(TREE)


def test_a_file_changed_since_the_plan_is_not_deleted(here: Mirror) -> None:
    """What was written after the plan was made stays, and is said."""
    here.write({"a": b"1"})
    plan = plan_down(here.bucket, here.folder, EVERYTHING, delete=True, memory=here.memory)
    here.write({"a": b"2"}, age_s=0)

    outcome = apply_mirror(plan, here.bucket, memory=here.memory)

    assert [(step.key, why) for step, why in outcome.failed] == [
        ("a", "it was changed meanwhile, and stays")
    ]
    assert here.files == {"a": b"2"}


def test_patterns_bound_everything(here: Mirror, there: Mirror) -> None:
    """Only what matches is sent, brought or removed: `data/` is never `data2/`."""
    here.write({"data/a": b"1", "data2/a": b"2", "database/a": b"3", "data/b.tmp": b"4"})

    assert set(here.up("data/", exclude=["*.tmp"]).sent) == {"data/a"}
    here.up()
    assert set(there.down("data/a").sent) == {"data/a"}
    assert set(there.down("data").sent) == {"data/b.tmp"}
    assert set(there.down("*", include=["a"]).sent) == {"data2/a", "database/a"}
    (there.folder / "data/a").unlink()
    assert there.up("data/", delete=True).gone == ["data/a"]
    assert set(here.objects) == {"data/b.tmp", "data2/a", "database/a"}


def test_modes_and_times_are_kept(here: Mirror, there: Mirror) -> None:
    """What may be run there may be run here, and its time is that of the original, exactly."""
    here.write({"run.sh": b"#!/bin/sh\n", "big": bytes(BIG), "read": b"only"})
    for name, mode in {"run.sh": 0o750, "big": 0o640, "read": 0o440}.items():
        (here.folder / name).chmod(mode)
        os.utime(here.folder / name, ns=(1, 1_600_000_000_123_456_789))
    here.up()
    there.down()

    for name, mode in {"run.sh": 0o750, "big": 0o640, "read": 0o440}.items():
        status = (there.folder / name).stat()
        assert status.st_mtime_ns == 1_600_000_000_123_456_789
        assert status.st_mode & 0o777 == mode


def test_what_is_no_plain_file_is_left_out(here: Mirror, tmp_path: Path) -> None:
    """Links inside are followed; out of the folder, to folders or to nothing are named."""
    here.write({"real/file": b"x"})
    (tmp_path / "secret").write_bytes(b"s")
    links: dict[str, str | Path] = {
        "inside": "real/file",
        "out": tmp_path / "secret",
        "folder": "real",
        "outfolder": tmp_path,
        "broken": "nowhere",
        "loop": "loop",
    }
    for name, target in links.items():
        (here.folder / name).symlink_to(target)
    os.mkfifo(here.folder / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(here.folder / "sock"))

    done = here.up()

    assert set(done.sent) == {"real/file", "inside"}
    assert done.left_out == {
        "out": LINK_OUT,
        "outfolder": LINK_OUT,
        "folder": LINK_TO_FOLDER,
        "broken": LINK_TO_NOTHING,
        "loop": LINK_TO_NOTHING,
        "pipe": NO_FILE,
        "sock": NO_FILE,
    }


def test_what_is_left_out_is_not_gone(here: Mirror, there: Mirror, tmp_path: Path) -> None:
    """An object whose file here is only not looked at is not deleted."""
    there.write({"data/a": b"1", "data/b": b"2", "c": b"3"})
    there.up()
    (tmp_path / "elsewhere").mkdir()
    (here.folder / "data").symlink_to(tmp_path / "elsewhere")

    assert here.up(delete=True).gone == ["c"]
    assert set(here.up("data/", delete=True).left_out) == {"data/"}
    assert set(here.objects) == {"data/a", "data/b"}


def test_no_object_is_written_through_a_link(here: Mirror, there: Mirror, tmp_path: Path) -> None:
    """A link that leads out of the folder is no way out for objects."""
    there.write({"data/a": b"1", "x": b"2"})
    there.up()
    (tmp_path / "elsewhere").mkdir()
    (here.folder / "data").symlink_to(tmp_path / "elsewhere")
    (here.folder / "x").symlink_to(tmp_path / "elsewhere" / "x")

    done = here.down(overwrite=True)

    assert done.sent == {}
    assert done.left_out == {"data/a": LINK_OUT, "x": LINK_TO_NOTHING}
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_nothing_above_the_folder_is_listed(here: Mirror) -> None:
    """Names that climb lead nowhere."""
    here.write({"a": b"1"})

    for text in ("..", "../here", "../", "x/../../here/a"):
        assert list_files(here.folder, compile_patterns([text])).files == {}


def test_a_network_that_is_gone_ends_it(here: Mirror) -> None:
    """When nobody answers any more, the rest is not tried for hours."""
    here.write({f"f{number}": b"x" for number in range(500)})
    silent = Refusing(here.bucket, Unreachable("nobody answers"))
    plan = plan_up(here.bucket, here.folder, EVERYTHING, memory=here.memory)

    with pytest.raises(Unreachable):
        apply_mirror(plan, silent, memory=here.memory)

    assert silent.asked < 500


@pytest.mark.parametrize(
    "key", ["../x", "/etc/x", "a/../../x", "a//b", "./x", "a/./b", "n" * 256, ".bay-1.part", "a\0"]
)
def test_keys_without_a_place(tmp_path: Path, key: str) -> None:
    """A key that would lead out of the folder, or can be no file here, has a reason."""
    assert Places(tmp_path).why_not(key)


def test_keys_with_a_place(tmp_path: Path) -> None:
    """Everything else can be a file."""
    places = Places(tmp_path)

    assert [places.why_not(key) for key in ("a", "a b/ü/#+%20?*[z]~{}'\"\\", ".x", "..x/…")] == [
        ""
    ] * 4


def test_two_names_for_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `A` and `a` are one file, the second is left out."""
    monkeypatch.setattr(local_files, "folds_case", lambda folder: True)
    places = Places(tmp_path)

    assert places.why_not("Data/a") == ""
    assert places.why_not("data/A") == "it would be the same file here as Data/a"
    assert places.why_not("Data/a") == ""


def test_a_file_where_a_folder_should_be(here: Mirror, there: Mirror) -> None:
    """An object below what is a file here is left out, and hinders no other."""
    there.write({"a/b": b"1", "c": b"2"})
    there.up()
    here.write({"a": b"file"})

    done = here.down()

    assert set(done.sent) == {"c"}
    assert "is a file here" in done.left_out["a/b"]


def test_beginnings_are_never_sent(here: Mirror) -> None:
    """What is not whole yet stays here; what nobody will continue is removed at the next down."""
    recent = {".bay-00ff-1234.part": b"x", ".bay-00ff.part": b"y", ".bay-notes": b"z"}
    here.write(recent, age_s=60)
    here.write({"d/.bay-11ff-1234.part": b"x"}, age_s=2 * HOUR_S)
    here.write({"d/.bay-22ff.part": b"x", "d/.bay-22ff.part.done": b"x"}, age_s=8 * 24 * HOUR_S)

    assert set(here.up().sent) == {".bay-notes"}
    here.down()
    assert set(here.files) == set(recent)


def test_a_big_download_is_resumed(here: Mirror, there: Mirror) -> None:
    """Finished ranges are not asked for again; a damaged one is."""
    data = os.urandom(BIG)
    here.write({"big": data})
    here.up()
    counting = Counting(here.bucket, fail_at=2 * RANGE)
    plan = plan_down(there.bucket, there.folder, EVERYTHING, memory=there.memory)
    outcome = apply_mirror(plan, counting, memory=there.memory, at_once=1)
    assert len(outcome.failed) == 1
    assert "big" not in there.files
    part = plan_ranges(plan.sends[0]).part
    with part.open("r+b") as file:
        file.write(b"damage")

    counting = Counting(here.bucket)
    outcome = apply_mirror(plan, counting, memory=there.memory, at_once=1)

    assert not outcome.failed
    assert sorted(counting.starts) == [0, 2 * RANGE]
    assert outcome.bytes == BIG
    assert there.files == {"big": data}


def test_another_object_is_no_continuation(here: Mirror, there: Mirror) -> None:
    """When the object was replaced meanwhile, nothing of the old one is used."""
    here.write({"big": os.urandom(BIG)})
    here.up()
    plan = plan_down(there.bucket, there.folder, EVERYTHING, memory=there.memory)
    apply_mirror(plan, Counting(here.bucket, fail_at=2 * RANGE), memory=there.memory, at_once=1)
    data = os.urandom(BIG)
    here.write({"big": data}, age_s=1)
    here.up()

    assert there.down().sent == {"big": "new"}
    assert there.files == {"big": data}


def test_an_object_replaced_on_the_way_is_said(here: Mirror, there: Mirror) -> None:
    """A download of what was listed as another object fails, and the next run brings it."""
    here.write({"a": b"one", "b": b"b"})
    here.up()
    plan = plan_down(there.bucket, there.folder, EVERYTHING, memory=there.memory)
    here.write({"a": b"two"}, age_s=1)
    here.up()

    outcome = apply_mirror(plan, there.bucket, memory=there.memory)

    assert [step.key for step, _ in outcome.failed] == ["a"]
    assert there.files == {"b": b"b"}
    there.down()
    assert there.files == {"a": b"two", "b": b"b"}


@pytest.mark.parametrize("size", [10, BIG])
def test_a_file_that_changes_while_it_is_sent(here: Mirror, size: int) -> None:
    """It is said, nothing of it appears, and the next run sends it."""
    here.write({"a": bytes(size), "b": b"b"})
    plan = plan_up(here.bucket, here.folder, EVERYTHING, memory=here.memory)
    growing = Touching(here.bucket, here.folder / "a")

    outcome = apply_mirror(plan, growing, memory=here.memory)

    if size > 10:
        assert [key.key for key, _ in outcome.failed] == ["a"]
        assert "a" not in here.objects
    assert here.up().sent["a"] in {"new", "changed"}
    assert here.objects == here.files


def test_a_full_disk_ends_it_all(
    here: Mirror, there: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence instead of one for each file, and nothing under final names."""
    here.write({f"f{number}": b"x" * 10 for number in range(50)})
    here.up()

    def full(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    plan = plan_down(there.bucket, there.folder, EVERYTHING, memory=there.memory)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(DataError, match="No space left") as caught:
        apply_mirror(plan, there.bucket, memory=there.memory)
    monkeypatch.undo()

    assert "make room" in (caught.value.hint or "")
    assert there.files == {}


def test_wrong_keys_end_it_all(here: Mirror) -> None:
    """After the first refusal of the keys no other file is tried for long."""
    here.write({f"f{number}": b"x" for number in range(500)})
    refusing = Refusing(here.bucket, Unauthorized("who are you"))
    plan = plan_up(here.bucket, here.folder, EVERYTHING, memory=here.memory)

    with pytest.raises(Unauthorized):
        apply_mirror(plan, refusing, memory=here.memory, at_once=2)

    assert refusing.asked < 500


def test_one_that_fails_stops_no_other(here: Mirror, there: Mirror) -> None:
    """All others arrive, and all that failed are said."""
    here.write({**TREE, "bad": b"x", "worse": b"y"})
    here.up()
    plan = plan_down(there.bucket, there.folder, EVERYTHING, memory=there.memory)
    here.bucket.delete(["bad", "worse"])

    outcome = apply_mirror(plan, there.bucket, memory=there.memory)

    assert sorted(step.key for step, _ in outcome.failed) == ["bad", "worse"]
    assert there.files == TREE


def test_an_interrupt_ends_it_soon(here: Mirror) -> None:
    """Whoever waits for all files gets away at once, though one of them hangs."""
    here.write({f"f{number}": b"x" for number in range(5)})
    hanging = Hanging(here.bucket)
    plan = plan_up(here.bucket, here.folder, EVERYTHING, memory=here.memory)

    def interrupt(now: Progress) -> None:
        if hanging.waiting.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply_mirror(plan, hanging, memory=here.memory, progress=interrupt, at_once=1)
    names = [thread.name for thread in threading.enumerate() if not thread.daemon]
    hanging.release.set()

    assert names == ["MainThread"]


def test_progress_is_told(here: Mirror) -> None:
    """The last word is that all is done; rates and times make sense before."""
    here.write({**TREE, "big": bytes(BIG)})
    plan = plan_up(here.bucket, here.folder, EVERYTHING, memory=here.memory)
    told: list[Progress] = []

    outcome = apply_mirror(plan, here.bucket, memory=here.memory, progress=told.append)

    last = told[-1]
    assert (last.files, last.of_files) == (5, 5)
    assert last.bytes == last.of_bytes == outcome.bytes == plan.size
    assert last.seconds_left == 0
    assert all(0 <= one.bytes <= one.of_bytes and one.rate >= 0 for one in told)
    assert len(told) <= 10 * outcome.seconds + 2


def test_removing_in_batches(here: Mirror) -> None:
    """More than a batch goes, and the progress says how many."""
    here.write({f"d/{number}": b"" for number in range(1500)})
    here.write({"d2/x": b""})
    here.up()
    told: list[int] = []

    removed = remove(here.bucket, (one.key for one in list(here.bucket.walk("d/"))), told.append)

    assert (removed, told) == (1500, [1000, 1500])
    assert set(here.objects) == {"d2/x"}


class Counting(FolderBucket):
    """Notes from where is read, and fails when it comes to a place."""

    def __init__(self, inner: Any, fail_at: int | None = None) -> None:
        super().__init__(BucketOptions(url=inner.url))
        self.starts: list[int] = []
        self.fail_at = fail_at

    def read(
        self, key: str, *, start: int = 0, end: int | None = None, etag: str = ""
    ) -> Iterator[Buffer]:
        self.starts.append(start)
        for chunk in super().read(key, start=start, end=end, etag=etag):
            if start == self.fail_at:
                raise DataError("the network is gone")
            start += len(memoryview(chunk))
            yield chunk


class Touching(FolderBucket):
    """Changes a file while it is sent."""

    def __init__(self, inner: Any, path: Path) -> None:
        super().__init__(BucketOptions(url=inner.url))
        self.path = path

    def put(self, key: str, source: Any, **options: Any) -> str:
        if key == self.path.name:
            self.path.write_bytes(b"another content")
        return super().put(key, source, **options)


class Refusing(FolderBucket):
    """Always says the same."""

    def __init__(self, inner: Any, error: Exception) -> None:
        super().__init__(BucketOptions(url=inner.url))
        self.asked = 0
        self.error = error

    def put(self, key: str, source: Any, **options: Any) -> str:
        self.asked += 1
        time.sleep(0.001)
        raise self.error


class Hanging(FolderBucket):
    """Takes the first file forever."""

    def __init__(self, inner: Any) -> None:
        super().__init__(BucketOptions(url=inner.url))
        self.waiting, self.release = threading.Event(), threading.Event()

    def put(self, key: str, source: Any, **options: Any) -> str:
        self.waiting.set()
        self.release.wait(60)
        raise DataError("released")
