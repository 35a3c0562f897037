"""Reading files so that every value stays text as typed and remembers where it stood.

`1e-5`, `010`, `1.50`, `true` and `null` are text; only a value that is not there at all (`key:`)
is `None`. Whatever is wrong with a file is a `Problem`; all of them make one `ConfigError`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from launchbay.config.nodes import DEEPEST, Items, Node, Pairs, Scalar, compose, end_of
from launchbay.config.problems import (
    Place,
    Problem,
    Route,
    config_error,
    dotted,
    file_error,
    split_fix,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.core.errors import ConfigError

MOST_VALUES = 100_000
KEY_HINT = "write `key: value`; put text that begins with a bracket in quotes"

Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"
"""What a file says: text, a list, a mapping, or nothing."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """What a file says, and where it says it."""

    file: Path = Path()
    data: Mapping[str, Value] = field(default_factory=dict)
    places: Mapping[Route, Place] = field(default_factory=dict)

    def find_value(self, route: Route) -> Value:
        """The value at the end of a route of keys; `None` where there is none."""
        value: Value = dict(self.data)
        for key in route:
            match value, key:
                case dict(), str():
                    value = value.get(key)
                case list(), int() if key < len(value):
                    value = value[key]
                case _:
                    return None
        return value

    def find_place(self, route: Route) -> Place | None:
        """Where the key stands, or the nearest one around it."""
        while route and route not in self.places:
            route = route[:-1]
        return self.places.get(route)

    def problem(self, route: Route, message: str, hint: str | None = None) -> Problem:
        """A problem with the value at the end of `route`; a message may end in its hint."""
        if hint is None:
            message, hint = split_fix(message)
        place = self.find_place(route)
        if place is None:
            return Problem(self.file, None, None, dotted(route), message, hint)
        return Problem(place.file, place.line, place.column, dotted(route), message, hint)


class Notes:
    """Collects what is wrong with a document, so that all of it is said at once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def add(self, route: Route, message: str, hint: str | None = None) -> None:
        """Note a problem with the value at the end of `route`."""
        self.problems.append(self.document.problem(route, message, hint))

    def settle(self) -> None:
        """Raise a `ConfigError` with everything that was noted, if anything was."""
        if self.problems:
            raise config_error(self.problems)


def read_document(file: Path) -> Document:
    """What the file says.

    Raises:
        ConfigError: when it cannot be read, or is no YAML mapping.
    """
    return parse_document(read_text(file), file)


def read_text(file: Path) -> str:
    """The text of a file in UTF-8.

    Raises:
        ConfigError: when there is none, or it cannot be read.
    """
    try:
        return file.read_bytes().decode().removeprefix("\ufeff")
    except FileNotFoundError as err:
        hint = "check the path; `bay init` writes an example"
        raise file_error(file, "no such file", hint) from err
    except IsADirectoryError as err:
        raise file_error(file, "a folder, not a file", "name the file inside it") from err
    except OSError as err:
        hint = "check the path and its permissions"
        raise file_error(file, f"cannot be read: {err.strerror}", hint) from err
    except UnicodeDecodeError as err:
        message = f"byte 0x{err.object[err.start]:02x} is not UTF-8"
        at = end_of(err.object[: err.start].decode())
        raise file_error(file, message, "save the file as UTF-8", at) from err


def parse_document(text: str, file: Path) -> Document:
    """What the text of a file says.

    Raises:
        ConfigError: when it is no YAML mapping.
    """
    root = compose(text, file)
    if root is None or (isinstance(root, Scalar) and root.plain and not root.text):
        return Document(file=file, places={(): Place(file, 1, 1)})
    if not isinstance(root, Pairs):
        raise _no_mapping(file, root)
    reader = _Reader(file)
    data = reader.read_mapping(root, ())
    if reader.problems:
        raise config_error(reader.problems)
    return Document(file=file, data=data, places={(): Place(file, 1, 1), **reader.places})


class _Reader:
    """Makes values from nodes, notes where each stood, and collects what is wrong."""

    def __init__(self, file: Path) -> None:
        self.places: dict[Route, Place] = {}
        self.problems: list[Problem] = []
        self._file = file
        self._count = 0

    def read(self, node: Node, route: Route) -> Value:
        self._count += 1
        if self._count > MOST_VALUES:
            message = f"more than {MOST_VALUES:,} values, aliases expanded"
            raise self._refusal(node, route, message, "write fewer values or aliases")
        # Aliases of aliases nest deeper than what is written.
        if len(route) > DEEPEST:
            message = f"nested more than {DEEPEST} deep, aliases expanded"
            raise self._refusal(node, route, message, "write it flatter")
        match node:
            case Pairs():
                return self.read_mapping(node, route)
            case Items():
                return [self._item(item, (*route, at)) for at, item in enumerate(node.items)]
            case Scalar():
                return self._scalar(node, route)

    def read_mapping(self, node: Pairs, route: Route) -> dict[str, Value]:
        own: dict[str, Value] = {}
        merged: list[Node] = []
        for key_node, value_node in node.pairs:
            if _is_merge(key_node):
                merged.append(value_node)
                continue
            key = self._key(key_node, route)
            if key in own:
                first = self.places[(*route, key)].line
                message = f"given twice, first on line {first}"
                self._note(key_node, (*route, key), message, "keep one of them")
                continue
            self.places.setdefault((*route, key), Place(self._file, *key_node.where.at))
            own[key] = self.read(value_node, (*route, key))
        return {**self._merge(merged, route), **own}

    def _merge(self, nodes: Sequence[Node], route: Route) -> dict[str, Value]:
        """The keys that `<<: *base` and `<<: [*one, *two]` bring in; the first one wins."""
        merged: dict[str, Value] = {}
        for node in nodes:
            for base in node.items if isinstance(node, Items) else (node,):
                if isinstance(base, Pairs):
                    # Read, not `read_mapping`: a merge counts too.
                    found = self.read(base, route)
                    merged = {**found, **merged} if isinstance(found, dict) else merged
                else:
                    self._note(base, (*route, "<<"), "not a mapping", "name the anchor of one")
        return merged

    def _item(self, node: Node, route: Route) -> Value:
        self.places.setdefault(route, Place(self._file, *node.where.at))
        return self.read(node, route)

    def _key(self, node: Node, route: Route) -> str:
        if isinstance(node, Scalar) and node.text:
            return node.text
        self._note(node, route, "a key that is not text", KEY_HINT)
        return ""

    def _scalar(self, node: Scalar, route: Route) -> str | None:
        if "\0" in node.text:
            self._note(node, route, "a NUL character is not allowed", r"remove the `\0`")
        return node.text if node.text or not node.plain else None

    def _refusal(self, node: Node, route: Route, message: str, hint: str) -> ConfigError:
        # The node may stand far from the key that repeats it by an alias.
        place = self.places.get(route[:1], Place(self._file, *node.where.at))
        return file_error(self._file, message, hint, (place.line, place.column))

    def _note(self, node: Node, route: Route, message: str, hint: str) -> None:
        self.problems.append(Problem(self._file, *node.where.at, dotted(route), message, hint))


def _no_mapping(file: Path, root: Items | Scalar) -> ConfigError:
    found, hint = "text", "begin each line with a key and `: `"
    if isinstance(root, Items):
        found, hint = "a list", "take the `- ` out before each key"
    return file_error(file, f"{found}, not lines of `key: value`", hint, root.where.at)


def _is_merge(node: Node) -> bool:
    return isinstance(node, Scalar) and node.plain and node.text == "<<"
