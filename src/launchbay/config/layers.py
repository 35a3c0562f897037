"""What several places say about the same keys, and what becomes of it: maps merge, lists replace.

From the weakest: site, the user's target, the file's root, the project's entry of the target,
dataset, model, a parameter, a flag.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launchbay.config.files import Document
from launchbay.config.resources import FIELDS, OPPOSITES
from launchbay.config.schema import ClusterFields
from launchbay.core.job import Recipe, Resources
from launchbay.core.python import parse_python

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from launchbay.config.problems import Route

NOWHERE = Document()
OPPOSITE = {key: other for pair in OPPOSITES for key, other in (pair, pair[::-1])}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """What one place says of the keys that several may set."""

    level: str
    """What people call the place."""
    values: Mapping[str, Any]
    """By the field of `Common`, of its type."""
    document: Document = NOWHERE
    route: Route = ()
    own: bool = True
    """Whether it belongs to the project: its variables beat those of `.env`."""


@dataclass(frozen=True, kw_only=True)
class Private:
    """The variables that travel apart from what is shown."""

    dotenv: Mapping[str, str] = field(default_factory=dict)
    """What the project's `.env` says."""
    secrets: tuple[str, ...] = ()
    """The names that the file declares."""


def merge(layers: Iterable[Layer]) -> dict[str, Any]:
    """What holds where each place is laid over those before it."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.values.items():
            below = merged.get(key)
            both = isinstance(value, dict) and isinstance(below, dict)
            merged[key] = {**below, **value} if both and below else value
            # A stronger place that allows takes back what a weaker one denied.
            if (other := OPPOSITE.get(key)) and other not in layer.values:
                merged.pop(other, None)
    return merged


def make_recipe(layers: Collection[Layer], private: Private) -> Recipe:
    """What a run is given, from all that is said."""
    merged = merge(layers)
    own = {name for layer in layers if layer.own for name in layer.values.get("env", ())}
    apart = [name for name in (*private.dotenv, *private.secrets) if name not in own]
    needs = {FIELDS[key]: value for key, value in merged.items() if key in FIELDS}
    env = {name: text for name, text in merged.get("env", {}).items() if name not in apart}
    return Recipe(
        resources=Resources(**needs),
        env=env,
        secrets=tuple(dict.fromkeys(apart)),
        image=merged.get("image", ""),
        modules=merged.get("modules", ()),
        python=parse_python(merged["python"]) if "python" in merged else None,
        setup=merged.get("setup", ""),
        options={key: merged[key] for key in ClusterFields.model_fields if key in merged},
    )
