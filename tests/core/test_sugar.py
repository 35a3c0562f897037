"""The sugar of a file's command: sides, comments, brace lists."""

from __future__ import annotations

import time
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.core.command import fill
from launchbay.core.job import Script
from launchbay.core.sugar import choose_side, expand_braces, make_literal, strip_comments

PLAIN = st.text("ab 0\\,;'\"$", max_size=8)
MANY = 100_000


@pytest.mark.parametrize(
    ("text", "local", "remote"),
    [
        ("[](make data;) python x.py", " python x.py", "make data; python x.py"),
        ("[a](b) [c](d)", "a c", "b d"),
        ("[x [a](b)](y)", "x a", "y"),
        ("[x](y [a](b) z)", "x", "y b z"),
        ("[a [b]](c (d))", "a [b]", "c (d)"),
        ("[:(](:])", ":(", ":]"),
        ("[a\nb](c\nd)", "a\nb", "c\nd"),
        ("[[[a](1)](2)](3)", "a", "3"),
        ("[](([a](b)))", "", "(b)"),
    ],
)
def test_the_side_is_chosen(text: str, local: str, remote: str) -> None:
    """Each `[local](remote)` is one of the two, and what is chosen is read again."""
    assert (choose_side(text, "local"), choose_side(text, "remote")) == (local, remote)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x[0]",
        "if [ -f x ] && (y); then [[ a ]]; fi",
        "[a] (b)",
        "[a](b",
        "[a(b)",
        "a](b)",
        "[a)(b]",
        r"grep '\[x\]' \[0] f",
        "\\",
    ],
)
@pytest.mark.parametrize("side", ["local", "remote"])
def test_other_brackets_stay(text: str, side: Literal["local", "remote"]) -> None:
    """What is no pair of both kinds is the shell's own."""
    assert choose_side(text, side) == text


@pytest.mark.parametrize(
    ("text", "local"),
    [
        (r"\[a](b)", "[a](b)"),
        (r"x \[a [b](c)](d) [e](f)", "x [a [b](c)](d) e"),
        (r"[\[a](b)](c)", "[a](b)"),
        (r"\\[a](b)", r"\[a](b)"),
        (r"[ [a](b", "[ [a](b"),
        ("[ [a](b)", "[ a"),
        ("[a](b [ c) ] (d)", "a ] (d)"),
    ],
)
def test_a_backslash_makes_a_side_literal(text: str, local: str) -> None:
    r"""`\[…](…)` loses its backslash and nothing else; one that is not closed is left alone."""
    assert choose_side(text, "local") == local


def test_unclosed_bracket_in_the_chosen_side_does_not_reach_out_of_it() -> None:
    """A choice ends where its own parenthesis ends, whatever follows."""
    assert choose_side("[a](b [c) d](e) f", "remote") == "b [c d](e) f"


@given(before=PLAIN, local=PLAIN, remote=PLAIN, after=PLAIN)
def test_sides_join_with_what_surrounds_them(
    before: str, local: str, remote: str, after: str
) -> None:
    """Whatever stands in and around a choice comes out verbatim."""
    before = before.rstrip("\\")
    text = f"{before}[{local}]({remote}){after}"

    assert choose_side(text, "local") == before + local + after
    assert choose_side(text, "remote") == before + remote + after


@given(st.text("[]()\\ab", max_size=60))
def test_no_text_breaks_the_choice(text: str) -> None:
    """Any mess of brackets gives some text no longer than itself."""
    assert len(choose_side(text, "local")) <= len(text)
    assert len(choose_side(text, "remote")) <= len(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * MANY,
        "[](" * (MANY // 3),
        "[" * (MANY // 5) + "a" + "](b)" * (MANY // 5),
        "[](" * (MANY // 4) + "a" + ")" * (MANY // 4),
        "[a](b)" * (MANY // 6),
        "\\[" * (MANY // 2),
    ],
)
def test_long_text_is_chosen_from_quickly(text: str) -> None:
    """A hundred thousand brackets, nested or not, take no noticeable time."""
    began = time.process_time()
    choose_side(text, "local")
    choose_side(text, "remote")

    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "text",
    ["{{" * (MANY // 2), "{{a," * (MANY // 4), "{{" + "," * MANY + "}}", "{{" + "a" * MANY],
)
def test_long_text_is_expanded_quickly(text: str) -> None:
    """Braces that never close, and very long lists, take no noticeable time."""
    began = time.process_time()
    expand_braces(text)

    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("p ## was q ## x", "p  x"),
        ("p ##a## x ##b## y", "p  x  y"),
        ("p ##a#b## x", "p  x"),
        ("##### a #####\np", "\np"),
        ("## heading\np ## another\n", "## heading\np ## another\n"),
        ("#### heading\np", "#### heading\np"),
        (r"p \##a## x", r"p \##a## x"),
        (r"p \## a ##b## x", r"p \## a  x"),
        ("a=${x##*/} b=${y##*/}", "a=${x##*/} b=${y##*/}"),
        ("a=${x[0]##*/} ##b## c", "a=${x[0]##*/}  c"),
        ("p # x", "p # x"),
    ],
)
def test_comments_are_stripped(text: str, stripped: str) -> None:
    """`##…##` on one line goes; a heading, a literal one and the shell's own `##` stay."""
    assert strip_comments(text) == stripped


@pytest.mark.parametrize(
    ("text", "expanded", "values"),
    [
        (
            "x {{1,2}} {{a,b}}",
            "x <arg1:raw> <arg2:raw>",
            {"arg1": ("1", "2"), "arg2": ("a", "b")},
        ),
        ("{{ a , b c }}", "<arg1:raw>", {"arg1": ("a", "b c")}),
        ("{{0..2}}", "<arg1:raw>", {"arg1": ("0", "1", "2")}),
        ("{{ 1..-1 }}", "<arg1:raw>", {"arg1": ("1", "0", "-1")}),
        ("{{0..2,9}}", "<arg1:raw>", {"arg1": ("0", "1", "2", "9")}),
        (r"{{a\,b,c}}", "<arg1:raw>", {"arg1": ("a,b", "c")}),
        ("{{,--fast}}", "<arg1:raw>", {"arg1": ("", "--fast")}),
        ("{{${A}/x,${B}}}", "<arg1:raw>", {"arg1": ("${A}/x", "${B}")}),
        ('{{ {"a":1,"b":2}, {} }}', "<arg1:raw>", {"arg1": ('{"a":1,"b":2}', "{}")}),
        ("--x={{1,2}}px", "--x=<arg1:raw>px", {"arg1": ("1", "2")}),
    ],
)
def test_brace_lists_become_parameters(
    text: str, expanded: str, values: dict[str, tuple[str, ...]]
) -> None:
    """Each list is a parameter of its own, in order."""
    assert expand_braces(text) == (expanded, values)


@pytest.mark.parametrize(
    "text",
    [
        "docker ps --format {{.Names}}",
        "{{x}}",
        "{{}}",
        r"{{a\,b}}",
        "{{0..}}",
        "{{a..c}}",
        "{{{a,b}}}",
        "{a,b}",
        "{{a,b}",
        "{{a,\nb}}",
        r"\{{.Names}}",
    ],
)
def test_other_braces_stay(text: str) -> None:
    """What is no list and no range of whole numbers belongs to somebody else."""
    assert expand_braces(text) == (text, {})


def test_a_backslash_makes_a_brace_list_literal() -> None:
    r"""`\{{…}}` loses its backslash and is not counted."""
    expanded = expand_braces(r"\{{a,b}} \{{0..2}} {{1,2}}")

    assert expanded == ("{{a,b}} {{0..2}} <arg1:raw>", {"arg1": ("1", "2")})


def test_names_that_are_taken_are_skipped() -> None:
    """A parameter that the file has already keeps its name."""
    expanded = expand_braces("{{1,2}} {{3,4}}", taken={"arg1", "arg3"})

    assert expanded == ("<arg2:raw> <arg4:raw>", {"arg2": ("1", "2"), "arg4": ("3", "4")})


@given(st.lists(st.text("ab ,'\"$;<>", max_size=6).map(str.strip), min_size=2, max_size=4))
def test_any_items_come_back(items: list[str]) -> None:
    """Items with quotes, commas and placeholders' signs are what is put into the command."""
    written = ",".join(item.replace(",", r"\,") for item in items)
    text, values = expand_braces(f"p {{{{{written}}}}}")

    assert [fill(Script(text), {"arg1": value}) for value in values["arg1"]] == [
        Script(f"p {item}") for item in items
    ]


@given(st.text("[](){},.01ab \n", max_size=30))
def test_literal_text_is_read_as_it_was(text: str) -> None:
    """What was made literal is neither a choice nor a list, and comes back unchanged."""
    written, values = expand_braces(make_literal(text))

    assert values == {}
    assert choose_side(written, "local") == choose_side(written, "remote") == text
