"""What a node of a Kubernetes takes of this machine: a bridge, groups of processes, a name."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import eventually
from tests.real import kubernetes_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, kw_only=True)
class Network:
    """A bridge of this machine, to which pods are joined and nothing else."""

    bridge: str
    prefix: str

    @property
    def gateway(self) -> str:
        return f"{self.prefix}.1"

    def config(self) -> str:
        """What joins a pod to it."""
        return kubernetes_files.network(self.bridge, f"{self.prefix}.0/24", self.gateway)

    def remove(self) -> None:
        """Take the bridge away."""
        _ip("link", "delete", self.bridge)


def make_network() -> Network:
    """A bridge with addresses that nothing on this machine has."""
    used = _ip("-o", "-4", "address", "show") + _ip("-4", "route", "show")
    while (prefix := f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}") in used:
        pass
    made = Network(bridge=f"bay{secrets.token_hex(4)}", prefix=prefix)
    _ip("link", "add", made.bridge, "type", "bridge")
    _ip("address", "add", f"{made.gateway}/24", "dev", made.bridge)
    _ip("link", "set", made.bridge, "up")
    return made


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=True)
    return done.stdout


def _group_roots() -> list[Path]:
    """Where groups are made: one place, or one for each thing that is limited."""
    if (GROUPS / "cgroup.procs").exists():
        return [GROUPS]
    found = [entry for entry in GROUPS.iterdir() if not entry.is_symlink()]
    return [entry for entry in found if (entry / "cgroup.procs").exists()]


def make_group(name: str) -> None:
    """The group that holds every pod."""
    for root in _group_roots():
        group = root / name.lstrip("/")
        group.mkdir()
        for given in ("cpuset.cpus", "cpuset.mems"):
            # Of the older kind: a group that was given no CPUs takes no process.
            if root.name == "cpuset":
                (group / given).write_text((root / given).read_text())


def remove_group(name: str) -> None:
    """Kill what is left in the group, and remove it."""
    for root in _group_roots():
        top = root / name.lstrip("/")

        def removed(top: Path = top) -> bool:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    for pid in (Path(folder) / "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                    Path(folder).rmdir()
            return not top.exists()

        eventually(removed)


def processes(folder: Path) -> list[int]:
    """The processes that speak of a folder or are in it."""
    mark = str(folder).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            # One that ends meanwhile has no more of these.
            with contextlib.suppress(OSError):
                place = str((entry / "cwd").readlink()).encode()
                if mark in (entry / "cmdline").read_bytes() or mark in place:
                    found.append(int(entry.name))
    return found


def left(folder: Path) -> list[str]:
    """What is still there of a folder: processes and mounts."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    running = [f"process {pid}" for pid in processes(folder)]
    return running + [line for line in mounts if str(folder) in line]


def now() -> str:
    """The time as leases write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def bare(
    name: str, labels: Mapping[str, str], taints: Sequence[str], capacity: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A node without a kubelet, its status and its lease."""
    usual = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    node = kubernetes_files.described(
        "Node",
        name,
        metadata={"labels": {**usual, **labels}},
        spec={"taints": [_taint(text) for text in taints]},
    )
    usual_size = {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "50Gi"}
    size = {**usual_size, **capacity}
    seen = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    times = {"lastHeartbeatTime": seen, "lastTransitionTime": seen}
    status = {"capacity": size, "allocatable": size, "conditions": [{**condition, **times}]}
    lease = kubernetes_files.described(
        "Lease",
        name,
        version="coordination.k8s.io/v1",
        metadata={"namespace": "kube-node-lease"},
        spec={"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()},
    )
    return node, status, lease


def _taint(text: str) -> dict[str, str]:
    words, _, effect = text.rpartition(":")
    key, _, value = words.partition("=")
    return {"key": key, "value": value, "effect": effect}
