"""What earlier transfers saw."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.core.errors import StoreError
from launchbay.sync.memory import Memory, mark_of, read_mark

BUCKET, FOLDER = "s3://lab", Path("/project")


def test_pairs_are_known_again(tmp_path: Path) -> None:
    """Another process finds what was remembered, for this bucket and folder alone."""
    Memory(tmp_path / "sub" / "data.sqlite").remember(BUCKET, FOLDER, [("a", "1 x"), ("b", "2 y")])

    again = Memory(tmp_path / "sub" / "data.sqlite")
    assert again.recall(BUCKET, FOLDER) == {"a": "1 x", "b": "2 y"}
    assert again.recall("s3://other", FOLDER) == {}
    assert again.recall(BUCKET, Path("/elsewhere")) == {}


def test_only_a_folder_is_read(tmp_path: Path) -> None:
    """With a prefix, nothing else comes back, whatever letters follow it."""
    memory = Memory(tmp_path / "data.sqlite")
    keys = ["data/a", "data/ü", "data/\U0001f600", "data2/a", "dat", "e"]
    memory.remember(BUCKET, FOLDER, [(key, "m") for key in keys])

    assert set(memory.recall(BUCKET, FOLDER, "data/")) == {"data/a", "data/ü", "data/\U0001f600"}


def test_newer_marks_replace_and_forgotten_ones_go(tmp_path: Path) -> None:
    """A key has one mark, until it is forgotten."""
    memory = Memory(tmp_path / "data.sqlite")
    memory.remember(BUCKET, FOLDER, [("a", "1"), ("b", "1")])
    memory.remember(BUCKET, FOLDER, [("a", "2")])
    memory.forget(BUCKET, FOLDER, ["b", "never known"])

    assert memory.recall(BUCKET, FOLDER) == {"a": "2"}


def test_names_that_are_no_text_are_left(tmp_path: Path) -> None:
    """A name that is no UTF-8 is not kept, and hinders no other."""
    memory = Memory(tmp_path / "data.sqlite")
    memory.remember(BUCKET, FOLDER, [("\udce9", "1"), ("ü", "1")])

    assert memory.recall(BUCKET, FOLDER) == {"ü": "1"}


def test_another_version_is_begun_anew(tmp_path: Path) -> None:
    """A file of another version knows nothing, and works."""
    path = tmp_path / "data.sqlite"
    Memory(path).remember(BUCKET, FOLDER, [("a", "1")])
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    memory = Memory(path)
    assert memory.recall(BUCKET, FOLDER) == {}
    memory.remember(BUCKET, FOLDER, [("b", "1")])
    assert memory.recall(BUCKET, FOLDER) == {"b": "1"}


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    """A file that is no database is named, with what to do."""
    (tmp_path / "data.sqlite").write_bytes(b"no database at all" * 100)

    with pytest.raises(StoreError, match=r"data\.sqlite.*cannot be used") as caught:
        Memory(tmp_path / "data.sqlite").recall(BUCKET, FOLDER)
    assert "move it away" in (caught.value.hint or "")


def test_several_begin_at_once(tmp_path: Path) -> None:
    """Whoever comes first makes the file; nothing of the others is lost."""

    def keep(number: int) -> None:
        memory = Memory(tmp_path / "data.sqlite")
        memory.remember(BUCKET, FOLDER, [(str(number), "m")])
        memory.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(keep, range(16)))

    assert len(Memory(tmp_path / "data.sqlite").recall(BUCKET, FOLDER)) == 16


@given(st.text("0123456789."), st.text())
def test_marks_round_trip(file: str, obj: str) -> None:
    """Both halves come back, whatever an ETag looks like."""
    assert read_mark(mark_of(file, obj)) == (file, obj)
