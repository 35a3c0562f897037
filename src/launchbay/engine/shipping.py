"""What runs read from elsewhere and where their outputs go: decided here, done by the node.

A job is arranged for its target: `carriage` is shell text for `node/bring.sh` and `node/ship.sh`,
and its secrets are those that the tools there need. Keys stand in none of it, only the names of
the variables that hold them.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.words import CLAIMS_AT
from launchbay.core.errors import Unsupported
from launchbay.core.job import CLAIM, CODE_FOLDER, Folder
from launchbay.core.naming import digest
from launchbay.engine.signing import check_signing, gets_name, puts_name
from launchbay.engine.storing import find_store, render_store
from launchbay.engine.targets import KUBERNETES
from launchbay.sync.address import is_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from launchbay.core.job import Job, Recipe, Ship
    from launchbay.engine.launch import Draft
    from launchbay.engine.settings import Settings
    from launchbay.engine.storing import Store
    from launchbay.engine.targets import Place

OWN = "bay"
TOOLS = {"s3": (OWN, "s5cmd", "rclone", "aws"), "file": ("cp",)}
OTHER_TOOLS = (OWN, "rclone")
BARE = ("curl", "python3")
"""What is enough where there are addresses that work without keys."""
SIGNED = "signed"
SHORTEST_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a node comes to a place in object storage."""

    tool: str
    """The program; `signed` for addresses that work without keys, empty where nobody knows."""
    program: str = ""
    """The one that takes such addresses."""

    def __str__(self) -> str:
        if self.tool == SIGNED:
            return f"by {self.program}, with addresses that work for a week"
        return f"by {self.tool}" if self.tool else "by bay, s5cmd, rclone or aws, what is there"


@dataclass(frozen=True, kw_only=True)
class Arranger:
    """Makes jobs ready for one target.

    Args:
        settings: what the configuration says.
        place: the target.
        project: the folder whose code is run.
        launch: the launch's tag; empty where nothing will be sent, and nothing is asked for then.
    """

    settings: Settings
    place: Place
    project: Path
    launch: str = ""
    bulky: Mapping[str, str] = field(default_factory=dict)
    """Where code is that the target does not hold, by its id."""
    known: dict[tuple[object, ...], tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def __call__(self, job: Job) -> Job:
        """The job with what the node has to know.

        Raises:
            Unsupported: when the target cannot have what the job asks for.
        """
        job = self._with_code(self._with_endpoints(job))
        if not job.folders and self._copied_by(job.ship) is None:
            return job
        plain = tuple(name for name in job.secrets if not name.startswith("bay_"))
        key = (job.folders, job.ship, plain, job.resources.time_limit, id(job.env))
        if key not in self.known:
            self.known[key] = self._arrange(replace(job, secrets=plain))
        text, secrets = self.known[key]
        own = self._puts(job)
        return replace(job, carriage=text, secrets=(*secrets, *own))

    def describe(self, recipe: Recipe) -> Iterator[str]:
        """What a plan says of a run's folders and outputs."""
        for folder in recipe.folders:
            yield f"{folder.name}: {self._describe_folder(folder)}"
        if recipe.ship and not self._copied_by(recipe.ship):
            yield f"outputs and logs: on {recipe.ship.to}"
        elif recipe.ship:
            store = self._store_of(recipe.ship.to, "outputs_to")
            every = f"every {recipe.ship.every_s:g} s and " if recipe.ship.every_s else ""
            only = f" ({', '.join(recipe.ship.only)})" if recipe.ship.only else ""
            way = self._way(store)
            yield f"outputs{only} and logs: to {store.url}/RUN, {every}at the end, {way}"

    def _describe_folder(self, folder: Folder) -> str:
        if self._is_at_hand(folder):
            return "the project's own folder"
        if not is_storage(folder.source):
            path = self._path(folder)
            warned = "; it is not ours to make read-only" if folder.read_only else ""
            return f"a link to {path}{warned}"
        store = self._store_of(folder.source, f"folders: {folder.name}")
        if store.scheme == "file":
            return f"a link to {store.path}"
        note = ", read-only" if folder.read_only else ""
        return f"fetched from {store.url}{note}, once for all runs, {self._way(store)}"

    @cached_property
    def endpoints(self) -> Mapping[str, str]:
        """Addresses that runs there know by another name; this machine knows them as they are."""
        if self.place.is_here:
            return {}
        return find_endpoints(self.settings.targets(), self.place.name)

    @cached_property
    def _envs(self) -> dict[int, tuple[Mapping[str, str], Mapping[str, str]]]:
        """Environments that were changed: the one that was given is kept, for it is known by id."""
        return {}

    def _with_endpoints(self, job: Job) -> Job:
        if not self.endpoints or not any(value in self.endpoints for value in job.env.values()):
            return job
        if id(job.env) not in self._envs:
            changed = {name: self.endpoints.get(text, text) for name, text in job.env.items()}
            self._envs[id(job.env)] = (job.env, changed)
        return replace(job, env=self._envs[id(job.env)][1])

    def _with_code(self, job: Job) -> Job:
        others = tuple(one for one in job.folders if one.name != CODE_FOLDER)
        source = self.bulky.get(job.snapshot)
        if not source or self._copied_by(job.ship) is None:
            return replace(job, folders=others) if others != job.folders else job
        code = Folder(name=CODE_FOLDER, source=source, read_only=True)
        return replace(job, folders=(*others, code))

    def _arrange(self, job: Job) -> tuple[str, tuple[str, ...]]:
        names: dict[str, None] = {}
        folders = [one for one in job.folders if not self._is_at_hand(one)]
        calls = [self._render_folder(one, job, names) for one in folders]
        lines = [f"bay_launch={shlex.quote(self.launch)}\n"]
        if self.place.is_here:
            # What the queue outlives is not asked.
            lines.append(f"bay_python={shlex.quote(sys.executable)}\n")
        if any(folder.name == CODE_FOLDER for folder in folders):
            lines.append(f"bay_packed={CODE_FOLDER}\n")
        if calls:
            lines += ["bay_folders=1\neach_folder() {\n:\n", *calls, "}\n"]
        if ship := self._copied_by(job.ship):
            lines.append(self._render_ship(ship, job, names))
        given = {*job.secrets, *job.env}
        added = [name for name in names if name.startswith("bay_") or name not in given]
        return "".join(lines), (*job.secrets, *added)

    def _render_folder(self, folder: Folder, job: Job, names: dict[str, None]) -> str:
        """The call of `each_folder` for one: see node/bring.sh."""
        source, kept, text = self._path(folder), "", ""
        if is_storage(folder.source):
            store = self._store_of(folder.source, f"folders: {folder.name}")
            source = store.url
            if store.scheme != "file":
                kept = digest([source, store.endpoint, folder.read_only])[:16]
                text = self._render_store(store, names, reading=True)
                if self._is_signed(store, job):
                    check_signing(store, job, self.place.name, counting=bool(self.launch))
                    names[gets_name(kept, source)] = None
        words = [folder.name, source, kept, folder.at, "ro" * folder.read_only, text]
        return f'"$1" {" ".join(map(shlex.quote, words))}\n'

    def _render_ship(self, ship: Ship, job: Job, names: dict[str, None]) -> str:
        store = self._store_of(ship.to, "outputs_to")
        if self._is_signed(store, job):
            check_signing(store, job, self.place.name)
        text = self._render_store(store, names, reading=False)
        every = f"{max(ship.every_s, SHORTEST_S):g}" if ship.every_s else ""
        return (
            f'bay_ship={shlex.quote(store.url)}/"$BAY_RUN_ID"\n'
            f"bay_ship_every={every}\n"
            f"bay_store={shlex.quote(text)}\n{_render_wanted(ship.only)}"
        )

    def _puts(self, job: Job) -> tuple[str, ...]:
        """The name of the addresses that a run's outputs go to, where there have to be some."""
        ship = self._copied_by(job.ship)
        if ship is None:
            return ()
        store = self._store_of(ship.to, "outputs_to")
        if not self._is_signed(store, job):
            return ()
        return (puts_name(f"{store.url}/{job.run_id}"),)

    def _render_store(self, store: Store, names: dict[str, None], *, reading: bool) -> str:
        text, needed = render_store(store, self.endpoints, reading=reading)
        if not self.place.is_here:
            # Runs here have the shell's variables, and those of `.env`, anyhow.
            vault = self.settings.vault
            names |= dict.fromkeys(name for name in needed if vault.has(name))
        return text

    def _store_of(self, source: str, key: str) -> Store:
        known = self.__dict__.setdefault("_stores", {})
        if source not in known:
            known[source] = find_store(self.settings, source, key=key)
        found: Store = known[source]
        return found

    def _copied_by(self, ship: Ship | None) -> Ship | None:
        """What a run copies by itself; on a claim its outputs are there from the beginning.

        Raises:
            Unsupported: when there are no claims.
        """
        if ship is None or not ship.to.startswith(CLAIM):
            return ship
        if not self._is_cluster:
            raise Unsupported(
                f"outputs are to go to `{ship.to}`, and `{self.place.name}` has no claims",
                hint="write `outputs_to: none`, or a place such as `s3://lab/results`",
            )
        return None

    @property
    def _is_cluster(self) -> bool:
        return self.place.where["kind"] == KUBERNETES

    def _is_signed(self, store: Store, job: Job) -> bool:
        """Whether a run is given addresses that work without keys.

        What an image has nobody knows: it is given them where they would last.
        """
        way = self._way(store)
        if way.tool or not self._is_cluster or store.scheme == "file":
            return way.tool == SIGNED
        try:
            check_signing(store, job, self.place.name)
        except Unsupported:
            return False
        return True

    def _way(self, store: Store) -> Way:
        tools = TOOLS.get(store.scheme, OTHER_TOOLS)
        if store.scheme == "file":
            return Way(tool="cp")
        facts = self.place.facts
        programs = [OWN] if self.place.is_here else None
        if programs is None and facts is not None:
            programs = facts.details.get("programs")
        if programs is None:
            return Way(tool="")
        for tool in tools:
            if tool in programs:
                return Way(tool=tool)
        for program in BARE:
            if program in programs:
                return Way(tool=SIGNED, program=program)
        raise Unsupported(
            f"`{self.place.name}` has no program that copies to or from {store.url}",
            hint=f"install s5cmd or rclone there, then `bay doctor {self.place.name}`",
        )

    def _path(self, folder: Folder) -> str:
        """A folder's path, as the machine of the target has it."""
        if folder.source.startswith(CLAIM) and self._is_cluster:
            return f"{CLAIMS_AT}/{folder.source.removeprefix(CLAIM)}"
        if folder.source.startswith(CLAIM):
            raise Unsupported(
                f"`{folder.name}` is `{folder.source}`, and `{self.place.name}` has no claims",
                hint="write a path there, or a place such as `s3://lab/data`",
            )
        if self.place.where.get("host") or self._is_cluster:
            return folder.source
        return str(self.project / Path(folder.source).expanduser())

    def _is_at_hand(self, folder: Folder) -> bool:
        """Whether the project on this machine has the folder itself."""
        if not self.place.is_here or not is_storage(folder.source):
            return False
        path = self.project / folder.name
        # A run in the project's own folder may have left a link to what it fetched.
        ours = path.is_symlink() and path.resolve().is_relative_to(self.place.where["root"])
        return path.exists() and not ours


def describe(draft: Draft, recipe: Recipe) -> Iterator[str]:
    """What a plan says of data: what is brought and linked, where outputs go, what comes home."""
    arrange = Arranger(
        settings=draft.settings, place=draft.place, project=draft.project.folder, launch=""
    )
    yield from arrange.describe(recipe)
    if recipe.fetch and not draft.place.is_here:
        yield f"comes home at the end: {', '.join(recipe.fetch)}"


def find_endpoints(targets: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, str]:
    """What a target's entry says of addresses that it knows by another name."""
    return dict(targets.get(name, {}).get("endpoints") or {})


def _render_wanted(patterns: Sequence[str]) -> str:
    """A function that finds what is to be copied; `*` crosses folders there as it does here."""
    if not patterns:
        return ""
    whole = [f"./{one}*" if one.endswith("/") else f"./{one}" for one in patterns]
    tests = " -o ".join(f"-path {shlex.quote(one)}" for one in whole)
    return f'bay_ship_only=1\nfind_wanted() {{\nfind . -type f \\( {tests} \\) "$@"\n}}\n'
