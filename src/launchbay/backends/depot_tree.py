"""Frozen code on its way to another machine: what differs from a tree that is there already."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from filecmp import cmp
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from launchbay.backends.depot_programs import SETTLE, WHOLE, archive

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_REMOVED = 100_000
"""Bytes of paths: they travel as words, and a system limits those."""

# The newest first, so that the first one that both sides have is the best base.
LOOK = """\
cd "$1/snapshots" 2>/dev/null || exit 0
if [ -d "$2" ]; then echo there; else ls -t; fi
"""
# $1 root, $2 snapshot, $3 draft, $4 base or nothing; then what of the base has to go.
UNPACK = f"""\
{SETTLE}umask 077
mkdir -p "$1/snapshots" && cd "$1/snapshots" || exit 1
snapshot=$2 draft=$3 base=$4
shift 4
make_draft() {{
    [ -n "$base" ] || {{ mkdir "$draft"; return; }}
    cp -al "$base" "$draft" 2>/dev/null && return
    rm -rf "$draft"
    cp -a "$base" "$draft"
}}
make_draft || {{ rm -rf "$draft"; exit 1; }}
(cd "$draft" && {{ [ $# -eq 0 ] || rm -rf -- "$@"; }} && tar -xpof - && rm {WHOLE}) &&
    chmod 755 "$draft" && touch "$draft" && settle "$draft" "$snapshot" ||
    {{ rm -rf "$draft"; exit 1; }}
"""
COPY = f"""\
{SETTLE}umask 077
mkdir -p "$1/snapshots" && cd "$1/snapshots" || exit 1
cp -a "$4" "$3" && settle "$3" "$2" || {{ rm -rf "$3"; exit 1; }}
"""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What makes a copy of a base into a tree."""

    base: str
    """The name of the snapshot to begin with; empty begins with nothing."""
    removed: tuple[str, ...]
    archive: str


def find_difference(tree: Path, there: Sequence[str]) -> Difference:
    """What has to be sent, given the names of the snapshots that are there, the best one first."""
    wanted = list_tree(tree)
    base = next((name for name in there if (tree.parent / name).is_dir()), "")
    held = list_tree(tree.parent / base) if base else {}
    differing = {path for path, entry in wanted.items() if not _same(entry, held.get(path))}
    removed = {
        path
        for path, entry in held.items()
        if path not in wanted or (path in differing and not _both_folders(entry, wanted[path]))
    }
    # Relative to the draft, and never an option.
    outermost = tuple(
        f"./{path}" for path in sorted(removed) if not _goes_with_another(path, removed)
    )
    if sum(len(os.fsencode(path)) + 1 for path in outermost) > MOST_REMOVED:
        return Difference(base="", removed=(), archive=archive(_members(tree, wanted)))
    sent = {path: entry for path, entry in wanted.items() if path in differing}
    return Difference(base=base, removed=outermost, archive=archive(_members(tree, sent)))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file, folder or symbolic link of a tree."""

    path: Path
    mode: int
    link: str | None
    """Where a symbolic link points."""
    inode: tuple[int, int]
    size: int

    @property
    def kind(self) -> tuple[int, str | None]:
        """What must agree before contents are compared."""
        is_link = self.link is not None
        return (stat.S_IFMT(self.mode) if is_link else self.mode, self.link)


def list_tree(tree: Path) -> dict[str, Entry]:
    """Everything below the folder by its relative path; a folder comes before what it holds."""
    found = {}
    for folder, folders, names in os.walk(tree):
        for name in sorted((*folders, *names)):
            path = Path(folder, name)
            seen = path.lstat()
            # Path.readlink would tidy the target up.
            link = os.readlink(path) if stat.S_ISLNK(seen.st_mode) else None  # noqa: PTH115
            found[path.relative_to(tree).as_posix()] = Entry(
                path=path,
                mode=seen.st_mode,
                link=link,
                inode=(seen.st_dev, seen.st_ino),
                size=seen.st_size,
            )
    return dict(sorted(found.items(), key=lambda item: item[0].split("/")))


def _same(entry: Entry, other: Entry | None) -> bool:
    if other is None or entry.kind != other.kind:
        return False
    if not stat.S_ISREG(entry.mode) or entry.inode == other.inode:
        return True
    return entry.size == other.size and cmp(entry.path, other.path, shallow=False)


def _both_folders(entry: Entry, other: Entry) -> bool:
    # Only the mode differs, and what it holds stays.
    return stat.S_ISDIR(entry.mode) and stat.S_ISDIR(other.mode)


def _goes_with_another(path: str, removed: set[str]) -> bool:
    """Whether a folder above the path goes, and the path with it."""
    return any(str(parent) in removed for parent in PurePosixPath(path).parents)


def _members(
    tree: Path, entries: dict[str, Entry]
) -> dict[str, tuple[int, bytes | Path | str | None]]:
    members: dict[str, tuple[int, bytes | Path | str | None]] = {}
    for path, entry in entries.items():
        is_folder = stat.S_ISDIR(entry.mode)
        content = None if is_folder else (tree / path if entry.link is None else entry.link)
        members[path] = (stat.S_IMODE(entry.mode), content)
    return members
