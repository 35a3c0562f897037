"""The five-action prompt: what matches on both sides, then one question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.data_words import count_files
from launchbay.cli.screen import say
from launchbay.core.quantity import render_size
from launchbay.engine.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launchbay.engine.browsing import Row
    from launchbay.engine.data import Data

    Move = Callable[[bool, Sequence[str]], int]

ACTIONS = ("delete", "remove", "download", "upload", "exit")
QUESTION = "Choose an action [delete (local), remove (S3), download, upload, exit]"


def prompt_actions(
    data: Data, pattern: str, *, place: str = "Remote", move: Move | None = None
) -> int:
    """Print local and remote matches, ask what to do with them, and do it.

    Args:
        data: the buckets that are known.
        pattern: what to show; asked for when it is "".
        place: what the heading calls the other side.
        move: uploads (`True`) or downloads these keys in its own words; the exit code.
    """
    pattern = pattern or _ask("Pattern")
    if not pattern:
        return 0
    shelf = Shelf(data, pattern, flat=True)
    rows = shelf.rows()
    _print_matches(rows, place)
    action = _choose()
    if action == "exit":
        return 0
    there = action in {"remove", "download"}
    chosen = [row for row in rows if (row.there if there else row.here)]
    if not chosen:
        say(f"there is nothing to {action}")
        return 0
    if action in {"delete", "remove"} and not _is_sure(action, chosen):
        say("nothing was done")
        return 1
    keys = [row.key for row in chosen]
    if move and action in {"upload", "download"}:
        return move(action == "upload", keys)
    say(shelf.do(action, keys))
    return 0 if shelf.well else 1


def _print_matches(rows: Sequence[Row], place: str) -> None:
    click.echo("Local files matching pattern:")
    for row in rows:
        if row.here:
            click.echo(row.name)
    click.echo(f"\n{place} files matching pattern:")
    for row in rows:
        if row.there:
            click.echo(row.name)
    click.echo()


def _is_sure(action: str, rows: Sequence[Row]) -> bool:
    size = render_size(sum(row.size for row in rows))
    where = "this machine" if action == "delete" else "the bucket"
    question = f"{action} {count_files(len(rows))} ({size}) from {where}? [y/N]"
    return _ask(question).lower() in {"y", "yes"}


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
