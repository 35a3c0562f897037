"""`bay diff`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import complete_runs, json_option, one
from launchbay.cli.screen import render_table, say, screen_width
from launchbay.core.errors import BadRequest
from launchbay.engine.code import find_code, render_patch
from launchbay.engine.compare import compare
from launchbay.engine.open import open_lab
from launchbay.engine.select import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from launchbay.core.run import Run
    from launchbay.engine.compare import Difference
    from launchbay.engine.lab import Lab


@click.command("diff")
@click.argument("old", metavar="ID", shell_complete=complete_runs)
@click.argument("new", metavar="ID", shell_complete=complete_runs)
@click.option("--patch", is_flag=True, help="the code's differences, as `git apply` reads them")
@json_option
def command(*, old: str, new: str, patch: bool, as_json: bool) -> None:
    """What differs between two runs: parameters, command, code, resources, metrics."""
    lab = open_lab()
    runs = [one(lab, Selection(ids=(word,), project=lab.project.id)) for word in (old, new)]
    first, second = lab.refresh(runs).runs
    difference = compare(lab, first, second)
    if patch:
        _print_patch(lab, first, second, difference)
    elif as_json:
        click.echo(json.dumps({"runs": [first.id, second.id], **asdict(difference)}, indent=1))
    elif difference:
        click.echo("\n".join(_render(first, second, difference)))
    else:
        say("no difference in parameters, command, code, resources or metrics")


def _print_patch(lab: Lab, first: Run, second: Run, difference: Difference) -> None:
    trees = [find_code(lab, run) for run in (first, second)]
    for run, tree in zip((first, second), trees, strict=True):
        if tree is None:
            message = f"the frozen code of `{run.id}` is gone"
            raise BadRequest(message, hint="`bay diff` without `--patch` tells the rest")
    before, after = trees
    if not (before and after and difference.files):
        say("the code is the same")
        return
    for line in render_patch(before, after, difference.files):
        click.echo(line, nl=False)


def _render(first: Run, second: Run, difference: Difference) -> Iterator[str]:
    if rows := _rows(difference):
        columns = ("", first.suffix, second.suffix)
        yield render_table(columns, rows, width=screen_width(), keep=frozenset(columns))
    if difference.command:
        yield from (f"- {line}" for line in difference.command[0].splitlines())
        yield from (f"+ {line}" for line in difference.command[1].splitlines())
    if difference.files:
        yield from (f"code added    {path}" for path in difference.files.added)
        yield from (f"code removed  {path}" for path in difference.files.removed)
        yield from (f"code changed  {path}" for path in difference.files.changed)


def _rows(difference: Difference) -> list[list[str]]:
    gone = "" if difference.files else " (its files are gone)"
    rows = [[f"parameter {key}", *map(_cell, pair)] for key, pair in difference.params.items()]
    if difference.code:
        rows.append([f"code{gone}", *difference.code])
    if difference.target:
        rows.append(["target", *difference.target])
    rows += [[key, *map(_cell, pair)] for key, pair in difference.resources.items()]
    rows += [[f"metric {key}", *map(_cell, pair)] for key, pair in difference.metrics.items()]
    return rows


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
