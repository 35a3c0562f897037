"""Launch entries of VS Code: from a command to an entry, and into the user's own file.

The file is JSON with comments and belongs to the user: new entries are put in behind those that
are there, one that is to be replaced gives way to the new one, and every other byte stays.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from launchbay.config.jsonc import line_of, parse_jsonc
from launchbay.config.problems import file_error
from launchbay.core.errors import StoreError
from launchbay.core.whole import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from launchbay.config.jsonc import Node

FILE = ".vscode/launch.json"
HERE = "${workspaceFolder}"
CONFIGURATIONS = "configurations"
INDENT = "    "
Outcome = Literal["added", "exists", "overwritten"]

WORD = r"""(?:[^\s;&|()<>'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+"""
TOKEN = re.compile(
    rf"""
    (?:[ \t]|\\\r?\n)*                         # a line that goes on
    (?:(?P<redirect>\d*(?:&>>?|>>|>[&|]?|<<<|<<-?|<[&>]?)) # a digit right before it belongs to it
    | (?P<end>&&|\|\|?|;;?|&|[()\r\n])
    | (?P<comment>\#[^\r\n]*)
    | (?P<word>{WORD}))
    """,
    re.VERBOSE | re.DOTALL,
)
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
PYTHON = re.compile(r"(?:.*/)?python(?:\d+(?:\.\d+)?)?")
BEFORE = frozenset({"command", "env", "exec", "nice", "nohup", "time"})
"""Programs that start another one, which is named behind them."""
RUNNERS = frozenset({"conda", "hatch", "mamba", "micromamba", "pdm", "pipenv", "poetry", "uv"})
"""The same, by their `run`."""
VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""Options of Python that take the next word."""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """How a command starts Python."""

    python: str
    options: tuple[str, ...] = ()
    module: str = ""
    script: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """What the command sets before."""
    folder: str = ""
    """Where the command has gone before."""


def find_python(command: str) -> Invocation | None:
    """The first program that a shell command has Python run; None where there is none.

    >>> found = find_python("make data; A=1 python -u src/x.py --lr '1 2' > log")
    >>> found.script, found.args, found.options, dict(found.env)
    ('src/x.py', ('--lr', '1 2'), ('-u',), {'A': '1'})
    """
    env: dict[str, str] = {}
    folder = ""
    for words in split_commands(command):
        own, rest = _assignments(words)
        if rest[:1] == ["export"] or not rest:
            env |= _assignments(rest[1:])[0] | own
        elif rest[0] == "cd" and len(rest) > 1:
            folder = str(PurePosixPath(folder) / rest[1])
        elif at := _python_at(rest):
            set_before = _assignments([word for word in rest[: at - 1] if "=" in word])[0]
            found = _parse_python(rest[at - 1 :], {**env, **own, **set_before}, folder)
            if found:
                return found
    return None


def split_commands(text: str) -> Iterator[list[str]]:
    """The words of each simple command of a shell text, without quotes and redirections."""
    words: list[str] = []
    skipping = False
    for token in TOKEN.finditer(text):
        if token["redirect"]:
            skipping = True
        elif word := token["word"]:
            words += [] if skipping else _unquote(word)
            skipping = False
        elif token["end"]:
            yield words
            words, skipping = [], False
    yield words


def make_entry(
    name: str, found: Invocation, env: Mapping[str, str], folder: Path
) -> dict[str, object]:
    """The launch entry of a command.

    Args:
        name: what the list of VS Code calls it.
        found: how Python is started.
        env: variables besides those that the command sets.
        folder: the project's.
    """
    entry: dict[str, object] = {"name": name, "type": "debugpy", "request": "launch"}
    where = _inside(found.folder)
    if found.module:
        entry["module"] = found.module
    else:
        entry["program"] = _inside(found.folder, found.script)
    if found.args:
        entry["args"] = list(found.args)
    if found.options:
        entry["pythonArgs"] = list(found.options)
    if "/" in found.python:
        entry["python"] = _inside(found.folder, found.python)
    entry["cwd"] = where
    if (folder / ".env").is_file():
        entry["envFile"] = f"{HERE}/.env"
    path = [HERE, *([f"{HERE}/src"] if (folder / "src").is_dir() else [])]
    given = {**env, **found.env}
    path += [one for one in given.pop("PYTHONPATH", "").split(os.pathsep) if one]
    # What is debugged is not for the tracker, unless somebody says so.
    entry["env"] = {"WANDB_MODE": "offline", **given, "PYTHONPATH": os.pathsep.join(path)}
    return entry | {"console": "integratedTerminal", "justMyCode": False}


def write_entries(
    path: Path, entries: Sequence[Mapping[str, object]], *, overwrite: bool
) -> list[Outcome]:
    """Have entries in a file; what became of each.

    Raises:
        ConfigError: when the file is no such file; nothing is written then.
        StoreError: when it cannot be written.
    """
    try:
        text = path.read_bytes().decode() if path.exists() else ""
        after, outcomes = insert_entries(text, entries, file=path, overwrite=overwrite)
        if after != text:
            _replace(path.resolve(), after)
    except UnicodeDecodeError as err:
        raise file_error(path, "not a text in UTF-8", "write it in UTF-8") from err
    except OSError as err:
        hint = "see that the file and its folder can be written"
        raise StoreError(f"`{path}` cannot be written: {err.strerror}", hint=hint) from err
    return outcomes


def insert_entries(
    text: str, entries: Sequence[Mapping[str, object]], *, file: Path, overwrite: bool
) -> tuple[str, list[Outcome]]:
    """The text with the entries in it, and what became of each.

    Raises:
        ConfigError: when the text is broken, or has no list of configurations.
    """
    if not text.strip():
        return _render_file(entries), ["added"] * len(entries)
    array = _find_array(text, file)
    there: dict[object, Node] = {}
    for item in array.items or ():
        named = item.member("name")
        there.setdefault(named.value if named else None, item)
    style = _Style(text, array)
    known: Outcome = "overwritten" if overwrite else "exists"
    outcomes = [known if entry["name"] in there else "added" for entry in entries]
    changes = style.additions([one for one in entries if one["name"] not in there])
    if overwrite:
        old = [(there[one["name"]], one) for one in entries if one["name"] in there]
        changes += [(node.start, node.end, style.render(one, node.start)) for node, one in old]
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text, outcomes


def _find_array(text: str, file: Path) -> Node:
    root = parse_jsonc(text, file)
    array = root.member(CONFIGURATIONS)
    if array is None or array.items is None:
        at = line_of(text, array.start if array else root.start)
        hint = f'write `"{CONFIGURATIONS}": []` into it; nothing was written'
        raise file_error(file, f"it has no list `{CONFIGURATIONS}`", hint, at)
    return array


@dataclass(frozen=True)
class _Style:
    """How the user's file is laid out."""

    text: str
    array: Node

    def additions(self, entries: Sequence[Mapping[str, object]]) -> list[tuple[int, int, str]]:
        """What is put where so that entries stand behind those that are there."""
        if not entries:
            return []
        items = self.array.items or ()
        close = self.array.end - 1
        # Behind what is said of the last entry, and before the blanks that lead to the bracket.
        at = len(self.text[:close].rstrip())
        made = [
            f"{self._newline}{self._indent}{self._lay_out(one, self._indent)}" for one in entries
        ]
        new = ",".join(made) + "," * self.array.trailing
        if "\n" not in self.text[at:close]:
            new += self._newline + self._line_indent(self.array.start)
        if not items or self.array.trailing:
            return [(at, at, new)]
        last = items[-1].end
        return [(last, at, f",{self.text[last:at]}{new}")]

    def render(self, entry: Mapping[str, object], at: int) -> str:
        """An entry that begins at a place."""
        return self._lay_out(entry, self._line_indent(at))

    def _lay_out(self, entry: Mapping[str, object], indent: str) -> str:
        text = json.dumps(entry, indent=self._unit, ensure_ascii=False)
        return text.replace("\n", f"{self._newline}{indent}")

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    @property
    def _indent(self) -> str:
        """What stands before an entry."""
        around = self._line_indent(self.array.start)
        own = [self._line_indent(item.start) for item in self.array.items or ()]
        deeper = [one for one in own if len(one) > len(around)]
        return deeper[-1] if deeper else around + self._unit

    @property
    def _unit(self) -> str:
        """One step inward."""
        found = self._line_indent(self.array.start)
        return (
            found if found and not found.strip(found[0]) and len(found) <= len(INDENT) else INDENT
        )

    def _line_indent(self, at: int) -> str:
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]


def _render_file(entries: Sequence[Mapping[str, object]]) -> str:
    whole = {"version": "0.2.0", CONFIGURATIONS: list(entries)}
    return json.dumps(whole, indent=INDENT, ensure_ascii=False) + "\n"


def _replace(path: Path, text: str) -> None:
    """Have the text there at once or not at all, with the mode that the file had."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        if path.exists():
            draft.touch(mode=0o600)
            draft.chmod(path.stat().st_mode & 0o7777)
        draft.write_bytes(text.encode())


def _unquote(word: str) -> list[str]:
    try:
        return shlex.split(word, comments=False)
    except ValueError:
        return [word]


def _assignments(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The variables that a simple command begins with, and its other words."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        match = ASSIGNMENT.fullmatch(word)
        if match is None:
            return found, list(words[at:])
        found[match[1]] = match[2]
    return found, []


def _python_at(words: Sequence[str]) -> int:
    """Behind which word `python` is the program; 0 where it is not."""
    starts = words[0] in BEFORE or (words[0] in RUNNERS and "run" in words[:4])
    for at, word in enumerate(words, start=1):
        if PYTHON.fullmatch(word):
            return at
        if not starts:
            return 0
    return 0


def _parse_python(words: Sequence[str], env: Mapping[str, str], folder: str) -> Invocation | None:
    """What comes behind `python`; None where that is no file and no module."""
    options: list[str] = []
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word.startswith("-c"):
            return None
        if word.startswith("-m"):
            module = word[2:] or (rest.pop(0) if rest else "")
            found = Invocation(python=words[0], module=module, args=tuple(rest))
            break
        options += [word, *([rest.pop(0)] if word in VALUED and rest else [])]
    else:
        if not rest or rest[0] == "-":
            return None
        found = Invocation(python=words[0], script=rest[0], args=tuple(rest[1:]))
    return Invocation(
        **{**vars(found), "options": tuple(options), "env": dict(env), "folder": folder}
    )


def _inside(*parts: str) -> str:
    """A path as VS Code takes it, below the folder that it has opened."""
    path = PurePosixPath(*parts)
    if path.is_absolute():
        return str(path)
    return HERE if path == PurePosixPath() else f"{HERE}/{path}"
