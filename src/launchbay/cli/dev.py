"""`bay dev`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import Followed, complete_targets, resource_options
from launchbay.cli.screen import say
from launchbay.cli.terminal import call_in_terminal
from launchbay.core.errors import BadRequest
from launchbay.core.quantity import render_limit
from launchbay.engine.access import draft_desk, make_desk
from launchbay.engine.open import open_lab

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.engine.access import Desk
    from launchbay.engine.launch import Draft

NOT_ALONE = ("nodes", "processes", "parallel", "pack", "retries", "resume", "grace")
"""Flags that say something of runs."""


class DevCommand(Followed):
    """Takes a command behind `--`, and no run."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return ["[OPTIONS] [-- COMMAND …]"]


@click.command("dev", cls=DevCommand)
@click.option("--target", "-t", help="where to work", shell_complete=complete_targets)
@resource_options
@click.pass_context
def command(ctx: click.Context, /, *, target: str | None, resources: Mapping[str, str]) -> int:
    """A shell on a target, in a fresh copy of the code and with its Python; not a run.

    What the file gives its first run is there too: variables, modules, set-up. It ends after its
    time, an hour unless one is set. The folder stays, but for that of a pod, which goes with it.
    """
    for key in NOT_ALONE:
        if key in resources:
            raise BadRequest(
                f"`--{key}` is for runs; `bay dev` is one shell on one node", hint="leave it out"
            )
    lab = open_lab()
    lab.tell = say
    draft = draft_desk(lab, target=target, resources=resources)
    desk = make_desk(lab, draft, ctx.meta["command"], subfolder=_inside(lab.project.folder))
    say(_describe(draft, desk))
    code = call_in_terminal(desk.argv)
    if desk.stays:
        say(f"the folder stays: {desk.where}")
    else:
        say("the pod is deleted, and what was not on a claim is gone with it")
    return code


def _describe(draft: Draft, desk: Desk) -> str:
    need = desk.need
    limit = f" for {render_limit(need.time_limit)}" if need.time_limit else ""
    gpus = f" with {need.gpus:g} GPU{'s' * (need.gpus != 1)}" if need.gpus else ""
    return f"on {draft.place.name}{limit}{gpus}, in {desk.where}/work"


def _inside(folder: Path) -> str:
    """Where in the project we stand."""
    here = Path.cwd()
    inside = here.relative_to(folder) if here.is_relative_to(folder) else Path()
    return "" if inside == Path() else str(inside)
