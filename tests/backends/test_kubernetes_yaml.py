"""Objects as YAML: whatever text is in them comes out of a reader as it went in."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

from launchbay.backends.kubernetes.yaml import render_yaml

SIGNS = " \t\n\r:#-'\"\\{}[]|>&*!%@`,?~$abc019.é\x00\x07\x1b\x7f\x85\xa0\u2028\ufeff\ufffe😀"
TEXTS = [
    "",
    " ",
    "plain",
    "two words",
    "true",
    "No",
    "null",
    "~",
    "1",
    "1e3",
    "0x1f",
    "010",
    "1:30",
    "12e4567",
    ".inf",
    "-",
    "- a",
    "a: b",
    "a:",
    "a #b",
    "# a",
    "'quoted'",
    '"quoted"',
    "{a}",
    "*star",
    "&and",
    "!tag",
    "%percent",
    "@at",
    "`tick`",
    "2001-01-01",
    "---",
    "...",
    "<<",
    "=",
    "one\n",
    "one\ntwo",
    "one\n\n\n",
    "\none",
    "\n",
    "  indented\nnot\n",
    "one\n  indented\n\n   deeper\n",
    "\ttab\nnone\n",
    "one\n\ttab\n",
    "trailing \nspaces  \n",
    "one\n   ",
    "one\r\ntwo\r\n",
    "a\n---\nb\n",
    "a\n...\nb\n",
    "# comment\n",
    "bell\x07",
    "nul\x00",
    "next\x85line",
    "separator\u2028here",
    "\ufeffmark",
    "😀 é 漢字",
    "😀\nlines\n",
    "\\u0041 \\n",
    "$(NAME) $$ %s",
    "x" * 3000,
    "key: |\n  block\n",
]


def read(text: str, loader: Any = yaml.SafeLoader) -> list[Any]:
    return list(yaml.load_all(text, loader))


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_text_is_exact(text: str) -> None:
    """Text is the same as value, as key, in a list and in a list of lists."""
    value = {"v": text, text: {text: [text, [text], {text: text}]}, "end": "e"}

    assert read(render_yaml([value, value])) == [value, value]


def test_random_objects() -> None:
    """Whatever is put together from mappings, lists, numbers and any signs is read as it was."""
    chance = random.Random(7)

    def text() -> str:
        signs = SIGNS if chance.random() < 0.5 else "\n ab"
        return "".join(chance.choices(signs, k=chance.choice([0, 1, 2, 5, 20, 300])))

    def value(depth: int) -> Any:
        kind = chance.random()
        if depth < 3 and kind < 0.2:
            return {text(): value(depth + 1) for _ in range(chance.randrange(4))}
        if depth < 3 and kind < 0.35:
            return [value(depth + 1) for _ in range(chance.randrange(4))]
        if kind < 0.4:
            return chance.choice([None, True, False, 0, -5, 10**12, 1.5, 1e16, 1e-7])
        return text()

    for _ in range(400):
        objects = [{text(): value(0) for _ in range(3)} for _ in range(chance.randrange(1, 3))]

        assert read(render_yaml(objects), yaml.CSafeLoader) == objects


def test_half_a_surrogate_pair() -> None:
    """What no encoding can hold becomes a question mark, in one line and in many."""
    found = read(render_yaml([{"one": "a\udcffb", "many": "a\udcff\nb\n"}]))

    assert found == [{"one": "a?b", "many": "a?\nb\n"}]


def test_people_can_read_it() -> None:
    """Plain words stand as they are, lines are lines, and what could be mistaken is quoted."""
    text = render_yaml(
        [
            {"a": "python:3.12", "b": "1", "c": [], "d": {}, "e": "x\ny\n", "f": [{"g": None}]},
            {"h": ("-", True)},
        ]
    )

    assert text == (
        'a: python:3.12\nb: "1"\nc: []\nd: {}\ne: |\n  x\n  y\nf:\n- g: null\n'
        '---\nh:\n- "-"\n- true\n'
    )


def test_nothing_ends_a_document_but_its_end() -> None:
    """A line `---` of a text never stands at the beginning of a line."""
    text = render_yaml([{"a": "x\n---\ny\n"}, {"b": 1}])

    assert len(text.split("\n---\n")) == 2
