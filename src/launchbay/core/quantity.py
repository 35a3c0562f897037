"""Written quantities of memory and time, and back."""

from __future__ import annotations

import re
from datetime import timedelta
from math import ceil

MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE | re.ASCII)
UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "": 1024, "t": 1024 * 1024}
SPAN = re.compile(
    r"(?:(\d+)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+)m)?(?:(\d+)s)?", re.IGNORECASE | re.ASCII
)
CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", re.ASCII)


def parse_memory(text: str) -> int:
    """MiB; a bare number is GB.

    >>> parse_memory("32"), parse_memory("512M")
    (32768, 512)

    Raises:
        ValueError: when it is no quantity of memory.
    """
    match = MEMORY.fullmatch(text.strip())
    if not match or not float(match[1]):
        raise ValueError(f"`{text}` is no amount of memory; write `32` for GB, `512M` or `1.5G`")
    return max(1, round(float(match[1]) * UNITS[match[2].lower()]))


def parse_time(text: str) -> timedelta:
    """A time limit: `90m`, `8h`, `2d`, `1h30m`, `HH:MM:SS`, `D-HH`; a bare number is minutes.

    >>> str(parse_time("90m")), str(parse_time("1-02")), str(parse_time("00:30:00"))
    ('1:30:00', '1 day, 2:00:00', '0:30:00')

    Raises:
        ValueError: when it is no span of time.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        span = timedelta(minutes=int(text))
    elif text and (match := SPAN.fullmatch(text)):
        days, hours, minutes, seconds = (float(group or 0) for group in match.groups())
        span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    elif match := CLOCK.fullmatch(text):
        span = _clock(match)
    else:
        span = timedelta()
    if not span:
        raise ValueError(f"`{text}` is no span of time; write `90m`, `8h`, `2d` or `HH:MM:SS`")
    return span


def _clock(match: re.Match[str]) -> timedelta:
    days, *rest = (int(group) if group is not None else None for group in match.groups())
    first, second, third = rest
    if days is not None:
        return timedelta(days=days, hours=first or 0, minutes=second or 0, seconds=third or 0)
    if third is not None:
        return timedelta(hours=first or 0, minutes=second or 0, seconds=third)
    return timedelta(minutes=first or 0, seconds=second or 0)


def render_memory(mib: int) -> str:
    """An amount of memory as one writes it.

    >>> render_memory(32768), render_memory(512)
    ('32G', '512M')
    """
    return f"{mib // 1024}G" if mib and mib % 1024 == 0 else f"{mib}M"


def render_limit(limit: timedelta) -> str:
    """A time limit as one writes it; what is below a second counts as one.

    >>> render_limit(timedelta(minutes=90)), render_limit(timedelta(hours=8))
    ('90m', '8h')
    """
    seconds = ceil(limit.total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def render_span(seconds: float) -> str:
    """A span of time in two units at most.

    >>> render_span(7), render_span(3725), render_span(200000)
    ('7s', '1h02m', '2d07h')
    """
    whole = max(0, round(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour:02d}h"
    if hours:
        return f"{hours}h{minute:02d}m"
    return f"{minutes}m{second:02d}s" if minutes else f"{second}s"


def render_size(size: float) -> str:
    """A number of bytes for people.

    >>> render_size(1536), render_size(5)
    ('1.5 kB', '5 B')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004
            return f"{size:.1f} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1000
    return f"{size:.1f} TB"
