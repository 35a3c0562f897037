"""`bay cancel`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import chosen, selection_options, yes_option
from launchbay.cli.screen import confirm, say

if TYPE_CHECKING:
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


@click.command("cancel")
@selection_options
@yes_option
def command(*, lab: Lab, selection: Selection, yes: bool) -> int:
    """End runs that wait or run; those that have ended stay so, and are not tried again."""
    runs = lab.refresh(chosen(lab, selection)).runs
    if not runs:
        say("no such runs")
    alive = [run for run in runs if not run.state.final]
    for run in runs if len(runs) == 1 else ():
        if run.state.final:
            say(f"{run.id} {run.state.phrase} already")
    if len(runs) > 1:
        say(f"{len(runs) - len(alive)} of {len(runs)} have ended already")
    if not alive:
        # What failed may be about to be tried again, in another terminal.
        lab.cancel(runs)
        return 0
    if len(alive) > 1:
        targets = Counter(run.target for run in alive)
        counted = ", ".join(f"{number} on {target}" for target, number in targets.items())
        if not confirm(f"cancel {len(alive)} runs ({counted})?", yes=yes):
            return 1
    lab.cancel(runs)
    say(f"asked for the end of {len(alive)} run{'s' * (len(alive) != 1)}")
    return 0
