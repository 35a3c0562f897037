"""What the first tool's verbs share: variables that were given to them as `make` takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from launchbay.cli.screen import confirm, interactive
from launchbay.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

YES = frozenset({"true", "1", "yes", "y", "on"})
NO = frozenset({"", "false", "0", "no", "n", "off"})


@dataclass(frozen=True)
class Given:
    """A verb and what was typed behind it as `NAME=VALUE`."""

    verb: str
    values: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        """A variable's value."""
        return self.values.get(name) or default

    def truth(self, name: str) -> bool:
        """Whether a variable says yes.

        Raises:
            BadRequest: when it says neither yes nor no.
        """
        word = self.values.get(name, "").lower()
        if word not in YES | NO:
            raise BadRequest(
                f"`{name}={self.values[name]}` is neither yes nor no", hint=f"write `{name}=true`"
            )
        return word in YES

    def agreed(self, question: str) -> bool:
        """Whether somebody says yes, or said so as `yes=true`.

        Raises:
            BadRequest: when nobody is here to answer.
        """
        return confirm(question, yes=self.truth("yes"), how="add `yes=true`")

    def needed(self, name: str, question: str) -> str:
        """A variable's value, asked for where somebody can answer.

        Raises:
            BadRequest: when it was not given and nobody is here.
        """
        if value := self.values.get(name):
            return value
        answer = ""
        if interactive():
            answer = str(click.prompt(question, default="", show_default=False, err=True)).strip()
        if not answer:
            raise BadRequest(f"`{self.verb}` needs `{name}=…`", hint=f"`make {self.verb} {name}=…`")
        return answer
