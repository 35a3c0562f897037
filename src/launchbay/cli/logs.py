"""`bay logs`."""

from __future__ import annotations

import re
import sys
from collections import deque
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import one, selection_options
from launchbay.cli.screen import say, tell_waiting, waiting_words
from launchbay.core.backend import LogChunk
from launchbay.core.errors import BadRequest, TargetError
from launchbay.core.run import State
from launchbay.engine.logs import pieces
from launchbay.engine.select import select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

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
        ended = follow_log(lab, runs[0], rank=rank, lines=lines, keep=keep)
        tell_waiting(lab, [ended])
    elif len(runs) == 1:
        _print_one(lab, runs[0], rank=rank, lines=lines, keep=keep)
    else:
        for run in runs:
            _print(_known(lab, run, rank), lines=lines, keep=keep, head=f"{run.suffix}  ")


def _print_one(
    lab: Lab, run: Run, *, rank: int, lines: int | None, keep: Callable[[str], bool]
) -> None:
    log = _Marked(pieces(lab, run, rank=rank))
    _print(log, lines=lines, keep=keep)
    if not log.begun and run.state.final and run.is_elsewhere:
        say(f"{run.suffix} printed nothing, or its log is gone from {run.target}")


def _known(lab: Lab, run: Run, rank: int) -> Iterator[LogChunk]:
    """What is known of a log; where nothing is, that is said, and others can be told of."""
    try:
        yield from pieces(lab, run, rank=rank)
    except TargetError as err:
        say(f"{run.suffix}: {err}")


def _print(
    chunks: Iterable[LogChunk], *, lines: int | None, keep: Callable[[str], bool], head: str = ""
) -> None:
    """Print a log, or the last so many of the lines to keep, a piece at a time."""
    if keep is _everything and lines is None and not head:
        for chunk in chunks:
            click.echo(chunk.text, nl=False)
        return
    if keep is _everything and lines is not None:
        chunks = [_end(chunks, lines)]
    chosen: Iterable[Iterable[str]] = (filter(keep, some) for some in _split(chunks))
    if lines is not None:
        chosen = [deque((line for some in chosen for line in some), maxlen=lines)]
    for some in chosen:
        # Of several logs each begins on a line of its own.
        ends = "\n" if head else ""
        click.echo("".join(f"{head}{line.removesuffix(ends)}{ends}" for line in some), nl=False)


def _end(chunks: Iterable[LogChunk], lines: int) -> LogChunk:
    """The end of a log with at least so many lines: most of it is not worth splitting."""
    text = ""
    for chunk in chunks:
        # One more than is wanted, and what follows the last end of a line.
        ends = (text + chunk.text).rsplit("\n", lines + 1)
        text = "\n".join(ends[len(ends) > lines + 1 :])
    return LogChunk(text=text, cursor="")


def _split(chunks: Iterable[LogChunk]) -> Iterator[list[str]]:
    """Lines with their ends, by piece; a progress bar's carriage returns end none."""
    rest = ""
    for chunk in chunks:
        *whole, rest = (rest + chunk.text).split("\n")
        yield [f"{line}\n" for line in whole]
    yield [rest] * bool(rest)


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
        so_far = _Marked(pieces(lab, run, rank=rank))
        _print(so_far, lines=lines, keep=keep)
        cursor = so_far.cursor
    told, read_of = "", run.native_id
    # Look first, then read: so the last lines are never missed.
    for seen in lab.follow([run]):
        (run,) = seen.runs
        told = _tell_waiting(run, seen.silences, told)
        if not run.native_id or (run.state is State.QUEUED and run.is_elsewhere):
            # Over SSH asking for what cannot be there is a call a second.
            continue
        if run.native_id != read_of:
            # A further attempt has a log of its own.
            _print_rest(rest, keep)
            read_of, cursor, rest = run.native_id, "", ""
        for chunk in _since(lab, run, rank, cursor):
            cursor = chunk.cursor
            if keep is _everything:
                # Half a line may be a progress bar.
                click.echo(chunk.text, nl=False)
                continue
            *whole, rest = (rest + chunk.text).split("\n")
            click.echo("".join(f"{line}\n" for line in whole if keep(line)), nl=False)
    # A prompt must not stand behind it; a file gets what was printed.
    _print_rest(rest, keep, nl=sys.stdout.isatty())
    return run


def _print_rest(rest: str, keep: Callable[[str], bool], *, nl: bool = True) -> None:
    """Print a line that has no end."""
    if rest and keep(rest):
        click.echo(rest, nl=nl)


class _Marked:
    """Pieces of a log, the cursor behind the last that was taken, and whether any had text."""

    def __init__(self, chunks: Iterable[LogChunk]) -> None:
        self._chunks = chunks
        self.cursor = ""
        self.begun = False

    def __iter__(self) -> Iterator[LogChunk]:
        for chunk in self._chunks:
            self.cursor = chunk.cursor
            self.begun = self.begun or bool(chunk.text)
            yield chunk


def _since(lab: Lab, run: Run, rank: int, cursor: str) -> Iterator[LogChunk]:
    """What came since `cursor`; of a target that is silent the next look says why."""
    try:
        yield from pieces(lab, run, rank=rank, cursor=cursor, copies=run.state.final)
    except TargetError:
        if run.state.final:
            raise


def _tell_waiting(run: Run, silences: Mapping[str, str], told: str) -> str:
    """Say why nothing comes of a run elsewhere, when that is news; what was said."""
    if not run.is_elsewhere and run.place["kind"] == "machine":
        return told
    word = next((f"no news of {target}: {why}" for target, why in silences.items()), "")
    if not word and run.state in {State.CREATED, State.QUEUED} and run.status.reason:
        word = waiting_words(run)
    if word and word != told:
        say(word)
    return word or told


def _filter(grep: str | None) -> Callable[[str], bool]:
    if grep is None:
        return _everything
    try:
        pattern = re.compile(grep)
    except re.error as err:
        raise BadRequest(f"--grep: `{grep}` is no regular expression: {err}") from err
    return lambda line: bool(pattern.search(line))
