"""What stands where in JSON with comments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from launchbay.config.jsonc import parse_jsonc
from launchbay.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from launchbay.config.jsonc import Node

FILE = Path("launch.json")
TEXT = """\ufeff// the project's own
{
    /* "configurations": [] is not here */
    "version": "0.2.0", // https://example.org/a//b
    "configurations": [
        {"name": "a \\"b\\" // no comment", "args": ["https://example.org/*", "\\u00e9"]},
        {"name": "c", "x": {"name": "inner"}, "n": [-1.5e3, true, null,],}, // behind
    ],
}
"""


def items(node: Node, name: str) -> tuple[Node, ...]:
    """What the array of that key holds."""
    found = node.member(name)
    assert found is not None
    return found.items or ()


def plain(nodes: Iterable[Node | None]) -> list[object]:
    """Their values."""
    return [node.value if node else None for node in nodes]


def test_comments_commas_and_addresses_are_told_apart() -> None:
    """A comment in a string is text, a string in a comment is none, and commas may trail."""
    root = parse_jsonc(TEXT, FILE)
    first, second = items(root, "configurations")

    assert plain([first.member("name"), second.member("name")]) == ['a "b" // no comment', "c"]
    assert plain(items(first, "args")) == ["https://example.org/*", "é"]
    assert plain(items(second, "n")) == [-1500, True, None]
    assert (first.trailing, second.trailing, root.trailing) == (False, True, True)


def test_a_value_knows_where_it_stands() -> None:
    """The text of an entry is cut out exactly."""
    first, second = items(parse_jsonc(TEXT, FILE), "configurations")

    assert TEXT[: first.start].endswith('"configurations": [\n        ')
    assert TEXT[second.start : second.end].startswith('{"name": "c"')
    assert TEXT[second.end :].startswith(", // behind")


def test_the_last_of_two_equal_keys_counts() -> None:
    """As editors read it."""
    node = parse_jsonc('{"a": 1, "a": 2}', FILE).member("a")
    assert node is not None
    assert node.value == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n"a": [1,\n', "launch.json:3:1: it ends where a `]` is missing"),
        ('{"a" 1}', "launch.json:1:6: no `:` after"),
        ('{"a": 1\r\n"b": 2}', "launch.json:2:1: a `,` is missing"),
        ('{"a": nothing}', "launch.json:1:7: `nothing` is no value"),
        ('{"a": "x}', "launch.json:1:7: the quote is never closed"),
        ('{"a": "\\q"}', "launch.json:1:7: a `\\` that means nothing"),
        ("{a: 1}", 'launch.json:1:2: no `"…"`'),
        ("{} x", "launch.json:1:4: something stands behind the end"),
        ("", "launch.json:1:1: no value"),
        ("[,]", "launch.json:1:2: no value"),
        ("[1,,2]", "launch.json:1:4: no value"),
        ("/* open", "launch.json:1:1: no value"),
        ("[" * 200, "too many brackets"),
    ],
)
def test_what_is_broken_is_told_with_its_line(text: str, said: str) -> None:
    """The first thing that is wrong, where it stands, and what to do."""
    with pytest.raises(ConfigError) as raised:
        parse_jsonc(text, FILE)
    assert said in str(raised.value)
    assert raised.value.hint == "correct that line; nothing was written"
