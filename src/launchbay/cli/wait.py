"""`bay wait`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.options import chosen, selection_options
from launchbay.cli.screen import say, tell_waiting
from launchbay.core.run import State
from launchbay.engine.results import count_states

if TYPE_CHECKING:
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


@click.command("wait")
@selection_options
def command(*, lab: Lab, selection: Selection) -> int:
    """Wait until runs have ended; exit 0 only if all succeeded."""
    lab.tell = say
    runs = tuple(chosen(lab, selection))
    for seen in lab.follow(lab.catch_up(runs)):
        runs = seen.runs
    say(", ".join(f"{number} {state}" for state, number in count_states(runs).items()))
    tell_waiting(lab, runs)
    return 0 if all(run.state is State.SUCCEEDED for run in runs) else 1
