"""Containers beside a run's own: servers that live as long as it does.

Each is an init container that restarts, which Kubernetes ends with the container of the command;
so a finished run is finished, whatever a server still does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.volumes import Mount, absolute, render_mount
from launchbay.backends.kubernetes.words import LONGEST_VALUE, MAIN
from launchbay.core.errors import Unsupported
from launchbay.core.naming import slug
from launchbay.core.nearest import suggest
from launchbay.core.quantity import parse_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.backends.kubernetes.amounts import Amounts

SPELLINGS = {
    "command": "command",
    "port": "port",
    "image": "image",
    "env": "env",
    "volumes": "volumes",
    "cpus": "cpus",
    "cpu_count": "cpus",
    "memory": "memory",
    "disk": "disk",
    "ephemeral_storage": "disk",
    "ephermal_storage": "disk",
    "gpus": "gpus",
    "gpu_count": "gpus",
    "extra": "extra",
}
"""The keys of an entry, with what each means."""
SERVE = "trap 'kill $! 2>/dev/null; exit 0' TERM INT\n/bin/sh -c \"$1\" &\nwait $!\n"
"""The first process of a container takes no notice of TERM unless it says so; this one does."""
SHARED = "shared:"
OLDEST = (1, 29)
"""The first Kubernetes that ends such containers with the others."""
PORTS = range(1, 65536)


@dataclass(frozen=True, kw_only=True)
class Sidecar:
    """A container beside the run's own."""

    name: str
    image: str
    command: str = ""
    port: int = 0
    env: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()
    amounts: Amounts


def read_sidecars(server: object, *, image: str, default: Amounts) -> list[Sidecar]:
    """The containers that are to be beside a run's own.

    Args:
        server: what is written under `server:`.
        image: the run's image, for those that name none.
        default: what each asks for where it says nothing.

    Raises:
        Unsupported: when an entry has a key that there is none of, or a value that cannot be.
    """
    if not isinstance(server, dict):
        raise Unsupported(
            "`server:` is no mapping of names",
            hint="write `server: {NAME: {command: …, port: 8000}}`",
        )
    found = [_read(str(name), entry, image, default) for name, entry in server.items()]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise Unsupported(
                f"two entries of `server:` are both called `{name}` there", hint="rename one"
            )
    return found


def _read(name: str, entry: object, image: str, default: Amounts) -> Sidecar:
    called = slug(name)[:LONGEST_VALUE].strip("-")
    if not called or called == MAIN:
        raise Unsupported(
            f"`server: {{{name}: …}}` is no name for a container", hint="choose another"
        )
    said = _known_keys(name, entry)
    command = str(said.get("command") or "")
    if not command.strip() and not said.get("image"):
        raise Unsupported(
            f"`server: {{{name}: …}}` says neither a command nor an image",
            hint="write `command:` with what it is to run",
        )
    return Sidecar(
        name=called,
        image=str(said.get("image") or image),
        command=command,
        port=_port(name, said.get("port")),
        env={key: str(value) for key, value in _mapping(name, "env", said).items()},
        mounts=_mounts(name, said),
        amounts=_amounts(name, said, default),
    )


def _known_keys(name: str, entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise Unsupported(f"`server: {{{name}: …}}` is no mapping", hint="write `{command: …}`")
    for key in entry:
        if key not in SPELLINGS:
            hint = suggest(key, SPELLINGS, listing=True)
            raise Unsupported(f"`server: {{{name}: …}}` has no key `{key}`", hint=hint)
    return {SPELLINGS[key]: value for key, value in entry.items() if value is not None}


def _port(name: str, written: object) -> int:
    if written is None:
        return 0
    text = str(written)
    if not re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) or int(text) not in PORTS:
        raise Unsupported(f"`server: {{{name}: {{port: {text}}}}}` is no port", hint="write `8000`")
    return int(text)


def _mapping(name: str, key: str, said: Mapping[str, Any]) -> dict[str, Any]:
    found = said.get(key, {})
    if not isinstance(found, dict):
        raise Unsupported(
            f"`server: {{{name}: {{{key}: …}}}}` is no mapping", hint="write `{NAME: VALUE}`"
        )
    return {one: "" if value is None else value for one, value in found.items()}


def _mounts(name: str, said: Mapping[str, Any]) -> tuple[Mount, ...]:
    found = []
    for volume, path in _mapping(name, "volumes", said).items():
        written = f"server: {{{name}: {{volumes: {{{volume}: {path}}}}}}}"
        at = absolute(str(path), written)
        found.append(Mount(volume=SHARED + slug(volume), path=at, word=f"`{volume}`"))
    return tuple(found)


def _amounts(name: str, said: Mapping[str, Any], default: Amounts) -> Amounts:
    changes: dict[str, Any] = {}
    for key, read, field in (
        ("cpus", _cpus, "cpus"),
        ("gpus", _whole, "gpus"),
        ("memory", _memory, "memory_mib"),
        ("disk", _disk, "disk_mib"),
    ):
        if key in said:
            try:
                changes[field] = read(str(said[key]))
            except ValueError as error:
                written = f"server: {{{name}: {{{key}: {said[key]}}}}}"
                raise Unsupported(
                    f"`{written}` is no amount", hint="write `cpus: 2`, `memory: 4G`, `gpus: 1`"
                ) from error
    extra = {key: str(value) for key, value in _mapping(name, "extra", said).items()}
    return replace(default, extra=extra, **changes)


def _cpus(text: str) -> float:
    cpus = float(text)
    if not 0 < cpus < float("inf"):
        raise ValueError
    return cpus


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text, re.ASCII):
        raise ValueError
    return int(text)


def _memory(text: str) -> int:
    return parse_memory(text)


def _disk(text: str) -> int:
    return 0 if re.fullmatch(r"0+\s*[A-Za-z]*", text) else parse_memory(text)


def check_version(details: Mapping[str, Any] | None) -> None:
    """See that the cluster ends such containers with the run's own.

    Raises:
        Unsupported: when it is known to be too old.
    """
    match = re.match(r"v?(\d+)\.(\d+)", str((details or {}).get("version") or ""))
    if match and (int(match[1]), int(match[2])) < OLDEST:
        raise Unsupported(
            f"`server:` needs Kubernetes 1.29, and this one is {match[0].lstrip('v')}",
            hint="start the server in the run's own command, or leave `server:` out",
        )


def render_sidecar(sidecar: Sidecar, *, env_secret: str) -> dict[str, Any]:
    """The container."""
    found: dict[str, Any] = {
        "name": sidecar.name,
        "image": sidecar.image,
        "restartPolicy": "Always",
    }
    if sidecar.command.strip():
        found["command"] = ["/bin/sh", "-c", SERVE, "sh", verbatim(sidecar.command)]
    if sidecar.port:
        found["ports"] = [{"containerPort": sidecar.port}]
    if env_secret:
        found["envFrom"] = [{"secretRef": {"name": env_secret}}]
    if sidecar.env:
        found["env"] = [{"name": n, "value": verbatim(sidecar.env[n])} for n in sidecar.env]
    amounts = sidecar.amounts
    found["resources"] = {"requests": amounts.requests(), "limits": amounts.limits()}
    if sidecar.mounts:
        found["volumeMounts"] = [render_mount(one, shared_name(one)) for one in sidecar.mounts]
    return found


def shared_name(mount: Mount) -> str:
    """What a folder that containers share is called in the pod."""
    return f"shared-{mount.volume.removeprefix(SHARED)}"


def verbatim(text: str) -> str:
    """Text that Kubernetes hands on as it is: it would fill in `$(NAME)` and halve `$$`.

    >>> verbatim("echo $HOME"), verbatim("echo $(date)")
    ('echo $HOME', 'echo $$(date)')
    """
    return text.replace("$", "$$") if "$$" in text or "$(" in text else text
