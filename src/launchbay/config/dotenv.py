r"""Reading a project's `.env` so that its values are the same here and far away.

```text
KEY=value            # the text itself, without blanks around it; `$HOME`, `\n` and `it's` stay
export KEY = value   # `export` and blanks around the `=` mean nothing
KEY=                 # empty; a comment begins at a blank and `#`
KEY=a#b              # `a#b`
KEY='…'              # the text up to the next `'`
KEY="…"              # up to the next `"`; `\"` `\\` `\$` `\n` `\r` `\t` mean what they say,
                     # any other backslash is one
```

Names are letters, digits and `_`, no digit first. A quoted value may go on over several lines;
after it only blanks or a comment may follow. Lines end in LF, CRLF or CR, and a CRLF in quotes is
an LF. Blanks are spaces and tabs. Blank lines and lines that begin with `#` say nothing. Of two
values for one key the last one counts. Nothing is ever expanded.

Ours, since python-dotenv tells that a line is wrong but not where or why, and has other escapes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from launchbay.config.files import read_text
from launchbay.config.nodes import end_of
from launchbay.config.problems import Problem, config_error
from launchbay.core.errors import ConfigError
from launchbay.core.host import DEVICE_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NEVER_SENT = DEVICE_VARIABLES

BLANKS = " \t"
BLANK_RUN = re.compile(r"[ \t]*")
BETWEEN_ENTRIES = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+")
REST_OF_LINE = re.compile(r"[^\r\n]*")
BEGINNING = re.compile(r"(?:export[ \t]+(?=[^ \t=]))?(?P<name>[^=#\r\n]*)=")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NEARLY_A_NAME = re.compile(r"[\w.-]{1,40}")
COMMENT = re.compile(r"[ \t]#.*", re.DOTALL)
QUOTED = {
    "'": re.compile(r"'([^']*+)'"),
    '"': re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL),
}
ESCAPE = re.compile(r'\\(["\\$nrt])')
ESCAPED = {'"': '"', "\\": "\\", "$": "$", "n": "\n", "r": "\r", "t": "\t"}
QUOTE_INSIDE = {
    "'": """put the value in `"` when it holds a `'`""",
    '"': r"""write `\"` for a quote inside the value""",
}


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of the file; none where there is no file.

    Raises:
        ConfigError: when it cannot be read, or says something that cannot be.
    """
    try:
        text = read_text(path)
    except ConfigError as err:
        # A virtual environment may have that name.
        if isinstance(err.__cause__, FileNotFoundError | IsADirectoryError):
            return {}
        raise
    return parse_env(text, path)


def parse_env(text: str, file: Path) -> dict[str, str]:
    r"""The variables that the text of a file sets; messages never hold a value.

    >>> from pathlib import Path
    >>> parse_env("A = $HOME # mine\nexport B='it # is'", Path(".env"))
    {'A': '$HOME', 'B': 'it # is'}

    Raises:
        ConfigError: when it says something that cannot be.
    """
    reader = _Reader(text.removeprefix("\ufeff").replace("\r\n", "\n"), file)
    reader.read()
    if reader.problems:
        raise config_error(reader.problems)
    return reader.values


def without_devices(values: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that name devices of this machine."""
    return {name: value for name, value in values.items() if name not in NEVER_SENT}


class _Reader:
    """Reads entry after entry and collects what is wrong; `at` is a position in the text."""

    def __init__(self, text: str, file: Path) -> None:
        self.values: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._text = text
        self._file = file

    def read(self) -> None:
        at = self._end(BETWEEN_ENTRIES, 0)
        while at < len(self._text):
            at = self._end(BETWEEN_ENTRIES, self._read_entry(at))

    def _read_entry(self, at: int) -> int:
        """Note the entry that begins here; the position after it."""
        beginning = BEGINNING.match(self._text, at)
        if beginning is None:
            # Not repeated in the message: it may be a line of a secret that lacks its quotes.
            hint = "write `KEY=value`; put a value of several lines in quotes"
            self._note(at, "", "no `=` after a name", hint)
            return self._end(REST_OF_LINE, at)
        name = beginning["name"].strip(BLANKS)
        key = name if NEARLY_A_NAME.fullmatch(name) else ""
        if not NAME.fullmatch(name):
            hint = "use letters, digits and `_`, and no digit first"
            self._note(beginning.start("name"), key, "not the name of a variable", hint)
        value, end = self._read_value(beginning.end(), key)
        if "\0" in value:
            place = self._text.index("\0", beginning.end())
            self._note(place, key, "a NUL character is not allowed", "remove it")
        self.values[name] = value
        return end

    def _read_value(self, at: int, key: str) -> tuple[str, int]:
        """The value and the position after its line."""
        first = self._end(BLANK_RUN, at)
        if self._text.startswith(tuple(QUOTED), first):
            return self._read_quoted(first, key)
        end = self._end(REST_OF_LINE, at)
        # From the `=` on: a comment may begin at the blank behind it.
        return COMMENT.sub("", self._text[at:end]).strip(BLANKS), end

    def _read_quoted(self, at: int, key: str) -> tuple[str, int]:
        quote = self._text[at]
        found = QUOTED[quote].match(self._text, at)
        if found is None:
            hint = f"write `{quote}` at the end of the value"
            self._note(at, key, "the quote is never closed", hint)
            return "", len(self._text)
        after = self._end(BLANK_RUN, found.end())
        if not self._text.startswith(("#", "\r", "\n"), after) and after < len(self._text):
            opened, closed = self._place(at)[0], self._place(after)[0]
            across = f"close the quote that opens on line {opened}"
            hint = QUOTE_INSIDE[quote] if opened == closed else across
            self._note(after, key, "text after the closing quote", hint)
        value = found[1]
        if quote == '"':
            value = ESCAPE.sub(lambda escape: ESCAPED[escape[1]], value)
        return value, self._end(REST_OF_LINE, after)

    def _end(self, pattern: re.Pattern[str], at: int) -> int:
        found = pattern.match(self._text, at)
        return found.end() if found else at

    def _note(self, at: int, key: str, message: str, hint: str) -> None:
        self.problems.append(Problem(self._file, *self._place(at), key, message, hint))

    def _place(self, at: int) -> tuple[int, int]:
        return end_of(self._text[:at].replace("\r", "\n"))
