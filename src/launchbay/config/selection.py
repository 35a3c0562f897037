"""Which runs are wanted: what `run:`, `exclude:` and `include:` name must be there."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from launchbay.config.values import parse_values, split_hint
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from launchbay.config.files import Notes
    from launchbay.config.problems import Route
    from launchbay.config.schema import RunBlock
    from launchbay.core.sweep import Branch

    Values = Mapping[str, Sequence[str]]

SAMPLE = 1000
"""Of a list of values, so many are looked at for a suggestion or a warning."""


@dataclass(kw_only=True)
class Rule:
    """Points that a place of the file leaves out or adds, and the branches it may be about."""

    values: Values
    branches: list[Branch] = field(default_factory=list)
    labels: frozenset[str] = frozenset()
    """The keys of these branches that name groups."""
    taken: bool = False
    """Whether one of the branches has all of its keys."""


def select_names(
    names: Sequence[str] | None, known: Collection[str], section: str, *, at: Route, notes: Notes
) -> list[str]:
    """The models or datasets that a block names, each once; all of them where it names none."""
    if names is None:
        # A file without the section has one, without a name.
        return list(known) or [""]
    if not names:
        notes.add(at, f"names no {section}", "take the key out to run all")
    for name in names:
        if name not in known:
            message = f"there is no {section} `{name}`"
            hint = (
                suggest(name, known, listing=True) or f"take it out; the file has no `{section}:`"
            )
            notes.add(at, message, hint)
    return [name for name in dict.fromkeys(names) if name in known]


def read_filter(block: RunBlock, *, at: Route, notes: Notes) -> dict[str, Sequence[str]]:
    """The values that a block keeps, by the parameter."""
    if block.params is None:
        return {}
    if not isinstance(block.params, dict):
        notes.add(at, "must be a mapping of parameters to values", "write `lr: [0.1]`")
        return {}
    kept: dict[str, Sequence[str]] = {}
    for key, value in block.params.items():
        try:
            kept[key] = parse_values(value)
        except ValueError as err:
            notes.add((*at, key), *split_hint(err))
    return kept


def check_values(wanted: Values, branches: Sequence[Branch], *, at: Route, notes: Notes) -> None:
    """Note each key that none of the branches has, and each value that it never has there."""
    known = check_keys(wanted, branches, at=at, notes=notes)
    for key in known:
        columns = [branch.grid.values_of(key) for branch in branches]
        for value in wanted[key]:
            if not any(value in column for column in columns):
                some = chain.from_iterable(column[:SAMPLE] for column in columns)
                notes.add((*at, key), f"is never `{value}`", suggest(value, some))


def check_keys(wanted: Values, branches: Sequence[Branch], *, at: Route, notes: Notes) -> list[str]:
    """Note each key that none of the branches has; the others are returned."""
    known = dict.fromkeys(key for branch in branches for key in branch.grid.keys)
    for key in wanted:
        if key not in known:
            hint = suggest(key, known) or "these runs have no parameters"
            notes.add((*at, key), "no parameter of these runs", hint)
    return [key for key in wanted if key in known]


def check_included(rule: Rule, typed: Collection[str], *, at: Route, notes: Notes) -> None:
    """Note what keeps a point from being added anywhere; `typed` keys have other values."""
    if rule.taken:
        labels = rule.labels.difference(typed)
        chosen = {key: names for key, names in rule.values.items() if key in labels}
        check_values(chosen, rule.branches, at=at, notes=notes)
        return
    if len(check_keys(rule.values, rule.branches, at=at, notes=notes)) == len(rule.values):
        keys = ", ".join(f"`{key}`" for key in rule.values)
        notes.add(at, f"no run has all of {keys}", "write one point for each model or dataset")
