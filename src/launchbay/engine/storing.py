"""A place in object storage as a node has to know it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from launchbay.core.errors import Unsupported
from launchbay.sync.address import is_storage, join_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from launchbay.engine.settings import Settings
    from launchbay.sync.bucket import Bucket, BucketOptions

KEYS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    "az": (
        "AZURE_STORAGE_ACCOUNT",
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_CONNECTION_STRING",
    ),
    "gs": (),
}
"""Variables that tools read, and that a bucket may have under names of its own."""
ENDPOINTS = ("S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, kw_only=True)
class Store:
    """A folder in object storage."""

    url: str
    """As tools take it, without a slash at the end."""
    options: BucketOptions
    env: Mapping[str, str] = field(repr=False)
    """All variables, by the names that people gave them."""

    @property
    def scheme(self) -> str:
        """`s3`, `gs`, `az` or `file`."""
        return self.url.partition("://")[0]

    @property
    def path(self) -> str:
        """The folder, where it is one."""
        return self.url.partition("://")[2]

    @property
    def endpoint(self) -> str:
        """Where the service answers; empty is the cloud's own."""
        env = self.options.env
        named = next((env[name] for name in ENDPOINTS if env.get(name)), "")
        return self.options.endpoint or (named if self.scheme == "s3" else "")

    def open(self, *below: str) -> Bucket:
        """The folder, or one below it, as a bucket; nothing is asked of it yet."""
        from launchbay.sync.bucket import open_bucket  # noqa: PLC0415

        return open_bucket(replace(self.options, url="/".join([self.url, *below])))


def find_store(settings: Settings, source: str, *, key: str = "") -> Store:
    """The place that a text names: a URL, or `NAME:…` by the name of a bucket.

    Raises:
        BadRequest: when there is no such bucket.
        Unsupported: when it is no place in object storage.
    """
    from launchbay.engine.buckets import Buckets  # noqa: PLC0415 (few launches have one)

    buckets = Buckets(settings, settings.folder)
    found = buckets.locate_source(source) if is_storage(source) else None
    if found is None:
        raise Unsupported(
            f"`{key}: {source}` is no place in object storage",
            hint="write `s3://lab/results`, or `NAME:…` with the name of a `bucket`",
        )
    url = join_url(found.options.url, found.key).rstrip("/")
    return Store(url=url, options=found.options, env=buckets.env)


def render_store(
    store: Store, endpoints: Mapping[str, str], *, reading: bool
) -> tuple[str, list[str]]:
    """Shell text for `enter_store` of node/carry.sh, and the variables that it reads.

    Args:
        store: where.
        endpoints: addresses that are known there by another name.
        reading: whether nothing is written, so that it may do without keys.
    """
    options, scheme = store.options, store.scheme
    if scheme == "file":
        return "", []
    names: list[str] = []
    lines = list(_render_keys(store, names))
    if options.endpoint:
        address = endpoints.get(options.endpoint, options.endpoint)
        lines.append(f"bay_endpoint={shlex.quote(address)}")
    else:
        lines += _render_variable("bay_endpoint", store, ENDPOINTS, names)
    if options.region:
        lines.append(f"bay_region={shlex.quote(options.region)}")
    else:
        lines += _render_variable("bay_region", store, REGIONS, names)
    if options.account:
        lines.append(f"bay_account={shlex.quote(options.account)}")
    if options.anonymous:
        lines.append("bay_unsigned=1")
    elif reading and not any(store.options.env.get(key) for key in KEYS[scheme]):
        lines.append("bay_keyless=1")
    return "; ".join(lines), names


def _render_keys(store: Store, names: list[str]) -> Iterator[str]:
    """The keys by the names that tools know, from those that the bucket has them under."""
    options = store.options
    for key in KEYS[store.scheme]:
        value = options.env.get(key)
        if options.anonymous or options.profile or not value:
            if key in store.env:
                yield f"unset {key}"
            continue
        source = find_source(key, value, store.env)
        names.append(source)
        if source != key:
            yield f'export {key}="${{{source}-}}"'
    if options.profile:
        yield f"export AWS_PROFILE={shlex.quote(options.profile)}"


def _render_variable(
    word: str, store: Store, candidates: Iterable[str], names: list[str]
) -> Iterator[str]:
    if store.scheme != "s3":
        return
    for name in candidates:
        if value := store.options.env.get(name):
            source = find_source(name, value, store.env)
            names.append(source)
            yield f'{word}="${{{source}-}}"'
            return


def find_source(name: str, value: str, env: Mapping[str, str]) -> str:
    """The variable that a bucket's own value comes from: its name, or that with a word behind.

    >>> find_source("KEY", "b", {"KEY": "a", "KEY_WEST": "b"})
    'KEY_WEST'
    """
    if env.get(name) == value:
        return name
    begins = f"{name}_"
    return next((one for one in env if one.startswith(begins) and env[one] == value), name)
