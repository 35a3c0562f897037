"""Which of several numbered checkpoints is the newest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

# Shards of one checkpoint carry numbers too, and all of them are wanted.
NUMBER = re.compile(r"\d+-of-\d+|\d+")
PROGRESS = re.compile(
    r"(?<![a-z])"
    r"(?:ckpt|chkpt|checkpoint|epoch|iter|iteration|round|snapshot|step|update)s?"
    r"(?![a-z])",
    re.IGNORECASE,
)
DIGITS = re.compile(r"(\d+)")


class _Family(NamedTuple):
    folder: str
    shape: str


def natural(name: str) -> list[tuple[int, int, str]]:
    """What to sort names by, so that `iter_9` stands before `iter_10`.

    >>> sorted(["iter_10", "iter_9", "a"], key=natural)
    ['a', 'iter_9', 'iter_10']
    """
    parts = DIGITS.split(name)
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts if part]


def keep_latest(keys: Iterable[str]) -> list[str]:
    """Those that belong to no numbered checkpoint, or to the newest of its family.

    A family is what differs by its numbers alone, in one folder, and says by a word like `iter`,
    `step` or `epoch` that it is about progress. What lies in a newest folder is taken whole.

    >>> keep_latest(["log.txt", "iter_9/a", "iter_10/a", "iter_10/b"])
    ['log.txt', 'iter_10/a', 'iter_10/b']
    >>> keep_latest(["epoch=3-step=10.ckpt", "epoch=12-step=40.ckpt"])
    ['epoch=12-step=40.ckpt']
    """
    listed = list(keys)
    newest: dict[_Family, tuple[int, ...]] = {}
    for key in listed:
        found = _member(key)
        if found:
            family, numbers = found
            newest[family] = max(newest.get(family, numbers), numbers)
    return [key for key in listed if _is_newest(key, newest)]


def _is_newest(key: str, newest: dict[_Family, tuple[int, ...]]) -> bool:
    found = _member(key)
    return found is None or newest[found[0]] == found[1]


def _member(key: str) -> tuple[_Family, tuple[int, ...]] | None:
    """The outermost family that the key is in, and its numbers there."""
    folder = ""
    for name in key.split("/"):
        counted = [text for text in NUMBER.findall(name) if "-of-" not in text]
        if counted and PROGRESS.search(name):
            shape = NUMBER.sub(lambda match: match[0] if "-of-" in match[0] else "#", name)
            return _Family(folder, shape), tuple(map(int, counted))
        folder += f"{name}/"
    return None
