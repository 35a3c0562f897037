"""`bay data cp`: between buckets, or a bucket and any place here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import BadRequest, BayError, DataError
from launchbay.core.whole import replacing
from launchbay.engine.data import nearest
from launchbay.engine.transfers import (
    Moving,
    Result,
    Transfer,
    apply_transfer,
    plan_transfers,
    result_of,
)
from launchbay.sync.address import WILDCARD, join_url
from launchbay.sync.bucket import apply_details, details_of
from launchbay.sync.patterns import Pattern, compile_patterns
from launchbay.sync.steps import MirrorPlan, Outcome, Progress, Step

if TYPE_CHECKING:
    from launchbay.engine.data import Area, Data
    from launchbay.sync.copying import CopyStep

Tell = Callable[[Progress], None]
Do = Callable[[Tell | None], Outcome]


@dataclass(frozen=True, kw_only=True)
class Copying:
    """What is to be copied, and how."""

    area: Area
    plan: MirrorPlan
    do: Do

    @property
    def transfer(self) -> Transfer:
        """The same as a plan to show."""
        return Transfer(area=self.area, plan=self.plan)


def plan_copies(data: Data, source: str, target: str, *, overwrite: bool = False) -> Copying:
    """What would be copied.

    Raises:
        BadRequest: when neither side is in a bucket.
        DataError: when there is nothing to copy.
    """
    if is_local(source) and is_local(target):
        raise BadRequest("both are files here", hint="`cp` copies those")
    if is_local(source):
        return _from_here(data, data.here / Path(source).expanduser(), target, overwrite=overwrite)
    area = data.area(source)
    entry = area.bucket.head(area.pattern.literal) if area.pattern.literal else None
    how = Moving(up=False, overwrite=overwrite)
    if is_local(target):
        path = data.here / Path(target).expanduser()
        if entry is None:
            return _to_here(data, area, path, how)
        name = entry.key.rpartition("/")[2]
        step = Step(key=entry.key, folder=area.folder, size=entry.size, why="new", etag=entry.etag)
        inside = target.endswith("/") or path.is_dir()
        return _one_to_here(area, step, path / name if inside else path)
    other, key = _target(data, target)
    here = join_url(area.options.url, entry.key if entry else _base(area)).rstrip("/")
    if here == join_url(other.options.url, key).rstrip("/"):
        raise BadRequest("both are the same place", hint="name another one to copy to")
    if entry is None:
        base, prefix = _base(area), f"{key.rstrip('/')}/" if key else ""
        return _between(area, other, lambda name: prefix + name[len(base) :], how)
    to = _into(key, entry.key.rpartition("/")[2])
    return _between(area.narrowed([entry.key]), other, lambda _: to, how)


def carry_copy(data: Data, copying: Copying, *, progress: Tell | None = None) -> Result:
    """Copy what was planned."""
    del data
    return result_of(copying.transfer, copying.do(progress))


def is_local(text: str) -> bool:
    """Whether `cp` takes it for a file of this machine.

    >>> is_local("./x"), is_local("/tmp/x"), is_local("data/x"), is_local("s3://lab/x")
    (True, True, False, False)
    """
    return text in {".", ".."} or text.startswith(("./", "../", "/", "~"))


@dataclass(frozen=True, kw_only=True)
class Shifted(Pattern):
    """A pattern for keys that count from one of its folders."""

    base: str
    whole: Pattern

    def matches(self, key: str) -> bool:
        """Whether the key is meant, as the whole pattern sees it."""
        return self.whole.matches(self.base + key)


def _shift(area: Area, base: str) -> Area:
    """The same objects, with keys that count from a folder."""
    blank = vars(compile_patterns([]))
    return replace(
        area,
        options=replace(area.options, url=join_url(area.options.url, base.rstrip("/"))),
        pattern=Shifted(**{**blank, "base": base, "whole": area.pattern}),
        label=f"{area.label}{base}",
    )


def _base(area: Area) -> str:
    """The folder whose inside is meant."""
    name = area.pattern.literal
    return f"{name}/" if name else area.pattern.folder


def _target(data: Data, text: str) -> tuple[Area, str]:
    """The bucket that is copied to, and the key or folder there."""
    area = data.area(text)
    key = area.texts[0]
    if WILDCARD.search(key):
        raise BadRequest(f"`{text}` is no one place to copy to", hint="name a folder or an object")
    return area, key


def _to_here(data: Data, area: Area, folder: Path, moving: Moving) -> Copying:
    shifted = replace(_shift(area, _base(area)), folder=folder)
    (transfer,) = plan_transfers(data, [shifted], moving)
    _check_found(area, transfer.plan)
    return Copying(
        area=shifted,
        plan=transfer.plan,
        do=lambda tell: apply_transfer(data, transfer, moving, progress=tell),
    )


def _from_here(data: Data, path: Path, target: str, *, overwrite: bool) -> Copying:
    area, key = _target(data, target)
    if path.is_file():
        return _one_file(area, path, _into(key, path.name))
    folder, rest = _split_wildcard(path)
    if not folder.is_dir():
        raise DataError(f"there is no `{path}`", hint="check the name")
    moving = Moving(up=True, overwrite=overwrite)
    prefix = f"{key.rstrip('/')}/" if key else ""
    pattern = compile_patterns([rest])
    shifted = replace(_shift(area, prefix), folder=folder, texts=(rest,), pattern=pattern)
    (transfer,) = plan_transfers(data, [shifted], moving)
    if not (transfer.plan.sends or transfer.plan.same or transfer.plan.left_out):
        raise DataError(f"nothing matches `{path}`", hint="check the name")
    return Copying(
        area=shifted,
        plan=transfer.plan,
        do=lambda tell: apply_transfer(data, transfer, moving, progress=tell),
    )


def _between(area: Area, target: Area, rename: Callable[[str], str], how: Moving) -> Copying:
    """From bucket to bucket, past the disk."""
    from launchbay.sync.copying import copy_over, plan_copy  # noqa: PLC0415

    source, there = area.bucket, target.bucket
    made = plan_copy(source, there, area.pattern, rename=rename, overwrite=how.overwrite)
    plan = MirrorPlan(
        up=True,
        bucket_url=there.url,
        folder=area.folder,
        sends=tuple(_as_step(area, step) for step in made.sends),
        same=made.same,
        same_bytes=made.same_bytes,
        left_out=made.left_out,
    )
    _check_found(area, plan)

    def do(tell: Tell | None) -> Outcome:
        outcome = copy_over(made, source, there, progress=tell, at_once=how.at_once)
        return Outcome(
            done=tuple(_as_step(area, step) for step in outcome.done),
            failed=tuple((_as_step(area, step), why) for step, why in outcome.failed),
            bytes=outcome.bytes,
            seconds=outcome.seconds,
        )

    return Copying(area=area, plan=plan, do=do)


def _as_step(area: Area, step: CopyStep) -> Step:
    return Step(key=step.key, folder=area.folder, size=step.size, why=step.why, etag=step.etag)


def _one_to_here(area: Area, step: Step, path: Path) -> Copying:
    step = replace(step, folder=path.parent)
    return _single(area, step, lambda: _fetch(area, step, path), up=False)


def _one_file(area: Area, path: Path, key: str) -> Copying:
    status = path.stat()
    step = Step(key=key, folder=path.parent, size=status.st_size, why="new")
    details = details_of(status)
    return _single(area, step, lambda: area.bucket.put(key, path, details=details), up=True)


def _single(area: Area, step: Step, action: Callable[[], object], *, up: bool) -> Copying:
    plan = MirrorPlan(up=up, bucket_url=area.bucket.url, folder=step.folder, sends=(step,))

    def do(_tell: Tell | None) -> Outcome:
        began = time.monotonic()
        try:
            action()
        except BayError as err:
            return Outcome(failed=((step, str(err)),))
        return Outcome(done=(step,), bytes=step.size, seconds=time.monotonic() - began)

    return Copying(area=area, plan=plan, do=do)


def _fetch(area: Area, step: Step, path: Path) -> None:
    """Bring one object to a path of any name; it appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        with draft.open("wb") as file:
            for chunk in area.bucket.read(step.key, etag=step.etag):
                file.write(chunk)
            _check_size(file.tell(), step)
        apply_details(draft, area.bucket.details(step.key))


def _check_size(size: int, step: Step) -> None:
    if size != step.size:
        raise DataError(f"{size} of {step.size} bytes came", hint="try again")


def _into(key: str, name: str) -> str:
    return f"{key}{name}" if not key or key.endswith("/") else key


def _split_wildcard(path: Path) -> tuple[Path, str]:
    """The folder before the first wildcard, and the pattern below it."""
    parts = path.parts
    if path.is_dir():
        return path, ""
    at = next((at for at, part in enumerate(parts) if WILDCARD.search(part)), len(parts))
    return Path(*parts[:at]), "/".join(parts[at:])


def _check_found(area: Area, plan: MirrorPlan) -> None:
    if not (plan.sends or plan.same or plan.left_out):
        what = area.name(area.texts[0])
        raise DataError(f"nothing in {area.bucket.url} matches `{what}`", hint=nearest(area))
