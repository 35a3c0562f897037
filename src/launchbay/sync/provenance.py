"""The state of git that some code came from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launchbay.sync.git import finish_git, run_git, start_git

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

LIMIT_S = 60
# Each option undoes a setting of the user's under which a patch cannot be applied.
DIFF = (
    # Else diff rewrites the index, GIT_OPTIONAL_LOCKS or not (git 2.39).
    *("-c", "diff.autoRefreshIndex=false"),
    "diff",
    "--binary",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "--unified=3",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--submodule=short",
    # Changes inside of a submodule cannot be part of a patch, and looking for them is slow.
    "--ignore-submodules=dirty",
)
CALLS = {
    "commit": ("rev-parse", "--verify", "--quiet", "HEAD"),
    "branch": ("symbolic-ref", "--short", "--quiet", "HEAD"),
    "staged": (*DIFF, "--cached"),
    "unstaged": DIFF,
    "untracked": ("ls-files", "-z", "--others", "--exclude-standard"),
}


@dataclass(frozen=True, kw_only=True)
class Git:
    """A commit and what was changed since; applied in order, the patches give the tracked tree."""

    commit: str
    """Empty before the first commit."""
    branch: str
    """Empty when HEAD is detached."""
    staged: str
    """A patch from the commit to the index, undecodable bytes as surrogates."""
    unstaged: str
    """A patch from the index to the files."""
    untracked: tuple[str, ...]
    """Paths below the top of the repository; a repository inside ends in `/`."""


def read_git(folder: Path) -> Git | None:
    """The state of the repository around the folder; None where git has no answer."""
    top = run_git(str(folder), "rev-parse", "--show-toplevel")
    if not top:
        return None
    root = os.fsdecode(top.removesuffix(b"\n"))
    calls = {name: start_git(root, *words) for name, words in CALLS.items()}
    answers = {name: _finish(call) for name, call in calls.items()}
    staged, unstaged, untracked = (answers[name] for name in ("staged", "unstaged", "untracked"))
    if staged is None or unstaged is None or untracked is None:
        return None
    return Git(
        commit=(answers["commit"] or "").strip(),
        branch=(answers["branch"] or "").strip(),
        staged=staged,
        unstaged=unstaged,
        untracked=tuple(untracked.split("\0")[:-1]),
    )


def _finish(call: Popen[bytes] | None) -> str | None:
    printed = finish_git(call, limit_s=LIMIT_S) if call else None
    return None if printed is None else printed.decode("utf-8", "surrogateescape")
