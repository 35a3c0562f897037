"""Small files, read and written so that nobody sees half of one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from typing import Any

TAIL_BYTES = 262144


def read_text(path: str) -> str:
    """The file's text; empty where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def read_tail(path: str) -> str:
    """The end of the file's text; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def read_json(path: str) -> dict[str, Any]:
    """The object that the file holds; an empty one where there is none, or no JSON."""
    try:
        value = json.loads(read_text(path) or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def write_new(path: str, text: str) -> None:
    """A file that nobody reads yet, mode 600."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        rest = text.encode("utf-8", "surrogateescape")
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)


def write_whole(path: str, text: str) -> None:
    """The whole file or none of it, mode 600."""
    draft = draft_name(path)
    write_new(draft, text)
    os.replace(draft, path)


def write_or_remove(path: str, text: str) -> None:
    """The file, or none where there is nothing to say."""
    if text:
        write_whole(path, text)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def draft_name(path: str) -> str:
    """A name beside `path` for what becomes it; those with a dot are nobody's business."""
    return os.path.join(os.path.dirname(path), ".%s.%d" % (os.path.basename(path), os.getpid()))


def has(folder: str, name: str) -> bool:
    """Whether the folder holds it."""
    return os.path.exists(os.path.join(folder, name))


def link_or_copy(source: str, target: str) -> None:
    """The same file under a second name, or a copy where that cannot be."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def digest(value: object) -> str:
    """A short hash of plain data."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
