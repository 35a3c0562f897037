"""What targets were last seen to be, kept so that a plan need not ask them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from launchbay.config.paths import state_folder
from launchbay.core.backend import Facts
from launchbay.core.naming import digest
from launchbay.core.whole import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_facts(where: Mapping[str, str]) -> Facts | None:
    """What was last seen of a place; None where nobody has looked yet."""
    try:
        record = json.loads(_path(where).read_text())
        gpus = tuple((index, name) for index, name in record.pop("gpus"))
        return Facts(**record, gpus=gpus)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_facts(where: Mapping[str, str], facts: Facts) -> None:
    """Keep what was seen; where it cannot be written, nobody is stopped by that."""
    path = _path(where)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replacing(path) as draft:
            draft.write_text(json.dumps(asdict(facts)))


def _path(where: Mapping[str, str]) -> Path:
    place = [where["kind"], where.get("host", "")]
    # One `kubectl` may lead to many clusters, and sees other things in each namespace.
    place += [where[key] for key in ("context", "kubeconfig", "namespace") if where.get(key)]
    return state_folder() / "facts" / f"{digest(place)[:16]}.json"
