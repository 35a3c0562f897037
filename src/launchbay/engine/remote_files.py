"""Objects as files: `open_remote`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from launchbay.core.errors import BadRequest
from launchbay.engine.data import open_data
from launchbay.sync.credentials import find_login
from launchbay.sync.opening import forget, is_writing, open_cached, open_outgoing

if TYPE_CHECKING:
    from launchbay.engine.data import Area


def open_remote(
    path: str,
    mode: str = "rb",
    *,
    encoding: str | None = None,
    refresh: bool = False,
    max_age_s: float | None = None,
) -> IO[Any]:
    """Open an object like a file.

    What was read once comes from the cache afterwards, without any request, in this process and
    in others; several that open it at once fetch it once. What is written is sent when the file
    is closed, whole; nothing is sent when the `with` block fails.

    Args:
        path: a path of the project, `west:key`, or a URL.
        mode: `rb`, `r`, `wb` or `w`.
        encoding: of text; UTF-8 if not given.
        refresh: whether to ask the store if there is a newer one.
        max_age_s: ask only when the last time was longer ago than this.

    Raises:
        FileNotFoundError: when there is no such object.
        BadRequest: when the path is a pattern.
    """
    area = open_data().area(path)
    key = area.pattern.literal
    if not key:
        raise BadRequest(f"`{path}` is no name of one object")
    if is_writing(mode):
        return open_outgoing(lambda file: _send(area, key, file), mode=mode, encoding=encoding)
    return open_cached(
        area.bucket,
        key,
        cache=cache_folder(),
        place=find_login(area.options).place,
        mode=mode,
        encoding=encoding,
        refresh=refresh,
        max_age_s=max_age_s,
    )


def _send(area: Area, key: str, file: Path) -> None:
    area.bucket.put(key, file)
    forget(area.bucket, key, cache=cache_folder(), place=find_login(area.options).place)


def cache_folder() -> Path:
    """Where opened objects are kept: `$BAY_CACHE`, else the platform's folder for such things."""
    if chosen := os.environ.get("BAY_CACHE"):
        return Path(chosen).expanduser().absolute() / "objects"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "launchbay" / "objects"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification: a relative path is invalid and ignored.
    base = given if given.is_absolute() else Path.home() / ".cache"
    return base / "launchbay" / "objects"
