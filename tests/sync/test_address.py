"""Places in object storage as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from launchbay.sync.address import folder_url, is_storage, join_url, parse_named, parse_url

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "store", "key"),
    [
        ("s3://lab", "s3://lab", ""),
        ("s3://lab/", "s3://lab", ""),
        ("s3://lab/a b/#1/*", "s3://lab", "a b/#1/*"),
        ("gs://lab/x", "gs://lab", "x"),
        ("az://lab/x", "az://lab", "x"),
        ("file:///x", "file:///", "x"),
        ("file:///a/b", "file:///a", "b"),
        ("file:///a/b/", "file:///a", "b/"),
        ("file:///a/b*/c", "file:///a", "b*/c"),
        ("file:///a/b/c d?", "file:///a/b", "c d?"),
    ],
)
def test_urls(text: str, store: str, key: str) -> None:
    """A URL names a store and a key; of a folder, what holds the thing that is meant."""
    found = parse_url(text)

    assert found
    assert (found.store, found.key) == (store, key)


def test_address_of_a_blob() -> None:
    """The address that Azure shows names the account, too."""
    found = parse_url("https://mylab.blob.core.windows.net/data/a%20b/c")

    assert found
    assert (found.store, found.key, found.account) == ("az://data", "a b/c", "mylab")
    assert found.at("d").url == "az://data/d"


@pytest.mark.parametrize("text", ["data/x", "west:x", "s3://", "http://x/y", "/a", "", "ftp://a/b"])
def test_no_url_of_a_store(text: str) -> None:
    """Paths, names and other services are none."""
    assert parse_url(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("west:", ("west", "")),
        ("west:/a", ("west", "a")),
        ("west:a:b", ("west", "a:b")),
        ("s3://a", None),
        ("data", None),
        (".x:y", None),
    ],
)
def test_names(text: str, expected: tuple[str, str] | None) -> None:
    """The first word before a colon is the name of a bucket."""
    assert parse_named(text) == expected


def test_what_is_storage() -> None:
    """URLs and names are; claims and paths are not."""
    texts = ["s3://a", "west:a", "claim:a", "/a", "data", "~/a"]

    assert [text for text in texts if is_storage(text)] == ["s3://a", "west:a"]


def test_joining(tmp_path: Path) -> None:
    """One slash between, and none behind."""
    assert join_url("s3://a/", "b/c") == "s3://a/b/c"
    assert join_url("s3://a", "") == "s3://a"
    assert join_url("file:///", "o") == "file:///o"
    assert folder_url(tmp_path) == f"file://{tmp_path}"
