"""What differs between two runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launchbay.engine.code import CodeDifference, compare_trees, find_code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

Pairs = dict[str, tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Each value as a pair, first that of the first run; None is where a run has none."""

    params: Pairs = field(default_factory=dict)
    command: tuple[str, str] | None = None
    code: tuple[str, str] | None = None
    """The ids of the frozen code."""
    files: CodeDifference | None = None
    """None when the code is the same, or one of the trees is gone."""
    target: tuple[str, str] | None = None
    resources: Pairs = field(default_factory=dict)
    metrics: Pairs = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(bool(part) for part in vars(self).values())


def compare(lab: Lab, old: Run, new: Run) -> Difference:
    """What differs from the one run to the other."""
    return Difference(
        params=_pairs(old.params, new.params),
        command=_pair(old.command, new.command),
        code=_pair(old.code, new.code),
        files=_compare_files(lab, old, new),
        target=_pair(old.target, new.target),
        resources=_pairs(old.resources, new.resources),
        metrics=_pairs(old.status.metrics, new.status.metrics),
    )


def _compare_files(lab: Lab, old: Run, new: Run) -> CodeDifference | None:
    before, after = find_code(lab, old), find_code(lab, new)
    if old.code == new.code or before is None or after is None:
        return None
    return compare_trees(before, after)


def _pair(old: str, new: str) -> tuple[str, str] | None:
    return None if old == new else (old, new)


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> Pairs:
    keys = dict.fromkeys((*old, *new))
    return {key: (old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)}
