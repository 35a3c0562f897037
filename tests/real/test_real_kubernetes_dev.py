"""Pods for a person to work in, on a real cluster."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually
from tests.real.kubernetes_cluster import BUSYBOX, PYTHON

from launchbay.backends.kubernetes.backend import KubernetesBackend, open_kubernetes
from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.dev import DevPods
from launchbay.backends.kubernetes.manifest import Frame
from launchbay.core.backend import Opening
from launchbay.core.errors import Rejected
from launchbay.core.job import Argv, Job, Resources
from launchbay.core.naming import run_id
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Bay
    from tests.real.kubernetes_cluster import KubernetesCluster, Namespace

pytestmark = [pytest.mark.slow, pytest.mark.real]
SECRET = "s3cr3t $value"  # noqa: S105 - that is what is looked for


@dataclass(frozen=True)
class Place:
    """A namespace, its backend, and what makes pods to work in."""

    namespace: Namespace
    backend: KubernetesBackend
    pods: DevPods

    def names(self, kind: str = "pods") -> list[str]:
        """The names of objects, those among them that are on their way out."""
        found = self.namespace.kubectl("get", kind, "-o", "name").split()
        return sorted(name.rpartition("/")[2] for name in found)


@pytest.fixture(scope="module")
def place(
    real_kubernetes: KubernetesCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """A namespace for all of these tests."""
    made = real_kubernetes.namespace()
    options = {"namespace": made.name, "user": "me", "image": BUSYBOX}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in real_kubernetes.environment(made.kubeconfig).items():
            patch.setenv(name, value)
        opening = Opening(target="lab", options=options, root=tmp_path_factory.mktemp("root"))
        pods = DevPods(
            kubectl=Kubectl(LocalHost(), "lab", made.name),
            frame=Frame(target="lab", namespace=made.name, user="me"),
            secret=lambda name: {"TOKEN": SECRET}[name],
        )
        yield Place(made, open_kubernetes(opening), pods)
    made.remove()


def a_job(**more: object) -> Job:
    """What somebody works in."""
    defaults: dict[str, object] = {
        "name": "my-project-dev",
        "experiment": "my-project-dev",
        "command": Argv(("sh",)),
        "image": PYTHON,
        "resources": Resources(time_limit=timedelta(minutes=10), cpus=0.1, memory_mib=64),
        "options": {"outputs_to": "none"},
        "labels": {"project_name": "my-project"},
    }
    return Job(run_id=run_id("my-project-dev"), **{**defaults, **more})  # type: ignore[arg-type]


def test_a_command_in_a_pod(place: Place, tmp_path: Path) -> None:
    """It finds code, variables, secrets and set-up, passes its code on, and all is gone after."""
    tree = tmp_path / "snapshots" / "code-dev"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "a.txt").write_text("frozen\n")
    place.backend.stage("code-dev", tree)
    job = a_job(
        snapshot="code-dev",
        subfolder="sub",
        env={"SAID": "it's $x"},
        secrets=("TOKEN",),
        setup="export READY=yes\n",
    )
    told: list[str] = []
    text = (
        'cat a.txt; [ -n "$(find a.txt -perm -200)" ]; echo $?; '
        'printf "%s\\n" "$SAID" "$TOKEN" "$READY" "$1"; exit 7'
    )
    argv = place.pods.argv(job, ["sh", "-c", text, "sh", "two words"], told.append)
    there = place.names()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    assert done.stdout.decode() == f"frozen\n0\nit's $x\n{SECRET}\nyes\ntwo words\n"
    assert (done.returncode, there, told[0]) == (
        7,
        ["my-project-dev-pod"],
        "pod my-project-dev-pod",
    )
    assert SECRET not in " ".join(argv)
    eventually(lambda: not place.names())
    eventually(lambda: not [one for one in place.names("secrets") if one.startswith("bay-")])
    eventually(lambda: not [one for one in place.names("configmaps") if "bay-plan" in one])


def test_a_shell_on_a_terminal(place: Place) -> None:
    """A terminal gets a shell, here of an image without anything but busybox."""
    argv = place.pods.argv(a_job(image=BUSYBOX), (), lambda _: None)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(argv[0], argv)
    os.write(terminal, b"echo $((6 * 7)); tty; exit 3\n")
    seen = b""
    while True:
        try:
            seen += os.read(terminal, 4096)
        except OSError:
            break

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert b"\r\n42\r\n" in seen
    assert b"/dev/pts" in seen
    eventually(lambda: not place.names())


def test_names_do_not_clash(place: Place) -> None:
    """A second one at the same time has a number; one that ended makes way for the next."""
    first = place.pods.argv(a_job(), ["true"], lambda _: None)
    second = place.pods.argv(a_job(), ["true"], lambda _: None)
    names = place.names()
    # Its time is over before it has begun.
    brief = Resources(time_limit=timedelta(seconds=1), cpus=0.1, memory_mib=64)
    short = a_job(resources=brief, image="bay.test/none:1")
    with pytest.raises(Rejected, match="does not"):
        place.pods.argv(short, ["sleep", "60"], lambda _: None)
    for argv in (first, second):
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    assert names == ["my-project-dev-pod", "my-project-dev-pod-1"]
    eventually(lambda: not place.names())


def test_giving_up_leaves_nothing(place: Place) -> None:
    """Why it waits is told once; whoever interrupts the wait has the pod deleted, and is told."""
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if "cannot be pulled" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.pods.argv(a_job(image="bay.test/none:1"), (), tell)

    assert told[0] == "pod my-project-dev-pod"
    assert told[-1] == "pod my-project-dev-pod is deleted"
    assert len(told) == len(set(told))
    eventually(lambda: not place.names())


def test_bay_dev(place: Place, bay: Bay) -> None:
    """As a person types it: what is too much is scaled and told, and the command has the code."""
    namespace = place.namespace
    bay.extra = namespace.cluster.environment(namespace.kubeconfig)
    config = bay.home / "config" / "launchbay" / "config.yaml"
    config.parent.mkdir(parents=True)
    target = {"kind": "kubernetes", "namespace": namespace.name, "image": BUSYBOX}
    limits = {"cpus": 0.5, "gpus": 1}
    config.write_text(json.dumps({"targets": {"lab": {**target, "dev_limits": limits}}}))
    bay.write("bay.yaml", "name: x\ncommand: 'true'\ncpus: 64\nenv: {A: b}\n")
    bay.write("sub/a.txt", "mine\n")
    words = ("--", "sh", "-c", 'cat a.txt; echo "$A" >>a.txt; cat a.txt; exit 5')
    said = bay("dev", "--target", "lab", *words, code=5, cwd=bay.project / "sub")

    assert said.out == "mine\nmine\nb\n"
    assert "asked for 64 CPUs; `dev_limits` of `lab` allows 0.5 CPUs" in said.err
    assert "the pod is deleted" in said.err
    eventually(lambda: not place.names())
