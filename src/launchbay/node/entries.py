"""An entry of the queue: one run that waits or runs."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORMAT = 1
GRACE_S = 10.0


class NewerFormat(Exception):
    """Somebody with a newer launchbay wrote this."""


class Entry:
    """What a run needs, what limits it, and the GPUs that it was given."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.run = str(record["run"])
        self.attempt = int(record["attempt"])
        self.folder = str(record["folder"])
        self.caps = {cap: (int(most), str(meaning)) for cap, (most, meaning) in _caps(record)}
        needs = record["needs"]
        self.cpus = float(needs.get("cpus") or 0)
        self.memory_mib = float(needs.get("memory_mib") or 0)
        self.time_s = None if needs.get("time_s") is None else float(needs["time_s"])
        self.grace_s = float(needs.get("grace_s") or GRACE_S)
        """How long it may take to end once it was told to."""
        self.gpus = float(needs.get("gpus") or 0)
        self.allowed = [str(device) for device in needs.get("devices") or ()]
        self.auto = bool(needs.get("auto"))
        """Whether GPUs that others use are to be left out."""
        self.hides_gpus = bool(needs.get("hide_gpus"))
        given = record.get("devices")
        self.devices = None if given is None else [str(device) for device in given]

    @property
    def records(self) -> str:
        """The folder of this attempt's records."""
        return os.path.join(self.folder, "attempts", str(self.attempt))

    def with_devices(self, devices: list[str]) -> Entry:
        """The same run, holding these GPUs."""
        return Entry({**self.record, "devices": devices})


def entry_key(run: str, attempt: int) -> str:
    """What an attempt is known by in the queue."""
    return f"{run}-{attempt}"


def render_entry(entry: Entry) -> str:
    """The text of the entry's file."""
    return json.dumps(entry.record)


def parse_entry(text: bytes) -> Entry:
    """The entry in a file's text.

    Raises:
        NewerFormat: when it is not for this version to judge.
        ValueError: when it is none.
    """
    record = json.loads(text)
    try:
        if record.get("format", FORMAT) > FORMAT:
            raise NewerFormat
        return Entry(record)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no entry: {error!r}") from error


def _caps(record: dict[str, Any]) -> list[tuple[str, tuple[int, str]]]:
    return sorted(record["caps"].items())
