"""The types of the fields of a file: text comes in, a checked value of the core's type goes out."""

from __future__ import annotations

import re
from collections.abc import Callable  # noqa: TC003
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic import WithJsonSchema as Form

from launchbay.config import forms
from launchbay.config.resources import (
    RETRIES_FIX,
    count_groups,
    parse_resource,
    parse_text,
    parse_truth,
    read_retries,
)
from launchbay.core.job import IN_IMAGE
from launchbay.core.nearest import suggest
from launchbay.core.python import parse_python

CODE_IN_IMAGE = ("", IN_IMAGE)
"""What `code` is where the image has all of it."""
TARGET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PYTHON_FIX = (
    "write `uv`, `requirements.txt`, `environment.yml`, `conda:NAME`, `/path/to/venv` or `none`"
)
TAKEN = frozenset({"UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "OPTIND"})
"""Variables that shells do not let anybody set, or evaluate."""
NAMING = "begin with a letter or digit, and use no `/`"
CONTAINERS = ("apptainer", "singularity")
BIND = re.compile(r"[^:,]*[^:,\s][^:,]*:/[^:,]*(:r[ow])?")
BARE_FLAG = re.compile(r"[a-z][a-z-]*(=\S+)?", re.ASCII)
SBATCH = re.compile(r"(?:#SBATCH\s+)?(-.*)")
TITLE = re.compile(r"(?=.*[^\W_])[^\s/._-][^/\x00-\x1f\x7f]*")


def _check_target(name: str) -> str:
    return check_word(name, "target")


def check_word(name: str, what: str) -> str:
    """A name that needs no quotes anywhere."""
    if not TARGET_NAME.fullmatch(name):
        meant = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")
        fix = f"write `{meant}`" if meant else "use letters, digits, `_` and `-`"
        raise ValueError(f"`{name}` is no name of a {what}; {fix}")
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


def check_inside(path: str) -> str:
    """A path that stays inside the project."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith(("/", "~")) or ".." in parts:
        raise ValueError(f"`{path}` is no folder inside the project; write one, such as `runs`")
    return path


def _check_metric(pattern: str) -> str:
    if not count_groups(pattern):
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


def _read_code(written: object) -> object:
    """Paths that travel; or that all of the code is in the image."""
    return [CODE_IN_IMAGE] if written == IN_IMAGE else written


def _read_source(written: object) -> object:
    if written == CODE_IN_IMAGE:
        return written
    if not isinstance(written, str):
        raise ValueError("must be text; write `../lib:lib`")  # noqa: TRY004
    source, _, destination = written.rpartition(":")
    if not source:
        name = PurePosixPath(written).name or "lib"
        message = f"`{written}` does not say where in the project it goes"
        raise ValueError(f"{message}; write `{written}:{name}`")
    return source, check_inside(destination)


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


def _read_retries(written: object) -> object:
    match written:
        case str():
            return parse_resource("retries", written)
        case dict():
            return read_retries(written)
    raise ValueError(f"neither a number nor a mapping; {RETRIES_FIX}")


def _read_truth(written: object) -> object:
    return parse_truth(written) if isinstance(written, str) else written


def _read_seconds(written: object) -> object:
    if isinstance(written, str) and written in {"0", "0s"}:
        return 0.0
    span = _read_resource("time")(written)
    return span.total_seconds() if isinstance(span, timedelta) else written


def _check_line(text: str) -> str:
    """Text that may stand in one line of a script."""
    if not parse_text(text).isprintable():
        raise ValueError("more than one line, or signs that cannot be seen; write one line")
    return text.strip()


def _check_host(text: str) -> str:
    """What `ssh` is given to find a machine by."""
    if not re.fullmatch(r"[^\s-]\S*", text):
        raise ValueError(
            f"`{text}` is no host; write `me@box`, or a name of your ssh configuration"
        )
    return text


def _check_container(text: str) -> str:
    if text not in CONTAINERS:
        hint = suggest(text, CONTAINERS, listing=True)
        raise ValueError(f"`{text}` starts no containers; {hint}")
    return text


def _read_sbatch(written: object) -> object:
    """Flags, one a line, as they stand in a script or behind `sbatch`."""
    lines = written.splitlines() if isinstance(written, str) else written
    if not isinstance(lines, list):
        return written
    if isinstance(written, str):
        lines = [line for line in lines if line.strip()] or [written]
    return tuple(_read_sbatch_line(line) for line in lines)


def _read_sbatch_line(written: object) -> str:
    fix = "write `--mail-type=END`"
    if isinstance(written, str) and BARE_FLAG.fullmatch(written.strip()):
        fix = f"write `--{written.strip()}`"
    if not isinstance(written, str):
        raise ValueError(f"no flag of `sbatch`, for what follows a `#` is a comment; {fix}")  # noqa: TRY004
    line = SBATCH.fullmatch(written.strip())
    if not line or not line[1].isprintable():
        raise ValueError(f"`{written}` is no flag of `sbatch`; {fix}")
    return line[1]


def _read_binds(written: object) -> object:
    """Folders that a container sees."""
    binds = [written] if isinstance(written, str) else written
    for bind in binds if isinstance(binds, list) else ():
        if isinstance(bind, str) and not BIND.fullmatch(bind):
            fix = "write `FROM:TO` or `FROM:TO:ro`, such as `/data:/data:ro`"
            raise ValueError(f"`{bind}` says no folder and its place in the container; {fix}")
    return binds


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
Pack = Annotated[str, BeforeValidator(_read_resource("pack")), Form(forms.PACK)]
Retries = Annotated[int | dict[str, int], BeforeValidator(_read_retries), Form(forms.RETRIES)]
Truth = Annotated[bool, BeforeValidator(_read_truth), Form(forms.TRUTH)]
Seconds = Annotated[float, BeforeValidator(_read_seconds), Form(forms.SECONDS)]
Line = Annotated[str, AfterValidator(_check_line), Form(forms.COMMAND)]
HostName = Annotated[str, AfterValidator(_check_host), Form(forms.HOST)]
Container = Annotated[str, AfterValidator(_check_container), Form(forms.CONTAINER)]
Sbatch = Annotated[tuple[str, ...], BeforeValidator(_read_sbatch), Form(forms.SBATCH)]
Binds = Annotated[tuple[str, ...], BeforeValidator(_read_binds), Form(forms.BINDS)]
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
Inside = Annotated[str, AfterValidator(check_inside), Form(forms.INSIDE)]
Pattern = Annotated[str, AfterValidator(_check_metric), Form(forms.METRIC)]
Source = Annotated[tuple[str, str], BeforeValidator(_read_source), Form(forms.SOURCE)]
Code = Annotated[tuple[Source, ...], BeforeValidator(_read_code), Form(forms.CODE)]
