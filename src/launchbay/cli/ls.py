"""`bay ls`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import json_option, quiet_option, selection_options
from launchbay.cli.screen import (
    paint_states,
    reason_of,
    render_table,
    say,
    screen_width,
    state_word,
    tell_silences,
    tell_waiting,
)
from launchbay.core.quantity import render_span
from launchbay.core.run import State
from launchbay.engine.open import open_lab
from launchbay.engine.results import duration
from launchbay.engine.select import Selection, select
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

SHOWN = 50
FOLDED_ABOVE = 10
COLUMNS = ("run", "name", "state", "time", "age", "target", "gpus", "why")
NUMBERS = frozenset({"time", "age", "gpus"})


@click.command("ls")
@selection_options
@click.option("--all", "everything", is_flag=True, help="all runs, one line each")
@click.option("--no-refresh", is_flag=True, help="as last seen, without asking targets")
@click.option("--rebuild", is_flag=True, help="read the project's run folders into the index")
@quiet_option
@json_option
def command(
    *,
    lab: Lab,
    selection: Selection,
    everything: bool,
    no_refresh: bool,
    rebuild: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """List runs, newest last.

    At most 50; an experiment of more than 10 runs is one line, unless it is named.
    """
    if rebuild:
        say(f"{lab.rebuild()} runs read from {lab.project.bay}")
    unfinished = lab.unfinished(selection.project)
    seen = None if no_refresh else lab.refresh(unfinished)
    runs = _selected(lab, selection, everything=everything)
    if as_json:
        from launchbay.cli.record import run_record  # noqa: PLC0415

        click.echo(json.dumps([run_record(run, lab) for run in runs], indent=1))
    elif quiet:
        click.echo("".join(f"{run.id}\n" for run in runs), nl=False)
    elif selection.given or everything:
        _print_runs(lab, runs)
    else:
        click.echo(render_overview(lab, selection.project))
    tell_waiting(lab, seen.runs if seen else unfinished)
    tell_silences(seen.silences if seen else {})


def overview_lines() -> str:
    """What `bay` alone prints in a project with runs; empty elsewhere."""
    lab = open_lab(writing=False)
    if not lab.project.id or not lab.store.runs(Query(project=lab.project.id, last=1)):
        return ""
    tell_waiting(lab, lab.refresh(lab.unfinished(lab.project.id)).runs)
    steps = "`bay show ID` one run · `bay results` the metrics · `bay run` what is missing"
    return f"{render_overview(lab, lab.project.id)}\n{steps}"


def render_overview(lab: Lab, project: str | None) -> str:
    """Single runs of small experiments, one line for each large one."""
    counts: dict[str, dict[State, int]] = {}
    newest: dict[str, float] = {}
    for experiment, state, number, at in lab.store.experiments(Query(project=project)):
        counts.setdefault(experiment, {})[state] = number
        newest[experiment] = max(at, newest.get(experiment, 0.0))
    large = {name for name, states in counts.items() if sum(states.values()) > FOLDED_ABOVE}
    small = [name for name in counts if name not in large]
    runs = lab.store.runs(Query(project=project, experiments=small, last=SHOWN)) if small else []
    lines = [
        *((run.created_at, _row(run, lab.clock())) for run in runs),
        *((newest[name], _fold(name, counts[name], lab.clock() - newest[name])) for name in large),
    ]
    if not lines:
        return "no runs yet; start one with `bay run`"
    rows = [row for _, row in sorted(lines, key=lambda line: line[0])[-SHOWN:]]
    return _render(rows)


def _selected(lab: Lab, selection: Selection, *, everything: bool) -> list[Run]:
    if selection.given:
        runs = select(lab.store, selection)
        return runs if everything else runs[-SHOWN:]
    last = None if everything else SHOWN
    return lab.store.runs(Query(project=selection.project, last=last))


def _print_runs(lab: Lab, runs: Sequence[Run]) -> None:
    if not runs:
        say("no such runs")
        return
    click.echo(_render([_row(run, lab.clock()) for run in runs]))


def _render(rows: Sequence[Sequence[str]]) -> str:
    used = [at for at, name in enumerate(COLUMNS) if name == "run" or any(row[at] for row in rows)]
    table = render_table(
        [COLUMNS[at] for at in used],
        [[row[at] for at in used] for row in rows],
        width=screen_width(),
        numbers=NUMBERS,
        keep=frozenset({"run", "name", "state"}),
    )
    return paint_states(table)


def _row(run: Run, now: float) -> tuple[str, ...]:
    spent = duration(run, now)
    why = reason_of(run) if run.state is not State.SUCCEEDED else ""
    if run.suspect_since is not None and not run.state.final:
        why = "looks lost; a second look in a minute decides"
    return (
        run.suffix,
        run.name,
        state_word(run),
        "" if spent is None else render_span(spent),
        render_span(now - run.created_at),
        run.target,
        run.resources.get("gpus", ""),
        why,
    )


def _fold(name: str, states: Mapping[State, int], age_s: float) -> tuple[str, ...]:
    words = ", ".join(f"{states[state]} {state}" for state in State if state in states)
    total = sum(states.values())
    return (f"{total} runs", name, words, "", render_span(age_s), "", "", f"bay ls {name}")
