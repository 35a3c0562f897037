"""A document against the shape that it should have; every problem is found, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from launchbay.config.problems import config_error
from launchbay.config.schema import LOCAL, MACHINE, MACHINE_KEYS, Written
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import ErrorDetails

    from launchbay.config.files import Document
    from launchbay.config.problems import Problem

W = TypeVar("W", bound=Written)

EXPECTED = {
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


def validate(document: Document, shape: type[W]) -> W:
    """The document as a value of its shape, which remembers the document.

    Raises:
        ConfigError: when anything is wrong, with everything that is.
    """
    problems = find_problems(document, shape)
    if problems:
        raise config_error(problems)
    written = shape.model_validate(dict(document.data))
    written.remember(document)
    return written


def find_problems(document: Document, shape: type[Written]) -> list[Problem]:
    """Everything that keeps the document from its shape."""
    problems = _target_problems(document)
    try:
        shape.model_validate(dict(document.data))
    except ValidationError as err:
        problems += [_translate(document, shape, error) for error in err.errors()]
    hints = {problem.hint for problem in problems}
    # A key that is only misspelt is not missing too.
    return [one for one in problems if f"did you mean `{one.key}`?" not in hints]


def machine_problems(document: Document, name: str, keys: Iterable[str]) -> list[Problem]:
    """Keys that a target of kind `machine` does not have."""
    return [
        document.problem(("targets", name, key), "unknown key", suggest(key, MACHINE_KEYS))
        for key in keys
        if key not in MACHINE_KEYS
    ]


def _target_problems(document: Document) -> list[Problem]:
    targets = document.data.get("targets")
    problems = []
    for name, entry in targets.items() if isinstance(targets, dict) else ():
        kind = entry.get("kind") if isinstance(entry, dict) else None
        if name == LOCAL and isinstance(kind, str) and kind != MACHINE:
            message = f"`{LOCAL}` is always this computer"
            hint = "choose another name for that target"
            problems.append(document.problem(("targets", name, "kind"), message, hint))
        elif isinstance(entry, dict) and (name == LOCAL or kind == MACHINE):
            problems += machine_problems(document, name, entry)
    return problems


def _translate(document: Document, shape: type[Written], error: ErrorDetails) -> Problem:
    # Pydantic marks an error of a key itself so.
    route = tuple(key for key in error["loc"] if key != "[key]")
    match error["type"]:
        case "extra_forbidden":
            return _unknown_key(document, shape, str(route[-1]))
        case "missing":
            hint = "add a line such as `command: python train.py`"
            return document.problem(route, "missing", hint)
        case "value_error":
            return document.problem(route, str(error["ctx"]["error"]))
    expected = EXPECTED[error["type"]]
    if error["input"] is None:
        return document.problem(route, f"must be {expected}, not nothing", "give it a value")
    return document.problem(route, f"must be {expected}, not {FOUND[type(error['input'])]}")


def _unknown_key(document: Document, shape: type[Written], key: str) -> Problem:
    spellings = shape.spellings()
    if key in spellings:
        message = f"the same key as `{spellings[key]}`"
        return document.problem((key,), message, "keep one of them")
    return document.problem((key,), "unknown key", suggest(key, spellings))
