"""A run under way: whose process it is, whether it has ended, what is left of it."""

from __future__ import annotations

from processes import age_s, clock, group_lives, processes_of
from records import lives, read_events, start_ticks, young_claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from entries import Entry


class LiveRun:
    """A run that was picked; it holds its GPUs and its place until nothing of it is left."""

    def __init__(self, name: str, entry: Entry) -> None:
        self.name = name
        self.entry = entry
        self.records = entry.records
        self.pid: int | None = None
        """Of its run.sh, as soon as that is known."""
        self.start = ""
        """What tells that process from a later one of the same number; our child needs none."""
        self.child = False
        """Whether run.sh is our child, and has not been waited for."""
        self.since = clock()
        self.tries = 0
        self.try_at: float | None = None
        """When to start run.sh once more, where it could not begin."""
        self.ended = False
        self.verdict: tuple[int, str] | None = None
        """Code and reason of an end that still has to be recorded."""
        self.tidy = False
        """Whether its outputs are where they belong; run.sh sees to that if it is not killed."""
        self.kill_at: float | None = None
        self.swept = False
        """Whether what was left behind has been told to go."""
        self.broken = False
        """Whether minding it went wrong: then only its processes count."""

    def begun(self, pid: int) -> None:
        """Our child runs it now."""
        self.pid, self.start, self.child = pid, "", True
        self.since = clock()
        self.tries += 1
        self.try_at = None

    def is_gone(self) -> bool:
        """Whether a run.sh that is not our child has ended."""
        events = read_events(self.records)
        started = events.get("started")
        if started:
            self.pid, self.start = int(started["pid"]), str(started.get("start") or "")
            self.since = clock() - age_s(started)
            return not lives(started)
        if self.pid is not None:
            # Its folder was deleted.
            return not lives({"boot": "", "pid": self.pid, "start": self.start})
        return "exit" in events or not young_claim(self.records)

    def processes(self) -> set[int]:
        """Everything that runs for it."""
        group = self.pid
        if group is not None and not self.child and start_ticks(group) not in {"", self.start}:
            # The number belongs to somebody else by now, and so does the group.
            group = None
        return processes_of(self.entry.folder, self.entry.attempt, group)

    def left_behind(self) -> set[int]:
        """What still runs of an ended run, also outside its group if it was stopped or has GPUs."""
        thorough = bool(self.entry.devices) or self.kill_at is not None or self.pid is None
        if thorough or group_lives(self.pid or 0):
            return self.processes()
        return set()

    def overdue(self, now: float) -> bool:
        """Whether its time limit is over."""
        return self.entry.time_s is not None and now > self.since + self.entry.time_s
