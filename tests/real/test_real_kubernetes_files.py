"""Containers as hosts, helpers with claims, and files both ways, on a real cluster."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually
from tests.real.kubernetes_cluster import BUSYBOX, BUSYBOX_USER, PYTHON

from launchbay.backends import delivery, depot_pull, retrieval
from launchbay.backends.delivery import deliver
from launchbay.backends.kubernetes import pods, storage
from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.pods import (
    NotRunning,
    PodHost,
    claim_depot,
    helper_pod,
    render_helper,
)
from launchbay.core.backend import Claim, Claims, Parcel
from launchbay.core.errors import BadRequest, Rejected, Unreachable
from launchbay.core.host import decoded, encoded
from launchbay.engine.storage import pull, push
from launchbay.hosts.local import LocalHost
from launchbay.hosts.ssh import SSHHost
from launchbay.testing.contract import HostContract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Bay
    from tests.real.conftest import Sshd
    from tests.real.kubernetes_cluster import KubernetesCluster, Namespace

    from launchbay.core.host import Host

pytestmark = [pytest.mark.slow, pytest.mark.real]
USER = "me"
WORK = "/tmp/work"  # noqa: S108 - in the pod
IMAGES = {"busybox": BUSYBOX, "python": PYTHON}


def quiet(line: str) -> None:
    """Hears what is waited for."""
    assert line


@dataclass(frozen=True)
class Place:
    """A namespace, and `kubectl` as its user."""

    namespace: Namespace
    kubectl: Kubectl

    def start(self, name: str, image: str, *, does: str = "sleep 3000") -> PodHost:
        """A pod that does nothing, or little; in the one case it is ready, in the other over."""
        container = {"name": "main", "image": image, "command": ["/bin/sh", "-c", does]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        self.namespace.kubectl("create", "-f", "-", input=json.dumps(pod))
        until = "condition=Ready" if does == "sleep 3000" else "jsonpath={.status.phase}=Succeeded"
        self.namespace.kubectl("wait", f"pod/{name}", f"--for={until}", "--timeout=60s")
        return PodHost(self.kubectl, name)

    def claim(self, mode: str = "ReadWriteMany") -> str:
        """A claim that is bound."""
        self.namespace.cluster.volumes(1)
        name = f"claim-{secrets.token_hex(3)}"
        spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.namespace.kubectl("create", "-f", "-", input=json.dumps(claim))
        return name

    def pods(self) -> list[str]:
        """The names of all pods that are not on their way out."""
        found = json.loads(self.namespace.kubectl("get", "pods", "-o", "json"))["items"]
        return [
            one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]
        ]


@pytest.fixture(scope="module")
def place(real_kubernetes: KubernetesCluster) -> Iterator[Place]:
    """A namespace for all of these tests."""
    made = real_kubernetes.namespace()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in real_kubernetes.environment(made.kubeconfig).items():
            patch.setenv(name, value)
        yield Place(made, Kubectl(LocalHost(), "kube", made.name))
    made.remove()


@pytest.fixture(scope="module")
def hosts(place: Place) -> dict[str, PodHost]:
    """A pod of each image."""
    return {name: place.start(name, image) for name, image in IMAGES.items()}


@pytest.fixture
def folder() -> Path:
    """A folder in a pod."""
    return Path("/tmp") / secrets.token_hex(4)  # noqa: S108 - in the pod


class TestPodOfBusybox(HostContract):
    """A container without anything but busybox keeps the promises of a host."""

    @pytest.fixture
    def host(self, hosts: dict[str, PodHost], folder: Path) -> Host:
        hosts["busybox"].run(["mkdir", "-m", "700", str(folder)])
        return hosts["busybox"]

    @pytest.fixture
    def folder(self, folder: Path) -> Path:
        return folder


class TestPodOfPython(TestPodOfBusybox):
    """A container with dash keeps the promises of a host."""

    @pytest.fixture
    def host(self, hosts: dict[str, PodHost], folder: Path) -> Host:
        hosts["python"].run(["mkdir", "-m", "700", str(folder)])
        return hosts["python"]


def test_output_and_input_are_exact(hosts: dict[str, PodHost]) -> None:
    """Tens of megabytes of any bytes come and go, and the tail of what ends at once is not lost."""
    host = hosts["busybox"]
    text = "head -c 20000000 /dev/urandom | tee /tmp/big; exit 7"
    done = host.run(["sh", "-c", text])
    back = host.run(["sha256sum"], stdin=done.stdout)

    assert (done.code, len(encoded(done.stdout))) == (7, 20_000_000)
    assert back.stdout.split()[0] == hashlib.sha256(encoded(done.stdout)).hexdigest()
    for _ in range(20):
        done = host.run(["sh", "-c", "head -c 3000 /dev/zero; echo no >&2; exit 5"])
        assert (done.code, len(done.stdout), done.stderr) == (5, 3000, "no\n")


def test_input_that_nobody_reads(hosts: dict[str, PodHost]) -> None:
    """A command that ends before its input does is answered at once, with its own code."""
    for host in hosts.values():
        assert host.run(["sh", "-c", "exit 4"], stdin="x" * 5_000_000).code == 4


def test_very_many_words(hosts: dict[str, PodHost]) -> None:
    """More words than a URL could hold arrive, with line ends and quotes."""
    words = ["w'\n\\" * 10] * 3000
    for host in hosts.values():
        done = host.run(["sh", "-c", 'echo $#; printf %s "$*" | sha256sum', "sh", *words])
        expected = host.run(["sha256sum"], stdin=" ".join(words)).stdout

        assert done.stdout == f"3000\n{expected}"


def test_pods_that_do_not_run(place: Place) -> None:
    """One that is not there, has ended or has not started is said in words."""
    place.start("ended", BUSYBOX, does="exit 0")
    for pod in ("never-there", "ended"):
        with pytest.raises(NotRunning, match=f"pod `{pod}` of `kube` does not run"):
            PodHost(place.kubectl, pod).run(["true"])


def test_a_pod_that_goes_away_meanwhile(place: Place) -> None:
    """A command whose pod is deleted breaks off; it is not taken for one that ended."""
    host = place.start("leaving", BUSYBOX)

    def tell(line: str) -> None:
        assert line == "here"
        place.namespace.kubectl("delete", "pod", "leaving", "--force", "--grace-period=0")

    with pytest.raises(Unreachable, match="broke off in the middle of a command"):
        host.run(["sh", "-c", "echo here; sleep 600"], tell=tell)


def test_what_a_listener_ends_is_gone(hosts: dict[str, PodHost]) -> None:
    """A command that a listener ends does not go on in the pod."""
    host, mark = hosts["python"], secrets.token_hex(8)

    def tell(line: str) -> None:
        raise InterruptedError(line)

    with pytest.raises(InterruptedError):
        host.run(["sh", "-c", f"echo one; exec sleep 600.{int(mark, 16)}"], tell=tell)
    shown = host.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).stdout

    assert str(int(mark, 16)) not in shown


@pytest.mark.usefixtures("control")
def test_kubectl_of_another_machine(place: Place, sshd: Sshd) -> None:
    """`kubectl` on a machine behind SSH serves as well, with any words and bytes."""
    config = Path(sshd.home, "kube.conf")
    config.write_bytes(place.namespace.kubeconfig.read_bytes())
    binary = place.namespace.cluster.binary
    sshd.give({"PATH": f"{binary.parent}:/usr/bin:/bin", "KUBECACHEDIR": f"{sshd.home}/cache"})
    far = SSHHost("box", config=sshd.config)
    kubectl = Kubectl(far, "kube", place.namespace.name, kubeconfig=str(config))
    place.start("behind", BUSYBOX)
    host, data = PodHost(kubectl, "behind"), bytes(range(256)) * 100
    path = Path("/root/it's there")
    try:
        host.write_bytes(path, data)
        done = host.run(["sh", "-c", "cat; exit 3"], stdin=decoded(data))

        assert host.read_bytes(path) == data
        assert (done.code, encoded(done.stdout)) == (3, data)
    finally:
        far.close()


@pytest.mark.parametrize("name", sorted(IMAGES))
def test_runs_on_a_claim_are_reached(place: Place, tmp_path: Path, name: str) -> None:
    """Code goes to a claim and outputs come from it, through a helper without Python or with."""
    claim, tree = place.claim(), tmp_path / "snapshots" / "code-1"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "a.py").write_bytes(bytes(range(256)))
    twin = tmp_path / "twin"
    with claim_depot(place.kubectl, claim, image=IMAGES[name], user=USER) as depot:
        depot.stage("code-1", tree)
        assert depot.stage("code-1", tree) == 0
        sent = depot.host.read_bytes(Path(depot.root_path(), "snapshots/code-1/sub/a.py"))
        depot.host.write_bytes(Path(depot.run_path("run-1"), "out/m.bin"), b"\0\xff")
        depot.host.write_bytes(Path(depot.run_path("run-1"), "attempts/1/log-0.txt"), b"log\n")
        found = depot.pull("run-1", twin)
        nothing = depot.pull("run-2", tmp_path / "none")

    assert (sent, found, nothing) == (bytes(range(256)), True, False)
    assert (twin / "out" / "m.bin").read_bytes() == b"\0\xff"
    assert (twin / "attempts" / "1" / "log-0.txt").read_bytes() == b"log\n"
    eventually(lambda: not [one for one in place.pods() if one.startswith("bay-helper")])


def test_helpers_that_cannot_be(place: Place) -> None:
    """A claim that is not there and an image that nobody has are said in words; no pod stays."""
    claim = place.claim()
    with (
        pytest.raises(BadRequest, match="`kube` has no claim `none`"),
        helper_pod(place.kubectl, image=BUSYBOX, claims=["none"], user=USER),
    ):
        pass
    told: list[str] = []
    with (
        pytest.raises(
            Rejected, match=r"does not start: the image `bay.test/none:1` cannot be pulled"
        ),
        helper_pod(
            place.kubectl, image="bay.test/none:1", claims=[claim], user=USER, tell=told.append
        ),
    ):
        pass
    eventually(lambda: not [one for one in place.pods() if one.startswith("bay-helper")])


def test_a_helper_that_nobody_uses_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays as long as something runs in it, and ends by itself afterwards."""
    soon = pods.IDLE.replace("-lt 90", "-lt 2").replace("sleep 10", "sleep 1")
    monkeypatch.setattr(pods, "IDLE", soon)
    made = render_helper("forgotten", image=BUSYBOX, claims=[], labels={})
    place.namespace.kubectl("create", "-f", "-", input=json.dumps(made))
    place.namespace.kubectl("wait", "pod/forgotten", "--for=condition=Ready", "--timeout=60s")
    done = PodHost(place.kubectl, "forgotten").run(["sh", "-c", "sleep 5; echo still here"])
    ended = "--for=jsonpath={.status.phase}=Succeeded"
    place.namespace.kubectl("wait", "pod/forgotten", ended, "--timeout=60s")

    assert done.stdout == "still here\n"


def test_a_claim_that_one_node_has(place: Place) -> None:
    """The helper goes where a claim for one node is in use already."""
    claim = place.claim("ReadWriteOnce")
    with (
        helper_pod(place.kubectl, image=BUSYBOX, claims=[claim], user=USER) as first,
        helper_pod(place.kubectl, image=BUSYBOX, claims=[claim], user=USER) as second,
    ):
        first.write_bytes(Path("/claims", claim, "a"), b"x")
        spec = json.loads(place.namespace.kubectl("get", "pod", second.name, "-o", "json"))["spec"]

        assert second.read_bytes(Path("/claims", claim, "a")) == b"x"
    assert "node1" in json.dumps(spec["affinity"])


def test_files_into_a_pod_of_somebody_else(place: Place, tmp_path: Path) -> None:
    """An image whose user is not root takes files where it may write, large ones in pieces."""
    host = place.start("somebody", BUSYBOX_USER)
    host.run(["mkdir", WORK])
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(os.urandom(20 << 20))
    small.write_bytes(bytes(range(256)))
    parcels = [Parcel(source=path, place=f"in/{path.name}") for path in (large, small)]
    deliver(host, WORK, parcels)
    sums = host.run(["sh", "-c", 'cd "$0" && sha256sum in/large in/small', WORK]).stdout
    denied = parcels[1:]
    with pytest.raises(Rejected, match=r"denied|not whole"):
        deliver(host, "/bin", denied)

    expected = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (large, small)]
    assert [line.split()[0] for line in sums.splitlines()] == expected


class Shop(Claims):
    """The claims of a namespace."""

    def __init__(self, kubectl: Kubectl, image: str) -> None:
        self._kubectl = kubectl
        self._image = image

    def list_claims(self) -> list[Claim]:
        return storage.list_claims(self._kubectl)

    def make_claim(
        self, name: str, *, size_mib: int, storage_class: str = "", shared: bool = True
    ) -> tuple[Claim, bool]:
        wanted = storage.render_claim(
            name, size_mib=size_mib, storage_class=storage_class, shared=shared, user=USER
        )
        return storage.make_claim(self._kubectl, wanted)

    @contextmanager
    def open_claim(self, name: str, *, tell: Callable[[str], None]) -> Iterator[tuple[Host, str]]:
        with storage.open_claim(
            self._kubectl, name, image=self._image, user=USER, tell=tell
        ) as found:
            yield found


def test_claims_are_made_once_and_listed(place: Place) -> None:
    """A claim is made, bound and listed with who has it; a second time nothing changes."""
    place.namespace.cluster.volumes(1)
    shop = Shop(place.kubectl, BUSYBOX)
    made = shop.make_claim("results", size_mib=1024)
    again = shop.make_claim("results", size_mib=9 * 1024, shared=False)
    with shop.open_claim("results", tell=quiet) as (host, _):
        (listed,) = [one for one in shop.list_claims() if one.name == "results"]

    assert (made[1], again) == (True, (made[0], False))
    assert (listed.phase, listed.modes, listed.used_by) == ("Bound", ("rwx",), (host.name,))
    with pytest.raises(BadRequest, match="no name of a claim"):
        shop.make_claim("No Name", size_mib=1)


def test_a_claim_without_a_volume_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be bound the claim is made, and why it waits is said."""
    monkeypatch.setattr(storage, "BINDING_S", 1.0)
    claim, _ = Shop(place.kubectl, BUSYBOX).make_claim(
        "far-too-large", size_mib=1 << 30, storage_class="none-of-these"
    )

    assert claim.phase == "Pending"
    assert claim.note


def test_files_to_a_claim_and_back(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders go to a claim and come back byte for byte; what is here is not brought again."""
    for module in (delivery, depot_pull, retrieval):
        monkeypatch.setattr(module, "PIECE", 4 << 20)
    shop, claim = Shop(place.kubectl, BUSYBOX), place.claim()
    data, back = tmp_path / "data", tmp_path / "back"
    (data / "deep er").mkdir(parents=True)
    contents = {"a.bin": os.urandom(9 << 20), "deep er/it's": bytes(range(256)), "empty": b""}
    for name, content in contents.items():
        (data / name).write_bytes(content)
    sent = push(shop, [str(data)], f"{claim}:sets/", tell=quiet)
    got = pull(shop, f"{claim}:sets", back, tell=quiet)
    again = pull(shop, f"{claim}:*", back, tell=quiet)

    assert len(sent.files) == len(got.files) == again.same == 3
    assert (got.failed, again.files) == ((), ())
    for name, content in contents.items():
        assert (back / "sets" / "data" / name).read_bytes() == content


@pytest.fixture
def typed(place: Place, bay: Bay) -> Bay:
    """`bay` with a target that is the namespace."""
    namespace = place.namespace
    bay.extra = namespace.cluster.environment(namespace.kubeconfig)
    config = bay.home / "config" / "launchbay" / "config.yaml"
    config.parent.mkdir(parents=True)
    target = {
        "kind": "kubernetes",
        "namespace": namespace.name,
        "image": BUSYBOX,
        "outputs_to": "none",
        "look_every": "0s",
    }
    config.write_text(json.dumps({"targets": {"lab": target}}))
    return bay


def test_bay_storage(place: Place, typed: Bay) -> None:
    """As a person types it: a claim is made, files go there, are listed and come back."""
    place.namespace.cluster.volumes(1)
    bay, data = typed, bytes(range(256)) * 50
    (bay.project / "sets").mkdir()
    (bay.project / "sets" / "a b").write_bytes(data)
    made = bay("storage", "init", "shelf", "--size", "1G")
    again = bay("storage", "init", "shelf", "--size", "2G")
    sent = bay("storage", "push", "sets", "shelf:in")
    rows = json.loads(bay("storage", "ls", "shelf:in", "--json").out)
    got = bay("storage", "pull", "shelf:*b", "-o", "back")
    names = [row["name"] for row in json.loads(bay("storage", "ls", "--json").out)]
    none = bay("storage", "ls", "shelv", code=2)
    wrong = bay("storage", "ls", "--target", "local", code=2)

    assert "`shelf` made" in made.err
    assert "is there already" in again.err
    assert "sent 1 file" in sent.err
    assert [(row["name"], row["size"]) for row in rows] == [("in/sets/a b", len(data))]
    assert "got 1 file" in got.err
    assert (bay.project / "back" / "in" / "sets" / "a b").read_bytes() == data
    assert "shelf" in names
    assert "there is no claim `shelv`" in none.err
    assert "`local` has no claims" in wrong.err


def test_bay_copy_into_a_pod(typed: Bay) -> None:
    """A run in a pod goes on once a file of this machine has come, and has it byte for byte."""
    bay, data = typed, bytes(range(256)) * 50
    text = "until [ -e data/go ]; do sleep 0.1; done; sha256sum <data/bytes"
    bay("run", "-q", "-d", "--target", "lab", "sh", "-c", text)
    eventually(lambda: bay.states() == ["running"])
    bay.write("data/go", "")
    (bay.project / "data" / "bytes").write_bytes(data)
    (row,) = bay.json("ls")
    said = bay("copy", row["id"], "data/bytes", "data/go")
    bay("wait", row["id"])

    assert said.out.splitlines() == ["data/bytes", "data/go"]
    assert bay("logs", row["id"]).out.split()[0] == hashlib.sha256(data).hexdigest()
    assert "does not run: it has succeeded" in bay("copy", row["id"], "data/go", code=2).err
