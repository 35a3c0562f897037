"""`bay watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.following import follow
from launchbay.cli.options import selection_options
from launchbay.cli.screen import say
from launchbay.core.run import State
from launchbay.engine.select import select
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


DAY_S = 24 * 3600.0


def failed_of(project: str | None) -> Query:
    """Runs that may be tried again."""
    return Query(project=project, states=[State.FAILED, State.LOST])


def ended_lately(runs: Iterable[Run], now: float) -> list[Run]:
    """What ended in the last day, when perhaps nobody was there to try again."""
    return [run for run in runs if (run.status.ended_at or 0.0) > now - DAY_S]


@click.command("watch")
@selection_options
def command(*, lab: Lab, selection: Selection) -> int:
    """The live table of what waits and runs, of one experiment or all, until it has ended."""
    runs = select(lab.store, selection) if selection.given else lab.unfinished(selection.project)
    seen = lab.refresh(runs)
    ended = seen.runs if selection.given else lab.store.runs(failed_of(selection.project))
    again = {run.id: run for run in lab.retry(ended_lately(ended, lab.clock()))}
    now = {run.id: run for run in seen.runs} | again
    going = [run for run in now.values() if not run.state.final]
    if not going:
        say("nothing waits or runs; `bay ls` lists what ended")
        return 0
    return follow(lab, going)
