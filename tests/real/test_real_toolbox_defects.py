"""What the first tool did wrong, point by point, and what happens now."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.test_toolbox_runs import change, write_example
from tests.conftest import eventually
from tests.real.kubernetes_cluster import PYTHON

import launchbay

if TYPE_CHECKING:
    from tests.conftest import Bay
    from tests.real.kubernetes_cluster import KubernetesCluster, Namespace

    from launchbay.sync.bucket import BucketOptions

pytestmark = pytest.mark.real

SECRET = "hush-hush-42"  # noqa: S105 (a value to look for)
ONE = "run:\n   dataset: [data1]\n   model: [average]\n"
FOUR = "run:\n   dataset: [data1, data2]\n   model: [average, median]\n"


@pytest.fixture
def example(bay: Bay) -> Bay:
    """A person in the quick start's project, with one combination to run."""
    write_example(bay)
    change(bay, FOUR, ONE)
    return bay


@pytest.fixture
def stored(example: Bay, s3: BucketOptions) -> Bay:
    """The same, with a bucket."""
    text = "".join(f"{name}={value}\n" for name, value in s3.env.items())
    bucket = s3.url.removeprefix("s3://")
    example.write(".env", f"S3_BUCKET_NAME={bucket}\nS3_ENDPOINT_URL={s3.endpoint}\n{text}")
    return example


@pytest.fixture
def lab(example: Bay, kubernetes: KubernetesCluster, namespace: Namespace) -> Bay:
    """The same, with a cluster, and a command that needs no bucket."""
    path = f"{example.environment['PATH']}:{kubernetes.binary.parent}"
    example.extra |= {**kubernetes.environment(namespace.kubeconfig), "PATH": path}
    change(example, "namespace: lab\n", f"namespace: {namespace.name}\n", file="kube.yaml")
    change(example, "conda_home: /opt/conda\n", "", file="kube.yaml")
    image = "image: registry.example.org/me/example\n"
    small = f"image: {PYTHON}\ncpu_count: 1\nmemory: 1\nephemeral_storage: 0\n"
    change(example, image, small, file="kube.yaml")
    change(example, "[](make download file=data/;) python", "python")
    return example


def keys(bay: Bay, pattern: str = "*") -> list[str]:
    """What is in the bucket."""
    return bay("toolbox", "find", f"file={pattern}", code=None).out.splitlines()


def await_end(bay: Bay) -> None:
    """Wait for the newest Job."""
    eventually(lambda: bay.states("--target", "kube")[-1] in {"succeeded", "failed"})


def test_01_remove_takes_exactly_what_is_named(stored: Bay) -> None:
    """`data/` is not `data2/`, `data/1` not `data/10.txt`; any number goes; it asks."""
    for at in range(1100):
        stored.write(f"data/many/{at}", "x")
    for name in ("data/10.txt", "data2/1", "database/1"):
        stored.write(name, name)
    stored("toolbox", "upload", "file=data*")
    refused = stored("toolbox", "remove", "file=data/", code=2)
    stored("toolbox", "remove", "file=data/1", code=None)
    after = keys(stored, "data/1*.txt")
    stored("toolbox", "remove", "file=data/", "yes=true")

    assert "nobody is here to answer" in refused.err
    assert after == ["data/1.txt", "data/10.txt"]
    assert keys(stored) == ["data2/1", "database/1"]


def test_02_monitor_uploads(stored: Bay) -> None:
    """New files arrive while it runs; what is deleted here stays in the bucket."""
    with stored.start("toolbox", "monitor", "file=data/", "interval=1s") as process:
        eventually(lambda: keys(stored) == ["data/1.txt", "data/2.txt"])
        stored.write("data/3.txt", "7,8,9")
        (stored.project / "data" / "1.txt").unlink()
        eventually(lambda: "data/3.txt" in keys(stored))
        process.send_signal(signal.SIGTERM)

    assert process.returncode == 0
    assert keys(stored) == ["data/1.txt", "data/2.txt", "data/3.txt"]


LISTENING = "0A"


def listening(process: int) -> list[str]:
    """The sockets of a process that wait for somebody to connect."""
    names = (Path(f"/proc/{process}/fd/{fd.name}") for fd in Path(f"/proc/{process}/fd").iterdir())
    own = {link for name in names if (link := _target(name)).startswith("socket:")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENING and f"socket:[{words[9]}]" in own:
                found.append(words[1])
    return found


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


WATCHED = """
import sys
from launchbay.cli.app import run_app
sys.addaudithook(lambda event, _: event == "socket.bind" and sys.exit("it opened a port"))
sys.exit(run_app(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("find", "file=data/*"),
        ("upload", "file=data/"),
        ("download", "file=data/", "local_path=out"),
        ("remove", "file=data/", "yes=true"),
        ("server",),
    ],
    ids=lambda words: words[0],
)
def test_03_no_data_verb_opens_a_port(stored: Bay, words: tuple[str, ...]) -> None:
    """Transfers are made by the command itself; there is no server, and nothing serves files."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "toolbox", *words],
        cwd=stored.project,
        env=stored.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "opened a port" not in done.stderr
    assert done.returncode in {0, 1}


def test_03_nor_does_the_one_that_stays(stored: Bay) -> None:
    """`monitor`, while it runs, listens to nobody."""
    with stored.start("toolbox", "monitor", "file=data/", "interval=1s") as process:
        eventually(lambda: len(keys(stored)) == 2)
        seen = listening(process.pid)
        process.send_signal(signal.SIGTERM)

    assert seen == []


def a_job(user: str, project: str) -> str:
    """A Job as the first tool left them, which never starts."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "x", "image": "nobody/has:it"}]}
    labels = {"user": user, "project": project}
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{user}-{project}", "labels": labels},
        "spec": {"suspend": True, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    return json.dumps(made)


def test_04_delete_takes_only_mine_of_this_project(lab: Bay, namespace: Namespace) -> None:
    """Of the same project another user's stay, and mine of another project; old ones go, too."""
    for user, project in (("me", "example"), ("me", "other"), ("you", "example")):
        namespace.kubectl("create", "-f", "-", input=a_job(user, project))
    lab("toolbox", "delete", "yes=true")
    eventually(lambda: "job.batch/me-example" not in namespace.kubectl("get", "job", "-o", "name"))

    left = namespace.kubectl("get", "jobs", "-o", "name").split()
    assert left == ["job.batch/me-other", "job.batch/you-example"]


def test_05_a_quoted_value_with_a_blank(lab: Bay) -> None:
    """`.env` means the same here and there."""
    lab.write(".env", "NAME='a b'\n")
    lab.write("src/avg.py", "import os; print('<' + os.environ['NAME'] + '>')\n")
    here = lab("toolbox", "local").out
    lab("toolbox", "job")
    await_end(lab)

    assert here.endswith("\n<a b>\n")
    assert lab("logs", "example-average-data1").out == "<a b>\n"


def test_06_a_failed_local_run_is_a_failure(example: Bay) -> None:
    """The exit code says so, and the last lines say which."""
    example.write("src/avg.py", "raise SystemExit(4)\n")
    said = example("toolbox", "local", code=1)

    assert "1 of 1 failed" in said.err
    assert "exit code 4" in said.err


def test_07_secrets_are_in_no_manifest(lab: Bay, namespace: Namespace) -> None:
    """A value of `.env` is in one Secret; in no other object, no file, and nothing printed."""
    lab.write(".env", f"TOKEN={SECRET}\n")
    said = [lab("toolbox", "dryrun"), lab("toolbox", "job"), lab("toolbox", "pod")]
    objects = namespace.admin("get", "jobs,pods,configmaps,events", "-o", "yaml")
    files = [path for folder in ("build", ".bay") for path in (lab.project / folder).rglob("*")]
    held = [path for path in files if path.is_file() and SECRET.encode() in path.read_bytes()]

    assert SECRET not in objects
    assert held == []
    assert all(SECRET not in one.out + one.err for one in said)


def test_08_a_job_runs_the_code_of_its_launch(lab: Bay) -> None:
    """What is edited after `make job` does not reach it, and the record says what it ran."""
    lab.write("src/avg.py", "print('as it was')\n")
    lab("toolbox", "job")
    lab.write("src/avg.py", "print('edited')\n")
    await_end(lab)
    (row,) = lab.json("ls", "--target", "kube")

    assert lab("logs", "example-average-data1").out == "as it was\n"
    assert (lab.project / ".bay" / "snapshots" / row["code"] / "src" / "avg.py").read_text() == (
        "print('as it was')\n"
    )


def test_09_nothing_is_said_of_keys_that_are_known(example: Bay) -> None:
    """No word about `run`; a key that nobody knows is an error before anything is sent."""
    quiet = example("toolbox", "dryrun")
    change(example, "project_name: example\n", "project_name: example\ngpu_cuont: 1\n")
    said = example("toolbox", "dryrun", code=2)

    assert "nknown" not in quiet.out + quiet.err
    assert "gpu_cuont" in said.err
    assert "gpu_count" in said.err


def manifest(bay: Bay) -> Any:
    """The Job that would be sent."""
    import yaml  # noqa: PLC0415

    bay("toolbox", "dryrun")
    text = (bay.project / "build" / "example-average-data1.yaml").read_text()
    return yaml.safe_load(text)["spec"]["template"]["spec"]


def test_10_what_kube_yaml_says_counts(example: Bay) -> None:
    """Resources and lists of GPUs reach the Job; two lists against each other are refused."""
    change(example, "    gpu_count: 0\n", "")
    more = "gpu_count: 2\ncpu_count: 3\nmemory: 7\ngpu_whitelist: [NVIDIA-A10]\n"
    change(example, "user: me\n", f"user: me\n{more}", file="kube.yaml")
    spec = manifest(example)
    (asked,) = [one["resources"]["requests"] for one in spec["containers"]]
    change(example, "gpu_whitelist", "gpu_blacklist: [NVIDIA-A40]\ngpu_whitelist", file="kube.yaml")
    said = example("toolbox", "dryrun", code=2)

    assert (asked["cpu"], asked["nvidia.com/gpu"]) == ("3", "2")
    assert asked["memory"] in {"7G", "7168Mi", "7000M"}
    assert "NVIDIA-A10" in json.dumps(spec["affinity"])
    assert "gpu_blacklist" in said.err
    assert "gpu_whitelist" in said.err


CREATE = """
from launchbay.compat.toolbox.kubeutils import create_config
first = create_config(name="one", command="true", file=["src/avg.py"])
second = create_config(name="two", command="true")
print(first["metadata"]["name"], second["metadata"]["name"])
"""


def test_11_create_config_shares_nothing_and_writes_nothing(lab: Bay) -> None:
    """Two calls know nothing of each other, and the folder `build/` need not be there."""
    done = subprocess.run(
        [sys.executable, "-c", CREATE],
        cwd=lab.project,
        env=lab.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"one\S* two\S*\n", done.stdout)
    assert not (lab.project / "build").exists()


ADDRESS = re.compile(r"(?:https?|ssh)://([a-z0-9-]+(?:\.[a-z0-9-]+)+)|git@([a-z0-9.-]+)")
KNOWN = frozenset({"127.0.0.1", "json-schema.org", "www.apache.org", "169.254.169.254"})
"""Loopback, names of formats, and the address by which clouds tell a machine about itself."""
CLOUDS = ("amazonaws.com", "amazonaws.com.cn", "googleapis.com", "windows.net", "azure.com")
EXAMPLES = ("example.org", "example.com", ".lab")


def test_12_no_host_of_any_site_is_in_the_package() -> None:
    """What a site calls its registry, its storage or its git is for its people to write."""
    folder = Path(launchbay.__file__).parent
    found = {}
    for path in folder.rglob("*"):
        if path.suffix in {".py", ".sh", ".json", ".yaml"} and path.is_file():
            for words in ADDRESS.findall(path.read_text()):
                host = next(filter(None, words))
                if host not in KNOWN and not host.endswith((*CLOUDS, *EXAMPLES)):
                    found[host] = path.name

    assert found == {}


def test_13_ls_and_logs_answer(lab: Bay) -> None:
    """What became of a Job, why, and what it printed, without `kubectl`."""
    lab.write("src/avg.py", "print('so far'); raise SystemExit(5)\n")
    lab("toolbox", "job")
    await_end(lab)
    (row,) = lab.json("ls", "--target", "kube")
    again = lab("toolbox", "job").out
    await_end(lab)

    assert (row["name"], row["state"], row["exit_code"]) == ("example-average-data1", "failed", 5)
    assert "exit code 5" in lab("show", "example-average-data1").out
    assert lab("logs", "example-average-data1").out == "so far\n"
    assert again.startswith("Job 'example-average-data1' failed. Creating attempt 2.\n")
    assert "1" in lab("toolbox", "clean_jobs", "yes=true").out


def test_14_many_files_travel(lab: Bay) -> None:
    """Three hundred files that git ignores, binary ones, in folders, arrive byte for byte."""
    lab.git("init", "-q")
    lab.write(".gitignore", "extra/\n")
    total = hashlib.sha256()
    for at in range(300):
        content = bytes((at + step) % 256 for step in range(2000))
        path = lab.project / "extra" / f"part {at // 100}" / f"{at:03}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        total.update(content)
    change(lab, "model:\n", "file: [extra]\nmodel:\n")
    lab.write(
        "src/avg.py",
        "import hashlib, pathlib\n"
        "found = sorted(pathlib.Path('extra').rglob('*.bin'))\n"
        "whole = b''.join(path.read_bytes() for path in found)\n"
        "print(len(found), hashlib.sha256(whole).hexdigest())\n",
    )
    lab("toolbox", "job")
    await_end(lab)

    assert lab("logs", "example-average-data1").out == f"300 {total.hexdigest()}\n"
