"""Reading what runs printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from launchbay.core.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

ERROR = re.compile(r"error|exception|killed|not found|denied|no such|failed|fatal", re.IGNORECASE)
CHANGING = re.compile(r"0x[0-9a-f]+|/runs/[^/\s]+|\d+")


def read_all(lab: Lab, run: Run, *, rank: int = 0) -> str:
    """The whole log of the present attempt; empty where there is none."""
    if not run.native_id:
        return ""
    try:
        return lab.read_log(run, rank=rank).text
    except TargetError:
        return ""


def tail(lab: Lab, run: Run, lines: int) -> list[str]:
    """The log's last lines."""
    return read_all(lab, run).splitlines()[-lines:]


def last_error(lab: Lab, run: Run) -> str:
    """The line that says why it failed: the last that looks like an error, else the last."""
    lines = [line.strip() for line in read_all(lab, run).splitlines() if line.strip()]
    for line in reversed(lines[-50:]):
        if ERROR.search(line):
            return line[:200]
    return lines[-1][:200] if lines else ""


def group_failures(lab: Lab, runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Failed runs by what their last error lines have in common, largest group first."""
    groups: dict[str, list[Run]] = {}
    said: dict[str, str] = {}
    for run in runs:
        line = last_error(lab, run) or run.status.reason
        kind = CHANGING.sub("#", line)
        said.setdefault(kind, line)
        groups.setdefault(kind, []).append(run)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [(said[kind], members) for kind, members in ordered]
