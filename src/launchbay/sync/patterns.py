r"""Which keys are meant: wildcards that cross folders, exact where there are none.

| written | matches |
|---|---|
| `*`, `**` | any characters, `/` too |
| `?` | one character but `/` |
| `[ab]`, `[a-c]`, `[!ab]` | one of these, or none of these; never `/` |
| `\x` | `x` itself |
| `data/` | everything below that folder, and never `data2/` |
| `data` | the object of that name, and everything below `data/` |
| `!text` | takes away what `text` matches |
| nothing, `.` | everything |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SPECIAL = re.compile(r"[*?\[\]\\]")
WILD = re.compile(r"[*?\[\\]")


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Compiled patterns."""

    folder: str
    """The deepest folder that every match lies in, "" or "data/"; a listing begins there."""
    literal: str | None
    """The key, when it is one name without wildcards; it may still be a folder."""
    everything: bool
    names: frozenset[str]
    """Objects, or folders without their slash, that are wanted by name."""
    folders: frozenset[str]
    """Folders that are wanted by name."""
    wild: re.Pattern[str] | None
    included: re.Pattern[str] | None
    excluded: re.Pattern[str] | None

    def matches(self, key: str) -> bool:
        """Whether the key is meant."""
        if not (self.everything or self._wants(key)):
            return False
        if self.included is not None and not self.included.fullmatch(key):
            return False
        return self.excluded is None or not self.excluded.fullmatch(key)

    def _wants(self, key: str) -> bool:
        if key in self.names:
            return True
        if self.wild is not None and self.wild.fullmatch(key):
            return True
        # However many names there are, a key has only a few folders.
        place = key.find("/")
        while place >= 0:
            if key[:place] in self.names or key[:place] in self.folders:
                return place + 1 < len(key)
            place = key.find("/", place + 1)
        return False


def compile_patterns(
    texts: Sequence[str], include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Pattern:
    """The keys that one of the texts means and none with `!` takes away.

    Args:
        texts: patterns of whole keys; none at all, or only such with `!`, means everything.
        include: only these of them; a pattern without `/` is one for the last part of a name,
            in any folder.
        exclude: not these of them, written in the same way.

    >>> compile_patterns(["data/"]).matches("data2/x")
    False
    >>> compile_patterns(["data/*.pt", "!*tmp*"]).folder
    'data/'
    """
    wanted = [_clean(text) for text in texts if not text.startswith("!")]
    negative = [_to_regex(_clean(text[1:])) for text in texts if text.startswith("!")]
    plain = {text: _unescape(text) for text in wanted}
    named = [name for name in plain.values() if name is not None]
    literal = named[0] if len(texts) == len(named) == 1 and named[0][-1:] not in {"", "/"} else None
    return Pattern(
        folder=_common([_folder_of(text) for text in wanted]) if wanted else "",
        literal=literal,
        everything=not all(wanted) or not wanted,
        names=frozenset(name for name in named if not name.endswith("/")),
        folders=frozenset(name[:-1] for name in named if name.endswith("/")),
        wild=_join([_to_regex(text) for text, name in plain.items() if name is None]),
        included=_join([_anywhere(text) for text in include]),
        excluded=_join(negative + [_anywhere(text) for text in exclude]),
    )


def escape(key: str) -> str:
    r"""A pattern that means this very name.

    >>> escape("a[1]*")
    'a\\[1\\]\\*'
    """
    text = SPECIAL.sub(r"\\\g<0>", key)
    return f"\\{text}" if text.startswith(("!", ".")) else text


def _clean(text: str) -> str:
    """Without what says nothing: `./` in front, a lone dot."""
    while text.startswith("./"):
        text = text[2:].lstrip("/")
    return "" if text == "." else text


def _join(parts: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(parts), re.DOTALL) if parts else None


def _anywhere(text: str) -> str:
    """For `include` and `exclude`: a pattern without a folder is for names in any folder."""
    text = _clean(text)
    inner = text.removesuffix("/")
    return _to_regex(text) if "/" in inner else f"(?:.*/)?{_to_regex(text)}"


def _to_regex(text: str) -> str:
    """One pattern as a regular expression for whole keys."""
    if not text:
        return ".*"
    below = ".+" if text.endswith("/") else "(?:/.+)?" if not text.endswith("*") else ""
    return f"(?:{''.join(_pieces(text))}{below})"


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    place = 0
    while place < len(text):
        piece, place = _piece(text, place)
        # Several stars are as good as one, and much faster.
        if not (piece == ".*" and pieces and pieces[-1] == ".*"):
            pieces.append(piece)
    return pieces


def _piece(text: str, place: int) -> tuple[str, int]:
    """The piece that begins here, and where the next one does."""
    letter = text[place]
    if letter == "*":
        return ".*", place + 1
    if letter == "?":
        return "[^/]", place + 1
    if letter == "\\" and place + 1 < len(text):
        return re.escape(text[place + 1]), place + 2
    if letter == "[":
        return _set(text, place)
    return re.escape(letter), place + 1


def _set(text: str, place: int) -> tuple[str, int]:
    """`[…]`; a bracket that is never closed is only a bracket."""
    start = place + 2 if text[place + 1 : place + 2] in {"!", "^"} else place + 1
    # A closing bracket that stands first is meant itself.
    end = text.find("]", start + 1)
    if end < 0:
        return re.escape("["), place + 1
    inner = _set_members(text[start:end])
    if start == place + 2:
        return f"[^/{inner}]", end + 1
    return (f"(?!/)[{inner}]" if inner else "(?!)"), end + 1


def _set_members(body: str) -> str:
    """The letters and ranges of a set; a range that runs backwards holds nothing."""
    members = []
    place = 0
    while place < len(body):
        first, dash, last = body[place], body[place + 1 : place + 2], body[place + 2 : place + 3]
        if dash == "-" and last:
            if first <= last:
                members.append(f"{re.escape(first)}-{re.escape(last)}")
            place += 3
        else:
            members.append(re.escape(first))
            place += 1
    return "".join(members)


def _folder_of(text: str) -> str:
    """The folder before the first wildcard, with what is escaped made plain."""
    plain = []
    place = 0
    while place < len(text) and text[place] not in "*?[":
        place += text[place] == "\\" and place + 1 < len(text)
        plain.append(text[place])
        place += 1
    head, slash, _ = "".join(plain).rpartition("/")
    return head + slash


def _unescape(text: str) -> str | None:
    """The key that a pattern without wildcards names; None when it has wildcards."""
    plain = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
    return None if WILD.search(re.sub(r"\\.", "", text, flags=re.DOTALL)) else plain


def _common(folders: Sequence[str]) -> str:
    """The deepest folder above all."""
    shared = folders[0].split("/")[:-1]
    for folder in folders[1:]:
        other = folder.split("/")[:-1]
        same = 0
        while same < min(len(shared), len(other)) and shared[same] == other[same]:
            same += 1
        shared = shared[:same]
    return "".join(f"{name}/" for name in shared)
