"""What pods find mounted, as objects of the cluster: frozen code, node programs, secrets.

Code and programs are immutable ConfigMaps named by their content: what is there already is not sent
again, and nothing that runs can see it change.
"""

from __future__ import annotations

import gzip
import hashlib
from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Any

from launchbay.backends.depot_programs import program_texts
from launchbay.backends.depot_tree import find_difference
from launchbay.backends.kubernetes import words
from launchbay.backends.sheet import is_own, own_secrets_name, render_secrets, secrets_name
from launchbay.core.host import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from launchbay.core.job import Job

PART_BYTES = 1_000_000
"""An object may hold 1 MiB, its names among it."""
IN_PODS = (
    *("pod.sh", "task.sh", "run.sh", "read.sh", "enter.sh"),
    *("unpack.sh", "bring.sh", "ship.sh", "carry.sh", "turn.sh", "signed.py"),
    *("toolbox.sh", "s3.py"),
)
"""The node programs that a pod needs."""


def pack_code(tree: Path) -> list[bytes]:
    """A frozen tree as a packed archive, in parts that an object can hold."""
    data = gzip.compress(encoded(find_difference(tree, []).archive), mtime=0)
    return [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]


def render_code(snapshot: str, parts: Sequence[bytes], labels: Mapping[str, str]) -> list[Any]:
    """The ConfigMaps of the code; the first part, which says how many there are, comes last.

    Without parts there is still the first, for code that has to be on a claim.
    """
    objects = [
        _config_map(
            words.code_name(snapshot, number),
            {**labels, words.ROLE: "code"},
            data={"parts": f"{len(parts)}\n"} if number == 0 else {},
            binary={f"code.{number}": part} if part else {},
        )
        for number, part in enumerate(parts or [b""])
    ]
    return objects[::-1]


@cache
def programs_name() -> str:
    """The ConfigMap of the node programs."""
    total = hashlib.sha256()
    for name in IN_PODS:
        text = program_texts()[name]
        total.update(f"{name} {len(text)}\n".encode() + text)
    return f"bay-node-{total.hexdigest()[:12]}"


def render_programs(labels: Mapping[str, str]) -> dict[str, Any]:
    """The ConfigMap of the node programs."""
    texts = {name: program_texts()[name].decode() for name in IN_PODS}
    return _config_map(programs_name(), {**labels, words.ROLE: "node"}, data=texts)


def render_shared(plan: str, text: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The ConfigMap of what the runs of a plan have in common."""
    marked = {**labels, words.ROLE: "plan", words.PLAN: plan}
    return _config_map(f"bay-plan-{plan}", marked, data={"shared.sh": text})


def env_secret(plan: str, group: int) -> str:
    """The Secret that holds a set of variables."""
    return f"bay-env-{plan}-{group}"


def file_secret(plan: str, group: int, job: Job) -> str:
    """The Secret that holds what only run.sh is to see."""
    if any(map(is_own, job.secrets)):
        return f"bay-own-{words.job_name(job.run_id, job.attempt)}"
    return f"bay-files-{plan}-{group}"


def has_variables(job: Job) -> bool:
    """Whether it has secrets that its program is to see."""
    return any(not name.startswith("bay_") for name in job.secrets)


def has_files(job: Job) -> bool:
    """Whether it has secrets that only run.sh is to see."""
    return any(name.startswith("bay_") for name in job.secrets)


def render_env_secret(
    plan: str,
    group: int,
    names: Sequence[str],
    secret: Callable[[str], str],
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """The Secret of a set of variables, with their values."""
    values = {name: encoded(secret(name)) for name in names if not name.startswith("bay_")}
    return _secret(env_secret(plan, group), {**labels, words.PLAN: plan}, values)


def render_file_secret(
    plan: str, group: int, job: Job, secret: Callable[[str], str], labels: Mapping[str, str]
) -> dict[str, Any]:
    """The Secret of what only run.sh is to see, as the files that it reads."""
    inner = [name for name in job.secrets if name.startswith("bay_")]
    common = {name: secret(name) for name in inner if not is_own(name)}
    own = {name: secret(name) for name in inner if is_own(name)}
    files = {secrets_name(group): render_secrets(common)} if common else {}
    if own:
        files[own_secrets_name(job.run_id)] = render_secrets(own)
    values = {name: encoded(text) for name, text in files.items()}
    return _secret(file_secret(plan, group, job), {**labels, words.PLAN: plan}, values)


def _config_map(
    name: str,
    labels: Mapping[str, str],
    *,
    data: Mapping[str, str],
    binary: Mapping[str, bytes] | None = None,
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": dict(labels)},
        "immutable": True,
    }
    if data:
        made["data"] = dict(data)
    if binary:
        made["binaryData"] = {key: b64encode(part).decode() for key, part in binary.items()}
    return made


def _secret(name: str, labels: Mapping[str, str], values: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {**labels, words.ROLE: "secret"}},
        "immutable": True,
        "data": {key: b64encode(value).decode() for key, value in values.items()},
    }
