"""From the shape of the files to an experiment and its target.

Precedence: flags, then the project's entry of the target, then the file's root, then the user's
entry of the target. So the order of calls is `build_experiment` or `typed_experiment`, then
`apply_target_defaults`, then `with_resources`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from launchbay.config.fields import PARAM_NAME
from launchbay.config.files import Document, Value, read_document
from launchbay.config.paths import shown_path
from launchbay.config.problems import config_error, dotted
from launchbay.config.resources import FIELDS, PARSERS, TARGET_DEFAULTS, parse_resource
from launchbay.config.schema import LOCAL, MACHINE, ExperimentFile, Target, UserConfig
from launchbay.config.validation import machine_problems, validate
from launchbay.core.command import fill
from launchbay.core.errors import BadRequest, ConfigError
from launchbay.core.job import Argv, Resources, Script
from launchbay.core.nearest import suggest
from launchbay.core.sweep import Experiment, Grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from launchbay.config.problems import Problem, Route

APPEND = {"flags": "--", "hydra": "="}
NO_PARAMS: Mapping[str, Sequence[str]] = {}


def load_file(path: Path) -> ExperimentFile:
    """The experiment file at `path`.

    Raises:
        ConfigError: when anything is wrong with it, with everything that is.
    """
    return validate(read_document(path), ExperimentFile)


def load_user_config(path: Path) -> UserConfig:
    """The user's configuration at `path`; an empty one where there is no file.

    Raises:
        ConfigError: when anything is wrong with it, with everything that is.
    """
    if not path.exists():
        return UserConfig()
    return validate(read_document(path), UserConfig)


def build_experiment(
    file: ExperimentFile,
    *,
    project_name: str,
    overrides: Mapping[str, Sequence[str]] = NO_PARAMS,
) -> Experiment:
    """What the file describes; `overrides` replace the values of its parameters.

    Args:
        file: as loaded.
        project_name: the name of a project whose file gives none.
        overrides: typed `KEY=VALUES`.

    Raises:
        BadRequest: when an override is no parameter of the file.
        ConfigError: when the command names something that is no parameter.
    """
    _check_overrides(file, overrides)
    project = file.project or project_name
    experiment = Experiment(
        name=file.name or project,
        project=project,
        command=Script(file.command),
        grid=Grid({**file.params, **overrides}),
        target=file.target,
        resources=_resources(file),
        parallel=file.parallel,
        env=file.env,
        setup=file.setup,
        outputs=file.outputs,
        metrics=file.metrics,
        code=file.code,
    )
    _check_placeholders(file, experiment)
    return experiment


def typed_experiment(
    words: Sequence[str],
    params: Mapping[str, Sequence[str]],
    *,
    project_name: str,
    subfolder: str = "",
    style: Literal["flags", "hydra"] = "flags",
) -> Experiment:
    """What was typed without a file; keys that no placeholder uses are appended.

    Raises:
        BadRequest: when there is no command, or a parameter has no name or no value.
    """
    if not words:
        raise BadRequest("no command given", hint="write it last: `bay run lr=0.1 python train.py`")
    _check_axes(params)
    program = ["python", *words] if words[0].endswith(".py") else words
    return Experiment(
        name=_script_stem(words),
        project=project_name,
        command=Argv(tuple(program)),
        grid=Grid(dict(params)),
        append=APPEND[style],
        subfolder=subfolder,
        always=not params,
    )


def with_resources(experiment: Experiment, overrides: Mapping[str, str]) -> Experiment:
    """The experiment with the resources that flags name, as text, in place of its own.

    Raises:
        BadRequest: when a text is no such resource, with the name of the flag.
    """
    values = {key: _parse_flag(key, text) for key, text in overrides.items()}
    parallel = values.pop("parallel", experiment.parallel)
    fields = {FIELDS[key]: value for key, value in values.items()}
    resources = replace(experiment.resources, **fields)
    return replace(experiment, resources=resources, parallel=parallel)


def resolve_targets(user: UserConfig, file: ExperimentFile | None) -> dict[str, Target]:
    """Every target by its name; the project's entries are merged over the user's.

    `local` is always one. Nothing is checked that matters only to who uses a target, so that an
    unfinished one is in nobody's way: `choose_target` checks.
    """
    targets = {LOCAL: Target(kind=MACHINE)}
    for name, target in user.targets.items():
        # The user's own `local` has no project behind it.
        targets[name] = target.model_copy(update={"kind": MACHINE}) if name == LOCAL else target
    for name, target in file.targets.items() if file else ():
        targets[name] = targets.get(name, Target()).merged_with(target)
    return targets


def default_target(file: ExperimentFile | None, user: UserConfig) -> str:
    """Where to run when no flag says so."""
    written = file.target if file else None
    return written or os.environ.get("BAY_DEFAULT_TARGET") or user.use or LOCAL


def choose_target(name: str, *, file: ExperimentFile | None, user: UserConfig) -> Target:
    """The target of that name, ready to be opened.

    Raises:
        BadRequest: when there is none.
        ConfigError: when its entry cannot work.
    """
    targets = resolve_targets(user, file)
    if name not in targets:
        raise BadRequest(f"there is no target `{name}`", hint=suggest(name, targets))
    if problems := list(_target_problems(name, targets[name], file=file, user=user)):
        raise config_error(problems)
    return targets[name]


def apply_target_defaults(experiment: Experiment, target: Target) -> Experiment:
    """The experiment with what the target says about resources and environment.

    What the project's file says in the target's entry beats the file's root; what the user's
    configuration says there only fills what nobody asked for.
    """
    fields: dict[str, Any] = {}
    for key in TARGET_DEFAULTS:
        value, field = getattr(target, key), FIELDS[key]
        unasked = getattr(experiment.resources, field) in {None, ()}
        if value is not None and (unasked or key in target.from_project):
            fields[field] = value
    project = {key: target.env[key] for key in target.env if f"env.{key}" in target.from_project}
    return replace(
        experiment,
        resources=replace(experiment.resources, **fields),
        env={**target.env, **experiment.env, **project},
    )


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a key is set to, and by whom."""

    key: str
    value: Value
    """As typed; `None` when nobody set it."""
    source: str
    """A file, a variable, or `default`."""
    line: int | None = None


def explain(key: str, *, file: ExperimentFile | None, user: UserConfig) -> Explanation:
    """The value of a dotted key of the experiment file or the user's configuration.

    A resource is explained as it holds on the default target.

    Raises:
        BadRequest: when there is no such key.
    """
    variable = os.environ.get("BAY_DEFAULT_TARGET")
    if key == "target" and variable and not (file and file.target):
        return Explanation(key=key, value=variable, source="$BAY_DEFAULT_TARGET")
    for document, route in _candidates(key, file, user):
        place, value = document.places.get(route), document.find_value(route)
        if place and value is not None:
            source = shown_path(place.file)
            return Explanation(key=key, value=value, source=source, line=place.line)
    if key in ExperimentFile.spellings() or key in UserConfig.spellings():
        return Explanation(key=key, value=LOCAL if key == "target" else None, source="default")
    raise BadRequest(f"`{key}` is not set and no key of a file", hint=_suggest_key(key, file, user))


def _check_overrides(file: ExperimentFile, overrides: Mapping[str, Sequence[str]]) -> None:
    for key in overrides:
        if key not in file.params:
            name = shown_path(file.document.file)
            raise BadRequest(f"`{key}` is no parameter of {name}", hint=suggest(key, file.params))
    _check_axes({**file.params, **overrides})


def _check_axes(axes: Mapping[str, Sequence[str]]) -> None:
    try:
        len(Grid(axes))
    except OverflowError as err:
        message = "the parameters have more combinations than can be counted"
        raise BadRequest(message, hint="give some of them fewer values") from err
    for key, values in axes.items():
        if not PARAM_NAME.fullmatch(key):
            hint = "use letters, digits, `_`, `-`, `.`; begin with a letter or `_`"
            raise BadRequest(f"`{key}` is no name of a parameter", hint=hint)
        if not values:
            raise BadRequest(f"`{key}` has no values", hint=f"write `{key}=VALUE`")


def _check_placeholders(file: ExperimentFile, experiment: Experiment) -> None:
    point = dict(experiment.grid[0])
    # `--repeat` adds this parameter later.
    if "<repeat>" in file.command:
        point.setdefault("repeat", "0")
    try:
        fill(experiment.command, point)
    except ConfigError as err:
        place = file.document.find_place(("command",))
        message = f"{place}: {err}" if place else str(err)
        raise ConfigError(message, hint=err.hint) from err


def _resources(file: ExperimentFile) -> Resources:
    written = {field: getattr(file, key) for key, field in FIELDS.items()}
    return Resources(**{field: value for field, value in written.items() if value is not None})


def _script_stem(words: Sequence[str]) -> str:
    """`train` for `python src/train.py`; the program's own name where there is no script."""
    scripts = (word for word in words if word.endswith((".py", ".sh")))
    script = next(scripts, None)
    return PurePosixPath(script).stem if script else PurePosixPath(words[0]).name


def _parse_flag(key: str, text: str) -> Any:  # noqa: ANN401
    if key not in PARSERS:
        raise BadRequest(f"`{key}` is no resource", hint=suggest(key, PARSERS))
    try:
        return parse_resource(key, text)
    except ValueError as err:
        raise BadRequest(f"--{key.replace('_', '-')}: {err}") from err


def _target_problems(
    name: str, target: Target, *, file: ExperimentFile | None, user: UserConfig
) -> Iterator[Problem]:
    documents = [part.document for part in (file, user) if part]

    def document_of(key: str) -> Document:
        routes = (("targets", name, key), ("targets", name))
        found = (one for route in routes for one in documents if route in one.places)
        return next(found, Document())

    if target.kind is None:
        document = document_of("kind")
        yield document.problem(("targets", name, "kind"), "missing", "write `kind: machine`")
    if target.kind != MACHINE:
        return
    for key in target.options:
        yield from machine_problems(document_of(key), name, [key])
    if target.host is not None:
        message = "machines over SSH are not supported yet"
        yield document_of("host").problem(("targets", name, "host"), message)


def _candidates(
    key: str, file: ExperimentFile | None, user: UserConfig
) -> Iterator[tuple[Document, Route]]:
    """Where a key may be set, the strongest first."""
    route = _route(key)
    target = ("targets", default_target(file, user), key)
    if file:
        if key in TARGET_DEFAULTS:
            yield file.document, target
        for spelling, field in ExperimentFile.spellings().items():
            if field == ExperimentFile.spellings().get(route[0]):
                yield file.document, (spelling, *route[1:])
    if key in TARGET_DEFAULTS:
        yield user.document, target
    yield user.document, ("use",) if key == "target" else route


def _route(key: str) -> tuple[str, ...]:
    """The keys of a dotted key; a parameter's own name may hold dots."""
    head, _, rest = key.partition(".")
    if ExperimentFile.spellings().get(head) == "params" and rest:
        return head, rest
    return tuple(key.split("."))


def _suggest_key(key: str, file: ExperimentFile | None, user: UserConfig) -> str | None:
    documents = [part.document for part in (file, user) if part]
    known = {dotted(route) for document in documents for route in document.places if route}
    return suggest(key, known | set(ExperimentFile.spellings()) | set(UserConfig.spellings()))
