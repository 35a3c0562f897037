r"""The forms that text in a file may have, as JSON schemas: what an editor may know of a value.

An editor has `0.1` for a number, `true` for a truth value and `null` for nothing, where the loader
has text. The patterns are read by JavaScript too: no inline flags, and `\w` is ASCII there. None
refuses what the loader takes; where a form is too rich for a pattern, it takes more.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from launchbay.config.resources import NODE, NUMBER, TRUTHS, ZERO

Schema: TypeAlias = dict[str, Any]

PLACEHOLDER = r"<[A-Za-z_][\w.-]*(?::\w+)?>"
AMOUNT = r"[0-9]+(?:\.[0-9]+)?\s*[KMGTkmgt]?[iI]?[bB]?"
SPAN = r"(?:[0-9]+[dD])?(?:[0-9]+(?:\.[0-9]+)?[hH])?(?:[0-9]+[mM])?(?:[0-9]+[sS])?"
CLOCK = r"(?:[0-9]+-)?[0-9]+(?::[0-9]+){0,2}"
LEADS_OUT = r"[/~]|(?:\.(?:/+|$))*$|(?:.*/)?\.\.(?:/|$)"
LOCK_FILE = r"\.*[^/.][^/]*\.(?:txt|ya?ml)"
ENVIRONMENT = rf"none|uv|conda:.+|[/~](?!(?:.*/)?{LOCK_FILE}$).*|(?![/~]|\.\./)(?:.*/)?{LOCK_FILE}"
# Letters of all languages count, so that it is the other signs that are listed.
NAME = r"^(?=.*[^\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f])[^\s/._-][^/\x00-\x1f\x7f]*$"
NAMES = r"^\s*[^,\s][^,]*(?:,\s*[^,\s][^,]*)*$"


def or_nothing(schema: Schema) -> Schema:
    """The schema of a key that may have nothing behind it."""
    nothing = {"type": "null"}
    match schema:
        case {"type": str() as one, **rest}:
            return {"type": [one, "null"], **rest}
        case {"type": list() as types, **rest}:
            return {"type": [*types, *({"null"} - set(types))], **rest}
        case {"anyOf": list() as choices, **rest} if any(allows_null(one) for one in choices):
            return {"anyOf": choices, **rest}
        case {"anyOf": list() as choices, **rest}:
            return {"anyOf": [*choices, nothing], **rest}
    return {"anyOf": [schema, nothing]} if schema else schema


def allows_null(schema: Schema) -> bool:
    """Whether the schema says by its type that nothing is enough."""
    return "null" in schema.get("type", ())


def one_or_list(item: Schema, **limits: int) -> Schema:
    """One of these, or a list of them."""
    return {"anyOf": [item, {"type": "array", "items": item, **limits}]}


def mapping(keys: str, values: Schema) -> Schema:
    """Keys of this form, if any is asked for, to such values."""
    names = {"propertyNames": {"pattern": keys}} if keys else {}
    return {"type": "object", **names, "additionalProperties": values}


def _word(pattern: str, *types: str, **limits: float) -> Schema:
    """Text of one form, which a placeholder may stand for, or a number."""
    return {
        "type": ["string", *types, "null"],
        "pattern": f"^(?:{pattern})$|{PLACEHOLDER}",
        **limits,
    }


def _any_case(word: str) -> str:
    return "".join(f"[{sign}{sign.upper()}]" if sign.isalpha() else sign for sign in word)


def _above_zero(pattern: str) -> str:
    return rf"\s*(?=.*[1-9])(?:{pattern})\s*"


TEXT: Schema = {"type": ["string", "number", "boolean", "null"]}
TITLE: Schema = {**TEXT, "pattern": NAME, "minimum": 0}
COMMAND: Schema = {**TEXT, "pattern": r"\S"}
WORDS: Schema = one_or_list(TEXT)
GPUS: Schema = {
    "anyOf": [
        _word(r"0*\.[0-9]+|[0-9]+(?:\.0*)?", "integer", minimum=0),
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
    ]
}
GPU_TYPES: Schema = one_or_list({**TEXT, "pattern": NAMES}, minItems=1)
CPUS: Schema = _word(_above_zero(NUMBER.pattern), "number", exclusiveMinimum=0)
MEMORY: Schema = _word(_above_zero(AMOUNT), "number", exclusiveMinimum=0)
DISK: Schema = _word(rf"{ZERO.pattern}|\s*{AMOUNT}\s*", "number", minimum=0)
TIME: Schema = _word(_above_zero(f"{SPAN}|{CLOCK}"), "integer", minimum=1)
SECONDS: Schema = _word(rf"0s?|{_above_zero(f'{SPAN}|{CLOCK}')}", "integer", minimum=0)
COUNT: Schema = _word("(?=[0-9]{1,9}$)0*[1-9][0-9]*", "integer", minimum=1, maximum=999_999_999)
WHOLE: Schema = _word("[0-9]{1,9}", "integer", minimum=0, maximum=999_999_999)
TRUTH: Schema = _word("|".join(map(_any_case, TRUTHS)), "boolean", "integer", minimum=0, maximum=1)
PACK: Schema = {**COUNT, "pattern": f"^{NODE}$|{COUNT['pattern']}"}
RETRIES: Schema = {
    "anyOf": [
        {**WHOLE, "pattern": f"=|{WHOLE['pattern']}"},
        mapping("", WHOLE),
    ]
}
HOST: Schema = {**TEXT, "pattern": r"^[^\s-]\S*$"}
SBATCH: Schema = one_or_list({**TEXT, "pattern": rf"^\s*(?:-|#SBATCH)|{PLACEHOLDER}"})
BINDS: Schema = one_or_list(
    {**TEXT, "pattern": rf"^[^:,]*[^:,\s][^:,]*:/[^:,]*(?::r[ow])?$|{PLACEHOLDER}"}
)
RATIO: Schema = _word(r"\s*\+?[0-9._]+(?:[eE][+-]?[0-9]+)?\s*", "number", minimum=1, maximum=10)
PYTHON: Schema = _word(ENVIRONMENT)
CONTAINER: Schema = _word("apptainer|singularity")
DEVICES: Schema = {
    "anyOf": [
        {
            "type": ["string", "integer"],
            "pattern": "^(?:auto|[0-9]{1,4})$",
            "minimum": 0,
            "maximum": 9999,
        },
        {"type": "array", "items": TEXT},
    ]
}
TOLERATIONS: Schema = {
    "type": "array",
    "items": {"anyOf": [TEXT, {"type": "object", "required": ["key"]}]},
}
INSIDE: Schema = {**TEXT, "pattern": f"^(?!{LEADS_OUT})"}
SOURCE: Schema = {"type": "string", "pattern": f".:(?!{LEADS_OUT})[^:]*$"}
CODE: Schema = {"anyOf": [{"const": "image"}, {"type": "array", "items": SOURCE}]}
FOLDER: Schema = {
    "anyOf": [
        {**TEXT, "pattern": r"."},
        {
            "type": "object",
            "properties": {"from": {**TEXT, "pattern": r"."}, "at": TEXT, "ro": TRUTH},
            "required": ["from"],
            "additionalProperties": False,
        },
    ]
}
STORAGE: Schema = _word(r"none|[A-Za-z0-9][\w-]*:\S.*")
METRIC: Schema = {"type": "string", "pattern": r"\("}


def variable(pattern: str) -> Schema:
    """The name of a variable; `yes` and `null` are names."""
    return {"type": ["string", "boolean", "null"], "pattern": pattern}


def secrets(pattern: str) -> Schema:
    """Names of variables, or names with the files that hold their values."""
    files = mapping(pattern, TEXT)
    items = {"anyOf": [variable(pattern), files]}
    return {"anyOf": [{"type": "array", "items": items}, files]}
