"""Files that others meet whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from launchbay.core.whole import replacing

if TYPE_CHECKING:
    from pathlib import Path


def test_old_text_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    """Whoever reads meanwhile reads the old text; in the end only the new one is there."""
    path = tmp_path / "x"
    path.write_text("old")
    with replacing(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    """The old text stays, and no draft."""
    path = tmp_path / "x"
    path.write_text("old")

    def break_off() -> None:
        with replacing(path) as draft:
            draft.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_link_is_replaced(tmp_path: Path) -> None:
    """What a link leads to is not written."""
    path, other = tmp_path / "x", tmp_path / "other"
    other.write_text("old")
    path.symlink_to(other)
    with replacing(path) as draft:
        draft.write_text("new")

    assert (path.read_text(), other.read_text()) == ("new", "old")
    assert not path.is_symlink()


def test_two_at_once(tmp_path: Path) -> None:
    """Neither meets the draft of the other; who comes last wins."""
    path = tmp_path / "x"
    with replacing(path) as first, replacing(path) as second:
        first.write_text("1")
        second.write_text("2")

    assert path.read_text() == "1"
