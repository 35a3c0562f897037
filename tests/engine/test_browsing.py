"""The chooser by its keys."""

from __future__ import annotations

from launchbay.engine.browsing import (
    BACK,
    DOWN,
    END,
    ESCAPE,
    HOME,
    OPEN,
    PAGE_DOWN,
    Chooser,
    Row,
    Wish,
)

ROWS = [
    Row(key="a/", name="a/", there=True, here=False),
    Row(key="b.txt", name="b.txt", there=True, here=True, size=5),
    Row(key="c.txt", name="c.txt", there=False, here=True, size=2000),
]


def press(chooser: Chooser, *keys: str) -> list[Wish | None]:
    return [chooser.press(key) for key in keys]


def test_folders_are_opened_and_left() -> None:
    """Enter opens a folder, on a file it does nothing; back asks for the folder above."""
    chooser = Chooser(title="t", rows=ROWS)

    assert press(chooser, OPEN, DOWN, OPEN, BACK, "q") == [
        Wish(verb="open", keys=("a/",)),
        None,
        None,
        Wish(verb="back"),
        Wish(verb="quit"),
    ]


def test_verbs_take_what_is_marked_or_else_the_cursor() -> None:
    """Without marks the row under the cursor is meant, with marks all of them."""
    chooser = Chooser(title="t", rows=ROWS)
    one = chooser.press("d")
    press(chooser, " ", DOWN, " ")

    assert (one, chooser.press("u")) == (
        Wish(verb="download", keys=("a/",)),
        Wish(verb="upload", keys=("a/", "c.txt")),
    )


def test_a_mark_can_be_taken_back() -> None:
    """Space on a marked row unmarks it."""
    chooser = Chooser(title="t", rows=ROWS)
    press(chooser, " ", HOME, " ", END)

    assert chooser.press("d") == Wish(verb="download", keys=("c.txt",))


def test_what_destroys_asks_first() -> None:
    """Remove and delete wait for a yes; any other key takes them back."""
    chooser = Chooser(title="t", rows=ROWS)

    assert press(chooser, DOWN, "r", "n", "x") == [None] * 4
    assert chooser.lines(20)[-1][1] == "delete here: b.txt? [y/N]"
    assert chooser.press("y") == Wish(verb="delete", keys=("b.txt",))


def test_the_filter_narrows_as_it_is_typed() -> None:
    """Letters go into the filter and not to the verbs, until enter or escape."""
    chooser = Chooser(title="t", rows=ROWS)
    press(chooser, "/", "C", ".", "d", BACK)
    narrowed = [row.name for row in chooser.shown()]
    chooser.press(OPEN)
    taken = chooser.press("d")
    chooser.press(ESCAPE)

    assert (narrowed, taken) == (["c.txt"], Wish(verb="download", keys=("c.txt",)))
    assert len(chooser.shown()) == 3


def test_the_cursor_stays_on_the_screen() -> None:
    """Of many rows those around the cursor are shown, never more lines than there is room for."""
    rows = [Row(key=f"f{at}", name=f"f{at}", there=True, here=False) for at in range(100)]
    chooser = Chooser(title="t", rows=rows)
    press(chooser, *[PAGE_DOWN] * 5)
    lines = chooser.lines(10)

    assert len(lines) == 9
    assert [text.split()[-1] for style, text in lines if style == "cursor"] == ["f50"]


def test_new_rows_keep_marks_that_are_still_there() -> None:
    """After an action the list is read anew and the cursor stands where it was."""
    chooser = Chooser(title="t", rows=ROWS)
    press(chooser, " ", " ")
    chooser.show("u", ROWS[1:], at="c.txt")

    assert (list(chooser.marks), chooser.cursor, chooser.title) == (["b.txt"], 1, "u")


def test_an_empty_folder_has_nothing_to_act_on() -> None:
    """No key does anything but quit, and the screen says that there is nothing."""
    chooser = Chooser(title="t")

    assert press(chooser, OPEN, " ", "d", "r", DOWN) == [None] * 5
    assert ("dim", "  nothing here") in chooser.lines(10)
