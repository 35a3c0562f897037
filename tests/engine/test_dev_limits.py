"""What `bay dev` asks for at most."""

from __future__ import annotations

import pytest

from launchbay.core.errors import ConfigError, Unsupported
from launchbay.core.job import Recipe, Resources
from launchbay.engine.dev_limits import apply_limits, within_limits


def test_what_is_above_the_limits_is_scaled_and_told() -> None:
    """Both numbers are told, of what is scaled only; the rest stays as it is."""
    told: list[str] = []
    recipe = Recipe(
        resources=Resources(gpus=8, cpus=64, memory_mib=4096),
        options={"dev_limits": {"gpus": "2", "cpus": "16", "memory": "32"}},
    )
    given = within_limits(recipe, "lab", told.append)

    assert given == Resources(gpus=2, cpus=16, memory_mib=4096)
    assert told == [
        "asked for 8 GPUs, 64 CPUs; `dev_limits` of `lab` allows 2 GPUs, 16 CPUs, and that it gets"
    ]


def test_without_limits_nothing_is_told() -> None:
    """A target that says nothing gives what is asked for; the first tool's own has its limits."""
    told: list[str] = []
    recipe = Recipe(resources=Resources(gpus=8, memory_mib=64 * 1024))

    assert within_limits(recipe, "lab", told.append) == recipe.resources
    assert told == []
    assert within_limits(recipe, "kube", told.append) == Resources(gpus=2, memory_mib=32 * 1024)
    assert "asked for 8 GPUs, 64G of memory" in told[0]


@pytest.mark.parametrize(
    ("gpus", "limit", "given"),
    [(8, "2", 2), (2, "0.5", 1), (0.5, "1", 0.5), (0, "0", 0), (None, "0", None), (3, "", 3)],
)
def test_gpus_are_never_scaled_to_none(gpus: float | None, limit: str, given: float | None) -> None:
    """Whoever asks for GPUs gets at least one."""
    assert apply_limits(Resources(gpus=gpus), {"gpus": limit}).gpus == given


def test_limits_that_cannot_be() -> None:
    """No GPUs where some are asked for, and words that are no numbers, are errors."""
    with pytest.raises(Unsupported, match="allows no GPUs in `bay dev`, and 1 are asked for"):
        apply_limits(Resources(gpus=1), {"gpus": "0"})
    recipe = Recipe(resources=Resources(cpus=1), options={"dev_limits": {"cpus": "many"}})
    with pytest.raises(ConfigError, match="`dev_limits` of `lab` cannot be read"):
        within_limits(recipe, "lab", print)
