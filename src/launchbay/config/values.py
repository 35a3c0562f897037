"""The values of a parameter as a file writes them: one, a list, `0..4`, a range with steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, overload

from launchbay.core.sweep import parse_value

if TYPE_CHECKING:
    from launchbay.config.files import Value

# Exponents of three digits are typing errors, and cost memory.
DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?")


class Steps(Sequence[str]):
    """Numbers as text, `start` to `stop` inclusive, without holding them or rounding.

    >>> list(Steps(Decimal("0.1"), Decimal("0.3"), Decimal("0.1")))
    ['0.1', '0.2', '0.3']
    """

    def __init__(self, start: Decimal, stop: Decimal, step: Decimal) -> None:
        exponents = [int(number.as_tuple().exponent) for number in (start, stop, step)]
        self._exponent = min(0, *exponents)
        first, last, by = (self._whole(number) for number in (start, stop, step))
        self._numbers = range(first, last + (1 if by > 0 else -1), by)
        # `stop` with more digits than the others must not add any to what is printed.
        self._shown = max(0, -exponents[0], -exponents[2])

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return tuple(map(self._text, self._numbers[index]))
        return self._text(self._numbers[index])

    def __len__(self) -> int:
        return len(self._numbers)

    def _whole(self, number: Decimal) -> int:
        # A `Decimal` would round beyond 28 digits.
        return int(Fraction(number) * 10**-self._exponent)

    def _text(self, number: int) -> str:
        return f"{Decimal(f'{number}e{self._exponent}'):.{self._shown}f}"


def parse_values(written: Value) -> Sequence[str]:
    """The values that a parameter's entry stands for, each as text.

    >>> list(parse_values(["0.1", "1e-5"])), list(parse_values("0..2"))
    (['0.1', '1e-5'], ['0', '1', '2'])

    Raises:
        ValueError: when it is no entry of a parameter.
    """
    match written:
        case str():
            return parse_value(written)
        case []:
            raise ValueError("an empty list of values")
        case [str(one)]:
            return parse_value(one)
        case list():
            return tuple(value for item in written for value in _parse_item(item))
        case {"range": numbers, **rest} if not rest:
            return parse_steps(numbers)
        case dict():
            raise ValueError("groups of parameters are not supported yet in this version")
        case _:
            raise ValueError("no value; write `''` for an empty one")


def parse_steps(numbers: Value) -> Steps:
    """The numbers of `{range: [start, stop, step]}`, both ends inclusive; the step may be left out.

    Raises:
        ValueError: when they are not two or three numbers that lead from start to stop.
    """
    texts = numbers if isinstance(numbers, list) else []
    given = [Decimal(text) for text in texts if isinstance(text, str) and DECIMAL.fullmatch(text)]
    if len(given) != len(texts) or len(given) not in {2, 3}:
        raise ValueError("`range` takes two or three numbers: `{range: [start, stop, step]}`")
    start, stop, step = given if len(given) > 2 else [*given, Decimal(1)]  # noqa: PLR2004
    if not step or (stop - start) * step < 0:
        raise ValueError(f"steps of `{step}` do not lead from `{start}` to `{stop}`")
    return Steps(start, stop, step)


def _parse_item(item: Value) -> Sequence[str]:
    match item:
        case str():
            return parse_value(item)
        case dict():
            raise ValueError("groups of parameters are not supported yet in this version")
        case list():
            raise ValueError("a list inside a list of values")
        case None:
            raise ValueError("a value is missing in the list; write `''` for an empty one")
