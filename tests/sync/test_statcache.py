"""The cache of what files looked like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.sync.statcache import (
    parse_stat_cache,
    read_stat_cache,
    render_stat_cache,
    write_stat_cache,
)

if TYPE_CHECKING:
    from pathlib import Path

    from launchbay.sync.codebase import Row

ROW: Row = (
    "a.py",
    "/project/a.py",
    (5, 1_700_000_000_123_456_789, 7, 2**64 - 1, 33188),
    "444:ab",
)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.just(
    "\udce9"
)
NUMBERS = st.integers(0, 2**32 - 1)
STAMPS = st.tuples(NUMBERS, st.integers(-(2**63), 2**63 - 1), NUMBERS, NUMBERS, NUMBERS)


@given(st.lists(st.tuples(NAMES, NAMES, STAMPS, NAMES), unique_by=lambda row: row[1]))
def test_round_trip(rows: list[Row]) -> None:
    """Whatever a file is called and whenever it was made, it is known again."""
    known = {source: (stamp, mark) for _, source, stamp, mark in rows}

    assert parse_stat_cache(render_stat_cache(rows)) == known


@pytest.mark.parametrize("cut", [0, 10, 30, 60, -1])
def test_damaged_cache_knows_nothing(tmp_path: Path, cut: int) -> None:
    """A truncated cache is as good as none."""
    path = tmp_path / "stat-cache"
    path.write_bytes(render_stat_cache([ROW])[:cut])

    assert read_stat_cache(path) == {}


def test_flipped_byte_knows_nothing(tmp_path: Path) -> None:
    """A cache of the right length with a wrong byte in it is not believed."""
    data = bytearray(render_stat_cache([ROW]))
    data[-1] ^= 1
    path = tmp_path / "stat-cache"
    path.write_bytes(data)

    assert read_stat_cache(path) == {}


def test_cache_is_private_and_replaced(tmp_path: Path) -> None:
    """Only its owner reads it, and a new one takes the place of the old."""
    path = tmp_path / "stat-cache"
    workshop = tmp_path / "workshop"
    workshop.mkdir()
    write_stat_cache(path, [], workshop=workshop)
    write_stat_cache(path, [ROW], workshop=workshop)

    assert read_stat_cache(path) == {ROW[1]: (ROW[2], ROW[3])}
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(workshop.iterdir()) == []
