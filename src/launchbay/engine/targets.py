"""From a target's name, or from where a run went, to a backend that is open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay import backends
from launchbay.core.backend import Backend, Facts, Opening, Survey
from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from launchbay.core.run import Run
    from launchbay.engine.project import Project


@dataclass(frozen=True, kw_only=True)
class Place:
    """A target that is open for new runs."""

    name: str
    backend: Backend
    facts: Facts | None
    where: Mapping[str, str]
    """What later processes need to find its runs again."""


class Targets:
    """The targets of a project, opened when they are needed."""

    def __init__(
        self,
        project: Project,
        entries: Callable[[], Mapping[str, Mapping[str, Any]]],
        *,
        load: Callable[[str], Callable[[Opening], Backend]] = backends.load,
        secret: Callable[[str], str] = str,
    ) -> None:
        self._project = project
        self._entries = entries
        self._load = load
        self._secret = secret

    def names(self) -> list[str]:
        """Every target that the configuration names."""
        return sorted(self._entries())

    def open(self, name: str) -> Place:
        """The target, surveyed where it can be.

        Raises:
            BadRequest: when there is no target of that name.
        """
        entries = self._entries()
        if name not in entries:
            raise BadRequest(f"there is no target `{name}`", hint=suggest(name, entries))
        options = dict(entries[name])
        kind = str(options.pop("kind", "machine"))
        root = Path(options.get("root") or self._project.bay).expanduser().absolute()
        backend = self._open(name, kind, options, root, None)
        facts = backend.survey() if isinstance(backend, Survey) else None
        return Place(
            name=name,
            backend=self._open(name, kind, options, root, facts),
            facts=facts,
            where={"kind": kind, "root": str(root)},
        )

    def reopen(self, run: Run) -> Backend:
        """The backend of a run that was submitted earlier, as it was then."""
        where = dict(run.place)
        kind, root = where.pop("kind"), Path(where["root"])
        return self._open(run.target, kind, where, root, None)

    def _open(
        self, name: str, kind: str, options: Mapping[str, Any], root: Path, facts: Facts | None
    ) -> Backend:
        return self._load(kind)(
            Opening(target=name, options=options, root=root, facts=facts, secret=self._secret)
        )
