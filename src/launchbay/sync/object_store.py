"""obstore's own stores, told exactly who asks and how long to wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from obstore.exceptions import GenericError
from obstore.store import AzureStore, GCSStore, S3Store

from launchbay.core.errors import BayError, ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from obstore.store import ClientConfig, RetryConfig

    from launchbay.sync.credentials import Login

    Store = S3Store | AzureStore | GCSStore

STALLED_S = 30.0
"""So long may a connection say nothing; BAY_DATA_TIMEOUT says otherwise."""
SLOWEST_PART_S = 300.0
"""A part that is sent is not answered before it has arrived, however slow the line."""
RETRIES = 10
RETRY_FOR_S = 180.0
DEFAULT_REGION = "us-east-1"
_TOKEN_FOR = timedelta(minutes=10)
T = TypeVar("T")
NO_AUTHORITIES = "No CA certificates were loaded"


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long is waited for a service."""

    stalled_s: float
    sending_s: float
    retries: int

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Patience:
        """As the variables BAY_DATA_TIMEOUT (seconds) and BAY_DATA_RETRIES say."""
        given = _number(env.get("BAY_DATA_TIMEOUT"))
        retries = _number(env.get("BAY_DATA_RETRIES"))
        return cls(
            stalled_s=STALLED_S if given is None else given,
            sending_s=SLOWEST_PART_S if given is None else given,
            retries=RETRIES if retries is None else int(retries),
        )


def connect(
    kind: str,
    name: str,
    login: Login,
    *,
    patience: Patience,
    sending: bool = False,
    failed: list[BayError],
) -> Store:
    """The store for a whole bucket; what goes wrong with the login is left in `failed`."""
    quiet = timedelta(seconds=patience.sending_s if sending else patience.stalled_s)
    client: ClientConfig = {
        "allow_http": login.endpoint.startswith("http://"),
        "connect_timeout": min(quiet, timedelta(seconds=10)),
        "read_timeout": quiet,
        # A stream may take as long as it moves.
        "timeout": timedelta(days=7),
    }
    if login.authorities:
        client["root_certificate"] = _certificates(login.authorities)
    retry: RetryConfig = {
        "max_retries": patience.retries,
        "retry_timeout": timedelta(seconds=RETRY_FOR_S) + quiet,
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=10),
            "base": 2.5,
        },
    }
    common: dict[str, Any] = {"client_options": client, "retry_config": retry}
    try:
        return _open(kind, name, login, failed, common)
    except GenericError as err:
        if NO_AUTHORITIES not in str(err):
            raise
        if not client["allow_http"]:
            message = "there are no CA certificates here, and without them no https can be trusted"
            hint = "install the package `ca-certificates`, or name a file in SSL_CERT_FILE"
            raise DataError(message, hint=hint) from err
    # Nothing is encrypted there, so nothing is lost without them.
    client["allow_invalid_certificates"] = True
    return _open(kind, name, login, failed, common)


def _open(
    kind: str, name: str, login: Login, failed: list[BayError], common: dict[str, Any]
) -> Store:
    if kind == "s3":
        return S3Store(name, **_s3(login, failed), **common)
    if kind == "az":
        return AzureStore(name, **_azure(login), **common)
    return GCSStore(name, **_google(login, failed), **common)


def s3_endpoint(login: Login) -> str:
    """Where S3 is asked."""
    region = login.region or DEFAULT_REGION
    ending = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return login.endpoint or f"https://s3.{region}.{ending}"


def address(kind: str, name: str, login: Login, key: str) -> str:
    """Where an object is for those who need no login."""
    account = login.settings.get("account_name", "")
    place = {
        "s3": s3_endpoint(login),
        "az": login.endpoint or f"https://{account}.blob.core.windows.net",
        "gs": login.endpoint or "https://storage.googleapis.com",
    }[kind]
    return f"{place}/{quote(name)}/{quote(key, safe='/~')}"


def _s3(login: Login, failed: list[BayError]) -> dict[str, Any]:
    """Everything is said, so that obstore's own look at the environment changes nothing."""
    endpoint = s3_endpoint(login)
    settings: dict[str, Any] = {
        **login.settings,
        "region": login.region or DEFAULT_REGION,
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "virtual_hosted_style_request": False,
        "skip_signature": login.anonymous,
    }
    keys = login.keys
    if keys is None:
        return settings

    def provide() -> dict[str, Any]:
        given = _remembering(keys, failed)
        return {
            "access_key_id": given.id,
            "secret_access_key": given.secret,
            "token": given.token or None,
            "expires_at": given.expires,
        }

    return {**settings, "credential_provider": provide}


def _azure(login: Login) -> dict[str, Any]:
    endpoint = {"endpoint": login.endpoint} if login.endpoint else {}
    return {**login.settings, **endpoint, "skip_signature": login.anonymous}


def _google(login: Login, failed: list[BayError]) -> dict[str, Any]:
    endpoint = {"base_url": login.endpoint} if login.endpoint else {}
    settings = {**login.settings, **endpoint, "skip_signature": login.anonymous}
    token = login.token
    if token is None:
        return settings

    def provide() -> dict[str, Any]:
        return {
            "token": _remembering(token, failed),
            "expires_at": datetime.now(UTC) + _TOKEN_FOR,
        }

    return {**settings, "credential_provider": provide}


def _remembering(ask: Callable[[], T], failed: list[BayError]) -> T:
    try:
        given = ask()
    except BayError as error:
        failed.append(error)
        raise
    failed.clear()
    return given


def _certificates(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: these certificates cannot be read",
            hint="AWS_CA_BUNDLE or SSL_CERT_FILE names them; set it right, or not at all",
        ) from error


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
