"""Entries of the queue, as text and back."""

from __future__ import annotations

import json

import pytest
from entries import Entry, NewerFormat, parse_entry, render_entry

RECORD = {
    "format": 1,
    "run": "r-abcde",
    "attempt": 2,
    "folder": "/bay/runs/r-abcde",
    "needs": {"gpus": 0.5, "devices": ["0"], "time_s": 60.0, "auto": True},
    "caps": {"host": [1, "this machine"]},
}


def test_entry_survives_its_text() -> None:
    """What is written is what is read."""
    entry = parse_entry(render_entry(Entry(RECORD)).encode())

    assert entry.record == RECORD
    assert (entry.run, entry.attempt, entry.gpus, entry.time_s) == ("r-abcde", 2, 0.5, 60.0)
    assert entry.records == "/bay/runs/r-abcde/attempts/2"
    assert (entry.allowed, entry.devices, entry.caps) == (
        ["0"],
        None,
        {"host": (1, "this machine")},
    )


def test_devices_are_part_of_the_entry() -> None:
    """Whoever reads the entry later knows what it holds."""
    given = Entry(RECORD).with_devices(["3"])

    assert parse_entry(render_entry(given).encode()).devices == ["3"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"r"',
        "{}",
        "\0\0\0",
        json.dumps({**RECORD, "needs": None}),
        json.dumps({**RECORD, "caps": {"host": 1}}),
        json.dumps({**RECORD, "attempt": "one"}),
        json.dumps({**RECORD, "needs": {"gpus": "many"}}),
    ],
)
def test_text_that_is_no_entry(text: str) -> None:
    """Half a file, or something else, is told from an entry."""
    with pytest.raises(ValueError):  # noqa: PT011
        parse_entry(text.encode())


def test_bytes_that_are_no_text() -> None:
    """What a broken disk returns is no entry either."""
    with pytest.raises(ValueError):  # noqa: PT011
        parse_entry(b"\xff\xfe{")


def test_newer_entry_is_left_to_a_newer_worker() -> None:
    """A format that we do not know is not ours to judge."""
    with pytest.raises(NewerFormat):
        parse_entry(json.dumps({"format": 2}).encode())
