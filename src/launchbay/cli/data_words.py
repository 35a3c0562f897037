"""What the verbs of `bay data` share: their arguments and their words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from launchbay.cli.screen import complain, say
from launchbay.core.quantity import render_size, render_span

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED = 10
MANY = 3
patterns_argument = click.argument("patterns", nargs=-1, required=True, metavar="PATTERN…")
local_option = click.option(
    "--local-path",
    type=click.Path(path_type=Path, file_okay=False),
    help="a folder that mirrors the bucket in place of the project",
)
include_option = click.option(
    "--include", multiple=True, metavar="PATTERN", help="of these only what matches this"
)
exclude_option = click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="without what matches this"
)


def count_files(number: int) -> str:
    """So many files."""
    return f"{number} file{'s' * (number != 1)}"


def print_lines(lines: Sequence[str]) -> None:
    """Data, all at once: there may be very many."""
    if lines:
        click.echo("\n".join(lines))


def tell_missing(message: str, hint: str) -> None:
    """Say that nothing was found, and what is there."""
    complain(message, hint or None)


def tell_some(lines: Sequence[str]) -> None:
    """The first few lines, and how many more there are."""
    for line in lines[:NAMED]:
        say(f"  {line}")
    if len(lines) > NAMED:
        say(f"  and {len(lines) - NAMED} more")


def warn_expanded(patterns: Sequence[str], here: Path) -> None:
    """Tell that a shell seems to have made names of this machine out of a pattern."""
    if len(patterns) >= MANY and all((here / text).exists() for text in patterns):
        say(
            "all of these are names of files here; if you typed a pattern, quote it,"
            " or it finds only what is here: 'data/*'"
        )


def render_rate(size: int, seconds: float) -> str:
    """How much in what time, and how fast.

    >>> render_rate(3_400_000_000, 12.0)
    '3.4 GB in 12s (283.3 MB/s)'
    """
    took = render_span(seconds) if seconds >= 1 else f"{seconds:.1f}s"
    rate = f" ({render_size(size / seconds)}/s)" if size and seconds > 0 else ""
    return f"{render_size(size)} in {took}{rate}"
