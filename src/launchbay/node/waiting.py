"""The folder that all runs of one user on one host wait in, and the lock of who works on it.

It is `${XDG_STATE_HOME:-~/.local/state}/launchbay/hosts/<hostname>/`:

```text
waiting/<order>.<kind>-<run>-<attempt>   asked for; a small JSON file
picked/…                                 taken by atomic rename; run.sh was or will be started
aside/…                                  cannot be worked on; pack.log says why
blocked.json                             why what waits is waiting, by kind
pack.log                                 what went wrong here
```

A worker holds the lock, so there is one. It lets go before it looks a last time at what waits, and
whoever adds looks at the lock after adding: one of the two always sees the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import sys
import time

from entries import entry_key, parse_entry, render_entry
from files import digest, write_whole
from processes import plain_environment, spawn_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from entries import Entry

HERE = os.path.dirname(os.path.abspath(__file__))
LOCKS = "/tmp"  # noqa: S108


class Queue:
    """What waits, what was picked, and what had to be set aside."""

    def __init__(self) -> None:
        state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        self.folder = os.path.join(state, "launchbay", "hosts", os.uname().nodename)

    def make(self) -> None:
        """See that its folders are there."""
        for place in ("waiting", "picked", "aside"):
            os.makedirs(self.path(place), mode=0o700, exist_ok=True)

    def path(self, *parts: str) -> str:
        """A path inside the queue's folder."""
        return os.path.join(self.folder, *parts)

    def names(self, place: str) -> dict[str, str]:
        """Run and attempt to file name."""
        try:
            found = os.listdir(self.path(place))
        except FileNotFoundError:
            return {}
        return {name.partition("-")[2]: name for name in found if not name.startswith(".")}

    def known(self) -> set[str]:
        """Every run and attempt that waits or was picked."""
        # In this order: an entry that moves on meanwhile is seen at least once.
        return {*self.names("waiting"), *self.names("picked")}

    def read(self, place: str, name: str) -> Entry:
        """What a file says.

        Raises:
            FileNotFoundError: when it has left this place.
            ValueError: when it does not say what an entry says.
            NewerFormat: when it is not for this version to judge.
        """
        with open(self.path(place, name), "rb", buffering=0) as file:
            return parse_entry(file.read())

    def put(self, entry: Entry, order: int) -> None:
        """Let a run wait; from now on it will be run."""
        kind = digest([entry.record["needs"], entry.record["caps"]])
        key = entry_key(entry.run, entry.attempt)
        write_whole(self.path("waiting", f"{order:020d}.{kind}-{key}"), render_entry(entry))

    def next_order(self) -> int:
        """A number behind everybody who waits, whatever was done to the clock."""
        orders = [name.partition(".")[0] for name in self.names("waiting").values()]
        last = max((int(order) for order in orders if order.isdigit()), default=0)
        return max(time.time_ns(), last + 1)

    def pick(self, name: str) -> bool:
        """Take what waits; whether it is ours now."""
        return self._move(name, "waiting", "picked")

    def unpick(self, name: str) -> None:
        """Let it wait again, in its old place."""
        self._move(name, "picked", "waiting")

    def set_aside(self, name: str) -> None:
        """Keep it from being worked on again."""
        if not self._move(name, "picked", "aside"):
            self._move(name, "waiting", "aside")

    def drop(self, name: str) -> None:
        """Forget what was picked."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("picked", name))

    def ensure_worker(self) -> None:
        """Start a worker unless there is one, or nothing to do; tell one that there is news."""
        if not self.known():
            return
        lock = open_lock(self.folder)
        try:
            if not try_lock(lock):
                tell_news(lock)
                return
            os.set_inheritable(lock, True)  # noqa: FBT003
            argv = [sys.executable, "-S", "-E", os.path.join(HERE, "pack.py"), "work", str(lock)]
            with open(self.path("pack.log"), "ab") as log:
                spawn_session(argv, plain_environment(), log.fileno())
        finally:
            os.close(lock)

    def _move(self, name: str, source: str, target: str) -> bool:
        try:
            os.rename(self.path(source, name), self.path(target, name))
        except FileNotFoundError:
            return False
        return True


def kind_of(name: str) -> str:
    """Runs of one kind need the same and are limited alike."""
    return name.partition("-")[0].partition(".")[2]


def open_lock(folder: str, purpose: str = "lock") -> int:
    """The lock's file, on local disk: locks on a network one are not to be trusted."""
    private = os.path.join(LOCKS, f"launchbay-{os.getuid()}")
    os.makedirs(private, mode=0o700, exist_ok=True)
    info = os.lstat(private)
    if info.st_uid != os.getuid() or not stat.S_ISDIR(info.st_mode):
        raise SystemExit(f"{private} belongs to somebody else")
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    path = os.path.join(private, f"{name}.{purpose}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)


def try_lock(lock: int) -> bool:
    """Whether we hold it now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def tell_news(lock: int) -> None:
    """Make the worker look: the length of the lock's file is how often somebody called."""
    with contextlib.suppress(OSError):
        os.write(lock, b".")


def news(lock: int) -> int:
    """How often somebody called."""
    return os.fstat(lock).st_size


@contextlib.contextmanager
def only_adder(queue: Queue) -> Iterator[None]:
    """Nobody else adds meanwhile, so that nothing is added twice."""
    lock = open_lock(queue.folder, "adding")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
