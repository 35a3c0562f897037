"""Kubernetes' programs, built from its Go modules, and images without a registry: made once, kept.

`python tests/real/kubernetes_build.py` makes what is missing; with all there it does nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.real.kubernetes_images import CannotBuild, write_busybox, write_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MINOR = 34
PATCH = 4
VERSION = f"1.{MINOR}.{PATCH}"
PROGRAMS = ("kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
IMAGES: dict[str, Callable[[Path], None]] = {
    "busybox-1.tar": write_busybox,
    "python-3.tar": write_python,
}
OLDEST_GO = (1, 24)
# Where Go's own installer puts it, which is on nobody's PATH by itself.
GO_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/go/bin"])


def cache() -> Path:
    """The folder where what takes minutes to make is kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "launchbay-testbed"


def programs() -> Path:
    """The folder of the built programs."""
    return cache() / f"kubernetes-{VERSION}"


def image(name: str) -> Path:
    """The archive of an image or of several."""
    return cache() / "images" / name


def missing() -> list[str]:
    """What is not built yet."""
    wanted = [*(programs() / name for name in PROGRAMS), *map(image, IMAGES)]
    return [path.name for path in wanted if not path.exists()]


def build() -> None:
    """Make what is missing; a second caller waits for the first and finds it made."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, write in IMAGES.items():
            if not image(name).exists():
                _said(f"making the image {name}", partial(_keep, name, write))
        if any(name in PROGRAMS for name in missing()):
            _said(f"building Kubernetes {VERSION}", _build_programs)


def _said(what: str, work: Callable[[], None]) -> None:
    print(f"{what} …", flush=True)  # noqa: T201 - the one who waits reads it
    began = time.monotonic()
    work()
    print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201 - the same


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A folder beside; one that an earlier, interrupted build left goes first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name}-"
    for left in path.parent.glob(f"{prefix}*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent) as folder:
        yield Path(folder)


def _keep(name: str, write: Callable[[Path], None]) -> None:
    with _beside(image(name)) as folder:
        write(folder / name)
        (folder / name).rename(image(name))


def _build_programs() -> None:
    go = _find_go()
    with _beside(programs()) as folder:
        module = folder / "module"
        built = folder / "built"
        module.mkdir()
        built.mkdir()
        (module / "go.mod").write_text(_module(_staged(go, folder)))
        for name in PROGRAMS:
            _said(f"  {name}", partial(_compile, go, name, module=module, into=built))
        shutil.rmtree(programs(), ignore_errors=True)
        built.rename(programs())


def _find_go() -> str:
    wanted = ".".join(map(str, OLDEST_GO))
    go = shutil.which("go", path=GO_PATH)
    if go is None:
        raise CannotBuild(f"Go is not installed; Kubernetes {VERSION} needs {wanted} or newer")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True)
    found = re.match(r"go(\d+)\.(\d+)", said.stdout)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GO:
        raise CannotBuild(f"Go is {said.stdout.strip()}; Kubernetes {VERSION} needs {wanted}")
    return go


def _staged(go: str, folder: Path) -> list[str]:
    """The modules that live in Kubernetes' repository and are published with it."""
    argv = [go, "mod", "download", "-json", f"k8s.io/kubernetes@v{VERSION}"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder)
    found = re.search(r'"GoMod": "(.+)"', said.stdout)
    if said.returncode or found is None:
        raise CannotBuild(
            f"Kubernetes {VERSION} cannot be downloaded: {said.stderr or said.stdout}"
        )
    return re.findall(r"^\s+(\S+) => \./staging/", Path(found[1]).read_text(), flags=re.MULTILINE)


def _module(staged: list[str]) -> str:
    lines = [
        "module launchbay/testbed",
        f"go {OLDEST_GO[0]}.{OLDEST_GO[1]}.0",
        f"require k8s.io/kubernetes v{VERSION}",
        *(f"replace {name} => {name} v0.{MINOR}.{PATCH}" for name in staged),
    ]
    return "\n".join(lines) + "\n"


def _compile(go: str, name: str, *, module: Path, into: Path) -> None:
    words = {"gitVersion": f"v{VERSION}", "gitMajor": "1", "gitMinor": str(MINOR)}
    flags = ["-s", "-w"]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        flags += [f"-X {package}.{key}={value}" for key, value in words.items()]
    argv = [go, "build", "-mod=mod", "-trimpath", "-ldflags", " ".join(flags), "-o", str(into)]
    environment = {**os.environ, "PATH": GO_PATH, "CGO_ENABLED": "0"}
    done = subprocess.run(
        [*argv, f"k8s.io/kubernetes/cmd/{name}"],
        cwd=module,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotBuild(f"{name} does not build:\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    try:
        build()
    except CannotBuild as error:
        sys.exit(str(error))
