"""Logs of runs elsewhere, as they come home."""

from __future__ import annotations

import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from launchbay.core.backend import LogChunk
from launchbay.engine import kept_log
from launchbay.engine.kept_log import KeptLog, Mark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> KeptLog:
    """A log of which nothing came yet."""
    return KeptLog(tmp_path / "runs" / "log-0.txt")


def text_of(log: KeptLog) -> str:
    return "".join(chunk.text for chunk in log.pieces(log.mark()))


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process can become longer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_pieces_follow_each_other(log: KeptLog) -> None:
    """What came is there, with where to go on, until nothing more will come."""
    assert log.mark() == Mark()
    log.add(LogChunk(text="one\n", cursor="4"), after="", ended=False)
    assert log.mark() == Mark("4", 4)
    log.add(LogChunk(text="zwölf\n", cursor="11"), after="4", ended=False)
    log.add(LogChunk(text="", cursor="11"), after="11", ended=True)

    assert log.mark() == Mark("11", 11, complete=True)
    assert text_of(log) == "one\nzwölf\n"


def test_nothing_is_not_the_whole(log: KeptLog) -> None:
    """A run that ended without a word is asked after again: its log may not have been found."""
    log.add(LogChunk(text="", cursor="0"), after="", ended=True)

    assert log.mark() == Mark()


def test_who_comes_second_adds_nothing(log: KeptLog) -> None:
    """Two terminals bring the same piece."""
    for _ in range(2):
        log.add(LogChunk(text="one\n", cursor="4"), after="", ended=False)

    assert (text_of(log), log.mark().cursor) == ("one\n", "4")


def test_further_attempt_is_another_log(log: KeptLog) -> None:
    """Where a target went on to its next attempt, the log begins anew; also when it is empty."""
    log.add(LogChunk(text="one\n", cursor="1:4"), after="", ended=False)
    log.add(LogChunk(text="", cursor="2:0"), after="1:4", ended=False)
    log.add(LogChunk(text="two\n", cursor="2:4"), after="2:0", ended=False)

    assert (text_of(log), log.mark().cursor) == ("two\n", "2:4")


def test_what_comes_later_is_not_in_what_was_there(log: KeptLog) -> None:
    """Whoever goes on from a mark gets nothing twice."""
    log.add(LogChunk(text="one\n", cursor="4"), after="", ended=False)
    mark = log.mark()
    log.add(LogChunk(text="two\n", cursor="8"), after="4", ended=False)

    assert "".join(chunk.text for chunk in log.pieces(mark)) == "one\n"


def test_characters_stay_whole(log: KeptLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that lie between two pieces."""
    monkeypatch.setattr(kept_log, "LOG_PIECE", 3)
    log.add(LogChunk(text="aäöü\udcff", cursor="8"), after="", ended=False)

    assert text_of(log) == "aäöü\udcff"


def test_full_disk_leaves_no_half(log: KeptLog) -> None:
    """What could not be written comes once more, and is there once."""
    log.add(LogChunk(text="one\n", cursor="4"), after="", ended=False)
    later = LogChunk(text="x" * 100_000, cursor="100004")
    with full_disk(50_000):
        log.add(later, after="4", ended=True)
        assert (text_of(log), log.mark()) == ("one\n", Mark("4", 4))
    log.add(later, after="4", ended=True)

    assert text_of(log) == "one\n" + later.text


def test_whole_log_that_was_fetched_meanwhile_is_not_doubled(log: KeptLog) -> None:
    """`bay fetch` puts all of it there while somebody follows it."""
    log.add(LogChunk(text="one\n", cursor="4"), after="", ended=False)
    log.path.write_text("one\ntwo\n")
    log.add(LogChunk(text="two\n", cursor="8"), after="4", ended=True)

    assert (text_of(log), log.mark()) == ("one\ntwo\n", Mark("8", 8, complete=True))


def test_log_that_was_removed_begins_anew(log: KeptLog) -> None:
    """What is said of it does not count then."""
    log.add(LogChunk(text="one\n", cursor="4"), after="", ended=True)
    log.path.unlink()

    assert log.mark() == Mark()
    log.add(LogChunk(text="one\n", cursor="4"), after="", ended=True)
    assert text_of(log) == "one\n"


def test_file_that_nothing_is_said_of_counts_for_nothing(log: KeptLog) -> None:
    """It begins anew."""
    log.path.parent.mkdir()
    log.path.write_text("half of som")

    assert (text_of(log), log.mark(), log.found().size) == ("", Mark(), 11)
    log.add(LogChunk(text="one\n", cursor="4"), after="", ended=False)
    assert text_of(log) == "one\n"
