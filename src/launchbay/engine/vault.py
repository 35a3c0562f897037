"""Values that are not shown: where they come from, and how they are kept out of what is."""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|PRIVATE", re.IGNORECASE)
ASSIGNMENT = re.compile(r"((?:--env=)?[A-Z_][A-Z0-9_]*)=.+", re.DOTALL)
SHORTEST = 4
"""What is shorter is no secret, and would be found in every other word."""
MASK = "***"


class Vault:
    """The variables that travel apart: from files that a project names, `.env`, this shell."""

    def __init__(
        self, folder: Path, *, dotenv: Mapping[str, str], files: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._dotenv = dotenv
        self._files = files

    def __call__(self, name: str) -> str:
        """The value of a secret.

        Raises:
            BadRequest: when it is not there.
        """
        value = self.find(name)
        if value is None:
            raise BadRequest(
                f"secret `{name}` is not set",
                hint=f"`export {name}=…`, or a line `{name}=…` in the project's `.env`",
            )
        return value

    def find(self, name: str) -> str | None:
        """The value of a secret, None when there is none.

        Raises:
            BadRequest: when its file cannot be read.
        """
        if file := self._files.get(name):
            path = self._folder / Path(file).expanduser()
            try:
                return path.read_text().rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as err:
                raise BadRequest(
                    f"secret `{name}`: `{file}` cannot be read",
                    hint="write the value into that file, or correct the path in `secrets:`",
                ) from err
        return self._dotenv.get(name, os.environ.get(name))

    def has(self, name: str) -> bool:
        """Whether the value of a secret can be had now."""
        try:
            return self.find(name) is not None
        except BadRequest:
            return False

    def mask(self, text: str) -> str:
        """The text without the values of what is declared secret, or is called so."""
        for value in self._values:
            text = text.replace(value, MASK)
        return text

    def mask_word(self, word: str) -> str:
        """A typed word without secrets: `--env API_KEY=…` is one by its name.

        >>> Vault(Path(), dotenv={}, files={}).mask_word("--env=API_KEY=abc")
        '--env=API_KEY=***'
        """
        match = ASSIGNMENT.fullmatch(word)
        if match and SECRET_NAME.search(match[1]):
            return f"{match[1]}={MASK}"
        return self.mask(word)

    @cached_property
    def _values(self) -> list[str]:
        """What is masked, the longest first; a plan masks every row of it."""
        named = {name for name in self._dotenv if SECRET_NAME.search(name)}
        found = {self.find(name) for name in {*named, *self._files} if self.has(name)}
        values = {value for value in found if value and len(value) >= SHORTEST}
        return sorted(values, key=len, reverse=True)
