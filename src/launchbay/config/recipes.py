"""What a run is given, where its parameters have a say in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from launchbay.config.common import Common
from launchbay.config.layers import OPPOSITE, Layer, check_profile, make_recipe
from launchbay.config.problems import config_error
from launchbay.config.resources import (
    IN_MODELS,
    OLD_NAMES,
    PARSERS,
    POLICIES,
    parse_resource,
)
from launchbay.config.validation import fill_templates, translate
from launchbay.config.values import split_hint
from launchbay.core.command import MARK, fill, fill_text, placeholders, render
from launchbay.core.errors import ConfigError
from launchbay.core.job import Script
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from launchbay.config.files import Document, Value
    from launchbay.config.layers import Private
    from launchbay.config.problems import Problem, Route
    from launchbay.core.job import Recipe
    from launchbay.core.sweep import Point

PREFIX = "resources."
SHELL = frozenset({"setup", "startup_script", "extra_startup_script", "server_command"})
"""Keys whose text a shell reads: what is put in is quoted for where it stands."""


@dataclass(frozen=True, kw_only=True)
class Templates:
    """What an entry says with placeholders in it."""

    document: Document
    route: Route
    entry: Mapping[str, Any]

    @property
    def keys(self) -> frozenset[str]:
        """The parameters that it names."""
        return _named(self.entry)

    @property
    def restricted(self) -> frozenset[str]:
        """Those of them whose value must be that of a resource."""
        fields = Common.spellings()
        read = PARSERS.keys() | POLICIES
        return _named({key: one for key, one in self.entry.items() if fields[key] in read})

    def fill(self, point: Point) -> Layer:
        """What it says for one point.

        Raises:
            ConfigError: when it names something that is no parameter, or comes to nothing valid.
        """
        values, problems = self._read(point)
        if problems:
            raise config_error(problems)
        return Layer(level="model", values=values, document=self.document, route=self.route)

    def over(self, layers: Sequence[Layer], point: Point) -> list[Layer]:
        """The layers with what it says for one point, in the rank of the entry it stands in."""
        ranks = (at for at, layer in enumerate(layers) if self._is_beside(layer))
        at = next(ranks, len(layers) - 1) + 1
        return [*layers[:at], self.fill(point), *layers[at:]]

    def _is_beside(self, layer: Layer) -> bool:
        return layer.document is self.document and layer.route == self.route

    def find_problems(self, point: Point) -> list[Problem]:
        """Everything that keeps it from being filled for a point, each with its place."""
        _, problems = self._read(point)
        return problems

    def _read(self, point: Point) -> tuple[dict[str, Any], list[Problem]]:
        filled: dict[str, Value] = {}
        problems = []
        for key, value in self.entry.items():
            try:
                filled[key] = _filled(key, value, point)
            except ConfigError as err:
                message = str(err).removeprefix("command: ")
                problems.append(self.document.problem((*self.route, key), message, err.hint))
        try:
            return Common.model_validate(filled).written, problems
        except ValidationError as err:
            wrong = [translate(self.document, Common, one, self.route) for one in err.errors()]
            return {}, problems + wrong


def _filled(key: str, value: Value, point: Point) -> Value:
    if key not in SHELL:
        return fill_templates(value, lambda text: fill_text(text, point))
    return fill_templates(value, lambda text: render(fill(Script(text), point)))


def _named(entry: Mapping[str, Any]) -> frozenset[str]:
    """The parameters that an entry names; only to a shell is there a comment."""
    names: set[str] = set()
    for key, value in entry.items():
        for text in _texts(value):
            found = (mark[1] for mark in MARK.finditer(text) if mark[1])
            names.update(placeholders(text) if key in SHELL else found)
    return frozenset(names)


def resource_of(key: str, *, models: bool) -> str | None:
    """The resource that a parameter sets, if any.

    >>> resource_of("gpu_count", models=False), resource_of("resources.time", models=False)
    ('gpus', 'time')
    >>> resource_of("memory", models=False), resource_of("memory", models=True)
    (None, 'memory')
    """
    if key.startswith(PREFIX):
        name = key.removeprefix(PREFIX)
        return OLD_NAMES.get(name, name)
    if key in IN_MODELS:
        return key if models else None
    return OLD_NAMES.get(key)


def recipe_maker(
    layers: Sequence[Layer],
    flags: Layer,
    private: Private,
    *,
    templates: Templates | None = None,
    resources: Mapping[str, str],
) -> Callable[[Point], Recipe]:
    """A function from a point to what its run is given; points that agree share one.

    Args:
        layers: what all of them have in common, the weakest first.
        flags: what was typed, the strongest.
        private: variables that travel apart.
        templates: what has placeholders in it.
        resources: the parameters that set a resource, and which.

    Raises:
        BadRequest: when a flag names a profile that the target does not have.
        ConfigError: when a file does.
    """
    check_profile([*layers, flags])
    if not templates and not resources:
        fixed = make_recipe([*layers, flags], private)
        return lambda _: fixed
    used = sorted({*resources, *(templates.keys if templates else ())})

    @lru_cache(maxsize=1024)
    def made(values: tuple[str | None, ...]) -> Recipe:
        point = {key: value for key, value in zip(used, values, strict=True) if value is not None}
        filled = templates.over(layers, point) if templates else layers
        chosen = {
            name: parse_resource(name, point[key])
            for key, name in resources.items()
            if key in point
        }
        parameters = Layer(level="parameter", values=chosen)
        return make_recipe([*filled, parameters, flags], private)

    return lambda point: made(tuple(point.get(key) for key in used))


def check_resources(
    found: Mapping[str, str], key: str, name: str, values: Sequence[str]
) -> Iterator[tuple[str, str | None]]:
    """What is wrong with a parameter that sets a resource: a message and a hint each.

    Args:
        found: the parameters before it that set one, and which.
        key: the parameter.
        name: its resource.
        values: what it may be.
    """
    for other, resource in found.items():
        if resource in {name, OPPOSITE.get(name)}:
            yield f"`{other}` and `{key}` cannot both set a resource", "keep one of them"
    if name not in PARSERS or name == "parallel":
        known = sorted(set(PARSERS) - {"parallel"})
        yield f"there is no resource `{name}`", suggest(name, known)
        return
    for text in dict.fromkeys(values):
        try:
            parse_resource(name, text)
        except ValueError as err:
            message, hint = split_hint(err)
            yield message, f"{hint}; `{key}` sets the resource" if hint else None


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)
