"""The files of a project that are its code, and those it only has beside it."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING

from launchbay.sync.git import finish_git, run_git, start_git

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from subprocess import Popen

    from pathspec import GitIgnoreSpec

    # The folder that an ignore file stands in, relative and ending in `/`, and what it says.
    Rules = tuple[tuple[str, GitIgnoreSpec], ...]
    # Size, mtime and ctime in ns, inode, mode: what changes when a file does.
    Stamp = tuple[int, int, int, int, int]
    # Where a file or symbolic link lands, where it is, its stamp and its mark: `444:<sha256>`,
    # `link:<target>`, or empty until it is read. A plain tuple: ten thousand named ones would
    # cost a tenth of a scan.
    Row = tuple[str, str, Stamp, str]
    # The stamp and the mark of files, by where they are.
    Known = Mapping[str, tuple[Stamp, str]]

# Secrets and our own files: never in a snapshot, never linked, whatever any file says.
# Sought in a path that begins with `/`: a literal first character halves the time.
NEVER = re.compile(
    r"/(?:\.git|\.bay|bay\.local\.yaml"
    r"|\.env(?:\.(?![^/]*(?:example|sample|template|dist)(?:/|\Z))[^/]*)?)"
    r"(?:/|\Z)"
)
CACHES = frozenset(
    {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
    | {".DS_Store", ".hg", ".svn"}
)
CACHE_ENDINGS = (".pyc", ".pyo", ".egg-info")
IGNORED = CACHES | {".venv", "venv", "node_modules", ".tox", ".nox", ".idea"}
EXCLUDES = [f"--exclude={name}" for name in sorted(CACHES)]
EXCLUDES += [f"--exclude=*{ending}" for ending in CACHE_ENDINGS]
LINK_LIMIT = 1000


@dataclass(frozen=True, kw_only=True)
class Codebase:
    """What was found in one folder."""

    rows: list[Row]
    unreadable: list[str]


def start_listing(folder: str) -> Popen[bytes] | None:
    """Set git to work on what `find_code` will ask first."""
    return start_git(folder, "ls-files", "-z", "-c", "-o", "--exclude-standard", *EXCLUDES)


def find_code(
    folder: str,
    listing: Popen[bytes] | None,
    known: Known,
    *,
    outputs: Collection[str] = (),
    own: Collection[str] = (),
) -> Codebase:
    """The files that are code, in no order; those that changed since they were known, unread.

    In a git work tree: what is tracked, or untracked and not ignored, repositories inside it
    included. Elsewhere: what neither `.gitignore` files nor `IGNORED` nor `outputs` name.
    `.bayignore` has the last word, but for `NEVER` and for what lies in our `own` folders.
    """
    bay = _read_ignore_file(folder, "", ".bayignore")
    found = Codebase(rows=[], unreadable=[])
    pending = [""]
    while pending:
        prefix = pending.pop()
        if prefix and os.path.lexists(f"{folder}/{prefix}.git"):
            listing = start_listing(f"{folder}/{prefix}")
        listed = _finish_listing(listing, folder, prefix, bay) if listing else []
        if not listed:
            # Also where the folder as a whole is ignored, as in a home that is kept in git.
            listed = list(_walk(folder, prefix, bay, skipped=outputs, lost=found.unreadable))
        pending += _look(folder, _allowed(listed, bay, own), known, found)
        listing = None
    return Codebase(rows=_without_shadowed(found.rows), unreadable=found.unreadable)


def find_links(folder: str, inside: Iterable[str], *, taken: Collection[str]) -> dict[str, str]:
    """What stands in the folders of the code without being code, by its path: 1000 at most.

    Args:
        folder: the project.
        inside: the folders to look into, relative to it.
        taken: paths where nothing shall be linked, those of the code among them.
    """
    beside = {path for place in inside for path in _names(folder, place).difference(taken)}
    worthy = (path for path in sorted(beside) if _is_worth_a_link(folder, path))
    return {path: f"{folder}/{path}" for path in islice(worthy, LINK_LIMIT)}


def parents_of(paths: Iterable[str]) -> set[str]:
    """Every folder above the paths.

    >>> sorted(parents_of(["a/b/c", "d"]))
    ['a', 'a/b']
    """
    found: set[str] = set()
    for folder in {path.rpartition("/")[0] for path in paths}:
        parent = folder
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found


def stamp_of(status: os.stat_result) -> Stamp:
    """What the system says of a file, as far as it tells whether the file has changed."""
    return (
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_mode,
    )


def normalize(outputs: Sequence[str]) -> frozenset[str]:
    """The output folders as relative paths.

    >>> sorted(normalize(["./out/", "logs/train"]))
    ['logs/train', 'out']
    """
    return frozenset(normpath(output) for output in outputs) - {"."}


def _finish_listing(listing: Popen[bytes], folder: str, prefix: str, bay: Rules) -> list[str]:
    """What git calls code; nested repositories are named, not entered. Empty outside of git."""
    printed = finish_git(listing)
    if not printed:
        return []
    listed = [*os.fsdecode(printed[:-1]).split("\0"), *_take_back(folder, prefix, bay)]
    return [prefix + path for path in listed] if prefix else listed


def _take_back(folder: str, prefix: str, bay: Rules) -> Iterator[str]:
    """What git ignores and a `!` of `.bayignore` wants after all, relative to the prefix."""
    if not any(pattern.include is False for _, spec in bay for pattern in spec.patterns):
        return
    words = ["ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory"]
    printed = run_git(f"{folder}/{prefix}", *words) or b""
    for path in os.fsdecode(printed).split("\0"):
        if path in {"", "./"} or _verdict(prefix + path, bay) is not False:
            continue
        if not path.endswith("/"):
            yield path
            continue
        for inside in _walk(folder, prefix + path, bay, lost=[]):
            yield inside.removeprefix(prefix)


def _walk(
    folder: str,
    prefix: str,
    bay: Rules,
    *,
    ignores: Rules = (),
    skipped: Collection[str] = (),
    lost: list[str],
) -> Iterator[str]:
    """The files below `folder/prefix` that nothing leaves out; unreadable folders are `lost`."""
    try:
        entries = list(_entries(folder, prefix))
    except FileNotFoundError:
        return
    except OSError:
        lost.append(prefix.rstrip("/"))
        return
    ignores = (*_read_ignore_file(folder, prefix, ".gitignore"), *ignores)
    for path, item in entries:
        is_folder = item.is_dir(follow_symlinks=False)
        if _is_left_out(f"{path}/" if is_folder else path, (*bay, *ignores)):
            continue
        if not is_folder:
            yield path
        elif path not in skipped:
            yield from _walk(folder, f"{path}/", bay, ignores=ignores, skipped=skipped, lost=lost)


def _entries(folder: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(f"{folder}/{prefix}") as items:
        for item in items:
            yield prefix + item.name, item


def _is_left_out(path: str, rules: Rules) -> bool:
    if NEVER.search(f"/{path}"):
        return True
    verdict = _verdict(path, rules)
    return _is_named(path, IGNORED) if verdict is None else verdict


def _is_named(path: str, names: Collection[str]) -> bool:
    name = path.rstrip("/").rpartition("/")[2]
    return name in names or name.endswith(CACHE_ENDINGS)


def _verdict(path: str, rules: Rules) -> bool | None:
    """Whether the first rules that speak of the path ignore it; a folder ends in `/`."""
    for base, spec in rules:
        verdict = spec.check_file(path.removeprefix(base)).include
        if verdict is not None:
            return verdict
    return None


def _read_ignore_file(folder: str, prefix: str, name: str) -> Rules:
    try:
        text = Path(f"{folder}/{prefix}{name}").read_text("utf-8-sig", "surrogateescape")
    except OSError:
        return ()
    return ((prefix, _parse_patterns(text)),)


def _parse_patterns(text: str) -> GitIgnoreSpec:
    # Most projects need no matching of ours: git does it.
    from pathspec import GitIgnoreSpec  # noqa: PLC0415

    lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        # git passes over a pattern that it cannot read.
        with suppress(ValueError):
            GitIgnoreSpec.from_lines([line])
            lines.append(line)
    return GitIgnoreSpec.from_lines(lines)


def _allowed(listed: Iterable[str], bay: Rules, own: Collection[str]) -> Iterable[str]:
    """The paths that `NEVER`, our own folders and `.bayignore` let through, each once."""
    # git lists a file in conflict several times.
    allowed = dict.fromkeys([path for path in listed if not NEVER.search(f"/{path}")])
    for folder in own:
        allowed = {path: None for path in allowed if not f"{path}/".startswith(f"{folder}/")}
    if not bay:
        return allowed
    folders = {path: bool(_verdict(f"{path}/", bay)) for path in parents_of(allowed)}
    for path in sorted(folders):
        # As in git, nothing comes back from a folder that is left out.
        folders[path] = folders[path] or folders.get(path.rpartition("/")[0], False)
    return [
        path
        for path in allowed
        if not folders.get(path.rstrip("/").rpartition("/")[0]) and not _verdict(path, bay)
    ]


def _look(folder: str, paths: Iterable[str], known: Known, found: Codebase) -> list[str]:
    """Add what the paths are; return the folders among them, ending in `/`."""
    folders = []
    for path in paths:
        source = f"{folder}/{path}"
        try:
            stamp = stamp_of(os.lstat(source))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            found.unreadable.append(path)
            continue
        seen = known.get(source)
        if seen is not None and seen[0] == stamp:
            found.rows.append((path, source, seen[0], seen[1]))
        elif stat.S_ISDIR(stamp[-1]):
            folders.append(path.rstrip("/") + "/")
        elif stat.S_ISREG(stamp[-1]) or stat.S_ISLNK(stamp[-1]):
            found.rows.append((path, source, stamp, ""))
    return folders


def _without_shadowed(rows: list[Row]) -> list[Row]:
    """Without the tracked files of a folder that a symbolic link has since replaced."""
    links = {path for path, _, stamp, _ in rows if stat.S_ISLNK(stamp[-1])}
    if not links or not links & parents_of(path for path, *_ in rows):
        return rows
    return [row for row in rows if not links & parents_of([row[0]])]


def _names(folder: str, inside: str) -> set[str]:
    """The paths of what the folder holds; none when that cannot be read."""
    prefix = f"{inside}/" if inside else ""
    try:
        # Names alone are had in half the time of `iterdir`'s paths or `scandir`'s entries.
        names = os.listdir(f"{folder}/{prefix}")  # noqa: PTH208
    except OSError:
        return set()
    return {prefix + name for name in names}


def _is_worth_a_link(folder: str, path: str) -> bool:
    """Whether it is a file, a link or a folder with something in it, and no cache or secret."""
    if NEVER.search(f"/{path}") or _is_named(path, CACHES):
        return False
    try:
        mode = os.lstat(f"{folder}/{path}").st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        return bool(_names(folder, path))
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)
