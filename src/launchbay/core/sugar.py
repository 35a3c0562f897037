r"""The sugar of a file's command: `[local](remote)`, `##comment##` and `{{a,b}}`.

A backslash before it makes each of them literal: `\[`, `\##`, `\{{`.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Literal

from launchbay.core.sweep import RANGE, parse_value

if TYPE_CHECKING:
    from collections.abc import Collection

PARENTHESES = re.compile(r"[][()]")
COMMENT = re.compile(
    r"""
    (\\\#\#               # meant literally
    | \$\{[^\s{}\#]+\#\#) # the shell's own: a prefix is cut off a variable
    | (?<!\#)\#{2,}(?!\#)[^\n]+?\#{2,}
    """,
    re.VERBOSE,
)
BRACES = re.compile(r"(\\?)\{\{((?:[^{}\n]|\{[^{}\n]*\})*)\}\}")
ITEM = re.compile(r",((?:\\,|\{[^{}]*\}|[^,])*)")


def choose_side(text: str, side: Literal["local", "remote"]) -> str:
    r"""The text with each `[local](remote)` replaced by one of the two, nested ones too.

    >>> choose_side("[](make data;) python [x.py](-m x) a[0]", "remote")
    'make data; python -m x a[0]'
    >>> choose_side(r"[[a](b) c](d) \[e](f)", "local")
    'a c [e](f)'
    """
    choices = _find_choices(text)
    chosen: list[str] = []
    at = 0
    # Where the text being read ends, and where to go on; the innermost choice is the last.
    regions = [(len(text), len(text))]
    while regions:
        end, resume = regions[-1]
        bracket = text.find("[", at, end)
        middle, last = choices.get(bracket, (end, end))
        if bracket == -1:
            chosen.append(text[at:end])
            at = resume
            regions.pop()
        elif last >= end:
            chosen.append(text[at : bracket + 1])
            at = bracket + 1
        elif text[max(bracket - 1, 0)] == "\\":
            chosen += text[at : bracket - 1], text[bracket : last + 1]
            at = last + 1
        else:
            chosen.append(text[at:bracket])
            local = side == "local"
            at = bracket + 1 if local else middle + 2
            regions.append((middle if local else last, last + 1))
    return "".join(chosen)


def _find_choices(text: str) -> dict[int, tuple[int, int]]:
    """Where each `[…](…)` begins, with the places of its `]` and its `)`."""
    closing: dict[int, int] = {}
    openers: dict[str, list[int]] = {"]": [], ")": []}
    for match in PARENTHESES.finditer(text):
        if match[0] in "[(":
            openers["]" if match[0] == "[" else ")"].append(match.start())
        elif openers[match[0]]:
            closing[openers[match[0]].pop()] = match.start()
    return {
        start: (middle, closing[middle + 1])
        for start, middle in closing.items()
        if text[start] == "[" and text.startswith("(", middle + 1) and middle + 1 in closing
    }


def strip_comments(text: str) -> str:
    r"""The text without its `##…##`; a line that only begins with `##` is left to the shell.

    >>> strip_comments(r"python x.py ## was y.py ## --fast \## ${name##*/}")
    'python x.py  --fast \\## ${name##*/}'
    """
    return COMMENT.sub(lambda match: match[1] or "", text)


def make_literal(text: str) -> str:
    r"""The text with a backslash before all that would be a choice or a list.

    >>> make_literal("a[0] [x](y) {{1,2}} {{.Names}}")
    'a[0] \\[x](y) \\{{1,2}} {{.Names}}'
    """
    pieces: list[str] = []
    at = 0
    for start, (_, last) in sorted(_find_choices(text).items()):
        if start >= at:
            pieces += text[at:start], "\\", text[start : last + 1]
            at = last + 1
    pieces.append(text[at:])
    return BRACES.sub(_with_backslash, "".join(pieces))


def _with_backslash(match: re.Match[str]) -> str:
    return f"\\{match[0]}" if expand_braces(match[0])[1] else match[0]


def expand_braces(text: str, taken: Collection[str] = ()) -> tuple[str, dict[str, tuple[str, ...]]]:
    r"""The text with a placeholder for each `{{a,b}}` or `{{0..4}}`, and the values of each.

    Args:
        text: as written; `\,` is a comma inside of an item.
        taken: names that are parameters already.

    >>> expand_braces("x {{1,2}} {{.Names}} {{0..2}}")
    ('x <arg1:raw> {{.Names}} <arg2:raw>', {'arg1': ('1', '2'), 'arg2': ('0', '1', '2')})
    """
    names = (name for number in count(1) if (name := f"arg{number}") not in taken)
    values: dict[str, tuple[str, ...]] = {}

    def replacement(match: re.Match[str]) -> str:
        items = [item.strip() for item in ITEM.findall(f",{match[2]}")]
        if len(items) == 1 and not RANGE.fullmatch(items[0]):
            return match[0]
        if match[1]:
            return match[0].removeprefix("\\")
        name = next(names)
        values[name] = tuple(
            value for item in items for value in parse_value(item.replace(r"\,", ","))
        )
        return f"<{name}:raw>"

    return BRACES.sub(replacement, text), values
