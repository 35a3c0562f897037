"""One package a kind of target, loaded late through entry points."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from launchbay.core.errors import ConfigError, MissingExtra
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoints

    from launchbay.core.backend import Backend, Opening

GROUP = "launchbay.backends"
OURS = {
    "kubernetes": "open_kubernetes",
    "machine": "open_machine",
    "slurm": "open_slurm",
}
"""The kinds that come with launchbay, each in a package of its name."""


def kinds() -> list[str]:
    """Every kind of target that is installed, ours and others'."""
    return sorted(_entry_points().names)


def load(kind: str) -> Callable[[Opening], Backend]:
    """The function that opens a target of this kind.

    Raises:
        ConfigError: when no installed package brings the kind.
        MissingExtra: when its own packages are missing.
    """
    if kind in OURS:
        # Looking through every installed package for what we know costs more than the whole start.
        module = import_module(f"launchbay.backends.{kind}.backend")
        return cast("Callable[[Opening], Backend]", getattr(module, OURS[kind]))
    points = _entry_points().select(name=kind)
    if not points:
        raise ConfigError(f"kind `{kind}` is not installed", hint=suggest(kind, kinds()))
    try:
        return cast("Callable[[Opening], Backend]", next(iter(points)).load())
    except ImportError as err:
        raise MissingExtra(
            f"kind `{kind}` needs `{err.name}`", hint=f"pip install 'launchbay[{kind}]'"
        ) from err


def _entry_points() -> EntryPoints:
    # Dear to load, and the kinds that come with launchbay do without.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=GROUP)
