"""What a key is set to, by whom, and over whom."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from launchbay.config.common import Common
from launchbay.config.configuration import default_target, layers_below
from launchbay.config.layers import Layer, choose_profile, lay_profile
from launchbay.config.paths import shown_path
from launchbay.config.problems import dotted
from launchbay.config.schema import LOCAL, ExperimentFile, KubeFile, Model, UserConfig
from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from launchbay.config.common import Part
    from launchbay.config.configuration import Configuration
    from launchbay.config.files import Document, Value
    from launchbay.config.problems import Route


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a key is set to, and by whom."""

    key: str
    value: Value
    """As typed; `None` when nobody set it."""
    source: str
    """A file, with the profile of it that says so; a variable; or `default`."""
    line: int | None = None
    over: tuple[Explanation, ...] = ()
    """What weaker places say, the strongest first."""


def explain(key: str, config: Configuration, *, model: str = "", dataset: str = "") -> Explanation:
    """The value of a dotted key of the experiment file or the user's configuration.

    What a target may set is explained as it holds on the default target, for a model and a
    dataset where they are named.

    Raises:
        BadRequest: when there is no such key, model or dataset.
    """
    found = [
        Explanation(key=key, value=value, source=level + shown_path(place.file), line=place.line)
        for level, document, route in _candidates(key, config, model, dataset)
        if (place := document.places.get(route))
        and (value := document.find_value(route)) is not None
    ]
    variable = os.environ.get("BAY_DEFAULT_TARGET")
    if key == "target" and variable and not (config.file and config.file.target):
        found.insert(0, Explanation(key=key, value=variable, source="$BAY_DEFAULT_TARGET"))
    if found:
        first, *rest = found
        value = _merged(found) if key in Model.spellings() else first.value
        return replace(first, value=value, over=tuple(rest))
    if key in ExperimentFile.spellings() or key in UserConfig.spellings():
        return Explanation(key=key, value=LOCAL if key == "target" else None, source="default")
    raise BadRequest(f"`{key}` is not set and no key of a file", hint=_suggest_key(key, config))


def _merged(found: Sequence[Explanation]) -> Value:
    """What holds of the values that several places give a key: maps merge, others replace."""
    value = found[0].value
    for one in found[1:]:
        if not isinstance(value, dict) or not isinstance(one.value, dict):
            break
        value = {**one.value, **value}
    return value


def _candidates(
    key: str, config: Configuration, model: str, dataset: str
) -> Iterator[tuple[str, Document, Route]]:
    """Where a key may be set, the strongest first; a profile is named in front of its file."""
    entries = _entries(config, model, dataset)
    layers = list(reversed(_layers(config, entries)))
    for route in _routes(key):
        own = [(*entry, *one) for entry in entries for one in _spelled(route, Model)]
        if config.file:
            yield from (("", config.file.document, one) for one in own)
        if route[0] in Common.spellings():
            for layer in layers:
                level = f"{layer.level}, " if "profiles" in layer.route else ""
                for names in _spelled(route, Common):
                    yield level, layer.document, (*layer.route, *names)
            continue
        if config.file:
            yield from (("", config.file.document, one) for one in _spelled(route, ExperimentFile))
        if config.kube:
            yield from (("", config.kube.document, one) for one in _spelled(route, KubeFile))
        yield "", config.user.document, ("use",) if key == "target" else route
        yield from (("", site.document, route) for site in reversed(config.sites))


def _spelled(route: Route, shape: type[Part]) -> list[Route]:
    """The route in every spelling of its first key."""
    known = shape.spellings()
    same = [name for name, field in known.items() if field == known.get(str(route[0]))]
    return [(name, *route[1:]) for name in same] or [route]


def _entries(config: Configuration, model: str, dataset: str) -> list[Route]:
    """The entries of the file that are named, the strongest first."""
    named = [(section, name) for section, name in (("model", model), ("dataset", dataset)) if name]
    for section, name in named:
        known = (getattr(config.file, section) if config.file else None) or {}
        if name not in known:
            hint = suggest(name, known) or f"the file has no `{section}:`"
            raise BadRequest(f"there is no {section} `{name}`", hint=hint)
    return [*named]


def _layers(config: Configuration, entries: Sequence[Route]) -> list[Layer]:
    """What is weaker than the entries, with the profile that the runs of these entries take."""
    below = layers_below(config, default_target(config))
    above = [
        Layer(level=str(name), values=entry.written)
        for section, name in reversed(entries)
        if (entry := (getattr(config.file, str(section)) or {}).get(name))
    ]
    return lay_profile(below, choose_profile([*below, *above]))


def _routes(key: str) -> list[Route]:
    """The routes that a dotted key may mean; a parameter's own name may hold dots."""
    head, _, rest = key.partition(".")
    plain = tuple(key.split("."))
    if ExperimentFile.spellings().get(head) == "params" and "." in rest:
        return [(head, rest), plain]
    return [plain]


def _suggest_key(key: str, config: Configuration) -> str | None:
    parts = [one for one in (config.file, config.kube, config.user, *config.sites) if one]
    known = {dotted(route) for part in parts for route in part.document.places if route}
    return suggest(key, known | set(ExperimentFile.spellings()) | set(UserConfig.spellings()))
