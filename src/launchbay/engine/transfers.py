"""Moving data between this machine and buckets: plan, show, then do."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from launchbay.core.errors import BadRequest
from launchbay.engine.data import unmatched
from launchbay.sync.families import keep_latest
from launchbay.sync.patterns import compile_patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from launchbay.engine.data import Area, Data
    from launchbay.sync.bucket import Entry
    from launchbay.sync.mirror import MirrorPlan, Outcome, Progress, Step

Engine = Literal["built-in", "s5cmd"]
AT_ONCE = 32
S5CMD = "s5cmd"
PRIVATE = frozenset({".bay", ".env", ".git", "bay.local.yaml"})
"""Names, in any folder, that a pattern alone does not mean: secrets, and what others keep."""
WHY_PRIVATE = "a pattern does not mean it; name it if you do"


@dataclass(frozen=True, kw_only=True)
class Moving:
    """How to move."""

    up: bool
    overwrite: bool = False
    delete: bool = False
    latest: bool = False
    """Of numbered checkpoints only the newest."""
    engine: Engine | None = None
    """What carries the bytes; None leaves it to what the files say of the bucket."""
    at_once: int = AT_ONCE


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What is to be moved in one area."""

    area: Area
    plan: MirrorPlan


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of it; names are as one would type them."""

    done: tuple[Step, ...] = ()
    deleted: tuple[Step, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    same: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def and_then(self, other: Result) -> Result:
        """Both, one after the other."""
        return Result(
            done=self.done + other.done,
            deleted=self.deleted + other.deleted,
            failed=self.failed + other.failed,
            left_out=self.left_out + other.left_out,
            same=self.same + other.same,
            bytes=self.bytes + other.bytes,
            seconds=self.seconds + other.seconds,
        )


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What is to be removed from one bucket."""

    area: Area
    entries: tuple[Entry, ...]


def usual_engine(area: Area) -> Engine | None:
    """What the first tool took: `s5cmd` where it is installed and can speak to the store.

    None leaves it to what the files say of the bucket.
    """
    wanted = area.options.engine or os.environ.get("BAY_DATA_ENGINE")
    if wanted or not area.options.url.startswith("s3://"):
        return "s5cmd" if wanted == S5CMD else None
    return "s5cmd" if shutil.which(S5CMD, path=area.options.env.get("PATH")) else None


def plan_transfers(data: Data, areas: Sequence[Area], moving: Moving) -> list[Transfer]:
    """What would be moved, and why; nothing is changed.

    Raises:
        BadRequest: when `latest` and `delete` are both wanted.
    """
    from launchbay.sync.mirror import plan_down, plan_up  # noqa: PLC0415

    if moving.latest and moving.delete:
        raise BadRequest(
            "`latest` leaves the other checkpoints alone, and `delete` would not",
            hint="choose one of them",
        )
    make = plan_up if moving.up else plan_down
    planned = []
    for one in areas:
        area = _latest(one, moving) if moving.latest else one
        plan = make(
            area.bucket,
            area.folder,
            area.pattern,
            overwrite=moving.overwrite,
            delete=moving.delete,
            memory=data.memory,
        )
        planned.append(Transfer(area=area, plan=_without_private(area, plan)))
    return planned


def _without_private(area: Area, plan: MirrorPlan) -> MirrorPlan:
    """Neither send, fetch nor delete what a pattern did not mean to name."""
    private = private_names(area)

    def is_private(step: Step) -> bool:
        return not private.isdisjoint(step.key.split("/"))

    kept = [step for step in (*plan.sends, *plan.deletions) if is_private(step)]
    if not kept:
        return plan
    tops = dict.fromkeys(_top_private(step.key, private) for step in kept)
    return replace(
        plan,
        sends=tuple(step for step in plan.sends if not is_private(step)),
        deletions=tuple(step for step in plan.deletions if not is_private(step)),
        left_out=(*plan.left_out, *((name, WHY_PRIVATE) for name in tops)),
    )


def private_names(area: Area) -> frozenset[str]:
    """Those of the private names that nobody typed."""
    return PRIVATE - {part for text in area.texts for part in text.split("/")}


def _top_private(key: str, private: frozenset[str]) -> str:
    """The file, or the folder that says it of all below."""
    parts = key.split("/")
    end = next(at for at, part in enumerate(parts) if part in private) + 1
    return "/".join(parts[:end]) + "/" * (end < len(parts))


def carry_out(
    data: Data,
    transfers: Sequence[Transfer],
    moving: Moving,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Do what was planned."""
    whole = Result()
    for transfer in transfers:
        outcome = apply_transfer(data, transfer, moving, progress=progress)
        whole = whole.and_then(result_of(transfer, outcome))
    return whole


def apply_transfer(
    data: Data,
    transfer: Transfer,
    moving: Moving,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Do what was planned in one area."""
    if (moving.engine or transfer.area.options.engine) == S5CMD:
        from launchbay.sync.s5cmd import apply_with_s5cmd  # noqa: PLC0415

        return apply_with_s5cmd(
            transfer.plan,
            transfer.area.options,
            memory=data.memory,
            progress=progress,
            at_once=moving.at_once,
        )
    from launchbay.sync.mirror import apply_mirror  # noqa: PLC0415

    return apply_mirror(
        transfer.plan,
        transfer.area.bucket,
        memory=data.memory,
        progress=progress,
        at_once=moving.at_once,
    )


def plan_sends(area: Area, keys: Iterable[str]) -> MirrorPlan:
    """A plan to send these files as they are, without asking what the bucket has."""
    from launchbay.sync.mirror import MirrorPlan, Step  # noqa: PLC0415

    steps = []
    for key in keys:
        with suppress(FileNotFoundError):
            status = (area.folder / key).stat()
            steps.append(
                Step(
                    key=key,
                    folder=area.folder,
                    size=status.st_size,
                    why="changed",
                    modified=status.st_mtime,
                )
            )
    return MirrorPlan(up=True, bucket_url=area.bucket.url, folder=area.folder, sends=tuple(steps))


def result_of(transfer: Transfer, outcome: Outcome) -> Result:
    """What came of one transfer."""
    plan, name = transfer.plan, transfer.area.name
    done = sorted(outcome.done, key=lambda step: step.key)
    return Result(
        done=tuple(step for step in done if step.why != "gone"),
        deleted=tuple(step for step in done if step.why == "gone"),
        failed=tuple((name(step.key), why) for step, why in outcome.failed),
        left_out=tuple((name(key), why) for key, why in plan.left_out),
        same=plan.same,
        bytes=outcome.bytes,
        seconds=outcome.seconds,
    )


def plan_removals(areas: Sequence[Area]) -> list[Removal]:
    """What would be removed.

    Raises:
        BadRequest: when all of a bucket is meant and not said so.
    """
    for area in areas:
        if "" in area.texts:
            hint = f"type `'{area.label}*'` if all of it is meant"
            raise BadRequest(f"that is everything in {area.bucket.url}", hint=hint)
    return [Removal(area=area, entries=tuple(area.entries())) for area in areas]


def remove_all(removals: Sequence[Removal]) -> None:
    """Remove what was planned."""
    for removal in removals:
        removal.area.bucket.delete(entry.key for entry in removal.entries)


def local_files(area: Area) -> dict[str, int]:
    """The files here that match, with their sizes, by key."""
    from launchbay.sync.local_files import list_files  # noqa: PLC0415

    found = list_files(area.folder, area.pattern).files
    return {key: status.st_size for key, status in sorted(found.items())}


def delete_local(area: Area) -> list[str]:
    """Delete the files here that match, and folders that became empty; their keys."""
    gone = list(local_files(area))
    for key in gone:
        path = area.folder / key
        path.unlink(missing_ok=True)
        with suppress(OSError):
            for folder in path.parents:
                if folder == area.folder:
                    break
                folder.rmdir()
    return gone


def find_missing(transfer: Transfer) -> list[str]:
    """The patterns that meant nothing at all, as typed."""
    area, plan = transfer.area, transfer.plan
    moved = [step.key for step in (*plan.sends, *plan.deletions)]
    left = unmatched(area, [*moved, *(name for name, _ in plan.left_out)])
    if not left or (len(area.texts) == 1 and plan.same):
        return []
    left = [text for text in left if not _is_here(area, text)]
    # What was only excluded is there all the same.
    return [text for text in left if plan.up or not any(area.only(text).entries())]


def _is_here(area: Area, text: str) -> bool:
    """Whether files here match, so that a pattern without steps means what is the same."""
    from launchbay.sync.local_files import list_files  # noqa: PLC0415

    return bool(list_files(area.folder, compile_patterns([text])).files)


def _latest(area: Area, moving: Moving) -> Area:
    keys = local_files(area) if moving.up else (entry.key for entry in area.entries())
    return area.narrowed(keep_latest(keys))
