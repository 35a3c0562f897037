"""The types of the fields of a file: text comes in, a checked value of the core's type goes out."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable  # noqa: TC003
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic import WithJsonSchema as Form

from launchbay.config import forms
from launchbay.config.resources import parse_resource
from launchbay.core.python import parse_python

TARGET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PYTHON_FIX = (
    "write `uv`, `requirements.txt`, `environment.yml`, `conda:NAME`, `/path/to/venv` or `none`"
)
TAKEN = frozenset({"UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "OPTIND"})
"""Variables that shells do not let anybody set, or evaluate."""
NAMING = "begin with a letter or digit, and use no `/`"
TITLE = re.compile(r"(?=.*[^\W_])[^\s/._-][^/\x00-\x1f\x7f]*")


def _check_target(name: str) -> str:
    if not TARGET_NAME.fullmatch(name):
        meant = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")
        fix = f"write `{meant}`" if meant else "use letters, digits, `_` and `-`"
        raise ValueError(f"`{name}` is no name of a target; {fix}")
    return name


def _check_entry(name: str) -> str:
    if not TITLE.fullmatch(name):
        raise ValueError(f"`{name}` is no name; {NAMING}")
    return name


def is_taken(name: str) -> bool:
    """Whether a variable belongs to the shell that starts a run."""
    return name in TAKEN or name.startswith("bay_")


def _check_variable(name: str) -> str:
    if not VARIABLE.fullmatch(name):
        meant = re.sub(r"[^A-Za-z0-9_]+", "_", name)
        fix = "use letters, digits and `_`, and no digit first"
        fix = f"write `{meant}`" if VARIABLE.fullmatch(meant.strip("_")) else fix
        raise ValueError(f"`{name}` is no name of a variable; {fix}")
    if is_taken(name):
        raise ValueError(f"`{name}` belongs to the shell that starts a run; choose another name")
    return name


def _check_title(text: str) -> str:
    if not TITLE.fullmatch(text):
        raise ValueError(f"`{text}` is no name; {NAMING}")
    return text


def _check_command(text: str) -> str:
    if not text.strip():
        raise ValueError("an empty command; write one, such as `python train.py`")
    return text


def _check_inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith(("/", "~")) or ".." in parts:
        raise ValueError(f"`{path}` is no folder inside the project; write one, such as `runs`")
    return path


def _check_metric(pattern: str) -> str:
    try:
        with warnings.catch_warnings():
            # What a later Python may read differently is still a pattern of this one.
            warnings.simplefilter("ignore", FutureWarning)
            groups = re.compile(pattern).groups
    except (re.error, OverflowError) as err:
        message = f"`{pattern}` is no regular expression: {err}"
        raise ValueError(f"{message}; mend it, or put a backslash before what is meant") from err
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
    if not isinstance(written, str):
        raise ValueError("must be text; write `../lib:lib`")  # noqa: TRY004
    source, _, destination = written.rpartition(":")
    if not source:
        name = PurePosixPath(written).name or "lib"
        message = f"`{written}` does not say where in the project it goes"
        raise ValueError(f"{message}; write `{written}:{name}`")
    return source, _check_inside(destination)


def _read_names(written: object) -> object:
    """A list of words, or one word."""
    return [written] if isinstance(written, str) else written


def _read_ratio(written: object) -> object:
    if not isinstance(written, str):
        return written
    try:
        ratio = float(written)
    except ValueError:
        ratio = 0.0
    if not 1 <= ratio <= 10:  # noqa: PLR2004
        raise ValueError(f"`{written}` is no ratio of limit to request; write 1 or more, as `1.2`")
    return ratio


def _read_tolerations(written: object) -> object:
    """Keys of taints, or the cluster's own mappings."""
    if not isinstance(written, list):
        return written
    for one in written:
        if not isinstance(one, str) and not (isinstance(one, dict) and "key" in one):
            raise ValueError("no toleration; write the key of a taint, or a mapping with `key`")
    return tuple(written)


def _read_secrets(written: object) -> object:
    """Names, or names with the files that hold their values."""
    pairs: dict[str, object] = {}
    for one in written if isinstance(written, list) else [written]:
        match one:
            case dict():
                pairs |= one
            case str() if isinstance(written, list):
                pairs[one] = None
            case _:
                pairs[""] = one
    if "" in pairs or not all(isinstance(file, str | None) for file in pairs.values()):
        fix = f"write `[{written}]`" if isinstance(written, str) else "write `[WANDB_API_KEY]`"
        raise ValueError(f"must be a list of names, or a mapping of names to files; {fix}")
    for name in pairs:
        _check_variable(name)
    return {name: file or "" for name, file in pairs.items()}


def _read_python(written: object) -> object:
    if not isinstance(written, str):
        return written
    try:
        parse_python(written)
    except ValueError as err:
        raise ValueError(f"`{written}` is no Python environment; {PYTHON_FIX}") from err
    return written


def _read_devices(written: object) -> object:
    # Checked but not read: each backend knows what its devices are.
    match written:
        case str() if re.fullmatch(r"auto|[0-9]{1,4}", written):
            return written
        case list() if all(isinstance(device, str) for device in written):
            return tuple(written)
    told = f"`{written}` names no GPUs" if isinstance(written, str) else "names no GPUs"
    raise ValueError(f"{told}; write `auto`, a number, or their ids, such as `[0, 1]`")


NAME_OF_VARIABLE = rf"^(?!bay_|(?:{'|'.join(sorted(TAKEN))})$){VARIABLE.pattern}$"
NAME_OF_TARGET: forms.Schema = {"pattern": f"^{TARGET_NAME.pattern}$"}
NAME_OF_ENTRY: forms.Schema = {"pattern": forms.NAME}

Text = Annotated[str, Form(forms.TEXT)]
Title = Annotated[str, AfterValidator(_check_title), Form(forms.TITLE)]
TargetName = Annotated[str, AfterValidator(_check_target), Form(NAME_OF_TARGET)]
EntryName = Annotated[str, AfterValidator(_check_entry), Form(NAME_OF_ENTRY)]
Command = Annotated[str, AfterValidator(_check_command), Form(forms.COMMAND)]
Raw = Annotated[Any, Form({})]
Gpus = Annotated[float, BeforeValidator(_read_resource("gpus")), Form(forms.GPUS)]
GpuTypes = Annotated[tuple[str, ...], BeforeValidator(_read_gpu_types), Form(forms.GPU_TYPES)]
Cpus = Annotated[float, BeforeValidator(_read_resource("cpus")), Form(forms.CPUS)]
Memory = Annotated[int, BeforeValidator(_read_resource("memory")), Form(forms.MEMORY)]
Disk = Annotated[int, BeforeValidator(_read_resource("disk")), Form(forms.DISK)]
TimeLimit = Annotated[timedelta, BeforeValidator(_read_resource("time")), Form(forms.TIME)]
Count = Annotated[int, BeforeValidator(_read_resource("parallel")), Form(forms.COUNT)]
Names = Annotated[tuple[str, ...], BeforeValidator(_read_names), Form(forms.WORDS)]
Ratio = Annotated[float, BeforeValidator(_read_ratio), Form(forms.RATIO)]
Tolerations = Annotated[
    tuple[Any, ...], BeforeValidator(_read_tolerations), Form(forms.TOLERATIONS)
]
Secrets = Annotated[
    dict[str, str], BeforeValidator(_read_secrets), Form(forms.secrets(NAME_OF_VARIABLE))
]
Python = Annotated[str, BeforeValidator(_read_python), Form(forms.PYTHON)]
Devices = Annotated[str | tuple[str, ...], BeforeValidator(_read_devices), Form(forms.DEVICES)]
Variable = Annotated[str, AfterValidator(_check_variable), Form(forms.variable(NAME_OF_VARIABLE))]
Environment = dict[Variable, Text]
Lines = Annotated[str, BeforeValidator(_read_lines), Form(forms.WORDS)]
Inside = Annotated[str, AfterValidator(_check_inside), Form(forms.INSIDE)]
Pattern = Annotated[str, AfterValidator(_check_metric), Form(forms.METRIC)]
Source = Annotated[tuple[str, str], BeforeValidator(_read_source), Form(forms.SOURCE)]
