"""The Python environments that runs enter, built where they will run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchbay.core.backend import Environments, Staging
from launchbay.core.errors import Unsupported
from launchbay.core.python import activation, environment_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from launchbay.core.python import Python
    from launchbay.engine.targets import Place


def build_environments(
    place: Place,
    wanted: Iterable[Python | None],
    *,
    code: str,
    tree: Path,
    tell: Callable[[str], None],
) -> dict[Python, str]:
    """Have each environment there, once; returns the shell lines that enter it.

    Args:
        place: where runs will enter them.
        wanted: what is asked for; None asks for nothing.
        code: the id of the frozen code that says what is in them.
        tree: where that code is here.
        tell: is given what a builder says.

    Raises:
        Unsupported: when the target builds none.
        Rejected: when one cannot be built.
    """
    pythons = {python for python in wanted if python}
    backend = place.backend
    built = {python for python in pythons if python.is_built}
    if built and not isinstance(backend, Environments):
        raise Unsupported(
            f"`{place.name}` cannot build a `python:` environment",
            hint="put the packages into the image, install them in `setup:`, or `python: none`",
        )
    if pythons and isinstance(backend, Staging):
        backend.stage(code, tree)
    found: dict[Python, str] = {}
    for python in sorted(pythons, key=str):
        if not isinstance(backend, Environments):
            found[python] = activation(python, "")
        else:
            key = _key(python, tree)
            found[python] = backend.build_python(python, snapshot=code, key=key, tell=tell)
    return found


def foresee_environments(
    place: Place, wanted: Iterable[Python | None], *, tree: Path
) -> dict[Python, str]:
    """The same lines, with nothing built."""
    root = place.where["root"]
    return {
        python: activation(python, f"{root}/envs/{key}" if key else python.source)
        for python in wanted
        if python
        for key in [_key(python, tree)]
    }


def _key(python: Python, tree: Path) -> str:
    return environment_id(python, tree) if python.is_built else ""
