"""The variables that runs get: what travels apart, what is missing, where two places differ."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from launchbay.config.configuration import is_local, is_this_machine
from launchbay.config.dotenv import NEVER_SENT, without_devices
from launchbay.config.fields import is_taken
from launchbay.config.files import Notes
from launchbay.config.layers import Layer, Private
from launchbay.config.schema import KUBERNETES
from launchbay.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launchbay.config.branches import Around
    from launchbay.config.schema import ExperimentFile, Target
    from launchbay.core.sweep import Experiment
    from launchbay.engine.settings import Settings

PYTHON_PATH = "PYTHONPATH"
ENDPOINT = "S3_ENDPOINT_URL"
TRACKER_MODE = "WANDB_MODE"
ONLY_HERE = frozenset({"offline", "dryrun"})
"""What `.env` says of the tracker for work on this machine, and not for runs elsewhere."""


def private_of(settings: Settings, *, typed: bool, here: bool) -> Private:
    """What travels apart from all that is shown.

    A typed command is given the secrets that the file declares where they are there; it is not
    refused for the lack of one.

    Args:
        settings: what the configuration says.
        typed: whether the command was typed.
        here: whether it runs on this machine.
    """
    dotenv = {
        name: value
        for name, value in without_devices(settings.dotenv).items()
        if name != PYTHON_PATH and not is_taken(name)
    }
    if not here and _is_only_here(dotenv):
        del dotenv[TRACKER_MODE]
    declared = settings.file.secrets if settings.file else {}
    there = [name for name in declared if not typed or settings.vault.has(name)]
    return Private(dotenv=dotenv, secrets=tuple(there))


def with_python_path(around: Around, dotenv: Mapping[str, str]) -> Around:
    """What is around, with the `PYTHONPATH` of `.env`: it is added to, and no secret."""
    if PYTHON_PATH not in dotenv:
        return around
    layer = Layer(level=".env", values={"env": {PYTHON_PATH: dotenv[PYTHON_PATH]}}, own=False)
    weaker = [one for one in around.below if not one.own]
    stronger = [one for one in around.below if one.own]
    return replace(around, below=[*weaker, layer, *stronger])


def check_variables(settings: Settings, experiment: Experiment, target: Target) -> None:
    """Raise a `ConfigError` when a variable that the file demands is not there."""
    file = settings.file
    if file is None:
        return
    notes = Notes(file.document)
    for name in file.secrets:
        try:
            if settings.vault.find(name) is None:
                notes.add(("secrets",), f"`{name}` is not set", _remedy(name))
        except BadRequest as err:
            notes.add(("secrets", name), str(err).partition(": ")[2], err.hint)
    for at, name in enumerate(file.require):
        if not _has(settings, experiment, name, here=is_local(target)):
            notes.add(("require", at), f"`{name}` is not set", _remedy(name))
    notes.settle()


def find_differences(settings: Settings, around: Around, target: Target) -> Iterator[str]:
    """Where `.env` and another place say different things, and who wins; never the values."""
    dotenv = dict(settings.dotenv)
    here = is_this_machine(target)
    layers = (*around.below, *(_entries(settings.file) if settings.file else ()))
    if not here and _is_only_here(dotenv):
        said = dotenv.pop(TRACKER_MODE)
        if not any(TRACKER_MODE in layer.values.get("env", {}) for layer in layers):
            yield (
                f"`{TRACKER_MODE}` of .env is left out: it is for this machine;"
                f" `env: {{{TRACKER_MODE}: {said}}}` in the file is for runs elsewhere"
            )
    address = dotenv.get(ENDPOINT, "")
    far = target.host is not None or target.kind == KUBERNETES
    if far and _leads_back(address) and address not in (target.endpoints or {}):
        yield (
            f"`{ENDPOINT}` of .env means another machine there;"
            f" `endpoints: {{'{address}': ADDRESS}}` of the target is what runs are given"
        )
    for name in sorted(dotenv.keys() & NEVER_SENT):
        yield f"`{name}` of .env is left out: runs get the devices that they are given"
    for name in sorted(filter(is_taken, dotenv)):
        yield f"`{name}` of .env is left out: it belongs to the shell that starts a run"
    for layer in layers:
        for name, value in layer.values.get("env", {}).items():
            if dotenv.get(name, value) != value:
                winner, loser = (layer.level, ".env") if layer.own else (".env", layer.level)
                yield f"`{name}` of {winner} is used; {loser} says something else"


def _leads_back(address: str) -> bool:
    """Whether an address means whatever machine it is used on."""
    host = urlsplit(address).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def _is_only_here(dotenv: Mapping[str, str]) -> bool:
    return dotenv.get(TRACKER_MODE) in ONLY_HERE


def _remedy(name: str) -> str:
    return f"`export {name}=…`, or a line `{name}=…` in the project's `.env`"


def _has(settings: Settings, experiment: Experiment, name: str, *, here: bool) -> bool:
    """Whether every run will have the variable."""
    if name in settings.dotenv or (here and name in os.environ):
        return True
    recipes = (branch.recipe(next(iter(branch), {})) for branch in experiment.branches)
    return all(name in recipe.env or name in recipe.secrets for recipe in recipes)


def _entries(file: ExperimentFile) -> Iterator[Layer]:
    for section in (file.dataset, file.model):
        for name, entry in (section or {}).items():
            if entry:
                yield Layer(level=name, values=entry.written)
