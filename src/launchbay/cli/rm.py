"""`bay rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.options import chosen, selection_options, yes_option
from launchbay.cli.screen import confirm, render_table, say
from launchbay.core.quantity import render_size
from launchbay.engine.care import list_remains, remove_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.engine.care import Remains
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection

COLUMNS = ("experiment", "runs", "size", "never fetched")


@click.command("rm")
@selection_options
@yes_option
def command(*, lab: Lab, selection: Selection, yes: bool) -> int:
    """Forget ended runs, and remove their folders with all outputs.

    What `bay fetch` copied stays. `bay rm --state failed` removes what failed.
    """
    runs = chosen(lab, selection)
    if not runs:
        say("no such runs")
        return 0
    remains = list_remains(lab, lab.refresh(runs).runs)
    say(_render(remains))
    size = render_size(sum(one.size for one in remains))
    if not confirm(f"remove {_count(remains)} and all outputs ({size})?", yes=yes):
        return 1
    remove_runs(lab, remains)
    say(f"removed {_count(remains)}, {size}")
    return 0


def _render(remains: Sequence[Remains]) -> str:
    rows = []
    for name in dict.fromkeys(one.run.experiment for one in remains):
        group = [one for one in remains if one.run.experiment == name]
        unfetched = sum(not one.fetched for one in group)
        size = render_size(sum(one.size for one in group))
        rows.append([name, str(len(group)), size, str(unfetched)])
    keep = frozenset(COLUMNS)
    return render_table(COLUMNS, rows, width=None, numbers=keep - {"experiment"}, keep=keep)


def _count(remains: Sequence[Remains]) -> str:
    return f"{len(remains)} run{'s' * (len(remains) != 1)}"
