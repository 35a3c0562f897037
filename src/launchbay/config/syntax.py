"""What is wrong with a text that is no YAML, in words of people.

The parser tells where it gave up; what was typed wrongly is often before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import yaml

Explanation: TypeAlias = tuple[str, str, tuple[int, int]]
"""What is wrong, what to do about it, and the line and column that it is at."""

CLOSERS = {"[": "]", "{": "}"}
CLOSED = {"]": "bracket", "}": "bracket", '"': "quote", "'": "quote"}
CALLED = {"`": "a backquote", "\t": "a tab"}
SHORT = 40


def explain_syntax(text: str, err: yaml.MarkedYAMLError) -> Explanation:
    """What is wrong with the text that the parser refused."""
    slip = _read_slip(text, err)
    if "\t" in _indentation(slip.written):
        return "a tab in the indentation", "indent with spaces", slip.at
    for words, explain in EXPLAINERS:
        if words in slip.problem:
            return explain(slip)
    return _explain_rest(slip)


@dataclass(frozen=True)
class _Slip:
    """Where the parser gave up, and where what it was reading begins; both count from 0."""

    lines: Sequence[str]
    problem: str
    line: int
    column: int
    begin: tuple[int, int]

    @property
    def written(self) -> str:
        """The line that it gave up in."""
        return self.line_at(self.line)

    @property
    def before(self) -> str:
        """What stands before that in the line."""
        return self.written[: self.column]

    @property
    def at(self) -> tuple[int, int]:
        """Where it gave up, for people."""
        return self.line + 1, self.column + 1

    @property
    def begun_at(self) -> tuple[int, int]:
        """Where what it was reading begins, for people."""
        return self.begin[0] + 1, self.begin[1] + 1

    @property
    def opener(self) -> str:
        """The character that what it was reading begins with."""
        return self.line_at(self.begin[0])[self.begin[1] :][:1]

    def line_at(self, number: int) -> str:
        """One line; nothing after the last."""
        return self.lines[number] if number < len(self.lines) else ""

    def line_above(self) -> int:
        """The nearest line above that says something."""
        said = (at for at in range(self.line - 1, -1, -1) if _says_something(self.lines[at]))
        return next(said, self.line)


def _read_slip(text: str, err: yaml.MarkedYAMLError) -> _Slip:
    mark = err.problem_mark or err.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    start = err.context_mark
    begin = (start.line, start.column) if start else (line, column)
    return _Slip(text.splitlines(), str(err.problem), line, column, begin)


def _explain_start(slip: _Slip) -> Explanation:
    line, column = slip.begun_at
    begins = slip.opener
    called = CALLED.get(begins, f"`{begins}`")
    value = slip.line_at(line - 1)[column - 1 :]
    return (
        f"a value cannot begin with {called}",
        f"put it in quotes{_quoted(value)}",
        (line, column),
    )


def _explain_block(slip: _Slip) -> Explanation:
    message = f"text right behind `{slip.opener}`"
    return message, "begin it on the next line, indented; or put the value in quotes", slip.at


def _explain_escape(slip: _Slip) -> Explanation:
    at = slip.column if slip.written[slip.column :].startswith("\\") else slip.column - 1
    escape = slip.written[at : at + 2]
    hint = f"write `\\{escape}`, or put the value in single quotes"
    return f"`{escape}` means nothing in double quotes", hint, (slip.line + 1, at + 1)


def _explain_quote(slip: _Slip) -> Explanation:
    hint = f"write `{slip.opener}` at the end of the value"
    return f"the quote `{slip.opener}` is never closed", hint, slip.begun_at


def _explain_bracket(slip: _Slip) -> Explanation:
    closer = CLOSERS.get(slip.opener, "]")
    if slip.line == slip.begin[0]:
        hint = f"write `,` between two values, and `{closer}` behind the last"
        return f"a `,` or `{closer}` is missing before this", hint, slip.at
    hint = f"write `{closer}` behind the last value"
    return f"the `{slip.opener}` is never closed", hint, slip.begun_at


def _explain_content(slip: _Slip) -> Explanation:
    here = slip.written[slip.column :][:1]
    if not here:
        hint = "close the `[` or `{` that is open, or write the value"
        return "the text ends where a value should be", hint, slip.at
    return f"no value before `{here}`", "write one, or take it out", slip.at


def _explain_second_colon(slip: _Slip) -> Explanation:
    if ": " in slip.before:
        key, _, value = slip.written.strip().partition(": ")
        hint = f"put the value of `{key.removeprefix('- ')}` in quotes{_quoted(value)}"
        return "a second `: ` in one line", hint, slip.at
    above = slip.line_above()
    if not _has_colon(slip.line_at(above)):
        return _explain_no_colon(slip.line_at(above), above)
    message = f"`{slip.before.strip()}:` stands below line {above + 1}, which has a value already"
    return message, "give both the same indentation, or put that value in quotes", slip.at


def _explain_key(slip: _Slip) -> Explanation:
    return _explain_no_colon(slip.line_at(slip.begin[0]), slip.begin[0])


def _explain_no_colon(written: str, line: int) -> Explanation:
    key, colon, _ = written.strip().partition(":")
    meant = colon and len(key) <= SHORT
    hint = f"write a space behind `{key}:`" if meant else "write `key: value`"
    return "no `: ` in this line", hint, (line + 1, len(_indentation(written)) + 1)


def _explain_order(slip: _Slip) -> Explanation:
    """Something that fits neither the mapping nor the list that it stands in."""
    if last := slip.before.rstrip()[-1:]:
        if last not in CLOSED:
            return _explain_rest(slip)
        hint = "put the whole value in one pair of quotes, and close every pair"
        if slip.before.endswith("'"):
            hint = "write `''` for a `'` inside of the value, or put the value in double quotes"
        return f"text after the closing {CLOSED[last]}", hint, slip.at
    above = slip.line_above()
    spaces = len(_indentation(slip.line_at(above)))
    if spaces != slip.column and slip.column != slip.begin[1]:
        told = f"{slip.column} space{'s' * (slip.column != 1)}"
        hint = f"indent it by {spaces}, as line {above + 1}, if it belongs beside that"
        return f"an indentation of {told}, which no line above has", hint, slip.at
    if slip.written.lstrip().startswith("-"):
        return "a `-` among lines of `key: value`", "take it out, or indent it below a key", slip.at
    hint = "write `- ` before it, or indent it as the key that it belongs beside"
    return "no `-`, as the lines above have", hint, slip.at


def _explain_rest(slip: _Slip) -> Explanation:
    return f"not valid YAML: {slip.problem}", "check indentation, quotes and brackets", slip.at


def _explain_dash(slip: _Slip) -> Explanation:
    hint = "write the list on the lines below, or in brackets: `[a, b]`"
    return "a list that begins behind the colon", hint, slip.at


EXPLAINERS: Sequence[tuple[str, Callable[[_Slip], Explanation]]] = (
    ("cannot start any token", _explain_start),
    ("alphabetic or numeric character", _explain_start),
    ("comment or line break", _explain_block),
    ("chomping or indentation", _explain_block),
    ("a comment or a line break", _explain_block),
    ("unknown escape", _explain_escape),
    ("unexpected end of stream", _explain_quote),
    ("',' or '", _explain_bracket),
    ("node content", _explain_content),
    ("mapping values are not allowed", _explain_second_colon),
    ("sequence entries are not allowed", _explain_dash),
    ("could not find expected ':'", _explain_key),
    ("did not find expected key", _explain_order),
    ("did not find expected '-'", _explain_order),
    ("expected <block end>", _explain_order),
)
"""By what the parsers say, the one in C and the one in Python."""


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _has_colon(line: str) -> bool:
    return ": " in line or line.rstrip().endswith(":")


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _quoted(value: str) -> str:
    """How a short value is written in quotes, where it is plain which one is meant."""
    value = value.rstrip()
    plain = len(value) <= SHORT and not set("'`#,]}") & set(value)
    return f": `'{value}'`" if plain else ""
