"""`bay data rm`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from launchbay.cli.data_words import (
    count_files,
    exclude_option,
    include_option,
    patterns_argument,
    print_lines,
    tell_some,
    warn_expanded,
)
from launchbay.cli.options import yes_option
from launchbay.cli.screen import confirm, say
from launchbay.core.quantity import render_size
from launchbay.engine.data import Choice, nearest, open_data, unmatched
from launchbay.engine.transfers import plan_removals, remove_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launchbay.engine.transfers import Removal


@click.command("rm")
@patterns_argument
@include_option
@exclude_option
@click.option("--dry-run", is_flag=True, help="list what would go, and remove nothing")
@yes_option
def remove(
    *,
    patterns: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> int:
    """Remove objects from the bucket, exactly those that match.

    `data/` is all below that folder and never `data2/`. All of a bucket is `'*'`.
    Files here are never touched.
    """
    data = open_data()
    warn_expanded(patterns, data.here)
    removals = plan_removals(data.areas(patterns, Choice(include=include, exclude=exclude)))
    tell_unmatched(removals)
    if dry_run:
        listed = ((removal.area, entry) for removal in removals for entry in removal.entries)
        print_lines([f"{render_size(one.size):>10}  {area.name(one.key)}" for area, one in listed])
    if dry_run and any(removal.entries for removal in removals):
        say(f"would remove {describe_removals(removals)}")
    if dry_run:
        return 0
    return remove_agreed(removals, partial(confirm, yes=yes))


def remove_agreed(removals: Sequence[Removal], agreed: Callable[[str], bool]) -> int:
    """Remove what was planned once somebody said yes; 1 when not."""
    if not any(removal.entries for removal in removals):
        return 0
    what = describe_removals(removals)
    tell_some([removal.area.name(entry.key) for removal in removals for entry in removal.entries])
    if not agreed(f"remove {what}?"):
        return 1
    remove_all(removals)
    say(f"removed {what}")
    return 0


def describe_removals(removals: Sequence[Removal]) -> str:
    """How many files, how big, of which buckets."""
    entries = [entry for removal in removals for entry in removal.entries]
    urls = dict.fromkeys(removal.area.bucket.url for removal in removals if removal.entries)
    size = render_size(sum(entry.size for entry in entries))
    return f"{count_files(len(entries))} ({size}) from {', '.join(urls)}"


def tell_unmatched(removals: Sequence[Removal]) -> None:
    """Name the patterns that nothing matches."""
    for removal in removals:
        for text in unmatched(removal.area, (entry.key for entry in removal.entries)):
            hint = nearest(removal.area.only(text))
            say(f"nothing matches `{removal.area.name(text)}`" + (f"; {hint}" if hint else ""))
