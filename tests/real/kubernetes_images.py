"""Container images written by hand, for a machine without a registry and without a builder."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BUSYBOX = "bay.test/busybox:1"
BUSYBOX_USER = "bay.test/busybox-user:1"
PAUSE = "bay.test/pause:1"
PYTHON = "bay.test/python:3"
TOOLBOX = "bay.test/toolbox:1"
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ACCOUNTS = "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000:me:/home/me:/bin/sh\n"
GROUPS = "root:x:0:\nme:x:1000:\n"
# Nobody reads it there, and unpacking it would be most of a cluster's start.
DROPPED = re.compile(
    r"(dev|proc|sys|run|tmp|boot|debootstrap|var/(lib/apt|lib/dpkg|cache|log)"
    r"|usr/share/(doc|man|locale|info|zoneinfo|perl5|i18n)|usr/lib/\S+/(gconv|perl-base))/.+"
)


# Stands in for conda: enters the one environment that the image has.
CONDA = """\
conda() {
    [ "$1" = activate ] && [ -d "/opt/conda/envs/$2" ] || return 1
    export CONDA_PREFIX="/opt/conda/envs/$2" PATH="/opt/conda/envs/$2/bin:$PATH"
}
"""
BAY = '#!/bin/sh\nexec python3 -m launchbay "$@"\n'


class CannotBuild(Exception):
    """Something that is needed to make it is not on this machine."""


def write_busybox(path: Path) -> None:
    """An archive of three images of one layer: as root, as an ordinary account, and `pause`."""
    busybox = shutil.which("busybox")
    if busybox is None or _linked(busybox):
        raise CannotBuild("no `busybox` is installed that needs no libraries: busybox-static")
    said = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    # What outlives everything in its pod: it only waits.
    wait = ["/bin/busybox", "sleep", "2147483647"]
    configs: dict[str, dict[str, Any]] = {
        BUSYBOX: {},
        BUSYBOX_USER: {"User": "1000"},
        PAUSE: {"Cmd": wait},
    }

    def fill(layer: tarfile.TarFile) -> None:
        _base(layer)
        _add(layer, "etc/passwd", ACCOUNTS.encode())
        _add(layer, "etc/group", GROUPS.encode())
        _add(layer, "bin/busybox", Path(busybox).read_bytes(), mode=0o755)
        for name in said.stdout.split():
            if name != "busybox":
                _link(layer, f"bin/{name}", "busybox")

    _write_archive(path, fill, configs)


def _linked(program: str) -> bool:
    """Whether a program needs libraries."""
    return subprocess.run(["ldd", program], capture_output=True, check=False).returncode == 0


def write_python(path: Path) -> None:
    """An archive of Debian with Python."""
    if shutil.which("debootstrap") is None:
        raise CannotBuild("`debootstrap` is not installed")
    with tempfile.TemporaryDirectory(prefix="bay-debian-", dir=path.parent) as made:
        root = Path(made) / "root"
        argv = ["debootstrap", "--variant=minbase", "--include=python3", "bookworm", str(root)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotBuild(f"debootstrap failed:\n{(done.stdout + done.stderr)[-2000:]}")

        def fill(layer: tarfile.TarFile) -> None:
            layer.add(root, arcname=".", filter=_wanted)
            _link(layer, "usr/bin/python", "python3")

        _write_archive(path, fill, {PYTHON: {"Cmd": ["python3"]}})


def write_toolbox(path: Path, base: Path, packages: Path) -> None:
    """An archive of Debian with Python, make, launchbay, and a conda environment `example`.

    Args:
        path: where to write it.
        base: the archive of Debian with Python.
        packages: the folder that has launchbay and what it needs.
    """
    make = shutil.which("make")
    if make is None:
        raise CannotBuild("`make` is not installed")

    def fill(layer: tarfile.TarFile) -> None:
        layer.add(packages, arcname="usr/lib/python3/dist-packages")
        _add(layer, "usr/bin/make", Path(make).read_bytes(), mode=0o755)
        _add(layer, "usr/bin/bay", BAY.encode(), mode=0o755)
        _add(layer, "opt/conda/etc/profile.d/conda.sh", CONDA.encode())
        _link(layer, "opt/conda/envs/example/bin/python", "/usr/bin/python3")

    with tempfile.TemporaryDirectory(prefix="bay-base-", dir=path.parent) as made:
        with tarfile.open(base) as archive:
            (described,) = json.load(_member(archive, "manifest.json"))
            (below,) = described["Layers"]
            archive.extract(below, made, filter="data")
        _write_archive(path, fill, {TOOLBOX: {}}, below=Path(made) / below)


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    assert found is not None
    return found


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = member.name.removeprefix("./")
    return None if DROPPED.fullmatch(name) or name.endswith(".pyc") else member


def _base(layer: tarfile.TarFile) -> None:
    folders = {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777, "home": 0o755}
    for name, mode in folders.items():
        _folder(layer, name, mode)
    _folder(layer, "home/me", 0o755, owner=1000)


def _folder(layer: tarfile.TarFile, name: str, mode: int, owner: int = 0) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, mode, owner, owner
    layer.addfile(member)


def _link(layer: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = tarfile.SYMTYPE, target, 0o777
    layer.addfile(member)


def _add(layer: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    layer.addfile(member, io.BytesIO(content))


def _write_archive(
    path: Path,
    fill: Callable[[tarfile.TarFile], None],
    configs: dict[str, dict[str, Any]],
    *,
    below: Path | None = None,
) -> None:
    """One layer, perhaps on another, and an image of it with each of the configs."""
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as layer:
            fill(layer)
        file.flush()
        layers = [*([below] if below else []), Path(file.name)]
        digests = [_digest(layer) for layer in layers]
        with tarfile.open(path, "w") as archive:
            for held, digest in zip(layers, digests, strict=True):
                archive.add(held, arcname=f"{digest}/layer.tar")
            manifest = []
            for name, config in configs.items():
                text = _config(digests, config)
                described = f"{hashlib.sha256(text).hexdigest()}.json"
                _add(archive, described, text)
                names = [f"{digest}/layer.tar" for digest in digests]
                manifest.append({"Config": described, "RepoTags": [name], "Layers": names})
            _add(archive, "manifest.json", json.dumps(manifest).encode())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _config(digests: list[str], config: dict[str, Any]) -> bytes:
    described = {
        "architecture": _architecture(),
        "os": "linux",
        "config": {"Env": [f"PATH={SEARCH}"], "Cmd": ["/bin/sh"], "WorkingDir": "/", **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }
    return json.dumps(described, sort_keys=True).encode()


def _architecture() -> str:
    said = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True)
    machine = said.stdout.strip()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
