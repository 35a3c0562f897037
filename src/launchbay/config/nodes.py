"""YAML text to a tree of nodes that know where they stand; no scalar is interpreted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from launchbay.config.problems import file_error
from launchbay.config.syntax import explain_syntax

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TEXT_TAGS = frozenset({None, "!", "tag:yaml.org,2002:str"})
DEEPEST = 100


@dataclass(frozen=True)
class Stretch:
    """The stretch of text that a node takes, and the line and column that it begins at."""

    start: int
    end: int
    line: int
    column: int

    @property
    def at(self) -> tuple[int, int]:
        """Where it begins, for people."""
        return self.line, self.column


@dataclass(frozen=True)
class Scalar:
    """One value, as typed."""

    where: Stretch
    text: str
    plain: bool
    """Whether it stands without quotes."""


@dataclass(frozen=True)
class Items:
    """A list."""

    where: Stretch
    items: tuple[Node, ...]
    flow: bool
    """Whether it is written in brackets."""


@dataclass(frozen=True)
class Pairs:
    """A mapping, its keys as they stand."""

    where: Stretch
    pairs: tuple[tuple[Node, Node], ...]
    flow: bool
    """Whether it is written in braces."""


Node: TypeAlias = Scalar | Items | Pairs


def compose(text: str, file: Path) -> Node | None:
    """The nodes of a YAML text, `None` when it is empty or only comments.

    Raises:
        ConfigError: when it is not valid YAML.
    """
    try:
        return _Composer(text, file).compose()
    except yaml.MarkedYAMLError as err:
        message, hint, at = explain_syntax(text, err)
        raise file_error(file, message, hint, at) from err
    except yaml.reader.ReaderError as err:
        message = f"the control character U+{err.character:04X} is not allowed"
        at = end_of(text[: text.find(chr(err.character))])
        raise file_error(file, message, "remove it", at) from err


def end_of(text: str) -> tuple[int, int]:
    """Line and column right after a text."""
    lines = text.split("\n")
    return len(lines), len(lines[-1]) + 1


class _Composer:
    """Makes nodes from the parser's events.

    PyYAML's own composer is recursive C without a limit: a deeply nested file ends the process.
    """

    def __init__(self, text: str, file: Path) -> None:
        self._file = file
        self._anchors: dict[str, Node] = {}
        self._events: Iterator[Any] = yaml.parse(text, Loader=LOADER)

    def compose(self) -> Node | None:
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        root = self._node(next(self._events), 0)
        next(self._events)
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise file_error(
                self._file,
                "a second document begins",
                "take the line `---` out, or keep one of the two",
                _stretch(after, after).at,
            )
        return root

    def _node(self, event: yaml.Event, depth: int) -> Node:
        at = _stretch(event, event).at
        if depth > DEEPEST:
            raise file_error(self._file, f"nested more than {DEEPEST} deep", "write it flatter", at)
        match event:
            case yaml.AliasEvent(anchor=name):
                if name not in self._anchors:
                    hint = f"write `&{name}` before the value that it repeats"
                    raise file_error(self._file, f"`*{name}` stands for nothing", hint, at)
                return self._anchors[name]
            case yaml.ScalarEvent(tag=tag) | yaml.CollectionStartEvent(tag=tag):
                if tag not in TEXT_TAGS:
                    short = str(tag).replace("tag:yaml.org,2002:", "!!")
                    hint = "remove it: every value is text as typed"
                    raise file_error(self._file, f"the tag `{short}` is not supported", hint, at)
        node = self._tree(event, depth)
        # Only now: an alias inside its own anchor would have no end.
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _tree(self, event: yaml.Event, depth: int) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(_stretch(event, event), event.value, plain=not event.style)
        children = []
        while not isinstance(child := next(self._events), yaml.CollectionEndEvent):
            children.append(self._node(child, depth + 1))
        where = _stretch(event, child)
        if isinstance(event, yaml.SequenceStartEvent):
            return Items(where, tuple(children), flow=bool(event.flow_style))
        pairs = tuple(zip(children[::2], children[1::2], strict=True))
        return Pairs(where, pairs, flow=bool(getattr(event, "flow_style", False)))


def _stretch(first: yaml.Event, last: yaml.Event) -> Stretch:
    start, end = first.start_mark, last.end_mark
    # The parser marks every event; only its types do not say so.
    assert start is not None  # noqa: S101
    assert end is not None  # noqa: S101
    return Stretch(start.index, end.index, start.line + 1, start.column + 1)
