"""The targets that the configuration names, as they were written and where."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from launchbay.config.configuration import choose_target, default_target, resolve_targets
from launchbay.config.files import Document
from launchbay.config.paths import shown_path
from launchbay.config.schema import KUBE, KUBERNETES, LOCAL, MACHINE, UserConfig
from launchbay.config.validation import find_problems
from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launchbay.config.files import Value
    from launchbay.config.problems import Route
    from launchbay.engine.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A target as the files write it."""

    name: str
    kind: str
    written: Mapping[str, Value] = field(default_factory=dict)
    """What the files say, the project's over the user's; values are text as typed."""
    sources: tuple[str, ...] = ()
    """The files and lines; empty for `local`, which is there without being written."""
    default: bool = False
    """Whether runs go there when nobody says where."""


def list_targets(settings: Settings) -> list[Entry]:
    """Every target, by name."""
    names = resolve_targets(settings.config)
    chosen = default_target(settings.config)
    return [_entry(settings, name, default=name == chosen) for name in sorted(names)]


def find_target(settings: Settings, name: str) -> Entry:
    """The target of that name.

    Raises:
        BadRequest: when there is none.
    """
    entries = {entry.name: entry for entry in list_targets(settings)}
    if name not in entries:
        raise BadRequest(f"there is no target `{name}`", hint=suggest(name, entries))
    return entries[name]


def check_target(settings: Settings, name: str) -> None:
    """Raise `ConfigError` now when the target's entry cannot work."""
    choose_target(name, settings.config)


def check_new(name: str, options: Mapping[str, Value]) -> None:
    """Check what is about to be written for a target.

    Raises:
        BadRequest: when the name or an option cannot be.
    """
    entry: dict[str, Value] = {name: dict(options)}
    for problem in find_problems(Document(data={"targets": entry}), UserConfig):
        raise BadRequest(f"{problem.key}: {problem.message}", hint=problem.hint)


def find_own(settings: Settings, name: str) -> Mapping[str, Value] | None:
    """What the user's own configuration says of a target."""
    return _find(settings.user.document, name)


def find_stronger_default(settings: Settings) -> str | None:
    """What decides the default target here in place of the `use` of the configuration."""
    if settings.file and settings.file.target:
        return shown_path(settings.file.document.file)
    return "$BAY_DEFAULT_TARGET" if os.environ.get("BAY_DEFAULT_TARGET") else None


def _entry(settings: Settings, name: str, *, default: bool) -> Entry:
    written: dict[str, Value] = {}
    sources = []
    for document, route in _documents(settings, name):
        part = document.find_value(route)
        if route and route not in document.places:
            continue
        written = _merged(written, part if isinstance(part, dict) else {})
        place = document.find_place(route)
        sources.append(f"{shown_path(document.file)}:{place.line if place else 1}")
    kind = MACHINE if name == LOCAL else str(written.get("kind") or "")
    kind = KUBERNETES if name == KUBE and settings.config.kube and not kind else kind
    return Entry(name=name, kind=kind, written=written, sources=tuple(sources), default=default)


def _documents(settings: Settings, name: str) -> Iterator[tuple[Document, Route]]:
    """Where a target may be written, the weakest first."""
    config, route = settings.config, ("targets", name)
    yield from ((site.document, route) for site in config.sites)
    yield config.user.document, route
    if config.kube and name == KUBE:
        yield config.kube.document, ()
    if config.file:
        yield config.file.document, route


def _find(document: Document, name: str) -> Mapping[str, Value] | None:
    part = document.find_value(("targets", name))
    if ("targets", name) not in document.places:
        return None
    return part if isinstance(part, dict) else {}


def _merged(below: Mapping[str, Value], above: Mapping[str, Value]) -> dict[str, Value]:
    """Maps merge, lists replace."""
    merged = {**below, **above}
    for key, value in below.items():
        over = above.get(key)
        if isinstance(value, dict) and isinstance(over, dict):
            merged[key] = {**value, **over}
    return merged
