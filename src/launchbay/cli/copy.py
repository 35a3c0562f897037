"""`bay copy`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import one, selection_options
from launchbay.cli.screen import say
from launchbay.core.quantity import render_size
from launchbay.engine.deliver import deliver

if TYPE_CHECKING:
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


class CopyCommand(click.Command):
    """Takes its first word for the run, and all others for files."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return ["[OPTIONS] [ID] [FILES]…"]


@click.command("copy", cls=CopyCommand)
@selection_options
@click.option("--to", default="", metavar="DIR", help="a folder of the run, where all go by name")
def command(*, lab: Lab, selection: Selection, to: str) -> None:
    """Copy files or folders into the working folder of a run that runs.

    What is of the project keeps its path, all else goes by its name. Without FILES: those that
    `file:` lists. Contents are compared, and a file is there whole or not at all.
    """
    ids, files = selection.ids[:1], [Path(word) for word in selection.ids[1:]]
    run = one(lab, replace(selection, ids=ids))
    (run,) = lab.refresh([run]).runs
    done = deliver(lab, run, files, to=to)
    count = len(done.places)
    files_said = f"{count} file{'s' * (count != 1)} ({render_size(done.size)})"
    say(f"copied {files_said} to {lab.where(run)}/work")
    click.echo("\n".join(done.places))
