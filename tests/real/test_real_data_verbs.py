"""`bay data` and its Python on real object storage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest
from tests.conftest import STRESS, Bay, eventually
from tests.real.object_servers import started

if TYPE_CHECKING:
    from launchbay.sync.bucket import BucketOptions

pytestmark = pytest.mark.real

MANY = 5000 if STRESS else 1100
ODD = ["a b.txt", "it's", "#1", "x+y%20", "é", ".hidden", "x[1]"]


def use(bay: Bay, **buckets: BucketOptions) -> Bay:
    """A project that knows these buckets, with their keys in the environment."""
    written = {name: {"url": one.url, "endpoint": one.endpoint} for name, one in buckets.items()}
    shown = {
        name: {key: text for key, text in one.items() if text} for name, one in written.items()
    }
    bay.write("bay.yaml", f"command: 'true'\nbucket: {json.dumps(shown)}\n")
    for one in buckets.values():
        bay.extra.update({name: text for name, text in one.env.items() if name != "PATH"})
    return bay


def found(bay: Bay, pattern: str = "*") -> list[str]:
    """The keys that match."""
    said = bay("data", "find", "--json", pattern, code=None)
    return sorted(row["name"] for row in json.loads(said.out))


@pytest.fixture
def place(bay: Bay, store: BucketOptions) -> Bay:
    """A project with a bucket in each kind of storage."""
    return use(bay, default=store)


def test_everyday_verbs(place: Bay) -> None:
    """Up, look, change, down, with names that need care; nothing is moved twice."""
    for name in ODD:
        place.write(f"d/{name}", name)
    place.write("d/deep/x", "1")
    first = place("data", "up", "d")
    again = place("data", "up", "d")
    listed = json.loads(place("data", "ls", "--json", "d").out)
    back = json.loads(place("data", "down", "d", "--local-path", "out", "--json").out)

    assert "sent 8 files" in first.err
    assert "8 unchanged" in again.err
    assert [row["name"] for row in listed if row["kind"] == "folder"] == ["deep/"]
    assert sorted(row["name"] for row in listed if row["kind"] == "file") == sorted(ODD)
    assert len(back["done"]) == 8
    assert {path.name for path in (place.project / "out" / "d").iterdir()} == {*ODD, "deep"}
    assert (place.project / "out" / "d" / "é").read_text() == "é"


def test_remove_is_exact(place: Bay) -> None:
    """Of more objects than a request can name all go, and nothing that only begins so."""
    for number in range(MANY):
        place.write(f"data/{number}", "x")
    kept = ["data.txt", "data2/x", "database/x"]
    for name in kept:
        place.write(name, "y")
    place("data", "up", "data*")
    said = place("data", "rm", "data/", "--yes")

    assert f"removed {MANY} files" in said.err
    assert found(place) == kept
    assert (place.project / "data" / "7").exists()


@pytest.mark.parametrize("kind", ["rclone", "moto", "azurite"])
def test_an_address_works_without_a_login(
    bay: Bay, request: pytest.FixtureRequest, kind: str
) -> None:
    """It reads one object, and with `--put` it takes one."""
    use(bay, default=request.getfixturevalue(f"{kind}_server").fresh())
    bay.write("m/a b", "content")
    bay("data", "up", "m")
    said = bay("data", "url", "m/a b", "--for", "10m")
    with urllib.request.urlopen(said.out.strip()) as answer:  # noqa: S310 - our own server
        read = answer.read()
    address = bay("data", "url", "m/new", "--put").out.strip()
    put = urllib.request.Request(address, data=b"sent", method="PUT")  # noqa: S310
    put.add_header("x-ms-blob-type", "BlockBlob")
    put.add_header("Content-Type", "application/octet-stream")
    with urllib.request.urlopen(put) as answer:  # noqa: S310
        assert answer.status in {200, 201}
    bay("data", "down", "m/new")

    assert read == b"content"
    assert "whoever has this address can read it for 10m00s" in said.err
    assert (bay.project / "m" / "new").read_text() == "sent"


@pytest.mark.parametrize(
    ("source", "target"), [("rclone", "azurite"), ("azurite", "rclone"), ("rclone", "rclone")]
)
def test_a_copy_between_services_leaves_nothing_here(
    bay: Bay, request: pytest.FixtureRequest, source: str, target: str
) -> None:
    """Whole objects arrive in the other store, and the project holds none of them."""
    one, other = (request.getfixturevalue(f"{kind}_server").fresh() for kind in (source, target))
    use(bay, default=one, west=other)
    big = os.urandom(9_000_000)
    (bay.project / "m").mkdir()
    (bay.project / "m" / "big").write_bytes(big)
    bay.write("m/small", "1")
    bay("data", "up", "m")
    for name in ("big", "small"):
        (bay.project / "m" / name).unlink()
    bay("data", "cp", "m/", "west:copy/")
    left = [path for path in bay.project.rglob("*") if path.is_file()]
    bay("data", "cp", "west:copy/big", f"{bay.home}/big")

    assert left == [bay.project / "bay.yaml"]
    assert found(bay, "west:*") == ["west:copy/big", "west:copy/small"]
    assert (bay.home / "big").read_bytes() == big


def test_a_watch_sends_the_last_file_on_term(bay: Bay, s3: BucketOptions) -> None:
    """What settled is there, and TERM brings what was written a moment before."""
    use(bay, default=s3)
    bay.write("runs/a", "1")
    process = bay.start("data", "watch", "runs", "--interval", "1s")
    try:
        eventually(lambda: found(bay, "runs/*") == ["runs/a"])
        bay.write("runs/last", "2")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 0, said
    assert found(bay, "runs/*") == ["runs/a", "runs/last"]


OPEN = """
from launchbay import data
with data.open_remote("m/x") as file:
    print(file.read().decode())
"""


def run_python(bay: Bay, program: str, code: int = 0) -> str:
    """A program of the user's own, in the project."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=bay.project,
        env=bay.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def test_a_second_open_needs_no_server(bay: Bay) -> None:
    """Another process reads the object after the server is gone."""
    server = started("moto")
    try:
        use(bay, default=server.fresh())
        bay.write("m/x", "kept")
        bay("data", "up", "m")
        first = run_python(bay, OPEN)
    finally:
        server.stop()

    assert (first, run_python(bay, OPEN)) == ("kept\n", "kept\n")


VERBS = """
from pathlib import Path
from launchbay import data
print(data.up("m/"), data.up("m/"))
print(data.ls("m"), data.find("m/*"), data.latest("m/*"))
print(data.cp("m/iter_2", "n/"), data.rm("m/iter_1"))
with data.open_remote("w/x", "w") as file:
    file.write("text")
print([str(path.relative_to(Path.cwd())) for path in data.down("w/", local_path="out")])
print(data.url("m/iter_2")[:7])
"""


def test_the_same_verbs_in_python(bay: Bay, s3: BucketOptions) -> None:
    """Each returns what it did."""
    use(bay, default=s3)
    for name in ("iter_1", "iter_2"):
        bay.write(f"m/{name}", "1")

    assert run_python(bay, VERBS).splitlines() == [
        "['m/iter_1', 'm/iter_2'] []",
        "['m/iter_1', 'm/iter_2'] ['m/iter_1', 'm/iter_2'] ['m/iter_2']",
        "['m/iter_2'] ['m/iter_1']",
        "['out/w/x']",
        "http://",
    ]
