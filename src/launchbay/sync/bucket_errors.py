"""What went wrong with object storage, in one sentence with the fix.

The original stays the cause; it may hold addresses that are signed, so it is never repeated.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from urllib.error import URLError

from launchbay.core.errors import BayError, DataError, Unauthorized, Unreachable

NOBODY = "nobody (anonymous)"

_WRONG_ID = {"InvalidAccessKeyId"}
_WRONG_SECRET = {"SignatureDoesNotMatch", "AuthenticationFailed", "AuthorizationFailure"}
_RUN_OUT = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_WRONG_TOKEN = {"InvalidToken", "UnrecognizedClientException"}
_CLOCK = {"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"}
_NO_BUCKET = {"NoSuchBucket", "InvalidBucketName", "ContainerNotFound", "InvalidResourceName"}
_NO_OBJECT = {"NoSuchKey", "BlobNotFound", "ResourceNotFound", "NotFound"}
_REGION = {
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "IncorrectEndpoint",
}
_THROTTLED = {"SlowDown", "TooManyRequests", "ServerBusy", "Throttling", "RequestLimitExceeded"}
_FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "AccountIsFull"}
_TOO_LONG = {"KeyTooLongError", "InvalidUri"}
_DENIED = {
    "AccessDenied",
    "AllAccessDisabled",
    "AccountProblem",
    "AuthorizationPermissionMismatch",
    "InsufficientAccountPermissions",
    "NoAuthenticationInformation",
    "PublicAccessNotPermitted",
    "UnsupportedAlgorithm",
}


class StorageUnreachable(DataError, Unreachable):
    """Object storage did not answer, or failed inside; trying later may help."""


class StorageUnauthorized(DataError, Unauthorized):
    """Object storage does not know who asks; nothing else will work, either."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What was tried: words for the sentence."""

    url: str
    key: str = ""
    login: str = NOBODY
    profile: str = ""
    endpoint: str = ""
    region: str = ""

    @property
    def thing(self) -> str:
        """The object, or else the bucket."""
        return f"{self.url}/{self.key}" if self.key else self.url

    @property
    def service(self) -> str:
        """Who answers, or not."""
        return self.endpoint or f"the service of {self.url}"


def explain(error: BaseException, attempt: Attempt) -> BayError:
    """The error in words."""
    if isinstance(error, BayError):
        return error
    text = str(error)
    local = _os_number(error, text)
    if local:
        return _of_this_machine(local, error, attempt)
    code, status = _code(text), _status(text)
    who = _by_login(code, status, attempt)
    if who is not None:
        return StorageUnauthorized(who[0], hint=who[1])
    where = _by_place(code, status, text, attempt)
    if where is not None:
        return DataError(where[0], hint=where[1])
    when = _by_moment(code, status, text, attempt)
    if when is not None:
        return StorageUnreachable(when[0], hint=when[1])
    fix = "try again; if it stays, ask who runs the service"
    return DataError(f"{attempt.thing}: {_gist(text, code)}", hint=fix)


def is_region(error: BaseException) -> bool:
    """Whether the bucket lies in another region than was asked."""
    text = str(error)
    return "incorrectly configured region" in text or _code(text) in _REGION


def is_denied(error: BaseException) -> bool:
    """Whether the service refused without saying why, as it does where an answer has no body."""
    return _status(str(error)) in {400, 401, 403} and not _code(str(error))


def is_cut(error: BaseException) -> bool:
    """Whether a connection broke in the middle of something that obstore does not try again.

    That is an answer that had begun, and any answer to a request that it takes for one that
    may be made only once, such as deleting many.
    """
    text = str(error)
    begun = "body error" in text or "IncompleteMessage" in text
    untried = "kind: Interrupted" in text and "retries: 0" in text
    return _status(text) is None and (begun or untried)


def is_lost(error: BaseException) -> bool:
    """Whether the connection or the service failed, so that trying again may help."""
    text = str(error)
    status = _status(text)
    if status is not None:
        return status >= 500 or status == 429  # noqa: PLR2004
    return "HTTP error" in text or "HttpError" in text or isinstance(error, _LOST)


def _by_login(code: str, status: int | None, attempt: Attempt) -> tuple[str, str] | None:
    if attempt.login == NOBODY and (code in _DENIED | _WRONG_SECRET or status in {401, 403}):
        return _not_for_everyone(attempt)
    if code in _WRONG_ID:
        return (
            f"{attempt.service} does not know the key of {attempt.login}",
            "check AWS_ACCESS_KEY_ID, and that the endpoint is the one that the key is for",
        )
    if code in _WRONG_SECRET:
        azure = attempt.url.startswith("az://")
        name = "AZURE_STORAGE_KEY" if azure else "AWS_SECRET_ACCESS_KEY"
        return (
            f"{attempt.service} refuses the secret key of {attempt.login}",
            f"check {name}: it belongs to another key or place",
        )
    if code in _RUN_OUT or (code in _WRONG_TOKEN and attempt.profile):
        again = f"aws sso login --profile {attempt.profile}" if attempt.profile else ""
        fix = f"log in with `{again}`" if again else "set new AWS_ keys and AWS_SESSION_TOKEN"
        return f"the login for {attempt.url} has run out ({attempt.login})", fix
    if code in _WRONG_TOKEN:
        fix = "remove AWS_SESSION_TOKEN, or set the one that belongs to the keys"
        return f"{attempt.service} refuses the session token of {attempt.login}", fix
    if code in _CLOCK:
        fix = "set the clock; `timedatectl` shows it"
        return f"this machine's clock is too far from that of {attempt.service}", fix
    return None


def _by_place(code: str, status: int | None, text: str, attempt: Attempt) -> tuple[str, str] | None:
    if is_region(Exception(text)) or status in {301, 307}:
        expected = re.search(r"expecting '([\w-]+)'", text) or re.search(
            r"<Region>([\w-]+)</Region>", text
        )
        there = expected[1] if expected else "the bucket's"
        here = attempt.region or "us-east-1"
        return (
            f"{attempt.url} does not lie in region {here}",
            f"set `region:` of the bucket, or AWS_REGION, to {there}",
        )
    if code in _NO_BUCKET or (status == 404 and not attempt.key):  # noqa: PLR2004
        at = f" at {attempt.endpoint}" if attempt.endpoint else ""
        return (
            f"there is no bucket {attempt.url}{at}",
            "check the name, the endpoint and the region",
        )
    if code in _NO_OBJECT or status == 404 or text.startswith("Object at location"):  # noqa: PLR2004
        fix = "`bay data ls` shows what there is"
        return f"there is no object {attempt.key} in {attempt.url}", fix
    if code in _FULL or status == 507:  # noqa: PLR2004
        return f"{attempt.url} is full", "remove what is not needed, or ask for more room"
    if code in _TOO_LONG:
        return f"{attempt.service} does not take the name {attempt.key!r}", "give it another name"
    if code in _DENIED or status in {401, 403} or "lacked" in text:
        return (
            f"{attempt.login} may not do this with {attempt.thing}",
            "ask its owner for the right; without that to list, a missing object looks the same",
        )
    return None


def _not_for_everyone(attempt: Attempt) -> tuple[str, str]:
    return (
        f"{attempt.thing} is not open to everyone, and no keys were found",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in .env, or name a `profile:`"
        if attempt.url.startswith("s3:")
        else "log in with the cloud's program (`az login`, `gcloud auth login`), or set a key",
    )


def _by_moment(
    code: str, status: int | None, text: str, attempt: Attempt
) -> tuple[str, str] | None:
    if code in _THROTTLED or status in {429, 503}:
        fix = "try again later, or with fewer transfers at once"
        return f"{attempt.service} had too many requests, in spite of waiting between them", fix
    if status is not None and status >= 500:  # noqa: PLR2004
        return f"{attempt.service} failed inside (status {status})", "try again later"
    return _by_network(text, attempt)


def _by_network(text: str, attempt: Attempt) -> tuple[str, str] | None:
    if "dns error" in text or "Name or service not known" in text:
        fix = "check the endpoint's name, and whether this machine is online"
        return f"the name of {attempt.service} is not known", fix
    if re.search(
        r"[Cc]ertificate|InvalidMessage|AlertReceived|CaUsedAsEndEntity|HandshakeFail", text
    ):
        fix = "check whether the endpoint is http:// or https://, and its certificate"
        return f"no secure connection to {attempt.service}", fix
    if "ConnectionRefused" in text or "Connection refused" in text:
        fix = "check the endpoint, and whether it is running"
        return f"{attempt.service} refuses the connection", fix
    if "Timeout" in text or "TimedOut" in text or "timed out" in text:
        return f"{attempt.service} does not answer", "check the network, then try again"
    if "BadScheme" in text:
        return f"{attempt.service} is no address", "an endpoint begins with http:// or https://"
    if re.search(r"HTTP error|HttpError|NetworkUnreachable|urlopen error|Connection reset", text):
        fix = "check the network, then try again"
        return f"the connection to {attempt.service} was lost", fix
    if "obtain" in text and "az" in text:
        return f"the login of `az` does not open {attempt.url}", "log in with `az login`"
    return None


def _of_this_machine(number: int, error: BaseException, attempt: Attempt) -> DataError:
    name = getattr(error, "filename", None) or attempt.key or attempt.url
    words = {
        errno.ENOSPC: ("the disk is full", "make room, then try again"),
        errno.EDQUOT: ("your quota on this disk is used up", "make room, then try again"),
        errno.EACCES: ("you may not", "check who owns it and its permissions: ls -ld"),
        errno.EPERM: ("you may not", "check who owns it and its permissions: ls -ld"),
        errno.EROFS: ("this disk is read-only", "choose another folder"),
        errno.ENAMETOOLONG: ("the name is too long for this disk", "give it a shorter one"),
        errno.EISDIR: ("there is a folder of this name", "a file and a folder cannot share it"),
        errno.ENOTDIR: ("a part of this path is a file", "a file and a folder cannot share a name"),
        errno.EEXIST: ("a part of this path is a file", "a file and a folder cannot share a name"),
        errno.EMFILE: ("too many files are open", "raise the limit: ulimit -n 4096"),
        errno.ENOENT: ("there is no such file", "check the name"),
    }
    sentence, fix = words.get(number, (os.strerror(number), "check the disk"))
    return DataError(f"{name}: {sentence}", hint=fix)


def _os_number(error: BaseException, text: str) -> int:
    """The number of this machine's own error, not of one that a service or the network made."""
    if not isinstance(error, OSError) or text.startswith("Object at location"):
        return 0
    found = re.search(r"\(os error (\d+)\)", text)
    number = error.errno or (int(found[1]) if found else 0)
    return 0 if number in _OF_NETWORK else number


_LOST = (ConnectionError, TimeoutError, URLError)
_OF_NETWORK = {
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ETIMEDOUT,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EPIPE,
}


def _code(text: str) -> str:
    found = re.search(r"<Code>\s*(\w+)\s*</Code>", text)
    return found[1] if found else ""


def _status(text: str) -> int | None:
    found = re.search(r"status code: (\d{3})|HTTP Error (\d{3})|\(code: (\d{3})\)", text)
    return int(next(filter(None, found.groups()))) if found else None


def _gist(text: str, code: str) -> str:
    """What is left when nothing is known of it: no address, no markup, one short line."""
    if code:
        return f"the service said {code}"
    line = text.partition("\n")[0].rpartition(" - ")[2]
    bare = re.sub(r"https?://\S+|<[^>]*>", "…", line)
    return bare[:200].strip() or "the service gave no reason"
