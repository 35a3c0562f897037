"""What commands fetch for themselves, `make download file=data/`: it does not travel as code."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launchbay.core.sugar import choose_side, strip_comments
from launchbay.engine.calls import DOWN, find_calls

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from launchbay.config.schema import ExperimentFile

UNSETTLED = re.compile(r"[*?\[<$`]")
"""What is only known once a run runs, or is more than one name."""


def find_downloads(file: ExperimentFile | None, folder: Path) -> tuple[str, ...]:
    """The files and folders of the project that commands of its file fetch elsewhere."""
    written = [file, *(file.model or {}).values()] if file else []
    texts = [one.command for one in written if one and one.command]
    return fetched_by([choose_side(strip_comments(text), "remote") for text in texts], folder)


def fetched_by(commands: Iterable[str], folder: Path) -> tuple[str, ...]:
    """The files and folders of the project that these commands fetch."""
    calls = (call for command in commands for call in find_calls(command) if call.moves in DOWN)
    named = (
        word.removeprefix("file=")
        for call in calls
        for word in call.words
        if word.startswith("file=")
    )
    return tuple(dict.fromkeys(path for text in named if (path := _inside(text, folder))))


def _inside(text: str, folder: Path) -> str:
    """The path of what is named; empty where it is not there, or leads out of the project."""
    path = PurePosixPath(text)
    leads_out = path.is_absolute() or ".." in path.parts or not path.parts
    return "" if leads_out or UNSETTLED.search(text) or not (folder / path).exists() else str(path)
