"""JSON with comments and trailing commas, as editors write it: what stands where in a text.

A file of that kind belongs to its user: it is never written anew from what was read. Whoever
changes it puts new text between what stands there, by the places that are found here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launchbay.config.nodes import end_of
from launchbay.config.problems import file_error

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

BETWEEN = re.compile(r"(?:[ \t\r\n\ufeff]++|//[^\r\n]*+|/\*.*?\*/)*+", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\.)*+"')
BARE = re.compile(r"[-+.\w]+")
DEEPEST = 100
FIX = "correct that line; nothing was written"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A value and where it stands: from `start` up to `end`."""

    start: int
    end: int
    value: object = None
    """What text, a number, a truth or null is."""
    members: tuple[tuple[str, Node], ...] | None = None
    """Of an object."""
    items: tuple[Node, ...] | None = None
    """Of an array."""
    trailing: bool = False
    """Whether a comma stands behind the last of these."""

    def member(self, name: str) -> Node | None:
        """The value of an object's key, the last where it is written twice."""
        found = [node for key, node in self.members or () if key == name]
        return found[-1] if found else None


def parse_jsonc(text: str, file: Path) -> Node:
    r"""The value that a text holds.

    >>> from pathlib import Path
    >>> node = parse_jsonc('{"a": ["http://x", 1,], /* b */ }', Path("x.json")).member("a")
    >>> node.start, node.end, [item.value for item in node.items], node.trailing
    (6, 22, ['http://x', 1], True)

    Raises:
        ConfigError: when it is no such text, with the line.
    """
    reader = _Reader(text, file)
    node = reader.read(0, 0)
    end = reader.skip(node.end)
    if end < len(text):
        reader.refuse(end, "something stands behind the end")
    return node


def line_of(text: str, at: int) -> tuple[int, int]:
    """The line and column of a place in a text."""
    return end_of(text[:at].replace("\r\n", "\n").replace("\r", "\n"))


class _Reader:
    """Reads values; `at` is a place in the text."""

    def __init__(self, text: str, file: Path) -> None:
        self._text = text
        self._file = file

    def skip(self, at: int) -> int:
        """The place of what comes next, behind blanks and comments."""
        found = BETWEEN.match(self._text, at)
        return found.end() if found else at

    def refuse(self, at: int, message: str) -> NoReturn:
        """Say what is wrong, and where."""
        raise file_error(self._file, message, FIX, line_of(self._text, at))

    def read(self, at: int, depth: int) -> Node:
        """The value that comes next."""
        at = self.skip(at)
        if depth > DEEPEST:
            self.refuse(at, "too many brackets inside of each other")
        match self._text[at : at + 1]:
            case "{":
                return self._read_object(at, depth)
            case "[":
                return self._read_array(at, depth)
            case '"':
                value, end = self._read_string(at)
                return Node(start=at, end=end, value=value)
        return self._read_bare(at)

    def _read_object(self, start: int, depth: int) -> Node:
        members: list[tuple[str, Node]] = []
        at, trailing = self.skip(start + 1), False
        while not self._is_closed(at, "}"):
            self._expect_comma(at, needed=bool(members) and not trailing)
            name, at = self._read_string(at)
            at = self.skip(at)
            if self._text[at : at + 1] != ":":
                self.refuse(at, f'no `:` after `"{name}"`')
            node = self.read(at + 1, depth + 1)
            members.append((name, node))
            at, trailing = self._pass_comma(node.end)
        return Node(start=start, end=at + 1, members=tuple(members), trailing=trailing)

    def _read_array(self, start: int, depth: int) -> Node:
        items: list[Node] = []
        at, trailing = self.skip(start + 1), False
        while not self._is_closed(at, "]"):
            self._expect_comma(at, needed=bool(items) and not trailing)
            items.append(self.read(at, depth + 1))
            at, trailing = self._pass_comma(items[-1].end)
        return Node(start=start, end=at + 1, items=tuple(items), trailing=trailing)

    def _is_closed(self, at: int, bracket: str) -> bool:
        if at >= len(self._text):
            self.refuse(at, f"it ends where a `{bracket}` is missing")
        return self._text[at] == bracket

    def _expect_comma(self, at: int, *, needed: bool) -> None:
        if needed:
            self.refuse(at, "a `,` is missing before this")

    def _pass_comma(self, at: int) -> tuple[int, bool]:
        at = self.skip(at)
        if self._text[at : at + 1] != ",":
            return at, False
        return self.skip(at + 1), True

    def _read_string(self, at: int) -> tuple[str, int]:
        found = STRING.match(self._text, at)
        if found is None:
            opened = self._text[at : at + 1] == '"'
            self.refuse(at, "the quote is never closed" if opened else 'no `"…"` where one belongs')
        try:
            return str(json.loads(found[0])), found.end()
        except ValueError:
            self.refuse(at, r"a `\` that means nothing")

    def _read_bare(self, at: int) -> Node:
        found = BARE.match(self._text, at)
        if found is None:
            self.refuse(at, "no value where one belongs")
        try:
            return Node(start=at, end=found.end(), value=json.loads(found[0]))
        except ValueError:
            self.refuse(at, f"`{found[0]}` is no value; text stands in quotes")
