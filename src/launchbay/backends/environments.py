"""Python environments under a target's root."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from launchbay.core.python import activation, build_argv, build_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from launchbay.backends.depot import Depot
    from launchbay.core.python import Python


def build_environment(
    depot: Depot, python: Python, *, snapshot: str, key: str, tell: Callable[[str], None]
) -> str:
    """As `Environments.build_python` promises, where the depot is."""
    if not python.is_built:
        return activation(python, "")
    root = depot.root_path()
    place = f"{root}/envs/{key}"
    words = build_argv(python, "", place=place, tree=f"{root}/snapshots/{snapshot}")[2:]
    done = depot.call("environment.sh", *words, tell=partial(_tell_progress, tell))
    if not done.ok:
        raise build_failure(python, depot.target, done)
    return activation(python, place)


def _tell_progress(tell: Callable[[str], None], line: str) -> None:
    # Where nothing was left to do there is nothing to tell.
    if not line.startswith("ready "):
        tell(line)
