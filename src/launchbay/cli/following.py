"""Following runs: the log of one, the live table of many, and the summary at the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from launchbay.cli.logs import follow_log
from launchbay.cli.results import print_results
from launchbay.cli.screen import (
    COLOURS,
    from_here,
    interactive,
    say,
    tell_waiting,
    waiting_words,
)
from launchbay.core import rundir
from launchbay.core.errors import TargetError
from launchbay.core.quantity import render_span
from launchbay.core.run import State
from launchbay.engine.logs import group_failures
from launchbay.engine.results import count_states, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.watch import Look

NOTHING: Mapping[str, str] = {}
ROWS = 12
TABLE_ROWS = 24
NAMED = 5


def follow(lab: Lab, runs: Sequence[Run], *, fail_fast: bool = False, silent: bool = False) -> int:
    """Stay until all have ended or somebody leaves; 0 when all succeeded."""
    try:
        if silent:
            ended = _to_the_end(_guarded(lab, runs, fail_fast=fail_fast))
        elif len(runs) == 1:
            ended = (_follow_one(lab, runs[0]),)
        elif sys.stderr.isatty():
            ended = _live(lab, runs, fail_fast=fail_fast)
        else:
            ended = _lines(lab, runs, fail_fast=fail_fast)
    except KeyboardInterrupt:
        return _interrupted(lab, runs)
    if not silent:
        summarize(lab, ended)
        tell_waiting(lab, ended)
    return 0 if all(run.state is State.SUCCEEDED for run in ended) else 1


def _follow_one(lab: Lab, run: Run) -> Run:
    try:
        return follow_log(lab, run)
    except TargetError as err:
        # How it ended is known, and more than its last lines.
        say(str(err))
        return lab.store.named([run.id]).get(run.id, run)


def summarize(lab: Lab, runs: Sequence[Run]) -> None:
    """What came out, what failed and why, where the outputs are, what to type next."""
    if len(runs) == 1:
        _summarize_one(lab, runs[0])
        return
    if len(runs) <= TABLE_ROWS:
        print_results(lab, runs)
    sys.stdout.flush()
    say(", ".join(f"{number} {state}" for state, number in count_states(runs).items()))
    failed = [run for run in runs if run.state is State.FAILED]
    for line, group in group_failures(lab, failed):
        names = ", ".join(run.suffix for run in group[:NAMED])
        more = f" and {len(group) - NAMED} more" if len(group) > NAMED else ""
        say(f"  {len(group)} failed: {line}\n    {names}{more}")
    say(f"outputs: {_shared_outputs(lab, runs)}")
    if failed:
        say("`bay show ID` tells more, `bay rerun --failed` tries again")
    else:
        say("`bay results --sort KEY` shows the table again")


def _summarize_one(lab: Lab, run: Run) -> None:
    spent = duration(run, lab.clock())
    took = f" after {render_span(spent)}" if spent is not None else ""
    reason = f": {run.status.reason}" if run.status.reason else ""
    say(f"{run.suffix} {run.state}{took}{reason}")
    say(f"outputs: {from_here(lab.outputs_of(run))}")
    if run.state is not State.SUCCEEDED:
        say(f"`bay show {run.suffix}` tells more, `bay rerun {run.suffix}` tries again")


def _shared_outputs(lab: Lab, runs: Sequence[Run]) -> str:
    above, _, folder = lab.where(runs[0]).rpartition("/")
    if folder and runs[0].id in folder and not above.startswith("pod:"):
        return f"{from_here(above)}/*/{rundir.OUT} · `bay fetch` copies them to results/"
    return lab.outputs_of(runs[0])


def _guarded(lab: Lab, runs: Sequence[Run], *, fail_fast: bool) -> Iterable[Look]:
    """Look after look; with `fail_fast` the first failure ends the rest."""
    cancelled = False
    for seen in lab.follow(runs):
        yield seen
        if fail_fast and not cancelled and _has_failed(seen):
            cancelled = True
            lab.cancel(seen.runs)


def _has_failed(seen: Look) -> bool:
    """Whether a run has failed for good: what is news may be tried again, if it says so."""
    news = {run.id for run in seen.news}
    return any(run.state is State.FAILED and run.id not in news for run in seen.runs)


def _to_the_end(looks: Iterable[Look]) -> tuple[Run, ...]:
    runs: tuple[Run, ...] = ()
    for seen in looks:
        runs = seen.runs
    return runs


def _lines(lab: Lab, runs: Sequence[Run], *, fail_fast: bool) -> tuple[Run, ...]:
    """Without a terminal: a line for each run that ends."""
    # A run that is tried again ends more than once.
    ended: set[str] = set()
    silent: set[str] = set()
    now: tuple[Run, ...] = tuple(runs)
    for seen in _guarded(lab, runs, fail_fast=fail_fast):
        for target in seen.silences.keys() - silent:
            say(f"no news of {target}: {seen.silences[target]}; its runs go on")
        silent = set(seen.silences)
        for run in seen.news:
            if run.state.final:
                ended.add(run.id)
                reason = f": {run.status.reason}" if run.status.reason else ""
                say(f"[{len(ended)}/{len(runs)}] {run.id} {run.state}{reason}")
        now = seen.runs
    return now


def _live(lab: Lab, runs: Sequence[Run], *, fail_fast: bool) -> tuple[Run, ...]:
    # rich is dear to load and only wanted on a terminal.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    began = lab.clock()
    done_before = sum(run.state.final for run in runs)
    now: tuple[Run, ...] = tuple(runs)
    console = Console(stderr=True)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for seen in _guarded(lab, runs, fail_fast=fail_fast):
            now = seen.runs
            text = render_progress(
                now, at=lab.clock(), began=began, done_before=done_before, silences=seen.silences
            )
            live.update(Text.from_ansi(text, no_wrap=True, overflow="ellipsis"), refresh=True)
    return now


def render_progress(
    runs: Sequence[Run],
    *,
    at: float,
    began: float,
    done_before: int = 0,
    silences: Mapping[str, str] = NOTHING,
) -> str:
    """Counts, rate, time left, and the runs that are going on."""
    counts = count_states(runs)
    parts = [f"{len(runs)} runs"]
    parts += [
        click.style(f"{number} {state}", fg=COLOURS[state]) for state, number in counts.items()
    ]
    done = sum(run.state.final for run in runs)
    rate = (done - done_before) / max(at - began, 1e-9)
    if done > done_before and done < len(runs):
        per_minute = rate * 60
        parts.append(f"{per_minute:.0f}/min" if per_minute >= 10 else f"{rate * 3600:.0f}/h")  # noqa: PLR2004
        parts.append(f"{render_span((len(runs) - done) / rate)} left")
    lines = [" · ".join(parts)]
    going = [run for run in runs if run.state is State.RUNNING]
    for run in going[:ROWS]:
        spent = render_span(duration(run, at) or 0)
        values = " ".join(f"{key}={_short(value)}" for key, value in run.status.metrics.items())
        lines.append(f"  {run.suffix}  {run.name}  {spent}  {values}".rstrip())
    if len(going) > ROWS:
        lines.append(f"  … and {len(going) - ROWS} more")
    waiting = next((run for run in runs if run.state is State.QUEUED and run.status.reason), None)
    if waiting and not going:
        lines.append(f"  {waiting_words(waiting)}")
    lines += [f"  no news of {target}: {why}" for target, why in silences.items()]
    lines.append(click.style("  Ctrl-C leaves; the runs go on", dim=True))
    return "\n".join(lines)


def _short(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _interrupted(lab: Lab, runs: Sequence[Run]) -> int:
    """Ctrl-C: many go on; of one it is asked."""
    if len(runs) == 1 and interactive():
        run = runs[0]
        answer = click.prompt(
            f"\n{run.suffix} goes on; Enter leaves it, c and Enter cancels it",
            default="",
            show_default=False,
            err=True,
        )
        if answer.strip().lower() == "c":
            lab.cancel([run])
            say(f"cancelling {run.suffix}")
            return 1
        say(f"`bay logs -f {run.suffix}` follows it again")
        return 0
    say("\nthe runs go on; `bay watch` follows them again")
    say(f"to end them: bay cancel -e {runs[0].experiment} --state queued,running")
    return 0
