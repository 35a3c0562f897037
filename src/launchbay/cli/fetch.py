"""`bay fetch`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import one, selection_options
from launchbay.cli.screen import say
from launchbay.core.quantity import render_size
from launchbay.engine.fetch import (
    Fetching,
    experiment_folder,
    fetch,
    has_files,
    prepare_results,
    write_table,
)
from launchbay.engine.select import select

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from launchbay.core.run import Run
    from launchbay.engine.fetch import Fetched
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


@click.command("fetch")
@selection_options
@click.option("-p", "--pattern", "patterns", multiple=True, help="only outputs such as '*.json'")
@click.option("-o", "--to", type=click.Path(path_type=Path), help="a folder other than results/")
@click.option("--code", is_flag=True, help="the frozen code too")
def command(
    *,
    lab: Lab,
    selection: Selection,
    patterns: tuple[str, ...],
    to: Path | None,
    code: bool,
) -> None:
    """Copy outputs and logs to results/EXPERIMENT/RUN, and the table to results.csv.

    What has not changed since the last time is not copied again; runs that go on may be fetched.
    """
    runs = select(lab.store, selection) if selection.given else [one(lab, selection)]
    now = lab.refresh(runs).runs
    there = [run for run in now if has_files(lab, run)]
    if len(there) < len(runs):
        say(f"{len(runs) - len(there)} of {len(runs)} runs have no files here")
    if not there:
        return
    experiments = dict.fromkeys(run.experiment for run in there)
    place = to.absolute() if to else prepare_results(lab.project.folder, experiments)
    how = Fetching(place=place, patterns=patterns, code=code)
    with _progress(there) as shown:
        fetched = [fetch(lab, run, how) for run in shown]
    for name in experiments:
        write_table(lab, place, name, selection.project)
    _report(fetched, [experiment_folder(place, name) for name in experiments])


def _progress(runs: Sequence[Run]) -> AbstractContextManager[Iterable[Run]]:
    if len(runs) == 1 or not sys.stderr.isatty():
        return nullcontext(runs)
    return click.progressbar(runs, label="fetching", file=sys.stderr)


def _report(fetched: Sequence[Fetched], folders: Sequence[Path]) -> None:
    for part in fetched:
        if part.left_out:
            names = ", ".join(part.left_out[:3]) + (" …" if len(part.left_out) > 3 else "")  # noqa: PLR2004
            say(f"{part.run.suffix}: left out, links to elsewhere or no files: {names}")
    for part in fetched:
        if part.origin:
            say(f"{part.run.suffix}: from {part.origin}")
    files = sum(part.copied for part in fetched)
    size = render_size(sum(part.size for part in fetched))
    copied = f"{files} file{'s' * (files != 1)} ({size})"
    say(f"{copied} of {len(fetched)} run{'s' * (len(fetched) != 1)} copied to")
    for folder in [fetched[0].folder] if len(fetched) == 1 else folders:
        click.echo(str(folder))
