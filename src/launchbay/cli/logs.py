"""`bay logs`."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import one, selection_options
from launchbay.cli.screen import say
from launchbay.core.errors import BadRequest, TargetError
from launchbay.core.run import State
from launchbay.engine.logs import read_all
from launchbay.engine.select import select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from launchbay.core.backend import LogChunk
    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection


def _everything(line: str) -> bool:  # noqa: ARG001
    return True


@click.command("logs")
@selection_options
@click.option("-f", "--follow", is_flag=True, help="go on until the run has ended")
@click.option("-n", "--lines", type=click.IntRange(min=0), help="only the last so many lines")
@click.option("--rank", default=0, help="of this process of a run")
@click.option("--grep", metavar="RE", help="only lines that match")
def command(
    *,
    lab: Lab,
    selection: Selection,
    follow: bool,
    lines: int | None,
    rank: int,
    grep: str | None,
) -> None:
    """Print what runs printed, finished or not; of several runs, each line with its run."""
    keep = _filter(grep)
    lab.tell = say
    runs = select(lab.store, selection) if selection.given else [one(lab, selection)]
    if not runs:
        say("no such runs")
    elif follow:
        if len(runs) > 1:
            raise BadRequest(f"{len(runs)} runs are meant; one can be followed", hint="`bay watch`")
        follow_log(lab, runs[0], rank=rank, lines=lines, keep=keep)
    elif len(runs) == 1:
        click.echo("".join(_last(filter(keep, _lines(lab, runs[0], rank)), lines)), nl=False)
    else:
        for run in runs:
            for line in _last(filter(keep, _lines(lab, run, rank)), lines):
                click.echo(f"{run.suffix}  {line}", nl=False)


def follow_log(
    lab: Lab,
    run: Run,
    *,
    rank: int = 0,
    lines: int | None = None,
    keep: Callable[[str], bool] = _everything,
) -> Run:
    """Print the log as it grows, until the run has ended; returns the run as it ended."""
    cursor, rest = "", ""
    if lines is not None:
        chunk = lab.read_log(run, rank=rank)
        cursor = chunk.cursor
        click.echo("".join(_last(filter(keep, _split(chunk.text)), lines)), nl=False)
    told = ""
    # Look first, then read: so the last lines are never missed.
    for seen in lab.follow([run]):
        (run,) = seen.runs
        told = _tell_waiting(run, seen.silences, told)
        if not run.native_id or (run.state is State.QUEUED and run.is_elsewhere):
            # Over SSH asking for what cannot be there is a call a second.
            continue
        for chunk in _pieces(lab, run, rank, cursor):
            cursor = chunk.cursor
            if keep is _everything:
                # Half a line may be a progress bar.
                click.echo(chunk.text, nl=False)
                continue
            *whole, rest = (rest + chunk.text).split("\n")
            click.echo("".join(f"{line}\n" for line in whole if keep(line)), nl=False)
    if rest and keep(rest):
        # A prompt must not stand behind it; a file gets what was printed.
        click.echo(rest, nl=sys.stdout.isatty())
    return run


def _pieces(lab: Lab, run: Run, rank: int, cursor: str) -> Iterator[LogChunk]:
    """What came since `cursor`, never more of it at once than a target hands out."""
    more = True
    while more:
        try:
            chunk = lab.read_log(run, rank=rank, cursor=cursor, whole=False)
        except TargetError:
            # The next look says why, or that it was for a moment only.
            if run.state.final:
                raise
            return
        yield chunk
        cursor, more = chunk.cursor, chunk.more


def _tell_waiting(run: Run, silences: Mapping[str, str], told: str) -> str:
    """Say why nothing comes of a run elsewhere, when that is news; what was said."""
    if not run.is_elsewhere and run.place["kind"] == "machine":
        return told
    word = next((f"no news of {target}: {why}" for target, why in silences.items()), "")
    if not word and run.state in {State.CREATED, State.QUEUED} and run.status.reason:
        word = f"{run.suffix} waits: {run.status.reason}"
    if word and word != told:
        say(word)
    return word or told


def _lines(lab: Lab, run: Run, rank: int) -> list[str]:
    return _split(read_all(lab, run, rank=rank))


def _split(text: str) -> list[str]:
    """Lines with their ends; a progress bar's carriage returns end none."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + [rest] * bool(rest)


def _last(lines: filter[str], number: int | None) -> list[str]:
    kept = list(lines)
    return kept if number is None else kept[len(kept) - min(number, len(kept)) :]


def _filter(grep: str | None) -> Callable[[str], bool]:
    if grep is None:
        return _everything
    try:
        pattern = re.compile(grep)
    except re.error as err:
        raise BadRequest(f"--grep: `{grep}` is no regular expression: {err}") from err
    return lambda line: bool(pattern.search(line))
