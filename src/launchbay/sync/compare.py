"""What has changed between code as it stands and code that was frozen."""

from __future__ import annotations

import filecmp
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from launchbay.sync.snapshot import Listing


def changed_paths(listing: Listing, tree: Path) -> list[str]:
    """Paths that were added, removed or changed since the tree was frozen, sorted."""
    now = {path: source for path, source, *_ in listing.entries}
    before = set(tree_paths(tree))
    same = {path for path in before & set(now) if _alike(tree / path, Path(now[path]))}
    return sorted((before | set(now)) - same)


def _alike(old: Path, new: Path) -> bool:
    """Whether both have the same content, and can both be run or both not."""
    if not same_content(old, new):
        return False
    return old.is_symlink() or not (old.stat().st_mode ^ new.stat().st_mode) & 0o100


def tree_paths(tree: Path) -> Iterator[str]:
    """Files and links, without following any."""
    for folder, folders, files in os.walk(tree):
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in (*files, *links):
            yield (Path(folder) / name).relative_to(tree).as_posix()


def same_content(old: Path, new: Path) -> bool:
    """Whether both are links to the same, or files of the same bytes."""
    if old.is_symlink() or new.is_symlink():
        return old.is_symlink() and new.is_symlink() and old.readlink() == new.readlink()
    try:
        # Equal files are often one file with two names.
        return old.samefile(new) or filecmp.cmp(old, new, shallow=False)
    except OSError:
        return False
