"""The few S3 requests that obstore cannot make, signed here.

A listing with names that obstore refuses, a copy between two buckets, the region of a bucket.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote_plus, urlencode, urlsplit
from xml.etree import ElementTree as ET

from launchbay.sync.bucket import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launchbay.sync.credential_programs import Keys

_NO_CONTENT = hashlib.sha256(b"").hexdigest()
_TRIES = 5
_SERVER_FAILED = 500
REGION_HEADER = "x-amz-bucket-region"


@dataclass(frozen=True, kw_only=True)
class S3Requests:
    """A bucket, and who asks it; `keys` is None for nobody."""

    endpoint: str
    region: str
    bucket: str
    keys: Keys | None = field(repr=False)
    timeout_s: float
    authorities: str = ""

    def listing(
        self, prefix: str, *, after: str = "", delimiter: str = ""
    ) -> Iterator[Entry | str]:
        """Objects with full keys exactly as they are; common prefixes as plain text."""
        given = {"prefix": prefix, "start-after": after, "delimiter": delimiter}
        asked = {name: value for name, value in given.items() if value}
        asked |= {"list-type": "2", "encoding-type": "url"}
        more = ""
        while True:
            text = self._ask("GET", "", {**asked, **({"continuation-token": more} if more else {})})
            # It comes from the storage that the login is for.
            page = ET.fromstring(text)  # noqa: S314
            space = page.tag.rpartition("}")[0] + "}" if "}" in page.tag else ""
            for item in page:
                name = item.tag.removeprefix(space)
                if name == "Contents":
                    yield _entry(item, space)
                elif name == "CommonPrefixes":
                    yield _plain(item.findtext(f"{space}Prefix") or "")
            more = page.findtext(f"{space}NextContinuationToken") or ""
            if page.findtext(f"{space}IsTruncated") != "true" or not more:
                return

    def copy(self, bucket: str, key: str, to: str) -> bool:
        """Have the service copy from another bucket; False when it did not."""
        source = {"x-amz-copy-source": f"/{bucket}/{quote(key, safe='/~')}"}
        try:
            answer = self._ask("PUT", to, {}, source)
        except OSError:
            return False
        # The service may find out after it said 200.
        return b"<Error>" not in answer

    def _ask(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        for attempt in range(_TRIES):
            try:
                request = self.request(method, key, query, headers)
                with open_url(request, self.timeout_s, self.authorities) as answer:
                    content: bytes = answer.read()
                    return content
            except OSError as error:
                status = error.code if isinstance(error, urllib.error.HTTPError) else None
                final = status is not None and status < _SERVER_FAILED
                if final or attempt == _TRIES - 1:
                    raise
            time.sleep(0.2 * 2**attempt)
        raise AssertionError

    def request(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
    ) -> urllib.request.Request:
        """The request, signed with version 4 of AWS where there are keys."""
        path = f"{urlsplit(self.endpoint).path}/{quote(self.bucket)}"
        path += f"/{quote(key, safe='/~')}" if key else ""
        asked = urlencode(sorted(query.items()), quote_via=quote, safe="~")
        sent = {name.lower(): value for name, value in (headers or {}).items()}
        if self.keys is not None:
            sent |= self._signed(method, path, asked, sent, self.keys)
        place = urlsplit(self.endpoint)
        url = f"{place.scheme}://{place.netloc}{path}{'?' if asked else ''}{asked}"
        sent.pop("host", None)
        return urllib.request.Request(url, method=method, headers=sent)  # noqa: S310

    def _signed(
        self, method: str, path: str, query: str, headers: Mapping[str, str], keys: Keys
    ) -> dict[str, str]:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        sent = {
            **headers,
            "host": urlsplit(self.endpoint).netloc,
            "x-amz-content-sha256": _NO_CONTENT,
            "x-amz-date": now,
            **({"x-amz-security-token": keys.token} if keys.token else {}),
        }
        names = ";".join(sorted(sent))
        lines = "".join(f"{name}:{sent[name]}\n" for name in sorted(sent))
        canonical = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{_NO_CONTENT}"
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
        key = f"AWS4{keys.secret}".encode()
        for word in (*scope.split("/"), text):
            key = hmac.digest(key, word.encode(), "sha256")
        who = f"Credential={keys.id}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
        return {**sent, "authorization": f"AWS4-HMAC-SHA256 {who}"}


def open_url(request: urllib.request.Request, timeout_s: float, authorities: str = "") -> Any:  # noqa: ANN401
    """Make a request of the standard library's, trusting more than the usual certificates."""
    context = _trusting(authorities) if request.type == "https" else None
    return urllib.request.urlopen(request, timeout=timeout_s, context=context)  # noqa: S310


def find_region(endpoint: str, bucket: str, timeout_s: float, authorities: str = "") -> str:
    """Where a bucket lies, as its service tells everyone; "" when it does not."""
    request = urllib.request.Request(f"{endpoint}/{quote(bucket)}", method="HEAD")  # noqa: S310
    secure = urllib.request.HTTPSHandler(context=_trusting(authorities))
    opener = urllib.request.build_opener(_Stay, secure)
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return str(answer.headers.get(REGION_HEADER) or "")
    except urllib.error.HTTPError as refused:
        return str(refused.headers.get(REGION_HEADER) or "")
    except OSError:
        return ""


@cache
def _trusting(authorities: str) -> ssl.SSLContext:
    # Reading the usual certificates takes longer than most requests.
    context = ssl.create_default_context()
    if authorities:
        context.load_verify_locations(authorities)
    return context


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """A redirect is an answer: it says the region."""


def _entry(item: ET.Element, space: str) -> Entry:
    when = datetime.fromisoformat(item.findtext(f"{space}LastModified") or "1970-01-01T00:00:00Z")
    return Entry(
        _plain(item.findtext(f"{space}Key") or ""),
        int(item.findtext(f"{space}Size") or 0),
        when.timestamp(),
        (item.findtext(f"{space}ETag") or "").strip('"'),
    )


def _plain(text: str) -> str:
    """A name as it is, from the form in which all names can be told."""
    return unquote_plus(text)
