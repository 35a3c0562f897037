"""`bay data browse`: the chooser on a terminal, and the five actions without one."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.cli.conftest import Terminal

if TYPE_CHECKING:
    from tests.cli.conftest import Place
    from tests.conftest import Said

DOWN, LEFT = "\x1b[B", "\x1b[D"


def test_the_chooser_walks_downloads_and_removes(place: Place) -> None:
    """Into a folder, one file down, another away after a yes; the terminal is left as it was."""
    place.put(data__a="1", data__b="22", top="3")
    terminal = Terminal(place.bay, "data", "browse")
    first = terminal.until("q quit")
    terminal.type("\r")
    inside = terminal.until("q quit")
    terminal.type("d")
    terminal.until("downloaded 1 file")
    terminal.type(f"{DOWN}r")
    asked = terminal.until("[y/N]")
    terminal.type("y")
    terminal.until("removed 1 file")
    terminal.type(LEFT)
    terminal.until("top")
    terminal.type("q")

    assert terminal.end() == 0
    assert "data/" in first
    assert "bucket  a" in inside
    assert "remove from the bucket: data/b?" in asked
    assert (place.files(), place.objects()) == (["data/a"], ["data/a", "top"])
    assert "\x1b[?1049l" in terminal.seen


def test_the_chooser_filters_marks_and_uploads(place: Place) -> None:
    """What the filter leaves is marked and goes up together; other files stay."""
    for name in ("x1.txt", "x2.txt", "y.txt"):
        place.bay.write(name, "1")
    terminal = Terminal(place.bay, "data", "browse")
    terminal.until("q quit")
    terminal.type("/x\r")
    terminal.until("q quit")
    terminal.type("  ")
    terminal.until("2 marked")
    terminal.type("u")
    terminal.until("uploaded 2 files")
    terminal.type("q")

    assert terminal.end() == 0
    assert place.objects() == ["x1.txt", "x2.txt"]


def test_a_pattern_shows_all_that_matches(place: Place) -> None:
    """Files of all folders in one list; one is deleted here, and the bucket keeps it."""
    place.put(a__x_dot_pt="1", b__c__y_dot_pt="2", z="3")
    place.bay.write("a/x.pt", "1")
    terminal = Terminal(place.bay, "data", "browse", "*.pt")
    shown = terminal.until("q quit")
    terminal.type("x")
    terminal.until("[y/N]")
    terminal.type("y")
    terminal.until("deleted 1 file")
    terminal.type("q")

    assert terminal.end() == 0
    assert "both    a/x.pt" in shown
    assert "bucket  b/c/y.pt" in shown
    assert (place.files(), len(place.objects())) == ([], 3)


def test_trouble_is_shown_and_the_chooser_stays(place: Place) -> None:
    """A bucket that is away is a line at the foot, and no end."""
    place.bay.write("bay.yaml", "command: 'true'\nbucket: /nowhere/at/all\n")
    terminal = Terminal(place.bay, "data", "browse")
    terminal.until("there is no folder /nowhere/at/all")
    terminal.type("q")

    assert terminal.end() == 0


def answer(place: Place, text: str, *words: str, code: int = 0) -> Said:
    """The prompt with answers piped in."""
    from tests.conftest import Said  # noqa: PLC0415

    process = place.bay.start("data", "browse", *words, stdin=subprocess.PIPE)
    out, err = process.communicate(text, timeout=60)
    assert process.returncode == code, err
    return Said(out, err, process.returncode)


def test_the_prompt_lists_both_sides_and_downloads(place: Place) -> None:
    """Local matches, remote matches, one question, and it is done."""
    place.put(m__a="1", m__b="2", other="3")
    place.bay.write("m/a", "1")
    said = answer(place, "download\n", "m/*")

    assert said.out == (
        "Local files matching pattern:\nm/a\n\nRemote files matching pattern:\nm/a\nm/b\n\n"
    )
    assert "[delete (local), remove (S3), download, upload, exit]" in said.err
    assert place.files() == ["m/a", "m/b"]


def test_the_prompt_deletes_only_after_a_yes(place: Place) -> None:
    """`delete` is about files here, `remove` about the bucket; both ask."""
    place.put(a="1")
    place.bay.write("a", "1")
    answer(place, "delete\nn\n", "a", code=1)
    kept = place.files()
    answer(place, "de\ny\n", "a")
    deleted = (place.files(), place.objects())
    answer(place, "remove\ny\n", "a")

    assert (kept, deleted, place.objects()) == (["a"], ([], ["a"]), [])


def test_the_prompt_uploads_and_asks_again_when_unsure(place: Place) -> None:
    """A word that is no action, or two of them, is asked again; the pattern too when missing."""
    place.bay.write("x", "1")
    said = answer(place, "x\nd\nupload\n")

    assert "one of delete, remove" in said.err
    assert place.objects() == ["x"]


def test_the_end_of_input_is_an_exit(place: Place) -> None:
    """Nobody answers, nothing is done."""
    place.put(a="1")

    assert "Choose an action" in answer(place, "", "a").err
    assert place.files() == []


def test_the_prompt_on_a_terminal(place: Place) -> None:
    """`--prompt` gives the old question to who prefers it."""
    place.put(a="1")
    terminal = Terminal(place.bay, "data", "browse", "--prompt", "a")
    terminal.until("exit]: ")
    terminal.type("down\n")

    assert terminal.end() == 0
    assert place.files() == ["a"]
