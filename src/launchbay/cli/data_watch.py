"""`bay data watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launchbay.cli.data_words import count_files, exclude_option, include_option, local_option
from launchbay.cli.screen import complain, say
from launchbay.core.errors import BadRequest
from launchbay.core.quantity import parse_time
from launchbay.engine.data import Choice, open_data
from launchbay.engine.data_watch import stopped_by_signals, watch_folder, watched_area

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from launchbay.engine.data import Area, Data
    from launchbay.engine.data_watch import Done


@click.command("watch")
@click.argument("folder")
@click.option("--interval", default="5s", metavar="T", help="how often to look: 5s, 1m")
@click.option("--delete", is_flag=True, help="remove from the bucket what is deleted here")
@click.option("--once", is_flag=True, help="send what is whole after one interval, and end")
@include_option
@exclude_option
@local_option
def watch(
    *,
    folder: str,
    interval: str,
    delete: bool,
    once: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    local_path: Path | None,
) -> int:
    """Upload what is new or changed in a folder as it grows.

    A file is sent once it stayed the same for one interval. Ctrl-C and TERM send the rest, also
    what was still growing, and end the watch.
    """
    try:
        seconds = parse_time(interval).total_seconds()
    except ValueError as err:
        raise BadRequest(f"--interval: {err}") from err
    data = open_data(local=local_path)
    area = watched_area(data, folder, Choice(include=include, exclude=exclude))
    return watch_area(data, area, _tell, interval_s=seconds, delete=delete, once=once)


def watch_area(
    data: Data,
    area: Area,
    tell: Callable[[Done], None],
    *,
    interval_s: float,
    delete: bool = False,
    once: bool = False,
    note: str = "",
) -> int:
    """Upload a folder as it grows until a signal ends it; 1 when something did not arrive."""
    watching = f"watching {area.name(area.pattern.folder)} for {area.bucket.url}{note}"
    with stopped_by_signals() as stop:
        well = watch_folder(
            data,
            area,
            stop=stop,
            interval_s=interval_s,
            delete=delete,
            once=once,
            began=lambda: say(watching),
            tell=tell,
            complain=complain,
        )
    return 0 if well else 1


def _tell(done: Done) -> None:
    if done.sent:
        names = ", ".join(done.sent[:3]) + (" …" if len(done.sent) > 3 else "")  # noqa: PLR2004
        say(f"sent {count_files(len(done.sent))}: {names}")
    if done.removed:
        say(f"removed {count_files(len(done.removed))}: {', '.join(done.removed[:3])}")
