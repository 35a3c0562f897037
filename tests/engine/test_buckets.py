"""From what people write to places in object storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import BadRequest
from launchbay.engine.buckets import Buckets, open_buckets

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
command: x
bucket:
  west: {url: s3://lab-west/me, endpoint: http://west, region: w-1, keys: WEST}
  near: ./near
  cold: gs://cold
folders: {data: west:sets/v1, models: s3://lab/models, local: /scratch}
"""


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / "config"))
    for name in ("S3_BUCKET_NAME", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with several buckets and a `.env`."""
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "bay.yaml").write_text(FILE)
    (folder / ".env").write_text("S3_BUCKET_NAME=mine\nAWS_ACCESS_KEY_ID=a\n")
    with (folder / ".env").open("a") as env:
        env.write("AWS_SECRET_ACCESS_KEY=b\nAWS_ACCESS_KEY_ID_WEST=c\n")
    return folder


@pytest.fixture
def known(project: Path) -> Buckets:
    """Its buckets."""
    return open_buckets(project)


@pytest.mark.parametrize(
    ("text", "url", "key", "folder"),
    [
        ("x/*", "s3://mine", "x/*", ""),
        (".", "s3://mine", "", ""),
        ("", "s3://mine", "", ""),
        ("./x/", "s3://mine", "x/", ""),
        ("west:models/", "s3://lab-west/me", "models/", ""),
        ("s3://other/x", "s3://other", "x", ""),
        ("s3://lab-west/x", "s3://lab-west", "x", ""),
        ("data/a", "s3://lab-west/me/sets/v1", "a", "data"),
        ("data/", "s3://lab-west/me/sets/v1", "", "data"),
        ("data", "s3://lab-west/me/sets/v1", "", "data"),
        ("data2/a", "s3://mine", "data2/a", ""),
        ("models/m?", "s3://lab/models", "m?", "models"),
        ("local/x", "s3://mine", "local/x", ""),
    ],
)
def test_locate(known: Buckets, text: str, url: str, key: str, folder: str) -> None:
    """Names, URLs, mapped folders, and all else in the bucket that mirrors the project."""
    found = known.locate(text)

    assert (found.options.url, found.key) == (url, key)
    assert found.folder == known.root / folder


def test_from_below(project: Path) -> None:
    """A path counts from where it is typed."""
    known = open_buckets(project / "sub")

    assert known.locate("x").key == "sub/x"
    assert known.locate("../x/").key == "x/"
    assert known.locate(str(project / "y")).key == "y"
    assert known.locate("../data/x").key == "x"


def test_outside(known: Buckets) -> None:
    """What is outside of the project has no place in its bucket."""
    with pytest.raises(BadRequest, match="is outside of the project"):
        known.locate("../other")


def test_options_of_a_bucket(known: Buckets) -> None:
    """What the file says of it, with its own keys in place of the common ones."""
    options = known.locate("west:x").options
    by_url = known.locate("s3://lab-west/x").options

    assert (options.endpoint, options.region) == ("http://west", "w-1")
    assert options.env["AWS_ACCESS_KEY_ID"] == "c"
    assert "AWS_SECRET_ACCESS_KEY" not in options.env
    assert (by_url.endpoint, by_url.env["AWS_ACCESS_KEY_ID"]) == ("http://west", "c")
    assert known.locate("x").options.env["AWS_ACCESS_KEY_ID"] == "a"
    assert "AWS_ACCESS_KEY_ID" not in repr(options)


def test_folder_as_bucket(known: Buckets) -> None:
    """A path is taken from the project's folder."""
    assert known.locate("near:x").options.url == f"file://{known.root / 'near'}"


def test_unknown_name(known: Buckets, project: Path) -> None:
    """A name that is no bucket is told with the nearest; a file with a colon is a file."""
    with pytest.raises(BadRequest, match="there is no bucket `wst`") as caught:
        known.locate("wst:x")
    (project / "odd:x").touch()

    assert caught.value.hint == "did you mean `west`?"
    assert known.locate("odd:x").key == "odd:x"


def test_other_service(known: Buckets) -> None:
    """A URL of something else is refused."""
    with pytest.raises(BadRequest, match="`ftp://a/b` is no place in object storage"):
        known.locate("ftp://a/b")


def test_no_bucket(tmp_path: Path) -> None:
    """Without any, the ways to name one are told."""
    with pytest.raises(BadRequest, match="there is no bucket yet") as caught:
        open_buckets(tmp_path).locate("x")

    assert caught.value.hint == (
        "a line `S3_BUCKET_NAME=…` in `.env`, `bucket: s3://…` in `bay.yaml`, or a URL"
    )


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("bucket: s3://one/p/", "s3://one/p"),
        ("bucket: {default: s3://two, other: s3://three}", "s3://two"),
        ("bucket: {only: s3://four}", "s3://four"),
    ],
)
def test_default(tmp_path: Path, written: str, url: str) -> None:
    """The one without a name, the one called default, or the only one."""
    (tmp_path / "bay.yaml").write_text(f"command: x\n{written}\n")

    assert open_buckets(tmp_path).default().url == url


def test_several_and_no_default(tmp_path: Path) -> None:
    """Of several, somebody has to say which."""
    (tmp_path / "bay.yaml").write_text("command: x\nbucket: {a: s3://a, b: s3://b}\n")
    with pytest.raises(BadRequest, match="there are several buckets") as caught:
        open_buckets(tmp_path).locate("x")

    assert caught.value.hint == "say which: `a:…`, `b:…`"


def test_user_names_buckets_for_all_projects(tmp_path: Path) -> None:
    """What the user's configuration names is known everywhere; the project's wins."""
    config = tmp_path / "home" / "config" / "launchbay" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("bucket: {a: s3://mine, b: s3://b}\n")
    (tmp_path / "bay.yaml").write_text("command: x\nbucket: {a: s3://ours}\n")
    known = open_buckets(tmp_path)

    assert [known.locate(text).options.url for text in ("a:x", "b:x")] == ["s3://ours", "s3://b"]


def test_file_that_runs_nothing(tmp_path: Path) -> None:
    """A file may be there for its buckets alone; one may have its own engine."""
    (tmp_path / "bay.yaml").write_text("bucket: {a: {url: s3://a, engine: s5cmd}}\n")

    assert open_buckets(tmp_path).locate("a:x").options.engine == "s5cmd"
