"""`launchbay.run`: all that a file may say about parameters, from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import launchbay
from launchbay.core.errors import BadRequest

if TYPE_CHECKING:
    from tests.conftest import Bay


@pytest.fixture
def call(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `true` over a grid, and returns what each run was given."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "PATH"):
        monkeypatch.setenv(name, bay.environment[name])

    def run(**options: Any) -> list[dict[str, str]]:
        runs = launchbay.run(["true"], folder=bay.project, **options)
        return [dict(one.params) for one in runs]

    return run


def test_grid_over_a_base(call: Any) -> None:
    """The same key of the grid goes over the base, which stays as it is."""
    base = {"a": 1, "b": 2}

    assert call(base=base, params={"b": [3, 4]}) == [{"a": "1", "b": "3"}, {"a": "1", "b": "4"}]
    assert base == {"a": 1, "b": 2}


def test_hook_that_answers_none_leaves_a_point_out(call: Any) -> None:
    """Exactly that run is missing; what it returns otherwise is run."""

    def each(point: dict[str, str]) -> dict[str, Any] | None:
        return None if point["a"] == "2" else {**point, "twice": 2 * int(point["a"])}

    assert call(params={"a": range(1, 4)}, each=each) == [
        {"a": "1", "twice": "2"},
        {"a": "3", "twice": "6"},
    ]


def test_union_groups_and_nested_keys(call: Any) -> None:
    """A list of mappings, a mapping of mappings, and one inside another."""
    params = [
        {"train": {"paper": {"_lr": 1e-3}, "scale": {"_lr": 0.1}}},
        {"m": {"lr": [1, 2]}, "x": [7, 8], "zip": ["m.lr", "x"]},
    ]

    assert call(params=params) == [
        {"train": "paper", "lr": "0.001"},
        {"train": "scale", "lr": "0.1"},
        {"m.lr": "1", "x": "7"},
        {"m.lr": "2", "x": "8"},
    ]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"m": 1, "m.lr": 2}, "`m` is a value and also holds `m.lr`"),
        ({"a": []}, "an empty list of values"),
        ({"a b": 1}, "no name of a parameter"),
        ({"g": {"x": {"a": 1}, "y": {"b": 1}}}, "lacks `a`"),
    ],
)
def test_what_cannot_be(call: Any, params: dict[str, Any], told: str) -> None:
    """One line that says what is wrong; nothing is run."""
    with pytest.raises(BadRequest, match=told):
        call(params=params)
