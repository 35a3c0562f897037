"""Reading what runs printed."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from launchbay.core import rundir
from launchbay.core.backend import LogChunk
from launchbay.core.errors import BayError, TargetError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

ERROR = re.compile(r"error|exception|killed|not found|denied|no such|failed|fatal", re.IGNORECASE)
LOG_END = 20_000
"""Characters."""
COMPLETE = " complete"
"""What stands behind the cursor of a log that will not grow any more."""
NOTHING = "/"
"""A pattern that no output matches."""
CHANGING = re.compile(r"0x[0-9a-f]+|/runs/[^/\s]+|\d+")


def read_kept(lab: Lab, run: Run, rank: int, *, whole: bool = True) -> LogChunk:
    """The whole log of a run elsewhere: what came home before, and what came since.

    Once the run has ended and all of it is here, its target is not asked any more; where the target
    does not answer, what is here counts.
    """
    path = rundir.attempt_folder(lab.folder(run), run.attempt) / rundir.log_name(rank)
    mark = path.with_suffix(".cursor")
    before, cursor = _read(path), _read(mark)
    if cursor.endswith(COMPLETE):
        return LogChunk(text=before, cursor=cursor.removesuffix(COMPLETE))
    try:
        chunk = _read_rest(lab, run, rank, cursor, whole=whole)
    except TargetError:
        if copied := _read_copied(lab, run, rank):
            return LogChunk(text=copied, cursor=cursor)
        if not before:
            raise
        return LogChunk(text=before, cursor=cursor)
    if run.state.final and not before and not chunk.text:
        # It may have printed nothing, or be gone there.
        copied = _read_copied(lab, run, rank) or _read_from_claim(lab, run, path)
        return LogChunk(text=copied, cursor=chunk.cursor)
    # Where the target has gone on to a further attempt, the log is another one.
    text = before + chunk.text if _is_same_log(cursor, chunk.cursor) else chunk.text
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        mark.write_text(chunk.cursor + (COMPLETE if run.state.final and not chunk.more else ""))
    return LogChunk(text=text, cursor=chunk.cursor, more=chunk.more)


def read_on(lab: Lab, run: Run, rank: int, cursor: str) -> LogChunk:
    """What came since `cursor` of the log of a run elsewhere, which is kept here, too."""
    chunk = lab.targets.reopen(run).read_log(run.handle, rank=rank, cursor=cursor)
    path = rundir.attempt_folder(lab.folder(run), run.attempt) / rundir.log_name(rank)
    mark = path.with_suffix(".cursor")
    ended = run.state.final and not chunk.more
    # Only what follows what is here; a log of a further attempt is another one.
    if _read(mark) == cursor and _is_same_log(cursor, chunk.cursor):
        _append(path, mark, chunk, ended=ended)
    return chunk


def _is_same_log(cursor: str, later: str) -> bool:
    return ":" not in cursor or cursor.partition(":")[0] == later.partition(":")[0]


def _append(path: Path, mark: Path, chunk: LogChunk, *, ended: bool) -> None:
    if not chunk.text and not ended:
        return
    with suppress(OSError), path.open("ab") as log:
        log.write(chunk.text.encode("utf-8", "surrogateescape"))
        log.flush()
        mark.write_text(chunk.cursor + (COMPLETE if ended else ""))


def _read_rest(lab: Lab, run: Run, rank: int, cursor: str, *, whole: bool) -> LogChunk:
    """Everything since `cursor`, in as many pieces as it takes, or the first of them."""
    backend = lab.targets.reopen(run)
    chunk = backend.read_log(run.handle, rank=rank, cursor=cursor)
    texts = [chunk.text]
    while whole and chunk.more:
        chunk = backend.read_log(run.handle, rank=rank, cursor=chunk.cursor)
        texts.append(chunk.text)
    return LogChunk(text="".join(texts), cursor=chunk.cursor, more=chunk.more)


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


def _read_from_claim(lab: Lab, run: Run, path: Path) -> str:
    """The log of a run whose folder is on a volume claim; empty where it is not."""
    from launchbay.engine.fetch import bring_home  # noqa: PLC0415
    from launchbay.engine.homing import claim_of  # noqa: PLC0415

    if not run.is_elsewhere or not claim_of(lab, run):
        return ""
    try:
        # Records and logs come in any case, and of outputs what is called so: nothing.
        bring_home(lab, run, [NOTHING])
    except BayError as err:
        lab.tell(f"{run.suffix}: its log is not to be had: {err}")
    return _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def read_all(lab: Lab, run: Run, *, rank: int = 0) -> str:
    """The whole log of the present attempt; empty where there is none."""
    if not run.native_id:
        return ""
    try:
        return lab.read_log(run, rank=rank).text
    except TargetError:
        return ""


def read_end(lab: Lab, run: Run) -> str:
    """The end of the log, in which patterns are looked for."""
    return read_all(lab, run)[-LOG_END:]


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
