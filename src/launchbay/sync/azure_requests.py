"""The few requests to Azure Blob that obstore cannot make, or makes wrong."""

from __future__ import annotations

import base64
import hmac
import urllib.request
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

_VERSION = "2021-08-06"
_MAY = {"GET": "r", "HEAD": "r", "PUT": "cw", "DELETE": "d"}
_TIMEOUT_S = 300


@dataclass(frozen=True, kw_only=True)
class Signer:
    """A container, and the account's key to sign with."""

    container: str
    account_name: str
    account_key: str = field(repr=False)

    def address(self, plain: str, key: str, *, seconds: int, method: str) -> str:
        """The plain address of a key with a shared access signature."""
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        expiry = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        may = _MAY[method]
        resource = f"/blob/{self.account_name}/{self.container}/{key}"
        # permissions, start, expiry, resource; then identifier, addresses, protocol; version,
        # kind; then snapshot, encryption scope and five headers of the answer
        fields = [may, "", expiry, resource, "", "", "", _VERSION, "b", *7 * [""]]
        secret = base64.b64decode(self.account_key)
        digest = hmac.digest(secret, "\n".join(fields).encode(), "sha256")
        signature = base64.b64encode(digest).decode()
        query = {"sp": may, "se": expiry, "sv": _VERSION, "sr": "b", "sig": signature}
        return f"{plain}?{urlencode(query)}"


def copy_blob(source: str, target: str) -> bool:
    """Have the service copy from one signed address to another; False when it did not."""
    headers = {
        "x-ms-copy-source": source,
        "x-ms-requires-sync": "true",
        "x-ms-version": _VERSION,
        "Content-Length": "0",
    }
    request = urllib.request.Request(target, data=b"", method="PUT", headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return str(answer.headers.get("x-ms-copy-status")) == "success"
    except OSError:
        return False
