"""The types of the fields of a file: text comes in, a checked value of the core's type goes out."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainValidator, WithJsonSchema

from launchbay.config.resources import parse_resource
from launchbay.config.values import parse_values

PARAM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
TARGET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TITLE = re.compile(r"[^\W_][^/\x00-\x1f\x7f]*")


def _check_param(name: str) -> str:
    if not PARAM_NAME.fullmatch(name):
        raise ValueError(
            "a parameter's name has letters, digits, `_`, `-`, `.` and begins with a letter or `_`"
        )
    return name


def _check_target(name: str) -> str:
    if not TARGET_NAME.fullmatch(name):
        raise ValueError("a target's name has letters, digits, `_`, `-`")
    return name


def _check_variable(name: str) -> str:
    if not VARIABLE.fullmatch(name):
        raise ValueError("a variable's name has letters, digits, `_` and begins with no digit")
    return name


def _check_title(text: str) -> str:
    if not TITLE.fullmatch(text):
        raise ValueError(f"`{text}` is no name: begin with a letter or digit, and use no `/`")
    return text


def _check_command(text: str) -> str:
    if not text.strip():
        raise ValueError("an empty command")
    return text


def _check_inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith(("/", "~")) or ".." in parts:
        raise ValueError(f"`{path}` is no folder inside the project")
    return path


def _check_metric(pattern: str) -> str:
    try:
        with warnings.catch_warnings():
            # What a later Python may read differently is still a pattern of this one.
            warnings.simplefilter("ignore", FutureWarning)
            groups = re.compile(pattern).groups
    except (re.error, OverflowError) as err:
        raise ValueError(f"`{pattern}` is no regular expression: {err}") from err
    if not groups:
        raise ValueError(f"`{pattern}` has no group; put `(…)` around the number")
    return pattern


def _read_resource(key: str) -> Callable[[Any], Any]:
    def read(written: object) -> object:
        # What is no text is left to pydantic, which says what it should have been.
        return parse_resource(key, written) if isinstance(written, str) else written

    return read


def _read_gpu_types(written: object) -> object:
    if isinstance(written, list) and all(isinstance(name, str) for name in written):
        written = ",".join(written)
    return _read_resource("gpu_type")(written)


def _read_lines(written: object) -> object:
    if isinstance(written, list) and all(isinstance(line, str) for line in written):
        return "\n".join(written)
    return written


def _read_source(written: object) -> object:
    source, _, destination = written.rpartition(":") if isinstance(written, str) else ("", "", "")
    if not source:
        raise ValueError(f"`{written}` names no place in the project; write `../lib:lib`")
    return source, _check_inside(destination)


def _read_devices(written: object) -> object:
    # Checked but not read: each backend knows what its devices are.
    match written:
        case str() if re.fullmatch(r"auto|[0-9]{1,4}", written):
            return written
        case list() if all(isinstance(device, str) for device in written):
            return tuple(written)
    raise ValueError("devices are `auto`, a number of GPUs, or a list of their ids")


Title = Annotated[str, AfterValidator(_check_title)]
ParamName = Annotated[str, AfterValidator(_check_param)]
TargetName = Annotated[str, AfterValidator(_check_target)]
Command = Annotated[str, AfterValidator(_check_command)]
Values = Annotated[
    Sequence[str],
    PlainValidator(parse_values),
    WithJsonSchema({"type": ["string", "number", "boolean", "array", "object"]}),
]
Gpus = Annotated[float, BeforeValidator(_read_resource("gpus"))]
GpuTypes = Annotated[tuple[str, ...], BeforeValidator(_read_gpu_types)]
Cpus = Annotated[float, BeforeValidator(_read_resource("cpus"))]
Memory = Annotated[int, BeforeValidator(_read_resource("memory"))]
TimeLimit = Annotated[timedelta, BeforeValidator(_read_resource("time"))]
Count = Annotated[int, BeforeValidator(_read_resource("parallel"))]
Devices = Annotated[str | tuple[str, ...], BeforeValidator(_read_devices)]
Environment = dict[Annotated[str, AfterValidator(_check_variable)], str]
Lines = Annotated[str, BeforeValidator(_read_lines)]
Inside = Annotated[str, AfterValidator(_check_inside)]
Pattern = Annotated[str, AfterValidator(_check_metric)]
Source = Annotated[tuple[str, str], BeforeValidator(_read_source)]
