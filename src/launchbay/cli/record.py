"""A run as the JSON that scripts read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from launchbay.core import rundir

if TYPE_CHECKING:
    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab


def run_record(run: Run, lab: Lab) -> dict[str, Any]:
    """One row of `bay ls --json`."""
    status = run.status
    return {
        "id": run.id,
        "name": run.name,
        "experiment": run.experiment,
        "project": run.project,
        "target": run.target,
        "state": str(run.state),
        "cause": status.cause and str(status.cause),
        "reason": status.reason,
        "params": dict(run.params),
        "metrics": dict(status.metrics),
        "exit_code": status.exit_code,
        "attempt": run.attempt,
        "native_id": run.native_id,
        "code": run.code,
        "nodes": list(status.nodes),
        "out": f"{lab.where(run)}/{rundir.OUT}",
        "note": run.note,
        "tags": list(run.tags),
        "created_at": render_moment(run.created_at),
        "started_at": render_moment(status.started_at),
        "ended_at": render_moment(status.ended_at),
        "seen_at": render_moment(run.seen_at),
    }


def render_moment(at: float | None) -> str | None:
    """A moment in UTC as ISO 8601.

    >>> render_moment(0.0)
    '1970-01-01T00:00:00+00:00'
    """
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
