"""What an editor may know of an experiment file: the models as one JSON schema.

It takes whatever the loader takes. It is less strict where one key depends on another, where a
placeholder stands, and where only the loader can tell `null` from nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic.json_schema import GenerateJsonSchema

from launchbay.config.common import Common, Part, Profile
from launchbay.config.forms import TEXT, Schema, mapping, one_or_list, or_nothing
from launchbay.config.grids import NAME
from launchbay.config.merging import BASE
from launchbay.config.schema import (
    KEYS_OF,
    LOCAL,
    MACHINE,
    Dataset,
    ExperimentFile,
    Model,
    RunBlock,
    Target,
)
from launchbay.config.values import DECIMAL, RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import core_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "launchbay experiment file"
PARTS = (Dataset, Model, RunBlock, Profile, Target)


def render_schema() -> str:
    """The schema as it is packaged."""
    return json.dumps(experiment_schema(), ensure_ascii=False, indent=1) + "\n"


def experiment_schema() -> Schema:
    """The JSON schema of an experiment file, with every spelling of every key."""
    made = ExperimentFile.model_json_schema(by_alias=False, schema_generator=_Generator)
    root = _spelled(made, ExperimentFile)
    root["properties"][BASE] = {**or_nothing(one_or_list(TEXT)), "description": ABOUT_BASE}
    root["properties"]["targets"]["properties"] = {LOCAL: _local()}
    parts = {part.__name__: _spelled(made["$defs"][part.__name__], part) for part in PARTS}
    parts["Target"]["allOf"] += [{"if": _is(kind), "then": _keys_of(kind)} for kind in KEYS_OF]
    shared = {key: root["properties"][key] for key in Common.spellings()}
    return {
        "$schema": DIALECT,
        "title": TITLE,
        **_sharing(root, shared),
        "anyOf": HAS_COMMAND,
        "$defs": {
            "Common": {"properties": shared},
            **{name: _sharing(part, shared) for name, part in parts.items()},
            **GRIDS,
        },
    }


class _Generator(GenerateJsonSchema):
    """Pydantic's schema less defaults and titles, which say nothing to who writes a file."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> Schema:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: core_schema.NullableSchema) -> Schema:
        return or_nothing(self.generate_inner(schema["schema"]))

    def dict_schema(self, schema: core_schema.DictSchema) -> Schema:
        keys = self.generate_inner(schema["keys_schema"])
        values = self.generate_inner(schema["values_schema"])
        return mapping(keys.get("pattern", ""), values)

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002
        return False


def _spelled(made: Schema, part: type[Part]) -> Schema:
    """The schema of a part, with a property for every spelling of a key."""
    ours = {**BY_FIELD, **BY_PART.get(part, {})}
    properties = {
        key: {
            **or_nothing(ours.get(field, made["properties"][field])),
            "description": _description(part, field, key),
        }
        for key, field in part.spellings().items()
    }
    return {
        "description": made["description"],
        "type": "object",
        "properties": properties,
        "additionalProperties": made["additionalProperties"],
        "allOf": list(_said_once(part.spellings())),
    }


def _description(part: type[Part], field: str, key: str) -> str:
    text = part.model_fields[field].description or ""
    return text if key == field else f"{text} The same key as `{field}`."


def _said_once(spellings: Mapping[str, str]) -> Iterator[Schema]:
    """Where one spelling of a key says something, the others after it may not."""
    for key, field in spellings.items():
        same = [other for other, filled in spellings.items() if filled == field]
        others = same[same.index(key) + 1 :]
        if others:
            said = {"required": [key], "properties": {key: {"not": {"type": "null"}}}}
            unsaid = {"properties": {other: {"type": "null"} for other in others}}
            yield {"if": said, "then": unsaid}


def _sharing(part: Schema, shared: Mapping[str, Schema]) -> Schema:
    """The part with references to what several parts have."""
    properties = {
        key: {"$ref": f"#/$defs/Common/properties/{key}"} if shared.get(key) == schema else schema
        for key, schema in part["properties"].items()
    }
    return {**part, "properties": properties}


def _is(kind: str) -> Schema:
    return {"required": ["kind"], "properties": {"kind": {"const": kind}}}


def _keys_of(kind: str) -> Schema:
    keys = [key for key, field in Target.spellings().items() if field in KEYS_OF[kind]]
    return {"propertyNames": {"enum": keys}}


def _local() -> Schema:
    here = {"kind": {"enum": [MACHINE, None]}, "host": {"type": "null"}}
    return {"$ref": "#/$defs/Target", "allOf": [{**_keys_of(MACHINE), "properties": here}]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _spaced(ends: Schema) -> Schema:
    count = {"type": ["integer", "string"], "pattern": "^0*[1-9][0-9]*$", "minimum": 1}
    return {"type": "array", "prefixItems": [ends, ends, count], "minItems": 3, "maxItems": 3}


def _filled(keys: str, values: Schema) -> Schema:
    """A mapping that holds something, and is no rule."""
    return {**mapping(keys, values), "minProperties": 1, "not": ONE_RULE}


ABOUT_BASE = "Files that this one is laid over: a path, or a list of them."
HAS_COMMAND: list[Schema] = [
    {"required": ["command"]},
    {
        "required": ["model"],
        "properties": {
            "model": {
                "minProperties": 1,
                "additionalProperties": {"type": "object", "required": ["command"]},
            }
        },
    },
    {"required": [BASE]},
]
"""Every run needs something to do; what a file is laid over may say it."""

PARAMETER = f"^_*{NAME.pattern}$"
INNER = "^[A-Za-z0-9_.-]*$"
EXPONENT: Schema = {
    "type": ["number", "string"],
    "pattern": r"^[+-]?[0-9]+(?:\.[0-9]+)?$",
    "minimum": -300,
    "maximum": 300,
}
ONE_RULE: Schema = {
    "type": "object",
    "maxProperties": 1,
    "anyOf": [{"required": [rule]} for rule in RULES],
}
POINTS = one_or_list(_ref("point"))
GRIDS: Mapping[str, Schema] = {
    "number": {"type": ["number", "string"], "pattern": f"^{DECIMAL.pattern}$"},
    "rule": {
        "description": "Numbers made from a few.",
        "type": "object",
        "properties": {
            "range": {"type": "array", "items": _ref("number"), "minItems": 2, "maxItems": 3},
            "linspace": _spaced(_ref("number")),
            "logspace": _spaced(EXPONENT),
        },
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    },
    "values": {
        "description": "One value, a list, `0..4`, or numbers made from a few.",
        "anyOf": [
            TEXT,
            {"type": "array", "items": {"anyOf": [TEXT, _ref("rule")]}, "minItems": 1},
            _ref("rule"),
        ],
    },
    "leaves": {"anyOf": [_ref("values"), _filled(INNER, _ref("leaves"))]},
    "parameter": {
        "anyOf": [
            _ref("values"),
            {
                "description": "Keys inside of a key: `m: {lr: 1}` is `m.lr: 1`.",
                **_filled(INNER, _ref("values")),
            },
            {
                "description": "Values that change together, by the names of the choices.",
                **_filled("", or_nothing({**mapping(PARAMETER, _ref("leaves")), "not": ONE_RULE})),
            },
        ]
    },
    "zip": {
        "anyOf": [
            {"type": "array", "items": TEXT, "minItems": 2},
            {
                "type": "array",
                "items": {"type": "array", "items": TEXT, "minItems": 2},
                "minItems": 1,
            },
        ]
    },
    "point": {"type": "object", "additionalProperties": _ref("leaves"), "minProperties": 1},
    "grid": {
        **mapping(PARAMETER, _ref("parameter")),
        # Or a parameter that is called so.
        "properties": {
            "zip": {"anyOf": [_ref("zip"), _ref("parameter")]},
            "exclude": {"anyOf": [*POINTS["anyOf"], _ref("parameter")]},
            "include": {"anyOf": [*POINTS["anyOf"], _ref("parameter")]},
        },
    },
}
"""What `grids` and `values` read, which the models leave as it is written."""

BY_FIELD: Mapping[str, Schema] = {
    "params": one_or_list(_ref("grid"), minItems=1),
    "zip": _ref("zip"),
    "exclude": POINTS,
    "include": POINTS,
}
BY_PART: Mapping[type[Part], Mapping[str, Schema]] = {
    RunBlock: {"params": mapping("", _ref("values"))},
    ExperimentFile: {
        "include": {"anyOf": [*POINTS["anyOf"], {"type": "array", "items": TEXT}]},
        "run": one_or_list(_ref("RunBlock")),
    },
}
