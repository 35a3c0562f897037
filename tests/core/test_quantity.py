"""Written quantities."""

from __future__ import annotations

from datetime import timedelta

import pytest

from launchbay.core.quantity import parse_memory, parse_time


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90m", 90),
        ("8h", 480),
        ("2d", 2880),
        ("1h30m", 90),
        ("30", 30),
        ("01:30:00", 90),
        ("5:00", 5),
        ("1-02", 1560),
        ("1-02:30", 1590),
        ("45s", 0.75),
        ("1.5h", 90),
    ],
)
def test_time_limits(text: str, minutes: float) -> None:
    """Minutes, clock times and days are understood."""
    assert parse_time(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "0", "soon", "-5m", "8 hours", "h"])
def test_what_is_no_time_limit(text: str) -> None:
    """Anything else says what to write."""
    with pytest.raises(ValueError, match="is no span of time; write `90m`"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "mib"), [("32", 32768), ("512M", 512), ("1.5G", 1536), ("2GiB", 2048), ("1T", 1 << 20)]
)
def test_memory(text: str, mib: int) -> None:
    """A bare number is GB."""
    assert parse_memory(text) == mib


@pytest.mark.parametrize("text", ["", "0", "much", "-1", "5X"])
def test_what_is_no_memory(text: str) -> None:
    """Anything else says what to write."""
    with pytest.raises(ValueError, match="is no amount of memory; write `32`"):
        parse_memory(text)
