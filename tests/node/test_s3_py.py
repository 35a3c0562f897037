"""s3.py against real object storage: names, scope, what is skipped, and what goes wrong."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from s3 import BLOCK, MOST_BYTES, Pattern, Trouble, blocks
from tests.node.workshop import NODE, ORDINARY_PATH
from tests.real.object_servers import FaultyProxy, RcloneServer, call, closed_port, started

from launchbay.sync.bucket import open_bucket
from launchbay.sync.patterns import compile_patterns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from launchbay.sync.bucket import BucketOptions

pytestmark = [pytest.mark.real, pytest.mark.slow]
ODD = ("data/1.txt", "data/a b'c.txt", 'data/q"$x.txt', "data/st*r.txt", "data/sub/ü+é~.txt")


@dataclass
class Corner:
    """A folder, a bucket, and s3.py between them."""

    folder: Path
    options: BucketOptions
    server: Any
    changes: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Any:
        return open_bucket(self.options)

    def write(self, name: str, content: str = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content or name)
        return path

    def keys(self) -> list[str]:
        return sorted(entry.key for entry in self.store.walk(""))

    def files(self) -> list[str]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in found)

    def run(self, *words: str, code: int = 0) -> tuple[list[str], str]:
        """The lines it printed, and what it complained of."""
        env = {
            "PATH": ORDINARY_PATH,
            "S3_BUCKET_NAME": self.options.url,
            "S3_ENDPOINT_URL": self.options.endpoint,
            **self.options.env,
            **self.changes,
        }
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-X", "utf8", str(NODE / "s3.py"), *words],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == code, done
        return done.stdout.splitlines(), done.stderr


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Any]]:
    """The S3 of rclone, which checks signatures, and that of moto, which takes any key."""
    made = {}
    try:
        for kind in ("rclone", "moto"):
            made[kind] = started(kind)
        yield made
    finally:
        for server in made.values():
            server.stop()


def corner_in(server: Any, folder: Path) -> Corner:
    folder.mkdir()
    return Corner(folder, server.fresh(), server)


@pytest.fixture
def corner(servers: dict[str, Any], tmp_path: Path) -> Corner:
    """A folder and a bucket of rclone's S3."""
    return corner_in(servers["rclone"], tmp_path / "here")


@pytest.fixture
def anything(servers: dict[str, Any], tmp_path: Path) -> Corner:
    """A folder and a bucket that takes any key."""
    return corner_in(servers["moto"], tmp_path / "here")


@pytest.mark.parametrize("kind", ["rclone", "moto"])
@pytest.mark.parametrize("prefix", ["", "/deep/folder"])
def test_there_and_back(kind: str, prefix: str, servers: dict[str, Any], tmp_path: Path) -> None:
    """Names of all kinds and empty files go and come whole, and the lines are the document's."""
    corner = corner_in(servers[kind], tmp_path / "here")
    corner.changes["S3_BUCKET_NAME"] = corner.options.url + prefix
    for name in ODD:
        corner.write(name)
    (corner.folder / "data/empty").touch()
    names = sorted([*ODD, "data/empty"])

    said, _ = corner.run("upload", "data/", "./")
    assert said == [f"Uploaded {name} to {name}" for name in names]
    assert corner.keys() == [f"{prefix}/{name}".lstrip("/") for name in names]
    said, _ = corner.run("download", "data", "out/")
    assert sorted(said) == [f"Downloaded {name} to out/{name}" for name in names]
    for name in names:
        whole = (corner.folder / name).read_bytes()
        assert (corner.folder / "out" / name).read_bytes() == whole
    assert [one for one in corner.files() if ".bay-" in one] == []


def test_first_line_of_the_document(corner: Corner) -> None:
    """Without a folder of its own a download is told as `./`."""
    corner.store.put("data/1.txt", b"1")

    assert corner.run("download", "data/", "./")[0] == ["Downloaded data/1.txt to ./data/1.txt"]


@pytest.mark.parametrize(
    "pattern",
    [
        *("data/", "data", "data/1", "data/1.txt", "./data/", "", ".", "*"),
        *("data/*", "d*1*", "*.txt", "data?1.txt", "data/?.txt", "data/[1s]*", "data/[!1]*"),
        *(r"data/st\*r.txt", r"data/[", "*/sub", "data/s[tu]*"),
    ],
)
def test_patterns_are_those_of_bay(pattern: str) -> None:
    """A pattern means in a pod what it means everywhere else."""
    keys = [*ODD, "data", "data2/1.txt", "database", "data/1", "data/10.txt", "x/sub/y", "1.txt"]
    ours, bays = Pattern(pattern), compile_patterns([pattern])

    assert [key for key in keys if ours.matches(key)] == [key for key in keys if bays.matches(key)]
    assert all(key.startswith(ours.start) for key in keys if ours.matches(key))


def test_scope(anything: Corner) -> None:
    """A folder is never what only begins so, whatever is done with it."""
    for key in ("data", "data/1", "data/10", "data2/1", "database"):
        anything.store.put(key, key.encode())
    anything.run("download", "data/", "./")
    assert anything.files() == ["data/1", "data/10"]
    assert anything.run("find", "data/1")[0] == ["data/1"]
    assert anything.run("list", "data")[0] == ["data/1", "data/10"]
    assert anything.run("list", "")[0] == ["data/", "data2/", "data", "database"]
    assert anything.run("list", "data/10")[0] == ["data/10"]
    assert anything.run("remove", "data")[0] == [
        f"Removed {x}" for x in ("data", "data/1", "data/10")
    ]
    assert anything.keys() == ["data2/1", "database"]


def test_what_is_here_is_not_brought_again(corner: Corner) -> None:
    """As large and no older is the same; `overwrite` brings it all the same."""
    corner.store.put("data/x", b"new")
    path = corner.write("data/x", "old")
    assert corner.run("download", "data/", "./")[0] == []
    assert corner.run("download", "data/", "./", "1")[0] == ["Downloaded data/x to ./data/x"]
    assert path.read_text() == "new"
    path.write_text("longer")
    corner.run("download", "data/", "./")
    assert path.read_text() == "new"
    path.write_text("old")
    os.utime(path, (1, 1))
    corner.run("download", "data/", "./")
    assert path.read_text() == "new"


def test_what_is_there_is_not_sent_again(anything: Corner) -> None:
    """Equal content is not sent, however new the file; other content of that size is."""
    path = anything.write("data/x", "one")
    anything.run("upload", "data/", "./")
    os.utime(path, (4e9, 4e9))
    assert anything.run("upload", "data/", "./")[0] == []
    path.write_text("two")
    os.utime(path, (1, 1))
    assert anything.run("upload", "data/", "./")[0] == ["Uploaded data/x to data/x"]
    assert anything.run("upload", "data/x", "./", "1")[0] == ["Uploaded data/x to data/x"]


def test_replaced_and_not_written_through(corner: Corner) -> None:
    """A file that is frozen and linked elsewhere keeps its content there."""
    corner.store.put("data/x", b"new")
    path = corner.write("data/x", "of old")
    os.link(path, corner.folder / "frozen")
    path.chmod(0o444)
    corner.run("download", "data/x", "./")

    assert path.read_text() == "new"
    assert (corner.folder / "frozen").read_text() == "of old"


def test_linked_folders_are_sent(corner: Corner) -> None:
    """What a link leads to is data too; one that leads in a circle is walked once."""
    corner.write("far/x")
    corner.write("data/y")
    (corner.folder / "data/link").symlink_to(corner.folder / "far")
    (corner.folder / "data/again").symlink_to(corner.folder / "data")
    corner.write("data/.bay-1-2.part")
    corner.run("upload", "data/", "./")

    assert corner.keys() == ["data/link/x", "data/y"]


@pytest.mark.parametrize("key", ["../x", "data/../../x", "/x", "data//x"])
def test_names_that_lead_out(key: str, anything: Corner) -> None:
    """A key that would be written elsewhere is refused, and the others come."""
    (anything.folder / "in").mkdir()
    anything.store.put("data/y", b"")
    _put_raw(anything, key)
    _, err = anything.run("download", "*", "in/", code=1)

    assert f"`{key}` is left out" in err
    assert anything.files() == ["in/data/y"]


def _put_raw(corner: Corner, key: str) -> None:
    """Have an object of a name that no library would send."""
    name = corner.options.url.removeprefix("s3://")
    path = f"/{name}/{quote(key, safe='')}"
    assert call(corner.server.url, "PUT", path, body=b"no").status == 200
    assert key in corner.run("find", "*")[0]


def test_more_than_one_page(corner: Corner) -> None:
    """A listing goes on until there is no more."""
    assert isinstance(corner.server, RcloneServer)
    place = corner.server.buckets / corner.options.url.removeprefix("s3://") / "many"
    place.mkdir()
    for number in range(1001):
        (place / f"{number:04}").touch()
    corner.store.put("many/new", b"")

    assert len(corner.run("find", "many/")[0]) == 1002


class FileTrouble(FaultyProxy):
    """Fails requests for objects, and no listing."""

    def fault(self, method: str, path: str) -> str:
        return "" if "?" in path else super().fault(method, path)


@pytest.mark.parametrize("fault", ["error", "throttle", "reset", "truncate"])
def test_trouble_on_the_way(fault: str, corner: Corner) -> None:
    """What fails is tried again, and no half of a file is taken for the whole."""
    content = os.urandom(300_000)
    corner.store.put("data/x", content)
    with FileTrouble(corner.server.url, {fault: 100}, most=2) as proxy:
        corner.changes["S3_ENDPOINT_URL"] = proxy.url
        corner.run("download", "data/x", "./")
        assert proxy.met.total() == 2
        assert (corner.folder / "data/x").read_bytes() == content
        corner.run("upload", "data/x", "./", "1")


def test_listing_that_fails(corner: Corner) -> None:
    """A service in trouble is asked again for what there is."""
    corner.store.put("data/x", b"")
    with FaultyProxy(corner.server.url, {"error": 100}, most=2) as proxy:
        corner.changes["S3_ENDPOINT_URL"] = proxy.url

        assert corner.run("find", "*")[0] == ["data/x"]
        assert proxy.met.total() == 2


def test_half_of_a_file(corner: Corner) -> None:
    """A store that always breaks off leaves no file behind, and its trouble is told."""
    corner.store.put("data/x", os.urandom(300_000))
    with FileTrouble(corner.server.url, {"truncate": 100}) as proxy:
        corner.changes["S3_ENDPOINT_URL"] = proxy.url
        _, err = corner.run("download", "data/x", "./", code=1)

    assert err == "launchbay: data/x: the answer broke off\n"
    assert corner.files() == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "answered 403 SignatureDoesNotMatch; check the keys"),
        ({"AWS_ACCESS_KEY_ID": ""}, "AWS_ACCESS_KEY_ID is not set, write it into .env"),
        ({"S3_BUCKET_NAME": "nobody"}, "there is no bucket `nobody` at http://"),
        ({"S3_ENDPOINT_URL": f"http://127.0.0.1:{closed_port()}"}, "Connection refused"),
    ],
)
def test_what_goes_wrong(changes: dict[str, str], says: str, corner: Corner) -> None:
    """Wrong keys, no keys, no bucket and no store are one sentence each, without the secret."""
    corner.changes.update(changes)
    out, err = corner.run("download", "data/", "./", code=1)

    assert out == []
    assert says in err
    assert err.count("\n") == 1
    assert corner.options.env["AWS_SECRET_ACCESS_KEY"] not in err


def test_without_keys(anything: Corner) -> None:
    """Who has no keys asks unsigned, and gets what everybody may have."""
    anything.store.put("data/x", b"x")
    anything.changes |= {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}

    assert anything.run("find", "*")[0] == ["data/x"]


@pytest.mark.parametrize("verb", ["download", "upload", "find", "remove"])
def test_nothing_matches(verb: str, corner: Corner) -> None:
    """A pattern that means nothing fails, with where it was looked for."""
    _, err = corner.run(verb, "nope/", "./", code=1)

    place = "./" if verb == "upload" else f"{corner.options.url}/"
    assert err == f"launchbay: nothing in {place} matches `nope/`\n"


def test_one_folder_is_listed(corner: Corner) -> None:
    """`list` with a wildcard is asked wrongly."""
    assert "make find" in corner.run("list", "data/*", code=2)[1]


def test_one_that_fails_stops_no_other(corner: Corner) -> None:
    """A file in the place of a folder is told, and the rest comes."""
    corner.store.put("a/x", b"")
    corner.store.put("b/x", b"")
    corner.write("a")
    said, err = corner.run("download", "*", "./", code=1)

    assert said == ["Downloaded b/x to ./b/x"]
    assert err.startswith("launchbay: a/x: ")


def test_too_large_for_one_request(corner: Corner) -> None:
    """What no single request may send is refused before it is sent."""
    with (corner.folder / "big").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    _, err = corner.run("upload", "big", "./", "1", code=1)

    assert (
        err
        == "launchbay: ./big: it is larger than 5 GiB; install s5cmd or launchbay in the image\n"
    )


def test_file_that_changes_while_it_is_sent() -> None:
    """As much as was promised is sent of a file that grows; one that shrinks is an error."""
    grown = BytesIO(b"x" * (2 * BLOCK + 5))
    assert sum(map(len, blocks(grown, 2 * BLOCK))) == 2 * BLOCK
    with pytest.raises(Trouble, match="shorter"):
        list(blocks(BytesIO(b"short"), 9))


def test_old_python_reads_it() -> None:
    """Nothing in it is newer than the Python that old images have."""
    text = (NODE / "s3.py").read_text()
    ast.parse(text, feature_version=(3, 7))

    assert ":=" not in text
    assert "from __future__" not in text
