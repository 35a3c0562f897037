"""`bay clean`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.options import yes_option
from launchbay.cli.screen import confirm, say
from launchbay.core.errors import BadRequest
from launchbay.core.quantity import parse_time, render_size
from launchbay.engine.care import find_waste, measure_waste, remove_waste
from launchbay.engine.open import open_lab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.engine.care import Waste


@click.command("clean")
@click.option("--older", default="7d", show_default=True, metavar="T", help="older than 12h, 7d")
@click.option("--dry-run", is_flag=True, help="only print what would be removed")
@yes_option
def command(*, older: str, dry_run: bool, yes: bool) -> int:
    """Remove frozen code, launches and scratch that no run refers to.

    Runs, their outputs and logs stay; of runs that ended long ago the working folder goes.
    """
    older_s = _parse_older(older)
    lab = open_lab()
    waste = find_waste(lab, older_s=older_s)
    if not waste:
        say(f"nothing that nobody needs is older than {older}")
        return 0
    say(f"{_render(waste)}: {render_size(measure_waste(lab, waste))}")
    if dry_run:
        click.echo("\n".join(str(one.path) for one in waste))
        return 0
    if not confirm("remove them?", yes=yes):
        return 1
    remove_waste(lab, waste, older_s=older_s)
    say("removed")
    return 0


def _parse_older(text: str) -> float:
    try:
        return parse_time(text).total_seconds()
    except ValueError as err:
        raise BadRequest(f"--older: {err}") from err


def _render(waste: Sequence[Waste]) -> str:
    kinds = dict.fromkeys(one.kind for one in waste)
    counts = {kind: sum(one.kind == kind for one in waste) for kind in kinds}
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())
