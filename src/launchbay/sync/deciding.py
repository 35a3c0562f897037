"""Whether a file and an object are the same, and which of two that differ may be replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Why = Literal["new", "changed", "overwrite", "gone"]

HERE_CHANGED = "the file here was changed since the last transfer; --overwrite replaces it"
HERE_NEWER = "the file here is newer than the object; --overwrite replaces it"
THERE_CHANGED = "the object was changed since the last transfer; --overwrite replaces it"
THERE_NEWER = "the object is newer than the file here; --overwrite replaces it"


@dataclass(frozen=True, kw_only=True)
class Differing:
    """A file and an object with other content, and what is known of both."""

    up: bool
    file_changed: bool | None
    """Since the last transfer; None when there was none that we know of."""
    object_changed: bool | None
    file_time: float
    object_time: float


def may_replace(pair: Differing) -> str:
    """Why the target must stay as it is, in words; "" when it may be replaced.

    `down` brings the bucket's state and `up` this folder's, but nothing is lost that only the
    target has: a change made there since the last transfer, or, where we know of none, something
    newer than what would replace it.
    """
    if pair.up:
        if pair.object_time <= pair.file_time or pair.object_changed is False:
            return ""
        return THERE_CHANGED if pair.object_changed else THERE_NEWER
    if pair.file_changed is not None:
        return HERE_CHANGED if pair.file_changed else ""
    return HERE_NEWER if pair.file_time > pair.object_time else ""
