"""The programs that a shell text calls, found as far as it can be told without running it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

CALL = re.compile(
    r"""
    (?:^|[;&|({\n`!]|\b(?:if|then|do|else|while|until|exec)\s|\s-c\s+["'])  # where a command begins
    [ \t]*(?:(?:time|env|nice|nohup|sudo|timeout[ \t]+\S+|\w+=\S*)[ \t]+)*  # what runs it
    (make|bay[ ]toolbox|git|conda|s5cmd|sleep)[ \t]+((?:'[^'\n]*'|"[^"\n]*"|[^;&|)\n'"`])*)
    """,
    re.VERBOSE,
)
TOOLBOX = frozenset({"make", "bay toolbox"})
"""What the first tool's targets are called by."""
DOWN = frozenset({"download", "down"})
UP = frozenset({"upload", "up"})


class Call(NamedTuple):
    """A program and the words behind its name."""

    program: str
    words: list[str]

    @property
    def moves(self) -> str:
        """The first target among them that moves data; empty where there is none."""
        targets = (word for word in self.words if word in DOWN | UP)
        return next(targets, "") if self.program in TOOLBOX else ""


def find_calls(text: str) -> Iterator[Call]:
    """The calls of programs that work otherwise here, in order.

    >>> [call.words for call in find_calls("cd x && make download file='my data/'; python a.py")]
    [['download', 'file=my data/']]
    """
    for program, rest in CALL.findall(text.replace("\\\n", " ")):
        try:
            yield Call(program, shlex.split(rest))
        except ValueError:
            # A quote that does not end.
            yield Call(program, rest.split())
