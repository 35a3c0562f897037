"""The five-action prompt: what matches on both sides, then one question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.data_words import count_files
from launchbay.cli.screen import say
from launchbay.core.quantity import render_size
from launchbay.engine.shelf import Shelf

if TYPE_CHECKING:
    from launchbay.engine.data import Data

ACTIONS = ("delete", "remove", "download", "upload", "exit")
QUESTION = "Choose an action [delete (local), remove (S3), download, upload, exit]"


def prompt_actions(data: Data, pattern: str) -> int:
    """Print local and remote matches, ask what to do with them, and do it."""
    pattern = pattern or _ask("Pattern")
    if not pattern:
        return 0
    shelf = Shelf(data, pattern, flat=True)
    rows = shelf.rows()
    click.echo("Local files matching pattern:")
    for row in rows:
        if row.here:
            click.echo(row.name)
    click.echo("\nRemote files matching pattern:")
    for row in rows:
        if row.there:
            click.echo(row.name)
    click.echo()
    action = _choose()
    if action == "exit":
        return 0
    there = action in {"remove", "download"}
    keys = [row.key for row in rows if (row.there if there else row.here)]
    if not keys:
        say(f"there is nothing to {action}")
        return 0
    size = render_size(sum(row.size for row in rows if row.key in set(keys)))
    where = "this machine" if action == "delete" else "the bucket"
    question = f"{action} {count_files(len(keys))} ({size}) from {where}? [y/N]"
    if action in {"delete", "remove"} and _ask(question).lower() not in {"y", "yes"}:
        say("nothing was done")
        return 1
    say(shelf.do(action, keys))
    return 0 if shelf.well else 1


def _choose() -> str:
    while True:
        answer = _ask(QUESTION).lower() or "exit"
        meant = [action for action in ACTIONS if action.startswith(answer)]
        if len(meant) == 1:
            return meant[0]
        say("one of " + ", ".join(ACTIONS))


def _ask(question: str) -> str:
    """A line that somebody types, or that is piped in; "" at the end."""
    click.echo(f"{question}: ", nl=False, err=True)
    try:
        return input().strip()
    except EOFError:
        click.echo(err=True)
        return ""
