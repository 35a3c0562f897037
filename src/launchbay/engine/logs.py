"""Reading what runs printed."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from launchbay.core import rundir
from launchbay.core.backend import LogChunk
from launchbay.core.errors import BayError, TargetError
from launchbay.engine.kept_log import KeptLog, Mark, is_same_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

ERROR = re.compile(r"error|exception|killed|not found|denied|no such|failed|fatal", re.IGNORECASE)
LOG_END = 20_000
"""Bytes."""
NOTHING = "/"
"""A pattern that no output matches."""
CHANGING = re.compile(r"0x[0-9a-f]+|/runs/[^/\s]+|\d+")


def pieces(
    lab: Lab, run: Run, *, rank: int = 0, cursor: str = "", copies: bool = True
) -> Iterator[LogChunk]:
    """What the run's present attempt printed since `cursor`, never more of it at once than a piece.

    What comes from elsewhere is kept here. Once the run has ended and all of it is here, its target
    is not asked any more; where the target does not answer, what is here counts.

    Args:
        lab: the lab.
        run: whose log.
        rank: of which of its processes.
        cursor: where an earlier piece ended; empty is the beginning.
        copies: whether what was copied elsewhere will do, from which nobody can go on.

    Raises:
        TargetError: when the target does not answer, and nothing of the log is here.
    """
    if not run.native_id:
        return
    kept = KeptLog(_path(lab, run, rank))
    gone = run.state.final and not lab.folder(run).is_dir()
    if run.is_elsewhere and cursor:
        yield from _bring(lab, run, rank, cursor, kept)
    elif run.is_elsewhere or (gone and not cursor):
        yield from _from_the_beginning(lab, run, rank, kept, copies=copies)
    else:
        yield from _ask(lab, run, rank, cursor)


def _from_the_beginning(
    lab: Lab, run: Run, rank: int, kept: KeptLog, *, copies: bool
) -> Iterator[LogChunk]:
    """What came home before, and what came since."""
    mark = kept.mark()
    if mark.complete:
        yield from kept.pieces(mark)
        return
    coming = _bring(lab, run, rank, mark.cursor, kept)
    try:
        first = next(coming)
    except TargetError:
        here = _copies(lab, run, rank, kept, mark) if copies else kept.pieces(mark)
        found = next(here, None)
        if found is None:
            raise
        yield found
        yield from here
        return
    if run.state.final and not mark.size and not first.text:
        # It may have printed nothing, or be gone there.
        yield from _copies(lab, run, rank, kept, mark)
        return
    # Where the target has gone on to a further attempt, the log is another one.
    if is_same_log(mark.cursor, first.cursor):
        yield from kept.pieces(mark)
    yield first
    yield from coming


def _copies(lab: Lab, run: Run, rank: int, kept: KeptLog, mark: Mark) -> Iterator[LogChunk]:
    """What was copied of a log that is not to be had where it was written."""
    if copied := _read_copied(lab, run, rank):
        yield LogChunk(text=copied, cursor=mark.cursor)
        return
    if run.state.final and not mark.size:
        _fetch_from_claim(lab, run)
    # All of the file: `bay fetch` may have brought it.
    yield from kept.pieces(kept.found())


def _bring(lab: Lab, run: Run, rank: int, cursor: str, kept: KeptLog) -> Iterator[LogChunk]:
    """What the target has since `cursor`, which is kept here, too."""
    for chunk in _ask(lab, run, rank, cursor):
        kept.add(chunk, after=cursor, ended=run.state.final and not chunk.more)
        cursor = chunk.cursor
        yield chunk


def _ask(lab: Lab, run: Run, rank: int, cursor: str) -> Iterator[LogChunk]:
    backend = lab.targets.reopen(run)
    more = True
    while more:
        chunk = backend.read_log(run.handle, rank=rank, cursor=cursor)
        # Where nothing comes although more is there, the next look tries again.
        more = chunk.more and chunk.cursor != cursor
        cursor = chunk.cursor
        yield chunk


def _path(lab: Lab, run: Run, rank: int = 0) -> Path:
    return rundir.attempt_folder(lab.folder(run), run.attempt) / rundir.log_name(rank)


def _read_copied(lab: Lab, run: Run, rank: int) -> str:
    """What of the log was copied to object storage; empty where nothing was, or can be had."""
    url = lab.shipped_to(run)
    if not url:
        return ""
    from launchbay.engine.homing import read_log_from_store  # noqa: PLC0415

    try:
        text = read_log_from_store(lab, run, rank) or ""
    except BayError as err:
        lab.tell(f"{run.suffix}: its log is not to be had: {err}")
        return ""
    if text:
        lab.tell(f"{run.suffix}: from {url}")
    return text


def _fetch_from_claim(lab: Lab, run: Run) -> None:
    """Have here the log of a run whose folder is on a volume claim."""
    from launchbay.engine.fetch import bring_home  # noqa: PLC0415
    from launchbay.engine.homing import claim_of  # noqa: PLC0415

    if not run.is_elsewhere or not claim_of(lab, run):
        return
    try:
        # Records and logs come in any case, and of outputs what is called so: nothing.
        bring_home(lab, run, [NOTHING])
    except BayError as err:
        lab.tell(f"{run.suffix}: its log is not to be had: {err}")


def read_all(lab: Lab, run: Run) -> str:
    """The whole log of the present attempt; empty where there is none."""
    try:
        return "".join(chunk.text for chunk in pieces(lab, run))
    except TargetError:
        return ""


def read_end(lab: Lab, run: Run) -> str:
    """The end of the log, in which patterns are looked for; empty where there is none."""
    path = _path(lab, run)
    if (not run.is_elsewhere or KeptLog(path).mark().complete) and path.is_file():
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LOG_END))
            return file.read().decode("utf-8", "replace")
    end = ""
    with suppress(TargetError):
        for chunk in pieces(lab, run):
            end = (end + chunk.text)[-LOG_END:]
    return end


def bring_log(lab: Lab, run: Run) -> None:
    """Have all of the log here.

    Raises:
        TargetError: when the target does not answer, and nothing of the log is here.
    """
    for _ in pieces(lab, run):
        pass


def tail(lab: Lab, run: Run, lines: int) -> list[str]:
    """The log's last lines."""
    return read_end(lab, run).splitlines()[-lines:]


def last_error(lab: Lab, run: Run) -> str:
    """The line that says why it failed: the last that looks like an error, else the last."""
    lines = [line.strip() for line in read_end(lab, run).splitlines() if line.strip()]
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
