"""Tables that fit the screen."""

from __future__ import annotations

from launchbay.cli.screen import render_table


def test_equal_columns_are_said_once() -> None:
    """What all rows share stands above them."""
    rows = [("a", "local", "1"), ("b", "local", "20")]
    text = render_table(("run", "target", "n"), rows, width=80, numbers=frozenset({"n"}))

    assert text == "target local\nrun   n\na     1\nb    20"


def test_a_single_row_keeps_its_columns() -> None:
    """One row has nothing to share."""
    assert render_table(("run", "target"), [("a", "local")], width=80) == "run  target\na    local"


def test_wide_cells_give_way() -> None:
    """The widest column is cut in the middle, so that its end can still be told."""
    rows = [("abcdefghijklmnopqrstuvwxyz", "1"), ("short", "2")]
    text = render_table(("name", "n"), rows, width=20)

    assert text.splitlines()[1] == "abcdefgh…stuvwxyz  1"
    assert max(map(len, text.splitlines())) <= 20


def test_a_pipe_is_not_cut() -> None:
    """Without a width everything is there."""
    assert "x" * 300 in render_table(("name", "n"), [("x" * 300, "1"), ("y", "2")], width=None)
