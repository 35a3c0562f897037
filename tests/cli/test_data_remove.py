"""`bay data rm` with a folder as the bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import Terminal

if TYPE_CHECKING:
    from tests.cli.conftest import Place


def test_only_what_is_meant_goes(place: Place) -> None:
    """`data/` leaves `data2/`, `database/` and `data.txt`; files here are never touched."""
    place.put(data__x="1", data__deep__y="2", data2__x="3", database__x="4", data_dot_txt="5")
    place.bay.write("data/x", "1")
    said = place.bay("data", "rm", "data/", "--yes")

    assert place.objects() == ["data.txt", "data2/x", "database/x"]
    assert place.files() == ["data/x"]
    assert "removed 2 files (2 B) from file://" in said.err


def test_dry_run_lists_and_removes_nothing(place: Place) -> None:
    """What would go is printed as data, with its size."""
    place.put(a__x="1", a__y="22", b="3")
    said = place.bay("data", "rm", "a/*", "--dry-run")

    assert [line.split()[-1] for line in said.out.splitlines()] == ["a/x", "a/y"]
    assert "would remove 2 files (3 B)" in said.err
    assert len(place.objects()) == 3


def test_nobody_there_means_nothing_goes(place: Place) -> None:
    """Without a terminal and without `--yes` it refuses, after it showed what is meant."""
    place.put(**{f"a__{number}": "1" for number in range(12)})
    said = place.bay("data", "rm", "a/", code=2)

    assert "and 2 more" in said.err
    assert "remove 12 files (12 B)" in said.err
    assert len(place.objects()) == 12


def test_a_terminal_is_asked(place: Place) -> None:
    """`n` leaves everything, `y` removes it."""
    place.put(a="1")
    for answer, left in (("n\n", ["a"]), ("y\n", [])):
        terminal = Terminal(place.bay, "data", "rm", "a")
        terminal.until("[y/N]")
        terminal.type(answer)

        assert terminal.end() == len(left)
        assert place.objects() == left


def test_all_of_a_bucket_must_be_typed_out(place: Place) -> None:
    """`.` is refused even with `--yes`; `*` is what means everything."""
    place.put(a="1", b__c="2")
    said = place.bay("data", "rm", ".", "--yes", code=2)
    kept = place.objects()
    place.bay("data", "rm", "*", "--yes")

    assert "that is everything in" in said.err
    assert "type `'*'`" in said.err
    assert (kept, place.objects()) == (["a", "b/c"], [])


def test_a_dot_in_a_folder_is_that_folder(place: Place) -> None:
    """Standing in a folder of the project, its objects are meant and no others."""
    place.put(sub__x="1", top="2")
    inside = place.bay.project / "sub"
    inside.mkdir()
    place.bay("data", "rm", ".", "--yes", cwd=inside)

    assert place.objects() == ["top"]


def test_the_second_time_there_is_nothing_to_do(place: Place) -> None:
    """The same command again is no error, and says what is there."""
    place.put(models__x="1", keep="2")
    place.bay("data", "rm", "models/x", "--yes")
    said = place.bay("data", "rm", "models/x", "--yes")

    assert "nothing matches `models/x`" in said.err
    assert place.objects() == ["keep"]


def test_names_with_wildcards_in_them_are_exact(place: Place) -> None:
    """A backslash means the character, so that nothing else goes."""
    for key in ("d/x[1]", "d/x1", "d/it's 1"):
        place.put_key(key, "1")
    place.bay("data", "rm", r"d/x\[1\]", "d/it's 1", "--yes")

    assert place.objects() == ["d/x1"]


def test_include_and_exclude_count(place: Place) -> None:
    """What is excluded stays."""
    place.put(d__a_dot_tmp="1", d__b_dot_tmp="2", d__c="3")
    place.bay("data", "rm", "d/", "--include", "*.tmp", "--exclude", "b*", "--yes")

    assert place.objects() == ["d/b.tmp", "d/c"]
