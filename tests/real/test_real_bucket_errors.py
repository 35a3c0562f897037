"""What object storage refuses, in one sentence with the fix, and never with a secret."""

from __future__ import annotations

import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import require_program
from tests.real.object_servers import (
    AZURE_KEY,
    KEY_ID,
    SECRET,
    CannedServer,
    FaultyProxy,
    closed_port,
    s3_options,
)

from launchbay.core.errors import (
    BadRequest,
    BayError,
    ConfigError,
    DataError,
    Unauthorized,
    Unreachable,
    Unsupported,
)
from launchbay.sync.bucket import BucketOptions, open_bucket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.real.object_servers import AzuriteServer, MotoServer, RcloneServer

    from launchbay.sync.bucket import Bucket

pytestmark = [pytest.mark.real, pytest.mark.slow]

WRONG = {"AWS_SECRET_ACCESS_KEY": "not the secret"}
HASTY = {"BAY_DATA_RETRIES": "1", "BAY_DATA_TIMEOUT": "1"}
ASKING: list[Callable[[Bucket], Any]] = [
    lambda bucket: list(bucket.walk()),
    lambda bucket: bucket.level(),
    lambda bucket: bucket.head("k"),
    lambda bucket: list(bucket.read("k")),
    lambda bucket: bucket.put("k", b"1"),
    lambda bucket: bucket.put("k", iter([b"1"])),
    lambda bucket: bucket.copy("k", "l"),
    lambda bucket: bucket.delete(["k"]),
]


def told(options: BucketOptions, ask: Callable[[Bucket], Any] = ASKING[0]) -> BayError:
    """The error of a request: one line, a fix, its cause, and no secret or markup."""
    bucket = open_bucket(replace(options, env={**HASTY, **options.env}))
    with pytest.raises(DataError) as caught:
        ask(bucket)
    error = caught.value
    said = f"{error} {error.hint}"
    assert error.hint
    assert error.__cause__ is not None
    assert "\n" not in said
    for secret in (SECRET, AZURE_KEY, "Signature=", "sig=", "<Code>", "Debug source"):
        assert secret not in said
    return error


def changed(options: BucketOptions, **env: str) -> BucketOptions:
    return replace(options, env={**options.env, **env})


@pytest.mark.parametrize("ask", ASKING)
def test_a_wrong_secret(rclone_server: RcloneServer, ask: Callable[[Bucket], Any]) -> None:
    """Whatever is asked, a wrong secret is named as such."""
    wrong = changed(rclone_server.fresh(), **WRONG)
    error = told(wrong, ask)
    assert str(error) == f"{rclone_server.url} refuses the secret key of keys from .env"
    assert str(error.hint).startswith("check AWS_SECRET_ACCESS_KEY: ")
    assert isinstance(error, Unauthorized)


@pytest.mark.parametrize("ask", ASKING)
def test_a_wrong_key(rclone_server: RcloneServer, ask: Callable[[Bucket], Any]) -> None:
    """A key that the service does not know is named as such."""
    error = told(changed(rclone_server.fresh(), AWS_ACCESS_KEY_ID="AKIAWRONG"), ask)
    assert str(error) == f"{rclone_server.url} does not know the key of keys from .env"
    assert "AWS_ACCESS_KEY_ID" in str(error.hint)
    assert isinstance(error, Unauthorized)


def test_no_keys_where_keys_are_needed(rclone_server: RcloneServer) -> None:
    """Without keys the sentence says that none were found."""
    options = replace(rclone_server.fresh(), env={"HOME": "/nowhere"})
    error = told(options)
    assert str(error) == f"{options.url} is not open to everyone, and no keys were found"
    assert "AWS_ACCESS_KEY_ID" in str(error.hint)


def test_a_bucket_that_does_not_exist(moto_server: MotoServer, rclone_server: RcloneServer) -> None:
    """A wrong name is said with the place that was asked."""
    for server in (moto_server, rclone_server):
        error = told(s3_options("no-such-bucket", server.url))
        assert str(error) == f"there is no bucket s3://no-such-bucket at {server.url}"
        error = told(s3_options("no-such-bucket", server.url), lambda bucket: bucket.put("k", b""))
        assert "there is no bucket" in str(error)


def test_azure_says_the_same(azurite_server: AzuriteServer) -> None:
    """A wrong key, a missing container and a missing login of Azure have sentences, too."""
    options = azurite_server.fresh()
    wrong = changed(options, AZURE_STORAGE_KEY="bm90IHRoZSBrZXk=")
    assert "refuses the secret key of the storage account's key" in str(told(wrong))
    assert str(told(wrong).hint).startswith("check AZURE_STORAGE_KEY: ")
    missing = replace(options, url="az://nothing-here")
    assert str(told(missing)) == f"there is no bucket az://nothing-here at {options.endpoint}"
    nobody = replace(options, env={"HOME": "/nowhere"}, account="lab")
    assert "not open to everyone" in str(told(nobody))


def test_google_says_the_same() -> None:
    """Google Cloud Storage is asked at its endpoint; what it refuses has the same sentences."""
    nobody = {"HOME": "/nowhere"}
    with CannedServer(404, "NoSuchBucket") as server:
        options = BucketOptions(url="gs://lab", endpoint=server.url, env=nobody)
        assert str(told(options)) == f"there is no bucket gs://lab at {server.url}"
        assert server.asked[0].startswith("GET /lab")
    with CannedServer(401, "AccessDenied") as server:
        options = BucketOptions(url="gs://lab", endpoint=server.url, env=nobody)
        error = told(options, lambda bucket: list(bucket.read("a b")))
        assert "not open to everyone" in str(error)
        assert "gcloud auth login" in str(error.hint)
        assert server.asked == ["GET /lab/a%20b"]


CANNED = [
    (403, "AccessDenied", "keys from .env may not do this with s3://lab", "ask its owner"),
    (400, "ExpiredToken", "the login for s3://lab has run out (keys from .env)", "set new AWS_"),
    (403, "InvalidToken", "refuses the session token of keys from .env", "AWS_SESSION_TOKEN"),
    (403, "RequestTimeTooSkewed", "this machine's clock is too far from that of", "timedatectl"),
    (503, "SlowDown", "had too many requests, in spite of waiting", "try again later"),
    (429, "TooManyRequests", "had too many requests, in spite of waiting", "try again later"),
    (500, "InternalError", "failed inside (status 500)", "try again later"),
    (507, "QuotaExceeded", "s3://lab is full", "remove what is not needed"),
    (418, "Teapot", "s3://lab: the service said Teapot", "try again"),
]


@pytest.mark.parametrize(("status", "code", "sentence", "fix"), CANNED)
def test_what_services_say(status: int, code: str, sentence: str, fix: str) -> None:
    """Each code that matters has a sentence and a fix."""
    with CannedServer(status, code, said="<secret>") as server:
        error = told(s3_options("lab", server.url))
    assert sentence in str(error)
    assert fix in str(error.hint)


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError")])
def test_trouble_inside_is_tried_again(status: int, code: str) -> None:
    """A service that throttles or fails is asked as often as is allowed, then called so."""
    with CannedServer(status, code) as server:
        options = changed(s3_options("lab", server.url), BAY_DATA_RETRIES="3")
        assert isinstance(told(options), Unreachable)
        assert len(server.asked) == 4


def test_an_object_that_is_forbidden_says_why() -> None:
    """A HEAD has no body, so the reason is asked for."""
    with CannedServer(403, "RequestTimeTooSkewed") as server:
        error = told(s3_options("lab", server.url), lambda bucket: bucket.head("k"))
    assert "clock" in str(error)


@pytest.mark.parametrize("ask", [ASKING[0], ASKING[3], ASKING[4]])
def test_another_region_is_found_out(ask: Callable[[Bucket], Any]) -> None:
    """The service says where the bucket lies, and it is asked there."""
    said = {"x-amz-bucket-region": "eu-north-1"}
    with CannedServer(301, "PermanentRedirect", headers=said) as server:
        error = told(s3_options("lab", server.url), ask)
    assert str(error) == "s3://lab does not lie in region eu-north-1"
    assert "AWS_REGION" in str(error.hint)
    assert server.asked[1] == "HEAD /lab"


def test_a_region_that_is_told_in_words() -> None:
    """The expected region is passed on as the fix."""
    words = "the region 'us-east-1' is wrong; expecting 'eu-north-1'"
    with CannedServer(400, "AuthorizationHeaderMalformed", said=words) as server:
        error = told(s3_options("lab", server.url))
    assert str(error) == "s3://lab does not lie in region us-east-1"
    assert str(error.hint).endswith("to eu-north-1")


def test_nobody_listens() -> None:
    """A closed port is a refused connection."""
    url = f"http://127.0.0.1:{closed_port()}"
    error = told(s3_options("lab", url))
    assert str(error) == f"{url} refuses the connection"
    assert isinstance(error, Unreachable)


def test_a_name_that_nobody_knows() -> None:
    """A wrong host name is said to be one."""
    error = told(s3_options("lab", "http://store.invalid"))
    assert str(error) == "the name of http://store.invalid is not known"


def test_nothing_answers() -> None:
    """A connection that says nothing is given up."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        error = told(s3_options("lab", url))
    assert str(error) == f"{url} does not answer"


def test_a_secure_connection_that_is_none(rclone_server: RcloneServer) -> None:
    """An endpoint with the wrong beginning is said to be no secure one."""
    url = rclone_server.url.replace("http:", "https:")
    error = told(s3_options("lab", url))
    assert str(error) == f"no secure connection to {url}"
    assert "http://" in str(error.hint)


def test_a_certificate_of_ones_own(tmp_path: Path) -> None:
    """A service with a private authority is refused until its certificate is named."""
    own, server = certificates(tmp_path)
    with CannedServer(404, "NoSuchBucket", secure=server) as service:
        options = s3_options("lab", service.url)
        assert str(told(options)) == f"no secure connection to {service.url}"
        trusting = changed(options, AWS_CA_BUNDLE=str(own))
        assert str(told(trusting)) == f"there is no bucket s3://lab at {service.url}"
    missing = changed(options, AWS_CA_BUNDLE="/nowhere.pem")
    with pytest.raises(ConfigError, match="cannot be read"):
        open_bucket(missing)


def certificates(folder: Path) -> tuple[Path, Path]:
    """An authority, and a server's certificate with its key."""
    openssl = require_program("openssl")
    own, key, asked, server = (folder / name for name in ("own", "key", "asked", "server"))
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    new = ["req", "-newkey", "rsa:2048", "-nodes", "-subj"]
    signing = ["-CA", own, "-CAkey", folder / "own-key", "-CAcreateserial"]
    for words in (
        [*new, "/CN=authority", "-x509", "-keyout", folder / "own-key", "-out", own],
        [*new, "/CN=127.0.0.1", "-keyout", key, "-out", asked],
        ["x509", "-req", "-in", asked, *signing, "-extfile", folder / "names", "-out", server],
    ):
        subprocess.run([openssl, *map(str, words)], check=True, capture_output=True)
    server.write_text(server.read_text() + key.read_text())
    return own, server


def test_a_login_that_has_run_out(tmp_path: Path, rclone_server: RcloneServer) -> None:
    """A profile whose session ended says which command starts the next."""
    program = tmp_path / "bin" / "aws"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Error: Token has expired' >&2\nexit 255\n")
    program.chmod(0o755)
    (tmp_path / "config").write_text("[profile lab]\nsso_session = lab\n")
    env = {"PATH": f"{program.parent}:/usr/bin:/bin", "AWS_CONFIG_FILE": f"{tmp_path}/config"}
    options = replace(rclone_server.fresh(), env={"HOME": str(tmp_path), **env}, profile="lab")
    error = told(options)
    assert "the login of profile lab is missing or has run out" in str(error)
    assert error.hint == "log in with `aws sso login --profile lab`"


def test_a_login_session_is_used(tmp_path: Path, rclone_server: RcloneServer) -> None:
    """The session that `aws` has opens the bucket without any key in a file."""
    keys = f'{{"Version": 1, "AccessKeyId": "{KEY_ID}", "SecretAccessKey": "{SECRET}"}}'
    program = tmp_path / "bin" / "aws"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/asked\necho '{keys}'\n")
    program.chmod(0o755)
    (tmp_path / "config").write_text("[profile lab]\nsso_session = lab\n")
    env = {"PATH": f"{program.parent}:/usr/bin:/bin", "AWS_CONFIG_FILE": f"{tmp_path}/config"}
    options = replace(rclone_server.fresh(), env={"HOME": str(tmp_path), **env}, profile="lab")
    bucket = open_bucket(options)
    assert not (tmp_path / "asked").exists()
    bucket.put("k", b"1")
    bucket.put("l", b"1")
    assert [entry.key for entry in bucket.walk()] == ["k", "l"]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["configure export-credentials --profile lab --format process"]


def test_a_file_here_that_cannot_be_read(s3: BucketOptions, tmp_path: Path) -> None:
    """What is wrong on this side names the file, not the service."""
    error = told(s3, lambda bucket: bucket.put("k", tmp_path / "missing"))
    assert str(error) == f"{tmp_path}/missing: there is no such file"
    error = told(s3, lambda bucket: bucket.put("k", tmp_path))
    assert "there is a folder of this name" in str(error)


def test_a_long_listing_goes_on_where_it_was_cut(rclone_server: RcloneServer) -> None:
    """Pages that are cut off are asked for again; nothing is missing and nothing comes twice."""
    options = rclone_server.fresh()
    names = [f"{number:05}" for number in range(3100)]
    direct = open_bucket(options)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: direct.put(name, b"1"), names))
    with FaultyProxy(rclone_server.url, {"truncate": 60.0}, seed=2, most=3) as proxy:
        bucket = open_bucket(proxy.before(options))
        assert [entry.key for entry in bucket.walk()] == names
        assert proxy.met.total() >= 2


def test_deleting_many_outlives_lost_connections(rclone_server: RcloneServer) -> None:
    """A batch whose answer never came is sent again, though it may have been obeyed."""
    options = rclone_server.fresh()
    direct = open_bucket(options)
    names = ["a", "b", "c"]
    for name in (*names, "kept"):
        direct.put(name, b"1")
    with FaultyProxy(rclone_server.url, {"drop": 100.0}, most=2) as proxy:
        open_bucket(proxy.before(options)).delete(names)
        assert proxy.met["drop"] == 2
    assert [entry.key for entry in direct.walk()] == ["kept"]


def test_what_cannot_be_signed(s3: BucketOptions) -> None:
    """Addresses for too long, for odd methods or by a signature itself are refused."""
    bucket = open_bucket(s3)
    with pytest.raises(BadRequest, match="seven days"):
        bucket.sign("k", seconds=8 * 24 * 3600)
    with pytest.raises(BadRequest, match="TRACE"):
        bucket.sign("k", seconds=60, method="TRACE")
    env = {"AZURE_STORAGE_ACCOUNT": "lab", "AZURE_STORAGE_SAS_TOKEN": "sig=x"}
    with pytest.raises(Unsupported, match="cannot sign for others"):
        open_bucket(BucketOptions(url="az://lab", env=env)).sign("k", seconds=60)


FAULTS = [
    {"error": 15.0, "throttle": 10.0},
    {"reset": 15.0, "truncate": 10.0},
    {"stall": 8.0},
]


@pytest.mark.parametrize("shares", FAULTS)
def test_a_bad_connection_is_borne(
    rclone_server: RcloneServer, shares: dict[str, float], tmp_path: Path
) -> None:
    """Requests that fail, stall or are cut are made again until all is right."""
    data = bytes(range(256)) * 80_000
    (tmp_path / "big").write_bytes(data)
    options = rclone_server.fresh()
    with FaultyProxy(rclone_server.url, shares, seed=5) as proxy:
        bucket = open_bucket(proxy.before(options, BAY_DATA_TIMEOUT="1"))
        for number in range(15):
            bucket.put(f"k/{number}", b"x" * number)
        bucket.put("big", tmp_path / "big")
        for number in range(15):
            assert b"".join(map(bytes, bucket.read(f"k/{number}"))) == b"x" * number
        assert b"".join(map(bytes, bucket.read("big"))) == data
        assert len(list(bucket.walk())) == 16
        bucket.delete([f"k/{number}" for number in range(15)])
        assert proxy.met.total() >= 3
    assert [entry.key for entry in open_bucket(options).walk()] == ["big"]
