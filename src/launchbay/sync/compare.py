"""What has changed between code as it stands and code that was frozen."""

from __future__ import annotations

import filecmp
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from launchbay.sync.snapshot import Listing


def changed_paths(listing: Listing, tree: Path) -> list[str]:
    """Paths that were added, removed or changed since the tree was frozen, sorted."""
    now = {path: source for path, source, *_ in listing.entries}
    before = {
        os.path.relpath(os.path.join(folder, name), tree)  # noqa: PTH118
        for folder, _, names in os.walk(tree)
        for name in names
    }
    same = {
        path for path in before & set(now) if _same(tree / path, now[path])
    }
    return sorted((before | set(now)) - same)


def _same(old: Path, source: str) -> bool:
    if old.is_symlink() or os.path.islink(source):  # noqa: PTH114
        return old.is_symlink() and os.path.islink(source) and os.readlink(old) == os.readlink(source)  # noqa: PTH114, PTH115
    try:
        return filecmp.cmp(old, source, shallow=False)
    except OSError:
        return False
