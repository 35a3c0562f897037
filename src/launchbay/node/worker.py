"""The one that works on the queue: starts what waits, ends what must end, notes what ended.

What it started does not need it: run.sh lives in a session of its own, records its own end, and is
adopted by the next worker. run.sh's claim decides who runs an attempt, so a second start of the
same one is harmless. A worker may therefore die at any moment.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import heapq
import json
import os
import select
import signal
import sys
import time

from entries import NewerFormat, render_entry
from files import has, read_json, read_text, write_whole
from hardware import busy_gpus, memory_mib, usable_cpus
from line import Line
from live import LiveRun
from processes import clock, ended_children, plain_environment, send_signal, spawn_session
from records import claim, end_unstarted, read_events, record_exit
from runfolder import keep_outputs
from slots import Room
from waiting import HERE, Queue, kind_of, open_lock, try_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from entries import Entry

LINGER_S = 2.0
TICK_S = 0.2
PAUSE_S = 5.0
OTHERS_EVERY_S = 10.0
LOCK_EVERY_S = 60.0
SET_CLOCK_CS = 100
TRIES = 3
LOST_RACE = 75
PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ENOMEM, errno.EMFILE})
"""Want of something that may be there again later."""


class Unworkable(Exception):
    """An entry whose run cannot be started, now or later."""


class Unequipped(Exception):
    """This worker cannot start anything any more; another may."""


def work(inherited: str) -> None:
    """Work on the queue until nothing is left; the lock is held, its descriptor inherited."""
    lock = int(inherited)
    # A run that inherited it would hold the lock after our death.
    os.set_inheritable(lock, False)  # noqa: FBT003
    os.chdir("/")
    queue = Queue()
    queue.make()
    alarm = open_alarm()
    while True:
        worker = Worker(queue, lock, alarm)
        if not worker.run():
            return
        lock = worker.lock
        fcntl.flock(lock, fcntl.LOCK_UN)
        # Whoever added something while we still held the lock counted on us.
        if not queue.known() or not try_lock(lock):
            return


def open_alarm() -> int:
    """What becomes readable when a child ends."""
    alarm, bell = os.pipe()
    os.set_blocking(alarm, False)
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return alarm


class Worker:
    """Holds the lock, and knows every run that was picked."""

    def __init__(self, queue: Queue, lock: int, alarm: int) -> None:
        self.queue = queue
        self.lock = lock
        self.alarm = alarm
        self.line = Line(queue)
        self.live: dict[str, LiveRun] = {}
        self.children: dict[int, LiveRun] = {}
        self.cpus = usable_cpus()
        self.memory_mib = memory_mib()
        self.environment = {**plain_environment(), "BAY_UID": str(os.getuid())}
        self.others: tuple[float, set[str]] = (-OTHERS_EVERY_S, set())
        self.blocked: dict[str, str] = {}
        self.blocked_as_said: dict[str, str] | None = None
        self.paused_until = 0.0
        self.leaves = False

    def run(self) -> bool:
        """Work until nothing is left; False when it is somebody else's turn before that."""
        self.adopt()
        busy_at = tended_at = locked_at = clock()
        while not self.leaves:
            self.reap()
            now = clock()
            if now >= tended_at + TICK_S:
                tended_at = now
                self.tend_all(now)
            if now >= locked_at + LOCK_EVERY_S:
                locked_at = now
                if not self.keep_lock():
                    return False
            self.start_all(now)
            if self.live or self.line:
                busy_at = now
            elif now > busy_at + LINGER_S:
                return True
            self.wait()
        return False

    def wait(self) -> None:
        """Sleep until a child ends, but not for long."""
        select.select([self.alarm], [], [], TICK_S)
        with contextlib.suppress(BlockingIOError):
            os.read(self.alarm, 4096)

    def keep_lock(self) -> bool:
        """Whether the lock is the one that others would find; where it was removed, a new one."""
        # What is old in /tmp is removed there.
        os.utime(self.lock)
        found = open_lock(self.queue.folder)
        if os.path.sameopenfile(found, self.lock):
            os.close(found)
            return True
        self.lock = found
        return try_lock(found)

    def adopt(self) -> None:
        """Take over what an earlier worker had picked."""
        for name in sorted(self.queue.names("picked").values()):
            with self.guard(name):
                self.adopt_one(name)

    def adopt_one(self, name: str) -> None:
        """Mind a run that somebody began, or may have begun."""
        entry = self.queue.read("picked", name)
        if entry.gpus and entry.devices is None and not has(entry.records, "claim"):
            # Its worker died before it chose devices: nobody has started it.
            self.queue.unpick(name)
            return
        run = self.live[name] = LiveRun(name, entry)
        if not has(entry.records, "claim"):
            # It may just be starting: the same devices again, and its claim decides.
            self.spawn(run)

    def reap(self) -> None:
        """Note which of our children have ended."""
        for pid, status in ended_children():
            run = self.children.pop(pid, None)
            if run is not None:
                with self.guard(run.name):
                    self.note_end(run, status)

    def note_end(self, run: LiveRun, status: int) -> None:
        """run.sh records its own end; if it could not, we do."""
        run.child = False
        events = read_events(run.records)
        if "exit" in events or not os.path.isdir(run.records):
            run.ended = run.tidy = True
            self.settle(run)
            return
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = 128 + killed if killed else os.WEXITSTATUS(status)
        if not has(run.records, "claim"):
            self.retry(run, code)
        elif code == LOST_RACE and events.get("started", {}).get("pid") != run.pid:
            # Somebody else has it; who that is we shall see.
            run.pid = None
        else:
            how = f"was killed by signal {killed}" if killed else "could not record its end"
            run.verdict = (code, f"run.sh {how}")
            run.ended = True
            self.settle(run)

    def retry(self, run: LiveRun, code: int) -> None:
        """run.sh could not even claim it: once more later, but not for ever."""
        if run.tries < TRIES:
            run.try_at = clock() + PAUSE_S
            return
        claim(run.records)
        run.verdict = (code, f"run.sh ended with code {code} before it could begin")
        run.ended = True
        self.settle(run)

    def tend_all(self, now: float) -> None:
        """See after every run, and say why others wait."""
        for run in list(self.live.values()):
            if run.broken:
                self.set_aside(run.name)
            else:
                with self.guard(run.name):
                    self.tend(run, now)
        if self.blocked != self.blocked_as_said:
            self.blocked_as_said = self.blocked
            with contextlib.suppress(OSError):
                write_whole(self.queue.path("blocked.json"), json.dumps(self.blocked))

    def tend(self, run: LiveRun, now: float) -> None:
        """End what was cancelled, what is over its time, and what did not go when told to."""
        if run.try_at is not None:
            if now >= run.try_at or has(run.records, "cancel"):
                self.spawn(run)
            return
        if not run.child and not run.ended:
            run.ended = run.is_gone()
        if run.kill_at is not None and now > run.kill_at:
            self.kill(run)
            run.kill_at = now + run.entry.grace_s
        if run.ended:
            self.settle(run)
        elif run.kill_at is None:
            self.obey(run, now)

    def obey(self, run: LiveRun, now: float) -> None:
        """Stop what somebody cancelled or what is over its time; run.sh tells its group."""
        if run.pid is None:
            return
        if not has(run.records, "cancel"):
            if not run.overdue(now):
                return
            # What has ended in time, and copies its outputs, was in time.
            if "exit" not in read_events(run.records):
                with contextlib.suppress(OSError):
                    write_whole(os.path.join(run.records, "timeout"), "")
        run.kill_at = now + run.entry.grace_s
        send_signal(run.pid, signal.SIGTERM)

    def kill(self, run: LiveRun) -> None:
        """Kill all but run.sh, which then records the end; the next time also that."""
        found = run.processes()
        for pid in found - {run.pid} or found:
            send_signal(pid, signal.SIGKILL)

    def settle(self, run: LiveRun) -> None:
        """Let go of an ended run once its end is recorded and nothing of it is left."""
        if not run.tidy:
            run.tidy = True
            names = read_json(os.path.join(run.records, "job.json")).get("outputs", [])
            with contextlib.suppress(OSError):
                keep_outputs(run.entry.folder, names)
        if run.verdict and not self.record(run.records, *run.verdict):
            return
        run.verdict = None
        left = run.left_behind()
        if not left:
            self.let_go(run)
        elif not run.swept:
            run.swept = True
            run.kill_at = clock() + run.entry.grace_s
            for pid in left:
                send_signal(pid, signal.SIGTERM)

    def record(self, records: str, code: int, why: str) -> bool:
        """Whether the end is recorded, or cannot ever be."""
        try:
            record_exit(records, code, why)
        except FileNotFoundError:
            log(f"{records} is gone; its run ended with code {code}: {why}")
        except OSError:
            return False
        return True

    def let_go(self, run: LiveRun) -> None:
        """Forget a run that has ended."""
        self.queue.drop(run.name)
        del self.live[run.name]

    def start_all(self, now: float) -> None:
        """Start what there is room for, in order; nobody overtakes somebody who needs the same."""
        self.line.refresh(self.lock)
        if now < self.paused_until:
            return
        room = Room(
            (run.entry for run in self.live.values()),
            cpus=self.cpus,
            memory_mib=self.memory_mib,
            busy_gpus=self.busy_gpus,
        )
        self.blocked = {}
        firsts = self.line.firsts()
        while firsts and now >= self.paused_until:
            name = heapq.heappop(firsts)
            placed = self.place(name, room)
            if isinstance(placed, str):
                self.blocked[kind_of(name)] = placed
                continue
            behind = self.line.leave(name)
            if behind is not None:
                heapq.heappush(firsts, behind)
            if placed is not None:
                room.take(placed)
                with self.guard(name):
                    self.begin(name, placed)

    def place(self, name: str, room: Room) -> Entry | str | None:
        """What `Room.place` says of one that waits; None when it has left, or cannot be read."""
        with self.guard(name):
            try:
                entry = self.line.entry(name)
            except FileNotFoundError:
                return None
            return room.place(entry)
        return None

    def begin(self, name: str, entry: Entry) -> None:
        """Pick a run and start it; what nobody had picked nobody has begun."""
        try:
            if not self.queue.pick(name):
                return
            if not os.path.isdir(entry.records):
                raise Unworkable(f"{entry.records} is gone")
            if entry.devices is not None:
                # Before it starts: whoever adopts it must know what it holds.
                write_whole(self.queue.path("picked", name), render_entry(entry))
        except OSError as error:
            if error.errno not in PASSING:
                raise
            self.queue.unpick(name)
            self.pause(f"{error.strerror}: {error.filename}")
            return
        run = self.live[name] = LiveRun(name, entry)
        self.spawn(run)

    def spawn(self, run: LiveRun) -> None:
        """Start run.sh, unless the run was cancelled meanwhile."""
        if has(run.records, "cancel"):
            end_unstarted(run.records)
            self.let_go(run)
            return
        if not has(HERE, "run.sh"):
            raise Unequipped("run.sh is gone")
        self.note_boot()
        environment = dict(self.environment)
        if run.entry.devices is not None or run.entry.hides_gpus:
            environment["BAY_DEVICES"] = ",".join(run.entry.devices or [])
        script = os.path.join(HERE, "run.sh")
        argv = ["/bin/sh", script, run.entry.folder, str(run.entry.attempt)]
        try:
            run.begun(spawn_session(argv, environment))
        except OSError as error:
            if error.errno not in PASSING:
                raise
            run.try_at = clock() + PAUSE_S
            return
        self.children[run.pid or 0] = run

    def note_boot(self) -> None:
        """Give run.sh the moment of boot, which spares it calls of date; clocks may be set."""
        uptime = read_text("/proc/uptime").split()
        if not uptime:
            return
        boot_cs = round((time.time() - float(uptime[0])) * 100)
        if abs(boot_cs - int(self.environment.get("BAY_BOOT_CS", 0))) > SET_CLOCK_CS:
            self.environment["BAY_BOOT_CS"] = str(boot_cs)

    def pause(self, why: str) -> None:
        """Start nothing for a while."""
        self.paused_until = clock() + PAUSE_S
        self.line.forget()
        self.line.refresh(self.lock)
        self.blocked = dict.fromkeys(self.line.groups, why)

    def busy_gpus(self) -> set[str]:
        """The GPUs that other people use, as of a few seconds ago."""
        asked_at, busy = self.others
        if clock() > asked_at + OTHERS_EVERY_S:
            busy = busy_gpus()
            self.others = (clock(), busy)
        return busy

    @contextlib.contextmanager
    def guard(self, name: str) -> Iterator[None]:
        """What goes wrong with one entry is the trouble of that entry only."""
        try:
            yield
        except (NewerFormat, Unequipped) as error:
            log(f"leaving the queue to another worker: {error!r}")
            self.leaves = True
        except Exception as error:  # noqa: BLE001
            # Whatever it is, the next worker would die of it again.
            log(f"{name} is set aside:")
            with contextlib.suppress(OSError):
                sys.excepthook(type(error), error, error.__traceback__)
            self.set_aside(name)

    def set_aside(self, name: str) -> None:
        """Leave an entry alone for good, once what it holds is free."""
        run = self.live.get(name)
        if run is not None:
            run.broken = True
            if run.child or run.processes():
                return
            del self.live[name]
        with contextlib.suppress(OSError):
            self.queue.set_aside(name)


def log(line: str) -> None:
    """Write to pack.log, if there is room."""
    with contextlib.suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
