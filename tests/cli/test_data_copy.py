"""`bay data cp` and `url` with folders as buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Place

from tests.cli.conftest import files_below


@pytest.fixture
def west(place: Place) -> Path:
    """A second bucket, called `west`."""
    folder = place.bucket.with_name("west")
    folder.mkdir()
    place.bay.write(
        "bay.yaml", f"command: 'true'\nbucket: {{default: {place.bucket}, west: {folder}}}\n"
    )
    return folder


def test_between_buckets_nothing_is_stored_here(place: Place, west: Path) -> None:
    """A folder's inside goes below the target, and the project stays empty."""
    place.put(m__a="1", m__deep__b="2", m2__c="3")
    said = place.bay("data", "cp", "m/", "west:copy")
    again = place.bay("data", "cp", "m", "west:copy/")

    assert files_below(west) == ["copy/a", "copy/deep/b"]
    assert place.files() == []
    assert "copied 2 files" in said.err
    assert "2 unchanged" in again.err


def test_one_object_goes_to_a_name_or_into_a_folder(place: Place, west: Path) -> None:
    """With a slash at the end its own name is kept, without one the target is its name."""
    place.put(m__a="1")
    place.bay("data", "cp", "m/a", "west:b")
    place.bay("data", "cp", "m/a", "west:in/")
    place.bay("data", "cp", "m/a", "west:")
    place.bay("data", "cp", "m/a", "m/twin")

    assert files_below(west) == ["a", "b", "in/a"]
    assert place.objects() == ["m/a", "m/twin"]


def test_a_pattern_keeps_what_is_below_its_folder(place: Place, west: Path) -> None:
    """Names count from the folder before the first wildcard."""
    place.put(m__x__a_dot_pt="1", m__b_dot_pt="2", m__c="3")
    place.bay("data", "cp", "m/*.pt", "west:")

    assert files_below(west) == ["b.pt", "x/a.pt"]


def test_a_bucket_and_any_place_here(place: Place, tmp_path: Path) -> None:
    """`/…` and `./…` are files of this machine, single or whole folders, there and back."""
    out = tmp_path / "out"
    place.put(m__a="1", m__deep__b="2")
    place.bay("data", "cp", "m/", str(out))
    place.bay("data", "cp", "m/a", "./alone")
    place.bay("data", "cp", str(out), "back/")
    place.bay("data", "cp", "./alone", "single/")
    place.bay("data", "cp", f"{out}/d*", "wild")

    assert files_below(out) == ["a", "deep/b"]
    assert place.files() == ["alone"]
    assert place.objects() == [
        "back/a",
        "back/deep/b",
        "m/a",
        "m/deep/b",
        "single/alone",
        "wild/deep/b",
    ]


def test_dry_run_copies_nothing(place: Place, west: Path) -> None:
    """It prints what would be copied."""
    place.put(m__a="1")
    said = place.bay("data", "cp", "--dry-run", "m/", "west:")

    assert said.out.split() == ["new", "1", "B", "m/a"]
    assert files_below(west) == []


@pytest.mark.parametrize(
    ("source", "target", "code", "words"),
    [
        ("m/a", "m/a", 2, "the same place"),
        ("./x", "./y", 2, "both are files here"),
        ("nothing", "./y", 1, "nothing in"),
        ("./nothing", "y", 1, "there is no"),
        ("m/a", "y*", 2, "no one place"),
    ],
)
def test_mistakes_are_said(place: Place, source: str, target: str, code: int, words: str) -> None:
    """Each with its own sentence, and nothing is copied."""
    place.put(m__a="1")

    assert words in place.bay("data", "cp", source, target, code=code).err
    assert (place.objects(), place.files()) == (["m/a"], [])


def test_url_explains_what_it_cannot(place: Place) -> None:
    """A folder has no addresses, a pattern is no object, a typo names the nearest."""
    place.put(model="1")

    assert "is a folder" in place.bay("data", "url", "model", code=2).err
    assert "no name of one object" in place.bay("data", "url", "mod*", code=2).err
    assert "did you mean `model`?" in place.bay("data", "url", "modle", code=1).err
    assert "7 days" in place.bay("data", "url", "model", "--for", "8d", code=2).err
    assert "no span of time" in place.bay("data", "url", "model", "--for", "soon", code=2).err
