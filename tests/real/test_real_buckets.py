"""One suite of behaviours over every kind of object storage."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.conftest import STRESS
from tests.real.object_servers import MotoServer, call, closed_port

from launchbay.core.errors import ChangedError, DataError, Unsupported
from launchbay.sync.bucket import (
    SMALLEST_PART,
    BucketOptions,
    details_of,
    open_bucket,
    same_store,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.real.object_servers import AzuriteServer, FolderServer, RcloneServer

    from launchbay.sync.bucket import Bucket

pytestmark = [pytest.mark.real, pytest.mark.slow]

NAMES = [
    " leading and trailing ",
    ".hidden/.file",
    "a b/c d.txt",
    "braces {x} [y] ~(z)",
    "c#/f#1",
    "equals=and&amp;",
    "percent%20/100%",
    "plus+plus",
    "question?star*",
    'quote\'s "double"',
    "unicode ü/日本/🚢",
    "ünï.bin",
]
ORDERED = ["data!", "data-1", "data.txt", "data/a", "data/b/c", "data0", "data2/a", "database/x"]


@pytest.fixture
def bucket(store: BucketOptions) -> Bucket:
    """An empty bucket of each kind."""
    return open_bucket(store)


def _is_slow(bucket: Bucket) -> bool:
    """Written for tests, in Python or Node."""
    return bucket.url.startswith(("az:", "s3://moto"))


def content(bucket: Bucket, key: str, start: int = 0, end: int | None = None) -> bytes:
    return b"".join(map(bytes, bucket.read(key, start=start, end=end)))


def keys(bucket: Bucket, prefix: str = "") -> list[str]:
    return [entry.key for entry in bucket.walk(prefix)]


def test_names_are_taken_verbatim(bucket: Bucket) -> None:
    """Blanks, unicode, quotes, signs and leading dots survive every request."""
    for name in NAMES:
        bucket.put(name, name.encode())
    assert keys(bucket) == sorted(NAMES)
    for name in NAMES:
        entry = bucket.head(name)
        assert entry is not None
        assert (entry.key, entry.size) == (name, len(name.encode()))
        assert content(bucket, name) == name.encode()
    bucket.delete(NAMES)
    assert keys(bucket) == []


def test_a_name_may_be_as_long_as_the_services_allow(bucket: Bucket) -> None:
    """A key of 1,024 bytes is taken; one more is refused with a sentence."""
    long = "/".join([*("x" * 200 for _ in range(5)), "y" * 19])
    assert len(long) == 1024
    bucket.put(long, b"1")
    assert keys(bucket) == [long]
    if bucket.parts:
        with pytest.raises(DataError, match="longer than 1024 bytes"):
            bucket.put(long + "z", b"1")


@pytest.mark.parametrize("name", ["a//b", "/a", "a/", "a/../b", "./a", ""])
def test_a_name_that_leads_elsewhere_is_refused(bucket: Bucket, name: str) -> None:
    """What is no plain path of names is an error for that key, before anything is sent."""
    with pytest.raises(DataError, match="cannot hold"):
        bucket.put(name, b"1")
    with pytest.raises(DataError, match="cannot hold"):
        list(bucket.read(name))
    assert keys(bucket) == []


def test_a_walk_is_in_order_and_within_the_folder(bucket: Bucket) -> None:
    """Keys come in order of their text, and `data/` is never `data2/`."""
    for name in reversed(ORDERED):
        bucket.put(name, b"1")
    assert keys(bucket) == ORDERED
    assert keys(bucket, "data/") == ["data/a", "data/b/c"]
    assert keys(bucket, "data/b/") == ["data/b/c"]
    assert keys(bucket, "dat/") == []


def test_a_level_shows_folders_and_objects(bucket: Bucket) -> None:
    """One level has the folders with a slash and the objects directly there."""
    for name in ORDERED:
        bucket.put(name, b"1")
    top, below = bucket.level(), bucket.level("data/")
    assert top.folders == ["data/", "data2/", "database/"]
    assert [entry.key for entry in top.entries] == ["data!", "data-1", "data.txt", "data0"]
    assert below.folders == ["data/b/"]
    assert [entry.key for entry in below.entries] == ["data/a"]
    assert bucket.level("nothing/").entries == []


def test_a_prefix_is_the_whole_world(store: BucketOptions) -> None:
    """A bucket with a prefix sees and names only what lies below it."""
    whole = open_bucket(store)
    part = open_bucket(replace(store, url=f"{store.url}/my part"))
    part.put("a/b", b"1")
    whole.put("my part 2/x", b"2")
    assert keys(whole) == ["my part 2/x", "my part/a/b"]
    assert keys(part) == ["a/b"]
    assert part.level().folders == ["a/"]
    assert part.head("x") is None
    part.delete(["a/b"])
    assert keys(whole) == ["my part 2/x"]


def test_a_part_of_an_object_can_be_read(bucket: Bucket) -> None:
    """Ranges are exact, also over the end and past it."""
    bucket.put("k", b"0123456789")
    assert content(bucket, "k", 2, 5) == b"234"
    assert content(bucket, "k", 7) == b"789"
    assert content(bucket, "k", 0, 4) == b"0123"
    assert content(bucket, "k", 8, 100) == b"89"
    assert content(bucket, "k", 3, 3) == b""
    assert content(bucket, "k", 10, 12) == b""


def test_an_empty_object_is_an_object(bucket: Bucket) -> None:
    """Nothing can be sent, listed and read."""
    bucket.put("folder/empty", b"")
    assert content(bucket, "folder/empty") == b""
    assert [(entry.key, entry.size) for entry in bucket.walk()] == [("folder/empty", 0)]


def test_bytes_files_and_streams_are_sent(bucket: Bucket, tmp_path: Path) -> None:
    """Whatever the source, the same bytes arrive."""
    (tmp_path / "f").write_bytes(b"from a file")
    bucket.put("bytes", b"as bytes")
    bucket.put("file", tmp_path / "f")
    bucket.put("stream", iter([b"piece ", b"by ", b"piece"]))
    assert content(bucket, "bytes") == b"as bytes"
    assert content(bucket, "file") == b"from a file"
    assert content(bucket, "stream") == b"piece by piece"


def test_a_big_file_goes_in_parts(bucket: Bucket, tmp_path: Path) -> None:
    """More than one part arrives as one object; its etag stays until it is sent anew."""
    data = os.urandom(2 * SMALLEST_PART + 12345)
    (tmp_path / "big").write_bytes(data)
    bucket.put("big", tmp_path / "big", at_once=2)
    entry = bucket.head("big")
    assert entry is not None
    assert entry.size == len(data)
    assert hashlib.sha256(content(bucket, "big")).digest() == hashlib.sha256(data).digest()
    assert (
        content(bucket, "big", SMALLEST_PART - 3, SMALLEST_PART + 3)
        == (data[SMALLEST_PART - 3 : SMALLEST_PART + 3])
    )
    assert next(iter(bucket.walk())).etag == entry.etag


def test_a_stream_that_breaks_leaves_nothing(bucket: Bucket) -> None:
    """An object appears whole or not at all, and its error is the stream's own."""

    def broken() -> Iterator[bytes]:
        yield b"x" * (SMALLEST_PART + 1)
        raise LookupError("the source is gone")

    with pytest.raises(LookupError, match="the source is gone"):
        bucket.put("half", broken())
    assert keys(bucket) == []
    assert bucket.head("half") is None


def test_mode_and_time_are_kept(bucket: Bucket, tmp_path: Path) -> None:
    """What a file was beside its content is kept with the object, to the nanosecond."""
    path = tmp_path / "f"
    path.write_bytes(b"1")
    path.chmod(0o751)
    os.utime(path, ns=(1_000_000_000_123_456_789, 1_000_000_000_123_456_789))
    bucket.put("k", path, details=details_of(path.stat()))
    assert dict(bucket.details("k")) == {"mode": "0751", "mtime": "1000000000.123456789"}


def test_the_etag_tells_a_changed_object(bucket: Bucket) -> None:
    """Equal while nothing changes, another after; reading with the old one is an error."""
    bucket.put("k", b"one")
    first = bucket.head("k")
    assert first is not None
    assert first.etag
    assert '"' not in first.etag
    assert bucket.head("k") == first
    assert b"".join(map(bytes, bucket.read("k", etag=first.etag))) == b"one"
    bucket.put("k", b"two")
    second = bucket.head("k")
    assert second is not None
    assert second.etag != first.etag
    with pytest.raises(ChangedError, match="changed meanwhile"):
        list(bucket.read("k", etag=first.etag))


def test_many_are_deleted_and_no_others(bucket: Bucket) -> None:
    """More than one batch goes, missing ones are no error, and neighbours stay."""
    many = 2500 if STRESS or not _is_slow(bucket) else 1100
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: bucket.put(f"data/{number}", b"1"), range(many)))
    bucket.put("data2/a", b"1")
    bucket.delete(["gone/1", *keys(bucket, "data/"), "gone/2"])
    assert keys(bucket) == ["data2/a"]


def test_a_copy_needs_no_way_through_here(bucket: Bucket) -> None:
    """Inside a bucket the content and what is kept beside it are copied."""
    bucket.put("from here/ü#1", b"text", details={"mode": "0600", "mtime": "1000000000.5"})
    bucket.copy("from here/ü#1", "to +there/%20")
    assert content(bucket, "to +there/%20") == b"text"
    assert bucket.details("to +there/%20")["mode"] == "0600"
    with pytest.raises(DataError, match=r"there is no (object missing|such file)"):
        bucket.copy("missing", "x")


def test_a_signed_address_needs_no_login(bucket: Bucket) -> None:
    """An address reads or writes one object, whatever its name, until it has run out."""
    name = "a b/ü #1+%20"
    bucket.put(name, b"text")
    if not bucket.parts:
        with pytest.raises(Unsupported, match="no address to hand out"):
            bucket.sign(name, seconds=60)
        return
    with urllib.request.urlopen(bucket.sign(name, seconds=60)) as answer:  # noqa: S310
        assert answer.read() == b"text"
    request = urllib.request.Request(  # noqa: S310
        bucket.sign("new +1", seconds=60, method="PUT"),
        data=b"sent",
        method="PUT",
        headers={"x-ms-blob-type": "BlockBlob", "Content-Type": "application/octet-stream"},
    )
    urllib.request.urlopen(request).close()  # noqa: S310
    assert content(bucket, "new +1") == b"sent"


def test_what_is_missing_is_said(bucket: Bucket) -> None:
    """A missing object is None to ask for and a sentence to read."""
    assert bucket.head("missing") is None
    assert bucket.head("no/folder/missing") is None
    with pytest.raises(DataError, match="there is no") as caught:
        list(bucket.read("missing"))
    assert caught.value.__cause__ is not None


def test_a_service_copies_between_two_of_its_buckets(
    store: BucketOptions, request: pytest.FixtureRequest
) -> None:
    """Between buckets of one service and one login the bytes stay there."""
    kind = request.node.callspec.params["store"]
    other = request.getfixturevalue(f"{kind}_server").fresh()
    source, target = open_bucket(store), open_bucket(replace(other, url=f"{other.url}/below"))
    source.put("a b/#1", b"text", details={"mode": "0600"})
    assert same_store(store, other)
    assert target.copy_from(source, "a b/#1", "ü/+2")
    assert content(target, "ü/+2") == b"text"
    assert target.details("ü/+2")["mode"] == "0600"


def test_a_service_copies_within_one_bucket(store: BucketOptions) -> None:
    """Two prefixes of one bucket need no way through here, either."""
    source = open_bucket(replace(store, url=f"{store.url}/one"))
    target = open_bucket(replace(store, url=f"{store.url}/two"))
    source.put("k", b"text")
    assert target.copy_from(source, "k", "k2")
    assert content(target, "k2") == b"text"


def test_strangers_do_not_copy_from_each_other(
    rclone_server: RcloneServer, moto_server: MotoServer, folder_server: FolderServer
) -> None:
    """Another service, another login or another kind: the caller must carry the bytes."""
    here = rclone_server.fresh()
    others = [moto_server.fresh(), replace(here, anonymous=True), folder_server.fresh()]
    for other in others:
        assert not same_store(here, other)
        assert not open_bucket(here).copy_from(open_bucket(other), "k", "k")
        assert not open_bucket(other).copy_from(open_bucket(here), "k", "k")


def test_a_public_bucket_needs_no_keys(moto_server: MotoServer) -> None:
    """Without any key requests are not signed, and an address is plain."""
    options = moto_server.fresh()
    allowed = {"x-amz-acl": "public-read"}
    path = f"/{options.url[5:]}/a%20b"
    assert call(moto_server.url, "PUT", path, body=b"open", headers=allowed).status == 200
    public = open_bucket(replace(options, env={}))
    assert keys(public) == ["a b"]
    assert content(public, "a b") == b"open"
    assert public.sign("a b", seconds=5) == f"{moto_server.url}{path}"


def test_a_public_container_needs_no_keys(azurite_server: AzuriteServer) -> None:
    """The same in Azure Blob, where the account is named and its key is not."""
    azurite_server.make_container("public", public=True)
    full = replace(azurite_server.fresh(), url="az://public")
    open_bucket(full).put("a b", b"open")
    public = open_bucket(replace(full, env={}, account="lab"))
    assert keys(public) == ["a b"]
    assert content(public, "a b") == b"open"


def test_markers_of_empty_folders_are_no_objects(moto_server: MotoServer) -> None:
    """What a web console makes for a folder is not listed as a file of that name."""
    options = moto_server.fresh()
    bucket, name = open_bucket(options), options.url[5:]
    for marker in ("empty/", "full/", "deep/er/"):
        assert call(moto_server.url, "PUT", f"/{name}/{marker}", body=b"").status == 200
    bucket.put("full/x", b"1")
    bucket.put("nothing", b"")
    assert keys(bucket) == ["full/x", "nothing"]


def test_odd_names_do_not_hide_the_others(moto_server: MotoServer) -> None:
    """A listing shows names that nothing here can take; only those are refused."""
    options = moto_server.fresh()
    name = options.url[5:]
    odd = ["a//b", "tab\there", "x/./y", "x/../z"]
    good = [f"many/{number:04}" for number in range(1010)]
    bucket = open_bucket(options)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: bucket.put(key, b"1"), [*good, "ok", "x/ü +1"]))
    for path in ("a//b", "tab%09here", "x/%2E/y", "x/%2E%2E/z"):
        assert call(moto_server.url, "PUT", f"/{name}/{path}", body=b"odd").status == 200
    assert keys(bucket) == sorted([*odd, *good, "ok", "x/ü +1"])
    assert bucket.level().folders == ["a/", "many/", "x/"]
    assert [entry.key for entry in bucket.level().entries] == ["ok", "tab\there"]
    with pytest.raises(DataError, match="control character"):
        list(bucket.read("tab\there"))


def test_azure_is_not_told_a_backslash(azurite_server: AzuriteServer) -> None:
    """There a backslash would silently become a slash, so it is refused."""
    bucket = open_bucket(azurite_server.fresh())
    with pytest.raises(DataError, match="for a slash"):
        bucket.put("a\\b", b"1")
    assert keys(bucket) == []


def test_a_backslash_is_a_letter_elsewhere(
    rclone_server: RcloneServer, folder_server: FolderServer
) -> None:
    """S3 and folders take a backslash as it is."""
    for options in (rclone_server.fresh(), folder_server.fresh()):
        bucket = open_bucket(options)
        bucket.put("a\\b", b"1")
        assert keys(bucket) == ["a\\b"]


def test_opening_makes_no_request() -> None:
    """A bucket that cannot be reached is opened all the same."""
    nowhere = f"http://127.0.0.1:{closed_port()}"
    assert open_bucket(BucketOptions(url="s3://lab", endpoint=nowhere)).url == "s3://lab"


def test_variables_of_this_process_do_not_leak_in(
    rclone_server: RcloneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the variables that a bucket is given count, not those that obstore would find."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "stale")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_REGION", "eu-nowhere-1")
    bucket = open_bucket(rclone_server.fresh())
    bucket.put("k", b"1")
    assert content(bucket, "k") == b"1"
