"""Patterns of keys."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.sync.patterns import compile_patterns, escape

LETTERS = "ab/*?[]!-\\."
TEXTS = st.text(LETTERS, min_size=1, max_size=7)
KEYS = st.text("ab/-.", min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("data/", "data/a/b", True),
        ("data/", "data2/a", False),
        ("data/", "database/a", False),
        ("data/", "data", False),
        ("data", "data", True),
        ("data", "data/a", True),
        ("data", "data2", False),
        ("data/*", "data/a/b", True),
        ("data/*", "database/x", False),
        ("data/1", "data/10.txt", False),
        ("*.pt", "a/b.pt", True),
        ("a**b", "a/x/b", True),
        ("a?b", "axb", True),
        ("a?b", "a/b", False),
        ("[ab]c", "bc", True),
        ("[!ab]c", "bc", False),
        ("[!ab]c", "/c", False),
        ("[a-c]", "b", True),
        ("[c-a]", "b", False),
        ("[]]", "]", True),
        ("[", "[", True),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        ("", "anything/at/all", True),
        (".", "anything/at/all", True),
        ("./data/", "data/x", True),
        ("a.b", "axb", False),
        ("data/*/", "data/x/y", True),
        ("data/*/", "data/x", False),
        ("iter_*", "iter_3/a", True),
        ("*.ckpt", "x.ckpt/shard", True),
        ("new\nline*", "new\nline\n", True),
    ],
)
def test_one_pattern(*, text: str, key: str, expected: bool) -> None:
    """Each form means what the table in the module says."""
    assert compile_patterns([text]).matches(key) is expected


@pytest.mark.parametrize(
    ("texts", "folder", "literal"),
    [
        (["data/"], "data/", None),
        (["data"], "", "data"),
        (["a/b/c.txt"], "a/b/", "a/b/c.txt"),
        ([r"a/\[1\].txt"], "a/", "a/[1].txt"),
        (["a/b/*", "a/c"], "a/", None),
        (["a/b*/c"], "a/", None),
        (["a/x", "b/x"], "", None),
        ([], "", None),
        (["!a/b"], "", None),
        (["ab/x", "a/x"], "", None),
        (["data/", "!data/old/"], "data/", None),
    ],
)
def test_where_to_look(texts: list[str], folder: str, literal: str | None) -> None:
    """A listing begins in the deepest folder that holds every match; one plain name is known."""
    pattern = compile_patterns(texts)

    assert (pattern.folder, pattern.literal) == (folder, literal)


def test_taking_away() -> None:
    """A text with `!` takes matches away, wherever it stands."""
    pattern = compile_patterns(["!data/old/", "data/", "!*.tmp"])

    keys = ["data/a", "data/old/a", "data/a.tmp", "other/a", "data/older"]
    assert [key for key in keys if pattern.matches(key)] == ["data/a", "data/older"]


def test_only_taking_away() -> None:
    """Where every text takes away, everything else is meant."""
    pattern = compile_patterns(["!*.tmp"])

    assert pattern.matches("a")
    assert not pattern.matches("a/b.tmp")


def test_include_and_exclude() -> None:
    """They narrow down; without a folder they are about names, in any folder."""
    pattern = compile_patterns(["run/"], include=["*.pt", "log.txt"], exclude=["tmp", "run/b/*"])

    keys = ["run/a.pt", "run/a/log.txt", "run/a/xlog.txt", "run/tmp/a.pt", "run/b/c.pt", "a.pt"]
    assert [key for key in keys if pattern.matches(key)] == ["run/a.pt", "run/a/log.txt"]


@given(st.lists(KEYS, min_size=1, max_size=4), KEYS)
def test_escaped_names_are_literal(names: list[str], key: str) -> None:
    """An escaped name means itself and what lies below it, whatever letters it has."""
    odd = [f"{name}*[!a]?\\" for name in names]
    pattern = compile_patterns([escape(name) for name in odd])

    assert all(pattern.matches(name) for name in odd)
    assert not pattern.matches(key)


@given(TEXTS, KEYS)
def test_as_a_naive_matcher_would(text: str, key: str) -> None:
    """Compiled patterns agree with a matcher that tries every way."""
    if text.startswith(("!", "./")) or text == ".":
        return
    assert compile_patterns([text]).matches(key) is _naive(text, key)


@given(st.lists(TEXTS, min_size=1, max_size=3), KEYS)
def test_every_match_lies_in_the_folder(texts: list[str], key: str) -> None:
    """No match is missed by beginning the listing in the folder."""
    pattern = compile_patterns(texts)

    assert not pattern.matches(key) or key.startswith(pattern.folder)


def test_many_names_are_fast() -> None:
    """A key is looked up among many names, not compared with each."""
    pattern = compile_patterns([f"folder/{number}" for number in range(50_000)])

    assert sum(pattern.matches(f"folder/{number}") for number in range(100_000)) == 50_000


def _naive(text: str, key: str) -> bool:
    """Try every way to match, letter by letter."""
    below = text.endswith("/")

    @cache
    def tail(place: int) -> bool:
        rest = key[place:]
        return bool(rest) if below else not rest or (rest[0] == "/" and len(rest) > 1)

    @cache
    def match(at: int, place: int) -> bool:
        if at == len(text):
            return tail(place)
        letter = text[at]
        if letter == "*":
            return any(match(at + 1, later) for later in range(place, len(key) + 1))
        end = at + 1
        allowed = place < len(key) and key[place] == letter
        if letter == "?":
            allowed = place < len(key) and key[place] != "/"
        elif letter == "\\" and at + 1 < len(text):
            end = at + 2
            allowed = place < len(key) and key[place] == text[at + 1]
        elif letter == "[":
            negated = text[at + 1 : at + 2] in {"!", "^"}
            first = at + 1 + negated
            close = text.find("]", first + 1)
            if close >= 0:
                end = close + 1
                inside = place < len(key) and _member(text[first:close], key[place])
                allowed = place < len(key) and key[place] != "/" and inside is not negated
        return allowed and match(end, place + 1)

    return match(0, 0)


def _member(body: str, letter: str) -> bool:
    while body:
        if len(body) > 2 and body[1] == "-":
            if body[0] <= letter <= body[2]:
                return True
            body = body[3:]
        elif body[0] == letter:
            return True
        else:
            body = body[1:]
    return False
