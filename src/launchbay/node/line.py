"""What waits, in memory: in order, by kind, read anew only when there may be news."""

from __future__ import annotations

import heapq
from collections import deque

from processes import clock
from waiting import kind_of, news

TYPE_CHECKING = False
if TYPE_CHECKING:
    from entries import Entry
    from waiting import Queue

ANYWAY_EVERY_S = 5.0
SHARE_OF_TIME = 50


class Line:
    """The waiting runs. Only the first of each kind can be next, so only those are looked at."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.groups: dict[str, deque[str]] = {}
        self.entries: dict[str, Entry] = {}
        self.calls = -1
        self.read_again_at = 0.0

    def __bool__(self) -> bool:
        return bool(self.groups)

    def refresh(self, lock: int) -> None:
        """List the folder, if somebody called, nothing is left, or it is long ago."""
        began, calls = clock(), news(lock)
        if calls == self.calls and self.groups and began < self.read_again_at:
            return
        self.calls = calls
        self.groups = {}
        for name in sorted(self.queue.names("waiting").values()):
            self.groups.setdefault(kind_of(name), deque()).append(name)
        firsts = {names[0] for names in self.groups.values()}
        self.entries = {name: entry for name, entry in self.entries.items() if name in firsts}
        # A long list takes long to read.
        took_s = clock() - began
        self.read_again_at = began + max(ANYWAY_EVERY_S, SHARE_OF_TIME * took_s)

    def forget(self) -> None:
        """Read anew, whatever was heard."""
        self.calls = -1

    def firsts(self) -> list[str]:
        """The first of each kind, as a heap."""
        names = [names[0] for names in self.groups.values()]
        heapq.heapify(names)
        return names

    def entry(self, name: str) -> Entry:
        """What a first one needs; raises as `Queue.read`."""
        if name not in self.entries:
            self.entries[name] = self.queue.read("waiting", name)
        return self.entries[name]

    def leave(self, name: str) -> str | None:
        """Take the first of its kind out; returns the one behind it."""
        self.entries.pop(name, None)
        kind = kind_of(name)
        names = self.groups[kind]
        names.popleft()
        if names:
            return names[0]
        del self.groups[kind]
        return None
