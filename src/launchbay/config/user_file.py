"""Changing the user's configuration: `bay config set`, `bay target add` and their opposites."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.config.edits import remove_key, set_key
from launchbay.config.files import Document, Value, parse_document, read_text
from launchbay.config.paths import shown_path
from launchbay.config.problems import dotted
from launchbay.config.schema import UserConfig
from launchbay.config.validation import find_problems
from launchbay.core.errors import BadRequest, ConfigError, StoreError
from launchbay.core.nearest import suggest
from launchbay.core.whole import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def set_value(path: Path, dotted_key: str, value_text: str) -> None:
    """Set one key; text that begins with `[` or `{` is read as a YAML list or mapping.

    Raises:
        BadRequest: when there is no such key, or it cannot have that value; nothing is changed.
    """
    text = _read(path)
    value = _parse_typed(value_text)
    _write(path, text, set_key(text, dotted_key.split("."), value, file=path))


def unset_value(path: Path, dotted_key: str) -> None:
    """Remove one key.

    Raises:
        BadRequest: when it is not set.
    """
    text = _read(path)
    document = parse_document(text, path)
    _write(path, text, _without(document, text, dotted_key.split("."), dotted_key))


def write_target(path: Path, name: str, options: Mapping[str, Value]) -> None:
    """Add a target, or replace the one of that name.

    Raises:
        BadRequest: when the name or an option cannot be; nothing is changed.
    """
    text = _read(path)
    _write(path, text, set_key(text, ["targets", name], dict(options), file=path))


def remove_target(path: Path, name: str) -> None:
    """Remove a target; when it was the one in `use`, nothing is in use.

    Raises:
        BadRequest: when there is none of that name.
    """
    text = _read(path)
    document = parse_document(text, path)
    edited = _without(document, text, ["targets", name], f"targets.{name}")
    if document.data.get("use") == name:
        edited = remove_key(edited, ["use"], file=path)
    _write(path, text, edited)


def _parse_typed(text: str) -> Value:
    if not text.startswith(("[", "{")):
        return text
    try:
        return parse_document(f"value: {text}", Path()).data["value"]
    except ConfigError as err:
        hint = "close its brackets; put quotes inside the shell's around text with `,` or `:`"
        raise BadRequest(f"`{text}` is no list or mapping", hint=hint) from err


def _read(path: Path) -> str:
    return read_text(path) if path.exists() else ""


def _without(document: Document, text: str, route: Sequence[str], name: str) -> str:
    try:
        return remove_key(text, route, file=document.file)
    except KeyError as err:
        known = [dotted(one) for one in document.places if one]
        message = f"`{name}` is not set in {shown_path(document.file)}"
        raise BadRequest(message, hint=suggest(name, known)) from err


def _write(path: Path, before: str, after: str) -> None:
    """Replace the file, unless that would put a problem into it that was not there."""
    old, new = (find_problems(parse_document(text, path), UserConfig) for text in (before, after))
    known = {(problem.key, problem.message) for problem in old}
    for problem in new:
        if (problem.key, problem.message) not in known:
            raise BadRequest(f"{problem.key}: {problem.message}", hint=problem.hint)
    try:
        _replace(path, after)
    except OSError as err:
        hint = "check the folder, or set $BAY_CONFIG to a file that you can write"
        raise StoreError(f"cannot write {shown_path(path)}: {err.strerror}", hint=hint) from err


def _replace(path: Path, text: str) -> None:
    # Where the file is a link, as in a folder of dotfiles, it stays one.
    path = path.resolve()
    for folder in reversed([one for one in path.parents if not one.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    with replacing(path) as draft:
        draft.touch(mode=0o600)
        with draft.open("w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
