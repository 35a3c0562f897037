"""Grids: lazy, in order, as typed."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.core.sweep import Choice, Grid, Span, parse_values


def points(grid: Grid, **choice: object) -> list[dict[str, str]]:
    return [dict(point) for point in Choice(**choice)(grid)]  # type: ignore[arg-type]


def test_product_varies_the_last_key_fastest() -> None:
    """Two lists of two make four points in reading order."""
    grid = Grid({"a": ["1", "2"], "b": ["3", "4"]})

    assert points(grid) == [
        {"a": "1", "b": "3"},
        {"a": "1", "b": "4"},
        {"a": "2", "b": "3"},
        {"a": "2", "b": "4"},
    ]


def test_grid_without_axes_is_one_point() -> None:
    """A command without parameters runs once."""
    assert points(Grid({})) == [{}]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.1,0.01", ["0.1", "0.01"]),
        ("0..2", ["0", "1", "2"]),
        ("2..0", ["2", "1", "0"]),
        ("-1..1", ["-1", "0", "1"]),
        ("0..2,7", ["0", "1", "2", "7"]),
        (r"a\,b,c", ["a,b", "c"]),
        ("", [""]),
        ("../data", ["../data"]),
        ("0.000000008192", ["0.000000008192"]),
        ("1.50", ["1.50"]),
        ("010", ["010"]),
        ("true", ["true"]),
    ],
)
def test_typed_values(text: str, values: list[str]) -> None:
    """Lists and ranges expand; everything else stays as typed."""
    assert list(parse_values(text)) == values


def test_a_billion_points_cost_nothing() -> None:
    """A grid holds its axes, not its points."""
    grid = Grid({"a": Span(1, 1000), "b": Span(1, 1000), "c": Span(1, 1000)})

    assert len(grid) == 10**9
    assert grid[999_999_999] == {"a": "1000", "b": "1000", "c": "1000"}
    assert list(islice(grid, 2))[1] == {"a": "1", "b": "1", "c": "2"}


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.text(), min_size=1, max_size=4)))
def test_an_index_finds_the_point_that_counting_finds(axes: dict[str, list[str]]) -> None:
    """Access by index and iteration agree."""
    grid = Grid(axes)

    assert [grid[index] for index in range(len(grid))] == list(grid)


def test_only_keeps_matching_points() -> None:
    """A filter keeps the points with one of its values."""
    grid = Grid({"a": ["1", "2", "3"], "b": ["x", "y"]})

    assert points(grid, only={"a": ["1", "3"], "b": ["y"]}) == [
        {"a": "1", "b": "y"},
        {"a": "3", "b": "y"},
    ]


def test_repeat_and_limit() -> None:
    """Each point comes as often as asked, told apart by `repeat`, and the limit counts all."""
    assert points(Grid({"a": ["1", "2"]}), repeat=2, limit=3) == [
        {"a": "1", "repeat": "0"},
        {"a": "1", "repeat": "1"},
        {"a": "2", "repeat": "0"},
    ]


def test_shuffle_is_seeded() -> None:
    """The same seed gives the same order, another gives another, and nothing is lost."""
    grid = Grid({"a": Span(1, 20)})
    first, again, other = (points(grid, shuffle=seed) for seed in (1, 1, 2))

    assert first == again != other
    assert sorted(map(str, first)) == sorted(map(str, points(grid)))
