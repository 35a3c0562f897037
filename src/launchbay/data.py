"""Object storage from Python: the verbs of `bay data`.

```python
from launchbay import data

data.down("data/*.csv")
with data.open_remote("models/best.pt") as file:
    ...
```

Paths and patterns are those of the command line: of the project around the working folder, of a
bucket by its name (`west:models/*`), or URLs.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import DataError
from launchbay.engine import copies, transfers
from launchbay.engine.data import Choice, list_level, open_data, sign
from launchbay.engine.data import find as find_in
from launchbay.engine.data_watch import stopped_by_signals, watch_folder, watched_area
from launchbay.engine.remote_files import open_remote
from launchbay.engine.transfers import Moving
from launchbay.sync.families import keep_latest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from launchbay.engine.transfers import Engine, Result

__all__ = ["cp", "down", "find", "latest", "ls", "open_remote", "rm", "up", "url", "watch"]


def ls(path: str = "") -> list[str]:
    """The keys directly in a folder; those of folders end with `/`."""
    level = list_level(open_data().area(path or "."))
    return [*level.folders, *(entry.key for entry in level.entries)]


def find(*patterns: str) -> list[str]:
    """The keys that match; folders where a pattern ends with `/`."""
    return [one.key for area in open_data().areas(patterns) for one in find_in(area)]


def latest(*patterns: str) -> list[str]:
    """The keys that match, and of numbered checkpoints only those of the newest."""
    areas = open_data().areas(patterns)
    return [key for area in areas for key in keep_latest(one.key for one in area.entries())]


def up(
    *patterns: str,
    overwrite: bool = False,
    delete: bool = False,
    latest: bool = False,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    local_path: Path | str | None = None,
    engine: Engine | None = None,
    at_once: int = transfers.AT_ONCE,
) -> list[str]:
    """Upload what matches and is not there yet; the keys that were sent.

    Args:
        patterns: files, folders or patterns.
        overwrite: whether to send what is the same, too.
        delete: whether to remove what matches in the bucket and is not here.
        latest: whether to take of numbered checkpoints only the newest.
        include: patterns, of which one must match.
        exclude: patterns, of which none may match.
        local_path: the folder that mirrors the bucket, when it is not the project.
        engine: `built-in` or `s5cmd`; None is what the files say of the bucket.
        at_once: so many files at the same time.

    Raises:
        DataError: when something could not be sent.
    """
    moving = Moving(
        up=True, overwrite=overwrite, delete=delete, latest=latest, engine=engine, at_once=at_once
    )
    choice = Choice(include=tuple(include), exclude=tuple(exclude))
    return [step.key for step in _move(patterns, moving, choice, local_path).done]


def down(
    *patterns: str,
    overwrite: bool = False,
    delete: bool = False,
    latest: bool = False,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    local_path: Path | str | None = None,
    engine: Engine | None = None,
    at_once: int = transfers.AT_ONCE,
) -> list[Path]:
    """Download what matches and is not here yet; the files that came.

    The arguments are those of `up`; `delete` is about files here that match and are not in the
    bucket.

    Raises:
        DataError: when something did not come.
    """
    moving = Moving(
        up=False, overwrite=overwrite, delete=delete, latest=latest, engine=engine, at_once=at_once
    )
    choice = Choice(include=tuple(include), exclude=tuple(exclude))
    return [step.path for step in _move(patterns, moving, choice, local_path).done]


def rm(*patterns: str) -> list[str]:
    """Remove what matches from the bucket, without asking; the keys that went."""
    removals = transfers.plan_removals(open_data().areas(patterns))
    transfers.remove_all(removals)
    return [entry.key for removal in removals for entry in removal.entries]


def cp(source: str, target: str, *, overwrite: bool = False) -> list[str]:
    """Copy between buckets, or a bucket and a file or folder here; the keys that were copied.

    Raises:
        DataError: when something could not be copied.
    """
    data = open_data()
    copying = copies.plan_copies(data, source, target, overwrite=overwrite)
    return [step.key for step in _checked(copies.carry_copy(data, copying)).done]


def url(key: str, *, seconds: int = 3600, put: bool = False) -> str:
    """An address of one object that works for a while without any login."""
    return sign(open_data().area(key), seconds=seconds, put=put)


def watch(
    folder: str,
    *,
    stop: Event | None = None,
    interval_s: float = 5.0,
    delete: bool = False,
    once: bool = False,
) -> bool:
    """Upload what is new or changed in a folder, as it grows; whether all arrived in the end.

    Args:
        folder: of the project.
        stop: an event that ends it; without one, Ctrl-C and TERM do, in the main thread.
        interval_s: how long a file must stay the same, and how often to look.
        delete: whether to remove from the bucket what is deleted here.
        once: whether to return after what is whole has been sent.
    """
    data = open_data()
    area = watched_area(data, folder)
    with nullcontext(stop) if stop else stopped_by_signals() as end:
        return watch_folder(data, area, stop=end, interval_s=interval_s, delete=delete, once=once)


def _move(
    patterns: Sequence[str], moving: Moving, choice: Choice, local_path: Path | str | None
) -> Result:
    data = open_data(local=None if local_path is None else Path(local_path))
    planned = transfers.plan_transfers(data, data.areas(patterns, choice), moving)
    return _checked(transfers.carry_out(data, planned, moving))


def _checked(result: Result) -> Result:
    if result.failed:
        name, why = result.failed[0]
        more = f", and {len(result.failed) - 1} more failed" if len(result.failed) > 1 else ""
        raise DataError(f"{name}: {why}{more}")
    return result
