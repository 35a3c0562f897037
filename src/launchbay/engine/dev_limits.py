"""The most that `bay dev` asks for: what is above it is scaled, and told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from launchbay.config.schema import KUBE
from launchbay.core.errors import ConfigError, Unsupported
from launchbay.core.quantity import parse_memory, render_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from launchbay.core.job import Recipe, Resources

FIRST_TOOL = {"gpus": "2", "cpus": "16", "memory": "32"}
"""What the first tool gave at most."""


def within_limits(recipe: Recipe, target: str, tell: Callable[[str], None]) -> Resources:
    """What the recipe asks for, none of it above the limits of its target.

    Raises:
        ConfigError: when a limit is no number.
        Unsupported: when GPUs are asked for, and none are allowed.
    """
    limits = recipe.options.get("dev_limits") or (FIRST_TOOL if target == KUBE else {})
    asked = recipe.resources
    try:
        given = apply_limits(asked, limits)
    except ValueError as err:
        raise ConfigError(
            f"`dev_limits` of `{target}` cannot be read: {err}",
            hint="write `dev_limits: {gpus: 2, cpus: 16, memory: 32}`",
        ) from err
    before, after = _describe(asked), _describe(given)
    scaled = [key for key in before if before[key] != after[key]]
    if scaled:
        wanted, allowed = (", ".join(said[key] for key in scaled) for said in (before, after))
        tell(f"asked for {wanted}; `dev_limits` of `{target}` allows {allowed}, and that it gets")
    return given


def apply_limits(asked: Resources, limits: Mapping[str, str]) -> Resources:
    """The resources, none above its limit; whoever asks for GPUs gets at least one.

    Raises:
        Unsupported: when GPUs are asked for, and none are allowed.
        ValueError: when a limit is no number.
    """
    cpus, memory, gpus = (str(limits.get(key) or "") for key in ("cpus", "memory", "gpus"))
    given = asked
    if cpus and asked.cpus is not None:
        given = replace(given, cpus=min(asked.cpus, float(cpus)))
    if memory and asked.memory_mib is not None:
        given = replace(given, memory_mib=min(asked.memory_mib, parse_memory(memory)))
    if gpus and asked.gpus:
        most = float(gpus)
        if most <= 0:
            raise Unsupported(
                f"`dev_limits` allows no GPUs in `bay dev`, and {asked.gpus:g} are asked for",
                hint="add `--gpus 0`, or start it with `bay run`",
            )
        given = replace(given, gpus=min(asked.gpus, max(1.0, float(int(most)))))
    return given


def _describe(need: Resources) -> dict[str, str]:
    gpus, cpus = need.gpus or 0, need.cpus or 0
    return {
        "gpus": f"{gpus:g} GPU{'s' * (gpus != 1)}",
        "cpus": f"{cpus:g} CPU{'s' * (cpus != 1)}",
        "memory": f"{render_memory(need.memory_mib or 0)} of memory",
    }
