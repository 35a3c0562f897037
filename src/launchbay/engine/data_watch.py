"""`bay data watch` without a terminal."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from launchbay.config.paths import state_folder
from launchbay.core.errors import BadRequest
from launchbay.engine.transfers import (
    Moving,
    Transfer,
    apply_transfer,
    plan_sends,
    plan_transfers,
    private_names,
)
from launchbay.sync.address import WILDCARD
from launchbay.sync.watching import Done, Due, Mark, Watch, keep_watching, only_watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from launchbay.engine.data import Area, Choice, Data

__all__ = ["Done", "stopped_by_signals", "watch_folder", "watched_area"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _nothing(_: object = None) -> None:
    """Say nothing."""


def watch_folder(
    data: Data,
    area: Area,
    *,
    stop: Event,
    interval_s: float = 5.0,
    delete: bool = False,
    once: bool = False,
    began: Callable[[], None] = _nothing,
    tell: Callable[[Done], None] = _nothing,
    complain: Callable[[str], None] = _nothing,
) -> bool:
    """Upload what is new or changed in a folder until `stop` is set, and a last time then.

    Args:
        data: the buckets that are known.
        area: the folder, as a pattern.
        stop: set from a signal or another thread.
        interval_s: how long a file must stay the same, and how often to look.
        delete: whether to remove from the bucket what is deleted here.
        once: whether to end after what is whole has been sent.
        began: called when the folder is ours to watch.
        tell: is given what was done.
        complain: is given what went wrong, once until it is over.

    Returns:
        Whether everything had arrived at the end.

    Raises:
        BadRequest: when there is no such folder, or somebody watches it.
    """
    folder = (area.folder / area.pattern.folder).resolve()
    if not folder.is_dir():
        raise BadRequest(f"there is no folder `{folder}`", hint="make it first, or name another")
    sender = _Sender(data, area, delete=delete)
    with only_watch(folder, state_folder() / "watch"):
        began()
        watch = Watch(
            scan=sender.scan, act=sender.act, tell=tell, complain=complain, interval_s=interval_s
        )
        return keep_watching(watch, stop, once=once)


@contextmanager
def stopped_by_signals() -> Iterator[Event]:
    """An event that Ctrl-C, TERM and a lost terminal set; asking twice ends the process as ever."""
    stop = Event()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        restore()

    for number, handler in before.items():
        # Whoever started it with `nohup` wants it to go on.
        if handler is not signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield stop
    finally:
        restore()


def watched_area(data: Data, folder: str, choice: Choice | None = None) -> Area:
    """Where a folder is that shall be watched.

    Raises:
        BadRequest: when it is a pattern.
    """
    area = data.areas([f"{folder.rstrip('/')}/"], choice)[0]
    if WILDCARD.search(area.texts[0]):
        hint = "name the folder, and narrow it down with `--include`"
        raise BadRequest(f"`{folder}` is a pattern and no folder", hint=hint)
    return area


class _Sender:
    """Does what a watch finds due."""

    def __init__(self, data: Data, area: Area, *, delete: bool) -> None:
        self._data = data
        self._area = area
        self._delete = delete
        self._private = private_names(area)
        self._known = False
        """Whether the bucket was compared once, so that what changes later is surely another."""

    def scan(self) -> dict[str, Mark]:
        """The files that match; an error when the folder is gone, which deletes nothing."""
        from launchbay.sync.local_files import list_files  # noqa: PLC0415

        (self._area.folder / self._area.pattern.folder).stat()
        found = list_files(self._area.folder, self._area.pattern).files
        return {
            key: Mark(status.st_size, status.st_mtime_ns, status.st_ino)
            for key, status in sorted(found.items())
            if not self._private & set(key.split("/"))
        }

    def act(self, due: Due) -> Done:
        """Send and remove; the first time only what the bucket does not have already."""
        moving = Moving(up=True)
        area = self._area.narrowed(due.send)
        if self._known:
            transfer = Transfer(area=area, plan=plan_sends(area, due.send))
        else:
            (transfer,) = plan_transfers(self._data, [area], moving)
        outcome = apply_transfer(self._data, transfer, moving)
        self._known = True
        gone = due.gone if self._delete else ()
        if gone:
            self._area.bucket.delete(gone)
        sent = [step.key for step in outcome.done]
        failed = {step.key: why for step, why in outcome.failed}
        left_out = dict(transfer.plan.left_out)
        same = [key for key in due.send if key not in {*sent, *failed, *left_out}]
        return Done(
            sent=tuple(sent), same=tuple(same), removed=gone, failed=failed, left_out=left_out
        )
