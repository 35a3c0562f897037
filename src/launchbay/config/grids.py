"""From the parameters of a file to grids: groups, nested keys, zipped lists, points in and out.

What is written at the root, in a dataset and in a model is read apart (`read_entry`), laid over
one another (`combine`), perhaps changed by what was typed (`override`), and made a grid
(`assemble`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from launchbay.config.problems import dotted
from launchbay.config.values import MOST_HELD, count_of, is_rule, parse_values, split_hint
from launchbay.core.nearest import suggest
from launchbay.core.sweep import Axis, Grid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from launchbay.config.files import Notes, Value
    from launchbay.config.problems import Route

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
NAME_RULE = "use letters, digits, `_`, `-` and `.`, a letter first"
ZIPPED = "___"
PARAMS = ("params", "hparam")
RULES = ("zip", "exclude", "include")
"""Keys that say something about parameters, beside them or among them."""

Values: TypeAlias = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One written entry: the keys that it sets, and the values they take together."""

    axis: Axis
    route: Route
    hidden: frozenset[str] = frozenset()
    """Keys that are left out of names."""
    label: str = ""
    """The key that names a group."""
    zipped: bool = False


@dataclass(frozen=True, kw_only=True)
class Params:
    """What one place of a file says about parameters."""

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    zips: tuple[tuple[Route, tuple[str, ...]], ...] = ()
    excluded: tuple[tuple[Route, Values], ...] = ()
    included: tuple[tuple[Route, Values], ...] = ()

    @property
    def hidden(self) -> frozenset[str]:
        """Keys that are left out of names."""
        return frozenset(chain.from_iterable(one.hidden for one in self.parameters.values()))

    @property
    def labels(self) -> frozenset[str]:
        """Keys that name groups."""
        return frozenset(one.label for one in self.parameters.values() if one.label)

    @property
    def is_empty(self) -> bool:
        """Whether there is no point, as where nothing of a group was chosen."""
        return not all(count_of(one.axis.columns[0]) for one in self.parameters.values())

    def choices(self, key: str) -> Sequence[str]:
        """The names of a group, perhaps more than once; nothing if the key names none."""
        named = (one.axis.columns[0] for one in self.parameters.values() if one.label == key)
        return next(named, ())

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that a point has."""
        return tuple(key for one in self.parameters.values() for key in one.axis.keys)


def read_entry(entry: Mapping[str, Any], route: Route, notes: Notes) -> list[Params]:
    """What the root, a model or a dataset says about parameters: a list, for unions of grids."""
    spelled = next((key for key in PARAMS if entry.get(key) is not None), PARAMS[0])
    written, where = entry.get(spelled), (*route, spelled)
    match written:
        case None:
            grids = [Params()]
        case dict():
            grids = [_read_mapping(written, where, notes)]
        case list():
            grids = _read_union(written, where, notes)
        case _:
            notes.add(where, "must be a mapping of parameters", "write `lr: [0.1, 0.01]` below it")
            grids = [Params()]
    beside = _read_rules(entry, route, notes)
    return [combine([one, beside]) for one in grids]


def combine(parts: Sequence[Params]) -> Params:
    """What several places say; of the same parameter the last one does, where the first stood."""
    parameters: dict[str, Parameter] = {}
    for part in parts:
        parameters.update(part.parameters)
    return Params(
        parameters=parameters,
        zips=tuple(chain.from_iterable(part.zips for part in parts)),
        excluded=tuple(chain.from_iterable(part.excluded for part in parts)),
        included=tuple(chain.from_iterable(part.included for part in parts)),
    )


def override(params: Params, values: Values) -> Params:
    """The parameters with other values of some keys; those of a group's name choose among it."""
    parameters: dict[str, Parameter] = {}
    for name, one in params.parameters.items():
        mine = {key: values[key] for key in one.axis.keys if key in values}
        parameters |= _overridden(name, one, mine)
    zips = tuple(
        (route, tuple(name for name in names if name not in values)) for route, names in params.zips
    )
    return replace(params, parameters=parameters, zips=zips)


def assemble(params: Params, notes: Notes) -> Grid:
    """The grid of the parameters: zipped ones as one axis, where the first of them stands."""
    _check_keys(params, notes)
    groups = _zip_groups(params, notes)
    axes: list[Axis] = []
    for name, one in params.parameters.items():
        group = next((names for names in groups if name in names), None)
        if group is None:
            axes.append(one.axis)
        elif name == next(known for known in params.parameters if known in group):
            parts = [params.parameters[known].axis for known in params.parameters if known in group]
            axes.append(_joined(parts))
    return Grid(tuple(axes))


def _joined(parts: Sequence[Axis]) -> Axis:
    keys = tuple(chain.from_iterable(part.keys for part in parts))
    return Axis(keys, tuple(chain.from_iterable(part.columns for part in parts)))


def _overridden(name: str, one: Parameter, values: Values) -> dict[str, Parameter]:
    if one.label in values:
        one = replace(one, axis=_chosen(one.axis, one.label, values[one.label]))
    others = {key: column for key, column in values.items() if key != one.label}
    return _replaced(name, one, others) if others else {name: one}


def _chosen(axis: Axis, label: str, names: Sequence[str]) -> Axis:
    """The rows of a group that have one of these names."""
    rows = [row for row in axis if row[label] in names]
    return Axis(axis.keys, tuple(tuple(row[key] for row in rows) for key in axis.keys))


def _replaced(name: str, one: Parameter, values: Values) -> dict[str, Parameter]:
    """The parameter without these keys, and each of them as an axis of its own."""
    kept = [key for key in one.axis.keys if key not in values]
    found: dict[str, Parameter] = {}
    if kept:
        rows = list(dict.fromkeys(tuple(row[key] for key in kept) for row in one.axis))
        columns = tuple(tuple(row[at] for row in rows) for at in range(len(kept)))
        found[name] = replace(one, axis=Axis(tuple(kept), columns))
    for key, column in values.items():
        own = Parameter(
            axis=Axis((key,), (column,)), route=one.route, hidden=one.hidden & frozenset({key})
        )
        found[key] = own
    return found


def _read_union(written: Sequence[Value], route: Route, notes: Notes) -> list[Params]:
    grids = []
    for at, one in enumerate(written):
        if isinstance(one, dict):
            grids.append(_read_mapping(one, (*route, at), notes))
        else:
            notes.add((*route, at), "must be a mapping of parameters", "write `- lr: 0.1`")
    if not written:
        notes.add(route, "an empty list of grids", "take the key out, or write a grid")
    return grids or [Params()]


def _read_mapping(written: Mapping[str, Value], route: Route, notes: Notes) -> Params:
    plain = {key: value for key, value in written.items() if key not in RULES}
    known = frozenset(chain.from_iterable(_names(key, value) for key, value in plain.items()))
    rules = {key: written[key] for key in RULES if _is_meant(key, written.get(key), known)}
    parameters: dict[str, Parameter] = {}
    for key, value in written.items():
        if key in rules:
            continue
        for name, one in _read_parameter(key, value, (*route, key), notes):
            if name in parameters:
                notes.add(one.route, f"`{name}` is given twice", "keep one of them")
            parameters[name] = one
    return combine([Params(parameters=parameters), _read_rules(rules, route, notes)])


def _is_meant(key: str, value: Value, known: frozenset[str]) -> bool:
    """Whether a rule's key among parameters says something about them, and is none itself."""
    points = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    return bool(key != "zip" and points) or not known.isdisjoint(_mentioned(value))


def _names(key: str, value: Value) -> Iterator[str]:
    """What a written entry may be called by, or set."""
    name = _clean(key)
    yield name
    for inner, members in value.items() if isinstance(value, dict) else ():
        yield f"{name}.{_clean(inner)}"
        yield from map(_clean, members if isinstance(members, dict) else ())


def _mentioned(value: Value) -> Iterator[str]:
    match value:
        case str():
            yield _clean(value)
        case list():
            for item in value:
                yield from _mentioned(item)
        case dict():
            yield from map(_clean, value)


def _read_rules(entry: Mapping[str, Any], route: Route, notes: Notes) -> Params:
    """`zip`, `exclude` and `include` of an entry."""
    included = entry.get("include")
    # The root's `include` may also be a list of files, which is read elsewhere.
    if not route and isinstance(included, list) and any(isinstance(one, str) for one in included):
        included = None
    return Params(
        zips=tuple(_read_zips(entry.get("zip"), (*route, "zip"), notes)),
        excluded=tuple(_read_points(entry.get("exclude"), (*route, "exclude"), notes)),
        included=tuple(_read_points(included, (*route, "include"), notes)),
    )


def _read_zips(
    written: Value, route: Route, notes: Notes
) -> Iterator[tuple[Route, tuple[str, ...]]]:
    if written is None:
        return
    groups: list[tuple[Route, Value]] = [(route, written)]
    if isinstance(written, list) and any(isinstance(one, list) for one in written):
        groups = [((*route, at), group) for at, group in enumerate(written)]
    for where, group in groups:
        names = group if isinstance(group, list) else []
        if len(names) > 1 and all(isinstance(name, str) for name in names):
            yield where, tuple(_clean(str(name)) for name in names)
        else:
            notes.add(where, "must be a list of two parameters or more", "write `zip: [lr, width]`")


def _read_points(written: Value, route: Route, notes: Notes) -> Iterator[tuple[Route, Values]]:
    """Points to leave out or to add: mappings of a key to a value or several."""
    if written is None:
        return
    entries: list[tuple[Route, Value]] = [(route, written)]
    if isinstance(written, list):
        entries = [((*route, at), entry) for at, entry in enumerate(written)]
    for where, entry in entries:
        if not isinstance(entry, dict) or not entry:
            notes.add(where, "must be a mapping of parameters to values", "write `- {lr: 0.1}`")
            continue
        values: dict[str, Sequence[str]] = {}
        for key, value, place in _leaves(entry, where):
            try:
                values[_clean(key)] = parse_values(value)
            except ValueError as err:
                notes.add(place, *split_hint(err))
        yield where, values


def _read_parameter(
    key: str, value: Value, route: Route, notes: Notes
) -> Iterator[tuple[str, Parameter]]:
    """The parameters that one entry makes, by name: one, or several for nested keys."""
    if not NAME.fullmatch(_clean(key)):
        notes.add(route, f"`{key}` is no name of a parameter", NAME_RULE)
    elif not _is_mapping(value):
        yield from _read_values(key, value, route, notes)
    elif not value:
        notes.add(route, "an empty mapping", "write a value, a list or a group")
    elif any(map(_is_mapping, value.values())):
        yield from _read_group(key, value, route, notes)
    else:
        for inner, values in value.items():
            yield from _read_values(_nested(key, inner), values, (*route, inner), notes)


def _read_values(
    key: str, value: Value, route: Route, notes: Notes
) -> Iterator[tuple[str, Parameter]]:
    name = _clean(key)
    marks = frozenset({name} if key.startswith("_") else ())
    try:
        axis = Axis((name,), (parse_values(value),))
    except ValueError as err:
        notes.add(route, *split_hint(err))
        return
    yield name, Parameter(axis=axis, route=route, hidden=marks, zipped=key.endswith(ZIPPED))


def _read_group(
    key: str, value: Mapping[str, Value], route: Route, notes: Notes
) -> Iterator[tuple[str, Parameter]]:
    """`train: {paper: {lr: 1}, scale: {lr: 2}}`: the rows of a group, named by their keys."""
    name = _clean(key)
    marks = {name} if key.startswith("_") else set()
    choices: dict[str, Values] = {}
    for choice, inner in value.items():
        if inner is not None and not _is_mapping(inner):
            message = f"group `{name}`: this is no mapping of keys, as its neighbours are"
            keys = next(other for other in value.values() if _is_mapping(other))
            example = next(iter(keys), "key")
            notes.add((*route, choice), message, f"write `{choice}: {{{example}: …}}`")
            return
        members = list(_leaves(inner or {}, (*route, choice)))
        marks |= {_clean(member) for member, _, _ in members if member.startswith("_")}
        choices[choice] = _read_members(name, members, notes)
    if not _are_equal(name, choices, route, notes):
        return
    columns = _group_columns(choices)
    if columns is None:
        message = f"group `{name}` has more than {MOST_HELD:,} points"
        notes.add(route, message, "write long ranges as keys of their own, outside of it")
        return
    axis = Axis((name, *next(iter(choices.values()))), columns)
    one = Parameter(axis=axis, route=route, hidden=frozenset(marks), label=name)
    yield name, replace(one, zipped=key.endswith(ZIPPED))


def _read_members(name: str, members: Sequence[tuple[str, Value, Route]], notes: Notes) -> Values:
    """The keys that a choice of a group sets, and their values."""
    axes: dict[str, Sequence[str]] = {}
    for key, value, route in members:
        member = _clean(key)
        if not NAME.fullmatch(member):
            notes.add(route, f"`{key}` is no name of a parameter", NAME_RULE)
        elif member == name:
            message = f"group `{name}`: `{member}` is the name of the group itself"
            notes.add(route, message, "give the key another name")
        elif member in axes:
            notes.add(route, f"`{member}` is given twice", "keep one of them")
        else:
            # Where only the value is wrong, the key is there.
            axes[member] = ("",)
            try:
                axes[member] = parse_values(value)
            except ValueError as err:
                notes.add(route, *split_hint(err))
    return axes


def _group_columns(choices: Mapping[str, Values]) -> tuple[Sequence[str], ...] | None:
    """The columns of a group's axis, its names first; None when they are too long to hold."""
    counts = [prod(map(count_of, axes.values())) for axes in choices.values()]
    if sum(counts) > MOST_HELD:
        return None
    keys = list(next(iter(choices.values())))
    rows = [
        (choice, *values)
        for choice, axes in choices.items()
        for values in product(*(axes[key] for key in keys))
    ]
    return tuple(zip(*rows, strict=True))


def _leaves(written: Mapping[str, Value], route: Route) -> Iterator[tuple[str, Value, Route]]:
    """Each key with its value and where it stands, `m: {lr: 1}` as `m.lr: 1`."""
    for key, value in written.items():
        if not _is_mapping(value) or not value:
            yield key, value, (*route, key)
            continue
        for inner, values, where in _leaves(value, (*route, key)):
            yield _nested(key, inner), values, where


def _is_mapping(value: Value) -> TypeGuard[dict[str, Value]]:
    return isinstance(value, dict) and not is_rule(value)


def _nested(key: str, inner: str) -> str:
    """The written name of a key inside of another; the marks of either hold.

    >>> _nested("_m", "lr"), _nested("m", "lr___")
    ('_m.lr', 'm.lr___')
    """
    mark = "_" if key.startswith("_") or inner.startswith("_") else ""
    zipped = ZIPPED if key.endswith(ZIPPED) or inner.endswith(ZIPPED) else ""
    return f"{mark}{_clean(key)}.{_clean(inner)}{zipped}"


def _are_equal(name: str, choices: Mapping[str, Values], route: Route, notes: Notes) -> bool:
    """Whether every choice of a group sets the same keys."""
    (first, keys), *others = choices.items()
    for choice, axes in others:
        _note_unequal(name, (choice, set(axes)), (first, set(keys)), route, notes)
    return all(set(axes) == set(keys) for _, axes in others)


def _note_unequal(
    name: str,
    one: tuple[str, set[str]],
    first: tuple[str, set[str]],
    route: Route,
    notes: Notes,
) -> None:
    choice, keys = one
    for key in sorted(first[1] - keys):
        message = f"group `{name}`: `{choice}` lacks `{key}`, which `{first[0]}` has"
        notes.add((*route, choice), message, f"add `{key}` to `{choice}`")
    for key in sorted(keys - first[1]):
        message = f"group `{name}`: `{choice}` has `{key}`, which `{first[0]}` lacks"
        notes.add((*route, choice), message, f"add `{key}` to `{first[0]}`, or take it out here")


def _check_keys(params: Params, notes: Notes) -> None:
    seen: dict[str, Parameter] = {}
    for one in params.parameters.values():
        for key in one.axis.keys:
            if key in seen:
                other = seen[key].route
                place = notes.document.find_place(other)
                where = f" on line {place.line}" if place else ""
                message = f"`{key}` is set here and by `{dotted(other)}`{where}"
                notes.add(one.route, message, "give one of them another name")
            seen[key] = one
    for key, one in seen.items():
        parts = key.split(".")
        for depth in range(1, len(parts)):
            above = ".".join(parts[:depth])
            if above in seen:
                message = f"`{above}` is a value and also holds `{key}`"
                notes.add(one.route, message, f"rename `{above}` or `{key}`")


def _zip_groups(params: Params, notes: Notes) -> list[tuple[str, ...]]:
    """Which parameters change together; each group was checked."""
    marked = tuple(name for name, one in params.parameters.items() if one.zipped)
    groups = [(params.parameters[marked[0]].route, marked)] if len(marked) > 1 else []
    found: list[tuple[str, ...]] = []
    for route, names in [*groups, *params.zips]:
        unknown = [name for name in names if name not in params.parameters]
        for name in unknown:
            notes.add(route, f"`{name}` is no parameter here", _zip_hint(name, params))
        if any(name in other for name in names for other in found):
            notes.add(route, "a parameter is zipped twice", "put all that belong together in one")
        elif not unknown and _same_length(params, names, route, notes) and len(names) > 1:
            found.append(names)
    return found


def _zip_hint(name: str, params: Params) -> str | None:
    holders = (one.label for one in params.parameters.values() if name in one.axis.keys)
    group = next(holders, "")
    return f"it belongs to the group `{group}`; zip that" if group else suggest(name, params.keys)


def _same_length(params: Params, names: Sequence[str], route: Route, notes: Notes) -> bool:
    lengths = {name: count_of(params.parameters[name].axis.columns[0]) for name in names}
    if len(set(lengths.values())) <= 1:
        return True
    told = ", ".join(f"`{name}` has {length}" for name, length in lengths.items())
    notes.add(route, f"zipped lists differ in length: {told}", "give each as many values")
    return False


def _clean(key: str) -> str:
    """The parameter's name, without the marks for hidden and zipped.

    >>> _clean("_fn"), _clean("x___")
    ('fn', 'x')
    """
    return key.removesuffix(ZIPPED).lstrip("_")
