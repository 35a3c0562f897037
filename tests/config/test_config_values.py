"""The values of a parameter as a file writes them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launchbay.config.values import Steps, parse_values

if TYPE_CHECKING:
    from launchbay.config.files import Value

DECIMALS = st.decimals(-100, 100, allow_nan=False, places=3)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("0.1", ["0.1"]),
        ("1e-5", ["1e-5"]),
        ("", [""]),
        ("0..3", ["0", "1", "2", "3"]),
        ("2..0", ["2", "1", "0"]),
        (["0.1", "true", ""], ["0.1", "true", ""]),
        (["0..2"], ["0", "1", "2"]),
        (["0..1", "7"], ["0", "1", "7"]),
        ({"range": ["0", "1", "0.25"]}, ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        ({"range": ["0.1", "0.5", "0.1"]}, ["0.1", "0.2", "0.3", "0.4", "0.5"]),
        ({"range": ["0", "10", "5"]}, ["0", "5", "10"]),
        ({"range": ["0", "1", "0.3"]}, ["0.0", "0.3", "0.6", "0.9"]),
        ({"range": ["0", "0.25", "0.1"]}, ["0.0", "0.1", "0.2"]),
        ({"range": ["1", "0", "-0.5"]}, ["1.0", "0.5", "0.0"]),
        ({"range": ["1e-4", "3e-4", "1e-4"]}, ["0.0001", "0.0002", "0.0003"]),
        ({"range": ["1e3", "3e3", "1e3"]}, ["1000", "2000", "3000"]),
        ({"range": ["1", "3"]}, ["1", "2", "3"]),
        ({"range": ["2", "2", "-1"]}, ["2"]),
    ],
)
def test_values(written: Value, values: list[str]) -> None:
    """One value, a list, `0..4` and a range with steps are lists of text; both ends count."""
    assert list(parse_values(written)) == values


RANGE = "`range` takes two or three numbers: `{range: [start, stop, step]}`"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([], "an empty list of values"),
        (None, "no value; write `''` for an empty one"),
        (["1", None], "a value is missing in the list; write `''` for an empty one"),
        (["1", ["2"]], "a list inside a list of values"),
        ([["2"]], "a list inside a list of values"),
        (["1", {"a": "2"}], "groups of parameters are not supported yet in this version"),
        ({"small": {"lr": "1"}}, "groups of parameters are not supported yet in this version"),
        (
            {"linspace": ["0", "1", "3"]},
            "groups of parameters are not supported yet in this version",
        ),
        (
            {"range": ["0", "1"], "x": "1"},
            "groups of parameters are not supported yet in this version",
        ),
        ({"range": "0..4"}, RANGE),
        ({"range": ["0"]}, RANGE),
        ({"range": ["0", "1", "2", "3"]}, RANGE),
        ({"range": ["0", "x"]}, RANGE),
        ({"range": ["0", "nan"]}, RANGE),
        ({"range": ["0", "1e999999999"]}, RANGE),
        ({"range": ["0", None]}, RANGE),
        ({"range": ["0", "1", "0"]}, "steps of `0` do not lead from `0` to `1`"),
        ({"range": ["1", "0"]}, "steps of `1` do not lead from `1` to `0`"),
    ],
)
def test_no_values(written: Value, message: str) -> None:
    """What stands for no values is refused with the reason."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_values(written)

    assert str(caught.value) == message


@settings(deadline=None, max_examples=60)
@given(start=DECIMALS, step=DECIMALS.filter(bool), count=st.integers(0, 50))
def test_steps_do_not_drift(start: Decimal, step: Decimal, count: int) -> None:
    """Every step is exact, however many there are, and the last one is the end."""
    steps = Steps(start, start + count * step, step)

    assert [Decimal(text) for text in steps] == [start + at * step for at in range(count + 1)]


def test_steps_are_lazy() -> None:
    """Many steps cost no memory."""
    steps = Steps(Decimal(0), Decimal("1e12"), Decimal("0.001"))

    assert (len(steps), steps[123_456], steps[-1]) == (10**15 + 1, "123.456", "1000000000000.000")
    assert steps[:2] == ("0.000", "0.001")
