"""What runs have copied to object storage: where, and bringing it home when their target cannot.

A launch that ships, or wants outputs at home, keeps that in `.bay/launches/<tag>/carriage.json`.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from launchbay.backends.depot_pull import (
    Remote,
    Twin,
    choose,
    find_place,
    matches_place,
    translated,
)
from launchbay.core import rundir
from launchbay.core.errors import BayError
from launchbay.core.job import CLAIM
from launchbay.engine.lab import CARRIAGE
from launchbay.engine.signing import ARCHIVE, LOG
from launchbay.engine.storing import find_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from launchbay.core.job import Job
    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.settings import Settings
    from launchbay.sync.bucket import Bucket, Entry


def keep_carriage(settings: Settings, launch: Path, jobs: Iterable[Job]) -> None:
    """Note where the runs of a launch copy their outputs to, and what of them is wanted here."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for job in jobs:
        if job.ship or job.fetch:
            to = job.ship.to if job.ship else ""
            groups.setdefault((to, job.fetch), []).append(job.run_id)
    if groups:
        # A sweep has many runs and few places: each is looked up once.
        urls = {to: _locate(settings, to) for to, _ in groups}
        record = [
            {"to": urls[to], "fetch": fetch, "runs": runs} for (to, fetch), runs in groups.items()
        ]
        (launch / CARRIAGE).write_text(json.dumps(record))


def _locate(settings: Settings, to: str) -> str:
    """The address of a place that outputs go to; a claim is where they are from the beginning."""
    return find_store(settings, to).url if to and not to.startswith(CLAIM) else to


def shipped_to(lab: Lab, run: Run) -> str:
    """Where a run copies its outputs to; empty for nowhere."""
    to = str(_carriage(lab, run).get("to") or "")
    return f"{to}/{run.id}" if to and not to.startswith(CLAIM) else ""


def claim_of(lab: Lab, run: Run) -> str:
    """The volume claim that a run's folder is on; empty for none."""
    to = str(_carriage(lab, run).get("to") or "")
    return to.removeprefix(CLAIM) if to.startswith(CLAIM) else ""


def wanted_here(lab: Lab, run: Run) -> tuple[str, ...]:
    """Patterns of the outputs that are to come home at the end of a run."""
    return tuple(_carriage(lab, run).get("fetch", ()))


def _carriage(lab: Lab, run: Run) -> dict[str, Any]:
    path = lab.launch_folder(run) / CARRIAGE
    with suppress(OSError, ValueError):
        for group in json.loads(path.read_text()):
            if run.id in group["runs"]:
                return dict(group)
    return {}


def bring_from_store(lab: Lab, run: Run, patterns: Sequence[str] = ()) -> str:
    """Have in the run's folder here what it copied to object storage; where that was.

    Empty when there is nothing. Whatever lies there, nothing is written outside of that folder.

    Raises:
        DataError: when the store does not let us.
        StoreError: when this side cannot write.
    """
    url = shipped_to(lab, run)
    if not url:
        return ""
    bucket = find_store(lab.settings, url).open()
    entries = {entry.key: entry for entry in bucket.walk()}
    if not entries:
        return ""
    twin = lab.folder(run)
    copy = Twin(twin, url)
    with translated(twin):
        files = [_remote(entry, run) for entry in entries.values() if entry.key != ARCHIVE]
        for file in choose([file for file in files if file.place], twin, patterns):
            with copy.writing(file) as stream:
                for chunk in bucket.read(file.source):
                    stream.write(chunk)
        if ARCHIVE in entries:
            _unpack(bucket, copy, patterns)
    return url


def read_log_from_store(lab: Lab, run: Run, rank: int) -> str | None:
    """What a run's present attempt printed, as far as it was copied; None where it was not."""
    url = shipped_to(lab, run)
    if not url:
        return None
    bucket = find_store(lab.settings, url).open()
    name = f"attempts/{run.attempt}/{rundir.log_name(rank)}"
    for key in (name, LOG) if rank == 0 else (name,):
        if bucket.head(key) is not None:
            data = b"".join(bytes(chunk) for chunk in bucket.read(key))
            return data.decode("utf-8", "surrogateescape")
    return None


def fetch_wanted(lab: Lab, runs: Iterable[Run]) -> None:
    """Bring home what runs elsewhere that have just ended were asked for; trouble is told only."""
    from launchbay.engine.fetch import bring_home  # noqa: PLC0415

    for run in runs:
        patterns = wanted_here(lab, run)
        if not patterns:
            continue
        try:
            bring_home(lab, run, patterns)
        except BayError as err:
            lab.tell(f"{run.suffix}: its outputs did not come home: {err}")
        except KeyboardInterrupt:
            lab.tell("outputs did not all come home; `bay fetch` brings the rest")
            raise


def _remote(entry: Entry, run: Run) -> Remote:
    place = find_place(entry.key)
    if entry.key == LOG:
        place = f"attempts/{run.attempt}/{rundir.log_name()}"
    return Remote(
        source=entry.key,
        place=place,
        size=entry.size,
        mtime_ns=int(entry.modified * 10**9),
        is_link=False,
    )


def _unpack(bucket: Bucket, copy: Twin, patterns: Sequence[str]) -> None:
    """Write what of an archive is wanted; links stay in it."""
    with tempfile.TemporaryFile() as data:
        data.writelines(bucket.read(ARCHIVE))
        data.seek(0)
        with tarfile.open(fileobj=data, mode="r:gz", errors="surrogateescape") as tar:
            _write_members(tar, copy, patterns)


def _write_members(tar: tarfile.TarFile, copy: Twin, patterns: Sequence[str]) -> None:
    for member in tar:
        name = member.name.removeprefix("./")
        place = find_place(name)
        content = tar.extractfile(member) if member.isreg() else None
        if not place or content is None or not matches_place(place, patterns):
            continue
        file = Remote(
            source=name,
            place=place,
            size=member.size,
            mtime_ns=int(member.mtime * 10**9),
            is_link=False,
        )
        with copy.writing(file) as stream:
            shutil.copyfileobj(content, stream)
