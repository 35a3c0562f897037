"""A whole Kubernetes on loopback, in one folder, several side by side on one machine.

`python -m tests.real.kubernetes_cluster FOLDER` starts one for a person, until it is interrupted.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import eventually
from tests.real import kubernetes_build, kubernetes_files, kubernetes_node
from tests.real.kubernetes_images import BUSYBOX, BUSYBOX_USER, PAUSE, PYTHON
from tests.real.slurm_cluster import LOOPBACK, free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import IO

__all__ = ["BUSYBOX", "BUSYBOX_USER", "PYTHON", "KubernetesCluster", "Namespace", "missing"]

NEEDED = ("etcd", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "openssl")
NEEDED_OF_LINUX = ("unshare", "nsenter", "setpriv", "ip", "mount")
PEOPLE = 2000
RENEW_EVERY_S = 5.0
START_S = 120.0


def missing() -> str:
    """What a cluster lacks here, in one line; nothing when it can start."""
    if os.getuid():
        return "a Kubernetes of its own needs root"
    for name in (*NEEDED, *NEEDED_OF_LINUX):
        if shutil.which(name) is None:
            return f"`{name}` is not installed"
    for name in kubernetes_files.CNI_PROGRAMS:
        if not Path(kubernetes_files.CNI, name).exists():
            return f"the network plug-in `{name}` is not installed"
    if unbuilt := kubernetes_build.missing():
        return f"{', '.join(unbuilt)} not built; run `python tests/real/kubernetes_build.py`"
    return ""


@dataclass(kw_only=True)
class KubernetesCluster:
    """One node with a kubelet, `node1`, and as many without as a test adds.

    Namespaces, with an ordinary user for each, are made by `namespace()`. `node1` has the CPUs and
    the memory of this machine and two GPUs that are only a number. Default storage class: `shared`.
    Everything runs as root under one folder and is ended by its process id.
    """

    folder: Path = field(init=False)
    ports: dict[str, int] = field(init=False)
    network: kubernetes_node.Network = field(init=False)
    processes: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)
    _tokens: list[str] = field(init=False, default_factory=list)
    _made: int = field(init=False, default=0)
    _bare: set[str] = field(init=False, default_factory=set)
    _was_silent: bool = field(init=False, default=False)
    _stopped: threading.Event = field(init=False, default_factory=threading.Event)
    _renewer: threading.Thread | None = field(init=False, default=None)

    @property
    def binary(self) -> Path:
        """`kubectl`."""
        return kubernetes_build.programs() / "kubectl"

    @property
    def admin(self) -> Path:
        """The kubeconfig of somebody who may do everything."""
        return self.folder / "admin.conf"

    @property
    def gateway(self) -> str:
        """The address of this machine that pods reach; a server of a test can listen there."""
        return self.network.gateway

    @property
    def group(self) -> str:
        """The kernel's group of processes that all pods are in."""
        return f"/{self.folder.name}"

    @property
    def _certificate(self) -> Path:
        return self.folder / "certificates" / "apiserver.crt"

    def said(self, name: str) -> str:
        """What a daemon printed: `etcd`, `api`, `scheduler`, `kubelet` or so."""
        return (self.folder / f"{name}.out").read_text(errors="replace")

    def runs(self, name: str) -> bool:
        """Whether a daemon is there."""
        return name in self.processes and self.processes[name].poll() is None

    def environment(self, config: Path) -> dict[str, str]:
        """What makes `kubectl` speak to this cluster as somebody."""
        kept = {"KUBECONFIG": str(config), "KUBECACHEDIR": str(self.folder / "cache")}
        path = os.pathsep.join([str(self.binary.parent), os.environ.get("PATH", os.defpath)])
        return {**kept, "PATH": path}

    def run(
        self,
        *words: str,
        config: Path | None = None,
        input: str | None = None,  # noqa: A002 - as subprocess calls it
    ) -> subprocess.CompletedProcess[str]:
        """`kubectl` with whatever it answers."""
        environment = {**os.environ, **self.environment(config or self.admin)}
        return subprocess.run(
            [str(self.binary), *words],
            env=environment,
            input=input if input is not None else "",
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def kubectl(self, *words: str, input: str | None = None) -> str:  # noqa: A002 - the same
        """What `kubectl` prints to somebody who may do everything."""
        return _printed(self.run(*words, input=input))

    def start(self) -> None:
        """Start everything; pods can run when it returns."""
        self.folder = Path(tempfile.mkdtemp(prefix="bay-kube-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.ports = dict(zip(("etcd", "peer", "api", "kubelet"), free_ports(4), strict=True))
        self.network = kubernetes_node.make_network()
        self._write_files()
        self._spawn("etcd", "etcd", *kubernetes_files.etcd_options(self.folder, self.ports))
        self._start_node()
        self.start_api()
        self._start_controllers()
        self.kubectl(
            "apply", "-f", "-", input=kubernetes_files.listed(kubernetes_files.first_objects())
        )
        self.start_kubelet()
        self._renewer = threading.Thread(target=self._renew, daemon=True)
        self._renewer.start()

    def stop(self) -> None:
        """End everything that runs, pods included, and remove what they left."""
        self._stopped.set()
        if self._renewer is not None:
            self._renewer.join()
        for name in ("api", "kubelet", "containerd", "node", *list(self.processes)):
            self._end(name)
        kubernetes_node.remove_group(self.group)
        self.network.remove()
        eventually(lambda: not kubernetes_node.left(self.folder))
        shutil.rmtree(self.folder)

    def about(self, namespace: str) -> str:
        """What there is to be seen of a namespace and of the nodes, for whoever wonders."""
        asked = [
            ("jobs,pods,pvc", "-o", "wide", "-n", namespace),
            ("events", "-n", namespace),
            ("nodes", "-o", "custom-columns=:metadata.name,:spec.taints"),
        ]
        # The API server may be one that a test has paused.
        seen = [self.run("get", *words, "--request-timeout=10s") for words in asked]
        return "\n".join(done.stdout + done.stderr for done in seen)

    def namespace(self, name: str = "", *, nodes: bool = True) -> Namespace:
        """A namespace and its user, who may read nodes and the like unless told otherwise."""
        self._made += 1
        user = f"person-{self._made}"
        name = name or f"lab-{self._made}"
        made = Namespace(cluster=self, name=name, user=user)
        self._write_config(made.kubeconfig, user, self._tokens[self._made], name)
        objects = kubernetes_files.person(user, name, nodes=nodes)
        self.kubectl("apply", "-f", "-", input=kubernetes_files.listed(objects))
        # The API server learns of a right a moment after it took it.
        eventually(lambda: made.run("auth", "can-i", "create", "jobs").returncode == 0)
        return made

    def add_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[str] = (),
        capacity: Mapping[str, str] | None = None,
    ) -> None:
        """A node without a kubelet, ready: pods are bound to it and stay `Pending`.

        A taint is written `key=value:NoSchedule`.
        """
        made, status, lease = kubernetes_node.bare(name, labels or {}, taints, capacity or {})
        self.kubectl("create", "-f", "-", input=kubernetes_files.listed([made, lease]))
        self._patch_status(name, status)
        self._bare.add(name)
        eventually(lambda: self.open(name))

    def remove_node(self, name: str) -> None:
        """Take a node without a kubelet away, and what was bound to it."""
        self._bare.discard(name)
        chosen = f"--field-selector=spec.nodeName={name}"
        force = ("--force", "--grace-period=0", "--wait=false")
        self.kubectl("delete", "pods", "-A", chosen, *force)
        self.kubectl("delete", "node", name)
        self.kubectl("delete", "lease", name, "-n", "kube-node-lease", "--ignore-not-found")

    def nodes(self) -> dict[str, Any]:
        """Every node by name, as the API server has it."""
        found = json.loads(self.kubectl("get", "nodes", "-o", "json"))
        return {node["metadata"]["name"]: node for node in found["items"]}

    def ready(self, name: str) -> bool:
        """Whether a node is ready."""
        conditions = self.nodes().get(name, {}).get("status", {}).get("conditions", [])
        return {"Ready": "True"}.items() <= {
            one["type"]: one["status"] for one in conditions
        }.items()

    def open(self, name: str) -> bool:
        """Whether a node is ready and tainted by nobody but those who made it."""
        taints = self.nodes().get(name, {}).get("spec", {}).get("taints", [])
        given = [one for one in taints if not one["key"].startswith("node.kubernetes.io/")]
        return self.ready(name) and given == taints

    def volumes(self, count: int = 4) -> list[Path]:
        """Folders, each a volume of the storage class `shared` that one claim binds to."""
        made = []
        for _ in range(count):
            path = self.folder / "volumes" / secrets.token_hex(4)
            path.mkdir(parents=True)
            path.chmod(0o777)
            made.append(path)
        objects = [kubernetes_files.volume(_volume(path), str(path)) for path in made]
        self.kubectl("create", "-f", "-", input=kubernetes_files.listed(objects))
        return made

    def remove_volumes(self, namespace: str) -> None:
        """Remove the volumes of a namespace, and those that nobody claimed, with their contents."""
        found = json.loads(self.kubectl("get", "pv", "-o", "json"))["items"]
        for one in found:
            if one["spec"].get("claimRef", {}).get("namespace", namespace) == namespace:
                self.kubectl("delete", "pv", one["metadata"]["name"], "--wait=false")
                shutil.rmtree(one["spec"]["hostPath"]["path"], ignore_errors=True)

    def stop_api(self) -> None:
        """Kill the API server; what it knows stays in etcd."""
        self._was_silent = True
        self._end("api")

    def start_api(self) -> None:
        """Start the API server where it was."""
        if not self.runs("api"):
            hosts = str(self.folder / "hosts")
            around = ("unshare", "--mount", "sh", "-c", kubernetes_files.API, "sh", hosts)
            options = kubernetes_files.api_options(self.folder, self.ports)
            self._spawn("api", *around, self._program("kube-apiserver"), *options)
        self._await("api", self.answers, within_s=START_S)

    def pause_api(self) -> None:
        """Have the API server take connections and answer none."""
        self._was_silent = True
        self.processes["api"].send_signal(signal.SIGSTOP)

    def resume_api(self) -> None:
        """Have a paused API server go on."""
        self.processes["api"].send_signal(signal.SIGCONT)
        self._await("api", self.answers)

    def answers(self) -> bool:
        """Whether the API server says that it is ready."""
        with contextlib.suppress(OSError):
            return self._call("GET", "/readyz") == b"ok"
        return False

    def kill_kubelet(self) -> None:
        """Kill the kubelet; pods run on. Half a minute later its node is not ready any more."""
        self._end("kubelet")

    def start_kubelet(self) -> None:
        """Start the kubelet, which finds the pods that it left."""
        if not self.runs("kubelet"):
            options = kubernetes_files.kubelet_options(self.folder, self.gateway)
            self._spawn_inside("kubelet", self._program("kubelet"), *options)
        self._await("kubelet", lambda: self.open("node1"), within_s=START_S)
        self._patch_status("node1", {"capacity": {"nvidia.com/gpu": "2"}})

        def counted() -> bool:
            size = self.nodes()["node1"]["status"]["allocatable"]
            return bool(size.get("nvidia.com/gpu") == "2")

        self._await("kubelet", counted)

    def clean(self) -> None:
        """Bring back what a test stopped and take away the nodes that it added."""
        if self.runs("api"):
            self.resume_api()
        self.start_api()
        self._start_controllers()
        if not self.runs("kubelet"):
            self.start_kubelet()
        for name in sorted(self._bare):
            self.remove_node(name)
        if self._was_silent:
            self._meet_again()

    def _meet_again(self) -> None:
        """Have everybody see what is there now.

        Whoever lost the API server waits longer each time before it asks again, up to a minute, and
        that for each kind of object on its own: a scheduler that gives nodes to pods may still know
        of no new claim.
        """
        for name in kubernetes_files.OPTIONS:
            self._end(name)
        self._start_controllers()
        self.kubectl("delete", "job", "greeting", "--ignore-not-found")
        sent = kubernetes_files.listed([kubernetes_files.greeting(BUSYBOX)])
        self.kubectl("create", "-f", "-", input=sent)
        self.kubectl("wait", "job/greeting", "--for=condition=complete", "--timeout=180s")
        self._was_silent = False

    def _write_files(self) -> None:
        self._write("hosts", kubernetes_files.HOSTS)
        self._write("resolv.conf", f"nameserver {self.gateway}\n")
        tunables = (f"{name} {value}\n" for name, value in kubernetes_files.TUNABLES.items())
        self._write("tunables.txt", "".join(tunables))
        found = {"folder": self.folder, "pause": PAUSE, "cni": kubernetes_files.CNI}
        self._write("containerd.toml", kubernetes_files.CONTAINERD.format(**found))
        self._write("cni/bay.conflist", self.network.config())
        config = kubernetes_files.kubelet(
            folder=self.folder,
            port=self.ports["kubelet"],
            group=self.group,
            gateway=self.gateway,
        )
        self._write("kubelet.yaml", config)
        # Tokens are read once, at the API server's start: everybody who may come has one by then.
        self._tokens = [secrets.token_hex(16) for _ in range(PEOPLE)]
        lines = [f"{self._tokens[0]},admin,admin,system:masters\n"]
        lines += [f"{self._tokens[n]},person-{n},person-{n}\n" for n in range(1, PEOPLE)]
        self._write("tokens.csv", "".join(lines), mode=0o600)
        self._write_config(self.admin, "admin", self._tokens[0], "default")
        make = ["openssl", "genrsa", "-out", str(self.folder / "accounts.key"), "2048"]
        subprocess.run(make, check=True, capture_output=True)

    def _write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode)
        path.write_text(text)

    def _write_config(self, path: Path, user: str, token: str, namespace: str) -> None:
        authority: dict[str, str] = {"certificate-authority": str(self._certificate)}
        if self._certificate.exists():
            # A config that can be copied to where the folder cannot be read.
            content = base64.b64encode(self._certificate.read_bytes()).decode()
            authority = {"certificate-authority-data": content}
        text = kubernetes_files.kubeconfig(
            port=self.ports["api"],
            authority=authority,
            user=user,
            token=token,
            namespace=namespace,
        )
        self._write(str(path.relative_to(self.folder)), text, mode=0o600)

    def _start_node(self) -> None:
        kubernetes_node.make_group(self.group)
        around = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        script = ("sh", "-c", kubernetes_files.NODE, "sh", str(self.folder))
        self._spawn("node", *around, *script)
        self._await("node", (self.folder / "node.ready").exists)
        config = str(self.folder / "containerd.toml")
        self._spawn_inside("containerd", "containerd", "--config", config)
        self._await("containerd", lambda: self._ctr("version").returncode == 0)
        for name in kubernetes_build.IMAGES:
            self.load_image(kubernetes_build.image(name))

    def load_image(self, archive: Path) -> None:
        """Have the images of an archive on the node."""
        done = self._ctr("images", "import", str(archive))
        assert done.returncode == 0, done.stderr

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        address = str(self.folder / "containerd.sock")
        argv = [*self._inside(), "ctr", "--address", address, "--namespace", "k8s.io", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def _start_controllers(self) -> None:
        for name in ("controller-manager", "scheduler"):
            if not self.runs(name):
                options = kubernetes_files.OPTIONS[name](self.folder)
                self._spawn(name, self._program(f"kube-{name}"), *options)

    def _patch_status(self, node: str, status: dict[str, Any]) -> None:
        patch = json.dumps({"status": status})
        self.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)

    def _renew(self) -> None:
        """Keep nodes without a kubelet ready, as their kubelets would."""
        while not self._stopped.wait(RENEW_EVERY_S):
            for name in sorted(self._bare):
                path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
                with contextlib.suppress(OSError):
                    self._call("PATCH", path, {"spec": {"renewTime": kubernetes_node.now()}})

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        request = urllib.request.Request(
            f"https://{LOOPBACK}:{self.ports['api']}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._tokens[0]}",
                "Content-Type": "application/merge-patch+json",
            },
        )
        trusted = ssl.create_default_context(cafile=self._certificate)
        with urllib.request.urlopen(request, context=trusted, timeout=5) as answer:  # noqa: S310 - ours
            said: bytes = answer.read()
        return said

    def _program(self, name: str) -> str:
        return str(kubernetes_build.programs() / name)

    def _inside(self) -> tuple[str, ...]:
        seen = f"/proc/{self.processes['node'].pid}/ns"
        return ("nsenter", f"--mount={seen}/mnt", f"--pid={seen}/pid_for_children")

    def _spawn_inside(self, name: str, *argv: str) -> None:
        # What is spawned is only the one that waits for it, and takes it along when it is killed.
        self._spawn(name, *self._inside(), "setpriv", "--pdeathsig", "KILL", *argv)

    def _spawn(self, name: str, *argv: str) -> None:
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        with (self.folder / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                argv,
                env={**kept, "HOME": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                start_new_session=True,
            )

    def _end(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def _await(self, name: str, condition: Callable[[], object], *, within_s: float = 60.0) -> None:
        def holds() -> bool:
            assert self.runs(name), f"{name} ended:\n{self.said(name)[-4000:]}"
            return bool(condition())

        eventually(holds, within_s=within_s)


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A namespace and the ordinary user who may work in it, and nowhere else."""

    cluster: KubernetesCluster
    name: str
    user: str

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.folder / "people" / f"{self.user}.conf"

    def run(self, *words: str, input: str | None = None) -> subprocess.CompletedProcess[str]:  # noqa: A002 - the same
        """`kubectl` as the user, with whatever it answers."""
        return self.cluster.run(*words, config=self.kubeconfig, input=input)

    def kubectl(self, *words: str, input: str | None = None) -> str:  # noqa: A002 - the same
        """What `kubectl` prints to the user."""
        return _printed(self.run(*words, input=input))

    @contextlib.contextmanager
    def watching(self, kind: str) -> Iterator[IO[str]]:
        """The names of objects, a line each, as they come."""
        argv = [str(self.cluster.binary), "get", kind, "--watch", "-o", "name"]
        environment = {**os.environ, **self.cluster.environment(self.kubeconfig)}
        with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.kill()

    def admin(self, *words: str, input: str | None = None) -> str:  # noqa: A002 - the same
        """What `kubectl` prints, in this namespace, to somebody who may do everything."""
        return self.cluster.kubectl("-n", self.name, *words, input=input)

    def claim(self, name: str) -> Path:
        """A claim that is bound to a volume of its own; the folder that it is."""
        (folder,) = self.cluster.volumes(1)
        made = kubernetes_files.claim(name, _volume(folder))
        self.kubectl("create", "-f", "-", input=json.dumps(made))
        phase = ("get", "pvc", name, "-o", "jsonpath={.status.phase}")
        eventually(lambda: self.kubectl(*phase) == "Bound")
        return folder

    def remove(self) -> None:
        """Remove everything in it; the name itself goes a little later."""
        # What is the first process of its container hears no TERM that it did not ask for.
        self.admin("delete", "jobs,pods", "--all", "--grace-period=1", "--wait=false")
        eventually(self._emptied)
        gone = (f"namespace/{self.name}", f"clusterrolebinding/{self.user}")
        self.cluster.kubectl("delete", *gone, "--ignore-not-found", "--wait=false")
        self.cluster.remove_volumes(self.name)

    def _emptied(self) -> bool:
        """Whether no pod is left; nobody but us takes those away that have no kubelet."""
        where = "-o=jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{'\\n'}{end}"
        left = [line.split() for line in self.admin("get", "pods", where).splitlines()]
        nowhere = [pod for pod, *node in left if set(node) <= self.cluster._bare]
        if nowhere:
            force = ("--force", "--grace-period=0", "--ignore-not-found", "--wait=false")
            self.admin("delete", "pods", *nowhere, *force)
        return not left


def _volume(folder: Path) -> str:
    return f"shared-{folder.name}"


def _printed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{' '.join(done.args[1:])}: {done.stderr or done.stdout}"
    return done.stdout


def _serve(folder: Path) -> None:
    """A cluster for a person, who finds in `env.sh` how to speak to it."""
    if lacking := missing():
        sys.exit(lacking)
    cluster = KubernetesCluster()
    for number in (signal.SIGINT, signal.SIGTERM):
        # One that a script started in the background would not hear the first.
        signal.signal(number, signal.default_int_handler)
    try:
        cluster.start()
        made = cluster.namespace()
        path = f"{cluster.binary.parent}:$PATH"
        settings = {"KUBECONFIG": made.kubeconfig, "KUBECONFIG_ADMIN": cluster.admin, "PATH": path}
        lines = [f'export {name}="{value}"\n' for name, value in settings.items()]
        (folder / "env.sh").write_text("".join(lines))
        (folder / "pid").write_text(f"{os.getpid()}\n")
        print("".join(lines), end="", flush=True)  # noqa: T201 - that is what it is for
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        cluster.stop()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
