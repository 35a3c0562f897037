"""S3 and what speaks it, Azure Blob and Google Cloud Storage, through obstore.

This module loads obstore; import it only when data is used.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import obstore
from obstore.exceptions import BaseError, InvalidPathError

from launchbay.core.errors import BadRequest, BayError, ChangedError, DataError, Unsupported
from launchbay.sync.azure_requests import Signer, copy_blob
from launchbay.sync.bucket import (
    LONGEST_ADDRESS_S,
    PARTS_AT_ONCE,
    SMALLEST_PART,
    Entry,
    Level,
    check_key,
    part_size_for,
    split_url,
)
from launchbay.sync.bucket_errors import Attempt, explain, is_cut, is_denied, is_region
from launchbay.sync.credentials import find_login
from launchbay.sync.object_reading import Reading, bare
from launchbay.sync.object_store import (
    DEFAULT_REGION,
    Patience,
    address,
    connect,
    s3_endpoint,
)
from launchbay.sync.s3_requests import S3Requests, find_region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from obstore import HTTP_METHOD, GetResult, ObjectMeta
    from typing_extensions import Buffer

    from launchbay.sync.bucket import Bucket, BucketOptions
    from launchbay.sync.object_store import Store

PAGE = 1000
TRIES = 4
SMALL = 4 * 1024 * 1024
AT_ONCE = 16
METHODS = ("GET", "HEAD", "PUT", "DELETE")

_FAILURES = (BaseError, OSError, ValueError)
# Deleting in batches is not known there, or one of many did not exist.
_ONE_BY_ONE = ("status code: 400", "status code: 405", "status code: 501", "(code: 404)")
_TOO_BIG_TO_COPY = ("EntityTooLarge", "InvalidRequest")
_STANDARD = {
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Content-Type",
    "Cache-Control",
    "Storage-Class",
}
T = TypeVar("T")


class ObjectBucket:
    """A prefix in a bucket or container."""

    parts = True

    def __init__(self, options: BucketOptions) -> None:
        self.kind, self.name, self.prefix = split_url(options.url)
        self.url = f"{self.kind}://{self.name}/{self.prefix}".rstrip("/")
        if self.prefix:
            check_key(self.prefix[:-1], f"{self.kind}://{self.name}")
        self.login = find_login(options)
        self.patience = Patience.of(options.env)
        self.partial = True
        self._failed: list[BayError] = []
        self._connect()

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        """All objects below the folder, page by page; markers of empty folders are none."""
        last = ""
        full = self._full_prefix(prefix)
        with self._explained(prefix):
            try:
                for page in self._pages(full):
                    for entry in self._objects(page):
                        last = entry.key
                        yield entry
            except (InvalidPathError, DataError) as error:
                yield from self._odd_walk(full, last, _odd_name(error))

    def level(self, prefix: str = "") -> Level:
        """The objects and folders directly in the folder."""
        full, cut = self._full_prefix(prefix), len(self.prefix)
        try:
            found = self._ask(prefix, lambda store: obstore.list_with_delimiter(store, full))
        except DataError as error:
            return self._odd_level(full, _odd_name(error))
        folders = [f"{name[cut:]}/" for name in found["common_prefixes"]]
        return Level(sorted(folders), [self._entry(meta) for meta in found["objects"]])

    def head(self, key: str) -> Entry | None:
        """The object, if there is one."""
        full = self._full(key)
        try:
            return self._entry(self._ask(key, lambda store: obstore.head(store, full)))
        except DataError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            if error.__cause__ is not None and is_denied(error.__cause__):
                # The answer to this request has no body, which would say why.
                self._ask(key, lambda store: obstore.get(store, full, options={"range": (0, 1)}))
            raise

    def read(
        self, key: str, *, start: int = 0, end: int | None = None, etag: str = ""
    ) -> Iterator[Buffer]:
        """The bytes in chunks; a lost connection is made again."""
        if end is not None and end <= start:
            return
        with self._explained(key):
            reading = Reading(self, self._full(key), start, end, etag)
            try:
                yield from reading.chunks()
            except _FAILURES as error:
                if not is_region(error) or not self._move():
                    raise
                yield from reading.chunks()

    def take(self, key: str, *, etag: str = "") -> tuple[Buffer, Mapping[str, str]]:
        """The object and its own metadata in one request."""
        full = self._full(key)

        def get(store: Store) -> tuple[Buffer, Mapping[str, str], str]:
            answer = obstore.get(store, full)
            return answer.bytes(), _kept(answer), bare(answer.meta["e_tag"])

        data, details, found = self._ask(key, get)
        if etag and found != etag:
            raise ChangedError(f"{key} in {self.url} was changed meanwhile", hint="try again")
        return data, details

    def details(self, key: str) -> Mapping[str, str]:
        """The object's own metadata."""
        full = self._full(key)
        return _kept(self._ask(key, lambda store: obstore.get(store, full, options={"head": True})))

    def put(
        self,
        key: str,
        source: bytes | Path | Iterable[bytes],
        *,
        details: Mapping[str, str] | None = None,
        part_size: int = SMALLEST_PART,
        at_once: int = PARTS_AT_ONCE,
    ) -> str:
        """Send the object in one piece or in parts; it appears when all have arrived."""
        full = self._full(key)
        with self._explained(key):
            size = _size(source)

        def send(store: Store) -> str:
            done = obstore.put(
                self._sender if size is None or size > SMALL else store,
                full,
                source,
                attributes=dict(details or {}),
                chunk_size=part_size_for(size or 0, part_size),
                max_concurrency=at_once,
            )
            return bare(done["e_tag"])

        if size is not None:
            return self._ask(key, send)
        # What has been read of it once cannot be sent again, so the region must be right.
        self._settle()
        return self._ask(key, send, tries=1)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects in batches."""
        rest = iter(keys)
        while batch := [self._full(key) for key in islice(rest, PAGE)]:
            try:
                self._ask("", lambda store, batch=batch: obstore.delete(store, batch))  # type: ignore[misc]
            except DataError as error:
                text = str(error.__cause__)
                known = isinstance(error.__cause__, FileNotFoundError)
                if not known and not any(words in text for words in _ONE_BY_ONE):
                    raise
                self._delete_each(batch)

    def copy(self, key: str, to: str) -> None:
        """Copy inside the bucket, on the server where it is not too big for that."""
        source, target = self._full(key), self._full(to)
        try:
            self._ask(key, lambda store: obstore.copy(store, source, target))
        except DataError as error:
            if not any(code in str(error.__cause__) for code in _TOO_BIG_TO_COPY):
                raise
            self.put(to, map(bytes, self.read(key)), details=self.details(key))

    def copy_from(self, other: Bucket, key: str, to: str) -> bool:
        """Have the service copy, where one login reaches both buckets there."""
        if not isinstance(other, ObjectBucket):
            return False
        here, there = self.login, other.login
        if (here.place, here.identity) != (there.place, there.identity):
            return False
        source, target = other._full(key), self._full(to)  # noqa: SLF001 - one of us
        with self._explained(key):
            if other.name == self.name:
                with suppress(BaseError):
                    obstore.copy(self.store, source, target)
                    return True
            elif self.kind == "s3" and (here.keys or here.anonymous):
                return self._requests().copy(other.name, source, target)
            elif self.kind == "az" and "account_key" in here.settings:
                from_there = other.sign_full(source, 3600, "GET")
                return copy_blob(from_there, self.sign_full(target, 3600, "PUT"))
        return False

    def sign(self, key: str, *, seconds: int, method: str = "GET") -> str:
        """An address that works for a while, or for ever where everyone may read."""
        if not 0 < seconds <= LONGEST_ADDRESS_S:
            raise BadRequest("an address works for seven days at most", hint="ask for less")
        if method not in METHODS:
            known = ", ".join(METHODS)
            raise BadRequest(f"an address for {method} cannot be signed", hint=f"one of {known}")
        if "sas_key" in self.login.settings:
            raise Unsupported(
                "a shared access signature cannot sign for others",
                hint="set AZURE_STORAGE_KEY, which can",
            )
        with self._explained(key):
            full = self._full(key)
            self._settle()
            return self.sign_full(full, seconds, method)

    def sign_full(self, full: str, seconds: int, method: str) -> str:
        """The address of a full key."""
        plain = address(self.kind, self.name, self.login, full)
        if self.login.anonymous:
            return plain
        if "account_key" in self.login.settings:
            # obstore's own signature is wrong for names beyond ASCII.
            signer = Signer(container=self.name, **self.login.settings)
            return signer.address(plain, full, seconds=seconds, method=method)
        verb = cast("HTTP_METHOD", method)
        return obstore.sign(self.store, verb, full, timedelta(seconds=seconds))

    def _connect(self) -> None:
        self._settled = bool(self.kind != "s3" or self.login.region or self.login.endpoint)
        self.store: Store = connect(
            self.kind, self.name, self.login, patience=self.patience, failed=self._failed
        )
        self._sender: Store = connect(
            self.kind,
            self.name,
            self.login,
            patience=self.patience,
            sending=True,
            failed=self._failed,
        )

    def _ask(self, key: str, request: Callable[[Store], T], *, tries: int = TRIES) -> T:
        """Make a request, and again where its answer was cut off or the region was wrong."""
        for attempt in range(1, tries):
            try:
                return request(self.store)
            except _FAILURES as error:
                with self._explained(key):
                    if not is_cut(error) and not (is_region(error) and self._move()):
                        raise
            time.sleep(0.1 * 2**attempt)
        with self._explained(key):
            return request(self.store)

    def _settle(self) -> None:
        """Know the region, where nobody said it and the request to come cannot be made twice."""
        if not self._settled:
            self._move()
            self._settled = True

    def _move(self) -> bool:
        login, patience = self.login, self.patience
        region = find_region(s3_endpoint(login), self.name, patience.stalled_s, login.authorities)
        if self.kind != "s3" or not region or region == (self.login.region or DEFAULT_REGION):
            return False
        self.login = replace(self.login, region=region)
        self._connect()
        return True

    def _pages(self, full: str) -> Iterator[Sequence[ObjectMeta]]:
        """The pages of a listing, which goes on where an answer was cut off."""
        last, key = "", full[len(self.prefix) :]
        while True:
            stream, page = self._ask(key, lambda store: _begun(store, full, last))  # noqa: B023
            try:
                while page:
                    yield [meta for meta in page if meta["path"] > last]
                    last = max(last, *(meta["path"] for meta in page))
                    page = next(stream, [])
            except BaseError as error:
                if not is_cut(error):
                    raise
            else:
                return

    def _objects(self, page: Sequence[ObjectMeta]) -> Iterator[Entry]:
        """A page without the markers of empty folders, which are listed without their slash."""
        entries = [self._entry(meta) for meta in page]
        keys = [entry.key for entry in entries]
        doubtful = [
            entry.key
            for entry, after in zip(entries, [*keys[1:], ""], strict=False)
            if not entry.size
            and ("." not in entry.key.rpartition("/")[2] or after.startswith(f"{entry.key}/"))
        ]
        if doubtful:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                real = dict(zip(doubtful, pool.map(self.head, doubtful), strict=True))
            entries = [entry for entry in entries if real.get(entry.key, entry)]
        return iter(entries)

    def _odd_walk(self, full: str, last: str, error: InvalidPathError) -> Iterator[Entry]:
        """Go on with our own listing, which takes all names."""
        for found in self._own_listing(full, self.prefix + last if last else "", error):
            if isinstance(found, Entry):
                yield found

    def _odd_level(self, full: str, error: InvalidPathError) -> Level:
        level = Level([], [])
        for found in self._own_listing(full, "", error, delimiter="/"):
            if isinstance(found, Entry):
                level.entries.append(found)
            else:
                level.folders.append(found)
        return level

    def _own_listing(
        self, full: str, after: str, error: InvalidPathError, delimiter: str = ""
    ) -> Iterator[Entry | str]:
        if self.kind != "s3" or not (self.login.keys or self.login.anonymous):
            odd = str(error).partition("\n")[0].removeprefix("Encountered object with ")
            raise DataError(
                f"{self.url} holds an object with a name that cannot be used: {odd}",
                hint="rename or remove it with the service's own tool",
            ) from error
        cut = len(self.prefix)
        for found in self._requests().listing(full, after=after, delimiter=delimiter):
            if isinstance(found, str):
                yield found[cut:]
            elif not found.key.endswith("/"):
                yield replace(found, key=found.key[cut:])

    def _delete_each(self, batch: Sequence[str]) -> None:
        def delete(full: str) -> None:
            with suppress(FileNotFoundError):
                obstore.delete(self.store, full)

        with self._explained(""), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(delete, batch))

    def _requests(self) -> S3Requests:
        return S3Requests(
            endpoint=s3_endpoint(self.login),
            region=self.login.region or DEFAULT_REGION,
            bucket=self.name,
            keys=self.login.keys() if self.login.keys else None,
            timeout_s=self.patience.stalled_s,
            authorities=self.login.authorities,
        )

    def _full(self, key: str) -> str:
        check_key(self.prefix + key, self.url)
        if self.kind == "az" and "\\" in key:
            raise DataError(
                f"{self.url} cannot hold an object named {key!r}: Azure takes `\\` for a slash",
                hint="give it another name",
            )
        return self.prefix + key

    def _full_prefix(self, prefix: str) -> str:
        return f"{self._full(prefix.rstrip('/'))}/" if prefix else self.prefix

    def _entry(self, meta: ObjectMeta) -> Entry:
        return Entry(
            meta["path"][len(self.prefix) :],
            meta["size"],
            meta["last_modified"].timestamp(),
            bare(meta["e_tag"]),
        )

    @contextmanager
    def _explained(self, key: str) -> Iterator[None]:
        try:
            yield
        except BayError:
            raise
        except InvalidPathError as error:
            raise DataError(f"{self.url} holds a name that cannot be used") from error
        except _FAILURES as error:
            if self._failed:
                raise self._failed[-1] from error
            raise explain(error, self._attempt(key)) from error

    def _attempt(self, key: str) -> Attempt:
        login = self.login
        return Attempt(
            url=self.url,
            key=key,
            login=login.words,
            profile=login.profile,
            endpoint=login.endpoint,
            region=login.region,
        )


def _begun(
    store: Store, full: str, after: str
) -> tuple[Iterator[Sequence[ObjectMeta]], Sequence[ObjectMeta]]:
    """A listing with its first page, so that what is wrong shows now."""
    stream = iter(obstore.list(store, full or None, offset=after or None, chunk_size=PAGE))
    return stream, next(stream, [])


def _odd_name(error: Exception) -> InvalidPathError:
    """The complaint about a name that obstore refuses; raises any other error again."""
    for one in (error, error.__cause__):
        if isinstance(one, InvalidPathError):
            return one
    raise error


def _kept(answer: GetResult) -> dict[str, str]:
    kept = answer.attributes.items()
    return {name.lower(): value for name, value in kept if name not in _STANDARD}


def _size(source: bytes | Path | Iterable[bytes]) -> int | None:
    if isinstance(source, bytes):
        return len(source)
    return source.stat().st_size if isinstance(source, Path) else None
