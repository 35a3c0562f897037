"""Changing one key in the text of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launchbay.config.edits import (
    remove_key,
    render_inline,
    render_mapping,
    render_scalar,
    set_key,
)
from launchbay.config.files import parse_document

if TYPE_CHECKING:
    from launchbay.config.files import Value

FILE = Path("config.yaml")
TEXTS = st.text(st.characters(exclude_categories=["C"]) | st.sampled_from("\n\t:#-[]{}'\" é"))
TREES = st.recursive(
    TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS.filter(bool), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("", "use", "desk", "use: desk\n"),
        ("# mine\n", "use", "desk", "# mine\nuse: desk\n"),
        ("use: box  # best\n", "use", "desk", "use: desk  # best\n"),
        ("use: 'box' # best", "use", "a: b", 'use: "a: b" # best'),
        ("use: >\n  box\n# end\n", "use", "desk", "use: desk\n# end\n"),
        ("use:\ntargets: {}\n", "use", "desk", "use: desk\ntargets: {}\n"),
        ("{}", "use", "desk", "{use: desk}"),
        ("{use: box}", "use", "desk", "{use: desk}"),
        ("a: 1", "b.c.d", "2", "a: 1\nb:\n  c:\n    d: 2\n"),
        ("a:\n    b: 1\n# end\n", "a.c", "2", "a:\n    b: 1\n    c: 2\n# end\n"),
        ("a: {b: 1} # x\nc: 2\n", "a.d", "2", "a: {b: 1, d: 2} # x\nc: 2\n"),
        ("a: {b: {c: 1}}\n", "a.b.c", "2", "a: {b: {c: 2}}\n"),
        (
            "a: # x\n  b: 1 # y\n\n# z\nc: 2\n",
            "a.d",
            "3",
            "a: # x\n  b: 1 # y\n  d: 3\n\n# z\nc: 2\n",
        ),
        ("a:\n- 1\n- 2\n# z\nb: 1\n", "a", ["3"], "a: [3]\n# z\nb: 1\n"),
        ("a: [1, 2] # z\n", "a", ["3"], "a: [3] # z\n"),
        ("a: 1\n", "a.b", "2", "a:\n  b: 2\n"),
        ("a:\n  b: 1\nc: 2\n", "a", {"d": "3"}, "a:\n  d: 3\nc: 2\n"),
        ("a: &x {k: 1}\nb: *x\n", "b.k", "2", "a:\n  k: 1\nb:\n  k: 2\n"),
        ("a: &x\n  k: 1\nb:\n  <<: *x\n", "b.k", "2", "a: &x\n  k: 1\nb:\n  <<: *x\n  k: 2\n"),
        ("a: 1\r\nb: 2\r\n", "a", "3", "a: 3\r\nb: 2\r\n"),
    ],
)
def test_set(before: str, key: str, value: Value, after: str) -> None:
    """A key is set where it stands, and nothing else is touched."""
    assert set_key(before, key.split("."), value, file=FILE) == after


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("use: desk\n", "use", ""),
        ("# mine\nuse: desk # x\n# end\n", "use", "# mine\n# end\n"),
        ("a:\n  b: 1\n  c: 2\n", "a.b", "a:\n  c: 2\n"),
        ("a:\n  b:\n    c: 1\nd: 2\n", "a.b.c", "d: 2\n"),
        ("a: {b: 1, c: 2} # x\n", "a.b", "a: {c: 2} # x\n"),
        ("a:\n  b: |\n    x\n    y\n  c: 1\n", "a.b", "a:\n  c: 1\n"),
        ("a:\n- 1\n- 2\nb: 1", "a", "b: 1"),
        ("a: &x {k: 1}\nb: {<<: *x, l: 2}\n", "b.k", "a: &x {k: 1}\nb: {l: 2}\n"),
        ("a: &x\n  k: 1\nb:\n  <<: *x\n  l: 2\n", "b.k", "a:\n  k: 1\nb:\n  l: 2\n"),
    ],
)
def test_remove(before: str, key: str, after: str) -> None:
    """A key is removed with what it says, and so is a mapping that is then empty."""
    assert remove_key(before, key.split("."), file=FILE) == after


@pytest.mark.parametrize("key", ["x", "a.x", "a.b.c", "c.d"])
def test_remove_nothing(key: str) -> None:
    """A key that is not there cannot be removed."""
    with pytest.raises(KeyError):
        remove_key("a: {b: 1}\nc:\n", key.split("."), file=FILE)


@settings(deadline=None, max_examples=60)
@given(text=TEXTS)
def test_scalars_come_back(text: str) -> None:
    """Any text is written so that the same text is read, in a block and in braces."""
    scalar = render_scalar(text)

    assert parse_document(f"a: {scalar}\nb: {{c: [{scalar}]}}", FILE).data == {
        "a": text,
        "b": {"c": [text]},
    }


@pytest.mark.parametrize(
    "text",
    ["desk", "010", "1e-5", "-1", "~/bay", "/scratch/me", "me@box", "true", "8h", "00:30:00"],
)
def test_common_scalars_are_plain(text: str) -> None:
    """What people write has no quotes."""
    assert render_scalar(text) == text


@settings(deadline=None, max_examples=60)
@given(tree=st.dictionaries(TEXTS.filter(bool), TREES, max_size=3))
def test_mappings_come_back(tree: dict[str, Value]) -> None:
    """Any tree is written so that the same tree is read."""
    assert parse_document(render_mapping(tree), FILE).data == tree
    assert parse_document(f"a: {render_inline(tree)}", FILE).data == {"a": tree}


@settings(deadline=None, max_examples=60)
@given(
    tree=st.dictionaries(TEXTS.filter(bool), TREES, max_size=3), value=TREES, key=TEXTS.filter(bool)
)
def test_set_then_remove(tree: dict[str, Value], value: Value, key: str) -> None:
    """What was set is read, and removing it leaves the rest."""
    rest = {name: one for name, one in tree.items() if name != key}
    text = set_key(render_mapping(tree), [key], value, file=FILE)

    assert parse_document(text, FILE).data == {**rest, key: value}
    assert parse_document(remove_key(text, [key], file=FILE), FILE).data == rest
