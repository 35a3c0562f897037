"""`bay watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.following import follow
from launchbay.cli.options import selection_options
from launchbay.cli.screen import say
from launchbay.core.run import FAILURES
from launchbay.engine.select import select
from launchbay.engine.watch import ended_lately
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


def failed_of(project: str | None) -> Query:
    """Runs that may be tried again."""
    return Query(project=project, states=sorted(FAILURES))


@click.command("watch")
@selection_options
def command(*, lab: Lab, selection: Selection) -> int:
    """The live table of what waits and runs, of one experiment or all, until it has ended."""
    lab.tell = say
    runs = select(lab.store, selection) if selection.given else lab.unfinished(selection.project)
    seen = lab.refresh(runs)
    ended = seen.runs if selection.given else lab.store.runs(failed_of(selection.project))
    now = lab.catch_up([*seen.runs, *ended_lately(ended, lab.clock())])
    going = [run for run in now if not run.state.final]
    if not going:
        say("nothing waits or runs; `bay ls` lists what ended")
        return 0
    return follow(lab, going)
