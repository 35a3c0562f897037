"""`bay data ls` and `find` on a folder that is a bucket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Place
    from tests.conftest import Bay


def names(out: str) -> list[str]:
    """What stands last in each line."""
    return [line.split("  ")[-1] for line in out.splitlines()]


def test_ls_shows_one_level(place: Place) -> None:
    """Folders first, then files with sizes, in natural order; the sum goes to the words."""
    place.put(data__sub__x="1", data__iter_10="22", data__iter_9="333", other="4")
    said = place.bay("data", "ls", "data")

    assert names(said.out) == ["sub/", "iter_9", "iter_10"]
    assert "       3 B" in said.out
    assert "1 folder and 2 files, 5 B in file://" in said.err


def test_ls_without_a_path_is_the_folder_that_one_stands_in(place: Place) -> None:
    """At the project's root the whole bucket, in a folder of it that folder."""
    place.put(data__x="1", top="2")
    inside = place.bay.project / "data"
    inside.mkdir()

    assert names(place.bay("data", "ls").out) == ["data/", "top"]
    assert names(place.bay("data", "ls", cwd=inside).out) == ["x"]
    assert names(place.bay("data", "ls", "..", cwd=inside).out) == ["data/", "top"]


def test_ls_takes_wildcards_in_the_last_part(place: Place) -> None:
    """`models/iter_*` shows what is called so there, folders too; more than that is for `find`."""
    place.put(models__iter_1__w="1", models__iter_2="2", models__best="3")
    refused = place.bay("data", "ls", "m*/iter_1", code=2)

    assert names(place.bay("data", "ls", "models/iter_*").out) == ["iter_1/", "iter_2"]
    assert "bay data find 'm*/iter_1'" in refused.err


def test_ls_of_one_object_shows_it(place: Place) -> None:
    """A file is listed like a folder with one file."""
    place.put(data__x="123")

    assert names(place.bay("data", "ls", "data/x").out) == ["x"]


def test_ls_json(place: Place) -> None:
    """Folders and files as one list."""
    place.put(data__sub__x="1", data__y="22")
    rows = json.loads(place.bay("data", "ls", "--json", "data/").out)

    assert [(row["name"], row["key"], row["kind"]) for row in rows] == [
        ("sub/", "data/sub/", "folder"),
        ("y", "data/y", "file"),
    ]
    assert rows[1]["size"] == 2


def test_a_misspelt_folder_is_answered_with_the_nearest(place: Place) -> None:
    """Nothing found is an error that names what is there."""
    place.put(models__x="1")

    assert "did you mean `models/`?" in place.bay("data", "ls", "modles/", code=1).err
    assert "did you mean `models/`?" in place.bay("data", "find", "modles/*", code=1).err


def test_an_empty_bucket_is_no_mistake(place: Place) -> None:
    """`ls` shows nothing and says so; `find` finds nothing and says that it is empty."""
    assert "0 files" in place.bay("data", "ls").err
    assert "is empty" in place.bay("data", "find", "*.pt", code=1).err


def test_find_crosses_folders_exactly(place: Place) -> None:
    """`data/*` is all below `data/`, in any depth, and nothing that only begins so."""
    place.put(data__a__b="1", data__c="2", database__x="3", data2__y="4", data_dot_txt="5")

    assert names(place.bay("data", "find", "data/*").out) == ["data/a/b", "data/c"]
    assert names(place.bay("data", "find", "data").out) == ["data/a/b", "data/c"]
    assert names(place.bay("data", "find", "data*", "!data2/").out) == [
        "data.txt",
        "data/a/b",
        "data/c",
        "database/x",
    ]


def test_find_prints_folders_for_a_slash_at_the_end(place: Place) -> None:
    """`runs/*/` lists folders with the size of what is below."""
    place.put(runs__a__x="1", runs__a__deep__y="22", runs__b__z="333", runs__top="4")
    said = place.bay("data", "find", "runs/*/")

    assert names(said.out) == ["runs/a/", "runs/a/deep/", "runs/b/"]
    assert said.out.splitlines()[0].split("  ")[0].strip() or "3 B" in said.out
    assert "3 folders" in said.err


def test_find_names_what_one_of_several_patterns_misses(place: Place) -> None:
    """What was found is printed all the same, and the exit code tells."""
    place.put(a="1")
    said = place.bay("data", "find", "a", "b", code=1)

    assert names(said.out) == ["a"]
    assert "matches `b`" in said.err


def test_names_come_as_one_would_type_them(place: Place) -> None:
    """In a sub-folder names count from there; a named bucket or URL stands in front."""
    other = place.bucket.parent / "west"
    (other / "m").mkdir(parents=True)
    (other / "m" / "x").write_text("1")
    place.bay.write(
        "bay.yaml",
        f"command: 'true'\nbucket: {{default: {place.bucket}, west: {other}}}\n"
        "folders: {maps: 'west:m'}\n",
    )
    place.put(data__x="1", top="2")
    inside = place.bay.project / "data"
    inside.mkdir()

    assert names(place.bay("data", "find", "x", "../top", cwd=inside).out) == ["x", "../top"]
    assert names(place.bay("data", "find", "west:*").out) == ["west:m/x"]
    assert names(place.bay("data", "find", f"file://{other}/m/*").out) == [f"file://{other}/m/x"]
    assert names(place.bay("data", "find", "maps/*").out) == ["maps/x"]


def test_odd_names_are_found_as_they_are(place: Place) -> None:
    """Blanks, quotes, hashes and brackets; a backslash takes a wildcard's meaning away."""
    for key in ("d/a b.txt", "d/it's", "d/#1", "d/x[1]", "d/é"):
        place.put_key(key, "1")

    assert sorted(names(place.bay("data", "find", "d/").out)) == ["d/"]
    assert len(names(place.bay("data", "find", "d/*").out)) == 5
    assert names(place.bay("data", "find", r"d/x\[1\]").out) == ["d/x[1]"]
    assert names(place.bay("data", "find", "d/it's").out) == ["d/it's"]


def test_a_path_outside_of_the_project_is_refused(place: Place) -> None:
    """The bucket mirrors the project; the message names the way out."""
    said = place.bay("data", "find", "../elsewhere", code=2)

    assert "outside of the project" in said.err
    assert "--local-path" in said.err


def test_without_a_bucket_the_fix_is_said(bay: Bay) -> None:
    """Somebody who never configured one is told the three ways to."""
    said = bay("data", "ls", code=2)

    assert "there is no bucket yet" in said.err
    assert "S3_BUCKET_NAME" in said.err


def test_a_wrong_name_of_a_bucket_names_the_right_one(place: Place) -> None:
    """A typo in front of the colon is answered with the nearest."""
    place.bay.write("bay.yaml", f"command: 'true'\nbucket: {{west: {place.bucket}}}\n")

    assert "did you mean `west`?" in place.bay("data", "ls", "wset:x", code=2).err


def test_a_forgotten_colon_is_noticed(place: Place) -> None:
    """A bucket's name where a folder was looked for is answered with how to write it."""
    place.bay.write("bay.yaml", f"command: 'true'\nbucket: {{west: {place.bucket}}}\n")
    place.put(x="1")

    assert "is `west:`" in place.bay("data", "ls", "west", code=1).err


def test_a_name_of_any_bytes_is_shown(place: Place) -> None:
    """What is no UTF-8 is printed as far as it can be, and stops nothing."""
    (place.bucket / os.fsdecode(b"caf\xe9")).write_text("1")
    place.put(x="1")

    assert names(place.bay("data", "find", "*").out) == ["caf\ufffd", "x"]
    assert names(place.bay("data", "ls").out) == ["caf\ufffd", "x"]


LOADED = """
import sys
from launchbay.cli.app import run_app
code = run_app(["data", "ls"])
print(code, sorted({"obstore", "rich", "asyncio"} & set(sys.modules)))
"""


def test_a_folder_needs_no_library(place: Place) -> None:
    """Neither what speaks to object storage nor what paints is loaded in vain."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=place.bay.project,
        env=place.bay.environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "0 []\n"


def test_a_bucket_that_is_not_mounted_is_said(place: Place) -> None:
    """A folder whose parent is missing is a mistake and not an empty bucket."""
    place.bay.write("bay.yaml", "command: 'true'\nbucket: /nowhere/at/all\n")

    assert "there is no folder /nowhere/at/all" in place.bay("data", "ls", code=1).err


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("http://127.0.0.1:9", "refuses the connection"),
        ("https://127.0.0.1:9", "`ca-certificates`"),
    ],
)
def test_a_machine_without_certificates(bay: Bay, endpoint: str, told: str) -> None:
    """As small images are: what is not encrypted works, all else says what to install."""
    keys = "AWS_ACCESS_KEY_ID=me\nAWS_SECRET_ACCESS_KEY=hush\n"
    bay.write(".env", f"S3_BUCKET_NAME=lab\nS3_ENDPOINT_URL={endpoint}\n{keys}")
    nothing = {"SSL_CERT_DIR": "/nowhere", "SSL_CERT_FILE": "", "AWS_CA_BUNDLE": ""}
    bay.extra |= {**nothing, "BAY_DATA_RETRIES": "0"}

    assert told in bay("data", "ls", code=1).err
