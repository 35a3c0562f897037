"""The first document's own program on a real Kubernetes, with one line of it changed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import eventually
from tests.real.kubernetes_cluster import BUSYBOX
from tests.real.kubernetes_desk import kubernetes_desk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Bay
    from tests.real.kubernetes_cluster import KubernetesCluster, Namespace
    from tests.real.kubernetes_desk import KubernetesDesk

pytestmark = pytest.mark.real

HIDDEN = "value-that-nobody-sees"
WRITTEN = """
import os
import yaml
from utils.kubeutils import create_config
from utils.utils import load_env_file

if __name__ == '__main__':
    name = "example"
    config = create_config(
        name=name,
        command="echo 'Hello, World!'",
        gpu_count=0,
        hostname_whitelist=['NODE'],
        interactive=True,
        env=load_env_file(),
        volumes={
            'marks': '/temp/'
        }
    )
    yaml.Dumper.ignore_aliases = lambda *args : True
    with open(f"build/{name}.yaml", "w") as f:
        yaml.dump(config, f)
    os.system(f"kubectl apply -f build/{name}.yaml")
"""
"""As the document has it, with a node and a claim of ours."""


@pytest.fixture
def desk(bay: Bay, kubernetes: KubernetesCluster, namespace: Namespace) -> Iterator[KubernetesDesk]:
    """A project as the document lays it out."""
    bay.write(
        "config/kube.yaml",
        f"project_name: example\nnamespace: {namespace.name}\nuser: me\nimage: {BUSYBOX}\n"
        "cpu_count: 0.1\nmemory: 64M\nephemeral_storage: 0\n",
    )
    bay.write(".env", f"TOKEN={HIDDEN}\nWANDB_MODE=offline\n")
    bay.write("said.txt", "of the project\n")
    with kubernetes_desk(bay, kubernetes, namespace) as made:
        yield made


def run(desk: KubernetesDesk, program: str, *, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A program in the project."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=desk.bay.project,
        env=desk.bay.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done
    return done


def changed(desk: KubernetesDesk, **words: str) -> str:
    """The document's program with its imports, its node, and perhaps more replaced."""
    names = desk.namespace.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")
    words = {
        "utils.kubeutils": "launchbay.compat.toolbox.kubeutils",
        "utils.utils": "launchbay.compat.toolbox.utils",
        "NODE": names.split()[0],
        **words,
    }
    program = WRITTEN
    for old, new in words.items():
        assert old in program
        program = program.replace(old, new)
    return program


def made(desk: KubernetesDesk, arguments: str) -> dict[str, Any]:
    """What `create_config` returns."""
    program = (
        "import json; from launchbay.compat.toolbox.kubeutils import create_config\n"
        f"print(json.dumps(create_config({arguments})))"
    )
    return dict(json.loads(run(desk, program).stdout))


def log_of(desk: KubernetesDesk, name: str) -> str:
    """What a pod or Job has printed."""
    return desk.namespace.run("logs", name).stdout


def objects(desk: KubernetesDesk) -> str:
    """Everything that a reader of Jobs and pods sees."""
    return desk.namespace.kubectl("get", "jobs,pods,configmaps", "-o", "yaml")


def test_the_documents_program_makes_a_pod_that_stays(desk: KubernetesDesk) -> None:
    """It runs the command and then waits; what `.env` says is in the pod and in no manifest."""
    (desk.bay.project / "build").mkdir()
    said = run(desk, changed(desk)).stdout
    eventually(lambda: "Hello, World!" in log_of(desk, "pod/example"))
    phase = desk.namespace.kubectl("get", "pod", "example", "-o", "jsonpath={.status.phase}")
    inside = desk.namespace.kubectl(
        "exec", "example", "--", "sh", "-c", 'echo "$TOKEN ${WANDB_MODE-online}"; ls -d /temp'
    )

    assert said == "pod/example created\n"
    assert phase == "Running"
    assert inside == f"{HIDDEN} online\n/temp\n"
    assert HIDDEN not in (desk.bay.project / "build" / "example.yaml").read_text() + objects(desk)
    assert sorted(one.name for one in (desk.bay.project / "build").iterdir()) == ["example.yaml"]


def test_the_same_program_makes_a_job(desk: KubernetesDesk) -> None:
    """With `interactive=False` the command runs once, with the project's code, and ends."""
    (desk.bay.project / "build").mkdir()
    words = {"interactive=True": "interactive=False", "World!'": "World!'; cat said.txt"}
    said = run(desk, changed(desk, **words)).stdout
    desk.namespace.kubectl("wait", "--for=condition=complete", "job/example", "--timeout=60s")
    (job,) = desk.jobs()

    assert said == "job.batch/example created\n"
    assert log_of(desk, "job/example") == "Hello, World!\nof the project\n"
    assert job["metadata"]["labels"].items() >= {"user": "me", "project": "example"}.items()
    assert HIDDEN not in objects(desk)


def test_calls_share_nothing(desk: KubernetesDesk) -> None:
    """Two Jobs of one name differ in what they mount; no folder is made, no list is shared."""
    one = made(desk, "'example', 'true', env={'A': 'first-value'}")
    two = made(desk, "'example', 'true', env={'A': 'other-value'}")
    plans = [each["metadata"]["labels"]["launchbay/plan"] for each in (one, two)]
    secrets = json.loads(desk.namespace.admin("get", "secrets", "-o", "json"))["items"]
    values = {item["metadata"]["name"]: item["data"]["A"] for item in secrets}

    assert one["metadata"]["name"] == two["metadata"]["name"] == "example"
    assert plans[0] != plans[1]
    assert len(set(values.values())) == 2
    assert set(values) == {f"bay-env-{plan}-0" for plan in plans}
    assert "first-value" not in json.dumps(one)
    assert not (desk.bay.project / "build").exists()


def test_the_file_says_what_a_call_does_not(desk: KubernetesDesk) -> None:
    """Amounts of `config/kube.yaml` hold, a call goes over them, and its own words are told."""
    program = (
        "import json; from launchbay.compat.toolbox.kubeutils import create_config\n"
        "config = create_config('My Example', 'sleep 1', memory=1, cpu_cout=2, run=1, model={},"
        " time='90m', tolerations=['big'], namespace='NAMESPACE', prefix='me')\n"
        "print(json.dumps(config))"
    )
    said = run(desk, program.replace("NAMESPACE", desk.namespace.name))
    config = json.loads(said.stdout)
    pod = config["spec"]["template"]["spec"]

    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "1024Mi"}
    assert (pod["activeDeadlineSeconds"], pod["tolerations"][0]["key"]) == (5400, "big")
    assert config["metadata"]["name"] == "my-example"
    assert "suspend" not in config["spec"]
    assert [line for line in said.stderr.splitlines() if "create_config" in line] == [
        "create_config leaves out what it does not know: `cpu_cout` (`cpu_count`?)"
    ]


def test_a_server_command_keeps_the_pod(desk: KubernetesDesk) -> None:
    """It comes after the command, in place of the long sleep, and the start-up script before."""
    pod = made(
        desk,
        "'example', 'echo two', interactive=True, startup_script='echo one',"
        " server_command='echo three; sleep 1000', gpu_count=0",
    )
    desk.namespace.kubectl("create", "-f", "-", input=json.dumps(pod))
    eventually(lambda: "three" in log_of(desk, "pod/example"))

    assert (pod["kind"], "activeDeadlineSeconds" in pod["spec"]) == ("Pod", False)
    assert log_of(desk, "pod/example").split() == ["one", "two", "three"]


def test_a_batch_of_sections_makes_jobs(desk: KubernetesDesk) -> None:
    """The three sections as a program has them; a second call leaves them alone."""
    program = (
        "from launchbay.compat.toolbox.kubeutils import batch\n"
        "batch(None, {'data1': {'hparam': {'_fn': 'said.txt'}}},"
        " {'show': {'command': 'cat [no](<fn>)', 'gpu_count': 0}}, 'example', 'job')"
    )
    first = run(desk, program).stdout.splitlines()
    (row,) = desk.await_states("succeeded")
    again = run(desk, program).stdout

    assert first[0] == "Job 'example-show-data1' not found. Creating the job."
    assert first[1] == f"job.batch/{row['id']} created"
    assert desk.bay("logs", row["id"]).out == "of the project\n"
    assert again.startswith("Job 'example-show-data1' already succeeded")


def test_code_of_the_image_is_left_there(desk: KubernetesDesk) -> None:
    """Where the project's file says `code: image`, the command runs in the image's own folder."""
    desk.bay.write("config/launch.yaml", "code: image\ncommand: never\nenv: {X: never}\n")
    config = made(desk, "'example', 'pwd; ls said.txt 2>/dev/null || echo none'")
    desk.namespace.kubectl("create", "-f", "-", input=json.dumps(config))
    desk.namespace.kubectl("wait", "--for=condition=complete", "job/example", "--timeout=60s")

    assert log_of(desk, "job/example") == "/\nnone\n"
    assert "never" not in json.dumps(config)
