"""What files say of data: folders of runs, where outputs go, buckets."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchbay.config.common import Common
from launchbay.config.files import parse_document
from launchbay.config.layers import Layer, Private, make_recipe
from launchbay.config.schema import BucketEntry, ExperimentFile
from launchbay.config.validation import validate
from launchbay.core.job import Argv, Folder, Job, Recipe, Ship, from_record, to_record


def recipe(*texts: str) -> Recipe:
    """What a run is given where these places speak, the weakest first."""
    data = (parse_document(text, Path("bay.yaml")).data for text in texts)
    layers = [Layer(level="file", values=Common.model_validate(one).written) for one in data]
    return make_recipe(layers, Private())


def buckets(text: str) -> dict[str, BucketEntry]:
    """What a file says of buckets."""
    document = parse_document(f"command: x\n{text}", Path("bay.yaml"))
    return validate(document, ExperimentFile).bucket


def test_folders() -> None:
    """A path, a place in object storage, a claim; or a mapping that says more."""
    written = "folders: {a: /x, b/c: s3://lab/d, e: claim:f, g: {from: west:h, at: ~/i, ro: yes}}"

    assert recipe(written).folders == (
        Folder(name="a", source="/x"),
        Folder(name="b/c", source="s3://lab/d"),
        Folder(name="e", source="claim:f"),
        Folder(name="g", source="west:h", at="~/i", read_only=True),
    )


def test_folders_of_several_places() -> None:
    """A stronger place replaces the folder of the same name, and no other."""
    found = recipe("folders: {a: /x, b: /y}", "folders: {b: /z}").folders

    assert [(one.name, one.source) for one in found] == [("a", "/x"), ("b", "/z")]


@pytest.mark.parametrize(
    ("written", "ship"),
    [
        ("env: {A: b}", None),
        ("outputs_to: none", None),
        ("outputs_to: s3://lab/r", Ship(to="s3://lab/r", every_s=60.0)),
        ("{outputs_to: west:r, ship_every: 30s}", Ship(to="west:r", every_s=30.0)),
        ("{outputs_to: claim:r, ship_every: 0}", Ship(to="claim:r", every_s=0.0)),
        ("{outputs_to: west:r, ship_only: '*.json'}", Ship(to="west:r", only=("*.json",))),
    ],
)
def test_where_outputs_go(written: str, ship: Ship | None) -> None:
    """They stay where they are unless a place is named; the period has a default."""
    assert recipe(written).ship == ship


def test_none_takes_a_place_back() -> None:
    """A target may say that its runs copy nothing."""
    assert recipe("outputs_to: s3://lab/r", "outputs_to: none").ship is None


def test_fetch() -> None:
    """One pattern or a list."""
    assert recipe("fetch: '*.json'").fetch == ("*.json",)
    assert recipe("fetch: ['*.json', a/]").fetch == ("*.json", "a/")


def test_job_remembers() -> None:
    """What a job says of data is the same after it was written down."""
    job = Job(
        run_id="a-b",
        name="a",
        experiment="a",
        command=Argv(("x",)),
        folders=(Folder(name="a", source="/x", read_only=True),),
        ship=Ship(to="s3://lab/r", only=("*.json",)),
        fetch=("*.json",),
    )

    assert from_record(to_record(job)) == job


def test_one_bucket() -> None:
    """A place, or a mapping with its `url`, is the bucket without a name."""
    assert buckets("bucket: s3://lab/me") == {"": BucketEntry(url="s3://lab/me")}
    assert buckets("bucket: {url: s3://lab, region: eu-1}")[""].region == "eu-1"


def test_buckets_by_name() -> None:
    """Each is a place or a mapping; keys of it are left out or null."""
    found = buckets("bucket: {a: gs://lab, b: {url: az://lab, account: me, account_key: null}}")

    assert found == {
        "a": BucketEntry(url="gs://lab"),
        "b": BucketEntry(url="az://lab", account="me", account_key="null"),
    }
