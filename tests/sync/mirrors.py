"""A folder, a bucket and what was remembered of both, for tests of mirroring."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from launchbay.sync.bucket import open_bucket
from launchbay.sync.memory import Memory
from launchbay.sync.mirror import apply_mirror, plan_down, plan_up
from launchbay.sync.patterns import compile_patterns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from launchbay.sync.bucket import BucketOptions
    from launchbay.sync.mirror import MirrorPlan, Outcome

HOUR_S = 3600
BIG = 40 * 1024 * 1024 + 12345


@dataclass(frozen=True, kw_only=True)
class Done:
    """A plan and what came of it."""

    plan: MirrorPlan
    outcome: Outcome

    @property
    def sent(self) -> dict[str, str]:
        """What was sent, with why."""
        return {step.key: step.why for step in self.outcome.done if step.why != "gone"}

    @property
    def gone(self) -> list[str]:
        return [step.key for step in self.outcome.done if step.why == "gone"]

    @property
    def left_out(self) -> dict[str, str]:
        return dict(self.plan.left_out)


class Mirror:
    """One side of a mirror: somebody's folder and memory."""

    def __init__(self, options: BucketOptions, folder: Path, memory: Path) -> None:
        folder.mkdir(exist_ok=True, parents=True)
        self.bucket = open_bucket(options)
        self.folder = folder
        self.memory = Memory(memory)

    def up(self, *texts: str, **how: Any) -> Done:
        return self._do(plan_up, texts, how)

    def down(self, *texts: str, **how: Any) -> Done:
        return self._do(plan_down, texts, how)

    def _do(self, make: Any, texts: tuple[str, ...], how: dict[str, Any]) -> Done:
        narrow = {name: how.pop(name) for name in ("include", "exclude") if name in how}
        pattern = compile_patterns(texts, **narrow)
        plan = make(self.bucket, self.folder, pattern, memory=self.memory, **how)
        outcome = apply_mirror(plan, self.bucket, memory=self.memory)
        failed = [(step.key, why) for step, why in outcome.failed]
        assert not failed, failed
        return Done(plan=plan, outcome=outcome)

    def write(self, files: Mapping[str, bytes], *, age_s: float = HOUR_S) -> None:
        """Files that were last changed a while ago."""
        for name, data in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            age(path, age_s)

    @property
    def files(self) -> dict[str, bytes]:
        """Every file below the folder; temporary ones, too."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    @property
    def objects(self) -> dict[str, bytes]:
        """Every object, as it can be read."""
        return {
            entry.key: b"".join(map(bytes, self.bucket.read(entry.key)))
            for entry in self.bucket.walk()
        }


def age(path: Path, seconds: float) -> None:
    """Have it changed so long ago."""
    at = time.time_ns() - int(seconds * 1e9)
    os.utime(path, ns=(at, at))


def keys(entries: Iterable[Any]) -> list[str]:
    return sorted(entry.key for entry in entries)
