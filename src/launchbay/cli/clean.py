"""`bay clean`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.options import yes_option
from launchbay.cli.screen import confirm, say
from launchbay.core.errors import BadRequest
from launchbay.core.quantity import parse_time, render_size
from launchbay.engine.care import find_waste, measure_waste, remove_waste
from launchbay.engine.leftovers import find_leftovers, remove_leftovers
from launchbay.engine.open import open_lab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.engine.care import Waste
    from launchbay.engine.leftovers import Leftovers


@click.command("clean")
@click.option("--older", default="7d", show_default=True, metavar="T", help="older than 12h, 7d")
@click.option("--dry-run", is_flag=True, help="only print what would be removed")
@yes_option
def command(*, older: str, dry_run: bool, yes: bool) -> int:
    """Remove frozen code, launches and scratch that no run refers to, here and on clusters.

    Runs, their outputs and logs stay; of runs that ended long ago the working folder goes.
    """
    older_s = _parse_older(older)
    lab = open_lab()
    lab.tell = say
    waste = find_waste(lab, older_s=older_s)
    there = find_leftovers(lab, older_s=older_s)
    if not waste and not there:
        say(f"nothing that nobody needs is older than {older}")
        return 0
    if waste:
        say(f"{_render(waste)}: {render_size(measure_waste(lab, waste))}")
    for one in there:
        say(f"{len(one.names)} objects of {one.target} that no run refers to")
    if dry_run:
        click.echo("\n".join(_names(waste, there)))
        return 0
    if not confirm("remove them?", yes=yes):
        return 1
    remove_waste(lab, waste, older_s=older_s)
    remove_leftovers(there)
    say("removed")
    return 0


def _names(waste: Sequence[Waste], there: Sequence[Leftovers]) -> list[str]:
    at_targets = [f"{one.target}:{name}" for one in there for name in one.names]
    return [*(str(one.path) for one in waste), *at_targets]


def _parse_older(text: str) -> float:
    try:
        return parse_time(text).total_seconds()
    except ValueError as err:
        raise BadRequest(f"--older: {err}") from err


def _render(waste: Sequence[Waste]) -> str:
    kinds = dict.fromkeys(one.kind for one in waste)
    counts = {kind: sum(one.kind == kind for one in waste) for kind in kinds}
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())
