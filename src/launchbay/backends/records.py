"""What attempts leave behind in their folders, as programs on nodes print it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTION = re.compile(r"^--(marks|events|values)$", re.MULTILINE)
MARK = re.compile(r"(?P<run>[^/]+)/attempts/(?P<attempt>\d+)/(?P<name>[a-z]+)")
EVENT = re.compile(r"(?P<run>[^/]+)/attempts/(?P<attempt>\d+)/(?P<file>\w+\.jsonl?):(?P<text>.*)")
TITLE = re.compile(r"^==> (.*) <==$")


@dataclass
class Record:
    """What one attempt left behind."""

    marks: set[str] = field(default_factory=set)
    """`claim`, `cancel`, `timeout`; `continued`, or `cut` where Slurm would not queue it again."""
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last event of each kind."""
    patterns: dict[str, str] = field(default_factory=dict)
    log: str = ""


@dataclass
class Records:
    """What all attempts of a run left behind."""

    attempts: dict[int, Record] = field(default_factory=dict)
    metrics: str = ""
    """The end of `metrics.jsonl`."""

    def latest(self, base: int) -> tuple[int, Record]:
        """The newest attempt since `base`, or `base` where none has begun."""
        begun = [number for number in self.attempts if number > base]
        number = max(begun, default=base)
        return number, self.attempts.get(number, Record())

    def task(self, base: int) -> str:
        """What Slurm calls the allocation in which it began; empty for what has not begun."""
        return str(self.latest(base)[1].events.get("started", {}).get("task") or "")


def parse_look(text: str) -> tuple[str, dict[str, Records]]:
    """What `look` of a node program printed: its own lines, and the records by run."""
    listed, *rest = SECTION.split(text)
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    found: dict[str, Records] = {}
    for line in sections.get("marks", "").splitlines():
        if mark := MARK.fullmatch(line):
            _attempt(found, mark["run"], int(mark["attempt"])).marks.add(mark["name"])
    for line in sections.get("events", "").splitlines():
        if event := EVENT.fullmatch(line):
            _note(
                _attempt(found, event["run"], int(event["attempt"])), event["file"], event["text"]
            )
    for path, end in _titled(sections.get("values", "")):
        if path.endswith("/out/metrics.jsonl"):
            found.setdefault(path.partition("/")[0], Records()).metrics = end
        elif mark := MARK.match(path):
            _attempt(found, mark["run"], int(mark["attempt"])).log = end
    return listed, found


def flatten(record: Record, records: Records) -> dict[str, Any]:
    """What `parse_status` takes: the events of one attempt, flat."""
    started, ended = record.events.get("started", {}), record.events.get("exit")
    line: dict[str, Any] = {
        "host": started.get("host"),
        "started": started.get("at"),
        "allocation": started.get("allocation"),
        "metrics": _metrics(record, records),
        "why": "",
        "state": "running",
        "held": record.events.get("held", {}).get("code"),
    }
    if ended:
        stop = "cancel" if "cancel" in record.marks else ""
        stop = "timeout" if "timeout" in record.marks else stop
        line |= {**ended, "ended": ended.get("at"), "state": "ended", "stop": stop}
        line["unshipped"] = _unshipped(record)
        line["cut"] = "cut" in record.marks
    return line


def is_copying(record: Record) -> bool:
    """Whether it has ended and its outputs are, or were, on their way to somewhere else."""
    events = record.events
    return bool(events.get("exit", {}).get("ships")) and not events.keys() & {
        "shipped",
        "unshipped",
    }


def _unshipped(record: Record) -> str:
    """Why outputs are not where they were to be copied; empty when they are."""
    if is_copying(record):
        return "it was ended meanwhile"
    return str(record.events.get("unshipped", {}).get("why") or "")


def _metrics(record: Record, records: Records) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, pattern in record.patterns.items():
        with suppress(re.error, IndexError):
            last = re.findall(pattern, record.log)[-1]
            found[name] = _number(last if isinstance(last, str) else last[0])
    for line in records.metrics.splitlines():
        with suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict):
                found |= {k: v for k, v in row.items() if isinstance(v, (int, float, str))}
    return found


def _attempt(found: dict[str, Records], run: str, number: int) -> Record:
    return found.setdefault(run, Records()).attempts.setdefault(number, Record())


def _note(record: Record, file: str, text: str) -> None:
    # A line that is no JSON is half written.
    with suppress(ValueError, KeyError, TypeError):
        value = json.loads(text)
        if file == "patterns.json":
            record.patterns = dict(value)
        else:
            record.events[value["event"]] = value


def _titled(text: str) -> Iterator[tuple[str, str]]:
    """Path and end of each file, as `tail` prints several."""
    path, lines = "", list[str]()
    for line in text.splitlines():
        if title := TITLE.match(line):
            yield path, "\n".join(lines)
            path, lines = title[1], []
        else:
            lines.append(line)
    yield path, "\n".join(lines)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
