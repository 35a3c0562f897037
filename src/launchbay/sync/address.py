"""What people write for a place in object storage, taken apart; nothing is asked of any store."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

SCHEMES = ("s3", "gs", "az", "file")
NAMED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9_-]*):(?P<key>(?!//).*)", re.DOTALL)
WILDCARD = re.compile(r"[*?\[\\]")
BLOB_HOST = re.compile(r"(?P<account>[a-z0-9]{3,24})\.(?:blob|dfs)\.core\.windows\.net")


@dataclass(frozen=True, kw_only=True)
class Address:
    """A place in a store, and a key, folder or pattern in it."""

    store: str
    """`s3://bucket`, `gs://bucket`, `az://container`, or `file://` and a folder."""
    key: str = ""
    account: str = ""
    """The storage account, where the address of an Azure blob names it."""

    @property
    def url(self) -> str:
        """The whole as one text."""
        return join_url(self.store, self.key)

    def at(self, key: str) -> Address:
        """Another key of the same place."""
        return replace(self, key=key)


def parse_url(text: str) -> Address | None:
    """The address that a URL is; None where the text is no URL of a store.

    >>> parse_url("s3://lab/data/*.txt")
    Address(store='s3://lab', key='data/*.txt', account='')
    >>> parse_url("file:///tmp/lab/data/*.txt")
    Address(store='file:///tmp/lab/data', key='*.txt', account='')
    >>> parse_url("west:models/") is None
    True
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return None
    if scheme == "file":
        return _parse_file(rest)
    if scheme == "https" and (host := BLOB_HOST.match(rest)):
        container, _, key = unquote(urlsplit(text).path).lstrip("/").partition("/")
        return Address(store=f"az://{container}", key=key, account=host["account"])
    bucket, _, key = rest.partition("/")
    if scheme not in SCHEMES or not bucket:
        return None
    return Address(store=f"{scheme}://{bucket}", key=key.lstrip("/"))


def parse_named(text: str) -> tuple[str, str] | None:
    """The name and the key of `west:models/`; None where there is no name in front.

    >>> parse_named("west:models/"), parse_named("data/a:b"), parse_named("s3://lab/x")
    (('west', 'models/'), None, None)
    """
    found = NAMED.fullmatch(text)
    return (found["name"], found["key"].lstrip("/")) if found else None


def is_storage(text: str) -> bool:
    """Whether a folder's source is in object storage: a URL, or `NAME:…` that is no claim."""
    return parse_url(text) is not None or (parse_named(text) or ("claim",))[0] != "claim"


def join_url(url: str, key: str) -> str:
    """The URL of something below another one.

    >>> join_url("s3://lab/me/", "data/x"), join_url("s3://lab", "")
    ('s3://lab/me/data/x', 's3://lab')
    """
    return f"{url.removesuffix('/')}/{key}" if key else url


def folder_url(path: Path) -> str:
    """A folder of this machine as a store."""
    return f"file://{path.expanduser().absolute()}"


def _parse_file(path: str) -> Address:
    """The folder that holds what is meant is the store."""
    parts = path.split("/")
    plain = next((at for at, part in enumerate(parts) if WILDCARD.search(part)), len(parts))
    last = len(parts) - 2 if path.endswith("/") else len(parts) - 1
    at = max(1, min(plain, last))
    return Address(store=f"file://{'/'.join(parts[:at]) or '/'}", key="/".join(parts[at:]))
