"""A manifest for a user's own `kubectl apply`, made from a call and not from a file."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.config.dotenv import read_env_file
from launchbay.config.schema import KUBE, KUBERNETES, Model
from launchbay.core.job import Script
from launchbay.core.naming import NAME_LENGTH, launch_tag, run_id, slug
from launchbay.engine.dev_limits import within_limits
from launchbay.engine.environments import build_environments
from launchbay.engine.launch import draft_one, sketch
from launchbay.engine.open import open_lab
from launchbay.engine.project import ensure_project
from launchbay.engine.sending import stage
from launchbay.engine.settings import Settings, Wish, read_settings
from launchbay.engine.workloads import require_kube, workloads_of
from launchbay.sync.snapshot import freeze

if TYPE_CHECKING:
    from collections.abc import Callable

    from launchbay.engine.lab import Lab
    from launchbay.engine.launch import Draft
    from launchbay.engine.steps import Step

FILE = "create_config.yaml"
MODEL = "run"
OF_PROJECT = ("targets", "code", "secrets", "snapshot_limit", "outputs", "bucket")
"""What the project's own file says that holds for every command of it."""
OBJECT_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Call:
    """What somebody wants a Job or a pod of."""

    name: str
    command: str
    lasting: bool = False
    """Whether it is a pod, which stays after the command."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables; all of them travel as secrets."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What a model of an experiment file may say."""
    place: Mapping[str, str] = field(default_factory=dict)
    """What goes over the target: `namespace`, `user`."""
    project: str = ""


def known_fields() -> frozenset[str]:
    """Every word that `Call.fields` may have."""
    return frozenset(Model.spellings()) - {"command", "params", "hparam", "zip"}


def make_manifest(call: Call, tell: Callable[[str], None]) -> dict[str, Any]:
    """The Job or pod of a command; whatever it needs beside it is on the cluster afterwards.

    Its command runs with today's code, frozen. It is no run that `bay ls` knows of: whether and
    when it starts is up to whoever applies it.

    Raises:
        BadRequest: when no file says which cluster is meant.
        ConfigError: when a field cannot be what it is.
        Rejected: when the cluster refuses what stands beside it.
    """
    own = read_settings(Path.cwd(), runs=False)
    if "namespace" not in call.place:
        require_kube(own)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILE)
        write_experiment(path, _document(call, own))
        settings = _CallSettings(own.folder, path=path, env=call.env)
        lab = open_lab(settings=settings)
        lab.tell = tell
        return _make(lab, call)


def write_experiment(path: Path, written: Mapping[str, Any]) -> None:
    """Write an experiment file from what its sections are in a program."""
    # A model or a dataset of which nothing is said is one all the same.
    named = {
        key: {name: entry or {} for name, entry in written[key].items()}
        for key in ("model", "dataset")
        if written.get(key)
    }
    text = json.dumps(as_text({**written, **named}), indent=1)
    path.write_text(text, encoding="utf-8")


def as_text(value: object) -> Any:  # noqa: ANN401
    """What a file would say: mappings, lists, and text; what is None is not said.

    >>> as_text({"a": [1, 1e-5, True], "b": {"c": None}})
    {'a': ['1', '1e-05', 'True'], 'b': {}}
    """
    match value:
        case Mapping():
            return {str(key): as_text(one) for key, one in value.items() if one is not None}
        case list() | tuple() | range():
            return [as_text(one) for one in value]
    return str(value)


class _CallSettings(Settings):
    """Those of the project, with the variables of a call over its `.env`."""

    def __init__(self, folder: Path, *, path: Path, env: Mapping[str, str]) -> None:
        super().__init__(folder, path=path)
        self._env = env

    @cached_property
    def dotenv(self) -> Mapping[str, str]:
        """What `.env` and the call say."""
        return {**read_env_file(self.folder / ".env"), **self._env}


def _document(call: Call, own: Settings) -> dict[str, Any]:
    written = own.file.document.data if own.file else {}
    kept: dict[str, Any] = {key: written[key] for key in OF_PROJECT if written.get(key)}
    targets = dict(kept.get("targets") or {})
    kind = {} if KUBE in own.targets() else {"kind": KUBERNETES}
    if kind or call.place:
        targets[KUBE] = {**(targets.get(KUBE) or {}), **kind, **call.place}
    return {
        **kept,
        "targets": targets,
        "project": call.project or own.project_name,
        # The command itself is nobody's template.
        "model": {MODEL: {"command": "true", **call.fields}},
    }


def _make(lab: Lab, call: Call) -> dict[str, Any]:
    draft, step = _draft(lab, call)
    place = draft.place
    backend = workloads_of(place.backend)
    # Before anything is written: what cannot be is said at once.
    sketch(draft, [step])
    lab.project = ensure_project(lab.project)
    frozen = freeze(draft.listing, lab.project.bay)
    # `bay clean` leaves alone what is young.
    os.utime(frozen.tree)
    wanted = [step.recipe.python]
    build_environments(place, wanted, code=frozen.id, tree=frozen.tree, tell=lab.tell)
    stage(lab, place.backend, {frozen.id})
    draft = replace(draft, project=lab.project)
    (plan,) = sketch(draft, [step], tag=launch_tag(), fresh_id=run_id)
    # A file may have changed since it was looked at.
    (plan,) = place.backend.plan([replace(plan.jobs[0], snapshot=frozen.id)])
    name = call.name if OBJECT_NAME.fullmatch(call.name) else step.name
    return backend.prepare_manifest(plan, name=name, lasting=call.lasting)


def _draft(lab: Lab, call: Call) -> tuple[Draft, Step]:
    draft = draft_one(lab, Wish(target=KUBE))
    for warning in draft.request.experiment.warnings:
        lab.tell(f"warning: {warning}")
    (step,) = draft.steps
    recipe = step.recipe
    if call.lasting:
        recipe = replace(recipe, resources=within_limits(recipe, KUBE, lab.tell))
    name = slug(call.name)[:NAME_LENGTH].strip("-") or MODEL
    command = Script(call.command)
    return draft, replace(step, name=name, params={}, command=command, recipe=recipe)
