"""From the models, datasets and runs of a file to the branches of an experiment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Literal

from launchbay.config.files import Notes
from launchbay.config.grids import Parameter, Params, assemble, combine, override, read_entry
from launchbay.config.layers import Layer, Private
from launchbay.config.recipes import Templates, check_resources, recipe_maker, resource_of
from launchbay.config.selection import (
    SAMPLE,
    Rule,
    check_included,
    check_values,
    read_filter,
    select_names,
)
from launchbay.config.values import count_of
from launchbay.core.command import fill, placeholders
from launchbay.core.errors import BadRequest, ConfigError
from launchbay.core.job import Script
from launchbay.core.nearest import suggest
from launchbay.core.sugar import choose_side, expand_braces, strip_comments
from launchbay.core.sweep import REPEAT, Axis, Branch, tells_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from launchbay.config.problems import Route
    from launchbay.config.schema import ExperimentFile, RunBlock
    from launchbay.core.sweep import Point

    Values = Mapping[str, Sequence[str]]

FLAG = re.compile(r"<([A-Za-z_][\w.-]*):flag>")


@dataclass(frozen=True, kw_only=True)
class Around:
    """What is decided outside of the file's models and datasets."""

    below: Sequence[Layer] = ()
    """What is weaker than they are, the weakest first."""
    flags: Layer = field(default_factory=lambda: Layer(level="flag", values={}))
    private: Private = field(default_factory=Private)
    side: Literal["local", "remote"] = "local"


class Builder:
    """Makes the branches of one file, and collects what is wrong on the way."""

    def __init__(self, file: ExperimentFile, around: Around) -> None:
        self.warnings: list[str] = []
        self._file = file
        self._data = file.document.data
        self._around = around
        self._notes = Notes(file.document)
        self._excluded: dict[Route, Rule] = {}
        self._included: dict[Route, Rule] = {}

    def build(self, overrides: Values) -> tuple[Branch, ...]:
        """Every branch, in the order of the file's runs: by dataset, then by model.

        Raises:
            BadRequest: when an override is no parameter of the file, or chooses none of a group.
            ConfigError: when anything is wrong, with everything that is.
        """
        self._check_overrides(overrides)
        several = isinstance(self._data.get("run"), list)
        branches: list[Branch] = []
        for at, block in enumerate(self._file.run):
            route: Route = ("run", at) if several else ("run",)
            branches += self._block(block, route, overrides)
        if not self._file.run:
            branches += self._pairs(None, ("run",), overrides)
        self._check_rules(overrides)
        self._notes.settle()
        return tuple(branches)

    def _block(self, block: RunBlock, route: Route, overrides: Values) -> list[Branch]:
        branches = self._pairs(block, route, overrides)
        spelled = "params" if self._file.document.find_value((*route, "params")) else "hparam"
        where = (*route, spelled)
        written = read_filter(block, at=where, notes=self._notes)
        # What was typed is wanted, whatever the file keeps of its own values.
        kept = {key: values for key, values in written.items() if key not in overrides}
        if branches:
            check_values(kept, branches, at=where, notes=self._notes)
        return [replace(branch, kept=kept) for branch in branches] if kept else branches

    def _pairs(self, block: RunBlock | None, route: Route, overrides: Values) -> list[Branch]:
        datasets = self._names(block, "dataset", route)
        models = self._names(block, "model", route)
        pairs = ((model, dataset) for dataset in datasets for model in models)
        return [branch for pair in pairs for branch in self._pair(*pair, overrides)]

    def _names(
        self, block: RunBlock | None, section: Literal["model", "dataset"], route: Route
    ) -> list[str]:
        known: Mapping[str, object] = getattr(self._file, section) or {}
        names: Sequence[str] | None = getattr(block, section) if block else None
        return select_names(names, known, section, at=(*route, section), notes=self._notes)

    def _pair(self, model: str, dataset: str, overrides: Values) -> Iterator[Branch]:
        """The branches of one model on one dataset: one for each grid of their unions."""
        places: list[Route] = [(), ("dataset", dataset), ("model", model)]
        for parts in product(*(self._params.get(place, [Params()]) for place in places)):
            params = override(combine(parts), overrides)
            if params.is_empty:
                continue
            left_out = tuple(values for _, values in params.excluded)
            branch = self._branch(model, dataset, params, left_out)
            yield branch
            for route, values in params.excluded:
                self._excluded.setdefault(route, Rule(values=values)).branches.append(branch)
            for added in self._added(branch, params, overrides):
                yield self._branch(model, dataset, added, ())

    def _added(self, branch: Branch, params: Params, overrides: Values) -> Iterator[Params]:
        """The grids of the points that are added to those of a branch."""
        for route, values in params.included:
            rule = self._included.setdefault(route, Rule(values=values))
            rule.branches.append(branch)
            rule.labels |= params.labels
            wanted = {key: column for key, column in values.items() if key not in overrides}
            if all(key in params.keys for key in values):
                rule.taken = True
                added = override(params, wanted)
                if wanted and not added.is_empty:
                    yield added

    def _branch(
        self, model: str, dataset: str, params: Params, excluded: tuple[Values, ...]
    ) -> Branch:
        written, place = self._command(model)
        text, lists = expand_braces(strip_comments(written), taken=params.keys)
        braces = {
            key: Parameter(axis=Axis((key,), (column,)), route=place)
            for key, column in lists.items()
        }
        params = combine([params, Params(parameters=braces)])
        grid = assemble(params, self._notes)
        words = {"model": model, "dataset": dataset}
        named = frozenset(key for key, word in words.items() if word and key not in grid.keys)
        resources = self._resources(params)
        templates = self._templates(model)
        branch = Branch(
            model=model,
            dataset=dataset,
            written=f"{written}\0{image}" if (image := self._image(model, dataset)) else written,
            command=Script(choose_side(text, self._around.side).strip()),
            grid=grid,
            hidden=params.hidden | named,
            unlisted=params.labels | named | resources.keys() | lists.keys(),
            ambiguous=not all(tells_apart(axis, params.hidden) for axis in grid.axes),
            excluded=excluded,
            recipe=recipe_maker(
                self._layers(model, dataset),
                self._around.flags,
                self._around.private,
                templates=templates,
                resources=resources,
            ),
            varied=bool(templates or resources),
        )
        self._check_command(branch, place)
        self._check_templates(branch, templates)
        return branch

    def _command(self, model: str) -> tuple[str, Route]:
        """A model's command as written, and where."""
        entry = (self._file.model or {}).get(model)
        if entry and entry.command:
            return entry.command, ("model", model, "command")
        return self._file.command or "", ("command",)

    def _image(self, model: str, dataset: str) -> str:
        """The image as the file's root, dataset or model writes it."""
        routes: list[Route] = [("model", model), ("dataset", dataset), ()]
        found = (self._file.document.find_value((*route, "image")) for route in routes)
        return next((image for image in found if isinstance(image, str)), "")

    def _layers(self, model: str, dataset: str) -> list[Layer]:
        layers = list(self._around.below)
        for section, name in (("dataset", dataset), ("model", model)):
            entry = (getattr(self._file, section) or {}).get(name)
            if entry:
                layers.append(
                    Layer(
                        level=f"{section} {name}",
                        values=entry.written,
                        document=self._file.document,
                        route=(section, name),
                    )
                )
        return layers

    def _templates(self, model: str) -> Templates | None:
        route: Route = ("model", model) if model else ()
        entry = self._file.templates.get(route)
        if not entry:
            return None
        return Templates(document=self._file.document, route=route, entry=entry)

    @cached_property
    def _params(self) -> dict[Route, list[Params]]:
        """What each place says about parameters; what is wrong was found when it was read."""
        silent = Notes(self._file.document)
        found: dict[Route, list[Params]] = {(): read_entry(self._data, (), silent)}
        for section in ("model", "dataset"):
            entries = self._data.get(section)
            for name, entry in entries.items() if isinstance(entries, dict) else ():
                if isinstance(entry, dict):
                    found[section, name] = read_entry(entry, (section, name), silent)
        return found

    def _resources(self, params: Params) -> dict[str, str]:
        """The parameters that set a resource, and which; each value was checked."""
        models = bool(self._file.model)
        found: dict[str, str] = {}
        for one in params.parameters.values():
            for key, column in zip(one.axis.keys, one.axis.columns, strict=True):
                name = resource_of(key, models=models)
                if name is None:
                    continue
                for problem in check_resources(found, key, name, column[:SAMPLE]):
                    self._notes.add(one.route, *problem)
                found[key] = name
                self._warn(f"the parameter `{key}` sets the resource `{name}`")
        return found

    def _check_command(self, branch: Branch, place: Route) -> None:
        """Fill some points, so that what cannot be is found before anything is sent."""
        command = branch.command
        if not isinstance(command, Script):
            return
        used = placeholders(command.text)
        repeat = {REPEAT: "0"} if REPEAT in used else {}
        for point in _trials(branch, FLAG.findall(command.text)):
            try:
                fill(command, {**repeat, **point}, unlisted=branch.unlisted)
            except ConfigError as err:
                self._notes.add(place, str(err).removeprefix("command: "), err.hint)
        if self._file.model:
            self._warn_of_spaces(branch, used)

    def _check_templates(self, branch: Branch, templates: Templates | None) -> None:
        if templates:
            for point in _trials(branch, templates.restricted):
                self._notes.problems += templates.find_problems(point)

    def _warn_of_spaces(self, branch: Branch, used: frozenset[str]) -> None:
        for key in sorted(used):
            bare = re.search(rf"(?<!\\)<{re.escape(key)}>", getattr(branch.command, "text", ""))
            if bare and any(" " in value for value in branch.values_of(key)[:SAMPLE]):
                self._warn(
                    f"`<{key}>` has values with spaces, each one argument; "
                    f"`<{key}:raw>` puts them in as typed"
                )

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _check_overrides(self, overrides: Values) -> None:
        grids = [one for grids in self._params.values() for one in grids]
        known = {key for one in grids for key in one.keys}
        for key, values in overrides.items():
            if key not in known:
                name = self._file.document.file.name
                raise BadRequest(f"`{key}` is no parameter of {name}", hint=suggest(key, known))
            if not count_of(values):
                raise BadRequest(f"`{key}` has no values", hint=f"write `{key}=VALUE`")
            if names := {name for one in grids for name in one.choices(key)}:
                unknown = [value for value in values if value not in names]
                for value in unknown[:1]:
                    hint = suggest(value, names)
                    raise BadRequest(f"there is no `{value}` in the group `{key}`", hint=hint)

    def _check_rules(self, overrides: Values) -> None:
        for route, rule in self._excluded.items():
            # The file may leave out values of its own that others were typed for.
            written = {key: one for key, one in rule.values.items() if key not in overrides}
            check_values(written, rule.branches, at=route, notes=self._notes)
        for route, rule in self._included.items():
            check_included(rule, overrides, at=route, notes=self._notes)


def _trials(branch: Branch, keys: Iterable[str]) -> Iterator[Point]:
    """The first point, and that point with each other value of these keys."""
    first = next(iter(branch), {})
    yield first
    for key in sorted(keys):
        for value in branch.values_of(key)[:SAMPLE]:
            yield {**first, key: value}
