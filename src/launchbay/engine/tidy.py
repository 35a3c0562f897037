"""Whether git has everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchbay.core.errors import BayError
from launchbay.sync.git import run_git

if TYPE_CHECKING:
    from pathlib import Path

NAMED = 5


def require_clean(folder: Path) -> None:
    """Refuse a folder whose files differ from what git has committed.

    Raises:
        BayError: when something is changed or untracked, or there is no repository.
    """
    listed = run_git(str(folder), "status", "--porcelain", "-z", "--untracked-files=normal", ".")
    if listed is None:
        raise BayError(
            f"`{folder}` is in no git repository, and `--require-clean` was given",
            hint="`git init` and commit, or leave `--require-clean` out",
        )
    entries = listed.decode("utf-8", "replace").split("\0")
    # A name that was renamed is followed by its old one, which has no state in front.
    changed = [entry[3:] for entry in entries if entry[2:3] == " "]
    if changed:
        more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
        raise BayError(
            f"not committed: {', '.join(changed[:NAMED])}{more}",
            hint="commit or stash them, or leave `--require-clean` out",
        )
