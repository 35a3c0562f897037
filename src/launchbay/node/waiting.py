"""The folder that all runs of this user on this host wait in.

```text
${XDG_STATE_HOME:-~/.local/state}/launchbay/hosts/<hostname>/
    waiting/<order>.<kind>-<run>-<attempt>   asked for; a small JSON file
    picked/…                                 taken by atomic rename; run.sh is started for it
    aside/…                                  what could not be worked on; `pack.log` says why
    blocked.json                             why what waits is waiting, by kind
    pack.log                                 what went wrong here
```
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from typing import Any, Dict

from files import digest, write_whole

Entry = Dict[str, Any]
PLACES = ("waiting", "picked", "aside")
COPIED = ("attempt", "target", "root", "plan", "native_id", "needs", "caps")
KEPT = ("HOME", "PATH", "XDG_STATE_HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME")


class Queue:
    """What waits and what was picked."""

    def __init__(self) -> None:
        state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        self.folder = os.path.join(state, "launchbay", "hosts", os.uname().nodename)
        for place in PLACES:
            os.makedirs(self.path(place), mode=0o700, exist_ok=True)

    def path(self, *parts: str) -> str:
        """A path in the queue's folder."""
        return os.path.join(self.folder, *parts)

    def names(self, place: str) -> dict[str, str]:
        """Run and attempt to file name."""
        names = [name for name in os.listdir(self.path(place)) if name[0] != "."]
        return {key_of(name): name for name in names}

    def keys(self) -> dict[str, str]:
        """Everything that waits or was picked."""
        return {**self.names("waiting"), **self.names("picked")}

    def put(self, job: dict[str, Any], folder: str, key: str) -> None:
        """Let a run wait; its folder is ready."""
        entry = {name: job[name] for name in COPIED}
        entry.update(run=job["run_id"], folder=folder)
        kind = digest([job["needs"], job["caps"]])
        name = "%020d.%s-%s" % (time.time_ns(), kind, key)
        write_whole(self.path("waiting", name), json.dumps(entry))

    def pick(self, name: str) -> bool:
        """Whether it is ours now."""
        return self._move(name, "waiting", "picked")

    def unpick(self, name: str) -> None:
        """Let it wait again."""
        self._move(name, "picked", "waiting")

    def set_aside(self, name: str, place: str) -> None:
        """Keep it from being worked on, so that the others can."""
        self._move(name, place, "aside")

    def drop(self, name: str) -> None:
        """Forget what was picked: its run has ended."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("picked", name))

    def _move(self, name: str, source: str, target: str) -> bool:
        try:
            os.rename(self.path(source, name), self.path(target, name))
        except FileNotFoundError:
            return False
        return True

    def ensure_worker(self) -> None:
        """Start a worker unless there is one, or nothing to do."""
        if not self.keys():
            return
        descriptor = open_lock(self.folder)
        if try_lock(descriptor):
            self._start_worker(descriptor)
        os.close(descriptor)

    def _start_worker(self, lock: int) -> None:
        os.set_inheritable(lock, True)  # noqa: FBT003
        pack = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pack.py")
        with open(self.path("pack.log"), "a") as log:
            # It lets go of our pipes, our session and our folder; it outlives us.
            subprocess.Popen(
                [sys.executable, "-S", "-E", pack, "work", str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
                cwd="/",
                env=plain_environment(),
            )


def key_of(name: str) -> str:
    """The run and attempt that a file of the queue is named for."""
    return name.partition("-")[2]


def kind_of(name: str) -> str:
    """Runs of one kind need the same and are limited alike."""
    return name.partition("-")[0].partition(".")[2]


def open_lock(folder: str) -> int:
    """The worker's lock, on local disk: locks on a network one are not to be trusted."""
    private = os.path.join("/tmp", "launchbay-%d" % os.getuid())  # noqa: S108
    with contextlib.suppress(FileExistsError):
        os.mkdir(private, 0o700)
    info = os.lstat(private)
    if info.st_uid != os.getuid() or not stat.S_ISDIR(info.st_mode):
        raise SystemExit("%s belongs to somebody else" % private)
    name = hashlib.sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return os.open(os.path.join(private, name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(descriptor: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def plain_environment() -> dict[str, str]:
    """What a program needs that brings its own environment along."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}
