"""From a target's name, or from where a run went, to a backend that is open."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from launchbay import backends
from launchbay.core.backend import Backend, Facts, Opening, Survey
from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest
from launchbay.engine.facts import read_facts, write_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from launchbay.core.run import Run
    from launchbay.engine.project import Project

MACHINE, KUBERNETES = "machine", "kubernetes"
When = Literal["now", "lately", "never"]
LATELY_S = 600.0
"""How long what was seen of a target counts for launches."""
SOON_S = 20.0
"""The same where people make what they need by a command of their own, as claims."""
ROOT_ELSEWHERE = "~/bay"
KEPT = ("look_every",)
"""Options of a target that matter as long as its runs do."""
KEPT_OF_CLUSTERS = ("namespace", "context", "kubeconfig", "user", "image")
"""Those of a Kubernetes; the image is what looks into its claims."""
ROOT_IN_PODS = "/bay/root"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A target that is open for new runs."""

    name: str
    backend: Backend
    facts: Facts | None
    where: Mapping[str, str]
    """What later processes need to find its runs again."""

    @property
    def is_here(self) -> bool:
        """Whether it is the queue of this machine."""
        return is_here(self.where)


def is_here(where: Mapping[str, str]) -> bool:
    """Whether a place is the queue of this machine."""
    return where["kind"] == MACHINE and not where.get("host")


class Targets:
    """The targets of a project, opened when they are needed."""

    def __init__(
        self,
        project: Project,
        entries: Callable[[], Mapping[str, Mapping[str, Any]]],
        *,
        load: Callable[[str], Callable[[Opening], Backend]] = backends.load,
        secret: Callable[[str, Mapping[str, str]], str] = lambda name, _: name,
    ) -> None:
        self._project = project
        self._entries = entries
        self._load = load
        self._secret = secret
        self._open_places: dict[tuple[str, ...], Backend] = {}

    def names(self) -> list[str]:
        """Every target that the configuration names."""
        return sorted(self._entries())

    def open(self, name: str, *, look: When = "now") -> Place:
        """The target, with what is known of it.

        Args:
            name: what it is called.
            look: whether to look round there now, only where nobody did lately, or never, so that
                what was last seen counts. This machine is looked at in any case.

        Raises:
            BadRequest: when there is no target of that name.
        """
        entries = self._entries()
        if name not in entries:
            raise BadRequest(f"there is no target `{name}`", hint=suggest(name, entries))
        options = dict(entries[name])
        kind = str(options.pop("kind", MACHINE))
        where = self._where(kind, options)
        backend = self._open(name, kind, {**options, "root": where["root"]}, None)
        facts = read_facts(where)
        wanted = look == "now" or (look == "lately" and not _is_recent(facts, kind))
        if isinstance(backend, Survey) and (wanted or is_here(where)):
            facts = backend.survey()
            if not is_here(where):
                write_facts(where, facts)
        return Place(
            name=name,
            backend=self._open(name, kind, {**options, "root": where["root"]}, facts),
            facts=facts,
            where=where,
        )

    def reopen(self, run: Run) -> Backend:
        """The backend of a run that was submitted earlier, as it was then."""
        key = (run.target, *(f"{name}={value}" for name, value in sorted(run.place.items())))
        if key not in self._open_places:
            where = dict(run.place)
            self._open_places[key] = self._open(run.target, where.pop("kind"), where, None)
        return self._open_places[key]

    def _where(self, kind: str, options: Mapping[str, Any]) -> dict[str, str]:
        host, root = str(options.get("host") or ""), options.get("root")
        where = {"kind": kind, **({"host": host} if host else {})}
        if kind == KUBERNETES:
            kept = {
                key: str(options[key]) for key in (*KEPT, *KEPT_OF_CLUSTERS) if options.get(key)
            }
            return {**where, "root": ROOT_IN_PODS, **kept}
        if not host:
            default = self._project.bay if kind == MACHINE else Path(ROOT_ELSEWHERE)
            root = Path(root or default).expanduser().absolute()
        kept = {key: str(options[key]) for key in KEPT if key in options}
        return {**where, "root": str(root or ROOT_ELSEWHERE), **kept}

    def _open(
        self, name: str, kind: str, options: Mapping[str, Any], facts: Facts | None
    ) -> Backend:
        root = Path(options["root"])
        here = is_here({"kind": kind, "host": str(options.get("host") or "")})

        def secret(word: str) -> str:
            """Values of secrets; addresses that the target knows by another name have that one."""
            known = {} if here else self._entries().get(name, {}).get("endpoints") or {}
            return self._secret(word, known)

        return self._load(kind)(
            Opening(target=name, options=options, root=root, facts=facts, secret=secret)
        )


def _is_recent(facts: Facts | None, kind: str) -> bool:
    lately_s = SOON_S if kind == KUBERNETES else LATELY_S
    return facts is not None and 0 <= time.time() - facts.seen_at < lately_s
