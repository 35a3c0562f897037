"""What has changed between code as it stands and code that was frozen."""

from __future__ import annotations

import filecmp
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launchbay.sync.snapshot import Listing


def changed_paths(listing: Listing, tree: Path) -> list[str]:
    """Paths that were added, removed or changed since the tree was frozen, sorted."""
    now = {path: source for path, source, *_ in listing.entries}
    before = {
        os.path.relpath(os.path.join(folder, name), tree)  # noqa: PTH118
        for folder, _, names in os.walk(tree)
        for name in names
    }
    same = {path for path in before & set(now) if _same(tree / path, Path(now[path]))}
    return sorted((before | set(now)) - same)


def _same(old: Path, new: Path) -> bool:
    if old.is_symlink() or new.is_symlink():
        return old.is_symlink() and new.is_symlink() and old.readlink() == new.readlink()
    try:
        return filecmp.cmp(old, new, shallow=False)
    except OSError:
        return False
