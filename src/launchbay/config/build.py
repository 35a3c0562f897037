"""From what the files say and what was typed to an experiment for one target."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from launchbay.config.branches import Around, Builder
from launchbay.config.configuration import is_local, is_this_machine, layers_below
from launchbay.config.fields import CODE_IN_IMAGE
from launchbay.config.files import Document, Notes
from launchbay.config.grids import (
    NAME,
    NAME_RULE,
    Parameter,
    Params,
    assemble,
    combine,
    read_entry,
)
from launchbay.config.layers import DEFAULT_PYTHON, FLAG, Layer, Private, make_policy
from launchbay.config.recipes import recipe_maker
from launchbay.config.resources import FIELDS, FLAGS, parse_resource
from launchbay.core.errors import BadRequest
from launchbay.core.job import Argv, Resources
from launchbay.core.nearest import suggest
from launchbay.core.sweep import Axis, Branch, Experiment, tells_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from launchbay.config.configuration import Configuration
    from launchbay.config.files import Value
    from launchbay.config.schema import ExperimentFile, Target
    from launchbay.core.job import Policy

APPEND = {"flags": "--", "hydra": "="}
NO_PARAMS: Mapping[str, Sequence[str]] = {}
NO_FLAGS: Mapping[str, str] = {}
LOCK_FILES: Mapping[str, str] = {
    "uv.lock": "uv",
    "environment.yml": "environment.yml",
    "requirements.txt": "requirements.txt",
}
"""What a project's `python` is unless it says so, by the first of these files that it has."""


def surround(
    config: Configuration,
    target: tuple[str, Target],
    *,
    flags: Mapping[str, str] = NO_FLAGS,
    env: Mapping[str, str] = NO_FLAGS,
    private: Private | None = None,
    root: bool = True,
    folder: Path | None = None,
) -> Around:
    """Everything that has a say besides models and datasets.

    Args:
        config: what all files say.
        target: where it will run.
        flags: resources that were typed, as text.
        env: variables that were typed.
        private: variables that travel apart.
        root: whether the file's own root counts.
        folder: the project's, whose lock files say what runs elsewhere enter.

    Raises:
        BadRequest: when a text is no such resource, with the name of the flag.
    """
    name, entry = target
    typed: dict[str, Any] = {key: parse_flag(key, text) for key, text in flags.items()}
    typed.pop("parallel", None)
    if env:
        typed["env"] = dict(env)
    default = [] if is_this_machine(entry) or not folder else _default_python(folder)
    return Around(
        below=[*default, *layers_below(config, name, root=root)],
        flags=Layer(level=FLAG, values=typed),
        private=private or Private(),
        side="local" if is_local(entry) else "remote",
    )


def _default_python(folder: Path) -> list[Layer]:
    """What runs elsewhere enter unless somebody says so, the weakest of all layers."""
    found = [python for name, python in LOCK_FILES.items() if (folder / name).is_file()]
    return [Layer(level="default", values={DEFAULT_PYTHON: one}, own=False) for one in found[:1]]


def build_experiment(
    file: ExperimentFile,
    around: Around,
    *,
    project_name: str,
    overrides: Mapping[str, Sequence[str]] = NO_PARAMS,
) -> Experiment:
    """What the file describes; `overrides` replace the values of its parameters.

    Raises:
        BadRequest: when an override is no parameter of the file.
        ConfigError: when anything is wrong, with everything that is.
    """
    builder = Builder(file, around)
    branches = builder.build(overrides)
    _check_branches(branches)
    project = file.project or project_name
    return Experiment(
        name=file.name or project,
        project=project,
        prefix=file.prefix or "",
        branches=branches,
        target=file.target,
        parallel=file.parallel,
        outputs=file.outputs,
        metrics=file.metrics,
        code=() if CODE_IN_IMAGE in file.code else file.code,
        warnings=tuple(builder.warnings),
    )


def typed_experiment(
    words: Sequence[str],
    params: Mapping[str, Sequence[str]],
    around: Around | None = None,
    *,
    project_name: str,
    grids: Sequence[Params] = (),
    subfolder: str = "",
    style: Literal["flags", "hydra"] = "flags",
) -> Experiment:
    """What was typed without a file; keys that no placeholder uses are appended.

    Args:
        words: the command.
        params: typed `KEY=VALUES`.
        around: what else has a say.
        project_name: the project's.
        grids: parameters that were read already, in place of `params`; several are a union.
        subfolder: where in the project the command starts.
        style: how keys are appended.

    Raises:
        BadRequest: when there is no command, or a parameter has no name or no value.
    """
    if not words:
        raise BadRequest("no command given", hint="write it last: `bay run lr=0.1 python train.py`")
    program = ["python", *words] if words[0].endswith(".py") else words
    grids = grids or [_typed_params(params)]
    branches = [_typed_branch(Argv(tuple(program)), one, around or Around()) for one in grids]
    _check_branches(branches)
    return Experiment(
        name=_script_stem(words),
        project=project_name,
        branches=tuple(branches),
        append=APPEND[style],
        subfolder=subfolder,
        always=not any(one.parameters for one in grids),
    )


def read_grids(params: Value, base: Value = None) -> list[Params]:
    """The parameters of a call, as those of a file are read; `base` is below each of them.

    Raises:
        BadRequest: when they are no parameters.
    """
    notes = Notes(Document())
    below = read_entry({"params": base}, (), notes)
    found = read_entry({"params": params}, (), notes)
    _refuse(notes)
    return [combine(pair) for pair in product(below, found)]


def _typed_params(params: Mapping[str, Sequence[str]]) -> Params:
    names = {key: key.lstrip("_") for key in params}
    return Params(
        parameters={
            name: Parameter(
                axis=Axis((name,), (params[key],)),
                route=(key,),
                hidden=frozenset({name}) if key.startswith("_") else frozenset(),
            )
            for key, name in names.items()
        }
    )


def _typed_branch(command: Argv, params: Params, around: Around) -> Branch:
    notes = Notes(Document())
    grid = assemble(params, notes)
    _refuse(notes)
    return Branch(
        command=command,
        grid=grid,
        hidden=params.hidden,
        unlisted=params.labels,
        ambiguous=not all(tells_apart(axis, params.hidden) for axis in grid.axes),
        excluded=tuple(values for _, values in params.excluded),
        recipe=recipe_maker(around.below, around.flags, around.private, resources={}),
    )


def _refuse(notes: Notes) -> None:
    for problem in notes.problems:
        raise BadRequest(f"{problem.key}: {problem.message}", hint=problem.hint)


def with_resources(need: Resources, flags: Mapping[str, str]) -> Resources:
    """The resources with those that flags name, as text, in place of its own.

    Raises:
        BadRequest: when a text is no such resource, with the name of the flag.
    """
    if "profile" in flags:
        hint = "name what should change: `--time 8h`"
        raise BadRequest("--profile: an earlier run has what its profile gave it", hint=hint)
    typed = {key: parse_flag(key, text) for key, text in flags.items()}
    return replace(need, **{FIELDS[key]: typed[key] for key in typed if key in FIELDS})


def with_policy(policy: Policy, flags: Mapping[str, str]) -> Policy:
    """The policy with what flags say, as text, over its own.

    Raises:
        BadRequest: when a text is none of a flag's values, with the name of the flag.
    """
    return make_policy({key: parse_flag(key, text) for key, text in flags.items()}, policy)


def parse_flag(key: str, text: str) -> Any:  # noqa: ANN401
    """A resource as a flag gives it.

    Raises:
        BadRequest: when there is no such flag, or the text is none of its values.
    """
    if key not in FLAGS:
        raise BadRequest(f"`{key}` is no resource", hint=suggest(key, FLAGS))
    try:
        return parse_resource(key, text)
    except ValueError as err:
        raise BadRequest(f"--{key.replace('_', '-')}: {err}") from err


def _check_branches(branches: Iterable[Branch]) -> None:
    for branch in branches:
        try:
            len(branch.grid)
        except OverflowError as err:
            message = "the parameters have more combinations than can be counted"
            raise BadRequest(message, hint="give some of them fewer values") from err
        for key in branch.grid.keys:
            if not NAME.fullmatch(key):
                raise BadRequest(f"`{key}` is no name of a parameter", hint=NAME_RULE)
            if not branch.grid.values_of(key):
                raise BadRequest(f"`{key}` has no values", hint=f"write `{key}=VALUE`")


def _script_stem(words: Sequence[str]) -> str:
    """`train` for `python src/train.py`; the program's own name where there is no script."""
    scripts = (word for word in words if word.endswith((".py", ".sh")))
    script = next(scripts, None)
    return PurePosixPath(script).stem if script else PurePosixPath(words[0]).name
