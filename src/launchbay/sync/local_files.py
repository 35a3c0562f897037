"""The files below a folder, as keys, and where a key's file would be."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import DataError
from launchbay.sync.folder_bucket import is_temporary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from launchbay.sync.patterns import Pattern

LONGEST_NAME = 255
STALE_S = 3600
OLD_S = 7 * 24 * 3600

LINK_OUT = "a link that leads out of the folder"
LINK_TO_FOLDER = "a link to a folder"
LINK_TO_NOTHING = "a link to nothing"
NO_FILE = "not a file but a pipe, a socket or a device"
UNREADABLE = "it cannot be read"


@dataclass(kw_only=True)
class LocalFiles:
    """What a folder holds: `files` by key; what is left out, with why."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    stale: list[Path] = field(default_factory=list)
    """Beginnings of downloads that nobody will continue."""


def list_files(root: Path, pattern: Pattern) -> LocalFiles:
    """The files below the folder that match, links not followed out of it."""
    found = LocalFiles()
    start = root / pattern.folder
    if pattern.literal is not None:
        _list_literal(root, pattern, found)
    elif leads_out(root, start):
        found.left_out[pattern.folder] = LINK_OUT
    else:
        _scan(root, str(start), pattern.folder, pattern, found)
    return found


def _list_literal(root: Path, pattern: Pattern, found: LocalFiles) -> None:
    """One name: the file, or all below the folder, without looking at what lies beside."""
    name = pattern.literal or ""
    path = root / name
    if ".." in path.parts or leads_out(root, path.parent):
        found.left_out[name] = LINK_OUT
    elif path.is_symlink():
        if pattern.matches(name):
            _add_link(root, name, found)
    elif path.is_dir():
        _scan(root, str(path), f"{name}/", pattern, found)
    elif path.exists() and pattern.matches(name):
        _add(name, path.stat(), found)


def _scan(root: Path, folder: str, prefix: str, pattern: Pattern, found: LocalFiles) -> None:
    folders = [(folder, prefix)]
    while folders:
        folder, prefix = folders.pop()
        for entry in _entries(folder, prefix, found):
            key = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, f"{key}/"))
            elif is_temporary(entry.name):
                _add_stale(entry, found)
            elif not pattern.matches(key):
                continue
            elif entry.is_symlink():
                _add_link(root, key, found)
            else:
                _add(key, entry.stat(follow_symlinks=False), found)


def _entries(folder: str, prefix: str, found: LocalFiles) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        found.left_out[prefix or "."] = UNREADABLE


def _add(key: str, status: os.stat_result, found: LocalFiles) -> None:
    if stat.S_ISREG(status.st_mode):
        found.files[key] = status
    else:
        found.left_out[key] = NO_FILE


def _add_link(root: Path, key: str, found: LocalFiles) -> None:
    path = root / key
    try:
        status = path.stat()
    except OSError:
        found.left_out[key] = LINK_TO_NOTHING
        return
    if leads_out(root, path):
        found.left_out[key] = LINK_OUT
    elif stat.S_ISDIR(status.st_mode):
        found.left_out[key] = LINK_TO_FOLDER
    else:
        _add(key, status, found)


def _add_stale(entry: os.DirEntry[str], found: LocalFiles) -> None:
    """A small download leaves its beginning only when it is killed; a big one is resumed."""
    age = time.time() - entry.stat(follow_symlinks=False).st_mtime
    if age > (STALE_S if "-" in entry.name.removeprefix(".bay-") else OLD_S):
        found.stale.append(Path(entry.path))


def leads_out(root: Path, path: Path) -> bool:
    """Whether the path, with all links followed, lies outside of the folder."""
    real, top = os.path.realpath(path), os.path.realpath(root)
    return real != top and not real.startswith(top.rstrip("/") + "/")


class Places:
    """Where keys go below a folder, and which have no place there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, str] = {"": ""}
        self._folds = folds_case(root)
        self._taken: dict[str, str] = {}

    def why_not(self, key: str) -> str:
        """Why the key can have no file here; "" when it can."""
        parts = key.split("/")
        if {"", ".", ".."} & set(parts) or "\0" in key:
            return "its name would lead out of the folder"
        if any(len(os.fsencode(part)) > LONGEST_NAME for part in parts):
            return f"a part of its name is longer than {LONGEST_NAME} bytes"
        if is_temporary(parts[-1]):
            return "its name is one that launchbay uses for downloads that are not whole"
        return self._why_no_folder(parts[:-1]) or self._why_taken(key)

    def _why_no_folder(self, parts: list[str]) -> str:
        folder = "/".join(parts)
        if folder not in self._folders:
            above = self._why_no_folder(parts[:-1])
            self._folders[folder] = above or self._look(self.root / folder)
        return self._folders[folder]

    def _look(self, folder: Path) -> str:
        try:
            status = folder.lstat()
        except OSError:
            return ""
        if stat.S_ISLNK(status.st_mode):
            return LINK_OUT if leads_out(self.root, folder) else ""
        return "" if stat.S_ISDIR(status.st_mode) else f"`{folder}` is a file here, not a folder"

    def _why_taken(self, key: str) -> str:
        if not self._folds:
            return ""
        other = self._taken.setdefault(key.casefold(), key)
        return "" if other == key else f"it would be the same file here as {other}"


def folds_case(folder: Path) -> bool:
    """Whether the file system takes `A` and `a` for one name."""
    while not folder.exists():
        folder = folder.parent
    other = folder.with_name(folder.name.swapcase()) if folder.name else folder
    if other.name == folder.name:
        return False
    try:
        return other.samefile(folder)
    except OSError:
        return False


def check_folder(folder: Path) -> Path:
    """The folder, links followed.

    Raises:
        DataError: when there is none; mirroring nothing would delete everything.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder `{folder}`", hint="check the name")
    return folder.resolve()
