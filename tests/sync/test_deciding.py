"""Which of two that differ may be replaced."""

from __future__ import annotations

import pytest

from launchbay.sync.deciding import (
    HERE_CHANGED,
    HERE_NEWER,
    THERE_CHANGED,
    THERE_NEWER,
    Differing,
    may_replace,
)

OLD, NEW = 1000.0, 2000.0


@pytest.mark.parametrize(
    ("up", "file_changed", "object_changed", "file_time", "object_time", "expected"),
    [
        # Down, after an earlier transfer: a change here is never lost, whatever the clocks say.
        (False, False, True, OLD, NEW, ""),
        (False, False, True, NEW, OLD, ""),
        (False, True, True, OLD, NEW, HERE_CHANGED),
        (False, True, False, OLD, NEW, HERE_CHANGED),
        (False, True, False, NEW, OLD, HERE_CHANGED),
        # Down, without: the newer one is not lost.
        (False, None, None, OLD, NEW, ""),
        (False, None, None, NEW, OLD, HERE_NEWER),
        (False, None, None, OLD, OLD, ""),
        # Up, after an earlier transfer: what others put there since, and is newer, stays.
        (True, True, False, NEW, OLD, ""),
        (True, True, False, OLD, NEW, ""),
        (True, True, True, NEW, OLD, ""),
        (True, True, True, OLD, NEW, THERE_CHANGED),
        (True, False, True, OLD, NEW, THERE_CHANGED),
        # Up, without.
        (True, None, None, NEW, OLD, ""),
        (True, None, None, OLD, NEW, THERE_NEWER),
        (True, None, None, OLD, OLD, ""),
    ],
)
def test_who_may_be_replaced(
    *,
    up: bool,
    file_changed: bool | None,
    object_changed: bool | None,
    file_time: float,
    object_time: float,
    expected: str,
) -> None:
    """The source's state wins, but what only the target has is left with a reason."""
    pair = Differing(
        up=up,
        file_changed=file_changed,
        object_changed=object_changed,
        file_time=file_time,
        object_time=object_time,
    )

    assert may_replace(pair) == expected
