"""The first tool's verbs for object storage, on those of `bay data`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launchbay.cli.data_move import carry_shown, finish, tell_trouble, tell_unplanned
from launchbay.cli.data_words import print_lines
from launchbay.cli.screen import say
from launchbay.core.errors import BadRequest
from launchbay.engine.data import open_data, printable
from launchbay.engine.transfers import Moving, plan_transfers, usual_engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.cli.toolbox_words import Given
    from launchbay.engine.data import Area, Data
    from launchbay.engine.data_watch import Done

FILE = "Which file, folder or pattern"
INTERVAL = "5"
KEPT = "; what is deleted here stays there, unless by `bay data watch --delete`"


def list(given: Given) -> int:  # noqa: A001 (the verb's name)
    """List one folder of the bucket; without `file=` its top."""
    from launchbay.cli.data_look import print_level  # noqa: PLC0415

    return print_level(given.text("file"))


def find(given: Given) -> int:
    """Print what matches, one a line; folders where the pattern ends with `/`."""
    from launchbay.cli.data_look import tell_unfound  # noqa: PLC0415
    from launchbay.engine.data import find as find_in  # noqa: PLC0415

    area = _open(given).area(given.needed("file", FILE))
    found = find_in(area)
    print_lines([one.name for one in found])
    return int(tell_unfound([(area, found)]))


def upload(given: Given) -> int:
    """Upload what matches and is not there yet."""
    return _move(given, up=True)


def download(given: Given) -> int:
    """Download what matches and is not here yet."""
    return _move(given, up=False)


def remove(given: Given) -> int:
    """Remove exactly what matches from the bucket, after asking."""
    from launchbay.cli.data_remove import remove_agreed, tell_unmatched  # noqa: PLC0415
    from launchbay.engine.transfers import plan_removals  # noqa: PLC0415

    removals = plan_removals([_open(given).area(given.needed("file", FILE))])
    tell_unmatched(removals)
    return remove_agreed(removals, given.agreed)


def interactive(given: Given) -> int:
    """Show what matches on both sides, ask once, and do that."""
    from launchbay.cli.data_prompt import prompt_actions  # noqa: PLC0415

    pattern = given.needed("file", FILE)
    data = _open(given)

    def move(up: bool, keys: Sequence[str]) -> int:  # noqa: FBT001
        return _carry(given, data, data.area(pattern).narrowed(keys), up=up)

    return prompt_actions(data, pattern, place="S3", move=move)


def monitor(given: Given) -> int:
    """Upload a folder as it grows, until Ctrl-C or TERM."""
    from launchbay.cli.data_watch import watch_area  # noqa: PLC0415
    from launchbay.engine.data_watch import watched_area  # noqa: PLC0415

    seconds = parse_interval(given.text("interval", INTERVAL))
    data = _open(given)
    area = watched_area(data, given.needed("file", "Which folder"))

    def tell(done: Done) -> None:
        _print_uploads(given, [(area.folder / key, key) for key in done.sent])

    return watch_area(data, area, tell, interval_s=seconds, note=KEPT)


def server(given: Given) -> int:  # noqa: ARG001 (verbs take what was given)
    """Tell that there is none."""
    say("no server is needed, and none was started: each command makes its own transfers")
    return 0


def parse_interval(text: str) -> float:
    """How often to look; a bare number is seconds, as it was.

    >>> parse_interval("5"), parse_interval("1m")
    (5.0, 60.0)

    Raises:
        BadRequest: when it is no span of time.
    """
    from launchbay.core.quantity import parse_time  # noqa: PLC0415

    try:
        return parse_time(f"{text}s" if text.isdecimal() else text).total_seconds()
    except ValueError as err:
        raise BadRequest(f"interval: {err}", hint="write `interval=5`, in seconds") from err


def _open(given: Given) -> Data:
    local = given.text("local_path")
    return open_data(local=Path(local).expanduser() if local else None)


def _move(given: Given, *, up: bool) -> int:
    pattern = given.needed("file", FILE)
    data = _open(given)
    return _carry(given, data, data.area(pattern), up=up)


def _carry(given: Given, data: Data, area: Area, *, up: bool) -> int:
    """Move what matches, and print a line for each file."""
    moving = Moving(up=up, overwrite=given.truth("overwrite"), engine=usual_engine(area))
    planned = plan_transfers(data, [area], moving)
    missing = tell_unplanned(planned, up=up)
    result = carry_shown(data, planned, moving, label="uploading" if up else "downloading")
    if not result.done:
        return finish("moved", result, as_json=False, quiet=missing) or int(missing)
    moved = [(step.path, step.key) for step in result.done]
    if up:
        _print_uploads(given, moved)
    else:
        # The first tool's default was `./`, and so its lines begin.
        shown = [(key, _shown(path, given.text("local_path", "./"))) for path, key in moved]
        print_lines([f"Downloaded {printable(key)} to {path}" for key, path in shown])
    if result.same:
        say(f"{result.same} unchanged")
    return tell_trouble(result)


def _print_uploads(given: Given, moved: Sequence[tuple[Path, str]]) -> None:
    local = given.text("local_path")
    for path, key in moved:
        click.echo(f"Uploaded {_shown(path, local)} to {printable(key)}")


def _shown(path: Path, local: str) -> str:
    """A file's path, beginning with the folder as it was typed."""
    return printable(os.path.join(local, os.path.relpath(path, local)))  # noqa: PTH118 (keeps `./`)
