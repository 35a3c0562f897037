"""Written resources: one word as key of a file, flag and Python keyword, and what it means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from launchbay.core.quantity import parse_memory, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NUMBER = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")
WHOLE = re.compile(r"[0-9]{1,9}")


def parse_gpus(text: str) -> float:
    """A number of GPUs: whole, or a fraction below 1.

    >>> parse_gpus("2"), parse_gpus("0.5")
    (2.0, 0.5)

    Raises:
        ValueError: when it is neither.
    """
    if NUMBER.fullmatch(text):
        gpus = float(text)
        if gpus < 1 or gpus.is_integer():
            return gpus
    raise ValueError(f"`{text}` is no number of GPUs; write 0, 2, or a fraction below 1")


def parse_cpus(text: str) -> float:
    """A number of processors above 0.

    Raises:
        ValueError: when it is not.
    """
    if NUMBER.fullmatch(text) and float(text) > 0:
        return float(text)
    raise ValueError(f"`{text}` is no number of processors above 0")


def parse_count(text: str) -> int:
    """A whole number of at least 1.

    Raises:
        ValueError: when it is not.
    """
    if WHOLE.fullmatch(text) and int(text) > 0:
        return int(text)
    raise ValueError(f"`{text}` is no whole number of at least 1")


def parse_gpu_types(text: str) -> tuple[str, ...]:
    """Names of GPUs, separated by commas.

    >>> parse_gpu_types("a100, h100")
    ('a100', 'h100')

    Raises:
        ValueError: when there is none.
    """
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"`{text}` is no name of a GPU; write `a100` or `a100,h100`")
    return names


PARSERS: Mapping[str, Callable[[str], Any]] = {
    "gpus": parse_gpus,
    "gpu_type": parse_gpu_types,
    "cpus": parse_cpus,
    "memory": parse_memory,
    "time": parse_time,
    "nodes": parse_count,
    "parallel": parse_count,
}
"""How the text of each resource is read."""

FIELDS: Mapping[str, str] = {
    "gpus": "gpus",
    "gpu_type": "gpu_types",
    "cpus": "cpus",
    "memory": "memory_mib",
    "time": "time_limit",
    "nodes": "nodes",
}
"""The field of `Resources` that each resource fills; `parallel` belongs to the experiment."""

TARGET_DEFAULTS = ("gpus", "gpu_type", "cpus", "memory", "time")
"""The resources that a target may have defaults for."""


def parse_resource(key: str, text: str) -> Any:  # noqa: ANN401
    """The value of a written resource, of the type that its field has.

    Raises:
        ValueError: when the text is none.
    """
    try:
        return PARSERS[key](text)
    except OverflowError as err:
        raise ValueError(f"`{text}` is too large") from err
