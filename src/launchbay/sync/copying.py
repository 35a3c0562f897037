"""From one bucket to another, past this machine's disk: by the service itself where it can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from launchbay.core.errors import BayError
from launchbay.sync.bucket import kept_time_ns, part_size_for, why_refused
from launchbay.sync.checksums import count_parts, is_md5, join_digests, md5
from launchbay.sync.crew import Crew, Ended, Halted, read_ahead
from launchbay.sync.deciding import THERE_NEWER
from launchbay.sync.mirror import AT_ONCE, TELL_S, Meter, matching
from launchbay.sync.planning import COMPARE_AT_ONCE, EVERY_S
from launchbay.sync.transfer import (
    MD5_DETAIL,
    PART_DETAIL,
    SUM_DETAIL,
    WHOLE,
    Mismatch,
    Wire,
    is_fatal,
    persist,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from launchbay.sync.bucket import Bucket, Entry
    from launchbay.sync.deciding import Why
    from launchbay.sync.patterns import Pattern
    from launchbay.sync.steps import Progress

STREAM_PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """One object to copy."""

    key: str
    to: str
    size: int
    why: Why
    modified: float
    etag: str


@dataclass(frozen=True, kw_only=True)
class CopyPlan:
    """What would be copied; nothing is yet."""

    source_url: str
    target_url: str
    sends: tuple[CopyStep, ...] = ()
    same: int = 0
    same_bytes: int = 0
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Bytes to copy."""
        return sum(step.size for step in self.sends)


@dataclass(frozen=True, kw_only=True)
class CopyOutcome:
    """What was copied, and what was not, with why."""

    done: tuple[CopyStep, ...] = ()
    failed: tuple[tuple[CopyStep, str], ...] = ()
    bytes: int = 0
    seconds: float = 0.0


def plan_copy(
    source: Bucket,
    target: Bucket,
    pattern: Pattern,
    *,
    rename: Callable[[str], str] = str,
    overwrite: bool = False,
) -> CopyPlan:
    """What it takes to have the matching objects in the other bucket, too.

    Args:
        source: where they are.
        target: where they shall be.
        pattern: which.
        rename: what the copy of a key is called.
        overwrite: replace also what is newer there.
    """
    sends, left_out, same, same_bytes = [], {}, 0, 0
    wanted: dict[str, Entry] = {}
    for entry in matching(source, pattern):
        first = wanted.setdefault(rename(entry.key), entry)
        if first is not entry:
            left_out[entry.key] = f"its copy would have the same name as that of {first.key}"
    there = _find(target, wanted)
    alike = _same_by_details(source, target, wanted, there) if not overwrite else set()
    for to, entry in wanted.items():
        why = "same" if to in alike else _compare(entry, there.get(to), overwrite=overwrite)
        if target.parts and (refused := why_refused(to)):
            left_out[entry.key] = f"the store cannot take its name: {refused}"
        elif why == "same":
            same, same_bytes = same + 1, same_bytes + entry.size
        elif why == "newer":
            left_out[entry.key] = THERE_NEWER.replace("the file here", "the one to copy")
        else:
            sends.append(_step(entry, to, why))
    return CopyPlan(
        source_url=source.url,
        target_url=target.url,
        sends=tuple(sends),
        same=same,
        same_bytes=same_bytes,
        left_out=tuple(sorted(left_out.items())),
    )


def _step(entry: Entry, to: str, why: str) -> CopyStep:
    reasons: dict[str, Why] = {"new": "new", "changed": "changed", "overwrite": "overwrite"}
    return CopyStep(
        key=entry.key,
        to=to,
        size=entry.size,
        why=reasons[why],
        modified=entry.modified,
        etag=entry.etag,
    )


def _find(target: Bucket, wanted: Mapping[str, Entry]) -> dict[str, Entry]:
    """Those of the names that are there: one is asked for, of many the folder is listed."""
    if len(wanted) == 1:
        (name,) = wanted
        entry = None if why_refused(name) else target.head(name)
        return {name: entry} if entry else {}
    folder = _shared_folder(list(wanted))
    return {entry.key: entry for entry in target.walk(folder) if entry.key in wanted}


def _shared_folder(names: list[str]) -> str:
    if not names:
        return ""
    first, last = min(names), max(names)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[: first.rfind("/", 0, length) + 1]


def _same_by_details(
    source: Bucket, target: Bucket, wanted: Mapping[str, Entry], there: Mapping[str, Entry]
) -> set[str]:
    """Copies of equal size that kept the original's time, where no checksum tells."""
    doubts = [
        to
        for to, other in there.items()
        if wanted[to].size == other.size and _same_by_etag(wanted[to], other) is None
    ]

    def is_same(to: str) -> bool:
        kept = kept_time_ns(source.details(wanted[to].key))
        return kept is not None and kept == kept_time_ns(target.details(to))

    same = set()
    crew: Crew[str] = Crew(is_same, lambda _: 0)
    for ended in crew.run(doubts, at_once=COMPARE_AT_ONCE, every_s=EVERY_S):
        if isinstance(ended, Ended):
            if ended.error is not None:
                raise ended.error
            same |= {ended.job} if ended.result else set()
    return same


def _same_by_etag(entry: Entry, other: Entry) -> bool | None:
    if is_md5(entry.etag) and is_md5(other.etag):
        return entry.etag == other.etag
    return True if entry.etag == other.etag and count_parts(entry.etag) else None


def _compare(entry: Entry, other: Entry | None, *, overwrite: bool) -> str:
    if other is None:
        return "new"
    told = _same_by_etag(entry, other)
    if entry.size == other.size and told:
        return "same"
    if overwrite:
        return "overwrite"
    if entry.size == other.size and told is None and other.modified >= entry.modified:
        return "same"
    return "newer" if other.modified > entry.modified else "changed"


def copy_over(
    plan: CopyPlan,
    source: Bucket,
    target: Bucket,
    *,
    progress: Callable[[Progress], None] | None = None,
    at_once: int = AT_ONCE,
) -> CopyOutcome:
    """Copy what the plan says; one that fails stops no other.

    Raises:
        BayError: for what every object would meet, like wrong keys.
    """
    meter = Meter(progress, of_files=len(plan.sends), of_bytes=plan.size)
    crew: Crew[CopyStep] = Crew(lambda step: _copy(wire, source, step), _cost)
    wire = Wire(bucket=target, count=crew.count, check=crew.check, pause=crew.halt.wait)
    done, failed = [], []
    for ended in crew.run(plan.sends, at_once=at_once, every_s=TELL_S):
        if isinstance(ended, int):
            meter.bytes += ended
        elif isinstance(ended, Ended):
            if ended.error is None:
                done.append(ended.job)
                meter.files += 1
            elif not isinstance(ended.error, BayError | Halted) or is_fatal(ended.error):
                raise ended.error
            else:
                failed.append((ended.job, str(ended.error)))
        meter.show()
    meter.show(last=True)
    return CopyOutcome(
        done=tuple(done), failed=tuple(failed), bytes=meter.bytes, seconds=meter.seconds
    )


def _cost(step: CopyStep) -> int:
    if step.size <= WHOLE:
        return step.size
    return part_size_for(step.size) * STREAM_PARTS


def _copy(wire: Wire, source: Bucket, step: CopyStep) -> None:
    if wire.bucket.copy_from(source, step.key, step.to):
        wire.count(step.size)
        return
    move = _stream if step.size > WHOLE else _carry
    persist(wire, lambda: move(wire, source, step))


def _carry(wire: Wire, source: Bucket, step: CopyStep) -> None:
    data, details = source.take(step.key, etag=step.etag)
    whole = bytes(data)
    digest = md5(whole).hexdigest()
    known = details.get(MD5_DETAIL) or (step.etag if is_md5(step.etag) else digest)
    if len(whole) != step.size or known != digest:
        raise Mismatch(f"{step.key} came damaged from {source.url}", hint="try again")
    etag = wire.bucket.put(step.to, whole, details=_kept(wire, details, digest))
    _check_arrived(wire, step, etag, digest)
    wire.count(len(whole))


def _stream(wire: Wire, source: Bucket, step: CopyStep) -> None:
    """Part by part: of a big object only a few parts are here at once."""
    part = part_size_for(step.size)
    details = dict(source.details(step.key))
    if details.get(PART_DETAIL) != str(part):
        details.pop(SUM_DETAIL, None)
    details[PART_DETAIL] = str(part)
    digests: list[bytes] = []
    whole = md5(b"")
    counted = 0

    def parts() -> Iterator[bytes]:
        nonlocal counted
        for data in read_ahead(_rechunk(source, step, part), wire.check):
            digests.append(md5(data).digest())
            whole.update(data)
            yield data
            counted += len(data)
            wire.count(len(data))
        if counted != step.size or (is_md5(step.etag) and step.etag != whole.hexdigest()):
            raise Mismatch(f"{step.key} came damaged from {source.url}", hint="try again")

    try:
        etag = wire.bucket.put(
            step.to, parts(), details=details, part_size=part, at_once=STREAM_PARTS
        )
    except BaseException:
        wire.count(-counted)
        raise
    _check_arrived(wire, step, etag, join_digests(digests))


def _rechunk(source: Bucket, step: CopyStep, part: int) -> Iterator[bytes]:
    """The object in pieces of exactly that size, the last one perhaps smaller."""
    held = bytearray()
    for chunk in source.read(step.key, etag=step.etag):
        held += memoryview(chunk)
        while len(held) >= part:
            yield bytes(held[:part])
            del held[:part]
    if held:
        yield bytes(held)


def _kept(wire: Wire, details: Mapping[str, str], digest: str) -> dict[str, str]:
    kept = {name: details[name] for name in ("mode", "mtime") if name in details}
    return kept | ({MD5_DETAIL: digest} if wire.keeps_md5 else {})


def _check_arrived(wire: Wire, step: CopyStep, etag: str, digest: str) -> None:
    """A size that differs is damage; an ETag that differs may be that of an encrypted object."""
    if etag == digest or not (is_md5(etag) or count_parts(etag)):
        return
    found = wire.bucket.head(step.to)
    if found is None or found.size != step.size:
        raise Mismatch(f"{step.to} arrived damaged in {wire.bucket.url}", hint="try again")
