"""`bay data`: object storage beside the working folder."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import click

VERBS = {
    "ls": ("data_look", "show_level"),
    "find": ("data_look", "find_all"),
    "up": ("data_move", "up"),
    "down": ("data_move", "down"),
    "rm": ("data_remove", "remove"),
    "cp": ("data_copy", "copy"),
    "url": ("data_copy", "make_url"),
    "browse": ("data_browse", "browse"),
    "watch": ("data_watch", "watch"),
}
"""As one comes to need them."""


class Verbs(click.Group):
    """Knows its commands by name and loads the one that is typed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002, D102
        if cmd_name not in VERBS:
            return None
        module, name = VERBS[cmd_name]
        return cast("click.Command", getattr(import_module(f"launchbay.cli.{module}"), name))


@click.group("data", cls=Verbs, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Object storage beside the working folder: a bucket that mirrors the project.

    A PATH is a file or folder of the project and the same name in the bucket; `west:models/` is in
    the bucket that `bucket:` calls `west`, `s3://…` anywhere. In a PATTERN, `*` crosses
    folders and `data/` is all below that folder; quote it, or your shell expands it.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
