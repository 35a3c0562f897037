"""How the keys of object storage are found: without a request, and never by waiting for one.

The first that exists counts. S3: a profile that the bucket names, keys in the environment, the
profile of the `aws` program, what a container or a cluster gives a job, else nobody. Azure Blob and
Google Cloud Storage: keys in the environment, the login of the cloud's own program, else nobody.
"""

from __future__ import annotations

import os
from configparser import ConfigParser, Error
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import ConfigError
from launchbay.sync.bucket import split_url
from launchbay.sync.credential_programs import (
    Keys,
    keys_from_aws,
    keys_from_process,
    token_from_gcloud,
    which,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from launchbay.sync.bucket import BucketOptions

NOBODY = "nobody (anonymous)"
_IN_CONTAINER = {
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "container_credentials_relative_uri",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "container_credentials_full_uri",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "container_authorization_token_file",
}
_BY_TOKEN = {
    "AWS_WEB_IDENTITY_TOKEN_FILE": "web_identity_token_file",
    "AWS_ROLE_ARN": "role_arn",
    "AWS_ROLE_SESSION_NAME": "role_session_name",
}
_BY_AWS = ("sso_session", "sso_start_url", "role_arn", "login_session")
# Written in the manual of azurite: the account that it always has.
_AZURITE = (
    "AccountName=devstoreaccount1;BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;AccountKey="
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@dataclass(frozen=True, kw_only=True)
class Login:
    """Who asks, and where; only `keys`, `token` and `settings` hold secrets."""

    words: str = NOBODY
    identity: str = ""
    """Equal for equal identities; no secret."""
    place: str = ""
    """The service: scheme, endpoint and account."""
    endpoint: str = ""
    region: str = ""
    profile: str = ""
    authorities: str = ""
    """A file of certificates to trust beside the usual ones."""
    keys: Callable[[], Keys] | None = field(default=None, repr=False)
    """Keys for S3, asked for when needed and again when they run out."""
    token: Callable[[], str] | None = field(default=None, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What else the library for object storage is told."""

    @property
    def anonymous(self) -> bool:
        """Whether requests are not signed."""
        return self.words == NOBODY


def describe_login(options: BucketOptions) -> str:
    """Which identity reaches the bucket, in words such as "keys from .env" or "profile lab"."""
    return find_login(options).words


def find_login(options: BucketOptions) -> Login:
    """The identity that reaches the bucket."""
    kind = split_url(options.url)[0]
    if kind == "file":
        return Login(words="this account", place="file")
    found = {"s3": _s3, "az": _azure, "gs": _google}[kind](options)
    return replace(found, authorities=_first(options.env, "AWS_CA_BUNDLE", "SSL_CERT_FILE"))


def _s3(options: BucketOptions) -> Login:
    env = options.env
    named = options.profile or env.get("AWS_PROFILE") or env.get("AWS_DEFAULT_PROFILE") or "default"
    profile = _profile(env, named)
    endpoint = _with_scheme(
        options.endpoint
        or _first(env, "S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        or profile.get("endpoint_url", "")
    )
    region = (
        options.region
        or _first(env, "AWS_REGION", "AWS_DEFAULT_REGION")
        or profile.get("region", "")
    )
    words, keys, settings = _s3_identity(options, named, profile)
    return Login(
        words=words,
        identity=f"{words} {env.get('AWS_ACCESS_KEY_ID', '')}",
        place=f"s3 {endpoint}",
        endpoint=endpoint,
        region=region,
        profile=named if words.startswith("profile") else "",
        keys=keys,
        settings=settings,
    )


def _s3_identity(
    options: BucketOptions, named: str, profile: Mapping[str, str]
) -> tuple[str, Callable[[], Keys] | None, dict[str, str]]:
    env = options.env
    if options.anonymous:
        return NOBODY, None, {}
    if options.profile and not profile:
        raise ConfigError(
            f"there is no profile `{named}` in {_aws_file(env, 'config')}",
            hint=f"make it with: aws configure --profile {named}",
        )
    if not options.profile and env.get("AWS_ACCESS_KEY_ID"):
        given = Keys(
            id=env["AWS_ACCESS_KEY_ID"],
            secret=env.get("AWS_SECRET_ACCESS_KEY", ""),
            token=env.get("AWS_SESSION_TOKEN", ""),
        )
        if not given.secret:
            raise ConfigError(
                "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not", hint="set both in .env"
            )
        return f"keys from {_origin(env, 'AWS_ACCESS_KEY_ID')}", lambda: given, {}
    keys = _keys_of_profile(env, named, profile)
    if keys is not None:
        return f"profile {named}", keys, {}
    for table, words in (
        (_BY_TOKEN, "the cluster's role"),
        (_IN_CONTAINER, "the container's role"),
    ):
        settings = {name: env[variable] for variable, name in table.items() if env.get(variable)}
        if settings.keys() - {"role_arn", "role_session_name"}:
            return words, None, settings
    return NOBODY, None, {}


def _keys_of_profile(
    env: Mapping[str, str], name: str, profile: Mapping[str, str]
) -> Callable[[], Keys] | None:
    if profile.get("aws_access_key_id"):
        fixed = Keys(
            id=profile["aws_access_key_id"],
            secret=profile.get("aws_secret_access_key", ""),
            token=profile.get("aws_session_token", ""),
        )
        return lambda: fixed
    command = profile.get("credential_process")
    if command:
        return lambda: keys_from_process(command, name, env)
    if any(profile.get(key) for key in _BY_AWS):
        return lambda: keys_from_aws(name, env)
    return None


def _profile(env: Mapping[str, str], name: str) -> dict[str, str]:
    """What the files of the `aws` program say of a profile; empty when they do not know it."""
    section = name if name == "default" else f"profile {name}"
    return {
        **_section(_aws_file(env, "config"), section),
        **_section(_aws_file(env, "credentials"), name),
    }


def _aws_file(env: Mapping[str, str], name: str) -> Path:
    variable = {"config": "AWS_CONFIG_FILE", "credentials": "AWS_SHARED_CREDENTIALS_FILE"}[name]
    given = env.get(variable)
    return Path(given).expanduser() if given else _home(env) / ".aws" / name


def _section(path: Path, name: str) -> dict[str, str]:
    reader = ConfigParser(interpolation=None, strict=False, default_section="\0")
    try:
        reader.read_string(path.read_text())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (Error, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: it is no file of profiles", hint="see: aws configure"
        ) from error
    return dict(reader[name]) if reader.has_section(name) else {}


def _azure(options: BucketOptions) -> Login:
    env = options.env
    said = _connection(env.get("AZURE_STORAGE_CONNECTION_STRING", ""))
    account = (
        options.account
        or _first(env, "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
        or said.get("AccountName", "")
    )
    if not account:
        raise ConfigError(
            f"{options.url} lies in a storage account, and none is named",
            hint="set `account:` of the bucket, or AZURE_STORAGE_ACCOUNT in .env",
        )
    endpoint = options.endpoint or said.get("BlobEndpoint", "") or _suffixed(account, said)
    words, settings = _azure_identity(options, said)
    return Login(
        words=words,
        identity=words,
        place=f"az {endpoint} {account}",
        endpoint=_with_scheme(endpoint),
        settings={"account_name": account, **settings},
    )


def _azure_identity(options: BucketOptions, said: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    env = options.env
    if options.anonymous:
        return NOBODY, {}
    key = _first(env, "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY") or said.get("AccountKey")
    if key:
        return "the storage account's key", {"account_key": key}
    signature = (
        _first(env, "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
        or said.get("SharedAccessSignature", "")
    ).removeprefix("?")
    if signature:
        return "a shared access signature", {"sas_key": signature}
    principal = {
        name.removeprefix("AZURE_").lower(): env[name]
        for name in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET")
        if env.get(name)
    }
    token_file = env.get("AZURE_FEDERATED_TOKEN_FILE")
    if "client_secret" in principal:
        return "the service principal", principal
    if token_file:
        return "the cluster's role", {**principal, "federated_token_file": token_file}
    folder = Path(env.get("AZURE_CONFIG_DIR") or _home(env) / ".azure")
    if (folder / "azureProfile.json").exists() and which("az", env):
        return "the login of `az`", {"use_azure_cli": "true"}
    return NOBODY, {}


def _connection(text: str) -> dict[str, str]:
    """The parts of a connection string.

    >>> _connection("AccountName=lab;AccountKey=ab==;")
    {'AccountName': 'lab', 'AccountKey': 'ab=='}
    """
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    if parts.get("UseDevelopmentStorage", "").lower() == "true":
        return _connection(_AZURITE)
    return parts


def _suffixed(account: str, said: Mapping[str, str]) -> str:
    suffix = said.get("EndpointSuffix", "")
    return f"https://{account}.blob.{suffix}" if suffix else ""


def _google(options: BucketOptions) -> Login:
    env = options.env
    endpoint = _with_scheme(options.endpoint or env.get("STORAGE_EMULATOR_HOST", ""), "http")
    folder = Path(env.get("CLOUDSDK_CONFIG") or _home(env) / ".config" / "gcloud")
    usual = folder / "application_default_credentials.json"
    given = env.get("GOOGLE_APPLICATION_CREDENTIALS") or (str(usual) if usual.exists() else "")
    nobody = Login(place=f"gs {endpoint}", endpoint=endpoint)
    if options.anonymous:
        return nobody
    if given:
        words = "gcloud's application default" if given == str(usual) else f"the key file {given}"
        told = {"application_credentials": given}
        return replace(nobody, words=words, identity=given, settings=told)
    if (folder / "credentials.db").exists() and which("gcloud", env):
        return replace(nobody, words="the login of `gcloud`", token=lambda: token_from_gcloud(env))
    return nobody


def _first(env: Mapping[str, str], *names: str) -> str:
    return next((env[name] for name in names if env.get(name)), "")


def _home(env: Mapping[str, str]) -> Path:
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def _origin(env: Mapping[str, str], name: str) -> str:
    return "the environment" if os.environ.get(name) == env[name] else ".env"


def _with_scheme(endpoint: str, usual: str = "https") -> str:
    """An endpoint without a scheme is a secure one.

    >>> _with_scheme("store.lab:9000/")
    'https://store.lab:9000'
    """
    whole = endpoint if not endpoint or "://" in endpoint else f"{usual}://{endpoint}"
    return whole.rstrip("/")
