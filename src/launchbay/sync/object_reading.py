"""Reading an object in chunks, going on where a connection was lost."""

from __future__ import annotations

import time
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Protocol
from urllib.error import HTTPError

import obstore
from obstore.exceptions import BaseError, PreconditionError

from launchbay.core.errors import ChangedError
from launchbay.sync.bucket_errors import is_lost
from launchbay.sync.s3_requests import open_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore import GetOptions

    from launchbay.sync.credentials import Login
    from launchbay.sync.object_store import Patience, Store

CHUNK = 1024 * 1024
PLAIN_CHUNK = 512 * 1024
_TRIES = 5
_ADDRESS_S = 3600
_PAST_THE_END = 416
_PAST_THE_END_SAID = ("status code: 416", "StartTooLarge")


class Source(Protocol):
    """What is read from."""

    login: Login
    patience: Patience
    partial: bool
    """Whether the service says that a part is a part; rclone's does not."""

    @property
    def store(self) -> Store:
        """The store of obstore."""

    def sign_full(self, full: str, seconds: int, method: str) -> str:
        """An address that needs no login."""


class Reading:
    """One object, read from a position on; the object must stay the same."""

    def __init__(self, source: Source, full: str, start: int, end: int | None, etag: str) -> None:
        self.source, self.full = source, full
        self.position, self.end, self.etag = start, end, etag
        self.expected = end

    def chunks(self) -> Iterator[bytes]:
        """The bytes; a lost connection is made again so long as that helps."""
        failures = 0
        while True:
            before = self.position
            try:
                yield from self._ask()
            except (BaseError, OSError, HTTPException) as error:
                failures = 0 if self.position > before else failures + 1
                if not self._goes_on(error) or failures >= _TRIES:
                    raise
                time.sleep(0.1 * 2**failures)
                continue
            if self.expected is None or self.position >= self.expected:
                return
            failures += 1
            if failures >= _TRIES:
                raise OSError(f"HTTP error: {self.full} ended early")

    def _ask(self) -> Iterator[bytes]:
        if not self.source.partial and (self.position or self.end is not None):
            yield from self._plainly()
            return
        try:
            answer = obstore.get(self.source.store, self.full, options=self._options())
        except PreconditionError as error:
            raise self._changed() from error
        except BaseError as error:
            if any(words in str(error) for words in _PAST_THE_END_SAID):
                self.expected = self.position
                return
            if not self._is_mislabelled(error):
                raise
            yield from self._plainly()
            return
        self._same(answer.meta["e_tag"] or "")
        self.expected = answer.range[1]
        for chunk in answer.stream(min_chunk_size=CHUNK):
            self.position += len(chunk)
            yield chunk

    def _goes_on(self, error: Exception) -> bool:
        lost = isinstance(error, HTTPException) or is_lost(error)
        return lost or (self.source.partial and self._is_mislabelled(error))

    def _is_mislabelled(self, error: Exception) -> bool:
        """Whether a part was called a whole; this is remembered."""
        found = "non-partial response" in str(error)
        self.source.partial = self.source.partial and not found
        return found

    def _options(self) -> GetOptions:
        asked: GetOptions = {}
        if self.etag:
            asked["if_match"] = f'"{self.etag}"'
        if self.end is not None:
            asked["range"] = (self.position, self.end)
        elif self.position:
            asked["range"] = {"offset": self.position}
        return asked

    def _plainly(self) -> Iterator[bytes]:
        """The same with a signed address: obstore refuses an honest part that is called a whole."""
        try:
            opened = self._open_plainly()
        except HTTPError as error:
            if error.code != _PAST_THE_END:
                raise
            self.expected = self.position
            return
        with opened as answer:
            self._same(answer.headers.get("ETag") or "")
            length = int(answer.headers.get("Content-Length") or 0)
            skip = 0 if answer.headers.get("Content-Range") else self.position
            stop = self.position + length - skip
            self.expected = stop if self.end is None else min(stop, self.end)
            while skip and (passed := answer.read(min(skip, PLAIN_CHUNK))):
                skip -= len(passed)
            while self.position < self.expected:
                chunk: bytes = answer.read(min(PLAIN_CHUNK, self.expected - self.position))
                if not chunk:
                    return
                self.position += len(chunk)
                yield chunk

    def _open_plainly(self) -> Any:  # noqa: ANN401 - as urllib has it
        address = self.source.sign_full(self.full, _ADDRESS_S, "GET")
        last = "" if self.end is None else str(self.end - 1)
        wanted = {"Range": f"bytes={self.position}-{last}"}
        request = urllib.request.Request(address, headers=wanted)  # noqa: S310
        return open_url(request, self.source.patience.stalled_s, self.source.login.authorities)

    def _same(self, etag: str) -> None:
        """Not every service looks at the condition, so it is looked at here."""
        found = bare(etag)
        if self.etag and found != self.etag:
            raise self._changed()
        self.etag = self.etag or found

    def _changed(self) -> ChangedError:
        return ChangedError(f"{self.full} was changed meanwhile", hint="try again")


def bare(etag: str | None) -> str:
    """An etag without quotes."""
    return (etag or "").removeprefix("W/").strip('"')
