"""`bay watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.following import follow
from launchbay.cli.options import selection_options
from launchbay.cli.screen import say
from launchbay.engine.select import select

if TYPE_CHECKING:
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


@click.command("watch")
@selection_options
def command(*, lab: Lab, selection: Selection) -> int:
    """The live table of what waits and runs, of one experiment or all, until it has ended."""
    runs = select(lab.store, selection) if selection.given else lab.unfinished(selection.project)
    going = [run for run in lab.refresh(runs).runs if not run.state.final]
    if not going:
        say("nothing waits or runs; `bay ls` lists what ended")
        return 0
    return follow(lab, going)
