"""The name that somebody probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 20


def suggest(word: str, known: Iterable[str], *, listing: bool = False) -> str | None:
    """A hint that names the nearest known word, or all of them when none is near.

    Args:
        word: what was written.
        known: what may be written.
        listing: whether to name them all in any case.

    >>> suggest("comand", ["command", "params"])
    'did you mean `command`?'
    """
    # difflib is slow to load and only wanted when something is wrong already.
    from difflib import get_close_matches  # noqa: PLC0415

    names = sorted(set(known))
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    meant = f"did you mean `{near[0]}`?" if near else ""
    if not names or (near and not listing):
        return meant or None
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{meant} there are: ".lstrip() + ", ".join(f"`{name}`" for name in names[:MOST]) + more
