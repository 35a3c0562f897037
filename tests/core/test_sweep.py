"""Grids: lazy, in order, as typed."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.core.errors import BadRequest
from launchbay.core.job import Script
from launchbay.core.sweep import Axis, Branch, Choice, Grid, Span, parse_values, tells_apart


def branch(grid: Grid, **fields: object) -> Branch:
    return Branch(command=Script("true"), grid=grid, **fields)  # type: ignore[arg-type]


def points(*grids: Grid | Branch, **choice: object) -> list[dict[str, str]]:
    branches = [one if isinstance(one, Branch) else branch(one) for one in grids]
    return [dict(point) for _, point in Choice(**choice)(branches)]  # type: ignore[arg-type]


def test_product_varies_the_last_key_fastest() -> None:
    """Two lists of two make four points in reading order."""
    grid = Grid.of({"a": ["1", "2"], "b": ["3", "4"]})

    assert points(grid) == [
        {"a": "1", "b": "3"},
        {"a": "1", "b": "4"},
        {"a": "2", "b": "3"},
        {"a": "2", "b": "4"},
    ]


def test_grid_without_axes_is_one_point() -> None:
    """A command without parameters runs once."""
    assert points(Grid.of({})) == [{}]


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
    grid = Grid.of({"a": Span(1, 1000), "b": Span(1, 1000), "c": Span(1, 1000)})

    assert len(grid) == 10**9
    assert grid[999_999_999] == {"a": "1000", "b": "1000", "c": "1000"}
    assert list(islice(grid, 2))[1] == {"a": "1", "b": "1", "c": "2"}


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.text(), min_size=1, max_size=4)))
def test_an_index_finds_the_point_that_counting_finds(axes: dict[str, list[str]]) -> None:
    """Access by index and iteration agree."""
    grid = Grid.of(axes)

    assert [grid[index] for index in range(len(grid))] == list(grid)


def test_only_keeps_matching_points() -> None:
    """A filter keeps the points with one of its values."""
    grid = Grid.of({"a": ["1", "2", "3"], "b": ["x", "y"]})

    assert points(grid, only={"a": ["1", "3"], "b": ["y"]}) == [
        {"a": "1", "b": "y"},
        {"a": "3", "b": "y"},
    ]


def test_repeat_and_limit() -> None:
    """Each point comes as often as asked, told apart by `repeat`, and the limit counts all."""
    assert points(Grid.of({"a": ["1", "2"]}), repeat=2, limit=3) == [
        {"a": "1", "repeat": "0"},
        {"a": "1", "repeat": "1"},
        {"a": "2", "repeat": "0"},
    ]


def test_shuffle_is_seeded() -> None:
    """The same seed gives the same order, another gives another, and nothing is lost."""
    grid = Grid.of({"a": Span(1, 20)})
    first, again, other = (points(grid, shuffle=seed) for seed in (1, 1, 2))

    assert first == again != other
    assert sorted(map(str, first)) == sorted(map(str, points(grid)))


def test_keys_of_one_axis_change_together() -> None:
    """Paired lists make pairs, crossed with everything else."""
    grid = Grid((Axis(("x", "y"), (("1", "2"), ("7", "8"))), Axis(("z",), (Span(0, 1),))))

    assert [tuple(point.values()) for point in grid] == [
        ("1", "7", "0"),
        ("1", "7", "1"),
        ("2", "8", "0"),
        ("2", "8", "1"),
    ]
    assert list(grid) == [grid[index] for index in range(4)]


def test_a_branch_has_its_model_and_dataset_among_its_parameters() -> None:
    """They stand first, unless a parameter has that name itself."""
    named = branch(Grid.of({"a": ["1"]}), model="m", dataset="d")
    shadowed = branch(Grid.of({"model": ["own"]}), model="m")

    assert list(named) == [named[0]] == [{"model": "m", "dataset": "d", "a": "1"}]
    assert list(shadowed) == [{"model": "own"}]
    assert (named.values_of("model"), shadowed.values_of("model")) == (("m",), ["own"])


def test_what_a_branch_leaves_out() -> None:
    """Kept values bind points that have the key; an excluded point must match in all."""
    grid = Grid.of({"a": ["1", "2"], "b": ["x", "y"]})
    one = branch(grid, kept={"a": ["1"], "other": ["0"]}, excluded=({"a": ["1"], "b": ["y"]},))

    assert points(one) == [{"a": "1", "b": "x"}]


def test_shuffle_mixes_branches_and_loses_none() -> None:
    """The order is over all branches, and every point comes once."""
    grids = [Grid.of({"a": Span(0, 9)}), Grid.of({"b": Span(0, 9)})]
    shuffled = points(*grids, shuffle=3)

    assert sorted(map(str, shuffled)) == sorted(map(str, points(*grids)))
    assert len({tuple(point) for point in shuffled[:10]}) == 2


def test_a_hook_changes_points_and_drops_those_it_answers_none_for() -> None:
    """One answer of None removes exactly one run."""
    grid = Grid.of({"a": Span(0, 3)})

    def hook(point: dict[str, str]) -> dict[str, str] | None:
        return None if point["a"] == "2" else {**point, "b": "x"}

    assert [point["a"] for point in points(grid, hook=hook)] == ["0", "1", "3"]
    assert points(grid, hook=hook, limit=1) == [{"a": "0", "b": "x"}]


@pytest.mark.parametrize(
    ("axis", "hidden", "apart"),
    [
        (Axis(("opt",), (("Adam", "SGD"),)), (), True),
        (Axis(("opt",), (("Adam", "adam"),)), (), False),
        (Axis(("x",), (("-1", "1"),)), (), True),
        (Axis(("x",), (("1", "1"),)), (), True),
        (Axis(("fn",), (("a", "b"),)), ("fn",), False),
        (Axis(("fn",), (("a",),)), ("fn",), True),
        (Axis(("train", "lr"), (("paper", "scale"), ("1", "2"))), ("lr",), True),
        (Axis(("train", "lr"), (("paper", "paper"), ("1", "2"))), ("lr",), False),
        (Axis(("seed",), (Span(0, 10**9),)), (), True),
    ],
)
def test_whether_names_tell_the_points_of_an_axis_apart(
    axis: Axis, hidden: tuple[str, ...], *, apart: bool
) -> None:
    """Hidden values that vary, and values that look alike in a name, do not."""
    assert tells_apart(axis, hidden) is apart


def test_a_long_range_knows_at_once_what_it_has() -> None:
    """Looking for a value that is not there does not count to the end."""
    span = Span(-3, 10**15)

    assert all(text in span for text in ("-3", "0", "1000000000000000"))
    assert not any(
        text in span for text in ("-4", "01", "-0", "+1", "1.0", "", "x", "1000000000000001")
    )


def test_a_list_with_a_huge_range_is_refused() -> None:
    """It would have to be held; alone it need not be."""
    with pytest.raises(BadRequest):
        parse_values("0..1000000000000,5")
