"""The Kubernetes that other tests use: whole, closed to the outside, and left as it was found."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import eventually
from tests.real import kubernetes_build, kubernetes_node
from tests.real.kubernetes_cluster import (
    BUSYBOX,
    BUSYBOX_USER,
    PYTHON,
    KubernetesCluster,
    Namespace,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.slow, pytest.mark.real]

LISTENS = "0A"
LOOPBACK = "0100007F"
SAYS_SO = "import bz2, ctypes, hashlib, json, lzma, sqlite3, ssl, subprocess, tarfile; print('ok')"


def pod(name: str, *command: str, image: str = BUSYBOX, **spec: Any) -> dict[str, Any]:
    """A pod that runs one command once; `container` holds further fields of its container."""
    container = {"name": "main", "image": image, "command": command, **spec.pop("container", {})}
    # What is the first process of its container hears no TERM that it did not ask for.
    quick = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    fields = {"containers": [container], **quick, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": fields}


def job(name: str, *command: str, image: str = BUSYBOX, **spec: Any) -> dict[str, Any]:
    """A Job of one pod that is not tried again."""
    template = {"spec": pod(name, *command, image=image, **spec)["spec"]}
    fields = {"backoffLimit": 0, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": fields}


def create(space: Namespace, *objects: dict[str, Any]) -> None:
    """Make objects as the ordinary user."""
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    space.kubectl("create", "-f", "-", input=json.dumps(listed))


def got(space: Namespace, *words: str) -> Any:
    """What the API server tells the ordinary user."""
    return json.loads(space.kubectl("get", *words, "-o", "json"))


def phase(space: Namespace, name: str) -> str:
    return str(got(space, "pod", name)["status"]["phase"])


def reaches(space: Namespace, name: str, wanted: str) -> None:
    eventually(lambda: phase(space, name) == wanted)


def events(space: Namespace) -> str:
    """What the events of a namespace say, a line each."""
    return "\n".join(f"{one['reason']}: {one['message']}" for one in got(space, "events")["items"])


def test_a_job_runs_in_each_image(namespace: Namespace) -> None:
    """Jobs of the ordinary user run with busybox, as root and as an account, and with Python."""
    create(
        namespace,
        job("root", "sh", "-c", "id -u; id -un"),
        job("user", "sh", "-c", "id -u; id -un; touch /tmp/mine", image=BUSYBOX_USER),
        job("python", "python", "-c", SAYS_SO, image=PYTHON),
    )
    namespace.kubectl("wait", "--for=condition=complete", "--timeout=60s", "job", "--all")
    said = {name: namespace.kubectl("logs", f"job/{name}") for name in ("root", "user", "python")}
    assert said == {"root": "0\nroot\n", "user": "1000\nme\n", "python": "ok\n"}


def test_one_goes_into_a_running_pod(namespace: Namespace, tmp_path: Path) -> None:
    """Logs, exec, files both ways and a forwarded port work for the ordinary user."""
    serve = "echo begun; mkdir /web; echo page >/web/p; httpd -f -p 8080 -h /web"
    create(namespace, pod("one", "sh", "-c", serve))
    reaches(namespace, "one", "Running")
    eventually(lambda: namespace.kubectl("logs", "one") == "begun\n")
    assert namespace.kubectl("exec", "one", "--", "cat", "/web/p") == "page\n"
    (tmp_path / "there").write_bytes(bytes(range(256)))
    namespace.kubectl("cp", str(tmp_path / "there"), "one:/tmp/there")
    namespace.kubectl("cp", "one:/tmp/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == bytes(range(256))
    assert _page(namespace, "one", 8080) == "page\n"


def _page(space: Namespace, name: str, port: int) -> str:
    """What a web server in a pod answers through a forwarded port."""
    argv = [str(space.cluster.binary), "port-forward", name, f":{port}"]
    environment = {**os.environ, **space.cluster.environment(space.kubeconfig)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as forwarding:
        assert forwarding.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", forwarding.stdout.readline())
        assert found is not None
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=10) as caller:
            caller.sendall(b"GET /p HTTP/1.0\r\n\r\n")
            with caller.makefile("r") as answer:
                said = answer.read()
        forwarding.kill()
    return said.partition("\n\n")[2]


def test_a_pod_reaches_a_server_of_the_test(
    kubernetes: KubernetesCluster, namespace: Namespace
) -> None:
    """What listens on the gateway's address is reached from a pod."""
    heard = []
    with socket.create_server((kubernetes.gateway, 0)) as listening:

        def answer() -> None:
            caller, _ = listening.accept()
            with caller, caller.makefile() as said:
                heard.append(said.readline())

        listener = threading.Thread(target=answer)
        listener.start()
        where = f"{kubernetes.gateway} {listening.getsockname()[1]}"
        create(namespace, pod("caller", "sh", "-c", f"echo here | nc -w 5 {where}"))
        listener.join(timeout=60)
    assert heard == ["here\n"]


def test_the_user_is_refused_elsewhere(kubernetes: KubernetesCluster, namespace: Namespace) -> None:
    """The ordinary user may do nothing in another namespace, and list nodes only if allowed."""
    assert "node1" in namespace.kubectl("get", "nodes", "-o", "name")
    other = kubernetes.namespace(nodes=False)
    try:
        refused = [
            namespace.run("get", "pods", "-n", other.name),
            namespace.run("create", "namespace", "mine"),
            other.run("get", "nodes"),
            other.run("get", "priorityclasses"),
        ]
        assert all("(Forbidden)" in done.stderr for done in refused), refused
        assert other.kubeconfig.stat().st_mode & 0o777 == 0o600
    finally:
        other.remove()


def test_too_much_memory_is_killed(namespace: Namespace) -> None:
    """The kernel ends what takes more than its limit, and the kubelet says so."""
    limit = {"resources": {"limits": {"memory": "50Mi"}}}
    create(namespace, pod("big", "python", "-c", "b'x' * 2**28", image=PYTHON, container=limit))
    reaches(namespace, "big", "Failed")
    (status,) = got(namespace, "pod", "big")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["reason"] == "OOMKilled"


def test_a_quota_refuses(namespace: Namespace) -> None:
    """Past a quota a pod is refused, and a Job's pods are missing, which its events tell."""
    namespace.admin("create", "quota", "small", "--hard=pods=1")
    create(namespace, pod("first", "sleep", "600"))
    eventually(lambda: got(namespace, "quota", "small")["status"]["used"] == {"pods": "1"})
    refused = namespace.run("create", "-f", "-", input=json.dumps(pod("second", "true")))
    assert "exceeded quota: small" in refused.stderr
    create(namespace, job("third", "true"))
    eventually(lambda: re.search("FailedCreate: .*exceeded quota", events(namespace)))


def test_what_was_said_outlives_the_api_server(
    kubernetes: KubernetesCluster, namespace: Namespace
) -> None:
    """A killed API server comes back where it was with all it knew, and a paused one goes on."""
    create(namespace, pod("stays", "sleep", "600"))
    reaches(namespace, "stays", "Running")
    kubernetes.stop_api()
    assert "refused" in namespace.run("get", "pods").stderr
    kubernetes.start_api()
    assert phase(namespace, "stays") == "Running"
    kubernetes.pause_api()
    waited = namespace.run("get", "pods", "--request-timeout=1s")
    assert waited.returncode != 0
    kubernetes.resume_api()
    assert namespace.kubectl("exec", "stays", "--", "echo", "still") == "still\n"


def test_pods_outlive_the_kubelet(kubernetes: KubernetesCluster, namespace: Namespace) -> None:
    """What ran when the kubelet was killed is seen to have ended well when it is back."""
    created = pod("stays", "sh", "-c", "until [ -e /go ]; do sleep 0.1; done", image=PYTHON)
    create(namespace, created)
    reaches(namespace, "stays", "Running")
    before = got(namespace, "pod", "stays")["status"]["containerStatuses"][0]["containerID"]
    kubernetes.kill_kubelet()
    assert namespace.run("exec", "stays", "--", "true").returncode != 0
    kubernetes.start_kubelet()
    eventually(lambda: namespace.run("exec", "stays", "--", "touch", "/go").returncode == 0)
    reaches(namespace, "stays", "Succeeded")
    after = got(namespace, "pod", "stays")["status"]["containerStatuses"][0]["containerID"]
    assert before == after


@pytest.fixture
def fast_node(kubernetes: KubernetesCluster) -> str:
    """A node without a kubelet, tainted, labelled, with four GPUs."""
    kubernetes.add_node(
        "fast",
        labels={"nvidia.com/gpu.product": "A100"},
        taints=["gpu=yes:NoSchedule"],
        capacity={"nvidia.com/gpu": "4"},
    )
    return "fast"


def test_labels_taints_and_sizes_steer(
    kubernetes: KubernetesCluster, namespace: Namespace, fast_node: str
) -> None:
    """A pod goes to an added node by label and toleration, and waits without the toleration."""
    bears = [{"key": "gpu", "operator": "Exists"}]
    there: dict[str, Any] = {"nodeSelector": {"nvidia.com/gpu.product": "A100"}}
    four = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
    create(
        namespace,
        pod("chosen", "true", tolerations=bears, **there),
        pod("refused", "true", **there),
        pod("many", "true", tolerations=bears, container=four),
        pod("few", "true", container={"resources": {"limits": {"nvidia.com/gpu": "1"}}}),
    )
    reaches(namespace, "few", "Succeeded")
    eventually(lambda: "had untolerated taint" in events(namespace))

    def bound() -> dict[str, str | None]:
        items = got(namespace, "pods")["items"]
        return {one["metadata"]["name"]: one["spec"].get("nodeName") for one in items}

    there_now = {"chosen": fast_node, "refused": None, "many": fast_node, "few": "node1"}
    eventually(lambda: bound() == there_now)
    assert phase(namespace, "chosen") == "Pending"
    assert kubernetes.open(fast_node)


def test_a_claim_is_shared(kubernetes: KubernetesCluster, namespace: Namespace) -> None:
    """A claim binds to a volume, and what one pod writes there another one reads."""
    (folder,) = kubernetes.volumes(1)
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    names = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    create(namespace, {**names, "spec": spec})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    read = "until [ -e /data/word ]; do sleep 0.1; done; cat /data/word"
    create(
        namespace,
        pod("reads", "sh", "-c", read, volumes=volumes, container=mounted),
        pod(
            "writes",
            *("sh", "-c", "echo word >/data/new; mv /data/new /data/word"),
            image=BUSYBOX_USER,
            volumes=volumes,
            container=mounted,
        ),
    )
    reaches(namespace, "reads", "Succeeded")
    assert namespace.kubectl("logs", "reads") == "word\n"
    assert (folder / "word").read_text() == "word\n"


def test_a_missing_image_is_known_at_once(namespace: Namespace) -> None:
    """No registry is asked for an image that is not here."""
    create(namespace, pod("none", "true", image="bay.test/none:1"))
    eventually(lambda: "connection refused" in events(namespace))


def test_it_is_closed_to_the_outside(kubernetes: KubernetesCluster) -> None:
    """No daemon listens anywhere but on loopback."""
    opened = {name for pid in kubernetes_node.processes(kubernetes.folder) for name in _files(pid)}
    heard: dict[int, str] = {}
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            address, port = local.split(":")
            if state == LISTENS and f"socket:[{inode}]" in opened:
                heard[int(port, 16)] = address
    assert set(kubernetes.ports.values()) <= set(heard)
    assert set(heard.values()) == {LOOPBACK}


def _files(pid: int) -> list[str]:
    found = []
    # It may end while it is looked at.
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(str(entry.readlink()))
    return found


def test_what_is_built_is_not_built_again(capfd: pytest.CaptureFixture[str]) -> None:
    """A second build finds everything there and says nothing."""
    if kubernetes_build.missing():
        pytest.skip("nothing is built here")
    kubernetes_build.build()
    assert capfd.readouterr().out == ""


def test_an_interrupted_build_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was half made when the build was interrupted is not taken for made, nor kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def interrupted(path: Path) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(kubernetes_build, "IMAGES", {"one.tar": interrupted})
    with pytest.raises(KeyboardInterrupt):
        kubernetes_build.build()
    assert "one.tar" in kubernetes_build.missing()
    assert list((kubernetes_build.cache() / "images").iterdir()) == []


def test_a_second_cluster_leaves_nothing(kubernetes: KubernetesCluster) -> None:
    """Two clusters run side by side; a stopped one leaves no process, mount, bridge or folder."""
    other = KubernetesCluster()
    other.start()
    try:
        space = other.namespace()
        create(space, pod("on", "sleep", "600"))
        reaches(space, "on", "Running")
        assert kubernetes_node.left(other.folder)
    finally:
        other.stop()
    assert kubernetes.answers()
    assert _remains(other) == []


def _remains(cluster: KubernetesCluster) -> Sequence[str]:
    # Groups of others come and go meanwhile.
    found = os.walk("/sys/fs/cgroup")
    groups = [path for path, _, _ in found if Path(path).name == cluster.folder.name]
    names = [name for _, name in socket.if_nameindex() if name == cluster.network.bridge]
    folders = [str(cluster.folder)] if cluster.folder.exists() else []
    return [*kubernetes_node.left(cluster.folder), *map(str, groups), *names, *folders]
