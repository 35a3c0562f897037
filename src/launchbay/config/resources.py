"""Written resources: one word as key of a file, flag and Python keyword, and what it means."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from launchbay.core.quantity import parse_memory, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NUMBER = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")
ZERO = re.compile(r"0+(\.0*)?\s*[A-Za-z]*")
WHOLE = re.compile(r"[0-9]{1,9}")
TRIES = re.compile(r"\s*(.+?)\s*=\s*([0-9]{1,9})\s*(?:,|$)")
TRUTHS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
NODE = "node"
RETRIES_FIX = "write `2`, or by cause `{timeout: 1, exit: 2}`, as a flag `timeout=1,exit=2`"
NOBODYS_FAULT = ("preempted", "node", "lost")
"""Why a run may end that another try can be expected to survive."""


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


def parse_truth(text: str) -> bool:
    """Yes or no.

    >>> parse_truth("true"), parse_truth("no")
    (True, False)

    Raises:
        ValueError: when it is neither.
    """
    if text.lower() in TRUTHS:
        return TRUTHS[text.lower()]
    raise ValueError(f"`{text}` is neither yes nor no; write `true` or `false`")


def parse_pack(text: str) -> str:
    """How many runs share an allocation: a number, or `node` for as many as one holds.

    Raises:
        ValueError: when it is neither.
    """
    if text == NODE:
        return text
    if WHOLE.fullmatch(text) and int(text) > 0:
        return str(int(text))
    raise ValueError(
        f"`{text}` is no number of runs that share an allocation; write `20` or `node`"
    )


def parse_retries(text: str) -> int | dict[str, int]:
    """How often a failed run is tried again: a number, or one for each cause or pattern.

    >>> parse_retries("2"), parse_retries("node=2,exit=1")
    (2, {'node': 2, 'exit': 1})

    Raises:
        ValueError: when it is neither, or a pattern is no regular expression.
    """
    if WHOLE.fullmatch(text):
        return int(text)
    found = list(TRIES.finditer(text))
    if not found or "".join(one[0] for one in found) != text or text.endswith(","):
        raise ValueError(f"`{text}` is no number of further tries; {RETRIES_FIX}")
    return read_retries({one[1]: one[2] for one in found})


def read_retries(written: Mapping[str, object]) -> dict[str, int]:
    """The same for what stands in a file as a mapping.

    Raises:
        ValueError: when a value is no number, or a key no regular expression.
    """
    for key, text in written.items():
        if not key.strip():
            raise ValueError("an empty pattern, which every log has; write a cause or some words")
        count_groups(key)
        if not isinstance(text, str) or not WHOLE.fullmatch(text):
            told = f"`{text}`" if isinstance(text, str) else f"what stands behind `{key}`"
            raise ValueError(f"{told} is no number of further tries; {RETRIES_FIX}")
    return {key: int(str(text)) for key, text in written.items()}


def count_groups(pattern: str) -> int:
    """How many groups a regular expression has.

    Raises:
        ValueError: when it is none.
    """
    try:
        with warnings.catch_warnings():
            # What a later Python may read differently is still a pattern of this one.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern).groups
    except (re.error, OverflowError) as err:
        message = f"`{pattern}` is no regular expression: {err}"
        raise ValueError(f"{message}; mend it, or put a backslash before what is meant") from err


PARSERS: Mapping[str, Callable[[str], Any]] = {
    "gpus": parse_gpus,
    "gpu_type": parse_gpu_types,
    "cpus": parse_cpus,
    "memory": parse_memory,
    "disk": parse_disk,
    "time": parse_time,
    "nodes": parse_count,
    "processes": parse_count,
    "parallel": parse_count,
    "gpu_blacklist": parse_gpu_types,
    "hostname_whitelist": parse_gpu_types,
    "hostname_blacklist": parse_gpu_types,
    "image": parse_text,
    "special_gpu": parse_text,
}
"""How the text of each resource is read."""

POLICIES: Mapping[str, Callable[[str], Any]] = {
    "pack": parse_pack,
    "retries": parse_retries,
    "resume": parse_truth,
    "grace": parse_time,
    "hold": parse_time,
    "profile": parse_text,
}
"""The same for what is to be done about a run; no parameter sets these."""

FIELDS: Mapping[str, str] = {
    "gpus": "gpus",
    "gpu_type": "gpu_types",
    "cpus": "cpus",
    "memory": "memory_mib",
    "disk": "disk_mib",
    "time": "time_limit",
    "nodes": "nodes",
    "processes": "processes",
    "gpu_blacklist": "gpu_types_denied",
    "hostname_whitelist": "hosts",
    "hostname_blacklist": "hosts_denied",
    "extra": "extra",
}
"""The field of `Resources` that each resource fills; `parallel` belongs to the experiment."""

FLAGS = (
    *("gpus", "gpu_type", "cpus", "memory", "disk", "time", "nodes", "processes", "image"),
    *("parallel", *POLICIES),
)
"""Those of both that are flags and Python keywords."""

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
    """The value of a written resource or policy, of the type that its field has.

    Raises:
        ValueError: when the text is none.
    """
    try:
        return {**PARSERS, **POLICIES}[key](text)
    except OverflowError as err:
        raise ValueError(f"`{text}` is too large; write less") from err
