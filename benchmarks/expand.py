"""A million points, counted one by one, in constant memory and under five seconds."""

from __future__ import annotations

import sys
import time
import tracemalloc

from launchbay.core.job import Script
from launchbay.core.sweep import Branch, Choice, Grid, Span

SIDE = 100


def main() -> int:
    """Print time and peak memory with their bounds; 1 when one is missed."""
    grid = Grid.of({"a": Span(1, SIDE), "b": Span(1, SIDE), "c": Span(1, SIDE)})
    began = time.perf_counter()
    number = sum(1 for _ in Choice(only={})([Branch(command=Script("true"), grid=grid)]))
    seconds = time.perf_counter() - began
    peaks = [peak(Grid.of({"a": Span(1, side), "b": Span(1, 100)})) for side in (100, 10_000)]
    print(f"{number:,} points in {seconds:.2f} s; {number / seconds:,.0f} a second")
    print(f"peak memory: {peaks[0]:,} bytes for 10,000 points, {peaks[1]:,} for 1,000,000")
    claims = {
        "a million points in under 5 s": number == SIDE**3 and seconds < 5,
        "a hundred times the points in the same memory": peaks[1] < peaks[0] + 10_000,
    }
    for claim, held in claims.items():
        print(f"{'ok' if held else 'MISSED':<6} {claim}")
    return 0 if all(claims.values()) else 1


def peak(grid: Grid) -> int:
    """The most memory that walking the grid needs."""
    tracemalloc.start()
    for _ in Choice()([Branch(command=Script("true"), grid=grid)]):
        pass
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


if __name__ == "__main__":
    sys.exit(main())
