"""An experiment, and the grid of parameter sets that it stands for."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import overload

from launchbay.core.job import DEFAULT_OUTPUTS, Command, Resources

RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


class Span(Sequence[str]):
    """Whole numbers as text, `start` to `stop` inclusive, without holding them.

    >>> list(Span(0, 2))
    ['0', '1', '2']
    """

    def __init__(self, start: int, stop: int) -> None:
        self._numbers = range(start, stop + 1) if start <= stop else range(start, stop - 1, -1)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return tuple(map(str, self._numbers[index]))
        return str(self._numbers[index])

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[str]:
        return map(str, self._numbers)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and value in map(str, self._numbers)

    def __repr__(self) -> str:
        return f"Span({self._numbers.start}..{self._numbers[-1]})"


def parse_value(text: str) -> Sequence[str]:
    """The values that one written value stands for: itself, or a range.

    >>> list(parse_value("0..2")), parse_value("1e-5")
    (['0', '1', '2'], ('1e-5',))
    """
    match = RANGE.fullmatch(text)
    return Span(int(match[1]), int(match[2])) if match else (text,)


def parse_values(text: str) -> Sequence[str]:
    r"""The values of a typed `KEY=VALUES`; `\,` is a comma inside a value.

    >>> parse_values(r"0.1,0.01"), parse_values(r"a\,b"), parse_values("")
    (('0.1', '0.01'), ('a,b',), ('',))
    """
    items = [parse_value(item.replace(r"\,", ",")) for item in re.split(r"(?<!\\),", text)]
    if len(items) == 1:
        return items[0]
    return tuple(value for item in items for value in item)


@dataclass(frozen=True)
class Grid(Sequence[Mapping[str, str]]):
    """The product of its axes, the last one varying fastest; holds no more than the axes.

    >>> [dict(point) for point in Grid({"a": ["1", "2"], "b": ["3"]})]
    [{'a': '1', 'b': '3'}, {'a': '2', 'b': '3'}]
    """

    axes: Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        return prod(map(len, self.axes.values()))

    @overload
    def __getitem__(self, index: int) -> Mapping[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, str]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, str] | Sequence[Mapping[str, str]]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        point = {}
        for key in reversed(list(self.axes)):
            index, digit = divmod(index, len(self.axes[key]))
            point[key] = self.axes[key][digit]
        return {key: point[key] for key in self.axes}

    def __iter__(self) -> Iterator[Mapping[str, str]]:
        return _product(list(self.axes.items()), {})


def _product(
    axes: Sequence[tuple[str, Sequence[str]]], chosen: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    if not axes:
        yield chosen
        return
    (key, values), *rest = axes
    for value in values:
        yield from _product(rest, {**chosen, key: value})


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which points of a grid are wanted, and in which order."""

    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    limit: int | None = None
    shuffle: int | None = None
    """A seed; the same seed gives the same order."""
    repeat: int | None = None

    def __call__(self, grid: Grid) -> Iterator[Mapping[str, str]]:
        """The wanted points, lazily; a shuffled order holds one number a point."""
        if self.repeat is not None:
            grid = Grid({**grid.axes, "repeat": Span(0, self.repeat - 1)})
        points: Iterator[Mapping[str, str]] = iter(grid)
        if self.shuffle is not None:
            order = list(range(len(grid)))
            # The order of a sweep is no secret.
            random.Random(self.shuffle).shuffle(order)  # noqa: S311
            points = map(grid.__getitem__, order)
        if self.only:
            points = (point for point in points if self._matches(point))
        return islice(points, self.limit)

    def _matches(self, point: Mapping[str, str]) -> bool:
        return all(point.get(key) in values for key, values in self.only.items())


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What the user wrote: a command, parameters to sweep, needs."""

    name: str
    project: str
    command: Command
    """As written, placeholders and all."""
    grid: Grid = field(default_factory=lambda: Grid({}))
    append: str = ""
    """How a key that no placeholder uses is appended: `--` as `--key value`, `=` as `key=value`."""
    target: str | None = None
    resources: Resources = field(default_factory=Resources)
    parallel: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    setup: str = ""
    outputs: tuple[str, ...] = DEFAULT_OUTPUTS
    metrics: Mapping[str, str] = field(default_factory=dict)
    code: tuple[tuple[str, str], ...] = ()
    """Paths outside the project that travel with it, and where they land."""
    subfolder: str = ""
    always: bool = False
    """Whether it runs each time it is asked for, whatever was done before."""
