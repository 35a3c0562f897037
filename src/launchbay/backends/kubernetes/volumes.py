"""What a pod finds mounted: programs, plan, code, room to write, shared memory, and claims."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.words import (
    CLAIMS_AT,
    CODE_AT,
    CODE_PARTS,
    LINE,
    PLAN_AT,
    PROGRAMS_AT,
    ROOT_AT,
    code_name,
)
from launchbay.core.errors import Unsupported
from launchbay.core.job import CLAIM
from launchbay.core.naming import slug

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from launchbay.core.job import Folder, Job

SHM_AT = "/dev/shm"  # noqa: S108 (where programs expect it)
TAKEN = {
    PROGRAMS_AT: "launchbay's programs",
    PLAN_AT: "the plan",
    CODE_AT: "the code",
    ROOT_AT: "the run's folder",
    SHM_AT: "the shared memory",
}
"""Where we mount things ourselves."""


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What a plan's pods find mounted, by the names of the objects that hold it."""

    plan: str
    """The plan's id."""
    programs: str
    """The ConfigMap of node programs."""
    env_secret: str = ""
    file_secret: str = ""

    @property
    def plan_map(self) -> str:
        """The ConfigMap of what the plan's runs have in common."""
        return f"bay-plan-{slug(self.plan)}"


@dataclass(frozen=True, kw_only=True)
class Mount:
    """Something mounted where the user wants it."""

    volume: str
    """A claim, or the name of a folder that containers share."""
    path: str
    sub: str = ""
    read_only: bool = False
    word: str = field(compare=False)
    """How it was written, for what is said."""


def claims_of(job: Job, options: Mapping[str, Any] | None = None) -> list[str]:
    """Every volume claim that a run needs, each once."""
    mounts = claim_mounts(job, job.options if options is None else options)
    return list(dict.fromkeys(mount.volume for mount in mounts))


def claim_of(job: Job) -> str:
    """The claim that the run's folder is on; empty when it ends with its pod.

    Raises:
        Unsupported: when a folder of a claim is named; runs have one of their own there.
    """
    if job.ship is None or not job.ship.to.startswith(CLAIM):
        return ""
    name, sub = split_claim(job.ship.to)
    if sub:
        raise Unsupported(
            f"`outputs_to: {job.ship.to}` names a folder of the claim; runs have their own there",
            hint=f"write `outputs_to: {CLAIM}{name}`",
        )
    return name


def split_claim(source: str) -> tuple[str, str]:
    """The name of a claim, and the folder of it that is meant.

    >>> split_claim("claim:data/sets/one/"), split_claim("claim:data")
    (('data', 'sets/one'), ('data', ''))

    Raises:
        Unsupported: when the folder leads out of the claim.
    """
    name, _, sub = source.removeprefix(CLAIM).partition("/")
    sub = posixpath.normpath(sub).strip("/") if sub.strip("/") else ""
    if sub == ".":
        sub = ""
    if ".." in sub.split("/"):
        raise Unsupported(f"`{source}` leads out of the claim", hint="leave the `..` out")
    return name, sub


def claim_mounts(job: Job, options: Mapping[str, Any]) -> list[Mount]:
    """Where claims are mounted, none twice.

    Raises:
        Unsupported: when a path is none, or one claim is wanted both read-only and not.
    """
    given: Mapping[str, str] = options.get("volumes") or {}
    mounts = [
        Mount(volume=name, path=absolute(path, f"volumes: {{{name}: {path}}}"), word=f"`{name}`")
        for name, path in given.items()
    ]
    for folder in job.folders:
        if folder.source.startswith(CLAIM) and folder.at:
            name, sub = split_claim(folder.source)
            at = absolute(folder.at, f"folders: {{{folder.name}: {{at: {folder.at}}}}}")
            word = f"`{folder.name}`"
            one = Mount(volume=name, path=at, sub=sub, read_only=folder.read_only, word=word)
            mounts.append(one)
    return [*mounts, *_own_places(job)]


def _own_places(job: Job) -> Iterator[Mount]:
    """Each claim of folders and outputs at a place of ours, what is read-only inside of it."""
    folders: dict[str, list[tuple[Folder, str]]] = {}
    if home := claim_of(job):
        folders[home] = []
    for folder in job.folders:
        if folder.source.startswith(CLAIM):
            name, sub = split_claim(folder.source)
            folders.setdefault(name, []).append((folder, sub))
    for name, ones in folders.items():
        at, word = f"{CLAIMS_AT}/{name}", f"`{CLAIM}{name}`"
        writes = name == home or any(not folder.read_only for folder, _ in ones)
        yield Mount(volume=name, path=at, read_only=not writes, word=word)
        for folder, sub in ones if writes else ():
            if folder.read_only and not sub:
                raise Unsupported(
                    f"{word} is to be read-only as `{folder.name}`, and is written to as well",
                    hint=f"leave `ro` out, or name a folder of it: `{CLAIM}{name}/data`",
                )
            if folder.read_only:
                yield Mount(volume=name, path=f"{at}/{sub}", sub=sub, read_only=True, word=word)


def absolute(path: str, written: str) -> str:
    """The path, which must be one that something can be mounted at.

    Raises:
        Unsupported: when it is not, with what was written.
    """
    if not path.startswith("/") or ":" in path or posixpath.normpath(path).strip("/") == "":
        raise Unsupported(
            f"`{written}` names no absolute path in the pod", hint="write one, such as `/data`"
        )
    return "/" + posixpath.normpath(path).strip("/")


def check_mounts(mounts: Iterable[Mount]) -> list[Mount]:
    """The mounts, each once.

    Raises:
        Unsupported: when two are at one path, or one is where we mount something ourselves.
    """
    found: dict[str, Mount] = {}
    for mount in mounts:
        ours = _overlap(mount.path, f"{CLAIMS_AT}/{mount.volume}") and mount.path != CLAIMS_AT
        for path, what in {**TAKEN, **({} if ours else {CLAIMS_AT: "claims"})}.items():
            if _overlap(mount.path, path):
                raise Unsupported(
                    f"{mount.word} cannot be mounted at `{mount.path}`: `{path}` is for {what}",
                    hint="choose another path, such as `/data`",
                )
        other = found.setdefault(mount.path, mount)
        if other != mount:
            raise Unsupported(
                f"{other.word} and {mount.word} are both to be mounted at `{mount.path}`",
                hint="choose another path for one of them",
            )
    return list(found.values())


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def own_volumes(job: Job, carried: Carried, *, code: bool, shm_mib: int) -> list[dict[str, Any]]:
    """The volumes that every pod of a plan has."""
    memory: dict[str, Any] = {"medium": "Memory"}
    if shm_mib:
        memory["sizeLimit"] = f"{shm_mib}Mi"
    volumes: list[dict[str, Any]] = [
        {"name": "node", "configMap": {"name": carried.programs}},
        {"name": "plan", "projected": {"sources": _plan_sources(carried)}},
        {"name": "code", "projected": {"sources": _code_sources(job.snapshot)}},
        {"name": "root", "emptyDir": {}},
        {"name": "shm", "emptyDir": memory},
    ]
    return [volume for volume in volumes if code or volume["name"] != "code"]


def own_mounts(*, code: bool) -> list[dict[str, Any]]:
    """Where the container of the command finds them."""
    mounts: list[dict[str, Any]] = [
        {"name": "node", "mountPath": PROGRAMS_AT, "readOnly": True},
        {"name": "plan", "mountPath": PLAN_AT, "readOnly": True},
        {"name": "code", "mountPath": CODE_AT, "readOnly": True},
        {"name": "root", "mountPath": ROOT_AT},
        {"name": "shm", "mountPath": SHM_AT},
    ]
    return [mount for mount in mounts if code or mount["name"] != "code"]


def _plan_sources(carried: Carried) -> list[dict[str, Any]]:
    field_path = {"fieldPath": f"metadata.annotations['{LINE}']"}
    sources: list[dict[str, Any]] = [
        {"configMap": {"name": carried.plan_map}},
        {"downwardAPI": {"items": [{"path": "sheet", "fieldRef": field_path}]}},
    ]
    if carried.file_secret:
        sources.append({"secret": {"name": carried.file_secret}})
    return sources


def _code_sources(snapshot: str) -> list[dict[str, Any]]:
    """A plan does not know in how many parts the code travels; those beyond the last are absent."""
    first: dict[str, Any] = {"configMap": {"name": code_name(snapshot, 0)}}
    more = (code_name(snapshot, part) for part in range(1, CODE_PARTS))
    return [first, *({"configMap": {"name": name, "optional": True}} for name in more)]


def claim_volumes(claims: Sequence[str]) -> list[dict[str, Any]]:
    """A volume for each claim, however often it is mounted."""
    return [
        {"name": f"claim-{at}", "persistentVolumeClaim": {"claimName": name}}
        for at, name in enumerate(claims)
    ]


def render_mount(mount: Mount, volume: str) -> dict[str, Any]:
    """A mount as a container has it."""
    found: dict[str, Any] = {"name": volume, "mountPath": mount.path}
    if mount.sub:
        found["subPath"] = mount.sub
    if mount.read_only:
        found["readOnly"] = True
    return found
