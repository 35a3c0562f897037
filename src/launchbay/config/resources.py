"""Written resources: one word as key of a file, flag and Python keyword, and what it means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from launchbay.core.quantity import parse_memory, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NUMBER = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")
ZERO = re.compile(r"0+(\.0*)?\s*[A-Za-z]*")
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
    raise ValueError(f"`{text}` is no number of processors; write `4`, or a fraction such as `0.5`")


def parse_count(text: str) -> int:
    """A whole number of at least 1.

    Raises:
        ValueError: when it is not.
    """
    if WHOLE.fullmatch(text) and int(text) > 0:
        return int(text)
    raise ValueError(f"`{text}` is no whole number of at least 1; write `1` or more")


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


def parse_disk(text: str) -> int:
    """MiB of scratch space; 0 asks for none.

    Raises:
        ValueError: when it is no quantity.
    """
    if ZERO.fullmatch(text):
        return 0
    try:
        return parse_memory(text)
    except ValueError as err:
        fix = "write `100` for GB, `512M`, or `0` for none"
        raise ValueError(f"`{text}` is no amount of disk space; {fix}") from err


def parse_text(text: str) -> str:
    """What has no form of its own.

    Raises:
        ValueError: when there is nothing.
    """
    if not text.strip():
        raise ValueError("an empty value; write one, or take the key out")
    return text


PARSERS: Mapping[str, Callable[[str], Any]] = {
    "gpus": parse_gpus,
    "gpu_type": parse_gpu_types,
    "cpus": parse_cpus,
    "memory": parse_memory,
    "disk": parse_disk,
    "time": parse_time,
    "nodes": parse_count,
    "parallel": parse_count,
    "gpu_blacklist": parse_gpu_types,
    "hostname_whitelist": parse_gpu_types,
    "hostname_blacklist": parse_gpu_types,
    "image": parse_text,
    "special_gpu": parse_text,
}
"""How the text of each resource is read."""

FIELDS: Mapping[str, str] = {
    "gpus": "gpus",
    "gpu_type": "gpu_types",
    "cpus": "cpus",
    "memory": "memory_mib",
    "disk": "disk_mib",
    "time": "time_limit",
    "nodes": "nodes",
    "gpu_blacklist": "gpu_types_denied",
    "hostname_whitelist": "hosts",
    "hostname_blacklist": "hosts_denied",
    "extra": "extra",
}
"""The field of `Resources` that each resource fills; `parallel` belongs to the experiment."""

FLAGS = ("gpus", "gpu_type", "cpus", "memory", "disk", "time", "nodes", "image", "parallel")
"""The resources that are flags and Python keywords."""

OLD_NAMES: Mapping[str, str] = {
    "gpu_count": "gpus",
    "cpu_count": "cpus",
    "ephemeral_storage": "disk",
    "ephermal_storage": "disk",
    "gpu_whitelist": "gpu_type",
    "gpu_blacklist": "gpu_blacklist",
    "hostname_whitelist": "hostname_whitelist",
    "hostname_blacklist": "hostname_blacklist",
    "special_gpu": "special_gpu",
}
"""Parameters that set a resource, by the names that they had in the first tool."""

IN_MODELS = ("memory", "image")
"""Parameters that set a resource too, but only in files with `model:`."""

OPPOSITES = (("gpu_type", "gpu_blacklist"), ("hostname_whitelist", "hostname_blacklist"))
"""What is allowed, and what is denied: only one of the two can be meant."""


def parse_resource(key: str, text: str) -> Any:  # noqa: ANN401
    """The value of a written resource, of the type that its field has.

    Raises:
        ValueError: when the text is none.
    """
    try:
        return PARSERS[key](text)
    except OverflowError as err:
        raise ValueError(f"`{text}` is too large; write less") from err
