"""`bay rerun`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.following import follow
from launchbay.cli.options import (
    chosen,
    complete_targets,
    quiet_option,
    resource_options,
    selection_options,
    yes_option,
)
from launchbay.cli.screen import confirm, say
from launchbay.core.errors import BadRequest
from launchbay.core.run import State
from launchbay.engine.select import Selection, newest, select

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.sync.snapshot import Listing


@click.command("rerun")
@selection_options
@click.option("--failed", is_flag=True, help="failed runs, of the newest experiment unless named")
@click.option("--lost", is_flag=True, help="lost runs, likewise")
@click.option("--latest-code", is_flag=True, help="with the code as it is now")
@click.option("--fresh", is_flag=True, help="with empty outputs; the old are kept as out.1")
@click.option("--on", "target", help="on this target", shell_complete=complete_targets)
@click.option("--detach", "-d", is_flag=True, help="do not follow the runs")
@resource_options
@quiet_option
@yes_option
def command(
    *,
    lab: Lab,
    selection: Selection,
    failed: bool,
    lost: bool,
    latest_code: bool,
    fresh: bool,
    target: str | None,
    detach: bool,
    resources: Mapping[str, str],
    quiet: bool,
    yes: bool,
) -> int:
    """Run again what has ended, as the next attempt of the same runs, with the same frozen code."""
    runs = _runs(lab, selection, failed=failed, lost=lost)
    if not runs:
        say("no such runs")
        return 0
    if len(runs) > 1 and not confirm(f"run {len(runs)} runs again?", yes=yes):
        return 1
    listing = _listing(lab, runs[0])
    changed = [run for run in runs if run.code != listing.id]
    if changed and not latest_code:
        say("the code has changed since; this is the old one, `--latest-code` takes today's")
    how = lab.settings.rerun_with(resources, fresh=fresh, target=target)
    lab.tell = say
    sent = lab.rerun(runs, how, listing=listing if latest_code else None)
    if quiet:
        click.echo("\n".join(run.id for run in sent))
    return 0 if detach else follow(lab, sent, silent=quiet)


def _runs(lab: Lab, selection: Selection, *, failed: bool, lost: bool) -> list[Run]:
    wanted = [State.FAILED] * failed + [State.LOST] * lost
    if not wanted:
        return list(lab.refresh(chosen(lab, selection)).runs)
    if selection.given:
        runs = select(lab.store, selection)
    else:
        experiment = newest(lab.store, selection.project).experiment
        runs = select(lab.store, Selection(experiment=experiment, project=selection.project))
    return [run for run in lab.refresh(runs).runs if run.state in wanted]


def _listing(lab: Lab, run: Run) -> Listing:
    """The code as it is now, by the rules that the run's was frozen by."""
    if run.project != lab.project.id:
        raise BadRequest(f"`{run.id}` is of another project", hint="rerun it from its own folder")
    return lab.settings.scan_for(lab.read_job(run), run.target, lab.project.bay)
