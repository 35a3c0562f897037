"""What the daemons of a Kubernetes on one machine are told, and what its users may do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CNI = "/usr/lib/cni"
CNI_PROGRAMS = ("bridge", "host-local", "loopback")
# What the kubelet would set for the whole machine, which it finds set in its own view instead.
TUNABLES = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
# The first process of the node: its own view of the file system, gone with it, whatever is
# mounted in it. What a folder of the cluster covers would else be shared by every cluster here.
NODE = """\
set -e
cd "$1"
mkdir -p run log lib/kubelet lib/cni tunables /var/lib/kubelet /var/lib/cni
mount --bind run /run
mount --bind log /var/log
mount --bind lib/kubelet /var/lib/kubelet
mount --bind lib/cni /var/lib/cni
mount --bind hosts /etc/hosts
while read -r name value; do
    if [ -e "/proc/sys/$name" ]; then
        file=tunables/$(echo "$name" | tr / .)
        echo "$value" >"$file"
        mount --bind "$file" "/proc/sys/$name"
    fi
done <tunables.txt
touch node.ready
while sleep 3600; do :; done
"""
# The API server finds the kubelet by the node's name, which only means something here.
API = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
# Nothing answers for images that are not here: the machine is not asked to look for a registry.
HOSTS = "127.0.0.1 localhost bay.test\n127.0.0.1 node1\n"
CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true
tolerate_missing_hugetlb_controller = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def _options(words: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in words.items()]


def etcd_options(folder: Path, ports: Mapping[str, int]) -> list[str]:
    """An etcd alone, on loopback."""
    ours, peer = (f"http://127.0.0.1:{ports[name]}" for name in ("etcd", "peer"))
    words = {
        "name": "bay",
        "data-dir": str(folder / "etcd"),
        "listen-client-urls": ours,
        "advertise-client-urls": ours,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"bay={peer}",
    }
    return _options(words)


def api_options(folder: Path, ports: Mapping[str, int]) -> list[str]:
    """The API server on loopback, with rights by role."""
    key = str(folder / "accounts.key")
    words = {
        "etcd-servers": f"http://127.0.0.1:{ports['etcd']}",
        "secure-port": str(ports["api"]),
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",
        "cert-dir": str(folder / "certificates"),
        "token-auth-file": str(folder / "tokens.csv"),
        "authorization-mode": "RBAC",
        "disable-admission-plugins": "ServiceAccount",
        "allow-privileged": "true",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": key,
        "service-account-signing-key-file": key,
        "service-cluster-ip-range": "10.96.0.0/24",
        "kubelet-preferred-address-types": "Hostname",
    }
    return _options(words)


def scheduler_options(folder: Path) -> list[str]:
    """The scheduler, which serves nobody and waits for no turn."""
    words = {
        "kubeconfig": str(folder / "admin.conf"),
        "leader-elect": "false",
        "secure-port": "0",
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
    }
    return _options(words)


def controller_options(folder: Path) -> list[str]:
    """The controllers, which look more often than is usual."""
    words = {
        "root-ca-file": str(folder / "certificates" / "apiserver.crt"),
        "node-monitor-period": "1s",
        "node-monitor-grace-period": "30s",
        "pvclaimbinder-sync-period": "1s",
        "resource-quota-sync-period": "5s",
        "concurrent-job-syncs": "20",
    }
    return [*scheduler_options(folder), *_options(words)]


OPTIONS = {"controller-manager": controller_options, "scheduler": scheduler_options}


def kubelet_options(folder: Path, address: str) -> list[str]:
    """The kubelet of `node1`; the rest is in its config."""
    words = {
        "config": str(folder / "kubelet.yaml"),
        "kubeconfig": str(folder / "admin.conf"),
        "hostname-override": "node1",
        "node-ip": address,
        "root-dir": str(folder / "kubelet"),
        "cert-dir": str(folder / "kubelet-certificates"),
    }
    return _options(words)


def network(bridge: str, subnet: str, gateway: str) -> str:
    """The network of the pods: a bridge that ends on this machine."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/addresses",
        "ranges": [[{"subnet": subnet, "gateway": gateway}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    # The bridge has its address already; as the plug-in's gateway it would turn forwarding on.
    plugin = {"type": "bridge", "bridge": bridge, "isGateway": False, "ipam": addresses}
    return json.dumps({"cniVersion": "0.4.0", "name": "bay", "plugins": [plugin]})


def kubelet(*, folder: Path, port: int, group: str, gateway: str) -> str:
    """The kubelet's config: on loopback, quick, and slow to throw anything out."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": group,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [gateway],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{folder}/resolv.conf",
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "volumePluginDir": f"{folder}/volume-plugins",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "50Mi",
            **dict.fromkeys(("nodefs.available", "imagefs.available", "nodefs.inodesFree"), "1%"),
        },
        "maxPods": 110,
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "2s",
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
        "eventRecordQPS": 0,
        # What a pod wrote is counted this often; past its limit the pod is thrown out.
        "volumeStatsAggPeriod": "5s",
    }
    return json.dumps(config)


def kubeconfig(
    *, port: int, authority: dict[str, str], user: str, token: str, namespace: str
) -> str:
    """What `kubectl` reads to be that user in that namespace."""
    cluster = {"server": f"https://127.0.0.1:{port}", **authority}
    context = {"cluster": "bay", "user": user, "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bay", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "bay", "context": context}],
        "current-context": "bay",
    }
    return json.dumps(config, indent=2) + "\n"


ALL = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
READ = ["get", "list", "watch"]
RULES: list[dict[str, Any]] = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ALL},
    {
        "apiGroups": [""],
        "resources": ["pods", "secrets", "configmaps", "persistentvolumeclaims", "services"],
        "verbs": ALL,
    },
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": READ},
    {
        "apiGroups": [""],
        "resources": ["pods/exec", "pods/attach", "pods/portforward"],
        # Older clients ask by `get` and newer ones by `create`; both are given everywhere.
        "verbs": ["get", "create"],
    },
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": READ},
    {"apiGroups": [""], "resources": ["resourcequotas", "limitranges"], "verbs": READ},
]
CLUSTER_RULES: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["list"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["list"]},
    {"apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"], "verbs": ["list"]},
]
RBAC = "rbac.authorization.k8s.io"
LOOKS = "bay-looks"


def described(kind: str, name: str, *, version: str = "v1", **fields: Any) -> dict[str, Any]:
    """An object as the API server takes it."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def first_objects() -> list[dict[str, Any]]:
    """What every cluster of the tests holds from its start."""
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    low = {"value": -10, "description": "gives way", "preemptionPolicy": "Never"}
    return [
        described("ClusterRole", LOOKS, version=f"{RBAC}/v1", rules=CLUSTER_RULES),
        described("PriorityClass", "low", version="scheduling.k8s.io/v1", **low),
        described(
            "StorageClass",
            "shared",
            version="storage.k8s.io/v1",
            metadata=default,
            provisioner="kubernetes.io/no-provisioner",
            volumeBindingMode="Immediate",
        ),
    ]


def person(user: str, namespace: str, *, nodes: bool) -> list[dict[str, Any]]:
    """A namespace, and somebody who may work in it and nowhere else."""
    subjects = [{"kind": "User", "name": user, "apiGroup": RBAC}]
    version = f"{RBAC}/v1"
    found = [
        described("Namespace", namespace),
        _inside("Role", "works", namespace, rules=RULES),
        _inside(
            "RoleBinding",
            "works",
            namespace,
            subjects=subjects,
            roleRef={"apiGroup": RBAC, "kind": "Role", "name": "works"},
        ),
    ]
    if nodes:
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": LOOKS}
        bound = {"subjects": subjects, "roleRef": reference}
        found.append(described("ClusterRoleBinding", user, version=version, **bound))
    return found


def _inside(kind: str, name: str, namespace: str, **fields: Any) -> dict[str, Any]:
    metadata = {"namespace": namespace}
    return described(kind, name, version=f"{RBAC}/v1", metadata=metadata, **fields)


def listed(objects: list[dict[str, Any]]) -> str:
    """Several objects for one `kubectl apply -f -`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def greeting(image: str) -> dict[str, Any]:
    """A Job that is over as soon as all who have to do with it have seen it."""
    container = {"name": "main", "image": image, "command": ["true"]}
    pod = {"containers": [container], "restartPolicy": "Never"}
    return described("Job", "greeting", version="batch/v1", spec={"template": {"spec": pod}})


def claim(name: str, volume: str) -> dict[str, Any]:
    """A claim of a volume, and of no other that is free at the moment."""
    spec = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": volume,
    }
    return described("PersistentVolumeClaim", name, spec=spec)


def volume(name: str, path: str) -> dict[str, Any]:
    """A folder of this machine that a claim of one pod or of many binds to."""
    spec = {
        "storageClassName": "shared",
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": path, "type": "Directory"},
    }
    return described("PersistentVolume", name, spec=spec)
