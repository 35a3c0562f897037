"""What several places say about the same keys, and what becomes of it: maps merge, lists replace.

From the weakest: site, the user's target, the file's root, the project's entry of the target,
dataset, model, a parameter, a flag. The profile of a target is right above that target's entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from launchbay.config.common import ClusterFields, SlurmFields
from launchbay.config.files import Document
from launchbay.config.problems import config_error
from launchbay.config.resources import FIELDS, NOBODYS_FAULT, OPPOSITES
from launchbay.core.errors import BadRequest
from launchbay.core.job import Policy, Recipe, Resources, Ship
from launchbay.core.nearest import suggest
from launchbay.core.python import parse_python

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from launchbay.config.problems import Route

NOWHERE = Document()
FLAG = "flag"
OPTIONS = (*SlurmFields.model_fields, *ClusterFields.model_fields, "outputs_to")
DEFAULT_PYTHON = "default_python"
"""What counts as `python` where nobody says anything and there is no image."""
NOWHERE_TO_SHIP = "none"
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
    profiles: Mapping[str, Layer] = field(default_factory=dict)
    """What may be laid over it, by name, where it is a target's."""


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


def choose_profile(layers: Iterable[Layer]) -> str:
    """The name of the profile that holds: the one that is named, else one by need, if any."""
    layers = list(layers)
    merged = merge(layers)
    known = _known_profiles(layers)
    by_need = "gpu" if merged.get("gpus") and "gpu" in known else "cpu"
    return str(merged.get("profile") or (by_need if by_need in known else ""))


def lay_profile(layers: Iterable[Layer], name: str) -> list[Layer]:
    """The layers, each with its profile of that name right above it."""
    pairs = ((layer, layer.profiles.get(name)) for layer in layers)
    return [one for pair in pairs for one in pair if one]


def check_profile(layers: Sequence[Layer]) -> None:
    """Refuse a profile that the target does not have.

    What is said of runs wherever they run is in nobody's way on a target without profiles.

    Raises:
        BadRequest: when a flag names it.
        ConfigError: when a file does.
    """
    known = _known_profiles(layers)
    speaker = next((layer for layer in reversed(layers) if "profile" in layer.values), None)
    if speaker is None or (name := speaker.values["profile"]) in known:
        return
    hint = suggest(name, known) or "take it out, or give the target `profiles:`"
    message = f"there is no profile `{name}`"
    if speaker.level == FLAG:
        raise BadRequest(f"--profile: {message}", hint=hint)
    if known or "targets" in speaker.route:
        raise config_error([speaker.document.problem((*speaker.route, "profile"), message, hint)])


def _known_profiles(layers: Iterable[Layer]) -> set[str]:
    return {name for layer in layers for name in layer.profiles}


def make_recipe(layers: Sequence[Layer], private: Private) -> Recipe:
    """What a run is given, from all that is said.

    Raises:
        BadRequest: when a flag names a profile that the target does not have.
        ConfigError: when a file does.
    """
    check_profile(layers)
    layers = lay_profile(layers, choose_profile(layers))
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
        python=parse_python(_python(merged)),
        setup=merged.get("setup", ""),
        policy=make_policy(merged),
        folders=tuple(merged.get("folders", {}).values()),
        ship=_ship(merged),
        fetch=merged.get("fetch", ()),
        options={key: _plain(merged[key]) for key in OPTIONS if key in merged},
    )


def make_policy(merged: Mapping[str, Any], under: Policy | None = None) -> Policy:
    """What is to be done about a run, from what is said, over what held before."""
    changes = {key: merged[key] for key in ("pack", "resume") if key in merged}
    spans = {f"{key}_s": merged[key] for key in ("grace", "hold") if key in merged}
    changes |= {key: span.total_seconds() for key, span in spans.items()}
    match merged.get("retries"):
        case int(number):
            changes["retries"] = dict.fromkeys(NOBODYS_FAULT, number) if number else {}
        case dict(by_cause):
            changes["retries"] = {**(under.retries if under else {}), **by_cause}
    return replace(under or Policy(), **changes)


def _ship(merged: Mapping[str, Any]) -> Ship | None:
    place = merged.get("outputs_to", NOWHERE_TO_SHIP)
    if place == NOWHERE_TO_SHIP:
        return None
    written = {"every_s": merged.get("ship_every"), "only": merged.get("ship_only")}
    return Ship(to=place, **{key: value for key, value in written.items() if value is not None})


def _plain(value: object) -> object:
    """A value as records hold it."""
    return int(value.total_seconds()) if isinstance(value, timedelta) else value


def _python(merged: Mapping[str, Any]) -> str:
    default = "none" if merged.get("image") else merged.get(DEFAULT_PYTHON, "none")
    return str(merged.get("python", default))
