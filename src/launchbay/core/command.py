r"""Putting parameter values into a command, so that they arrive verbatim.

In words (`Argv`) a value takes the place of `<key>`. In shell text (`Script`) it is quoted for
where it stands: bare, in "…", in '…', in $'…'. Where no quoting can be right (a here-document,
backquotes, "${…}") a placeholder is an error. `\<` is a literal `<`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from launchbay.core.errors import ConfigError
from launchbay.core.job import Argv, Command, Script

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLACEHOLDER = re.compile(r"<([A-Za-z_][\w.-]*)>")
HEREDOC = re.compile(r"<<-?[ \t]*(\\?[\w-]+|'[^'\n]+'|\"[^\"\n]+\")")
UNAPPENDED = frozenset({"repeat"})
"""Parameters that programs do not know; they reach a command only where it names them."""


def fill(command: Command, params: Mapping[str, str], *, append: str = "") -> Command:
    """The command with its placeholders replaced; keys that none uses are appended.

    Args:
        command: as written.
        params: every key that may stand as `<key>`.
        append: `--` appends `--key value`, `=` appends `key=value`, empty appends nothing.

    Raises:
        ConfigError: when shell text holds a `<name>` that is no parameter, or one where no
            quoting can be right.
    """
    if isinstance(command, Argv):
        return _fill_words(command, params, append)
    return Script("".join(_fill_script(command.text, params)))


def render(command: Command) -> str:
    """The command as one shell text, for people and for `command.sh`."""
    return command.text if isinstance(command, Script) else shlex.join(command.words)


def _fill_words(command: Argv, params: Mapping[str, str], append: str) -> Argv:
    used = {key for word in command.words for key in PLACEHOLDER.findall(word)}
    words = [
        PLACEHOLDER.sub(lambda match: params.get(match[1], match[0]), word)
        for word in command.words
    ]
    for key, value in params.items():
        if key in used or key in UNAPPENDED or not append:
            continue
        words += [f"--{key}", value] if append == "--" else [f"{key}={value}"]
    return Argv(tuple(words))


def _fill_script(text: str, params: Mapping[str, str]) -> Iterator[str]:
    for piece in _parse_script(text):
        if isinstance(piece, str):
            yield piece
        elif piece.key in params:
            yield _quote(params[piece.key], piece.mode)
        else:
            known = ", ".join(f"`{key}`" for key in params) or "none"
            raise ConfigError(
                f"command: `<{piece.key}>` is no parameter; there are: {known}",
                hint=rf"add `{piece.key}` to `params:`, or write `\<{piece.key}>` if it is meant",
            )


def _quote(value: str, mode: str) -> str:
    match mode:
        case "double":
            return re.sub(r'([\\$`"])', r"\\\1", value)
        case "single":
            return value.replace("'", "'\\''")
        case "ansi":
            return value.replace("\\", "\\\\").replace("'", "\\'")
        case _:
            return shlex.quote(value) if value else ""


@dataclass(frozen=True)
class _Slot:
    key: str
    mode: str


@lru_cache(maxsize=64)
def _parse_script(text: str) -> tuple[str | _Slot, ...]:
    """The text cut at its placeholders, each with the kind of quotes that it stands in."""
    pieces: list[str | _Slot] = []
    frames = [("bare", "")]
    ending: str | None = None
    at = 0
    while at < len(text):
        mode = frames[-1][0]
        width = 1
        if ending is not None and text[at] == "\n" and mode == "bare":
            width = _heredoc_width(text[at:], ending)
            pieces.append(text[at : at + width])
            ending = None
        elif mode != "comment" and text.startswith(r"\<", at):
            pieces.append("<")
            width = 2
        elif mode != "comment" and (slot := PLACEHOLDER.match(text, at)):
            pieces.append(_slot(slot[1], mode))
            width = len(slot[0])
        else:
            heredoc = HEREDOC.match(text, at) if mode == "bare" else None
            if heredoc and text[max(at - 1, 0) : at + 3] != "<<<":
                ending = heredoc[1].strip("\\'\"")
            width = len(heredoc[0]) if heredoc else _step(text, at, frames)
            pieces.append(text[at : at + width])
        at += width
    return tuple(pieces)


# Shells disagree about quotes in these, so no quoting can be right.
HOPELESS = {
    "backquote": ("in backquotes", "write `$(…)` instead"),
    "brace": ('in `"${…}"`', "set a variable first: `x=<key>`"),
}


def _slot(key: str, mode: str) -> _Slot:
    if mode in HOPELESS:
        where, hint = HOPELESS[mode]
        raise ConfigError(f"command: `<{key}>` stands {where}", hint=hint)
    return _Slot(key, mode)


OPENERS = (
    ("$'", {"bare": ("ansi", "'")}),
    ("'", {"bare": ("single", "'")}),
    ('"', {"bare": ("double", '"'), "double": ("double", '"')}),
    ("`", {"bare": ("backquote", "`"), "double": ("backquote", "`")}),
    ("$(", {"bare": ("bare", ")"), "double": ("bare", ")")}),
    ("(", {"bare": ("bare", ")")}),
    ("${", {"bare": ("bare", "}"), "double": ("brace", "}")}),
)
"""What opens a new frame, by the mode it is met in: the frame's mode and what closes it."""


def _step(text: str, at: int, frames: list[tuple[str, str]]) -> int:
    """Note what the next characters open or close; returns how many they are."""
    mode, closer = frames[-1]
    char = text[at]
    if char == "\\" and mode not in {"single", "comment"}:
        return 2
    if char == closer:
        frames.pop()
        return 1
    for opener, by_mode in OPENERS:
        if mode in by_mode and text.startswith(opener, at):
            frames.append(by_mode[mode])
            return len(opener)
    if mode == "bare" and char == "#" and (at == 0 or text[at - 1] in " \t\n;&|("):
        frames.append(("comment", "\n"))
    return 1


def _heredoc_width(text: str, ending: str) -> int:
    """How far a here-document reaches; `text` begins with the line break before it."""
    match = re.search(rf"\n\t*{re.escape(ending)}(?=\n|\Z)", text)
    width = match.start() if match else len(text)
    if slot := PLACEHOLDER.search(text, 0, width):
        raise ConfigError(
            f"command: `{slot[0]}` stands in a here-document",
            hint="let the program read `$BAY_PARAMS`, or pass it as an argument",
        )
    return max(width, 1)
