"""One allocation that runs of a plan share: it takes them until none is left or its time is over.

Every allocation of a plan begins with its own share of the sheet and goes on with what others have
not begun; run.sh's claim decides who has a run. What is left when its time is nearly up stays for
the next allocation.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections import deque

from files import has, read_json, read_text, write_whole
from processes import clock, ended_children, processes_of, send_signal, spawn_session
from records import end_unstarted, records_folder
from waiting import HERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TICK_S = 0.5
GRACE_S = 10.0
WHOLE = 1.000001
"""A GPU, with room for rounding."""
MARGIN_S = 30.0
"""For a run to start and to put away its things, besides its own time."""
MARGIN_SHARE = 0.1
"""No more of a short allocation's time than this is margin."""


class Task:
    """A run that was started here."""

    def __init__(self, folder: str, attempt: int, devices: list[str]) -> None:
        self.folder = folder
        self.attempt = attempt
        self.records = records_folder(folder, attempt)
        self.devices = devices
        self.since = clock()
        self.kill_at: float | None = None


class Allocation:
    """What runs here, what is still to come, and what there is room for."""

    def __init__(self, plan: str, number: int) -> None:
        self.plan = plan
        spec = read_json(os.path.join(plan, "pack.json"))
        self.width = int(spec["width"])
        self.gpus = float(spec["gpus"])
        self.time_s: float | None = spec["time_s"]
        self.began = clock()
        self.limit_s = find_limit(spec["limit_s"])
        self.longest_s = 0.0
        self.root = plan.rpartition("/plans/")[0]
        self.runs = read_sheet(os.path.join(plan, "sheet"))
        self.order = deque(find_order(len(self.runs), int(spec["share"]), number))
        self.live: dict[int, Task] = {}
        self.stopping = False
        self.bell = 0

    def work(self) -> None:
        """Until nothing is left to do here."""
        self.listen()
        while True:
            for pid, _ in ended_children():
                self.end(pid)
            self.start_all()
            if not self.live and not self.order:
                return
            self.tend(clock())
            select.select([self.bell], [], [], TICK_S)
            with contextlib.suppress(BlockingIOError):
                os.read(self.bell, 4096)

    def end(self, pid: int) -> None:
        """Make room for the next."""
        task = self.live.pop(pid, None)
        if task is not None:
            self.longest_s = max(self.longest_s, clock() - task.since)

    def listen(self) -> None:
        """Wake when a child ends, and on TERM, when the scheduler wants the allocation back."""
        self.bell, wakes = os.pipe()
        os.set_blocking(self.bell, False)
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.stop())

    def stop(self) -> None:
        """Take no more, and have what runs told so; a run may be about to start just now."""
        self.stopping = True

    def start_all(self) -> None:
        """Start what there is room and time for."""
        while self.order and len(self.live) < self.width:
            if self.stopping or not self.has_time():
                break
            devices = self.find_devices()
            if devices is None:
                return
            self.start(self.order.popleft(), devices)
        else:
            return
        self.order.clear()

    def has_time(self) -> bool:
        """Whether a run that begins now can end before the allocation does.

        Where nobody said how long one may take, the longest so far tells. At the very beginning
        there is always time: the next allocation would have no more.
        """
        if self.limit_s is None:
            return True
        margin = min(MARGIN_S, MARGIN_SHARE * self.limit_s)
        spent = clock() - self.began
        need = self.longest_s if self.time_s is None else self.time_s
        return spent < margin or spent + need + margin < self.limit_s

    def start(self, index: int, devices: list[str]) -> None:
        """Start one run, unless somebody has begun or cancelled it."""
        run, attempt = self.runs[index]
        task = Task(os.path.join(self.root, "runs", run), attempt, devices)
        if has(task.records, "claim"):
            return
        if has(task.records, "cancel"):
            end_unstarted(task.records)
            return
        environment = {**os.environ, "BAY_UID": str(os.getuid()), **boot_time()}
        if self.gpus:
            environment["BAY_DEVICES"] = ",".join(devices)
        # A restarted allocation is no further attempt of what it had not begun.
        environment.pop("SLURM_RESTART_COUNT", None)
        script = os.path.join(HERE, "task.sh")
        pid = spawn_session(["/bin/sh", script, self.plan, str(index)], environment)
        self.live[pid] = task

    def find_devices(self) -> list[str] | None:
        """GPUs for one more run; None when too few are free."""
        if not self.gpus:
            return []
        share = min(1.0, self.gpus)
        used: dict[str, float] = {}
        for task in self.live.values():
            for device in task.devices:
                used[device] = used.get(device, 0.0) + share
        room = [one for one in given_devices() if used.get(one, 0.0) + share <= WHOLE]
        room.sort(key=lambda one: -used.get(one, 0.0))
        number = max(1, -int(-self.gpus // 1))
        if len(room) >= number:
            return room[:number]
        # Fewer than were asked for: nobody would ever give one back.
        return None if self.live else room

    def tend(self, now: float) -> None:
        """End what was cancelled, what is over its time, and what did not go when told to."""
        for pid, task in self.live.items():
            if task.kill_at is not None:
                if now > task.kill_at:
                    self.kill(pid, task)
            elif self.stopping or has(task.records, "cancel") or self.is_over(task, now):
                task.kill_at = now + GRACE_S
                send_signal(pid, signal.SIGTERM)

    def is_over(self, task: Task, now: float) -> bool:
        """Whether its own time limit is over; then that is noted."""
        if self.time_s is None or now < task.since + self.time_s:
            return False
        with contextlib.suppress(OSError):
            write_whole(os.path.join(task.records, "timeout"), "")
        return True

    def kill(self, pid: int, task: Task) -> None:
        """Kill all but run.sh, which then records the end; the next time also that."""
        found = processes_of(task.folder, task.attempt, pid)
        for process in found - {pid} or found:
            send_signal(process, signal.SIGKILL)
        task.kill_at = clock() + GRACE_S


def serve(plan: str, number: str) -> None:
    """Be the allocation of that number."""
    os.umask(0o077)
    Allocation(plan, int(number)).work()


def read_sheet(path: str) -> list[tuple[str, int]]:
    """Id and attempt of each run."""
    runs = []
    with open(path, "rb") as file:
        for line in file:
            run, attempt, _ = line.split(b" ", 2)
            runs.append((run.decode(), int(attempt)))
    return runs


def find_order(count: int, share: int, number: int) -> list[int]:
    """Indices of all runs: the allocation's own share, then those of others, each from its end.

    Every allocation has another order, so that they do not all come for the same run, of which
    one would begin it and the others would have made it ready for nothing.
    """
    shares = [range(first, min(first + share, count)) for first in range(0, count, share)]
    own = number % len(shares)
    others = [index for index in range(len(shares)) if index != own]
    others.sort(key=lambda index: hash_number(index * len(shares) + number))
    return [*shares[own], *(one for index in others for one in reversed(shares[index]))]


def hash_number(number: int) -> int:
    """A number that looks like chance, the same everywhere."""
    mixed = (number + 1) * 0x9E3779B1 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    return mixed ^ mixed >> 13


def boot_time() -> dict[str, str]:
    """The moment of boot for run.sh, which then need not ask for the time."""
    uptime = read_text("/proc/uptime").split()
    if not uptime:
        return {}
    return {"BAY_BOOT_CS": str(round((time.time() - float(uptime[0])) * 100))}


def find_limit(asked_s: float | None) -> float | None:
    """How long this allocation lasts: as Slurm says, if it does, or as was asked for."""
    ends_at = os.environ.get("SLURM_JOB_END_TIME", "")
    return float(ends_at) - time.time() if ends_at.isdigit() else asked_s


def given_devices() -> list[str]:
    """The GPUs of this allocation, as their programs call them."""
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if os.environ.get(name):
            return os.environ[name].split(",")
    count: Any = os.environ.get("SLURM_GPUS_ON_NODE") or "0"
    return [str(index) for index in range(int(count))] if count.isdigit() else []
