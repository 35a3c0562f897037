"""What a real API server, scheduler and kubelet make of the manifests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.conftest import DATA, eventually
from tests.real.kubernetes_cluster import BUSYBOX

from launchbay.backends.kubernetes.facts import parse_quantity
from launchbay.backends.kubernetes.manifest import Carried, Frame, render_job
from launchbay.backends.kubernetes.yaml import render_yaml
from launchbay.core.job import Argv, Folder, Job, Resources, Ship

if TYPE_CHECKING:
    from tests.real.kubernetes_cluster import KubernetesCluster, Namespace

pytestmark = [pytest.mark.slow, pytest.mark.real]

CARRIED = Carried(plan="p1", programs="bay-node-1")
RESERVED = "example.org/reserved"
POD = r"""\
set -e
until [ -s /run/shared/said ]; do sleep 0.1; done
cat /run/shared/said /bay/plan/shared.sh /bay/plan/sheet
echo "root $BAY_ROOT, node $NODE_NAME, token $TOKEN, pod ${BAY_ALLOCATION%-*}"
mkdir -p "$BAY_ROOT"
echo mine >"$BAY_ROOT/mine"
if touch /claims/out/sets/x 2>/dev/null || touch /sets/x 2>/dev/null; then exit 3; fi
cat /sets/one /claims/out/sets/one
df -P /dev/shm | tail -n 1 | grep -q tmpfs
printf ended >/dev/termination-log
"""
ODD = "tab\there\n  two  \n---\n$(NAME) $$ 'a' \"b\" \\ : # é 😀\n\n"


def job(options: dict[str, Any] | None = None, **need: Any) -> Job:
    return Job(
        run_id="demo-lr-0-1-a4x7b",
        name="demo-lr-0-1",
        experiment="sweep",
        command=Argv(("true",)),
        image=BUSYBOX,
        resources=Resources(**{"cpus": 0.1, "memory_mib": 32, **need}),
        options=options or {},
    )


def rendered(
    wanted: Job, space: Namespace, carried: Carried = CARRIED, *, line: str = ""
) -> dict[str, Any]:
    frame = Frame(target="lab", namespace=space.name, user=space.user)
    return render_job(wanted, frame, carried, line=line, index=0)


def create(space: Namespace, *objects: dict[str, Any]) -> None:
    space.kubectl("create", "-f", "-", input=render_yaml(objects))


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {key.replace("_", "."): text for key, text in data.items()},
    }


def same(sent: Any, got: Any) -> bool:
    """Whether everything that was sent is in what came back; quantities may be written anew."""
    if isinstance(sent, dict):
        return isinstance(got, dict) and all(same(sent[key], got.get(key)) for key in sent)
    if isinstance(sent, list):
        return len(sent) == len(got) and all(map(same, sent, got))
    if sent is False:
        # The server leaves out what is so anyway.
        return not got
    if sent == got:
        return True
    return isinstance(sent, str) and parse_quantity(sent) == parse_quantity(got)


@pytest.mark.parametrize("name", ["job-full", "job-plain", "pod-dev"])
def test_the_server_takes_every_field(namespace: Namespace, name: str) -> None:
    """Every field of the manifests is one that the API server knows, and keeps as it was sent."""
    text = (DATA / "kubernetes" / f"{name}.yaml").read_text()
    text = text.replace("namespace: space\n", f"namespace: {namespace.name}\n")
    words = ("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    done = namespace.run(*words, input=text)

    assert (done.returncode, done.stderr) == (0, "")
    sent = yaml.safe_load(text)
    assert same(sent, json.loads(done.stdout))


def test_the_server_takes_the_full_pod(namespace: Namespace) -> None:
    """What a Job would make of the full manifest passes the checks that are made of pods only."""
    namespace.admin("create", "serviceaccount", "runner")
    full = yaml.safe_load((DATA / "kubernetes" / "job-full.yaml").read_text())
    template = full["spec"]["template"]
    made = {"apiVersion": "v1", "kind": "Pod", **template}
    made["metadata"] = {"name": "one", **template["metadata"]}
    words = ("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    done = namespace.run(*words, input=render_yaml([made]))

    assert (done.returncode, done.stderr) == (0, "")
    assert same(template["spec"]["affinity"], json.loads(done.stdout)["spec"]["affinity"])


def test_the_server_reads_the_text_that_we_write(namespace: Namespace) -> None:
    """Odd text arrives byte for byte, as one line and as many."""
    texts = {"one": "x: y #z\x07\u2028\x7f", "many": ODD, "end": "a\n\n", "no": "\n a", "key": "1"}
    create(namespace, config_map("odd", **texts), config_map("after", one="1"))
    got = json.loads(namespace.kubectl("get", "configmap", "odd", "-o", "json"))

    assert got["data"] == texts


def placed(space: Namespace, name: str) -> str:
    """Where the scheduler put the pod of a Job; `nowhere` when it says that there is no place."""
    chosen = ("-l", f"launchbay/run={name}")
    for one in json.loads(space.kubectl("get", "pods", *chosen, "-o", "json"))["items"]:
        if "nodeName" in one["spec"]:
            return str(one["spec"]["nodeName"])
        conditions = one.get("status", {}).get("conditions", ())
        if any(condition.get("reason") == "Unschedulable" for condition in conditions):
            return "nowhere"
    return ""


def test_steered_by_affinity_and_tolerations(
    kubernetes: KubernetesCluster, namespace: Namespace
) -> None:
    """Allow and deny lists, tolerations, selectors and GPU names decide the node of a pod."""
    product = "nvidia.com/gpu.product"
    kubernetes.add_node(
        "alpha", labels={product: "NVIDIA-A10", "zone": "a"}, capacity={"nvidia.com/gpu": "8"}
    )
    kubernetes.add_node(
        "beta",
        labels={product: "NVIDIA-A100-SXM4-80GB", "zone": "b"},
        taints=[f"{RESERVED}=true:NoSchedule"],
        capacity={"nvidia.com/gpu": "8", "nvidia.com/a100": "8"},
    )
    tolerant = {"tolerations": (RESERVED,)}
    full = {"tolerations": ({"key": RESERVED, "operator": "Exists", "effect": "NoSchedule"},)}
    # `node1` has two GPUs and no product.
    cases = {
        "allow": (job(tolerant, gpus=1, gpu_types=("NVIDIA-A10",)), "alpha"),
        "allow-tainted": (job(tolerant, gpus=1, gpu_types=("NVIDIA-A100-SXM4-80GB",)), "beta"),
        "deny": (job(tolerant, gpus=3, gpu_types_denied=("NVIDIA-A10",)), "beta"),
        "deny-other": (job(gpus=3, gpu_types_denied=("NVIDIA-A100-SXM4-80GB",)), "alpha"),
        "host": (job(tolerant, hosts=("beta",)), "beta"),
        "host-full": (job(full, hosts=("beta", "gamma")), "beta"),
        "no-host": (job(tolerant, hosts_denied=("node1", "alpha")), "beta"),
        "selector": (job({"node_selector": {"zone": "a"}}), "alpha"),
        "special": (job({**tolerant, "special_gpu": "a100"}, gpus=1), "beta"),
        "untolerated": (job(gpus=1, gpu_types=("NVIDIA-A100-SXM4-80GB",)), "nowhere"),
        "other-key": (job({"tolerations": ("other",)}, hosts=("beta",)), "nowhere"),
        "no-gpus": (job({"node_selector": {"zone": "a"}}, gpu_types=("H100",)), "alpha"),
    }
    jobs = [
        rendered(replace(wanted, run_id=name), namespace) for name, (wanted, _) in cases.items()
    ]
    create(namespace, *jobs)

    def all_placed() -> bool:
        return all(placed(namespace, name) for name in cases)

    eventually(all_placed)
    found = {name: placed(namespace, name) for name in cases}
    assert found == {name: node for name, (_, node) in cases.items()}


def test_a_server_ends_with_its_run(kubernetes: KubernetesCluster, namespace: Namespace) -> None:
    """A pod finds everything where the manifest says; a server that runs on holds nothing up."""
    folder = namespace.claim("out")
    (folder / "sets").mkdir()
    (folder / "sets" / "one").write_text("read\n")
    secret: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bay-env-p1-0"},
        "stringData": {"TOKEN": "t0ken"},
    }
    server = {
        "command": 'echo "$(echo said) $GREETING $TOKEN" >/run/shared/said\nsleep 100000',
        "env": {"GREETING": "$(GREETING) $$"},
        "cpus": "0.1",
        "memory": "16M",
        "volumes": {"shared": "/run/shared"},
    }
    wanted = replace(
        job({"server": {"talker": server}, "shm": 4}),
        folders=(Folder(name="sets", source="claim:out/sets", at="/sets", read_only=True),),
        ship=Ship(to="claim:out"),
    )
    holds = replace(CARRIED, env_secret=secret["metadata"]["name"])
    made = rendered(wanted, namespace, holds, line="the line")
    programs = config_map("bay-node-1", pod_sh=POD.removeprefix("\\\n"))
    shared = config_map("bay-plan-p1", shared_sh="the plan\n")
    create(namespace, secret, programs, shared, made)
    name = made["metadata"]["name"]

    def ended() -> bool:
        got = json.loads(namespace.kubectl("get", "job", name, "-o", "json"))["status"]
        return any(one["status"] == "True" for one in got.get("conditions", ()))

    eventually(ended)
    (pod,) = json.loads(namespace.kubectl("get", "pods", "-o", "json"))["items"]
    (main,) = pod["status"]["containerStatuses"]
    said = namespace.kubectl("logs", f"job/{name}", "-c", "main").splitlines()
    assert main["state"]["terminated"]["exitCode"] == 0, said
    assert main["state"]["terminated"]["message"] == "ended"
    assert said == [
        "said $(GREETING) $$ t0ken",
        "the plan",
        # A line of the downward API has no end.
        f"the lineroot /claims/out/launchbay, node node1, token t0ken, pod {name}",
        "read",
        "read",
    ]
    assert (folder / "launchbay" / "mine").read_text() == "mine\n"
    status = json.loads(namespace.kubectl("get", "job", name, "-o", "json"))["status"]
    assert status["succeeded"] == 1
    # Ended when it was told to, not killed for taking no notice.
    (beside,) = pod["status"]["initContainerStatuses"]
    assert beside["state"]["terminated"]["exitCode"] == 0
