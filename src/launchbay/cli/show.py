"""`bay show`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from launchbay.cli.options import json_option, one, selection_options
from launchbay.cli.record import render_moment, run_record
from launchbay.cli.screen import reason_of, state_word, tell_silences
from launchbay.core import rundir
from launchbay.core.errors import BadRequest, BayError
from launchbay.core.quantity import render_span
from launchbay.core.run import State
from launchbay.engine.logs import last_error, tail
from launchbay.engine.results import duration

if TYPE_CHECKING:
    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection

LOG_LINES = 10


@click.command("show")
@selection_options
@click.option("--path", "only_path", is_flag=True, help="print the run's folder and nothing else")
@click.option("--no-refresh", is_flag=True, help="as last seen, without asking the target")
@json_option
def command(
    *, lab: Lab, selection: Selection, only_path: bool, no_refresh: bool, as_json: bool
) -> None:
    """Everything about one run: first why it waits or failed, last the end of its log."""
    run = one(lab, selection)
    if only_path:
        click.echo(lab.where(run))
        return
    if not no_refresh:
        seen = lab.refresh([run])
        (run,) = seen.runs
        tell_silences(seen.silences)
    if as_json:
        click.echo(json.dumps(_record(run, lab), indent=1))
    else:
        click.echo(_render(run, lab))


def _render(run: Run, lab: Lab) -> str:
    record = _record(run, lab)
    spent = duration(run, lab.clock())
    facts = {
        "run": run.id,
        "experiment": run.experiment,
        "note": run.note,
        "tags": ", ".join(run.tags),
        "command": run.command,
        "parameters": ", ".join(f"{key}={value}" for key, value in run.params.items()),
        "metrics": ", ".join(f"{key}={value}" for key, value in run.status.metrics.items()),
        "target": run.target + (f" ({', '.join(run.status.nodes)})" if run.status.nodes else ""),
        "resources": ", ".join(f"{key} {value}" for key, value in run.resources.items()),
        "code": run.code,
        "git": _render_git(record["git"]),
        "made": _render_time(run.created_at),
        "started": _render_time(run.status.started_at),
        "ended": _render_time(run.status.ended_at),
        "took": None if spent is None else render_span(spent),
        "launched by": " ".join(record["launched_by"]),
        "outputs": lab.outputs_of(run),
        "copied to": record["shipped_to"],
        "folder": record["paths"]["folder"],
    }
    lines = [_headline(run, lab), ""]
    lines += [f"{name:<12} {value}" for name, value in facts.items() if value]
    if len(record["attempts"]) > 1:
        lines += ["", "attempts:"]
        lines += [
            f"  {one['number']}  {one['state']}  {one['reason']}".rstrip()
            for one in record["attempts"]
        ]
    log = tail(lab, run, LOG_LINES)
    return "\n".join([*lines, "", "log:", *(f"  {line}" for line in log)] if log else lines)


def _render_time(at: float | None) -> str | None:
    """A moment as the clock of this computer shows it."""
    return None if at is None else f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"  # noqa: DTZ006


def _headline(run: Run, lab: Lab) -> str:
    state = state_word(run)
    if run.suspect_since is not None and not run.state.final:
        return f"{state}; looks lost, a second look in a minute decides"
    reason = f": {why}" if (why := reason_of(run)) else ""
    error = last_error(lab, run) if run.state is State.FAILED else ""
    return f"{state}{reason}" + (f"\n{error}" if error else "")


def _record(run: Run, lab: Lab) -> dict[str, Any]:
    folder = lab.where(run)
    attempts = lab.store.attempts(run.id)
    return {
        **run_record(run, lab),
        "command": run.command,
        "git": _read_git(lab, run),
        "launched_by": lab.store.launch_argv(run.launch),
        "launch": run.launch,
        "paths": {
            "folder": folder,
            "log": f"{folder}/{_log_path(run)}",
            "code": f"{folder}/{rundir.WORK}",
        },
        "attempts": [
            {
                "number": attempt.number,
                "native_id": attempt.native_id,
                "target": attempt.target,
                "code": attempt.code,
                "state": str(attempt.status.state),
                "reason": attempt.status.reason,
                "exit_code": attempt.status.exit_code,
                "created_at": render_moment(attempt.created_at),
                "started_at": render_moment(attempt.status.started_at),
                "ended_at": render_moment(attempt.status.ended_at),
            }
            for attempt in attempts
        ],
        "shipped_to": lab.shipped_to(run),
        "resources": dict(run.resources),
        "image": _read_image(lab, run),
        "env": _read_environment(lab, run),
        "timeline": _timeline(run),
    }


def _read_image(lab: Lab, run: Run) -> str | None:
    """What was asked for; None where nothing was, or the record is gone."""
    try:
        return lab.read_job(run).image or None
    except BayError:
        return None


def _log_path(run: Run) -> str:
    """Where in its folder the run's log is."""
    return str(rundir.attempt_folder(Path(), run.attempt) / rundir.log_name())


def _timeline(run: Run) -> list[list[str]]:
    moments = (
        ("created", run.created_at),
        ("started", run.status.started_at),
        (str(run.state), run.status.ended_at),
    )
    return [[what, str(render_moment(at))] for what, at in moments if at is not None]


def _read_environment(lab: Lab, run: Run) -> dict[str, str]:
    """The variables that were recorded, and those that the file set."""
    path = lab.launch_folder(run) / "environment.json"
    try:
        recorded = dict(json.loads(path.read_text(errors="surrogateescape")))
    except (OSError, ValueError):
        recorded = {}
    try:
        return {**recorded, **lab.read_job(run).env}
    except BadRequest:
        return recorded


def _read_git(lab: Lab, run: Run) -> dict[str, Any] | None:
    path = lab.launch_folder(run) / "git.json"
    try:
        git = dict(json.loads(path.read_text(errors="surrogateescape")))
    except (OSError, ValueError):
        return None
    patches = [path.with_name(f"{name}.patch") for name in ("staged", "unstaged")]
    git["patches"] = [str(patch) for patch in patches if patch.exists() and patch.stat().st_size]
    return git


def _render_git(git: dict[str, Any] | None) -> str:
    if not git:
        return ""
    dirty = [f"{len(git['patches'])} patches"] if git["patches"] else []
    dirty += [f"{len(git['untracked'])} untracked files"] if git["untracked"] else []
    note = f" (with {', '.join(dirty)})" if dirty else ""
    return f"{git['commit'][:12]} on {git['branch'] or 'no branch'}{note}"
