"""What runs left with their targets that none of them needs any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from launchbay.core.backend import Tidying
from launchbay.core.errors import TargetError
from launchbay.engine.watch import by_place
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from launchbay.engine.lab import Lab


@dataclass(frozen=True, kw_only=True)
class Leftovers:
    """Objects at one target."""

    target: str
    backend: Tidying
    names: tuple[str, ...]


def find_leftovers(lab: Lab, *, older_s: float) -> list[Leftovers]:
    """What targets of this project's runs keep for nobody; one that does not answer is told of."""
    found = []
    for group in by_place(lab.store.runs(Query(project=lab.project.id))):
        if not group[0].place.get("namespace"):
            continue
        backend = lab.targets.reopen(group[0])
        if not isinstance(backend, Tidying):
            continue
        try:
            names = backend.find_leftovers(before=lab.clock() - older_s)
        except TargetError as err:
            lab.tell(f"{group[0].target} was not asked: {err}")
            continue
        if names:
            found.append(Leftovers(target=group[0].target, backend=backend, names=tuple(names)))
    return found


def remove_leftovers(leftovers: list[Leftovers]) -> None:
    """Remove them there.

    Raises:
        TargetError: when a target does not let us.
    """
    for one in leftovers:
        one.backend.remove_leftovers(one.names)
