"""The one that works on the queue: starts what there is room for, ends what must end.

A worker holds a lock on local disk, so there is one. What it started does not need it: run.sh
lives in a session of its own, records its own end, and is adopted by the next worker. run.sh's
claim decides who runs an attempt, so a second start of the same one is harmless.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from typing import Any

from files import has, read_json, read_text, write_whole
from hardware import busy_gpus, memory_mib, usable_cpus
from records import (
    claimed,
    end_unstarted,
    lives,
    read_attempt,
    read_events,
    record_exit,
    records_folder,
)
from runfolder import keep_outputs
from waiting import Entry, Queue, kind_of, plain_environment

GRACE_S = 10.0
LINGER_S = 2.0
TICK_S = 0.2
COARSE_NS = 100_000_000
OTHERS_EVERY_S = 10.0
LOST_RACE = 75
RUN_SH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.sh")


class Live:
    """A run that was started, by us or by a worker before us."""

    def __init__(self, name: str, entry: Entry, pid: int | None = None) -> None:
        self.name = name
        self.entry = entry
        self.records = records_folder(entry["folder"], entry["attempt"])
        self.child = pid is not None
        self.pid = pid
        self.began = time.monotonic()
        self.grace_s = entry["needs"].get("grace_s", GRACE_S)
        self.kill_at: float | None = None
        self.code: int | None = None
        """How our child ended, as far as it has."""
        self.ended = False

    def gone(self) -> bool:
        """Whether somebody else's run.sh has ended; who runs it may not be said yet."""
        events = read_events(self.records)
        started = events.get("started")
        if "exit" in events or started is None:
            seen = read_attempt(self.entry["folder"], self.entry["attempt"])
            return bool(seen["state"] != "running")
        if self.pid is None:
            self.pid = started["pid"]
            self.began = time.monotonic() - max(0.0, time.time() - (started["at"] or time.time()))
        return not lives(started)

    def disown(self) -> None:
        """Another run.sh had claimed the attempt first."""
        self.child, self.pid, self.code = False, None, None

    def overdue(self) -> bool:
        """Whether its time limit is over."""
        limit = self.entry["needs"].get("time_s")
        return limit is not None and time.monotonic() > self.began + limit


class Worker:
    """Works until nothing is left."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._live: dict[str, Live] = {}
        self._groups: dict[str, list[str]] = {}
        self._listed_ns = 0
        self._listed_at = 0.0
        self._blocked: dict[str, str] = {}
        self._others: tuple[float, set[str]] = (-OTHERS_EVERY_S, set())
        self._have = {"cpus": usable_cpus(), "memory_mib": memory_mib() or 0}
        self._environment = {**plain_environment(), "BAY_UID": str(os.getuid())}
        uptime = read_text("/proc/uptime").split()
        if uptime:
            booted = time.time() - float(uptime[0])
            self._environment["BAY_BOOT_CS"] = str(round(booted * 100))

    def run(self) -> None:
        """Work, and linger a little: the next launch is often near."""
        woken = _wake_on_children()
        self._adopt()
        busy_at = time.monotonic()
        while True:
            self._reap()
            self._obey()
            self._start()
            if self._live or self._groups:
                busy_at = time.monotonic()
            elif time.monotonic() - busy_at > LINGER_S:
                return
            select.select([woken], [], [], TICK_S)
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)

    def _adopt(self) -> None:
        """Take over what an earlier worker had picked."""
        for name in sorted(self._queue.names("picked").values()):
            with self._one_at_fault(name, "picked"):
                self._adopt_one(name)

    def _adopt_one(self, name: str) -> None:
        entry = read_json(self._queue.path("picked", name))
        if not os.path.isdir(entry["folder"]):
            # Somebody has removed the run, or its whole project.
            self._queue.drop(name)
        elif claimed(entry["folder"], entry["attempt"]):
            live = Live(name, entry)
            if live.gone():
                self._queue.drop(name)
            else:
                self._live[name] = live
        elif entry["needs"].get("gpus") and "devices" not in entry:
            # The worker died before it chose devices: nobody has started it.
            self._queue.unpick(name)
        else:
            # It may just be starting: the same devices again, and its claim decides.
            self._spawn(name, entry)

    @contextlib.contextmanager
    def _one_at_fault(self, name: str, place: str) -> Any:  # noqa: ANN401
        """One entry that cannot be worked on must not keep workers from the rest."""
        try:
            yield
        except Exception:  # noqa: BLE001
            sys.stderr.write("%s is set aside: %s" % (name, traceback.format_exc()))
            sys.stderr.flush()
            self._live.pop(name, None)
            for known in (place, "picked"):
                self._queue.set_aside(name, known)

    def _reap(self) -> None:
        """Note which runs have ended."""
        codes = _ended_children()
        for live in list(self._live.values()):
            with self._one_at_fault(live.name, "picked"):
                if live.child and live.pid in codes:
                    live.code = codes[live.pid]
                if live.code is not None and not live.ended:
                    # On a full disk it is tried again.
                    with contextlib.suppress(OSError):
                        self._note_end(live, live.code)
                elif not live.child and not live.ended and live.gone():
                    live.ended = True
                if live.ended and not self._stragglers(live):
                    self._finish(live)

    def _note_end(self, live: Live, code: int) -> None:
        """run.sh records its own end; if it was killed, we do."""
        if os.WIFEXITED(code) and os.WEXITSTATUS(code) == LOST_RACE:
            live.disown()
            return
        if "exit" in read_events(live.records):
            live.ended = True
            return
        killed = os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0
        why = "run.sh could not record its end"
        if killed:
            why = "run.sh was killed by signal %d" % killed
        with contextlib.suppress(OSError):
            keep_outputs(live.entry["folder"], read_json(live.records + "/job.json")["outputs"])
        record_exit(live.records, 128 + killed if killed else os.WEXITSTATUS(code), why)
        live.ended = True

    def _stragglers(self, live: Live) -> bool:
        """Whether processes of an ended run are still there; they are told to go."""
        if live.pid is None or not _left_behind(live):
            return False
        if live.kill_at is None:
            live.kill_at = time.monotonic() + live.grace_s
            _signal_all(processes_of(live.entry, live.pid), signal.SIGTERM)
        return True

    def _finish(self, live: Live) -> None:
        self._queue.drop(live.name)
        del self._live[live.name]

    def _obey(self) -> None:
        """End what was cancelled, what is over its time, and what did not go when told to."""
        now = time.monotonic()
        for live in list(self._live.values()):
            if live.kill_at is not None:
                if now > live.kill_at:
                    live.kill_at = now + live.grace_s
                    _kill(live)
            elif live.pid is not None and not live.ended:
                if has(live.records, "cancel"):
                    self._stop(live)
                elif live.overdue():
                    write_whole(os.path.join(live.records, "timeout"), "")
                    self._stop(live)

    def _stop(self, live: Live) -> None:
        """run.sh passes it on to its group."""
        live.kill_at = time.monotonic() + live.grace_s
        _signal_all({live.pid or 0} - {0}, signal.SIGTERM)

    def _start(self) -> None:
        """Start what there is room for, in order; nobody overtakes somebody who needs the same."""
        self._list_waiting()
        while self._start_one():
            pass

    def _start_one(self) -> bool:
        """Whether one was started, or found to be nobody's."""
        blocked: dict[str, str] = {}
        scarce: set[str] = set()
        for name in sorted(names[0] for names in self._groups.values()):
            with self._one_at_fault(name, "waiting"):
                entry = read_json(self._queue.path("waiting", name))
                obstacle, kind, devices = self._obstacle(entry, scarce)
                if obstacle:
                    blocked[kind_of(name)] = obstacle
                    scarce.add(kind)
                    continue
                if self._queue.pick(name):
                    self._begin(name, entry, devices)
            self._remove_head(kind_of(name))
            return True
        if blocked != self._blocked:
            self._blocked = blocked
            with contextlib.suppress(OSError):
                write_whole(self._queue.path("blocked.json"), json.dumps(blocked))
        return False

    def _remove_head(self, kind: str) -> None:
        self._groups[kind].pop(0)
        if not self._groups[kind]:
            del self._groups[kind]

    def _list_waiting(self) -> None:
        """Read the folder again when it has changed, grouped by what the runs need."""
        changed_ns = os.stat(self._queue.path("waiting")).st_mtime_ns
        # Its time is coarse: a change right after a look may carry the same.
        if self._listed_ns == changed_ns and time.time_ns() - changed_ns > COARSE_NS:
            return
        # Our own picks change it too, and a long list is dear to read.
        if self._groups and time.monotonic() - self._listed_at < TICK_S:
            return
        self._listed_at = time.monotonic()
        self._groups = {}
        for name in sorted(self._queue.names("waiting").values()):
            self._groups.setdefault(kind_of(name), []).append(name)
        self._listed_ns = changed_ns

    def _obstacle(self, entry: Entry, scarce: set[str]) -> tuple[str, str, list[str] | None]:
        """Why it cannot start now, what is scarce, and otherwise the devices to give it."""
        for cap, (most, meaning) in sorted(entry["caps"].items()):
            if sum(cap in live.entry["caps"] for live in self._live.values()) >= most:
                return "%s lets %d run at once" % (meaning, most), cap, None
        needs = entry["needs"]
        for kind, have in self._have.items():
            wanted = needs.get(kind)
            used = sum(live.entry["needs"].get(kind) or 0 for live in self._live.values())
            if wanted and (kind in scarce or used + wanted > have):
                unit = kind.replace("memory_mib", "MiB of memory")
                return "it needs %g %s, %g are free" % (wanted, unit, have - used), kind, None
        if not needs.get("gpus"):
            return "", "", None
        if "gpus" in scarce:
            return "another run waits for GPUs before it", "gpus", None
        devices = self._choose_devices(needs)
        why = "" if devices else "it needs %g GPU, too few are free" % needs["gpus"]
        return why, "gpus", devices

    def _choose_devices(self, needs: dict[str, Any]) -> list[str] | None:
        """Whole ones that nobody has, or the fullest that still has room for a fraction."""
        wanted, allowed = needs["gpus"], needs["devices"]
        used = dict.fromkeys(allowed, 0.0)
        for live in self._live.values():
            share = min(1.0, live.entry["needs"].get("gpus") or 0)
            for device in live.entry.get("devices") or []:
                used[device] = used.get(device, 0.0) + share
        if needs.get("auto"):
            busy = self._others_busy()
            allowed = [device for device in allowed if device not in busy]
        if wanted >= 1:
            free = [device for device in allowed if not used[device]]
            return free[: int(wanted)] if len(free) >= wanted else None
        room = [device for device in allowed if used[device] + wanted <= 1 + 1e-9]
        return [max(room, key=lambda device: used[device])] if room else None

    def _others_busy(self) -> set[str]:
        seen_at, busy = self._others
        if time.monotonic() - seen_at > OTHERS_EVERY_S:
            busy = busy_gpus()
            self._others = (time.monotonic(), busy)
        return busy

    def _begin(self, name: str, entry: Entry, devices: list[str] | None) -> None:
        if devices is not None:
            entry["devices"] = devices
            # Before it starts: whoever adopts it must know what it holds.
            write_whole(self._queue.path("picked", name), json.dumps(entry))
        self._spawn(name, entry)

    def _spawn(self, name: str, entry: Entry) -> None:
        records = records_folder(entry["folder"], entry["attempt"])
        if has(records, "cancel"):
            end_unstarted(records)
            self._queue.drop(name)
            return
        environment = self._environment
        if "devices" in entry or entry["needs"].get("hide_gpus"):
            devices = ",".join(entry.get("devices") or [])
            environment = {**environment, "BAY_DEVICES": devices}
        argv = ["/bin/sh", RUN_SH, entry["folder"], str(entry["attempt"])]
        self._live[name] = Live(name, entry, _spawn_session(argv, environment))


def _wake_on_children() -> int:
    """A descriptor that can be read when a child has ended."""
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def _ended_children() -> dict[int | None, int]:
    codes: dict[int | None, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, code = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            codes[pid] = code
    return codes


def _spawn_session(argv: list[str], environment: dict[str, str]) -> int:
    null = os.open(os.devnull, os.O_RDWR)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, descriptor) for descriptor in (0, 1, 2)]
        return os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsid=True)
    except NotImplementedError:
        return subprocess.Popen(
            argv, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
        ).pid
    finally:
        os.close(null)


def _kill(live: Live) -> None:
    """Everything of the run but run.sh, which then records the end; at last run.sh itself."""
    found = processes_of(live.entry, live.pid or 0) - {live.pid}
    _signal_all({pid for pid in found if pid}, signal.SIGKILL)
    if found or live.pid is None or live.ended:
        return
    _signal_all({live.pid}, signal.SIGKILL)
    if not live.child:
        with contextlib.suppress(OSError):
            record_exit(live.records, 128 + signal.SIGKILL, "run.sh did not end when told to")


def _left_behind(live: Live) -> bool:
    """Whether the run's group has members; for a GPU's sake also what has left the group."""
    if live.entry.get("devices"):
        return bool(processes_of(live.entry, live.pid or 0))
    try:
        os.killpg(live.pid or 0, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def processes_of(entry: Entry, group: int) -> set[int | None]:
    """Ids of our processes that carry the attempt's marks or belong to its group."""
    marks = {
        ("BAY_RUN_ID=%s" % entry["run"]).encode(),
        ("BAY_ATTEMPT=%d" % entry["attempt"]).encode(),
        os.fsencode("BAY_OUT=%s/out" % entry["folder"]),
    }
    found: set[int | None] = set()
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                carries = marks <= set(file.read().split(b"\0"))
        except OSError:
            continue
        fields = read_text("/proc/%s/stat" % name).rpartition(")")[2].split()
        if (carries or str(group) in fields[2:3]) and fields[:1] != ["Z"]:
            found.add(int(name))
    return found


def _signal_all(pids: set[int] | set[int | None], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid or 0, number)
