"""The git program, asked without side effects."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# A git hook sets these; kept, they would point every call at the hook's own repository.
HOOK_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"}
)


def run_git(folder: str, *words: str) -> bytes | None:
    """What git printed, or None where there is no git, no repository, or it failed."""
    call = start_git(folder, *words)
    return None if call is None else finish_git(call)


def start_git(folder: str, *words: str) -> subprocess.Popen[bytes] | None:
    """A git that runs beside us, or None where there is none; `finish_git` takes its answer."""
    try:
        return subprocess.Popen(
            ["git", *words],
            cwd=folder,
            env=_quiet(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def finish_git(call: subprocess.Popen[bytes], *, limit_s: float | None = None) -> bytes | None:
    """What it printed; None when it failed or took too long."""
    try:
        printed, _ = call.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        call.kill()
        call.communicate()
        return None
    return printed if call.returncode == 0 else None


def _quiet(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if name not in HOOK_VARIABLES}
    return kept | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
