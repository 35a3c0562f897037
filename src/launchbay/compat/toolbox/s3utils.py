"""The toolbox's S3 functions, on launchbay's transfers.

They are called as before and return lists of keys or files as before. What is better: a path is
that object and what is below that folder, never everything that begins so; what has not changed
is told by content and not by existence; a file appears whole or not at all. `s5cmd` is used
where it is installed, as it was.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.compat.toolbox.utils import load_env_file
from launchbay.core.errors import DataError
from launchbay.engine import transfers
from launchbay.engine.buckets import open_buckets
from launchbay.engine.data import Data, find, list_level
from launchbay.engine.data_watch import stopped_by_signals, watch_folder, watched_area
from launchbay.engine.transfers import Moving
from launchbay.sync.patterns import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from launchbay.engine.data_watch import Done
    from launchbay.engine.transfers import Result

__all__ = [
    "delete_local_files",
    "download_s3_objects",
    "download_s3_path",
    "get_local_files",
    "get_s3_objects",
    "list_s3_objects",
    "load_env_file",
    "monitor",
    "remove_s3_objects",
    "remove_s3_path",
    "upload_s3_objects",
    "upload_s3_path",
]


def get_local_files(s3_path: str, local_path: str = "./") -> list[str]:
    """The files below `local_path` that match the pattern."""
    area = _open(local_path).area(s3_path)
    return [os.path.relpath(area.folder / key) for key in transfers.local_files(area)]


def get_s3_objects(s3_path: str, api_call: bool = False) -> list[str]:  # noqa: ARG001, FBT001, FBT002
    """The keys that match the pattern; folders where it ends with `/`."""
    return [one.key for one in find(_open().area(s3_path))]


def list_s3_objects(s3_path: str = "", api_call: bool = False) -> list[str]:  # noqa: ARG001, FBT001, FBT002
    """The keys directly in a folder; those of folders end with `/`."""
    level = list_level(_open().area(s3_path or "."))
    return [*level.folders, *(entry.key for entry in level.entries)]


def download_s3_path(s3_path: str, local_path: str = "./", api_call: bool = False) -> list[str]:  # noqa: ARG001, FBT001, FBT002
    """Download what matches and is not here yet; the files that came."""
    return _move([s3_path], local_path, up=False)


def upload_s3_path(s3_path: str, local_path: str = "./", api_call: bool = False) -> list[str]:  # noqa: ARG001, FBT001, FBT002
    """Upload what matches and is not there yet; the files that were sent."""
    return _move([s3_path], local_path, up=True)


def remove_s3_path(s3_path: str, api_call: bool = False) -> list[str]:  # noqa: ARG001, FBT001, FBT002
    """Remove what matches, without asking; the keys that went."""
    return _remove([s3_path])


def download_s3_objects(
    s3_objects: Sequence[str],
    local_path: str = "./",
    api_call: bool = False,  # noqa: ARG001, FBT001, FBT002
) -> list[str]:
    """Download these keys as far as they are not here yet; the files that came."""
    return _move(_names(s3_objects), local_path, up=False)


def upload_s3_objects(
    s3_objects: Sequence[str],
    local_path: str = "./",
    api_call: bool = False,  # noqa: ARG001, FBT001, FBT002
) -> list[str]:
    """Upload these files as far as they are not there yet; the files that were sent."""
    return _move(_names(s3_objects), local_path, up=True)


def remove_s3_objects(s3_objects: Sequence[str], api_call: bool = False) -> list[str]:  # noqa: ARG001, FBT001, FBT002
    """Remove these keys, without asking; those that went."""
    return _remove(_names(s3_objects))


def delete_local_files(files: Iterable[str]) -> list[str]:
    """Delete these files here; those that were there."""
    gone = []
    for file in files:
        path = Path(file)
        if path.is_file() or path.is_symlink():
            path.unlink()
            gone.append(file)
    return gone


def monitor(folder: str, interval: float = 5, log_file: str | None = None) -> None:
    """Upload what is new in a folder and remove what is deleted there, until Ctrl-C or TERM."""
    data = _open()

    def note(text: str) -> None:
        if log_file:
            with Path(log_file).open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def tell(done: Done) -> None:
        for key in done.sent:
            note(f"uploaded {key}")
        for key in done.removed:
            note(f"removed {key}")

    area = watched_area(data, folder)
    with stopped_by_signals() as stop:
        watch_folder(
            data, area, stop=stop, interval_s=interval, delete=True, tell=tell, complain=note
        )


def _open(local_path: str | None = None) -> Data:
    """Keys count from the bucket's root, whatever folder the program stands in."""
    root = open_buckets().root
    return Data(open_buckets(root), here=root, local=Path(local_path or "."))


def _names(keys: Sequence[str]) -> list[str]:
    return [escape(key) for key in keys]


def _move(texts: Sequence[str], local_path: str, *, up: bool) -> list[str]:
    if not texts:
        return []
    data = _open(local_path)
    files = []
    for area in data.areas(texts):
        moving = Moving(up=up, engine=transfers.usual_engine(area))
        planned = transfers.plan_transfers(data, [area], moving)
        result = _checked(transfers.carry_out(data, planned, moving))
        files += [os.path.relpath(step.path) for step in result.done]
    return files


def _remove(texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    removals = transfers.plan_removals(_open().areas(texts))
    transfers.remove_all(removals)
    return [entry.key for removal in removals for entry in removal.entries]


def _checked(result: Result) -> Result:
    if result.failed:
        name, why = result.failed[0]
        raise DataError(f"{name}: {why}")
    return result
