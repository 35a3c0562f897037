"""`bay results`."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import json_option, selection_options
from launchbay.cli.screen import paint_states, render_table, say, screen_width
from launchbay.core.quantity import render_span
from launchbay.engine.results import Cell, Table, tabulate
from launchbay.engine.select import newest, select
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


SHORT_S = 10.0


@click.command("results")
@selection_options
@click.option("--sort", metavar="[-]KEY", help="by this column; - for the largest first")
@click.option("--over", metavar="KEY", help="mean and deviation over this parameter")
@click.option("--csv", "as_csv", is_flag=True, help="comma-separated values")
@click.option("--no-refresh", is_flag=True, help="as last seen, without asking targets")
@json_option
def command(
    *,
    lab: Lab,
    selection: Selection,
    sort: str | None,
    over: str | None,
    as_csv: bool,
    no_refresh: bool,
    as_json: bool,
) -> None:
    """The table of results: the parameters that vary, the last value of each metric, state, time.

    Of the newest experiment unless one is named; works while runs go on.
    """
    if selection.given:
        runs = select(lab.store, selection)
    else:
        experiment = newest(lab.store, selection.project).experiment
        runs = lab.store.runs(Query(project=selection.project, experiment=experiment))
    if not selection.ids:
        runs = _newest_each(runs)
    if not no_refresh:
        runs = list(lab.refresh(runs).runs)
    if not runs:
        say("no such runs")
        return
    table = tabulate(runs, now=lab.clock(), over=over, sort=sort)
    if as_json:
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        click.echo(json.dumps(rows, indent=1))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(table.rows)
    else:
        print_table(table)


def _newest_each(runs: Sequence[Run]) -> list[Run]:
    """Of runs of the same point the newest, so that old and new code are not averaged."""
    newest_of = {run.identity: run for run in runs}
    if len(newest_of) < len(runs):
        say(f"{len(runs) - len(newest_of)} older runs of the same points are left out")
    return list(newest_of.values())


def print_results(lab: Lab, runs: Sequence[Run]) -> None:
    """The table at the end of a sweep."""
    print_table(tabulate(runs, now=lab.clock()))


def print_table(table: Table) -> None:
    """The table for people: numbers short, deviations beside their means."""
    columns, rows = _joined(table)
    numbers = frozenset(
        name
        for at, name in enumerate(columns)
        if all(_is_number(row[at]) for row in rows) or name == "time"
    )
    text = render_table(
        columns, rows, width=screen_width(), numbers=numbers, keep=frozenset({"run", "state"})
    )
    click.echo(paint_states(text))


def _joined(table: Table) -> tuple[list[str], list[list[str]]]:
    """Text cells, `mean ± deviation` as one."""
    pairs = {name for name in table.columns if f"{name} ±" in table.columns}
    columns = [name for name in table.columns if not name.endswith(" ±")]
    rows = []
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        rows.append(
            [
                _render_pair(cells[name], cells[f"{name} ±"])
                if name in pairs
                else _render(name, cells[name])
                for name in columns
            ]
        )
    return columns, rows


def _render_pair(average: Cell, deviation: Cell) -> str:
    if average is None:
        return "–"
    return f"{average:.4g}" + (f" ± {deviation:.2g}" if deviation is not None else "")


def _render(name: str, cell: Cell) -> str:
    if cell is None:
        return "–"
    if name == "time" and isinstance(cell, float):
        return render_span(cell) if cell >= SHORT_S else f"{cell:.1f}s"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == "–"
    return True
