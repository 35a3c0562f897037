"""A document against the shape that it should have; every problem is found, each with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from launchbay.config.common import Common, Part, Profile
from launchbay.config.examples import fix_type
from launchbay.config.files import Notes
from launchbay.config.grids import read_entry
from launchbay.config.problems import config_error
from launchbay.config.resources import OPPOSITES
from launchbay.config.schema import (
    KEYS_OF,
    KUBERNETES,
    LOCAL,
    MACHINE,
    ONLY_MACHINE,
    SLURM,
    BucketEntry,
    Dataset,
    ExperimentFile,
    Model,
    RunBlock,
    Target,
    Written,
)
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic_core import ErrorDetails

    from launchbay.config.files import Document, Value
    from launchbay.config.problems import Problem, Route

W = TypeVar("W", bound=Written)

EXPECTED = {
    "bool_type": "one value",
    "dict_type": "a mapping",
    "float_type": "one value",
    "int_type": "one value",
    "model_type": "a mapping",
    "string_type": "text",
    "time_delta_type": "one value",
    "tuple_type": "a list",
}
"""What a file should have said, by the name that pydantic gives the error."""

FOUND: dict[type, str] = {dict: "a mapping", list: "a list", str: "text"}
SHAPES: Mapping[str, type[Part]] = {
    "bucket": BucketEntry,
    "model": Model,
    "dataset": Dataset,
    "run": RunBlock,
    "targets": Target,
}
"""The shape of the entries below a key of the root."""
HOMES: Mapping[type[Part], str] = {
    ExperimentFile: "the file's root",
    Model: "a model",
    Dataset: "a dataset",
    RunBlock: "`run`",
    Target: "a target",
    Profile: "a profile",
}
"""The places of an experiment file, by their shapes."""
TARGET: Route = ("targets",)
LONGEST_LIST = 120
PLACEHOLDER = re.compile(r"(?<!\\)<[A-Za-z_][\w.-]*(:\w+)?>")


def validate(document: Document, shape: type[W], *, runs: bool = True) -> W:
    """The document as a value of its shape, which remembers the document.

    Args:
        document: what was read.
        shape: what it should be.
        runs: whether an experiment file must say what to run.

    Raises:
        ConfigError: when anything is wrong, with everything that is.
    """
    problems = find_problems(document, shape, runs=runs)
    if problems:
        raise config_error(problems)
    data, templates = split_templates(document.data, shape)
    written = shape.model_validate(data)
    written.remember(document, templates)
    return written


def find_problems(document: Document, shape: type[Written], *, runs: bool = True) -> list[Problem]:
    """Everything that keeps the document from its shape, and from being run if that is meant."""
    problems = _target_problems(document)
    data, _ = split_templates(document.data, shape)
    try:
        shape.model_validate(data)
    except ValidationError as err:
        problems += [translate(document, shape, error) for error in err.errors()]
    problems += _opposite_problems(document)
    if shape is ExperimentFile:
        problems += _grid_problems(document)
        # A key that is only misspelt is not missing too.
        if runs and all(problem.hint != "did you mean `command`?" for problem in problems):
            problems += _command_problems(document)
    return problems


def split_templates(
    data: Mapping[str, Any], shape: type[Written]
) -> tuple[dict[str, Any], dict[Route, dict[str, Any]]]:
    """The data without what holds placeholders, and that by the entry it stands in.

    Placeholders count in the entries of models; where there are none, the root is the model.
    """
    plain = dict(data)
    templates: dict[Route, dict[str, Any]] = {}
    if shape is not ExperimentFile:
        return plain, templates
    models = plain.get("model")
    if not isinstance(models, dict) or not models:
        plain, held = _split_entry(plain)
        return plain, {(): held} if held else {}
    plain["model"] = dict(models)
    for name, entry in models.items():
        if isinstance(entry, dict):
            plain["model"][name], held = _split_entry(entry)
            if held:
                templates["model", name] = held
    return plain, templates


def fill_templates(value: Value, fill: Any) -> Value:  # noqa: ANN401
    """The value with each text in it filled."""
    match value:
        case str():
            return str(fill(value))
        case list():
            return [fill_templates(item, fill) for item in value]
        case dict():
            return {key: fill_templates(item, fill) for key, item in value.items()}
    return value


def kind_problems(
    document: Document, kind: str, route: Route, entry: Iterable[str]
) -> list[Problem]:
    """Keys of a target, or of a profile of one, that its kind does not have."""
    known = {key for key, field in Target.spellings().items() if field in KEYS_OF[kind]}
    wrong = [key for key in entry if key not in known | KEYS_OF[kind]]
    if "profiles" in route:
        # What is no key of any profile was found with its shape.
        wrong = [key for key in wrong if key in Profile.spellings()]
    return [document.problem((*route, key), *_unknown_to(kind, key, known)) for key in wrong]


def _unknown_to(kind: str, key: str, known: Iterable[str]) -> tuple[str, str | None]:
    if key not in Target.spellings():
        return _unknown(key, known, Target)
    cluster = "a Slurm target" if kind == SLURM else "a Kubernetes target"
    if key in ONLY_MACHINE:
        return f"{cluster} has no such key", "take it out: a cluster gives each run its GPUs"
    if kind == KUBERNETES:
        hint = "take it out: pods have roots of their own, and Slurm its keys"
        return f"{cluster} has no such key", hint
    if kind == SLURM:
        return f"{cluster} has no such key", "take it out: only a Kubernetes target has it"
    return "a machine has no such key", "take it out: only a cluster's target has it"


def _split_entry(entry: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    spellings = Common.spellings()
    held = {key: value for key, value in entry.items() if key in spellings and _has_slot(value)}
    return {key: value for key, value in entry.items() if key not in held}, held


def _has_slot(value: Value) -> bool:
    match value:
        case str():
            return bool(PLACEHOLDER.search(value))
        case list():
            return any(map(_has_slot, value))
        case dict():
            return any(map(_has_slot, value.values()))
    return False


def _target_problems(document: Document) -> list[Problem]:
    targets = document.data.get("targets")
    problems = []
    for name, entry in targets.items() if isinstance(targets, dict) else ():
        kind = entry.get("kind") if isinstance(entry, dict) else None
        elsewhere = _elsewhere(entry) if name == LOCAL and isinstance(entry, dict) else []
        message, hint = f"`{LOCAL}` is always this computer", "choose another name for that target"
        problems += [document.problem((*TARGET, name, key), message, hint) for key in elsewhere]
        kind = MACHINE if name == LOCAL else kind
        if isinstance(entry, dict) and kind in KEYS_OF and not elsewhere:
            for route, part in _with_profiles((*TARGET, name), entry):
                problems += kind_problems(document, kind, route, part)
    return problems


def _elsewhere(entry: Mapping[str, Value]) -> list[str]:
    """The keys by which a target is not this computer."""
    kind, host = entry.get("kind"), entry.get("host")
    is_other = isinstance(kind, str) and kind != MACHINE
    return [*(["kind"] if is_other else []), *(["host"] if host is not None else [])]


def _with_profiles(
    route: Route, entry: Mapping[str, Any]
) -> Iterator[tuple[Route, Mapping[str, Any]]]:
    """A target's entry, and its profiles as far as they are mappings."""
    yield route, entry
    profiles = entry.get("profiles")
    for name, profile in profiles.items() if isinstance(profiles, dict) else ():
        if isinstance(profile, dict):
            yield (*route, "profiles", name), profile


def _entries(document: Document) -> Iterator[tuple[Route, Mapping[str, Any]]]:
    """Root, models, datasets, targets and their profiles, as far as they are mappings."""
    yield (), document.data
    for section in ("model", "dataset", "targets"):
        entries = document.data.get(section)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            if isinstance(entry, dict):
                yield from _with_profiles((section, name), entry)


def _grid_problems(document: Document) -> list[Problem]:
    notes = Notes(document)
    for route, entry in _entries(document):
        if route[:1] != ("targets",):
            read_entry(entry, route, notes)
    return notes.problems


def _command_problems(document: Document) -> list[Problem]:
    """Every run needs something to do."""
    data = document.data
    if data.get("command") is not None:
        return []
    models = data.get("model")
    if not data:
        hint = "begin with `command: python train.py`; `bay init` writes an example"
        return [document.problem((), "the file says nothing yet", hint)]
    if not isinstance(models, dict) or not models:
        hint = "add a line such as `command: python train.py`"
        return [document.problem(("command",), "missing", hint)]
    hint = "add `command: python train.py` to it, or to the file's root for all models"
    return [
        document.problem(("model", name, "command"), "missing", hint)
        for name, entry in models.items()
        if entry is None or (isinstance(entry, dict) and entry.get("command") is None)
    ]


def translate(
    document: Document, shape: type[Part], error: ErrorDetails, below: Route = ()
) -> Problem:
    """What pydantic says of the part of a document that stands `below` a route, in our words."""
    # Pydantic marks an error of a key itself so.
    route = (*below, *(key for key in error["loc"] if key != "[key]"))
    if route[:1] == ("run",) and isinstance(document.data.get("run"), dict):
        route = (route[0], *route[2:])
    # One place without a name is an entry with none.
    route = tuple(key for key in route if key != "")
    match error["type"]:
        case "missing":
            return document.problem(
                route[:-1], f"no `{route[-1]}`", "say where it is: `url: s3://…`"
            )
        case "extra_forbidden":
            return _unknown_key(document, _shape_at(shape, route), route)
        case "value_error":
            return document.problem(route, str(error["ctx"]["error"]))
    expected, written = EXPECTED[error["type"]], error["input"]
    if written is None and expected == "text":
        return document.problem(route, "no value", "write one, or `''` for an empty one")
    hint = fix_type(route, expected, written, sweeps=shape is ExperimentFile)
    found = "nothing" if written is None else FOUND[type(written)]
    return document.problem(route, f"must be {expected}, not {found}", hint)


def _opposite_problems(document: Document) -> Iterator[Problem]:
    """What one entry allows and denies at once."""
    fields = Common.spellings()
    for route, entry in _entries(document):
        given = [key for key, value in entry.items() if key in fields and value is not None]
        written = {fields[key]: key for key in given}
        for allowed, denied in OPPOSITES:
            if allowed in written and denied in written:
                text = f"`{written[allowed]}` and `{written[denied]}` are both set"
                yield document.problem((*route, written[denied]), text, "keep one of them")


def _shape_at(shape: type[Part], route: Route) -> type[Part]:
    """The shape of the mapping that the last key of the route stands in."""
    if len(route) > 4 and route[:1] == TARGET and route[2] == "profiles":  # noqa: PLR2004
        return Profile
    if len(route) > 1 and route[0] in SHAPES:
        return SHAPES[str(route[0])]
    return shape


def _unknown_key(document: Document, shape: type[Part], route: Route) -> Problem:
    key = str(route[-1])
    spellings = shape.spellings()
    if key not in spellings:
        return document.problem(route, *_unknown(key, spellings, shape))
    entry = document.find_value(route[:-1])
    others = [one for one in entry if one != key] if isinstance(entry, dict) else []
    other = next((one for one in others if spellings.get(one) == spellings[key]), spellings[key])
    place = document.find_place((*route[:-1], other))
    where = f" on line {place.line}" if place and place.file == document.file else ""
    return document.problem(route, f"the same key as `{other}`{where}", "keep one of them")


def _unknown(key: str, known: Iterable[str], shape: type[Part]) -> tuple[str, str | None]:
    homes = [place for home, place in HOMES.items() if key in home.spellings()]
    if homes and shape in HOMES:
        return f"not a key of {HOMES[shape]}", f"move it to {' or '.join(homes[:2])}"
    hint = suggest(key, known)
    if hint and hint.startswith("there") and len(hint) > LONGEST_LIST:
        hint = _far_hint(shape, set(known))
    return "unknown key", hint


def _far_hint(shape: type[Part], known: set[str]) -> str:
    """What to do about a key that resembles none of many."""
    if "params" in shape.model_fields:
        return "put it below `params:` if it is a parameter, or take it out"
    own = ", ".join(f"`{key}`" for key in shape.__annotations__ if key in known)
    return f"take it out; there are {own} and more"
