"""The values of one parameter as a file writes them: one, a list, `0..4`, numbers by a rule."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, overload

from launchbay.core.nearest import suggest
from launchbay.core.sweep import parse_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from launchbay.config.files import Value

# Exponents of three digits are typing errors, and cost memory.
DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?")
WHOLE = re.compile(r"[0-9]{1,9}")
EXPONENT = re.compile(r"e([+-]?)0*(?=[0-9])")
MOST_HELD = 1_000_000
"""So many values may be written out in memory; a range alone costs nothing, however long."""
ALIKE = 0.85
"""How near a key comes to a rule before it is taken for one; `angle` is none."""


class Numbers(Sequence[str]):
    """Numbers as text that are made when they are asked for."""

    _count: int

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return tuple(map(self._text, range(*index.indices(self._count))))
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._text(index % self._count)

    def __len__(self) -> int:
        return self._count

    def _text(self, index: int) -> str:
        raise NotImplementedError


class Steps(Numbers):
    """Numbers from `start` to `stop` inclusive, without rounding.

    >>> list(Steps(Decimal("0.1"), Decimal("0.3"), Decimal("0.1")))
    ['0.1', '0.2', '0.3']
    """

    def __init__(self, start: Decimal, stop: Decimal, step: Decimal) -> None:
        exponents = [int(number.as_tuple().exponent) for number in (start, stop, step)]
        self._exponent = min(0, *exponents)
        first, last, by = (self._whole(number) for number in (start, stop, step))
        self._numbers = range(first, last + (1 if by > 0 else -1), by)
        self._count = len(self._numbers)
        # `stop` with more digits than the others must not add any to what is printed.
        self._shown = max(0, -exponents[0], -exponents[2])

    def __contains__(self, value: object) -> bool:
        """Whether it is one of them, digit for digit; none is made for that."""
        if not isinstance(value, str) or not DECIMAL.fullmatch(value):
            return False
        number = Fraction(Decimal(value)) * 10**-self._exponent
        if number.denominator > 1 or int(number) not in self._numbers:
            return False
        return self._text(self._numbers.index(int(number))) == value

    def _whole(self, number: Decimal) -> int:
        # A `Decimal` would round beyond 28 digits.
        return int(Fraction(number) * 10**-self._exponent)

    def _text(self, index: int) -> str:
        number = self._numbers[index]
        return f"{Decimal(f'{number}e{self._exponent}'):.{self._shown}f}"


class Spaced(Numbers):
    """So many numbers from `start` to `stop`, evenly spaced; with a base, their powers.

    >>> list(Spaced(Decimal(0), Decimal(1), 5)), list(Spaced(Decimal(-3), Decimal(-1), 3, base=10))
    (['0', '0.25', '0.5', '0.75', '1'], ['0.001', '0.01', '0.1'])
    """

    def __init__(
        self, start: Decimal, stop: Decimal, count: int, *, base: int | None = None
    ) -> None:
        self._start, self._stop = Fraction(start), Fraction(stop)
        self._count = count
        self._base = base

    def _text(self, index: int) -> str:
        gaps = max(1, self._count - 1)
        number = self._start + (self._stop - self._start) * index / gaps
        value = float(number) if self._base is None else float(self._base) ** float(number)
        # As people write it: 1e-5, not 1e-05.
        return EXPONENT.sub(lambda match: f"e{match[1].strip('+')}", f"{value:.10g}")


def parse_values(written: Value) -> Sequence[str]:
    """The values that a parameter's entry stands for, each as text.

    >>> list(parse_values(["0.1", "1e-5"])), list(parse_values("0..2"))
    (['0.1', '1e-5'], ['0', '1', '2'])

    Raises:
        ValueError: when it is no entry of a parameter.
    """
    match written:
        case []:
            raise ValueError("an empty list of values; write at least one, or take the key out")
        case [one]:
            return _parse_item(one)
        case list():
            return _joined([_parse_item(item) for item in written])
        case None:
            raise ValueError("no value; write one, or `''` for an empty one")
        case _:
            return _parse_item(written)


def count_of(values: Sequence[str]) -> int:
    """How many there are, as far as one can count."""
    try:
        return len(values)
    except OverflowError:
        return sys.maxsize


def split_hint(err: ValueError) -> tuple[str, str | None]:
    """What is wrong, and what to do about it.

    >>> split_hint(ValueError("no value; write one"))
    ('no value', 'write one')
    """
    message, _, hint = str(err).partition("; ")
    return message, hint or None


def is_rule(written: Value) -> bool:
    """Whether a mapping makes numbers by a rule, or was meant to."""
    if not isinstance(written, dict) or len(written) != 1:
        return False
    ((key, value),) = written.items()
    return key in RULES or (isinstance(value, list) and _is_meant(key))


def _is_meant(key: str) -> bool:
    # difflib is slow to load, and such mappings are rare.
    from difflib import get_close_matches  # noqa: PLC0415

    return bool(get_close_matches(key, RULES, cutoff=ALIKE))


def _joined(items: Sequence[Sequence[str]]) -> tuple[str, ...]:
    if sum(map(count_of, items)) > MOST_HELD:
        raise ValueError(f"a list of more than {MOST_HELD:,} values; write the range alone")
    return tuple(value for item in items for value in item)


def _parse_item(item: Value) -> Sequence[str]:
    match item:
        case str():
            return parse_value(item)
        case dict() if len(item) == 1:
            ((key, numbers),) = item.items()
            if key not in RULES:
                raise ValueError(f"`{key}` makes no numbers; {suggest(key, RULES)}")
            return RULES[key](numbers)
        case dict():
            raise ValueError("a mapping among values; name a group by a key of its own")
        case list():
            raise ValueError("a list inside a list of values; write one flat list")
        case None:
            raise ValueError("a value is missing in the list; write it, or `''` for an empty one")


def parse_steps(numbers: Value) -> Steps:
    """The numbers of `{range: [start, stop, step]}`, both ends inclusive; the step may be left out.

    Raises:
        ValueError: when they are not two or three numbers that lead from start to stop.
    """
    given = _decimals(numbers)
    if len(given) not in {2, 3}:
        raise ValueError("`range` takes two or three numbers; write `{range: [start, stop, step]}`")
    start, stop, step = given if len(given) > 2 else [*given, Decimal(1)]  # noqa: PLR2004
    if not step or (stop - start) * step < 0:
        by = abs(step) or Decimal(1)
        by = by if stop > start else -by
        fix = f"write `{{range: [{start}, {stop}, {by}]}}`"
        raise ValueError(f"steps of `{step}` do not lead from `{start}` to `{stop}`; {fix}")
    try:
        return Steps(start, stop, step)
    except OverflowError as err:
        raise ValueError("more numbers than can be counted; take larger steps") from err


def parse_linspace(numbers: Value) -> Spaced:
    """The numbers of `{linspace: [start, stop, count]}`.

    Raises:
        ValueError: when they are not two numbers and a count.
    """
    return _parse_spaced("linspace", numbers)


def parse_logspace(numbers: Value) -> Spaced:
    """The numbers of `{logspace: [start, stop, count]}`: powers of ten, by their exponents.

    Raises:
        ValueError: when they are not two exponents and a count.
    """
    texts = numbers if isinstance(numbers, list) else []
    if any(isinstance(text, str) and "e" in text.lower() for text in texts[:2]):
        raise ValueError(
            "`logspace` takes exponents; write `[-5, -1, 5]` for five from 1e-5 to 1e-1"
        )
    spaced = _parse_spaced("logspace", numbers, base=10)
    if any(abs(number) > 300 for number in _decimals(numbers)[:2]):  # noqa: PLR2004
        raise ValueError("`logspace` takes exponents; write none beyond 300")
    return spaced


RULES: Mapping[str, Callable[[Value], Sequence[str]]] = {
    "range": parse_steps,
    "linspace": parse_linspace,
    "logspace": parse_logspace,
}
"""How numbers are made from a few."""


def _parse_spaced(word: str, numbers: Value, *, base: int | None = None) -> Spaced:
    given = _decimals(numbers)
    count = numbers[-1] if isinstance(numbers, list) and numbers else None
    if len(given) != 3 or not isinstance(count, str) or not WHOLE.fullmatch(count):  # noqa: PLR2004
        fix = f"write `{{{word}: [start, stop, 5]}}`"
        raise ValueError(f"`{word}` takes two numbers and a count; {fix}")
    if int(count) < 1:
        raise ValueError(f"`{word}` of no numbers; write how many, the third number, as 1 or more")
    return Spaced(given[0], given[1], int(count), base=base)


def _decimals(numbers: Value) -> list[Decimal]:
    """The numbers of a list; empty when something else is among them."""
    texts = numbers if isinstance(numbers, list) else []
    given = [Decimal(text) for text in texts if isinstance(text, str) and DECIMAL.fullmatch(text)]
    return given if len(given) == len(texts) else []
