"""An experiment, and the points of parameters that it stands for; nothing is held but the axes."""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from math import prod
from typing import TypeAlias, overload

from launchbay.core.errors import BadRequest
from launchbay.core.job import DEFAULT_OUTPUTS, Command, Recipe
from launchbay.core.naming import slug_value

RANGE = re.compile(r"(-?[0-9]+)\.\.(-?[0-9]+)")
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,99}")
MOST_LISTED = 1_000_000
REPEAT = "repeat"

Point: TypeAlias = Mapping[str, str]
"""A value for each parameter."""


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
        return (
            isinstance(value, str) and bool(WHOLE.fullmatch(value)) and int(value) in self._numbers
        )

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
    if sum(map(len, items)) > MOST_LISTED:
        hint = "a range alone may have any length"
        raise BadRequest(f"more than {MOST_LISTED:,} values in one list", hint=hint)
    return tuple(value for item in items for value in item)


@dataclass(frozen=True)
class Axis:
    """Keys that change together, and the values that each takes, one after the other.

    >>> [dict(point) for point in Axis(("x", "y"), (("1", "2"), ("7", "8")))]
    [{'x': '1', 'y': '7'}, {'x': '2', 'y': '8'}]
    """

    keys: tuple[str, ...]
    columns: tuple[Sequence[str], ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: int) -> Point:
        return {key: column[index] for key, column in zip(self.keys, self.columns, strict=True)}

    def __iter__(self) -> Iterator[Point]:
        if len(self.keys) == 1:
            (key,) = self.keys
            return ({key: value} for value in self.columns[0])
        rows = zip(*self.columns, strict=True)
        return (dict(zip(self.keys, row, strict=True)) for row in rows)


@dataclass(frozen=True)
class Grid(Sequence[Point]):
    """The product of its axes, the last one varying fastest; holds no more than the axes.

    >>> [dict(point) for point in Grid.of({"a": ["1", "2"], "b": ["3"]})]
    [{'a': '1', 'b': '3'}, {'a': '2', 'b': '3'}]
    """

    axes: tuple[Axis, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Sequence[str]]) -> Grid:
        """The grid of keys that each change alone."""
        return cls(tuple(Axis((key,), (column,)) for key, column in values.items()))

    @property
    def keys(self) -> tuple[str, ...]:
        """Every parameter, in order."""
        return tuple(key for axis in self.axes for key in axis.keys)

    def values_of(self, key: str) -> Sequence[str]:
        """What a parameter may be, perhaps more than once; nothing if it is none."""
        for axis in self.axes:
            if key in axis.keys:
                return axis.columns[axis.keys.index(key)]
        return ()

    def __len__(self) -> int:
        return prod(map(len, self.axes))

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | Sequence[Point]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        point: dict[str, str] = {}
        for axis in reversed(self.axes):
            index, digit = divmod(index, len(axis))
            point |= axis[digit]
        return {key: point[key] for key in self.keys}

    def __iter__(self) -> Iterator[Point]:
        return _product(self.axes, {})


def _product(axes: Sequence[Axis], chosen: Point) -> Iterator[Point]:
    if not axes:
        yield chosen
        return
    first, *rest = axes
    if not rest:
        yield from ({**chosen, **part} for part in first)
        return
    for part in first:
        yield from _product(rest, {**chosen, **part})


def tells_apart(axis: Axis, hidden: Collection[str]) -> bool:
    """Whether the points of an axis differ in what names show of them."""
    shown = [at for at, key in enumerate(axis.keys) if key not in hidden]
    # Ranges are made of numbers that differ.
    if shown and not isinstance(axis.columns[shown[0]], tuple | list):
        return True
    rows = set(zip(*axis.columns, strict=True))
    return len({tuple(slug_value(row[at]) for at in shown) for row in rows}) == len(rows)


Wanted: TypeAlias = Mapping[str, Collection[str]]
"""The values that each of some parameters may have."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One model on one dataset: what it runs, and the grid that it is run over."""

    model: str = ""
    dataset: str = ""
    written: str = ""
    """Command and image as the user wrote them, by which a run is known again."""
    command: Command
    """With its placeholders, for the target that it is meant for."""
    grid: Grid = field(default_factory=Grid)
    hidden: frozenset[str] = frozenset()
    """Keys that are left out of names."""
    unlisted: frozenset[str] = frozenset()
    """Keys that `<params>` leaves out: they name a group or the branch."""
    ambiguous: bool = False
    """Whether points that differ have the same shown values."""
    kept: Wanted = field(default_factory=dict)
    """A point that has one of these keys is wanted only with one of these values."""
    excluded: tuple[Wanted, ...] = ()
    """A point that has all values of one of these is not wanted."""
    recipe: Callable[[Point], Recipe] = field(default=lambda _: Recipe())
    """What a run is given besides its command."""
    varied: bool = False
    """Whether that depends on the point."""

    def __len__(self) -> int:
        return len(self.grid)

    def __getitem__(self, index: int) -> Point:
        return {**self._words, **self.grid[index]}

    def __iter__(self) -> Iterator[Point]:
        return _product(self.grid.axes, self._words)

    def values_of(self, key: str) -> Sequence[str]:
        """What a parameter, or `model` or `dataset`, may be."""
        if key in self.grid.keys or key not in self._words:
            return self.grid.values_of(key)
        return (self._words[key],)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every parameter of a point, in order."""
        return tuple(dict.fromkeys([*self._words, *self.grid.keys]))

    def wants(self, point: Point) -> bool:
        """Whether the point is none of those left out."""
        if any(key in point and point[key] not in values for key, values in self.kept.items()):
            return False
        return not any(
            all(point.get(key) in values for key, values in one.items()) for one in self.excluded
        )

    @property
    def _words(self) -> Point:
        # A parameter of that name is the user's own, and comes over these.
        words = {"model": self.model, "dataset": self.dataset}
        return {key: word for key, word in words.items() if word}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which points of an experiment are wanted, and in which order."""

    only: Wanted = field(default_factory=dict)
    limit: int | None = None
    shuffle: int | None = None
    """A seed; the same seed gives the same order."""
    repeat: int | None = None
    hook: Callable[[Point], Point | None] | None = None
    """Given each point, returns the one to run, or None for none."""

    def __call__(self, branches: Sequence[Branch]) -> Iterator[tuple[Branch, Point]]:
        """The wanted points, lazily; a shuffled order holds one number a point."""
        if self.repeat is not None:
            branches = [_repeated(branch, self.repeat) for branch in branches]
        points: Iterator[tuple[Branch, Point]]
        points = ((branch, point) for branch in branches for point in branch)
        if self.shuffle is not None:
            points = _shuffled(branches, self.shuffle)
        return islice(self._wanted(points), self.limit)

    def _wanted(self, points: Iterator[tuple[Branch, Point]]) -> Iterator[tuple[Branch, Point]]:
        only = self.only
        for branch, point in points:
            if only and not self._matches(point):
                continue
            if (branch.kept or branch.excluded) and not branch.wants(point):
                continue
            hooked = self.hook(point) if self.hook else point
            if hooked is not None:
                yield branch, hooked

    def _matches(self, point: Point) -> bool:
        return all(point.get(key) in values for key, values in self.only.items())


def _repeated(branch: Branch, times: int) -> Branch:
    axis = Axis((REPEAT,), (Span(0, times - 1),))
    return replace(branch, grid=Grid((*branch.grid.axes, axis)))


def _shuffled(branches: Sequence[Branch], seed: int) -> Iterator[tuple[Branch, Point]]:
    ends = list(accumulate(map(len, branches)))
    order = list(range(ends[-1] if ends else 0))
    # The order of a sweep is no secret.
    random.Random(seed).shuffle(order)  # noqa: S311
    for number in order:
        at = bisect_right(ends, number)
        yield branches[at], branches[at][number - ends[at] + len(branches[at])]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What the user wrote: commands, parameters to sweep, needs."""

    name: str
    project: str
    prefix: str = ""
    """The first word of the runs' names, where one is wanted."""
    branches: tuple[Branch, ...]
    append: str = ""
    """How a key that no placeholder uses is appended: `--` as `--key value`, `=` as `key=value`."""
    target: str | None = None
    parallel: int | None = None
    outputs: tuple[str, ...] = DEFAULT_OUTPUTS
    metrics: Mapping[str, str] = field(default_factory=dict)
    code: tuple[tuple[str, str], ...] = ()
    """Paths outside the project that travel with it, and where they land."""
    laid: tuple[str, ...] = ()
    """Paths of the project that travel although they are ignored."""
    fetched: tuple[str, ...] = ()
    """Paths of the project that do not travel, for the commands fetch them."""
    in_image: bool = False
    """Whether the code is in the image already."""
    subfolder: str = ""
    always: bool = False
    """Whether it runs each time it is asked for, whatever was done before."""
    warnings: tuple[str, ...] = ()
    """What a person should know before it runs."""
    notes: tuple[str, ...] = ()
    """What a person may want to know of how it will."""
