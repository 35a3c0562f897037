"""What waits, in order and by kind, without reading more than it must."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from entries import Entry
from line import Line
from waiting import Queue, open_lock, tell_news

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """An empty queue that nobody works on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    made = Queue()
    made.make()
    return made


@pytest.fixture
def lock(queue: Queue) -> Iterator[int]:
    """The queue's lock."""
    descriptor = open_lock(queue.folder)
    yield descriptor
    os.close(descriptor)


def put(queue: Queue, run: str, order: int, **needs: object) -> None:
    record = {"run": run, "attempt": 1, "folder": "/r", "needs": needs, "caps": {}}
    queue.put(Entry(record), order)


def test_only_the_first_of_a_kind_can_be_next(queue: Queue, lock: int) -> None:
    """The one behind comes forward when the first leaves."""
    for order, (run, cpus) in enumerate([("a", 1), ("b", 2), ("c", 1)]):
        put(queue, run, order, cpus=cpus)
    line = Line(queue)
    line.refresh(lock)
    first, second = sorted(line.firsts())
    behind = line.leave(first)
    runs = [line.entry(name).run for name in (first, second, behind or "")]

    assert runs == ["a", "b", "c"]
    assert (line.leave(second), line.leave(behind or ""), bool(line)) == (None, None, False)


def test_listed_again_when_somebody_called(queue: Queue, lock: int) -> None:
    """A folder that nobody called about is not listed again at once."""
    put(queue, "a", 1)
    line = Line(queue)
    line.refresh(lock)
    put(queue, "b", 2, cpus=2)
    line.refresh(lock)
    before = len(line.firsts())
    tell_news(lock)
    line.refresh(lock)

    assert (before, len(line.firsts())) == (1, 2)


def test_listed_again_when_nothing_is_left(queue: Queue, lock: int) -> None:
    """Who has nothing to do looks for himself."""
    line = Line(queue)
    line.refresh(lock)
    put(queue, "a", 1)
    line.refresh(lock)

    assert len(line.firsts()) == 1


def test_entry_that_left_is_not_there(queue: Queue, lock: int) -> None:
    """One that was cancelled meanwhile is told from one that cannot be read."""
    put(queue, "a", 1)
    line = Line(queue)
    line.refresh(lock)
    (name,) = line.firsts()
    queue.pick(name)

    with pytest.raises(FileNotFoundError):
        line.entry(name)


def test_ten_thousand_waiting(queue: Queue, lock: int) -> None:
    """A long line is read once, and walking it off takes no longer for each."""
    for number in range(10_000):
        name = f"{number:020d}.{number % 3:08d}-r{number}-1"
        os.close(os.open(queue.path("waiting", name), os.O_CREAT))
    line = Line(queue)
    began = time.process_time()
    line.refresh(lock)
    left = 0
    while line:
        for name in line.firsts():
            line.leave(name)
            left += 1
    took_s = time.process_time() - began

    assert left == 10_000
    assert took_s < 2
