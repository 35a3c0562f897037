"""Which files of a growing folder are due, and that a folder is watched once."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import BadRequest, DataError
from launchbay.sync.watching import (
    Done,
    Due,
    Mark,
    Tracker,
    Watch,
    keep_watching,
    only_watch,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

A, B = Mark(1, 1, 1), Mark(2, 2, 1)


def test_a_file_is_due_once_it_stayed_the_same() -> None:
    """Not at the first look, not while it grows, and not again when it was sent."""
    tracker = Tracker()
    looks = [tracker.look({"x": A}), tracker.look({"x": B}), tracker.look({"x": B})]
    tracker.settle(looks[-1], Done(sent=("x",)))
    looks.append(tracker.look({"x": B}))

    assert [look.send for look in looks] == [(), (), ("x",), ()]


def test_a_changed_file_is_due_again() -> None:
    """What was sent before is sent anew when it is another and has settled."""
    tracker = Tracker()
    tracker.look({"x": A})
    tracker.settle(tracker.look({"x": A}), Done(sent=("x",)))

    assert [tracker.look({"x": B}).send, tracker.look({"x": B}).send] == [(), ("x",)]


def test_the_last_look_takes_what_still_grows() -> None:
    """At the end everything that differs is due, settled or not."""
    tracker = Tracker()
    tracker.look({"x": A})

    assert tracker.look({"x": B, "y": A}, final=True).send == ("x", "y")


def test_only_what_was_sent_can_be_gone() -> None:
    """A file that vanished before it was sent is none of the bucket's."""
    tracker = Tracker()
    tracker.look({"x": A, "y": A})
    tracker.settle(tracker.look({"x": A, "y": A}), Done(same=("x",)))
    gone = tracker.look({})
    tracker.settle(gone, Done(removed=("x",)))

    assert (gone.gone, tracker.look({}).gone) == (("x",), ())


def test_what_failed_stays_due() -> None:
    """The next look offers it again, but not what was left out for good."""
    tracker = Tracker()
    tracker.look({"x": A, "y": A})
    due = tracker.look({"x": A, "y": A})
    tracker.settle(due, Done(failed={"x": "no"}, left_out={"y": "never"}))

    assert tracker.look({"x": A, "y": A}).send == ("x",)


class Bucket:
    """A store that is away for a while, and what was said of it."""

    def __init__(self, *, away: int, looks: int) -> None:
        self.away = away
        self.looks = looks
        self.stop = threading.Event()
        self.said: list[str] = []
        self.sent: list[str] = []

    def scan(self) -> Mapping[str, Mark]:
        self.looks -= 1
        if self.looks <= 0:
            self.stop.set()
        return {"x": A}

    def act(self, due: Due) -> Done:
        if self.away:
            self.away -= 1
            raise DataError("the store does not answer")
        self.sent += due.send
        return Done(sent=due.send)

    def watch(self, *, once: bool = False) -> bool:
        watch = Watch(
            scan=self.scan,
            act=self.act,
            tell=lambda done: None,
            complain=self.said.append,
            interval_s=0.001,
        )
        return keep_watching(watch, self.stop, once=once)


def test_trouble_is_said_once_and_tried_again() -> None:
    """A store that is away for three looks is spoken of once, and the file arrives."""
    bucket = Bucket(away=3, looks=10)

    assert bucket.watch()
    assert (bucket.said, bucket.sent) == (["the store does not answer"], ["x"])


def test_a_watch_that_ends_in_trouble_says_so() -> None:
    """When the last sync fails, not everything arrived."""
    assert not Bucket(away=100, looks=4).watch()


def test_once_ends_after_what_is_whole() -> None:
    """One interval, then what stayed the same is sent and the watch is over."""
    bucket = Bucket(away=0, looks=1000)

    assert bucket.watch(once=True)
    assert (bucket.sent, bucket.stop.is_set()) == (["x"], False)


def test_a_folder_that_is_gone_deletes_nothing(tmp_path: Path) -> None:
    """An unmounted folder is trouble, and not the end of its objects."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "x").write_text("1")
    acts: list[Due] = []
    stop = threading.Event()
    said: list[str] = []

    def scan() -> Mapping[str, Mark]:
        return {path.name: Mark(1, path.stat().st_mtime_ns, 1) for path in folder.iterdir()}

    def act(due: Due) -> Done:
        acts.append(due)
        folder.rename(tmp_path / "away")
        return Done(sent=due.send)

    def complain(text: str) -> None:
        said.append(text)
        stop.set()

    watch = Watch(scan=scan, act=act, tell=lambda done: None, complain=complain, interval_s=0.001)

    assert not keep_watching(watch, stop)
    assert acts == [Due(send=("x",))]
    assert said == [f"`{folder}` cannot be read: No such file or directory"]


HOLD = """
import sys
from pathlib import Path
from launchbay.sync.watching import only_watch
with only_watch(Path(sys.argv[1]), Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_watch_names_the_first(tmp_path: Path) -> None:
    """While one process watches a folder another is refused; when it dies the folder is free."""
    words = [sys.executable, "-c", HOLD, str(tmp_path), str(tmp_path / "locks")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout
        first.stdout.readline()
        with (
            pytest.raises(BadRequest, match=f"already, by process {first.pid}"),
            only_watch(tmp_path, tmp_path / "locks"),
        ):
            pass
        first.kill()
    with only_watch(tmp_path, tmp_path / "locks"):
        assert (tmp_path / "locks").is_dir()
