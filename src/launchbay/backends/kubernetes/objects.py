"""What `kubectl get -o json` prints of Jobs, pods and events, as values."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.calls import items_of, last_words
from launchbay.backends.kubernetes.refusals import explain_refusal
from launchbay.backends.records import Record, Records, flatten
from launchbay.core.errors import Rejected, Unreachable
from launchbay.core.run import State, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.core.run import Cause

LOG = "--log\n"
"""What stands in a termination message before the end of the log."""
JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
ERROR = re.compile(
    r"^(?:Error from server|error: |The connection to the server|Unable to connect)", re.IGNORECASE
)
UNLISTED = re.compile(r'cannot list resource "(\w+)"')


@dataclass(frozen=True, kw_only=True)
class Objects:
    """Jobs and pods of one look, by the name of the Job."""

    jobs: Mapping[str, Mapping[str, Any]]
    pods: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Those of each Job, oldest first."""
    blind: str = ""
    """Why pods are not among them, where they may not be listed."""

    def log_size(self, name: str) -> int | None:
        """How long the log of a Job's run was at its end, as far as that is told."""
        told = told_of(self.pods[name][-1]) if self.pods.get(name) else Told()
        size = told.record.events.get("log", {}).get("size")
        return size if isinstance(size, int) else None

    def is_over(self, name: str) -> bool:
        """Whether the command of a Job's newest pod has ended, or has no pod."""
        pods = self.pods.get(name)
        case = Case(job={}, pod=pods[-1]) if pods else None
        return case is None or case.is_over or bool(case.ended)


@dataclass(frozen=True, kw_only=True)
class Event:
    """What the cluster noted about an object."""

    kind: str
    name: str
    reason: str
    message: str
    at: float


@dataclass(frozen=True)
class Told:
    """What the termination message of a run says."""

    record: Record = field(default_factory=Record)
    metrics: str = ""

    def line(self) -> dict[str, Any]:
        """What `parse_status` takes."""
        return flatten(self.record, Records(metrics=self.metrics))


@dataclass(frozen=True, kw_only=True)
class Case:
    """All that is known of a run."""

    job: Mapping[str, Any]
    pod: Mapping[str, Any] = field(default_factory=dict)
    """The newest; empty where there is none."""
    line: Mapping[str, Any] = field(default_factory=dict)
    """What the run told at its end, as `parse_status` takes it."""
    events: Mapping[str, Sequence[Event]] = field(default_factory=dict)
    blind: str = ""
    """Why pods could not be seen."""
    now: float = 0.0

    @property
    def name(self) -> str:
        """The Job's."""
        return str(self.job["metadata"]["name"])

    @property
    def node(self) -> str:
        """Where the pod is; empty where it has no node yet."""
        return str(self.pod.get("spec", {}).get("nodeName") or "")

    @property
    def about(self) -> Mapping[str, Any]:
        """The status of the pod."""
        return self.pod.get("status") or {}

    @property
    def why(self) -> str:
        """The pod's own reason."""
        return str(self.about.get("reason") or "")

    @property
    def ended(self) -> Mapping[str, Any]:
        """How the command's container ended; empty where it has not."""
        return container_of(self.pod).get("state", {}).get("terminated") or {}

    @property
    def has_begun(self) -> bool:
        """Whether the command's container was started."""
        state = container_of(self.pod).get("state", {})
        return bool(state.get("running") or state.get("terminated"))

    @property
    def is_over(self) -> bool:
        """Whether the pod has ended, with all of its containers."""
        return self.about.get("phase") in {"Failed", "Succeeded"}

    @property
    def is_leaving(self) -> bool:
        """Whether the pod is being deleted."""
        return bool(self.pod) and "deletionTimestamp" in self.pod["metadata"]

    @property
    def is_cancelled(self) -> bool:
        """Whether the lab asked for its end."""
        return words.CANCELLED in marks_of(self.job)

    def status(
        self, state: State, reason: str, *, cause: Cause | None = None, code: int | None = None
    ) -> Status:
        """What is known, with a state and a reason."""
        container = container_of(self.pod).get("state", {})
        times = container.get("terminated") or container.get("running") or {}
        if code is None:
            code = self.line.get("code", self.ended.get("exitCode"))
        ended = self.line.get("ended") or moment(times.get("finishedAt")) or _ended_at(self.job)
        return Status(
            state=state,
            cause=cause,
            exit_code=code if state.final else None,
            reason=reason,
            allocation=self.pod["metadata"]["name"] if self.pod else "",
            nodes=(self.node,) if self.node else (),
            started_at=self.line.get("started") or moment(times.get("startedAt")),
            ended_at=ended if state.final else None,
            metrics=self.line.get("metrics") or {},
        )

    def failed(self, cause: Cause, reason: str, *, code: int | None = None) -> Status:
        """A failure, for a cause."""
        return self.status(State.FAILED, reason, cause=cause, code=code)

    def going(self, reason: str) -> Status:
        """It has not ended; whether it runs is whether its container has begun."""
        return self.status(State.RUNNING if self.has_begun else State.QUEUED, reason)


def parse_objects(text: str, *, refused: str = "") -> Objects:
    """What `kubectl get jobs,pods -o json` prints, whole or in part.

    Args:
        text: what it printed.
        refused: what it complained about.

    Raises:
        Rejected: when Jobs may not be listed.
        Unreachable: when the cluster stopped answering before the list was whole.
    """
    blind = _check_complaints(refused)
    jobs: dict[str, Mapping[str, Any]] = {}
    pods: dict[str, list[Mapping[str, Any]]] = {}
    for item in items_of(text):
        if item.get("kind") == "Job":
            jobs[item["metadata"]["name"]] = item
        elif item.get("kind") == "Pod" and (owner := _owner(item)):
            pods.setdefault(owner, []).append(item)
    for own in pods.values():
        # One that is being deleted may have another in its place.
        own.sort(key=lambda pod: ("deletionTimestamp" not in pod["metadata"], _made_at(pod)))
    return Objects(jobs=jobs, pods=pods, blind=blind)


def parse_events(text: str) -> dict[str, list[Event]]:
    """What `kubectl get events -o json` prints, by the name of the object, newest last."""
    found: dict[str, list[Event]] = {}
    for item in items_of(text):
        about = item.get("involvedObject") or item.get("regarding") or {}
        series = item.get("series") or {}
        moments = (
            series.get("lastObservedTime"),
            item.get("lastTimestamp"),
            item.get("eventTime"),
            item["metadata"].get("creationTimestamp"),
        )
        event = Event(
            kind=about.get("kind", ""),
            name=about.get("name", ""),
            reason=item.get("reason") or "",
            message=item.get("message") or item.get("note") or "",
            at=next((at for one in moments if (at := moment(one)) is not None), 0.0),
        )
        found.setdefault(event.name, []).append(event)
    for own in found.values():
        own.sort(key=lambda event: event.at)
    return found


def told_of(pod: Mapping[str, Any]) -> Told:
    """What the run of a pod told at its end."""
    ended = container_of(pod).get("state", {}).get("terminated") or {}
    message = f"\n{ended.get('message') or ''}"
    head, _, log = message.partition(f"\n{LOG}")
    told, metrics = Record(log=log), list[str]()
    with suppress(ValueError, TypeError):
        told.patterns = dict(json.loads(marks_of(pod).get(words.METRICS, "{}")))
    for line in head.splitlines():
        # What is no JSON was cut off, or written by somebody else.
        with suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict) and "event" in row:
                told.events[str(row["event"])] = row
            elif isinstance(row, dict):
                metrics.append(line)
    return Told(told, "\n".join(metrics))


def container_of(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the kubelet says of the command's container."""
    found = pod.get("status", {}).get("containerStatuses") or ()
    return next((one for one in found if one.get("name") == words.MAIN), {})


def asked_of(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was asked for the command's container."""
    found = pod.get("spec", {}).get("containers") or ()
    return next((one for one in found if one.get("name") == words.MAIN), {})


def condition(found: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    """The condition of this type that holds; empty where it does not."""
    for one in found.get("status", {}).get("conditions") or ():
        if one.get("type") == word and one.get("status") == "True":
            return dict(one)
    return {}


def marks_of(found: Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations of an object."""
    return found["metadata"].get("annotations") or {}


def moment(text: object) -> float | None:
    """Seconds since the epoch.

    >>> moment("1970-01-01T00:01:00Z"), moment("1970-01-01T00:00:00.5Z"), moment(None)
    (60.0, 0.5, None)
    """
    if not isinstance(text, str):
        return None
    try:
        # What has not happened has the first moment of all.
        return datetime.fromisoformat(text).timestamp() or None
    except ValueError:
        return None


def _check_complaints(stderr: str) -> str:
    blind = ""
    for line in stderr.splitlines():
        unlisted = UNLISTED.search(line)
        if unlisted and unlisted[1] == "pods":
            blind = "its pods may not be listed, so more is not known; ask for the right to"
        elif unlisted:
            raise Rejected(
                explain_refusal(line).reason,
                hint="without that nothing is known of runs; `bay doctor` shows what is missing",
            )
        elif ERROR.match(line):
            raise Unreachable(
                f"the cluster stopped answering: {last_words(line)}",
                hint="`kubectl cluster-info` shows whether the cluster can be reached",
            )
    return blind


def _owner(pod: Mapping[str, Any]) -> str:
    about = pod["metadata"]
    for one in about.get("ownerReferences") or ():
        if one.get("kind") == "Job":
            return str(one["name"])
    labels = about.get("labels") or {}
    return next((str(labels[key]) for key in JOB_NAMES if key in labels), "")


def _made_at(pod: Mapping[str, Any]) -> float:
    return moment(pod["metadata"].get("creationTimestamp")) or 0.0


def _ended_at(job: Mapping[str, Any]) -> float | None:
    done = moment(job.get("status", {}).get("completionTime"))
    return done or moment(condition(job, "Failed").get("lastTransitionTime"))
