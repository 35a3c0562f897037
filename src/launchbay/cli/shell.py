"""`bay shell`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.options import Followed, one, selection_options
from launchbay.cli.terminal import become
from launchbay.engine.access import shell_argv

if TYPE_CHECKING:
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


@click.command("shell", cls=Followed)
@selection_options
@click.pass_context
def command(ctx: click.Context, /, *, lab: Lab, selection: Selection) -> None:
    """A shell where a run runs, in its folder and with its variables; the newest if none is named.

    With `-- COMMAND …` that command instead; its exit code is ours.
    """
    become(shell_argv(lab, one(lab, selection), ctx.meta["command"]))
