"""The first tool's small helpers: variables, classes by name, artifacts by their parameters.

No tracker is needed to import this; those that ask Weights & Biases load its package when they
are called.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from launchbay.config.dotenv import read_env_file

__all__ = [
    "increase_u_limit",
    "is_contained",
    "load_class",
    "load_env_file",
    "load_wandb_artifact",
    "loadable_artifacts",
]

CHECKPOINTS = "*.ckpt"


def load_env_file(path: str = ".env") -> dict[str, str]:
    """Put the variables of a file into the environment; what they are."""
    variables = read_env_file(Path(path))
    os.environ.update(variables)
    return variables


def load_class(config: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """What `class_path` names, called with `init_args`.

    >>> load_class({"class_path": "datetime.timedelta", "init_args": {"hours": 1}})
    datetime.timedelta(seconds=3600)

    Raises:
        ImportError: when there is nothing of that name.
    """
    path = str(config["class_path"])
    module, _, name = path.rpartition(".")
    try:
        made = getattr(import_module(module), name)
    except (AttributeError, ValueError) as err:
        raise ImportError(f"there is no `{path}`; write it as `package.module.Class`") from err
    return made(**(config.get("init_args") or {}))


def loadable_artifacts(hparams: Mapping[str, Any], type: str, name: str) -> list[Any]:  # noqa: A002
    """The artifacts whose runs had these parameters, as Weights & Biases lists them.

    Args:
        hparams: what a run's config must contain, nested mappings too.
        type: the artifacts' type, as `model`.
        name: their collection, as `entity/project/name`.

    Raises:
        ImportError: when Weights & Biases is not installed.
    """
    found = []
    for artifact in _wandb().Api().artifacts(type, name):
        run = artifact.logged_by()
        if run is not None and is_contained(hparams, run.config):
            found.append(artifact)
    return found


def load_wandb_artifact(cls: Any, artifact: Any) -> Any:  # noqa: ANN401
    """Download an artifact and make an object of it.

    A class that has `load_from_checkpoint` is given the newest `*.ckpt` file, one that has
    `from_pretrained` the folder, and any other is called with the folder.

    Raises:
        FileNotFoundError: when there is no `*.ckpt` in it where one is needed.
    """
    folder = Path(artifact.download())
    if not hasattr(cls, "load_from_checkpoint"):
        return getattr(cls, "from_pretrained", cls)(str(folder))
    files = sorted(folder.rglob(CHECKPOINTS), key=lambda file: (file.stat().st_mtime_ns, file))
    if not files:
        raise FileNotFoundError(f"there is no `{CHECKPOINTS}` in `{folder}`")
    return cls.load_from_checkpoint(str(files[-1]))


def is_contained(part: object, whole: object) -> bool:
    """Whether a mapping has all that another one says; numbers count by value, however written.

    >>> is_contained({"opt": {"lr": "1e-3"}}, {"opt": {"lr": 0.001, "name": "adam"}, "seed": 1})
    True
    >>> is_contained({"seed": 2}, {"seed": 1}), is_contained({"x": {}}, {"x": 1})
    (False, False)
    """
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(
            key in whole and is_contained(value, whole[key]) for key, value in part.items()
        )
    if isinstance(part, list | tuple):
        return (
            isinstance(whole, list | tuple)
            and len(part) == len(whole)
            and all(map(is_contained, part, whole))
        )
    return part == whole or str(part) == str(whole) or _number(part) == _number(whole) is not None


def increase_u_limit(limit: int | None = None) -> int:
    """Let this process open as many files as it may, or `limit`; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if limit is None or limit > hard >= 0 else limit
    if most != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _wandb() -> Any:  # noqa: ANN401
    try:
        return import_module("wandb")
    except ImportError as err:
        raise ImportError("Weights & Biases is not installed: `pip install wandb`") from err
