"""What a mirror is made of: steps, a plan of them, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from launchbay.sync.deciding import Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One file or object to send, or to remove."""

    key: str
    folder: Path
    size: int
    why: Why
    modified: float = 0.0
    """Of the object, or of the file when there is no object yet."""
    etag: str = ""
    """Of the object, "" when there is none yet."""

    @property
    def path(self) -> Path:
        """The file here."""
        return self.folder / self.key


@dataclass(frozen=True, kw_only=True)
class MirrorPlan:
    """What would be done; nothing is yet."""

    up: bool
    bucket_url: str
    folder: Path
    sends: tuple[Step, ...] = ()
    deletions: tuple[Step, ...] = ()
    same: int = 0
    same_bytes: int = 0
    left_out: tuple[tuple[str, str], ...] = ()
    """Names, with why they are neither sent nor removed."""
    stale: tuple[Path, ...] = ()
    """Beginnings of downloads that nobody will continue."""

    @property
    def size(self) -> int:
        """Bytes to send."""
        return sum(step.size for step in self.sends)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far it is."""

    files: int
    of_files: int
    bytes: int
    of_bytes: int
    rate: float
    """Bytes a second, lately."""
    seconds_left: float | None
    """None while that cannot be told."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was done, and what was not, with why."""

    done: tuple[Step, ...] = ()
    failed: tuple[tuple[Step, str], ...] = ()
    bytes: int = 0
    seconds: float = 0.0
    kind: Literal["built-in", "s5cmd"] = field(default="built-in")
