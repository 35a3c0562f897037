"""Written resources and what they mean."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

import pytest

from launchbay.config.resources import (
    FIELDS,
    FLAGS,
    IN_MODELS,
    OLD_NAMES,
    OPPOSITES,
    PARSERS,
    POLICIES,
    parse_resource,
)
from launchbay.core.job import Resources


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("gpus", "0", 0),
        ("gpus", "2", 2),
        ("gpus", "1.0", 1),
        ("gpus", "0.25", 0.25),
        ("gpus", ".5", 0.5),
        ("gpu_type", "a100", ("a100",)),
        ("gpu_type", "a100, RTX 3090", ("a100", "RTX 3090")),
        ("cpus", "4", 4),
        ("cpus", "0.5", 0.5),
        ("memory", "32", 32 * 1024),
        ("memory", "512M", 512),
        ("disk", "100", 100 * 1024),
        ("disk", "0", 0),
        ("disk", "0.0G", 0),
        ("disk", "512M", 512),
        ("gpu_blacklist", "a100,h100", ("a100", "h100")),
        ("hostname_whitelist", "a.example.org", ("a.example.org",)),
        ("hostname_blacklist", "a,b", ("a", "b")),
        ("image", "python:3.12", "python:3.12"),
        ("special_gpu", "a100", "a100"),
        ("time", "90m", timedelta(minutes=90)),
        ("time", "30", timedelta(minutes=30)),
        ("nodes", "2", 2),
        ("parallel", "08", 8),
    ],
)
def test_resource(key: str, text: str, value: object) -> None:
    """Each resource is read as the value that a job has."""
    assert parse_resource(key, text) == value


GPUS = "is no number of GPUs; write 0, 2, or a fraction below 1"
COUNT = "is no whole number of at least 1; write `1` or more"
CPUS = "is no number of processors; write `4`, or a fraction such as `0.5`"


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("gpus", "1.5", f"`1.5` {GPUS}"),
        ("gpus", "-1", f"`-1` {GPUS}"),
        ("gpus", "nan", f"`nan` {GPUS}"),
        ("gpus", "all", f"`all` {GPUS}"),
        ("gpus", "", f"`` {GPUS}"),
        ("gpu_type", "", "`` is no name of a GPU; write `a100` or `a100,h100`"),
        ("gpu_type", "a100,", "`a100,` is no name of a GPU; write `a100` or `a100,h100`"),
        ("cpus", "0", f"`0` {CPUS}"),
        ("cpus", "-2", f"`-2` {CPUS}"),
        ("cpus", "inf", f"`inf` {CPUS}"),
        ("memory", "lots", "`lots` is no amount of memory; write `32` for GB, `512M` or `1.5G`"),
        ("memory", "9" * 400, f"`{'9' * 400}` is too large; write less"),
        ("time", "soon", "`soon` is no span of time; write `90m`, `8h`, `2d` or `HH:MM:SS`"),
        ("time", "99999999999d", "`99999999999d` is too large; write less"),
        ("nodes", "0", f"`0` {COUNT}"),
        ("nodes", "1.5", f"`1.5` {COUNT}"),
        ("parallel", "0", f"`0` {COUNT}"),
        ("parallel", "many", f"`many` {COUNT}"),
    ],
    ids=lambda text: text[:20],
)
def test_no_resource(key: str, text: str, message: str) -> None:
    """What is no such resource is refused with the text that was written."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_resource(key, text)

    assert str(caught.value) == message


def test_every_resource_has_its_field() -> None:
    """Every field of a job's resources can be written, and nothing else."""
    assert set(FIELDS.values()) == {field.name for field in fields(Resources)}
    # A mapping has no text of its own; an image and a special GPU are no field of it.
    assert set(PARSERS) == {*FIELDS, "parallel", "image", "special_gpu"} - {"extra"}


def test_every_name_of_a_resource_is_one() -> None:
    """Flags, the names of the first tool and opposites name what can be written."""
    assert set(FLAGS) <= {*PARSERS, *POLICIES}
    assert {*OLD_NAMES.values(), *IN_MODELS} <= set(PARSERS)
    assert {key for pair in OPPOSITES for key in pair} <= set(FIELDS)
