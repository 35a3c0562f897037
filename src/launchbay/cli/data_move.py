"""`bay data up` and `down`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from launchbay.cli.data_progress import showing
from launchbay.cli.data_words import (
    count_files,
    exclude_option,
    include_option,
    local_option,
    patterns_argument,
    print_lines,
    render_rate,
    tell_missing,
    tell_some,
    warn_expanded,
)
from launchbay.cli.options import json_option, yes_option
from launchbay.cli.screen import confirm, say
from launchbay.core.errors import BadRequest
from launchbay.core.quantity import render_size
from launchbay.engine.data import Choice, nearest, nearest_here, open_data
from launchbay.engine.transfers import (
    AT_ONCE,
    Moving,
    carry_out,
    find_missing,
    plan_transfers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launchbay.engine.data import Area, Data
    from launchbay.engine.transfers import Result, Transfer
    from launchbay.sync.steps import Step


def moving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what `up` and `down` have in common."""
    decorators = (
        patterns_argument,
        include_option,
        exclude_option,
        click.option(
            "--ignore-file",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="a file with patterns to leave out, one a line",
        ),
        click.option("--latest", is_flag=True, help="of iter_1 … iter_9 only the newest"),
        click.option(
            "--overwrite", is_flag=True, help="replace also what is newer on the other side"
        ),
        click.option("--delete", is_flag=True, help="remove what matches there and is not here"),
        local_option,
        click.option("--dry-run", is_flag=True, help="show what would be moved, and why"),
        click.option(
            "--engine",
            type=click.Choice(["built-in", "s5cmd"]),
            envvar="BAY_DATA_ENGINE",
            show_envvar=True,
            help="what carries the bytes; unset is built-in, or what `bucket:` says",
        ),
        click.option(
            "--at-once", type=click.IntRange(1, 512), default=AT_ONCE, help="files at a time"
        ),
        yes_option,
        json_option,
    )
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


@click.command("up")
@moving_options
def up(**options: Any) -> int:  # noqa: ANN401
    """Upload files, folders or what matches.

    What the bucket has already is not sent again.
    """
    return _move("sent", "sending", moving_up=True, **options)


@click.command("down")
@moving_options
def down(**options: Any) -> int:  # noqa: ANN401
    """Download objects, folders or what matches.

    What is here already is not fetched again.
    """
    return _move("got", "getting", moving_up=False, **options)


def _move(
    verb: str,
    label: str,
    *,
    moving_up: bool,
    patterns: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    ignore_file: Path | None,
    local_path: Path | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **how: Any,  # noqa: ANN401
) -> int:
    data = open_data(local=local_path)
    if not moving_up:
        warn_expanded(patterns, data.here)
    ignored = read_patterns(ignore_file) if ignore_file else ()
    moving = Moving(up=moving_up, **how)
    areas = data.areas(patterns, Choice(include=include, exclude=(*exclude, *ignored)))
    planned = plan_transfers(data, areas, moving)
    missing = tell_unplanned(planned, up=moving_up)
    if dry_run:
        return show_plan(planned, as_json=as_json) or int(missing)
    if not _agreed(planned, up=moving_up, yes=yes):
        return 1
    result = carry_shown(data, planned, moving, label=label)
    return finish(verb, result, as_json=as_json, quiet=missing) or int(missing)


def carry_shown(data: Data, planned: Sequence[Transfer], moving: Moving, *, label: str) -> Result:
    """Do what was planned, and show on a terminal how far it is."""
    try:
        with showing(label) as progress:
            return carry_out(data, planned, moving, progress=progress)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from here")
        raise


def tell_unplanned(planned: Sequence[Transfer], *, up: bool) -> bool:
    """Name the patterns that nothing matches; whether there are any."""
    found = False
    for transfer in planned:
        for text in find_missing(transfer):
            found = True
            place = transfer.area.folder if up else transfer.area.bucket.url
            meant = transfer.area.only(text)
            hint = nearest_here(meant) if up else nearest(meant)
            tell_missing(f"nothing in {place} matches `{transfer.area.name(text)}`", hint)
    return found


def _agreed(planned: Sequence[Transfer], *, up: bool, yes: bool) -> bool:
    """Whether what would be deleted may be."""
    gone = [(part.area, step) for part in planned for step in part.plan.deletions]
    if not gone:
        return True
    where = "the bucket" if up else "this machine"
    size = render_size(sum(step.size for _, step in gone))
    say(f"not on the other side, and so to be deleted from {where}:")
    tell_some([area.name(step.key) for area, step in gone])
    return confirm(f"delete {count_files(len(gone))} ({size}) from {where}?", yes=yes)


def show_plan(planned: Sequence[Transfer], *, as_json: bool) -> int:
    """Print what would be done, and why."""
    if as_json:
        click.echo(json.dumps(_plan_record(planned), indent=1))
        return 0
    sends = [(part.area, step) for part in planned for step in part.plan.sends]
    gone = [(part.area, step) for part in planned for step in part.plan.deletions]
    lines = [_plan_line(step.why, area, step) for area, step in sends]
    print_lines([*lines, *(_plan_line("delete", area, step) for area, step in gone)])
    for part in planned:
        _tell_left_out([(part.area.name(key), why) for key, why in part.plan.left_out])
    size = render_size(sum(step.size for _, step in sends))
    also = f"; {count_files(len(gone))} to delete" if gone else ""
    same = sum(part.plan.same for part in planned)
    say(f"{count_files(len(sends))}, {size} to move{also}; {same} unchanged")
    return 0


def _plan_line(why: str, area: Area, step: Step) -> str:
    return f"{why:<9}  {render_size(step.size):>10}  {area.name(step.key)}"


def finish(verb: str, result: Result, *, as_json: bool, quiet: bool = False) -> int:
    """Say what came of it; 1 when something failed."""
    if as_json:
        click.echo(json.dumps(_result_record(result), indent=1))
    elif not quiet or result.done or result.same:
        say(_summary(verb, result))
    return tell_trouble(result)


def tell_trouble(result: Result) -> int:
    """Say what was left out and what failed; 1 when something did."""
    _tell_left_out(result.left_out)
    if result.failed:
        say(f"{count_files(len(result.failed))} failed; the same command tries them again:")
        tell_some([f"{name}: {why}" for name, why in result.failed])
    return int(bool(result.failed))


def _summary(verb: str, result: Result) -> str:
    rate = render_rate(result.bytes, result.seconds)
    parts = [f"{verb} {count_files(len(result.done))}, {rate}"] if result.done else []
    parts += [f"deleted {count_files(len(result.deleted))}"] if result.deleted else []
    parts += [f"{result.same} unchanged"] if result.same else []
    if not result.done and not result.deleted and not result.failed:
        return ": ".join(["nothing to do", *parts])
    return "; ".join(parts) or f"{verb} nothing"


def _tell_left_out(left_out: Sequence[tuple[str, str]]) -> None:
    if left_out:
        say(f"left out {len(left_out)}:")
        tell_some([f"{name}: {why}" for name, why in left_out])


def read_patterns(path: Path) -> tuple[str, ...]:
    """The patterns of a file: one a line, `#` begins a comment.

    Raises:
        BadRequest: when it is no text.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise BadRequest(f"`{path}` cannot be read: {err}") from err
    stripped = (line.strip() for line in lines)
    return tuple(line for line in stripped if line and not line.startswith("#"))


def _plan_record(planned: Sequence[Transfer]) -> dict[str, Any]:
    return {
        "send": [_step(part, step) for part in planned for step in part.plan.sends],
        "delete": [_step(part, step) for part in planned for step in part.plan.deletions],
        "unchanged": sum(part.plan.same for part in planned),
        "left_out": [
            {"name": part.area.name(key), "why": why}
            for part in planned
            for key, why in part.plan.left_out
        ],
    }


def _step(part: Transfer, step: Step) -> dict[str, Any]:
    return {
        "name": part.area.name(step.key),
        "key": step.key,
        "path": str(step.path),
        "size": step.size,
        "why": step.why,
    }


def _result_record(result: Result) -> dict[str, Any]:
    return {
        "done": [
            {"key": step.key, "path": str(step.path), "size": step.size, "why": step.why}
            for step in result.done
        ],
        "deleted": [step.key for step in result.deleted],
        "unchanged": result.same,
        "bytes": result.bytes,
        "seconds": round(result.seconds, 3),
        "left_out": [{"name": name, "why": why} for name, why in result.left_out],
        "failed": [{"name": name, "why": why} for name, why in result.failed],
    }
