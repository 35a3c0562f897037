"""The pod of a run: the container of its command, what it finds mounted, and where it may go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.amounts import (
    DEFAULT,
    FIRST_TOOL,
    SIDECAR,
    Amounts,
    amounts_of,
)
from launchbay.backends.kubernetes.placing import render_access, render_affinity
from launchbay.backends.kubernetes.sidecars import (
    SHARED,
    Sidecar,
    check_version,
    read_sidecars,
    render_sidecar,
    shared_name,
)
from launchbay.backends.kubernetes.volumes import (
    Carried,
    check_mounts,
    claim_mounts,
    claim_of,
    claim_volumes,
    own_mounts,
    own_volumes,
    render_mount,
)
from launchbay.backends.kubernetes.words import MAIN, PLAN_AT, PROGRAMS_AT, root_of
from launchbay.core.errors import Unsupported
from launchbay.core.job import CLAIM, IN_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from launchbay.core.job import Job

FIRST_TOOLS_TARGET = "kube"
"""The target that the first tool's `config/kube.yaml` is."""
COMMAND = ("/bin/sh", f"{PROGRAMS_AT}/pod.sh")
GRACE_S = 30
LAST_WORDS_S = 5
SHIPPING_GRACE_S = 120
"""How long a pod that is ended may take to copy the last of its outputs to a bucket."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What manifests of a target depend on besides their jobs."""

    target: str
    namespace: str
    user: str
    details: Mapping[str, Any] | None = None
    """Of the target's facts; without them nothing is checked."""
    parallel: int | None = None
    """At most so many runs of the target at once."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the target says, where a job says nothing."""

    @property
    def first_tool(self) -> bool:
        """Whether it is the first tool's files that are to mean what they meant there."""
        return self.target == FIRST_TOOLS_TARGET


def main_amounts(job: Job, frame: Frame, options: Mapping[str, Any]) -> Amounts:
    """What the run's own container asks for.

    Raises:
        Unsupported: when Kubernetes cannot be asked for that.
    """
    default = FIRST_TOOL if frame.first_tool else DEFAULT
    return amounts_of(job.run_id, job.resources, options, default)


def sidecars_of(job: Job, frame: Frame, options: Mapping[str, Any]) -> list[Sidecar]:
    """The containers beside the run's own.

    Raises:
        Unsupported: when they cannot be as they are written.
    """
    server = options.get("server")
    if not server:
        return []
    check_version(frame.details)
    default = FIRST_TOOL if frame.first_tool else SIDECAR
    return read_sidecars(server, image=_image(job, frame, options), default=default)


def project_of(job: Job) -> str:
    """The project that a run belongs to."""
    return job.labels.get("project_name") or job.name.split("-")[0]


def render_pod_spec(
    job: Job,
    frame: Frame,
    carried: Carried,
    options: Mapping[str, Any],
    command: Iterable[str] = COMMAND,
) -> dict[str, Any]:
    """The pod of a run: its containers, and what they find.

    Args:
        job: the run.
        frame: what else it depends on.
        carried: what it finds mounted.
        options: what the target and the job say.
        command: what its container does.

    Raises:
        Unsupported: when Kubernetes cannot be asked for that.
    """
    amounts = main_amounts(job, frame, options)
    sidecars = sidecars_of(job, frame, options)
    code = bool(job.snapshot)
    volumes, mounts = _mounted(job, options, sidecars)
    spec: dict[str, Any] = {"restartPolicy": "Never", **_about_pod(job, options)}
    if affinity := render_affinity(job.resources, amounts.gpus, frame.details):
        spec["affinity"] = affinity
    if sidecars:
        around = [render_sidecar(one, env_secret=carried.env_secret) for one in sidecars]
        spec["initContainers"] = around
    main: dict[str, Any] = {
        "name": MAIN,
        "image": _image(job, frame, options),
        "command": list(command),
    }
    if carried.env_secret:
        main["envFrom"] = [{"secretRef": {"name": carried.env_secret}}]
    main["env"] = _env(job, frame, options)
    main["resources"] = {"requests": amounts.requests(), "limits": amounts.limits()}
    main["volumeMounts"] = own_mounts(code=code) + mounts
    spec["containers"] = [main]
    shm_mib = int(options.get("shm") or 0)
    spec["volumes"] = own_volumes(job, carried, code=code, shm_mib=shm_mib) + volumes
    return spec


def _about_pod(job: Job, options: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of the pod as a whole; what nobody says is not in it."""
    account = str(options.get("service_account") or "")
    found: dict[str, Any] = {
        "terminationGracePeriodSeconds": _grace(job),
        "enableServiceLinks": False,
        "automountServiceAccountToken": bool(account),
    }
    if account:
        found["serviceAccountName"] = account
    if name := options.get("priority_class"):
        found["priorityClassName"] = str(name)
    return found | render_access(options)


def _grace(job: Job) -> int:
    to_bucket = job.ship is not None and not job.ship.to.startswith(CLAIM)
    return SHIPPING_GRACE_S if to_bucket else GRACE_S


def _image(job: Job, frame: Frame, options: Mapping[str, Any]) -> str:
    if image := job.image or str(options.get("image") or ""):
        return image
    host, port = options.get("registry_host"), options.get("registry_port")
    if not host:
        raise Unsupported(
            f"`{job.run_id}` has no image, and a pod needs one",
            hint="write `image: python:3.12`, or any that has a shell",
        )
    where = f"{host}:{port}" if port else str(host)
    owner = options.get("gitlab_user") or frame.user
    return f"{where}/{owner}/{project_of(job)}:latest".lower()


def _env(job: Job, frame: Frame, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What pod.sh wants to know; the run's own variables are in its line of the sheet."""
    values = {
        "BAY_ROOT": root_of(claim_of(job)),
        "BAY_PLAN": PLAN_AT,
        "BAY_SNAPSHOT": job.snapshot,
        # Before the cluster ends all of the pod, with what it would have said.
        "BAY_GRACE": str(_grace(job) - LAST_WORDS_S),
    }
    if options.get("code") == IN_IMAGE:
        values["BAY_CODE"] = IN_IMAGE
    if frame.first_tool:
        # Its commands call `make download`, whatever the image has.
        values["BAY_TOOLBOX"] = "1"
    fields = {"NODE_NAME": "spec.nodeName", "BAY_ALLOCATION": "metadata.name"}
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in fields.items()
        ),
    ]


def _mounted(
    job: Job, options: Mapping[str, Any], sidecars: Iterable[Sidecar]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes of claims and of folders that containers share, and where the run has them."""
    shared = [mount for one in sidecars for mount in one.mounts]
    mounts = check_mounts([*claim_mounts(job, options), *shared])
    claims = list(dict.fromkeys(one.volume for one in mounts if SHARED not in one.volume))
    names = {claim: f"claim-{at}" for at, claim in enumerate(claims)}
    names |= {mount.volume: shared_name(mount) for mount in shared}
    folders = dict.fromkeys(shared_name(mount) for mount in shared)
    return (
        claim_volumes(claims) + [{"name": name, "emptyDir": {}} for name in folders],
        [render_mount(mount, names[mount.volume]) for mount in mounts],
    )
