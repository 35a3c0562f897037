"""A folder that grows: which of its files are whole, which are gone; and one watch a folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from launchbay.core.errors import BadRequest, BayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from threading import Event


class Mark(NamedTuple):
    """What tells that a file is still the same."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, kw_only=True)
class Due:
    """What is to be done now: keys to send, and keys whose files are gone."""

    send: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Done:
    """What became of it."""

    sent: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    """What the bucket had already."""
    removed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Keys with the reason; they are tried again."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Keys with the reason; they are left alone until they change."""


class Tracker:
    """What a folder held at the last look, and what of it the bucket has."""

    def __init__(self) -> None:
        self._seen: Mapping[str, Mark] = {}
        self._sent: dict[str, Mark] = {}

    def look(self, files: Mapping[str, Mark], *, final: bool = False) -> Due:
        """What is due, now that the folder holds these files.

        A file is due when it stayed as it was since the look before; at the end all that changed
        are. Gone is only what this watch has sent or found equal.
        """
        send = [
            key
            for key, mark in files.items()
            if self._sent.get(key) != mark and (final or self._seen.get(key) == mark)
        ]
        gone = [key for key in self._sent if key not in files]
        self._seen = dict(files)
        return Due(send=tuple(send), gone=tuple(gone))

    def settle(self, due: Due, done: Done) -> None:
        """Remember what was due and is done; what failed stays due."""
        for key in (*done.sent, *done.same, *done.left_out):
            self._sent[key] = self._seen[key]
        for key in due.gone:
            if key not in done.failed:
                self._sent.pop(key, None)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """A watch of one folder: how to look, what to do, whom to tell.

    `scan` gives the folder's files and raises OSError when the folder itself is gone; `act` does
    what is due and raises BayError when the bucket cannot be reached.
    """

    scan: Callable[[], Mapping[str, Mark]]
    act: Callable[[Due], Done]
    tell: Callable[[Done], None]
    complain: Callable[[str], None]
    interval_s: float
    tracker: Tracker = field(default_factory=Tracker)


def keep_watching(watch: Watch, stop: Event, *, once: bool = False) -> bool:
    """Look again and again until `stop` is set, and a last time then.

    Returns:
        Whether everything had arrived at the end.
    """
    trouble: set[str] = set()
    _step(watch, trouble, final=False)
    while not stop.wait(watch.interval_s):
        well = _step(watch, trouble, final=False)
        if once:
            return well
    return _step(watch, trouble, final=True)


def _step(watch: Watch, trouble: set[str], *, final: bool) -> bool:
    """One look and what follows from it; the same trouble is said once, until it is over."""
    try:
        due = watch.tracker.look(watch.scan(), final=final)
        done = watch.act(due) if due.send or due.gone else Done()
        watch.tracker.settle(due, done)
        watch.tell(done)
        for key, why in done.left_out.items():
            watch.complain(f"{key}: {why}")
        said = {f"{key}: {why}" for key, why in done.failed.items()}
    except BayError as err:
        said = {str(err)}
    except OSError as err:
        said = {f"`{err.filename}` cannot be read: {err.strerror}"}
    for text in sorted(said - trouble):
        watch.complain(text)
    trouble.clear()
    trouble |= said
    return not said


@contextmanager
def only_watch(folder: Path, locks: Path) -> Iterator[None]:
    """While this lasts, nobody else of this account watches the folder.

    Raises:
        BadRequest: when somebody does; the message names the process.
    """
    locks.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
    descriptor = os.open(locks / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            owner = os.read(descriptor, 32).decode(errors="replace").strip() or "another process"
            raise BadRequest(
                f"`{folder}` is watched already, by process {owner}",
                hint=f"`kill {owner}` ends that watch, after a last sync",
            ) from err
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)
