"""The frozen code of runs, and what differs between two of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core import rundir
from launchbay.sync.compare import same_content, tree_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

NOWHERE = "/dev/null"
LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, kw_only=True)
class CodeDifference:
    """The files that two trees do not have alike, as paths inside them."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def find_code(lab: Lab, run: Run) -> Path | None:
    """The tree that the run's code was frozen to; None where it is gone, or there was none."""
    roots = (lab.project.bay, Path(run.place.get("root") or lab.project.bay))
    trees = (rundir.code_folder(root, run.code) for root in roots if run.code)
    return next((tree for tree in trees if tree.is_dir()), None)


def compare_trees(old: Path, new: Path) -> CodeDifference:
    """What was added, removed or changed from one tree to the other."""
    before, after = set(tree_paths(old)), set(tree_paths(new))
    both = sorted(before & after)
    return CodeDifference(
        added=tuple(sorted(after - before)),
        removed=tuple(sorted(before - after)),
        changed=tuple(path for path in both if not _alike(old / path, new / path)),
    )


def render_patch(old: Path, new: Path, difference: CodeDifference) -> Iterator[str]:
    """The differences of text files as `git apply` reads them, line by line."""
    paths = sorted((*difference.added, *difference.removed, *difference.changed))
    for path in paths:
        names = (
            NOWHERE if path in difference.added else f"a/{path}",
            NOWHERE if path in difference.removed else f"b/{path}",
        )
        before, after = _read_lines(old / path), _read_lines(new / path)
        if before is None or after is None:
            yield f"Files {names[0]} and {names[1]} differ\n"
            continue
        for line in unified_diff(before, after, *names):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _alike(one: Path, other: Path) -> bool:
    return one.lstat().st_mode == other.lstat().st_mode and same_content(one, other)


def _read_lines(path: Path) -> list[str] | None:
    """The lines of a text; none where there is no file, None where it is no text."""
    if path.is_symlink():
        return None
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        return None
    # `splitlines` would also cut at form feeds, which are part of a line here.
    return None if "\0" in text else LINE.findall(text)
