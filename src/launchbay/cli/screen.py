"""What goes to the screen: tables, words, questions."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from launchbay.core.errors import BadRequest
from launchbay.core.run import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

NARROWEST = 6
SENTENCES = frozenset({"why", "command", "state", "note"})
"""Columns that are read from the left."""
GAP = "  "
COLOURS = {
    State.CREATED: "bright_black",
    State.QUEUED: "yellow",
    State.RUNNING: "cyan",
    State.SUCCEEDED: "green",
    State.FAILED: "red",
    State.CANCELLED: "magenta",
    State.LOST: "red",
}


def say(text: str) -> None:
    """Words, to standard error; data goes to standard output."""
    click.echo(text, err=True)


def complain(message: str, hint: str | None = None) -> None:
    """An error with the next thing to do."""
    # click itself leaves colour out where there is no terminal.
    plain = False if os.environ.get("NO_COLOR") else None
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True, color=plain)
    if hint:
        click.echo(f"\n{click.style('hint:', bold=True)} {hint}", err=True, color=plain)


def interactive() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, yes: bool, how: str = "add `--yes`") -> bool:
    """Ask before something that cannot be undone.

    Args:
        question: what is asked.
        yes: whether it is answered already.
        how: what whoever cannot be asked does.

    Raises:
        BadRequest: when nobody is there to answer and `--yes` was not given.
    """
    if yes:
        return True
    if not interactive():
        raise BadRequest(f"{question} — nobody is here to answer", hint=how)
    return click.confirm(question, default=False, err=True)


def screen_width() -> int | None:
    """Columns of the terminal; None for a pipe, where nothing is cut."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size  # noqa: PLC0415 (dear, and a pipe does without)

    return get_terminal_size((80, 24)).columns


def from_here(path: str) -> str:
    """The path as one types it in this folder, or in one's home; all else as it is."""
    here, home = f"{os.getcwd()}/", f"{os.path.expanduser('~')}/"  # noqa: PTH109, PTH111 (text)
    if path.startswith(here):
        return path.removeprefix(here)
    return f"~/{path.removeprefix(home)}" if path.startswith(home) else path


def render_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None,
    numbers: frozenset[str] = frozenset(),
    keep: frozenset[str] = frozenset(),
) -> str:
    """Aligned text; a column that is the same in all rows is said once above.

    Args:
        columns: their heads.
        rows: cells as text.
        width: where to cut; the widest columns give way first.
        numbers: columns to align at the right.
        keep: columns that stay even when all rows agree.
    """
    common: list[str] = []
    shown = list(range(len(columns)))
    if len(rows) > 1:
        for at, name in enumerate(columns):
            values = {row[at] for row in rows}
            if len(values) == 1 and name not in keep:
                shown.remove(at)
                common.append(f"{name} {values.pop()}".rstrip())
    head = [columns[at] for at in shown]
    cells = [head, *([row[at] for at in shown] for row in rows)]
    widths = _fit([max(map(len, column)) for column in zip(*cells, strict=True)], head, width)
    lines = [
        GAP.join(
            _align(cell, size, right=name in numbers, sentence=name in SENTENCES)
            for cell, size, name in zip(row, widths, head, strict=True)
        ).rstrip()
        for row in cells
    ]
    first = [" · ".join(common)] if common else []
    return "\n".join([*first, *lines])


def _fit(widths: list[int], heads: Sequence[str], width: int | None) -> list[int]:
    widths = list(widths)
    room = None if width is None else width - len(GAP) * (len(widths) - 1)
    while room is not None and sum(widths) > room:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= max(NARROWEST, len(heads[widest])):
            break
        widths[widest] -= 1
    return widths


def _align(cell: str, size: int, *, right: bool, sentence: bool) -> str:
    if len(cell) > size and sentence:
        cell = cell[: size - 1] + "…"
    if len(cell) > size:
        # The end of a name tells more than its middle.
        keep = size - 1
        cell = cell[: keep // 2] + "…" + cell[len(cell) - (keep - keep // 2) :]
    return cell.rjust(size) if right else cell.ljust(size)


def state_word(run: Run) -> str:
    """Where the run stands, as people read it."""
    return "cancelling" if run.cancel_requested and not run.state.final else str(run.state)


def reason_of(run: Run) -> str:
    """Why it stands there, as far as anybody said."""
    return run.status.reason or ("waits on this side" if run.waits_here else "")


def tell_silences(silences: Mapping[str, str]) -> None:
    """Which targets did not answer, and why: what is shown of their runs is older."""
    for target, why in silences.items():
        say(f"runs of {target} are as last seen: {why}")


def tell_waiting(lab: Lab, runs: Iterable[Run]) -> None:
    """How many runs nobody has sent yet, and who will."""
    waiting = [run for run in runs if run.waits_here]
    left = len(lab.left_over(waiting))
    if count := len(waiting) - left:
        runs_wait = "1 run waits" if count == 1 else f"{count} runs wait"
        say(f"{runs_wait} on this side; `bay watch` or the next bay command sends what has room")
    if left:
        never = "1 run was never sent: its" if left == 1 else f"{left} runs were never sent: their"
        say(f"{never} bay was killed; the same `bay run` sends what is missing")


def waiting_words(run: Run) -> str:
    """Which run waits, and for what."""
    return f"{run.suffix} waits: {run.status.reason.removeprefix('waits ')}"


def paint_states(text: str) -> str:
    """The text with the words of states coloured, on a terminal that wants it."""
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return text
    for state, hue in COLOURS.items():
        text = text.replace(f"  {state}", "  " + click.style(state, fg=hue))
    return text
