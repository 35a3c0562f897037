"""The values of a parameter as a file writes them."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launchbay.config.values import Steps, count_of, is_rule, parse_values, split_hint
from launchbay.core.sweep import Span

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
        ({"linspace": ["0", "1", "5"]}, ["0", "0.25", "0.5", "0.75", "1"]),
        ({"linspace": ["1", "0", "3"]}, ["1", "0.5", "0"]),
        ({"linspace": ["3", "9", "1"]}, ["3"]),
        ({"linspace": ["0", "0.1", "4"]}, ["0", "0.03333333333", "0.06666666667", "0.1"]),
        ({"linspace": ["1e-7", "3e-7", "3"]}, ["1e-7", "2e-7", "3e-7"]),
        ({"logspace": ["-5", "-1", "5"]}, ["1e-5", "0.0001", "0.001", "0.01", "0.1"]),
        ({"logspace": ["0", "12", "2"]}, ["1", "1e12"]),
        ({"logspace": ["-0.5", "0.5", "3"]}, ["0.316227766", "1", "3.16227766"]),
        ([{"linspace": ["0", "1", "2"]}, "x", {"range": ["5", "6"]}], ["0", "1", "x", "5", "6"]),
    ],
)
def test_values(written: Value, values: list[str]) -> None:
    """One value, a list, `0..4` and numbers by a rule are lists of text; both ends count."""
    assert list(parse_values(written)) == values


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([], "an empty list of values; write at least one, or take the key out"),
        (None, "no value; write one, or `''` for an empty one"),
        (["1", None], "a value is missing in the list; write it, or `''` for an empty one"),
        (["1", ["2"]], "a list inside a list of values; write one flat list"),
        ([["2"]], "a list inside a list of values; write one flat list"),
        (["1", {"a": "2"}], "`a` makes no numbers; there are: `linspace`, `logspace`, `range`"),
        (
            {"small": {"lr": "1"}},
            "`small` makes no numbers; there are: `linspace`, `logspace`, `range`",
        ),
        ({"rnge": ["0", "1"]}, "`rnge` makes no numbers; did you mean `range`?"),
        (
            {"linspace": ["0", "1"]},
            "`linspace` takes two numbers and a count; write `{linspace: [start, stop, 5]}`",
        ),
        (
            {"linspace": ["0", "1", "2.5"]},
            "`linspace` takes two numbers and a count; write `{linspace: [start, stop, 5]}`",
        ),
        (
            {"linspace": ["0", "1", "0"]},
            "`linspace` of no numbers; write how many, the third number, as 1 or more",
        ),
        (
            {"linspace": ["a", "1", "2"]},
            "`linspace` takes two numbers and a count; write `{linspace: [start, stop, 5]}`",
        ),
        (
            {"linspace": "0..4"},
            "`linspace` takes two numbers and a count; write `{linspace: [start, stop, 5]}`",
        ),
        (
            {"logspace": ["1e-5", "1e-1", "5"]},
            "`logspace` takes exponents; write `[-5, -1, 5]` for five from 1e-5 to 1e-1",
        ),
        ({"logspace": ["0", "301", "2"]}, "`logspace` takes exponents; write none beyond 300"),
        (
            {"logspace": ["0", "1"]},
            "`logspace` takes two numbers and a count; write `{logspace: [start, stop, 5]}`",
        ),
        (["0..9999999", "1"], "a list of more than 1,000,000 values; write the range alone"),
        (
            ["0..99999999999999999999", "1"],
            "a list of more than 1,000,000 values; write the range alone",
        ),
        ({"range": ["0", "1e30"]}, "more numbers than can be counted; take larger steps"),
        (
            {"range": ["0", "1"], "x": "1"},
            "a mapping among values; name a group by a key of its own",
        ),
        (
            {"range": "0..4"},
            "`range` takes two or three numbers; write `{range: [start, stop, step]}`",
        ),
        (
            {"range": ["0"]},
            "`range` takes two or three numbers; write `{range: [start, stop, step]}`",
        ),
        (
            {"range": ["0", "1", "2", "3"]},
            "`range` takes two or three numbers; write `{range: [start, stop, step]}`",
        ),
        (
            {"range": ["0", "x"]},
            "`range` takes two or three numbers; write `{range: [start, stop, step]}`",
        ),
        (
            {"range": ["0", "nan"]},
            "`range` takes two or three numbers; write `{range: [start, stop, step]}`",
        ),
        (
            {"range": ["0", "1e999999999"]},
            "`range` takes two or three numbers; write `{range: [start, stop, step]}`",
        ),
        (
            {"range": ["0", None]},
            "`range` takes two or three numbers; write `{range: [start, stop, step]}`",
        ),
        (
            {"range": ["0", "1", "0"]},
            "steps of `0` do not lead from `0` to `1`; write `{range: [0, 1, 1]}`",
        ),
        (
            {"range": ["1", "0"]},
            "steps of `1` do not lead from `1` to `0`; write `{range: [1, 0, -1]}`",
        ),
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


def test_spaced_numbers_are_lazy() -> None:
    """Many numbers by a rule cost no memory."""
    numbers = parse_values({"linspace": ["0", "1", "999999999"]})

    assert (len(numbers), numbers[0], numbers[-1], numbers[1:2]) == (
        999_999_999,
        "0",
        "1",
        ("1.000000002e-9",),
    )
    with pytest.raises(IndexError):
        numbers[999_999_999]


@pytest.mark.parametrize(
    ("value", "found"),
    [("0.001", True), ("999999999.500", True), ("0.5", False), ("-1.000", False), ("x", False)],
)
def test_what_steps_hold(value: str, *, found: bool) -> None:
    """Whether a text is among many steps is known without making them."""
    steps = Steps(Decimal(0), Decimal("1e12"), Decimal("0.001"))

    assert (value in steps) == found


@settings(deadline=None, max_examples=60)
@given(start=DECIMALS, step=DECIMALS.filter(bool), count=st.integers(0, 50))
def test_steps_hold_their_own(start: Decimal, step: Decimal, count: int) -> None:
    """Steps hold exactly the texts that they are made of."""
    steps = Steps(start, start + count * step, step)

    assert all(text in steps for text in steps)
    assert str(start - step) not in steps


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ({"range": ["0", "1"]}, True),
        ({"range": "x"}, True),
        ({"linspce": ["0", "1", "2"]}, True),
        ({"arange": ["0", "1"]}, True),
        ({"angle": ["0", "1"]}, False),
        ({"rate": ["0", "1"]}, False),
        ({"ranges": "x"}, False),
        ({"range": ["0", "1"], "x": "1"}, False),
        (["0"], False),
        ("range", False),
        ({}, False),
    ],
)
def test_rules(written: Value, *, rule: bool) -> None:
    """A mapping of a rule's name, or of one that is very near, makes numbers; others are groups."""
    assert is_rule(written) == rule


@pytest.mark.parametrize(
    ("message", "parts"),
    [("a; b", ("a", "b")), ("a", ("a", None)), ("a; b; c", ("a", "b; c"))],
)
def test_hints(message: str, parts: tuple[str, str | None]) -> None:
    """The first half of a message says what is wrong, the rest what to do."""
    assert split_hint(ValueError(message)) == parts


def test_counting() -> None:
    """What is too long to be counted is as long as one can count."""
    assert (count_of(("a", "b")), count_of(Span(0, 10**30))) == (2, sys.maxsize)
