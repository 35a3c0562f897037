"""Object storage as the rest of launchbay sees it: a place with keys, wherever it lies.

A `Bucket` is a prefix in S3, Azure Blob, Google Cloud Storage or a plain folder. Its keys are
relative to that prefix, are taken verbatim, and never begin with `/`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from launchbay.core.errors import BadRequest, DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from typing_extensions import Buffer

SMALLEST_PART = 16 * 1024 * 1024
MOST_PARTS = 10_000
PARTS_AT_ONCE = 8
LONGEST_KEY = 1024
LONGEST_ADDRESS_S = 7 * 24 * 3600
"""As long as any store signs an address for."""
CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_SCHEMES = {
    "s3": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "file": "file",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as a listing shows it."""

    key: str
    size: int
    modified: float
    """Seconds since the epoch."""
    etag: str = ""
    """Without quotes; the same text means the same content, but it may be no checksum."""


@dataclass(frozen=True, slots=True)
class Level:
    """What lies directly in a folder: the folders' keys end with `/`."""

    folders: list[str]
    entries: list[Entry]


@dataclass(frozen=True, kw_only=True)
class BucketOptions:
    """Where a bucket is and how to get in; nothing here is secret but `env`."""

    url: str
    """`s3://bucket[/prefix]`, `gs://…`, `az://container[/prefix]`, `file:///absolute`; verbatim."""
    endpoint: str = ""
    region: str = ""
    account: str = ""
    """The Azure storage account."""
    profile: str = ""
    anonymous: bool = False
    engine: str = ""
    """What carries the bytes, where it is not our own code: `s5cmd`."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where keys are looked up."""


class Bucket(Protocol):
    """A prefix in object storage."""

    url: str
    """For people; no secrets."""
    parts: bool
    """Whether big objects are sent in parts."""

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        """Everything below the folder `prefix` ("" or "data/"), in order of key, lazily."""

    def level(self, prefix: str = "") -> Level:
        """What lies directly in the folder."""

    def head(self, key: str) -> Entry | None:
        """The object, if there is one."""

    def read(
        self, key: str, *, start: int = 0, end: int | None = None, etag: str = ""
    ) -> Iterator[Buffer]:
        """The bytes in chunks; with an etag, `ChangedError` when the object is another by now."""

    def take(self, key: str, *, etag: str = "") -> tuple[Buffer, Mapping[str, str]]:
        """A small object as a whole, with its details; `etag` as for `read`."""

    def details(self, key: str) -> Mapping[str, str]:
        """What is kept beside the object (`mode`, `mtime`)."""

    def put(
        self,
        key: str,
        source: bytes | Path | Iterable[bytes],
        *,
        details: Mapping[str, str] | None = None,
        part_size: int = SMALLEST_PART,
        at_once: int = PARTS_AT_ONCE,
    ) -> str:
        """Send the object, which appears whole or not at all; returns its etag."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove any number of objects; a missing one is no error."""

    def copy(self, key: str, to: str) -> None:
        """Copy inside this bucket without bringing the bytes here."""

    def copy_from(self, other: Bucket, key: str, to: str) -> bool:
        """Let the service copy from another bucket; False when it cannot and the caller must."""

    def sign(self, key: str, *, seconds: int, method: str = "GET") -> str:
        """An address that works for a while without any login."""


def open_bucket(options: BucketOptions) -> Bucket:
    """The bucket that the options name; no request is made."""
    if split_url(options.url)[0] == "file":
        from launchbay.sync.folder_bucket import FolderBucket  # noqa: PLC0415

        return FolderBucket(options)
    # Only here, since loading the library for object storage takes a while.
    from launchbay.sync.object_bucket import ObjectBucket  # noqa: PLC0415

    return ObjectBucket(options)


def same_store(a: BucketOptions, b: BucketOptions) -> bool:
    """Whether one service holds both and one login reaches both, so that it could copy itself."""
    kind = split_url(a.url)[0]
    if kind != split_url(b.url)[0]:
        return False
    if kind == "file":
        return True
    from launchbay.sync.credentials import find_login  # noqa: PLC0415

    first, second = find_login(a), find_login(b)
    return (first.place, first.identity) == (second.place, second.identity)


def split_url(url: str) -> tuple[str, str, str]:
    """Scheme (`s3`, `gs`, `az` or `file`), bucket or container, and prefix ("" or "a/b/").

    For a folder the bucket is the path and there is no prefix.

    >>> split_url("s3://lab/models")
    ('s3', 'lab', 'models/')
    >>> split_url("file:///data/my files")
    ('file', '/data/my files', '')
    """
    word, mark, rest = url.partition("://")
    scheme = _SCHEMES.get(word.lower()) if mark else None
    if scheme is None:
        known = "s3://, gs://, az:// or file:///"
        raise BadRequest(f"`{url}` is no address of a bucket", hint=f"it begins with {known}")
    if scheme == "file":
        if not rest.startswith("/"):
            raise BadRequest(f"`{url}` needs an absolute path", hint="write file:///data, say")
        return scheme, os.path.normpath("/" + rest.lstrip("/")), ""
    name, _, prefix = rest.partition("/")
    if not name:
        raise BadRequest(f"`{url}` names no bucket", hint=f"write {scheme}://bucket/prefix")
    prefix = prefix.strip("/")
    return scheme, name, f"{prefix}/" if prefix else ""


def why_refused(key: str) -> str:
    r"""Why object storage cannot take the key; "" when it can.

    >>> why_refused("a b/#1")
    ''
    >>> why_refused("a//b")
    'it has an empty part between two slashes'
    """
    if not key:
        return "it is empty"
    if key.startswith("/") or key.endswith("/"):
        return "it begins or ends with a slash"
    segments = key.split("/")
    if "" in segments:
        return "it has an empty part between two slashes"
    if "." in segments or ".." in segments:
        return "it has a part `.` or `..`"
    if CONTROL.search(key):
        return "it has a control character"
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        return "it is not UTF-8"
    return f"it is longer than {LONGEST_KEY} bytes" if length > LONGEST_KEY else ""


def check_key(key: str, url: str) -> None:
    """Raise for a key that object storage cannot take."""
    reason = why_refused(key)
    if reason:
        raise DataError(
            f"{url} cannot hold an object named {key!r}: {reason}", hint="give it another name"
        )


def part_size_for(size: int, asked: int = SMALLEST_PART) -> int:
    """How big parts are, so that an object of this size never needs more than are allowed.

    >>> part_size_for(1) == SMALLEST_PART
    True
    >>> part_size_for(5 * 1024**4) // 1024**2
    525
    """
    mebibyte = 1024 * 1024
    needed = -(-size // MOST_PARTS)
    return max(asked, SMALLEST_PART, -(-needed // mebibyte) * mebibyte)


def details_of(status: os.stat_result) -> dict[str, str]:
    """What is kept of a file beside its content: mode (octal) and time (seconds)."""
    seconds, rest = divmod(status.st_mtime_ns, 10**9)
    return {"mode": f"{status.st_mode & 0o7777:04o}", "mtime": f"{seconds}.{rest:09d}"}


def apply_details(path: Path, details: Mapping[str, str]) -> None:
    """Give a file the mode and the time that were kept; what makes no sense is left."""
    mode = kept_mode(details)
    if mode is not None:
        path.chmod(mode)
    time_ns = kept_time_ns(details)
    if time_ns is not None:
        os.utime(path, ns=(time_ns, time_ns))


def kept_mode(details: Mapping[str, str]) -> int | None:
    """The permissions that were kept, without set-user and its like."""
    try:
        return int(details["mode"], 8) & 0o777
    except (KeyError, ValueError):
        return None


def kept_time_ns(details: Mapping[str, str]) -> int | None:
    """The modification time that was kept, exactly."""
    seconds, _, rest = details.get("mtime", "").partition(".")
    try:
        return int(seconds) * 10**9 + int(rest[:9].ljust(9, "0"))
    except ValueError:
        return None
