"""From what people write to places in object storage: `.env`, `bucket:`, `folders:`, URLs."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.config.paths import state_folder
from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest
from launchbay.sync.address import (
    folder_url,
    is_storage,
    join_url,
    parse_named,
    parse_url,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.config.schema import BucketEntry
    from launchbay.engine.settings import Settings
    from launchbay.sync.bucket import Bucket, BucketOptions
    from launchbay.sync.memory import Memory

BUCKET_NAME = "S3_BUCKET_NAME"
DEFAULT = "default"
KEY_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "S3_ENDPOINT_URL",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_CONNECTION_STRING",
    "GOOGLE_APPLICATION_CREDENTIALS",
)
"""What `keys: WEST` takes from variables of the same names with `_WEST` behind."""


@dataclass(frozen=True, kw_only=True)
class Located:
    """A key, a folder or a pattern in a store, and the folder of this machine that mirrors it."""

    options: BucketOptions
    key: str
    folder: Path
    """`folder / key` is the file here."""

    def open(self) -> Bucket:
        """The store; nothing is asked of it yet."""
        from launchbay.sync.bucket import open_bucket  # noqa: PLC0415

        return open_bucket(self.options)

    @property
    def url(self) -> str:
        """The whole as people write it."""
        return join_url(self.options.url, self.key)


class Buckets:
    """The places in object storage that a folder knows."""

    def __init__(self, settings: Settings, here: Path) -> None:
        self.root = settings.folder
        """The folder that the default bucket mirrors."""
        self._settings = settings
        self._here = here

    @cached_property
    def env(self) -> Mapping[str, str]:
        """Where keys are looked up."""
        return {**os.environ, **self._settings.dotenv}

    @cached_property
    def entries(self) -> dict[str, BucketEntry]:
        """What the files say, by name; the stronger place wins."""
        if not self._settings.mentions("bucket"):
            return {}
        config = self._settings.config
        weaker = [*(site.bucket for site in config.sites), config.user.bucket]
        own = [config.file.bucket] if config.file else []
        return {name: entry for named in (*weaker, *own) for name, entry in named.items()}

    @cached_property
    def folders(self) -> dict[str, str]:
        """The project's folders that are in object storage, with where."""
        file = self._settings.file if self._settings.mentions("folders") else None
        written = (file.folders if file else None) or {}
        return {name: one.source for name, one in written.items() if is_storage(one.source)}

    def locate(self, text: str) -> Located:
        """What was typed: `west:models/*`, a URL, or a path that the bucket mirrors.

        Raises:
            BadRequest: when it names no bucket, or a path outside the project.
        """
        return self.locate_source(text) or self._locate_path(self._inside(text))

    def locate_source(self, text: str) -> Located | None:
        """A place that does not depend on where we stand; None where the text is a path."""
        if address := parse_url(text):
            known = self._options_of_store(address.store)
            options = known or self._options(url=address.store, account=address.account)
            return Located(options=options, key=address.key, folder=self.root)
        if "://" in text:
            hint = "write `s3://…`, `gs://…`, `az://…` or `file:///…`"
            raise BadRequest(f"`{text}` is no place in object storage", hint=hint)
        if not (named := parse_named(text)):
            return None
        name, key = named
        if name in self.entries:
            return Located(options=self.options_of(name), key=key, folder=self.root)
        if (self._here / text).exists():
            return None
        hint = suggest(name, self.entries) or "name it in `bucket:`, or write a URL"
        raise BadRequest(f"there is no bucket `{name}`", hint=hint)

    def options_of(self, name: str) -> BucketOptions:
        """How to open a bucket of that name."""
        entry = self.entries[name]
        return replace(
            self._options(url=self._url_of(entry), account=entry.account or ""),
            endpoint=entry.endpoint or "",
            region=entry.region or "",
            profile=entry.profile or "",
            anonymous=bool(entry.anonymous),
            engine=entry.engine or "",
            env=_with_keys(self.env, entry.keys or ""),
        )

    def default(self) -> BucketOptions:
        """How to open the bucket that mirrors the project.

        Raises:
            BadRequest: when none is named, or several are and none is the default.
        """
        for name in ("", DEFAULT):
            if name in self.entries:
                return self.options_of(name)
        if name := self.env.get(BUCKET_NAME, ""):
            url = name if parse_url(name) else f"s3://{name}"
            return self._options(url=url, account="")
        if len(self.entries) == 1:
            return self.options_of(next(iter(self.entries)))
        if self.entries:
            names = ", ".join(f"`{name}:…`" for name in self.entries)
            raise BadRequest("there are several buckets", hint=f"say which: {names}")
        raise BadRequest(
            "there is no bucket yet",
            hint=f"a line `{BUCKET_NAME}=…` in `.env`, `bucket: s3://…` in `bay.yaml`, or a URL",
        )

    def memory(self) -> Memory:
        """What earlier transfers saw."""
        from launchbay.sync.memory import Memory  # noqa: PLC0415

        return Memory(state_folder() / "data.sqlite")

    def _locate_path(self, path: str) -> Located:
        for name, source in self.folders.items():
            if path.rstrip("/") == name or path.startswith(f"{name}/"):
                found = self.locate_source(source)
                if found is None:
                    continue
                below = found.key.strip("/")
                options = replace(found.options, url=join_url(found.options.url, below))
                key = path[len(name) + 1 :]
                return Located(options=options, key=key, folder=self.root / name)
        return Located(options=self.default(), key=path, folder=self.root)

    def _inside(self, text: str) -> str:
        """A typed path, from the project's folder."""
        here = self._here.resolve()
        inside = here.relative_to(self.root) if here.is_relative_to(self.root) else Path()
        if text.startswith(("/", "~")):
            full = os.path.normpath(Path(text).expanduser())
            path = os.path.relpath(full, self.root)
        else:
            path = posixpath.normpath(posixpath.join(inside.as_posix(), text))
        if path == ".." or path.startswith("../"):
            hint = "write a URL or `NAME:…` for the bucket, and `--local-path` for the folder here"
            raise BadRequest(f"`{text}` is outside of the project `{self.root}`", hint=hint)
        if path == ".":
            return ""
        return f"{path}/" if text.endswith(("/", "/.")) else path

    def _options_of_store(self, store: str) -> BucketOptions | None:
        """Those of a bucket that the files name, with the whole store in place of its prefix."""
        for name, entry in self.entries.items():
            address = parse_url(self._url_of(entry))
            if address and address.store == store:
                return replace(self.options_of(name), url=store)
        return None

    def _url_of(self, entry: BucketEntry) -> str:
        if parse_url(entry.url):
            return entry.url.rstrip("/")
        return folder_url(self.root / Path(entry.url).expanduser())

    def _options(self, *, url: str, account: str) -> BucketOptions:
        from launchbay.sync.bucket import BucketOptions  # noqa: PLC0415

        return BucketOptions(url=url, account=account, env=self.env)


def open_buckets(here: Path | None = None) -> Buckets:
    """The places in object storage that the project around a folder knows."""
    from launchbay.engine.settings import read_settings  # noqa: PLC0415

    here = (here or Path.cwd()).absolute()
    return Buckets(read_settings(here, runs=False), here)


def _with_keys(env: Mapping[str, str], word: str) -> Mapping[str, str]:
    """The variables with a bucket's own keys in place of the common ones."""
    if not word:
        return env
    own = {name: env[f"{name}_{word}"] for name in KEY_VARIABLES if f"{name}_{word}" in env}
    return {name: text for name, text in env.items() if name not in KEY_VARIABLES} | own
