"""Real object storage on loopback, and a proxy that misbehaves in front of it.

Each server takes a free port of its own choice, says in its log which, and is ended by its id.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import itertools
import os
import random
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlsplit

from tests.conftest import eventually, require_program

from launchbay.sync.bucket import BucketOptions
from launchbay.sync.credential_programs import Keys
from launchbay.sync.s3_requests import S3Requests

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_ID = "AKIATESTKEY"
SECRET = "secretsecret1"  # noqa: S105 - of a server that lives as long as the test
AZURE_ACCOUNT = "lab"
AZURE_KEY = base64.b64encode(b"a key of the tests").decode()
_numbers = itertools.count(1)


def find_program(name: str) -> str:
    """A program beside Python, in the folder for services, or on PATH."""
    repository = Path(__file__).resolve().parents[2]
    beside = [Path(sys.executable).parent, repository / ".services/node_modules/.bin"]
    path = os.pathsep.join([*map(str, beside), os.environ.get("PATH", "")])
    return shutil.which(name, path=path) or require_program(name)


@dataclass
class Service:
    """A program that serves until it is stopped; `url` is where."""

    announces: ClassVar[str]
    """How the log says the address."""
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="bay-store-")))
    url: str = ""
    host: str = "127.0.0.1"
    """The address that it listens on: this machine's, or one of a network that a test made."""
    process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def extra(self) -> dict[str, str]:
        return {}

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env={**os.environ, **self.extra()},
            )
        eventually(self._says_where)
        found = re.search(self.announces, self.log)
        assert found is not None, self.log
        self.url = found[1].rstrip("/")

    def _says_where(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        return re.search(self.announces, self.log) is not None

    def stop(self) -> None:
        if self.process is not None:
            # Nothing that they hold is worth the wait for an orderly end.
            self.process.kill()
            self.process.wait()
            self.process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh(self) -> BucketOptions:
        """A new, empty bucket."""
        raise NotImplementedError


class RcloneServer(Service):
    """rclone's S3: buckets are folders; keys and signatures are checked."""

    announces = r"Starting s3 server on \[(http://[0-9.]+:\d+)"

    @property
    def buckets(self) -> Path:
        return self.folder / "buckets"

    def command(self) -> list[str]:
        self.buckets.mkdir(exist_ok=True)
        address = ["--addr", f"{self.host}:0", "--auth-key", f"{KEY_ID},{SECRET}"]
        quick = ["--vfs-cache-mode", "off", "--config", os.devnull]
        return [find_program("rclone"), "serve", "s3", str(self.buckets), *address, *quick]

    def fresh(self) -> BucketOptions:
        name = f"bucket-{next(_numbers)}"
        self.make_bucket(name)
        return s3_options(name, self.url)

    def make_bucket(self, name: str) -> None:
        """By a request, since the server remembers for a while which folders there are."""
        keys = Keys(id=KEY_ID, secret=SECRET)
        asker = S3Requests(
            endpoint=self.url, region="us-east-1", bucket=name, keys=keys, timeout_s=60
        )
        with urllib.request.urlopen(asker.request("PUT", "", {})) as answer:  # noqa: S310
            assert answer.status == 200


class MotoServer(Service):
    """moto's S3: everyone may do everything; its error codes are those of AWS."""

    announces = r"Running on (http://127\.0\.0\.1:\d+)"

    def command(self) -> list[str]:
        return [find_program("moto_server"), "-H", "127.0.0.1", "-p", "0"]

    def fresh(self) -> BucketOptions:
        name = f"moto-{next(_numbers)}"
        self.make_bucket(name)
        return s3_options(name, self.url)

    def make_bucket(self, name: str, headers: Mapping[str, str] | None = None) -> None:
        assert call(self.url, "PUT", f"/{name}", headers=headers).status == 200


class AzuriteServer(Service):
    """Microsoft's own stand-in for Azure Blob."""

    announces = r"successfully listens on (http://127\.0\.0\.1:\d+)"

    def command(self) -> list[str]:
        place = ["--blobHost", "127.0.0.1", "--blobPort", "0"]
        quiet = ["--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
        return [find_program("azurite-blob"), *place, "--silent", *quiet]

    def extra(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{AZURE_ACCOUNT}:{AZURE_KEY}"}

    @property
    def endpoint(self) -> str:
        return f"{self.url}/{AZURE_ACCOUNT}"

    def fresh(self) -> BucketOptions:
        name = f"container-{next(_numbers)}"
        self.make_container(name)
        env = {"AZURE_STORAGE_ACCOUNT": AZURE_ACCOUNT, "AZURE_STORAGE_KEY": AZURE_KEY}
        return BucketOptions(url=f"az://{name}", endpoint=self.endpoint, env=env)

    def make_container(self, name: str, *, public: bool = False) -> None:
        """Create a container, which the library for data cannot."""
        own = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        if public:
            own["x-ms-blob-public-access"] = "container"
        headers = "".join(f"{key}:{value}\n" for key, value in sorted(own.items()))
        path = f"/{AZURE_ACCOUNT}/{name}"
        text = f"PUT{12 * chr(10)}{headers}/{AZURE_ACCOUNT}{path}\nrestype:container"
        digest = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256)
        own["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"
        answer = call(self.url, "PUT", f"{path}?restype=container", headers=own)
        assert answer.status == 201, answer


@dataclass
class FolderServer:
    """A folder: nothing to start."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="bay-store-")))

    def start(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh(self) -> BucketOptions:
        place = self.folder / f"folder {next(_numbers)}"
        place.mkdir()
        return BucketOptions(url=f"file://{place}")


STORES: dict[str, type[RcloneServer | MotoServer | AzuriteServer | FolderServer]] = {
    "rclone": RcloneServer,
    "moto": MotoServer,
    "azurite": AzuriteServer,
    "folder": FolderServer,
}


@dataclass
class Answer:
    """What a plain request got."""

    status: int
    headers: dict[str, str]
    body: bytes


def call(
    url: str,
    method: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """A plain HTTP request without any login."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers=dict(headers or {}))
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())


def s3_options(name: str, endpoint: str, **changes: Any) -> BucketOptions:
    """The bucket with the keys that the tests' servers know."""
    env = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
    return BucketOptions(**{"url": f"s3://{name}", "endpoint": endpoint, "env": env, **changes})


FAULTS = ("error", "throttle", "stall", "reset", "truncate", "drop")
_SAID = {"error": (500, "InternalError"), "throttle": (503, "SlowDown")}


class FaultyProxy:
    """A proxy on loopback that fails a share of the requests, by chance that can be repeated.

    `shares` says how many of a hundred requests meet which of the `FAULTS`: a plain 500, a 503
    `SlowDown`, a connection that says nothing for as long as the proxy lives, one that is reset
    midway, a body that ends early, and a connection that is reset once the request was obeyed, with
    no word. `met` counts them, `asked` counts methods, and `most` ends
    the trouble after so many faults. The Host header stays, so that signatures stay valid.
    """

    def __init__(
        self, upstream: str, shares: Mapping[str, float], *, seed: int = 1, most: int | None = None
    ) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.shares = dict(shares)
        self.most = most
        self.met: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.paths: list[str] = []
        self.over = threading.Event()
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self._server = _ProxyServer(("127.0.0.1", 0), _ProxyHandler)
        self._server.proxy = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def before(self, options: BucketOptions, **env: str) -> BucketOptions:
        """The same bucket through this proxy, perhaps with more variables."""
        return replace(options, endpoint=self.url, env={**options.env, **env})

    def fault(self, method: str, path: str) -> str:
        """What this request meets, or nothing."""
        with self._lock:
            self.asked[method] += 1
            self.paths.append(f"{method} {path}")
            if self.most is not None and self.met.total() >= self.most:
                return ""
            drawn = self._chance.random() * 100
            for name, share in self.shares.items():
                drawn -= share
                if drawn < 0:
                    self.met[name] += 1
                    return name
            return ""


class _ProxyServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    proxy: FaultyProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is nothing to tell."""


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _ProxyServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""

    def answer(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.fault(self.command, self.path)
        if fault in _SAID:
            self._refuse(*_SAID[fault])
        elif fault == "stall":
            proxy.over.wait()
            self.close_connection = True
        else:
            self._forward(body, fault)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815 - the parent's names

    def _refuse(self, status: int, code: str) -> None:
        text = f"<Error><Code>{code}</Code><Message>by chance</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _forward(self, body: bytes, fault: str) -> None:
        connection = http.client.HTTPConnection(self.server.proxy.upstream, timeout=60)
        with contextlib.closing(connection):
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            got = connection.getresponse()
            told = got.read()
        if fault == "drop":
            self.close_connection = True
            self._reset()
        else:
            self._pass_on(got, told, fault)

    def _pass_on(self, got: http.client.HTTPResponse, body: bytes, fault: str) -> None:
        self.send_response_only(got.status, got.reason)
        for name, value in got.getheaders():
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        length = got.getheader("Content-Length") if self.command == "HEAD" else str(len(body))
        if length is not None and got.status != http.client.NO_CONTENT:
            self.send_header("Content-Length", length)
        self.end_headers()
        if fault:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.close_connection = True
            if fault == "reset":
                self._reset()
        else:
            self.wfile.write(body)

    def _reset(self) -> None:
        """Close so that the other side is told of a reset, not of an end."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()


class CannedServer:
    """Answers every request alike, as a service in trouble would; `secure` names a certificate."""

    def __init__(
        self,
        status: int,
        code: str = "",
        *,
        said: str = "",
        headers: Mapping[str, str] = {},
        secure: Path | None = None,
    ) -> None:
        text = f"<Error><Code>{code}</Code><Message>{said}</Message></Error>"
        self.body = text.encode() if code else b""
        self.status, self.headers = status, dict(headers)
        self.asked: list[str] = []
        canned = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Say nothing."""

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                canned.asked.append(f"{self.command} {self.path}")
                self.send_response(canned.status)
                for name, value in canned.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(canned.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(canned.body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(secure)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if secure else ''}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def started(kind: str) -> RcloneServer | MotoServer | AzuriteServer | FolderServer:
    """A server of a kind; stopped where it does not come up."""
    made = STORES[kind]()
    try:
        made.start()
    except BaseException:
        made.stop()
        raise
    return made


def closed_port() -> int:
    """A port on loopback where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
