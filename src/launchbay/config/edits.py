"""Changing one key in the text of a file; comments and everything else stay as they are.

An edit is made where the key stands, then read back. Where that does not say what was wanted
(aliases, merges, unusual YAML), the whole text is written anew, without its comments.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING

import yaml

from launchbay.config.files import Value, parse_document
from launchbay.config.nodes import Node, Pairs, Scalar, compose
from launchbay.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PLAIN = re.compile(r"(?:-?[0-9]|[A-Za-z_/~])(?:[A-Za-z0-9_./~@+=%-]|:(?=[A-Za-z0-9_./~-]))*")
"""Scalars that mean themselves in every context."""
EMPTY = "''"


def set_key(text: str, route: Sequence[str], value: Value, *, file: Path) -> str:
    """The text with the key at the end of `route` set.

    Raises:
        ConfigError: when the text is no YAML mapping.
    """
    wanted = deepcopy(dict(parse_document(text, file).data))
    mapping = wanted
    for key in route[:-1]:
        inner = mapping.get(key)
        # A key with nothing or one value behind it makes way for a mapping.
        inner = inner if isinstance(inner, dict) else {}
        mapping[key] = inner
        mapping = inner
    mapping[route[-1]] = value
    return _edit(text, route, wanted, file)


def remove_key(text: str, route: Sequence[str], *, file: Path) -> str:
    """The text without the key at the end of `route`, nor mappings that are then empty.

    Raises:
        ConfigError: when the text is no YAML mapping.
        KeyError: when there is no such key.
    """
    wanted = deepcopy(dict(parse_document(text, file).data))
    route = _prune(wanted, route)
    return _edit(text, route, wanted, file)


def render_mapping(data: Mapping[str, Value], *, indent: int = 0) -> str:
    """A mapping as block YAML whose lines all end.

    >>> print(render_mapping({"desk": {"kind": "machine", "devices": ["0", "1"]}}), end="")
    desk:
      kind: machine
      devices: [0, 1]
    """
    text = ""
    for key, value in data.items():
        head = f"{' ' * indent}{render_scalar(key)}:"
        if isinstance(value, dict) and value:
            text += f"{head}\n{render_mapping(value, indent=indent + 2)}"
        else:
            text += f"{head} {render_inline(value)}".rstrip(" ") + "\n"
    return text


def render_inline(value: Value) -> str:
    """A value on one line."""
    match value:
        case str():
            return render_scalar(value)
        case list():
            # Brackets have no way to say nothing; empty text is nearest.
            return f"[{', '.join(render_inline(one) or EMPTY for one in value)}]"
        case dict():
            pairs = (f"{render_scalar(key)}: {render_inline(one)}" for key, one in value.items())
            return f"{{{', '.join(pairs)}}}"
        case None:
            return ""


def render_scalar(text: str) -> str:
    """A text so that YAML reads the same text, in quotes where it must be."""
    if PLAIN.fullmatch(text):
        return text
    quoted = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf"))
    return str(quoted).rstrip("\n")


def _edit(text: str, route: Sequence[str], wanted: dict[str, Value], file: Path) -> str:
    edited = _patch(text, compose(text, file), route, wanted)
    try:
        faithful = parse_document(edited, file).data == wanted
    except ConfigError:
        faithful = False
    return edited if faithful else render_mapping(wanted)


def _patch(text: str, root: Node | None, route: Sequence[str], wanted: dict[str, Value]) -> str:
    """The text changed where `route` leaves what is written."""
    if not isinstance(root, Pairs):
        return _line_ended(text) + render_mapping(wanted)
    key = route[0]
    found = _find_pair(root, key)
    if root.flow:
        return _splice(text, root.where.start, root.where.end, render_inline(wanted))
    column = root.where.column - 1
    new = render_mapping({key: wanted[key]}, indent=column) if key in wanted else ""
    if found is None:
        at = _line_end(text, _end(text, root))
        return _line_ended(text[:at]) + new + text[at:]
    key_node, node = found
    inner = wanted.get(key)
    if len(route) > 1 and isinstance(node, Pairs) and isinstance(inner, dict):
        return _patch(text, node, route[1:], inner)
    if _is_inline(node) and isinstance(inner, str | list):
        return _splice(text, node.where.start, _end(text, node), render_inline(inner))
    start = text.rfind("\n", 0, key_node.where.start) + 1
    end = _line_end(text, max(_end(text, node), key_node.where.end))
    return _splice(text, start, end, new)


def _find_pair(mapping: Pairs, key: str) -> tuple[Node, Node] | None:
    pairs = ((one, value) for one, value in mapping.pairs if isinstance(one, Scalar))
    return next((pair for pair in pairs if pair[0].text == key), None)


def _is_inline(node: Node) -> bool:
    """Whether it begins on the line of its key, where another value can take its place."""
    if isinstance(node, Scalar):
        return bool(node.text) or not node.plain
    return node.flow


def _end(text: str, node: Node) -> int:
    """Where what a node says ends, without comments and blank lines after it."""
    if isinstance(node, Scalar) or node.flow:
        return len(text[: node.where.end].rstrip())
    if isinstance(node, Pairs):
        key, last = node.pairs[-1]
        # An alias stands where its anchor does, before the key.
        return max(key.where.end, _end(text, last))
    return _end(text, node.items[-1])


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _line_ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _splice(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]


def _prune(data: dict[str, Value], route: Sequence[str]) -> Sequence[str]:
    """Remove a key, and the mappings that are then empty; returns the route of what is gone."""
    inner = data[route[0]]
    if len(route) > 1:
        if not isinstance(inner, dict):
            raise KeyError(route[1])
        gone = _prune(inner, route[1:])
        if inner:
            return [route[0], *gone]
    del data[route[0]]
    return route[:1]
