"""Many hands, and a prompt end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from launchbay.sync.crew import Budget, Crew, Ended, Halted, read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator


def run(crew: Crew[int], jobs: range, at_once: int) -> list[Ended[int]]:
    """What ended."""
    heard = crew.run(jobs, at_once=at_once, every_s=0.05)
    return [one for one in heard if isinstance(one, Ended)]


def test_all_jobs_end() -> None:
    """Each job is done once, and errors come back as what they are."""

    def work(job: int) -> int:
        return 10 // job

    ended = run(Crew(work, lambda _: 1), range(5), at_once=3)

    assert sorted(one.job for one in ended) == [0, 1, 2, 3, 4]
    assert {one.job: one.result for one in ended if not one.error} == {1: 10, 2: 5, 3: 3, 4: 2}
    assert [type(one.error) for one in ended if one.error] == [ZeroDivisionError]


def test_a_panic_does_not_hang() -> None:
    """A library that dies in its own way is an error like others."""

    class PanicError(BaseException):
        pass

    def work(job: int) -> None:
        raise PanicError("the library gave up")

    (ended,) = run(Crew(work, lambda _: 1), range(1), at_once=1)

    assert "the library gave up" in str(ended.error)


def test_no_more_at_once_than_fits() -> None:
    """Jobs wait for room, and one that needs more than all of it is done alone."""
    held, most, lock = [0], [0], threading.Lock()

    def work(job: int) -> None:
        with lock:
            held[0] += job
            most[0] = max(most[0], held[0])
        with lock:
            held[0] -= job

    crew = Crew(work, lambda job: job)
    crew._budget = Budget(10)

    assert len(run(crew, range(3, 14), at_once=8)) == 11
    assert most[0] <= 13


def test_leaving_stops_the_others() -> None:
    """Whoever stops listening is not worked for any more."""
    begun: list[int] = []
    gate = threading.Event()

    def work(job: int) -> None:
        begun.append(job)
        if job:
            gate.wait(10)

    crew = Crew(work, lambda _: 0)
    heard = crew.run(range(100), at_once=2, every_s=0.05)
    next(heard)
    gate.set()
    heard.close()  # type: ignore[attr-defined]

    assert len(begun) < 100
    with pytest.raises(Halted):
        crew.check()
    assert crew.idle


def test_bytes_are_told_in_between() -> None:
    """A job says how far it is, before it ends."""

    def work(job: int) -> None:
        crew.count(5)

    crew: Crew[int] = Crew(work, lambda _: 0)

    assert (
        sum(one for one in crew.run(range(4), at_once=2, every_s=1) if isinstance(one, int)) == 20
    )


def test_reading_ahead_keeps_order_and_errors() -> None:
    """Pieces come in order, and what goes wrong is raised after those before it."""

    def pieces() -> Iterator[bytes]:
        yield b"a"
        yield b"b"
        raise OSError("gone")

    got: list[bytes] = []
    with pytest.raises(OSError, match="gone"):
        got.extend(read_ahead(pieces(), lambda: None))
    assert got == [b"a", b"b"]
    assert list(read_ahead(iter([b"x", b"y"]), lambda: None)) == [b"x", b"y"]


def test_nobody_reads_ahead_forever() -> None:
    """When nobody wants more, the reader ends."""
    source = iter([b"x"] * 1000)
    ahead = read_ahead(source, lambda: None)
    next(ahead)
    ahead.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread.name == "data-ahead":
            thread.join(10)

    assert len(list(source)) > 990
