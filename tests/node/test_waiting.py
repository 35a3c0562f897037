"""The queue's folder and its lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import waiting
from entries import Entry
from tests.conftest import eventually
from tests.node.workshop import Desk, make_job, read_events
from waiting import Queue, kind_of, news, only_adder, open_lock, tell_news, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """An empty queue that nobody works on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Queue()
    made.make()
    return made


@contextlib.contextmanager
def held(folder: Path | str) -> Iterator[int]:
    """The worker's lock, held by this process."""
    lock = open_lock(str(folder))
    assert try_lock(lock)
    try:
        yield lock
    finally:
        os.close(lock)


def entry(run: str, **needs: object) -> Entry:
    return Entry({"run": run, "attempt": 1, "folder": "/r", "needs": needs, "caps": {}})


def test_runs_are_known_by_their_place(queue: Queue) -> None:
    """An entry moves from place to place and is known until it is dropped."""
    queue.put(entry("a-b-c"), 7)
    (name,) = queue.names("waiting").values()
    steps = [queue.known()]
    picked = [queue.pick(name), queue.pick(name)]
    steps.append(set(queue.names("picked")))
    queue.unpick(name)
    steps.append(set(queue.names("waiting")))
    queue.pick(name)
    queue.drop(name)
    queue.drop(name)

    assert steps == [{"a-b-c-1"}] * 3
    assert picked == [True, False]
    assert queue.known() == set()


def test_same_needs_are_one_kind(queue: Queue) -> None:
    """Runs that need the same are grouped by their names alone."""
    for number, needs in enumerate([{"cpus": 1}, {"cpus": 1}, {"cpus": 2}]):
        queue.put(entry(f"r{number}", **needs), number)
    kinds = [kind_of(name) for name in sorted(queue.names("waiting").values())]

    assert kinds[0] == kinds[1] != kinds[2]


def test_order_survives_a_clock_that_was_set_back(queue: Queue) -> None:
    """A new run stands behind all that wait, even if they came from the future."""
    future = time.time_ns() + 10**18
    queue.put(entry("early"), future)

    assert queue.next_order() == future + 1


def test_drafts_are_not_entries(queue: Queue) -> None:
    """What somebody is still writing, or died while writing, is not seen."""
    Path(queue.path("waiting", ".draft.1")).touch()

    assert queue.known() == set()


def test_queue_that_was_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at it makes nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    queue = Queue()
    queue.ensure_worker()

    assert queue.known() == set()
    assert not (tmp_path / "state").exists()


def test_adder_calls_the_worker_that_is_there(desk: Desk) -> None:
    """Where somebody holds the lock no worker is started; the holder hears of it."""
    with held(desk.queue) as lock:
        before = news(lock)
        desk.add(make_job("r", ["true"]))
        after = news(lock)

        assert after > before
        assert (desk.worker(), desk.states("r")) == (None, ["waiting"])
    desk.until("ended", "r")


def test_lock_is_gone_with_its_holder(desk: Desk) -> None:
    """No run inherits the lock, so a worker's death frees it."""
    desk.add(make_job("r", script="ls -l /proc/$$/fd /proc/$PPID/fd"))
    desk.until("ended", "r")

    assert ".lock" not in desk.log("r")


def test_news_are_counted() -> None:
    """Every call is one more."""
    with held("/no/such/queue") as lock:
        before = news(lock)
        tell_news(lock)
        tell_news(lock)

        assert news(lock) == before + 2


def test_one_adder_at_a_time(queue: Queue) -> None:
    """Who adds waits for the other to be done."""
    order: list[str] = []

    def second() -> None:
        with only_adder(queue):
            order.append("second")

    thread = threading.Thread(target=second)
    with only_adder(queue):
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join()

    assert order == ["first", "second"]


def test_folder_of_locks_that_belongs_to_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder in /tmp that somebody else made is not trusted."""
    monkeypatch.setattr(waiting, "LOCKS", str(tmp_path))
    (tmp_path / f"launchbay-{os.getuid()}").symlink_to(tmp_path)

    with pytest.raises(SystemExit, match="belongs to somebody else"):
        open_lock("/queue")


def test_worker_that_dies_at_once_is_replaced(desk: Desk) -> None:
    """A lock without a living holder is free."""
    with held(desk.queue) as lock:
        desk.add(make_job("r", ["true"]))
        fcntl.flock(lock, fcntl.LOCK_UN)
        desk.look("r")
        eventually(lambda: read_events(desk.run("r")))


def test_entry_is_small_json(desk: Desk) -> None:
    """A person can read what waits."""
    with held(desk.queue):
        desk.add(make_job("r", ["true"], needs={"cpus": 1}))
        (name,) = desk.names("waiting")
        record = json.loads((desk.queue / "waiting" / name).read_text())

    assert record == {
        "format": 1,
        "run": "r",
        "attempt": 1,
        "target": "desk",
        "root": str(desk.root),
        "plan": "plan",
        "native_id": "queue/plan/r",
        "needs": {"cpus": 1},
        "caps": {},
        "folder": str(desk.run("r")),
    }
