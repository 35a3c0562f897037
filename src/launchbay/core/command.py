r"""Putting parameter values into a command, so that they arrive verbatim.

In words (`Argv`) a value takes the place of `<key>`. In shell text (`Script`) it is quoted for
where it stands: bare, in "…", in '…', in $'…'. Where no quoting can be right (a here-document,
backquotes, "${…}") a placeholder is an error. `\<` is a literal `<`.

Shell text knows more: `<key:raw>` is the value as typed, anywhere; `<key:flag>` is `--key` or
nothing; `<params>` is `--key value` and `<overrides>` is `key=value` for all parameters.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from launchbay.core.errors import ConfigError
from launchbay.core.job import Argv, Command, Script
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

KEY = r"[A-Za-z_][\w.-]*"
KEY_IN_WORD = re.compile(rf"<({KEY})>")
PLACEHOLDER = re.compile(rf"<({KEY})(?::(\w+))?>")
MARK = re.compile(rf"\\<|{PLACEHOLDER.pattern}")
HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(\\?[\w-]+|'[^'\n]+'|\"[^\"\n]+\")")
UNAPPENDED = frozenset({"repeat"})
"""Parameters that programs do not know; they reach a command only where it names them."""
MODIFIERS = ("raw", "flag")
LISTS = ("params", "overrides")
"""Placeholders of shell text that stand for all parameters, unless one is called so."""
LONGEST_LIST = 60
TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0", "none", "null", ""})


def fill(
    command: Command,
    params: Mapping[str, str],
    *,
    append: str = "",
    unlisted: Collection[str] = (),
) -> Command:
    """The command with its placeholders replaced; keys that none uses are appended.

    Args:
        command: as written.
        params: every key that may stand as `<key>`.
        append: how words get the keys that none of them names: `--` as `--key value`, `=` as
            `key=value`, empty not at all.
        unlisted: keys that shell text gets by their own placeholder only, not by `<params>` or
            `<overrides>`.

    Raises:
        ConfigError: when shell text holds a `<name>` that is no parameter, or one where no
            quoting can be right.
    """
    if isinstance(command, Argv):
        return _fill_words(command, params, append)
    template = _parse_script(command.text)
    parts = [
        part
        for literal, slot in template.parts
        for part in (literal, _insert(slot, params, unlisted))
    ]
    return Script("".join(parts) + template.tail)


def fill_text(text: str, params: Mapping[str, str]) -> str:
    r"""Text that no shell reads, with each `<key>` and `<key:raw>` replaced by the value itself.

    >>> fill_text(r"team/image:<tag>-\<tag>", {"tag": "a b"})
    'team/image:a b-<tag>'

    Raises:
        ConfigError: when a `<name>` is no parameter; the message does not say where the text is.
    """

    def replacement(mark: re.Match[str]) -> str:
        slot = _parse_mark(mark, "text")
        return _insert(slot, params) if slot else "<"

    return MARK.sub(replacement, text)


def placeholders(text: str) -> frozenset[str]:
    """The keys that shell text names, `params` and `overrides` among them.

    >>> sorted(placeholders("p <lr> '<tag:raw>' <params> # <not>"))
    ['lr', 'params', 'tag']
    """
    return frozenset(slot.key for _, slot in _parse_script(text).parts)


def render(command: Command) -> str:
    """The command as one shell text, for people and for `command.sh`."""
    return command.text if isinstance(command, Script) else shlex.join(command.words)


def _fill_words(command: Argv, params: Mapping[str, str], append: str) -> Argv:
    used = {key for word in command.words for key in KEY_IN_WORD.findall(word)}
    words = [
        KEY_IN_WORD.sub(lambda match: params.get(match[1], match[0]), word)
        for word in command.words
    ]
    for key, value in params.items():
        if key in used or key in UNAPPENDED or not append:
            continue
        words += [f"--{key}", value] if append == "--" else [f"{key}={value}"]
    return Argv(tuple(words))


@dataclass(frozen=True, slots=True)
class _Slot:
    """A placeholder and the kind of place that it stands in."""

    written: str
    key: str
    modifier: str
    mode: str

    def refused(self, why: str, *, hint: str | None) -> ConfigError:
        return ConfigError(f"`{self.written}` {why}", hint=hint)


def _insert(slot: _Slot, params: Mapping[str, str], unlisted: Collection[str] = ()) -> str:
    value = params.get(slot.key)
    if value is None:
        return _insert_list(slot, params, unlisted)
    match slot.modifier:
        case "":
            return _quote(value, slot)
        case "raw":
            return value
        case "flag":
            return _insert_flag(slot, value)
    why = f"ends in `{slot.modifier}`, which is no modifier"
    raise slot.refused(why, hint=suggest(slot.modifier, MODIFIERS))


def _insert_list(slot: _Slot, params: Mapping[str, str], unlisted: Collection[str]) -> str:
    if slot.key not in LISTS or slot.modifier or slot.mode == "text":
        raise slot.refused("is no parameter", hint=_leftover_hint(slot, params))
    _require_bare(slot)
    listed = [
        (key, value)
        for key, value in params.items()
        if key not in unlisted and key not in UNAPPENDED
    ]
    if slot.key == "overrides":
        return shlex.join(f"{key}={value}" for key, value in listed)
    return shlex.join(word for key, value in listed for word in (f"--{key}", value))


def _insert_flag(slot: _Slot, value: str) -> str:
    _require_bare(slot)
    if value.lower() in TRUE:
        return f"--{slot.key}"
    if value.lower() in FALSE:
        return ""
    hint = (
        f"use true, yes, on or 1 for `--{slot.key}`; "
        "false, no, off, 0, none, null or an empty value for nothing"
    )
    raise slot.refused(f"is `{value}`, neither true nor false", hint=hint)


def _leftover_hint(slot: _Slot, params: Mapping[str, str]) -> str:
    escape = rf"write `\{slot.written}` for that very text"
    if slot.key.startswith("_") and slot.key[1:] in params:
        return f"write `<{slot.key[1:]}>`, the `_` is no part of its name; or {escape}"
    # difflib is slow to load and only wanted when something is wrong already.
    from difflib import get_close_matches  # noqa: PLC0415

    names = [*params] if slot.mode == "text" else [*params, *LISTS]
    if near := get_close_matches(slot.key, names, n=1):
        modifier = f":{slot.modifier}" if slot.modifier in MODIFIERS and near[0] in params else ""
        return f"did you mean `<{near[0]}{modifier}>`? Or {escape}"
    some = ", ".join(f"`{key}`" for key in params if key not in UNAPPENDED)
    known = f" beside {some}" if some and len(some) <= LONGEST_LIST else ""
    return f"add `{slot.key}` to `params:`{known}, or {escape}"


def _quote(value: str, slot: _Slot) -> str:
    match slot.mode:
        case "bare":
            return shlex.quote(value) if value else ""
        case "double":
            return re.sub(r'([\\$`"])', r"\\\1", value)
        case "single":
            return value.replace("'", "'\\''")
        case "ansi":
            return value.replace("\\", "\\\\").replace("'", "\\'")
        case "text":
            return value
    why = f"stands {PLACES[slot.mode]}, where no quoting is right"
    raise slot.refused(why, hint=UNQUOTABLE[slot.mode].format(key=slot.key))


def _require_bare(slot: _Slot) -> None:
    if slot.mode != "bare":
        hint = UNSPLITTABLE.get(slot.mode, "move it out of the quotes").format(key=slot.key)
        raise slot.refused(f"stands {PLACES[slot.mode]}", hint=hint)


PLACES = {
    "double": "in double quotes",
    "single": "in single quotes",
    "ansi": "in `$'…'`",
    "backquote": "in backquotes",
    "brace": 'in `"${…}"`',
    "heredoc": "in a here-document",
    "text": "in plain text",
}
# Shells disagree about quotes in these, so no quoting can be right.
UNQUOTABLE = {
    "backquote": "write `$(…)` in place of the backquotes",
    "brace": "set a variable first: `x=<{key}>`",
    "heredoc": "let the program read `$BAY_PARAMS`, or write `<{key}:raw>` for the value as typed",
}
UNSPLITTABLE = {
    "backquote": "write `$(…)` in place of the backquotes",
    "heredoc": "let the program read `$BAY_PARAMS`, or pass it as an argument",
    "text": "write `<{key}>` for its value",
}
"""What to do where a value could be right but words of their own cannot."""


@dataclass(frozen=True, slots=True)
class _Template:
    """Text cut at its placeholders: each with the literal text before it, then the rest."""

    parts: tuple[tuple[str, _Slot], ...]
    tail: str


@lru_cache(maxsize=64)
def _parse_script(text: str) -> _Template:
    parts: list[tuple[str, _Slot]] = []
    literal = ""
    at = 0
    for mark, mode in _find_marks(text):
        literal += text[at : mark.start()]
        at = mark.end()
        if slot := _parse_mark(mark, mode):
            parts.append((literal, slot))
            literal = ""
        else:
            literal += "<"
    return _Template(tuple(parts), literal + text[at:])


def _parse_mark(mark: re.Match[str], mode: str) -> _Slot | None:
    """The placeholder, or `None` for a literal `<`."""
    if mark[1] is None:
        return None
    return _Slot(mark[0], mark[1], mark[2] or "", mode)


def _find_marks(text: str) -> Iterator[tuple[re.Match[str], str]]:
    r"""Each placeholder and each `\<`, with the kind of quotes that it stands in."""
    frames = [("bare", "")]
    ending: str | None = None
    at = 0
    while at < len(text):
        mode = frames[-1][0]
        if ending is not None and text[at] == "\n" and mode in {"bare", "comment"}:
            if mode == "comment":
                frames.pop()
            end = _heredoc_end(text, at, ending)
            yield from ((mark, "heredoc") for mark in MARK.finditer(text, at, end))
            at, ending = end, None
        elif mode != "comment" and (mark := MARK.match(text, at)):
            yield mark, mode
            at = mark.end()
        elif mode == "bare" and (heredoc := _match_heredoc(text, at)):
            ending = heredoc[1].strip("\\'\"")
            at = heredoc.end()
        else:
            at += _step(text, at, frames)


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


def _match_heredoc(text: str, at: int) -> re.Match[str] | None:
    heredoc = HEREDOC.match(text, at)
    if heredoc is None:
        return None
    # In `$((1 << n))` it shifts a number.
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return heredoc if before.rfind("((") <= before.rfind("))") else None


def _heredoc_end(text: str, at: int, ending: str) -> int:
    """Where a here-document ends that begins after the line break at `at`."""
    last = re.compile(rf"\n\t*{re.escape(ending)}(?=\n|\Z)").search(text, at)
    return max(last.start(), at + 1) if last else len(text)
