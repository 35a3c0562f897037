"""Plans that were made for places elsewhere: kept before they are sent, and until they are.

```text
.bay/launches/<tag>/plans/
    <number>-<plan id>.json    its jobs, and where they go; as long as the launch is kept
    <number>-<plan id>.txt     what is to be sent; as long as it has not been
    <number>-<plan id>.sent    what each of its runs is called there, once it has been
```
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from launchbay.core.backend import Plan
from launchbay.core.errors import StoreError
from launchbay.core.job import from_record, to_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from launchbay.core.job import Job

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A plan that was kept."""

    path: Path
    record: Mapping[str, Any]

    @property
    def target(self) -> str:
        """What its target was called."""
        return str(self.record["target"])

    @property
    def place(self) -> dict[str, str]:
        """Where its runs go."""
        return dict(self.record["place"])

    @property
    def run_ids(self) -> list[str]:
        """Its runs."""
        return [job["run_id"] for job in self.record["jobs"]]

    def jobs(self) -> Iterator[Job]:
        """What was asked for each."""
        return map(from_record, self.record["jobs"])

    def names(self) -> dict[str, str]:
        """What each run is called there; nothing for what was not sent."""
        try:
            return dict(json.loads(self.path.with_suffix(".sent").read_text()))
        except (OSError, ValueError):
            return {}

    def plan(self) -> Plan:
        """The plan as it was made."""
        # Not as text: line ends of every kind stay as they are.
        document = _document(self.path).read_bytes().decode("utf-8", "surrogateescape")
        return Plan(id=self.record["id"], jobs=tuple(self.jobs()), document=document)


def keep_plans(
    launch: Path, plans: Sequence[Plan], *, target: str, place: Mapping[str, str]
) -> None:
    """Write plans down before they are sent.

    Raises:
        StoreError: when that cannot be done; then nothing may be sent.
    """
    folder = launch / "plans"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for number, plan in enumerate(plans):
            path = folder / f"{number:05d}-{plan.id}.json"
            _document(path).write_bytes(plan.document.encode("utf-8", "surrogateescape"))
            head = {"format": FORMAT, "id": plan.id, "target": target, "place": dict(place)}
            record = {**head, "jobs": [to_record(job) for job in plan.jobs]}
            path.write_text(json.dumps(record))
    except OSError as err:
        raise StoreError(
            f"`{err.filename}` cannot be written: {err.strerror}; nothing was sent",
            hint="free some space, and type the same again",
        ) from err


def kept_plans(launch: Path, *, unsent: bool = False) -> Iterator[Kept]:
    """The plans of a launch in their order, all or those that were not sent as a whole."""
    for path in sorted((launch / "plans").glob("*.json")):
        if unsent and not _document(path).exists():
            continue
        with suppress(OSError, ValueError):
            yield Kept(path=path, record=json.loads(path.read_text()))


def find_job(launch: Path, run_id: str) -> Job | None:
    """What a launch asked for a run."""
    for kept in kept_plans(launch):
        for job in kept.record["jobs"]:
            if job["run_id"] == run_id:
                return from_record(job)
    return None


def mark_sent(launch: Path, plan_id: str, names: Mapping[str, str]) -> None:
    """Note that nothing of a plan waits here any more, and what its runs are called there."""
    # Where it cannot be written, the plan is sent once more, which starts nothing twice.
    with suppress(OSError):
        for path in (launch / "plans").glob(f"*-{plan_id}.txt"):
            path.with_suffix(".sent").write_text(json.dumps(dict(names)))
            path.unlink(missing_ok=True)


def _document(path: Path) -> Path:
    return path.with_suffix(".txt")
