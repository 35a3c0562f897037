"""A folder and a bucket made equal: first a plan, which is a value, then the doing of it.

For files and objects of equal size, unchanged means: a pair that is remembered and whose both
sides are as they were; else the same content by the ETag, where that is a checksum; else the same
by their times. Never by existence alone. What differs may be replaced as `deciding` says.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from launchbay.core.errors import BayError, Unreachable
from launchbay.sync.bucket import part_size_for, why_refused
from launchbay.sync.crew import Crew, Ended, Halted
from launchbay.sync.fetching import MOST_STREAMS, BigFetch, fetch_whole, needs_ranges, plan_ranges
from launchbay.sync.local_files import Places, check_folder, list_files
from launchbay.sync.planning import Planner
from launchbay.sync.steps import MirrorPlan, Outcome, Progress, Step
from launchbay.sync.transfer import WHOLE, Wire, is_fatal, persist, send_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from launchbay.sync.bucket import Bucket, Entry
    from launchbay.sync.local_files import LocalFiles
    from launchbay.sync.memory import Memory
    from launchbay.sync.patterns import Pattern

__all__ = [
    "MirrorPlan",
    "Outcome",
    "Progress",
    "Step",
    "apply_mirror",
    "matching",
    "plan_down",
    "plan_up",
    "remove",
]

AT_ONCE = 32
TELL_S = 0.1
KEEP_S = 1.0
RATE_S = 5.0
RANGE_COST = 20 * 1024 * 1024
PARTS_ALONE = 6
PARTS_AT_ONCE = 2
MORE_PARTS = 2
"""Being read, and waiting to be sent."""
BATCH = 1000
MOST_UNREACHED = 5


def plan_up(
    bucket: Bucket,
    folder: Path,
    pattern: Pattern,
    *,
    overwrite: bool = False,
    delete: bool = False,
    memory: Memory,
) -> MirrorPlan:
    """What it takes to bring the folder's state into the bucket."""
    planner = Planner(
        bucket=bucket, folder=check_folder(folder), memory=memory, up=True, overwrite=overwrite
    )
    local = list_files(planner.folder, pattern)
    planner.left_out.update(local.left_out)
    planner.recall(pattern)
    for entry in matching(bucket, pattern):
        status = local.files.pop(entry.key, None)
        if status is not None:
            planner.compare(entry, status)
        elif delete and not _is_left_out(entry.key, local):
            planner.remove(entry.key, size=entry.size, modified=entry.modified, etag=entry.etag)
    for key, status in local.files.items():
        planner.add_file(key, status)
    return planner.finish()


def plan_down(
    bucket: Bucket,
    folder: Path,
    pattern: Pattern,
    *,
    overwrite: bool = False,
    delete: bool = False,
    memory: Memory,
) -> MirrorPlan:
    """What it takes to bring the bucket's state into the folder."""
    planner = Planner(
        bucket=bucket, folder=folder.resolve(), memory=memory, up=False, overwrite=overwrite
    )
    local = list_files(planner.folder, pattern)
    planner.recall(pattern)
    places = Places(planner.folder)
    markers: dict[str, int] = {}
    for entry in matching(bucket, pattern):
        status = local.files.pop(entry.key, None)
        if status is not None:
            planner.compare(entry, status)
        elif why := local.left_out.get(entry.key) or places.why_not(entry.key):
            planner.left_out[entry.key] = why
        else:
            markers[entry.key] = entry.size
            planner.add_object(entry)
    planner.leave_folders(markers)
    for key, status in local.files.items() if delete else ():
        planner.remove(key, size=status.st_size, modified=status.st_mtime)
    return planner.finish(stale=local.stale)


def matching(bucket: Bucket, pattern: Pattern) -> Iterator[Entry]:
    """The objects that are meant; for one plain name without listing what lies beside it."""
    if pattern.literal is None:
        return (one for one in bucket.walk(pattern.folder) if pattern.matches(one.key))
    return _named(bucket, pattern, pattern.literal)


def _named(bucket: Bucket, pattern: Pattern, name: str) -> Iterator[Entry]:
    entry = None if bucket.parts and why_refused(name) else bucket.head(name)
    if entry is not None and pattern.matches(name):
        yield entry
    for one in bucket.walk(f"{name}/"):
        if pattern.matches(one.key):
            yield one


def _is_left_out(key: str, local: LocalFiles) -> bool:
    """Whether the key's file, or a folder above it, is there and was only not looked at."""
    if "." in local.left_out:
        return True
    parts = key.split("/")
    above = ("/".join(parts[:number]) for number in range(1, len(parts) + 1))
    return any(name in local.left_out or f"{name}/" in local.left_out for name in above)


class Meter:
    """Counts what is done and says so, at most ten times a second."""

    def __init__(
        self, tell: Callable[[Progress], None] | None, *, of_files: int, of_bytes: int
    ) -> None:
        self.files = self.bytes = 0
        self._of_files, self._of_bytes = of_files, of_bytes
        self._tell = tell
        self._told = 0.0
        self._began = time.monotonic()
        self._samples: deque[tuple[float, int]] = deque([(self._began, 0)])

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def show(self, *, last: bool = False) -> None:
        """Tell how far it is, when it is time."""
        now = time.monotonic()
        if self._tell is None or not (last or now - self._told >= TELL_S):
            return
        self._told = now
        self._samples.append((now, self.bytes))
        while len(self._samples) > 2 and now - self._samples[0][0] > RATE_S:  # noqa: PLR2004
            self._samples.popleft()
        began, before = self._samples[0]
        rate = (self.bytes - before) / (now - began) if now > began else 0.0
        left = max(0, self._of_bytes - self.bytes)
        self._tell(
            Progress(
                files=self.files,
                of_files=self._of_files,
                bytes=self.bytes,
                of_bytes=self._of_bytes,
                rate=rate,
                seconds_left=left / rate if rate > 0 else None,
            )
        )


class _Job(NamedTuple):
    """A file, or one stretch of a big one that comes down."""

    step: Step
    big: BigFetch | None = None
    number: int = 0


def apply_mirror(
    plan: MirrorPlan,
    bucket: Bucket,
    *,
    memory: Memory,
    progress: Callable[[Progress], None] | None = None,
    at_once: int = AT_ONCE,
) -> Outcome:
    """Do what the plan says: send all, and when all arrived, remove what is gone.

    A file that fails stops no other. Wrong keys or a full disk end everything at once.

    Raises:
        BayError: for what every file would meet.
    """
    for path in plan.stale:
        with contextlib.suppress(OSError):
            path.unlink()
    mover = _Mover(
        plan, bucket, memory, Meter(progress, of_files=len(plan.sends), of_bytes=plan.size)
    )
    try:
        mover.send(at_once)
    finally:
        mover.keep()
    if not mover.failed:
        mover.delete()
    mover.meter.show(last=True)
    return Outcome(
        done=tuple(mover.done),
        failed=tuple(mover.failed.values()),
        bytes=mover.meter.bytes,
        seconds=mover.meter.seconds,
    )


class _Mover:
    """A plan that is being done; everything here but `_work` happens in one thread."""

    def __init__(self, plan: MirrorPlan, bucket: Bucket, memory: Memory, meter: Meter) -> None:
        self.plan, self.bucket, self.memory, self.meter = plan, bucket, memory, meter
        self.done: list[Step] = []
        self.failed: dict[str, tuple[Step, str]] = {}
        self._bigs: list[BigFetch] = []
        self._marks: list[tuple[str, str]] = []
        self._kept = time.monotonic()
        self._unreached = 0
        self._crew: Crew[_Job] = Crew(self._work, self._cost)
        big = sum(step.size > WHOLE for step in plan.sends)
        # Enough streams for a fast network; with enough files, one for each of them.
        self._streams = max(1, MOST_STREAMS // max(1, big))
        self._wire = Wire(
            bucket=bucket,
            count=self._crew.count,
            check=self._crew.check,
            pause=self._crew.halt.wait,
            parts_at_once=PARTS_ALONE if big == 1 else PARTS_AT_ONCE,
        )

    def send(self, at_once: int) -> None:
        """Move the files."""
        left: Counter[str] = Counter()
        try:
            for ended in self._crew.run(self._jobs(left), at_once=at_once, every_s=TELL_S):
                if isinstance(ended, int):
                    self.meter.bytes += ended
                elif ended is not None:
                    self._settle(ended, left)
                self.meter.show()
                if time.monotonic() - self._kept > KEEP_S:
                    self.keep()
        finally:
            # A thread that still hangs must not find its descriptor to be another file's.
            for big in self._bigs if self._crew.idle else ():
                big.close()

    def keep(self) -> None:
        """Remember what arrived since the last time."""
        if self._marks:
            self.memory.remember(self.plan.bucket_url, self.plan.folder, self._marks)
            self._marks = []
        self._kept = time.monotonic()

    def delete(self) -> None:
        """Remove what is gone from the other side."""
        steps = self.plan.deletions
        if self.plan.up:
            self.bucket.delete(step.key for step in steps)
            self.done += steps
        else:
            for step in steps:
                self._delete_file(step)
        keys = [step.key for step in steps]
        if keys:
            self.memory.forget(self.plan.bucket_url, self.plan.folder, keys)

    def _delete_file(self, step: Step) -> None:
        try:
            if step.path.stat().st_mtime != step.modified:
                self.failed[step.key] = (step, "it was changed meanwhile, and stays")
                return
            step.path.unlink()
        except OSError as error:
            self.failed[step.key] = (step, f"`{step.path}`: {error.strerror}")
            return
        self.done.append(step)
        for folder in step.path.parents:
            if folder == step.folder:
                break
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _jobs(self, left: Counter[str]) -> Iterator[_Job]:
        for step in self.plan.sends:
            if self.plan.up or not needs_ranges(step):
                yield _Job(step)
                continue
            big = plan_ranges(step, streams=self._streams)
            self._bigs.append(big)
            left[step.key] = big.stretches
            for number in range(big.stretches):
                yield _Job(step, big, number)

    def _cost(self, job: _Job) -> int:
        if job.big is not None:
            return RANGE_COST
        if job.step.size <= WHOLE:
            return job.step.size
        return part_size_for(job.step.size) * (self._wire.parts_at_once + MORE_PARTS)

    def _work(self, job: _Job) -> str | None:
        if job.big is not None:
            return job.big.fetch(self._wire, job.number)
        move = send_file if self.plan.up else fetch_whole
        return persist(self._wire, lambda: move(self._wire, job.step))

    def _settle(self, ended: Ended[_Job], left: Counter[str]) -> None:
        """A file that is done, or failed; one in ranges when the last of them ended."""
        step = ended.job.step
        error = ended.error
        if error is not None and (is_fatal(error) or self._is_lost(error)):
            raise error
        if error is not None and not isinstance(error, Halted):
            self._fail(step, error)
        if ended.job.big is not None:
            left[step.key] -= 1
            if left[step.key] <= 0:
                ended.job.big.close()
        if isinstance(ended.result, str):
            self._unreached = 0
            self.done.append(step)
            self.meter.files += 1
            if ended.result:
                self._marks.append((step.key, ended.result))

    def _is_lost(self, error: Exception) -> bool:
        """Whether nobody has answered for so long that the rest need not be tried."""
        self._unreached += isinstance(error, Unreachable)
        return self._unreached >= MOST_UNREACHED

    def _fail(self, step: Step, error: Exception) -> None:
        if not isinstance(error, BayError):
            raise error
        # Its other ranges may fail alike: the first reason counts.
        self.failed.setdefault(step.key, (step, str(error)))


def remove(
    bucket: Bucket, keys: Iterable[str], progress: Callable[[int], None] | None = None
) -> int:
    """Remove objects in batches; `progress` is told how many are gone.

    Returns:
        How many were named.
    """
    count = 0
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == BATCH:
            count += _remove_batch(bucket, batch, count, progress)
            batch = []
    return count + _remove_batch(bucket, batch, count, progress)


def _remove_batch(
    bucket: Bucket, batch: list[str], before: int, progress: Callable[[int], None] | None
) -> int:
    bucket.delete(batch)
    if progress is not None and batch:
        progress(before + len(batch))
    return len(batch)
