"""Many hands: jobs done by threads, results to the one who waits, and a prompt end."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LAST_S = 2.0
"""How long an interrupted crew is waited for."""
BUDGET = 128 * 1024 * 1024
"""Bytes that may be in memory at once."""

SMALL = 64 * 1024
"""What nobody has to wait for room for."""
PATIENCE_S = 0.2

Job = TypeVar("Job")


class Halted(Exception):
    """Whoever works shall stop."""


@dataclass(frozen=True, slots=True)
class Ended(Generic[Job]):
    """A job and what came of it."""

    job: Job
    result: object
    error: Exception | None = None


class Budget:
    """Bytes that jobs may hold at once; one that wants more than all waits to be alone."""

    def __init__(self, limit: int = BUDGET) -> None:
        self.limit = limit
        self._used = 0
        self._changed = threading.Condition()

    def take(self, cost: int, halt: threading.Event) -> None:
        """Wait until there is room."""
        if cost < SMALL:
            return
        with self._changed:
            while self._used and self._used + cost > self.limit:
                if halt.is_set():
                    raise Halted
                self._changed.wait(0.2)
            self._used += cost

    def give(self, cost: int) -> None:
        """Make room."""
        if cost < SMALL:
            return
        with self._changed:
            self._used -= cost
            self._changed.notify_all()


def read_ahead(source: Iterable[bytes], check: Callable[[], None]) -> Iterator[bytes]:
    """What another thread reads, one piece ahead.

    Data that comes from one store and goes to another needs this: the library for object storage
    cannot read while it asks for what it shall write.
    """
    pieces: Queue[bytes | BaseException | None] = Queue(1)
    left = threading.Event()

    def offer(piece: bytes | BaseException | None) -> None:
        while not left.is_set():
            with suppress(Full):
                pieces.put(piece, timeout=PATIENCE_S)
                return

    def pump() -> None:
        try:
            for piece in source:
                offer(piece)
                if left.is_set():
                    return
            offer(None)
        except BaseException as error:  # noqa: BLE001 - raised where the data is wanted
            offer(error)

    threading.Thread(target=pump, name="data-ahead", daemon=True).start()
    try:
        while (piece := _next(pieces, check)) is not None:
            yield piece
    finally:
        left.set()


def _next(pieces: Queue[bytes | BaseException | None], check: Callable[[], None]) -> bytes | None:
    while True:
        check()
        try:
            piece = pieces.get(timeout=PATIENCE_S)
        except Empty:
            continue
        if isinstance(piece, BaseException):
            raise piece
        return piece


class Crew(Generic[Job]):
    """Threads that work off jobs.

    They are daemons: one that hangs in the network keeps no interrupted process alive.
    """

    def __init__(self, work: Callable[[Job], object], cost: Callable[[Job], int]) -> None:
        self.halt = threading.Event()
        self._work = work
        self._cost = cost
        self._budget = Budget()
        self._jobs: deque[Job] = deque()
        # Looked at now and then: waking up whoever waits for each of many files is dear.
        self._ended: deque[Ended[Job]] = deque()
        self._woken = threading.Event()
        self._counting = threading.Lock()
        self._counted = 0
        self._threads: list[threading.Thread] = []

    def count(self, number: int) -> None:
        """Say from within a job that so many bytes of it are done."""
        with self._counting:
            self._counted += number

    def _take_count(self) -> int:
        with self._counting:
            counted, self._counted = self._counted, 0
        return counted

    @property
    def idle(self) -> bool:
        """Whether nobody works any more."""
        return not any(thread.is_alive() for thread in self._threads)

    def check(self) -> None:
        """Raise when whoever works shall stop."""
        if self.halt.is_set():
            raise Halted

    def run(
        self, jobs: Iterable[Job], *, at_once: int, every_s: float
    ) -> Iterator[Ended[Job] | int | None]:
        """What ends, as it ends; bytes in between; None when nothing was heard for a while."""
        self._jobs.extend(jobs)
        left = len(self._jobs)
        names = [f"data-{number}" for number in range(min(at_once, left))]
        self._threads = [threading.Thread(target=self._serve, name=name) for name in names]
        try:
            for thread in self._threads:
                thread.daemon = True
                thread.start()
            while left:
                self._woken.wait(every_s)
                self._woken.clear()
                yield self._take_count() or None
                while self._ended:
                    left -= 1
                    yield self._ended.popleft()
        finally:
            self.stop()

    def stop(self) -> None:
        """Let nobody begin anything more, and wait a little for those at work."""
        self.halt.set()
        self._jobs.clear()
        each = LAST_S / max(1, len(self._threads))
        for thread in self._threads:
            thread.join(max(each, 0.05))

    def _serve(self) -> None:
        while not self.halt.is_set():
            try:
                job = self._jobs.popleft()
            except IndexError:
                return
            self._ended.append(self._do(job))
            if not self._jobs:
                self._woken.set()

    def _do(self, job: Job) -> Ended[Job]:
        cost = self._cost(job)
        try:
            self._budget.take(cost, self.halt)
        except Halted as error:
            return Ended(job, None, error)
        try:
            return Ended(job, self._work(job))
        except Exception as error:  # noqa: BLE001 - told to whoever waits, as what it is
            return Ended(job, None, error)
        except BaseException as error:  # noqa: BLE001 - a library that panics must not hang us
            return Ended(job, None, RuntimeError(f"{type(error).__name__}: {error}"))
        finally:
            self._budget.give(cost)
