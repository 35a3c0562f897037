"""The one line that tells how far a transfer is."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from launchbay.core.quantity import render_size, render_span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from launchbay.sync.steps import Progress


@contextmanager
def showing(label: str) -> Iterator[Callable[[Progress], None] | None]:
    """What to call as it goes on; None where no terminal shows it."""
    if not sys.stderr.isatty():
        yield None
        return

    def show(progress: Progress) -> None:
        sys.stderr.write(f"\r{render_progress(label, progress)}\x1b[K")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def render_progress(label: str, at: Progress) -> str:
    """How far it is, how fast, and how long it still takes."""
    parts = [
        f"{label} {at.files}/{at.of_files} files",
        f"{render_size(at.bytes)} of {render_size(at.of_bytes)}",
    ]
    if at.rate:
        parts.append(f"{render_size(at.rate)}/s")
    if at.seconds_left is not None:
        parts.append(f"{render_span(at.seconds_left)} left")
    return ", ".join(parts)
