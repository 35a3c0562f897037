"""The table of results, by value."""

from __future__ import annotations

import pytest

from launchbay.core.errors import BadRequest
from launchbay.core.run import Run, State, Status
from launchbay.engine.results import Table, tabulate


def run(suffix: str, params: dict[str, str], state: State, **metrics: float | str) -> Run:
    status = Status(state=state, started_at=10.0, ended_at=12.0, metrics=metrics)
    return Run(
        id=f"r-{suffix}",
        name="r",
        experiment="e",
        project="p",
        identity=suffix,
        target="local",
        place={},
        params=params,
        status=status,
        created_at=0.0,
    )


RUNS = [
    run("a", {"lr": "0.1", "seed": "0", "same": "x"}, State.SUCCEEDED, acc=1.0),
    run("b", {"lr": "0.1", "seed": "1", "same": "x"}, State.SUCCEEDED, acc=3.0),
    run("c", {"lr": "0.01", "seed": "0", "same": "x"}, State.SUCCEEDED, acc=10.0),
    run("d", {"lr": "0.01", "seed": "1", "same": "x"}, State.FAILED),
]


def test_a_row_a_run() -> None:
    """What varies, metrics, state and time; what is missing stays visible."""
    assert tabulate(RUNS, now=20.0) == Table(
        columns=("run", "lr", "seed", "acc", "state", "time"),
        rows=(
            ("a", "0.1", "0", 1.0, "succeeded", 2.0),
            ("b", "0.1", "1", 3.0, "succeeded", 2.0),
            ("c", "0.01", "0", 10.0, "succeeded", 2.0),
            ("d", "0.01", "1", None, "failed", 2.0),
        ),
    )


def test_mean_and_deviation_over_seeds() -> None:
    """Only successes count; how many there are and how they stand is said."""
    table = tabulate(RUNS, now=20.0, over="seed", sort="-acc")

    assert table.columns == ("lr", "acc", "acc ±", "n", "state")
    assert table.rows[0] == ("0.01", 10.0, None, 2, "1 succeeded, 1 failed")
    assert table.rows[1] == ("0.1", 2.0, 2**0.5, 2, "succeeded")


@pytest.mark.parametrize(
    ("sort", "order"),
    [("acc", "abcd"), ("-acc", "cbad"), ("lr", "cdab"), ("-seed", "bdac"), ("state", "dabc")],
)
def test_sorting(sort: str, order: str) -> None:
    """Numbers as numbers, words as words, missing last either way."""
    assert "".join(str(row[0]) for row in tabulate(RUNS, now=0.0, sort=sort).rows) == order


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ({"sort": "-ac"}, "there is no column `ac`", "did you mean `acc`?"),
        ({"over": "sed"}, "no run has a parameter `sed`", "did you mean `seed`?"),
    ],
)
def test_unknown_names(arguments: dict[str, str], message: str, hint: str) -> None:
    """A typo is told with the nearest."""
    with pytest.raises(BadRequest) as caught:
        tabulate(RUNS, now=0.0, **arguments)

    assert (str(caught.value), caught.value.hint) == (message, hint)
