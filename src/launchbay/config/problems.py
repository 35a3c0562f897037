"""What is wrong with a file, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from launchbay.config.paths import shown_path
from launchbay.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Route: TypeAlias = tuple[str | int, ...]
"""The keys and positions that lead to a value."""


@dataclass(frozen=True)
class Place:
    """Where something stands; lines and columns count from 1."""

    file: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{shown_path(self.file)}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a file."""

    file: Path
    line: int | None
    column: int | None
    key: str
    """Dotted; empty when it is about the file as a whole."""
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        where = shown_path(self.file)
        if self.line is not None:
            where = str(Place(self.file, self.line, self.column or 1))
        return ": ".join(part for part in (where, self.key, self.message) if part)


def dotted(route: Route) -> str:
    """A route as one writes it.

    >>> dotted(("targets", "desk", "devices", 0))
    'targets.desk.devices[0]'
    """
    text = ""
    for key in route:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def split_fix(message: str) -> tuple[str, str | None]:
    """What is wrong, and what to do about it where the message says so last.

    >>> split_fix("`x` is no number; write `1`")
    ('`x` is no number', 'write `1`')
    """
    text, _, fix = message.rpartition("; ")
    return (text, fix) if text else (message, None)


def config_error(problems: Sequence[Problem]) -> ConfigError:
    """One error for all problems, in the order in which they stand."""
    files = list(dict.fromkeys(problem.file for problem in problems))
    unique = sorted(
        dict.fromkeys(problems),
        key=lambda one: (files.index(one.file), one.line or 0, one.column or 0),
    )
    if len(unique) == 1:
        return ConfigError(str(unique[0]), hint=unique[0].hint)
    lines = [f"{one}; {one.hint}" if one.hint else str(one) for one in unique]
    return ConfigError("\n".join([f"{len(unique)} problems", *lines]))


def file_error(
    file: Path, message: str, hint: str, at: tuple[int, int] | None = None
) -> ConfigError:
    """The error about a file as a whole; `at` is a line and a column."""
    line, column = at or (None, None)
    return config_error([Problem(file, line, column, "", message, hint)])
