"""The name that somebody probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def suggest(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the nearest known word, or all of them when none is near.

    >>> suggest("comand", ["command", "params"])
    'did you mean `command`?'
    """
    # difflib is slow to load and only wanted when something is wrong already.
    from difflib import get_close_matches  # noqa: PLC0415

    names = sorted(set(known))
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    if not names:
        return None
    return "there are: " + ", ".join(f"`{name}`" for name in names[:20])
