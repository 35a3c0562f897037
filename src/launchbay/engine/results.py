"""The table of results: a row a run, or a row a group of repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest
from launchbay.core.run import Run, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Cell = str | float | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns and rows of cells; numbers are numbers, what is missing is None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def tabulate(
    runs: Sequence[Run], *, now: float, over: str | None = None, sort: str | None = None
) -> Table:
    """The parameters that vary, the last value of each metric, state and time.

    Args:
        runs: of one experiment or several.
        now: the time for runs that are still going on.
        over: a parameter to average over: mean, deviation and number instead of single values.
        sort: a column, with `-` in front for the largest first; rows without a value come last.

    Raises:
        BadRequest: when `over` is no parameter or `sort` no column.
    """
    table = _grouped(runs, over) if over else _single(runs, now)
    return _sorted(table, sort) if sort else table


def varying(runs: Sequence[Run]) -> list[str]:
    """The parameters that are not the same in all runs, in their order."""
    return varying_keys([run.params for run in runs])


def varying_keys(points: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys whose values are not the same in all points, in their order."""
    keys = list(dict.fromkeys(key for point in points for key in point))
    return [key for key in keys if len({point.get(key) for point in points}) > 1]


def metric_names(runs: Sequence[Run]) -> list[str]:
    """Every metric that some run has, in the order of their first mention."""
    return list(dict.fromkeys(name for run in runs for name in run.status.metrics))


def duration(run: Run, now: float) -> float | None:
    """Seconds since it started, or until it ended."""
    if run.status.started_at is None:
        return None
    # What is recorded is no finer, and the rest is noise in a table for programs.
    return round(max(0.0, (run.status.ended_at or now) - run.status.started_at), 3)


def parse_cell(text: str | None) -> Cell:
    """A number where the text is one, so that 10 sorts after 9."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _single(runs: Sequence[Run], now: float) -> Table:
    params, metrics = varying(runs), metric_names(runs)
    rows = tuple(
        (
            run.suffix,
            *(run.params.get(key) for key in params),
            *(run.status.metrics.get(name) for name in metrics),
            str(run.state),
            duration(run, now),
        )
        for run in runs
    )
    return Table(columns=("run", *params, *metrics, "state", "time"), rows=rows)


def _grouped(runs: Sequence[Run], over: str) -> Table:
    known = {key for run in runs for key in run.params}
    if over not in known:
        raise BadRequest(f"no run has a parameter `{over}`", hint=suggest(over, known))
    keys = [key for key in varying(runs) if key != over]
    metrics = [
        name
        for name in metric_names(runs)
        if all(not isinstance(run.status.metrics.get(name), str) for run in runs)
    ]
    groups: dict[tuple[str | None, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(run.params.get(key) for key in keys), []).append(run)
    columns = [column for name in metrics for column in (name, f"{name} ±")]
    rows = tuple(
        (*values, *_statistics(group, metrics), len(group), _states(group))
        for values, group in groups.items()
    )
    return Table(columns=(*keys, *columns, "n", "state"), rows=rows)


def _statistics(group: Sequence[Run], metrics: Sequence[str]) -> list[Cell]:
    """Mean and sample deviation of each metric over the runs that succeeded."""
    from statistics import mean, stdev  # noqa: PLC0415 (dear, and `bay ls` shows no means)

    done = [run for run in group if run.state is State.SUCCEEDED]
    cells: list[Cell] = []
    for name in metrics:
        values = [float(run.status.metrics[name]) for run in done if name in run.status.metrics]
        cells.append(mean(values) if values else None)
        cells.append(stdev(values) if len(values) > 1 else None)
    return cells


def _states(group: Sequence[Run]) -> str:
    """How many are where; nothing but successes is just that word."""
    counts = count_states(group)
    if set(counts) == {State.SUCCEEDED}:
        return str(State.SUCCEEDED)
    return ", ".join(f"{number} {state}" for state, number in counts.items())


def count_states(runs: Sequence[Run]) -> Mapping[State, int]:
    """How many runs are in each state that occurs, in the order of a run's life."""
    return {state: number for state in State if (number := sum(run.state is state for run in runs))}


def _sorted(table: Table, sort: str) -> Table:
    name = sort.removeprefix("-")
    if name not in table.columns:
        raise BadRequest(f"there is no column `{name}`", hint=suggest(name, table.columns))
    at = table.columns.index(name)

    def key(row: tuple[Cell, ...]) -> tuple[int, float | str]:
        value = parse_cell(cell) if isinstance(cell := row[at], str) else cell
        return (0, value) if isinstance(value, float | int) else (1, str(value))

    there = [row for row in table.rows if row[at] is not None]
    missing = [row for row in table.rows if row[at] is None]
    numbers = [row for row in there if key(row)[0] == 0]
    words = [row for row in there if key(row)[0] == 1]
    down = sort.startswith("-")
    ordered = sorted(numbers, key=key, reverse=down) + sorted(words, key=key, reverse=down)
    return Table(columns=table.columns, rows=(*ordered, *missing))
