"""Copies between a folder and object storage for nodes, by the environment alone."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import DataError
from launchbay.sync.deciding import THERE_CHANGED, THERE_NEWER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from launchbay.sync.bucket import Bucket
    from launchbay.sync.memory import Memory
    from launchbay.sync.steps import Step

CHUNK = 8 * 1024 * 1024
MEMORY = "BAY_CARRY_MEMORY"
"""A file that remembers what was sent, for whoever sends the same folder again and again."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What is not in the environment of where a service is."""

    endpoint: str = ""
    region: str = ""
    account: str = ""
    anonymous: bool = False


def carry_up(folder: Path, url: str, outside: Outside) -> None:
    """Send what is new in a folder; a file that grows meanwhile is sent as far as it has come.

    Raises:
        DataError: when something could not be sent.
    """
    from launchbay.sync.mirror import apply_mirror, plan_up  # noqa: PLC0415
    from launchbay.sync.patterns import compile_patterns  # noqa: PLC0415

    bucket, everything = _open(url, outside), compile_patterns([])
    with _memory() as memory:
        plan = plan_up(bucket, folder, everything, memory=memory)
        if any(why in {THERE_CHANGED, THERE_NEWER} for _, why in plan.left_out):
            # Nobody else writes there: clocks differ, or the memory was lost.
            plan = plan_up(bucket, folder, everything, overwrite=True, memory=memory)
        failed = apply_mirror(plan, bucket, memory=memory).failed
    _complain([(step, why) for step, why in failed if not _send_so_far(bucket, step)])


def carry_down(url: str, folder: Path, outside: Outside) -> None:
    """Bring what is new at a URL, which is right in what differs.

    Raises:
        DataError: when there is nothing, or something could not be brought.
    """
    from launchbay.sync.mirror import apply_mirror, plan_down  # noqa: PLC0415
    from launchbay.sync.patterns import compile_patterns  # noqa: PLC0415

    bucket = _open(url, outside)
    with _memory() as memory:
        plan = plan_down(bucket, folder, compile_patterns([]), overwrite=True, memory=memory)
        if not plan.sends and not plan.same:
            raise DataError(f"there is nothing at {url}", hint="look with `bay data ls`")
        _complain(apply_mirror(plan, bucket, memory=memory).failed)


def _open(url: str, outside: Outside) -> Bucket:
    from launchbay.sync.bucket import BucketOptions, open_bucket  # noqa: PLC0415

    return open_bucket(BucketOptions(url=url, env=os.environ, **vars(outside)))


@contextmanager
def _memory() -> Iterator[Memory]:
    from launchbay.sync.memory import Memory  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="bay-") as folder:
        memory = Memory(Path(os.environ.get(MEMORY) or Path(folder, "memory")))
        try:
            yield memory
        finally:
            memory.close()


def _send_so_far(bucket: Bucket, step: Step) -> bool:
    """Send a file that grew while it was sent, up to where it was; whether that went well."""
    try:
        with step.path.open("rb") as file:
            left = os.fstat(file.fileno()).st_size
            if left == step.size:
                # It did not grow: something else went wrong.
                return False
            bucket.put(step.key, _read(file, left))
    except (OSError, DataError):
        return False
    return True


def _read(file: BinaryIO, left: int) -> Iterator[bytes]:
    while left > 0 and (chunk := file.read(min(left, CHUNK))):
        left -= len(chunk)
        yield chunk


def _complain(failed: Sequence[tuple[Step, str]]) -> None:
    if failed:
        step, why = failed[0]
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise DataError(f"`{step.key}`: {why}{more}")
