"""The first tool's quick start and reference, typed line by line on a terminal.

A real Kubernetes, a real S3 server that pods reach, and images as the document has them. Names of
hosts, image and namespace are ours; all else is typed and seen as it stands there.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.test_toolbox_runs import FOUR
from tests.conftest import DATA, Bay, end_queue, eventually
from tests.real import kubernetes_build
from tests.real.kubernetes_images import PYTHON, TOOLBOX, write_toolbox
from tests.real.object_servers import KEY_ID, SECRET, RcloneServer
from tests.real.terminal import PROMPT, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.kubernetes_cluster import KubernetesCluster, Namespace

pytestmark = pytest.mark.real

SUFFIX = re.compile(r"(example-(?:average|median)-data[12])-[a-z2-9]{5}\b")
LAUNCH = (DATA / "toolbox" / "quickstart" / "config" / "launch.yaml").read_text()
CREATED = "".join(
    f"Job 'example-{model}-{data}' not found. Creating the job.\n"
    f"job.batch/example-{model}-{data} created\n"
    for data in ("data1", "data2")
    for model in ("average", "median")
)
DOWNLOADED = "Downloaded data/1.txt to ./data/1.txt\nDownloaded data/2.txt to ./data/2.txt\n"
IN_POD = "".join(
    f"{block[: block.index('python src')]}make download file=data/; {rest}"
    for block in re.split(r"(?<=\.0\n)", FOUR)
    if block
    for rest in [block[block.index("python src") :]]
)


@pytest.fixture(scope="module")
def toolbox_image(real_kubernetes: KubernetesCluster, shared_install: tuple[str, str]) -> str:
    """The document's image: Python, make, launchbay, and a conda environment of the project."""
    folder = Path(tempfile.mkdtemp(prefix="bay-image-", dir="/tmp"))
    archive = folder / "toolbox.tar"
    write_toolbox(archive, kubernetes_build.image("python-3.tar"), Path(shared_install[1]))
    real_kubernetes.load_image(archive)
    shutil.rmtree(folder)
    return TOOLBOX


@pytest.fixture(scope="module")
def store(real_kubernetes: KubernetesCluster) -> Iterator[RcloneServer]:
    """An S3 server that pods reach by the same address as this machine."""
    made = RcloneServer(host=real_kubernetes.gateway)
    made.start()
    yield made
    made.stop()


@dataclass(frozen=True)
class Reader:
    """Somebody who reads the document and types."""

    bay: Bay
    namespace: Namespace
    store: RcloneServer
    folder: Path

    def terminal(self) -> Terminal:
        """A terminal where nothing is there yet."""
        return Terminal(self.folder, self.bay.environment)

    def kube(self, *, user: str = "me", image: str, conda: bool = True) -> str:
        """`config/kube.yaml` as the document has it; small, for this node is."""
        home = "conda_home: /opt/conda\n" if conda else ""
        return (
            f"project_name: example\nnamespace: {self.namespace.name}\nuser: {user}\n"
            "registry_host: registry.example.org\nssh_host: git.example.org\nssh_port: 30622\n"
            f"{home}image: {image}\ncpu_count: 1\nmemory: 1\nephemeral_storage: 0\n"
        )

    def env(self, bucket: str) -> str:
        """`.env` as the document has it."""
        return (
            f"S3_BUCKET_NAME={bucket}\nAWS_ACCESS_KEY_ID={KEY_ID}\n"
            f"AWS_SECRET_ACCESS_KEY={SECRET}\nS3_ENDPOINT_URL={self.store.url}\n"
        )


@pytest.fixture
def reader(
    tmp_path: Path, kubernetes: KubernetesCluster, namespace: Namespace, store: RcloneServer
) -> Iterator[Reader]:
    """A person with an empty home, `bay`, `kubectl`, `make` and git."""
    yield from read_as("one", tmp_path, kubernetes, namespace, store)


def read_as(
    name: str,
    folder: Path,
    kubernetes: KubernetesCluster,
    namespace: Namespace,
    store: RcloneServer,
) -> Iterator[Reader]:
    """A person with a home of that name."""
    home, place = folder / name / "home", folder / name / "place"
    home.mkdir(parents=True)
    place.mkdir()
    bay = Bay(home=home, project=place)
    path = f"{bay.environment['PATH']}:{kubernetes.binary.parent}"
    bay.extra |= {**kubernetes.environment(namespace.kubeconfig), "PATH": path}
    yield Reader(bay, namespace, store, place)
    end_queue(home / "state")


def write(typed: Terminal, file: str, text: str) -> None:
    """What one would do in an editor."""
    typed(f"printf %s {shlex.quote(text)} > {file}")
    assert typed.code == 0


def begin(typed: Terminal, reader: Reader, *, image: str, bucket: str, conda: bool = True) -> None:
    """Section 1, steps 1 and 2: the project, its programs, its data and its three files."""
    typed("mkdir example; cd example; mkdir src; mkdir data; git init -q")
    # In the place of the submodule and the two links.
    assert "Makefile" in typed("bay init --makefile")
    typed('echo "1,2,3" > data/1.txt')
    typed('echo "4,5,6" > data/2.txt')
    typed(
        "echo \"import sys; print(sum(map(float, open(sys.argv[1]).read().split(','))) / 3)\""
        " > src/avg.py  # Compute average"
    )
    typed(
        'echo "import sys, statistics; print(statistics.median(map(float, '
        "open(sys.argv[1]).read().strip().split(','))))\" > src/med.py  # Compute median"
    )
    write(typed, ".env", reader.env(bucket))
    typed("mkdir -p config")
    write(typed, "config/kube.yaml", reader.kube(image=image, conda=conda))
    write(typed, "config/launch.yaml", LAUNCH)


def run_all(typed: Terminal) -> None:
    """The document's change of the `run` section."""
    text = LAUNCH.replace("[data1]", "[data1, data2]").replace("[average]", "[average, median]")
    write(typed, "config/launch.yaml", text)


def await_ended(typed: Terminal, number: int) -> None:
    """What the document calls a while."""

    def ended() -> bool:
        rows = json.loads(typed("bay ls --all --json --target kube 2>/dev/null"))
        return [row["state"] for row in rows].count("succeeded") == number

    eventually(ended, within_s=180)


def test_the_quick_start(reader: Reader, toolbox_image: str) -> None:
    """Section 1, every command, in order, with the outputs that the document prints."""
    bucket = reader.store.fresh().url.removeprefix("s3://")
    with reader.terminal() as typed:
        begin(typed, reader, image=toolbox_image, bucket=bucket)
        assert typed("make local") == FOUR[: len(FOUR) // 4]
        run_all(typed)
        assert typed("make local") == FOUR
        assert typed.code == 0

        said = typed("make upload file=data/")
        assert "Uploaded data/1.txt to data/1.txt\nUploaded data/2.txt to data/2.txt\n" in said

        assert "pod/me-example-interactive-pod created\n" in typed("make pod")
        typed("kubectl wait --for=condition=Ready pod/me-example-interactive-pod --timeout=120s")
        work_in_the_pod(typed)

        created = SUFFIX.sub(r"\1", typed("make job"))
        assert created.startswith(CREATED)
        again = SUFFIX.sub(r"\1", typed("make job"))
        assert again.count("Job 'example-") == 4
        assert again.count("Doing nothing.") == 4
        await_ended(typed, 4)
        done = typed("make job")
        assert re.search(
            r"'example-average-data1' already succeeded on kube [\dms]+ ago as \w{5}\. Doing",
            done,
        )

        look_at_logs(typed)
        clean_up(typed)


def work_in_the_pod(typed: Terminal) -> None:
    """`kubectl exec` and then exactly what was typed here, with the same answers."""
    shell = "kubectl exec -it me-example-interactive-pod -- /bin/bash"
    typed(shell, until="# ")
    typed(f"PS1='{PROMPT}' && stty -echo cols 200")
    said = typed("make download file=data/; make local").removeprefix("\n")
    assert said.startswith(DOWNLOADED)
    # What its command downloads once more is there already.
    answers = re.sub(r"nothing to do: .*\n", "", said.removeprefix(DOWNLOADED))
    assert answers == IN_POD
    typed("exit")


def look_at_logs(typed: Terminal) -> None:
    """`kubectl logs`, as the document has it; and what answers without it."""
    job = typed("kubectl get jobs -o name | grep average-data1").strip()
    assert typed(f"kubectl logs -f {job}").endswith(f"{DOWNLOADED}2.0\n")
    assert typed("bay logs example-average-data1").endswith(f"{DOWNLOADED}2.0\n")
    rows = json.loads(typed("bay ls --json --target kube 2>/dev/null"))
    assert [(row["name"], row["state"], row["target"]) for row in rows] == [
        (f"example-{model}-{data}", "succeeded", "kube")
        for data in ("data1", "data2")
        for model in ("average", "median")
    ]


def clean_up(typed: Terminal) -> None:
    """`make delete` lists, asks, and leaves nothing that runs; what was printed stays."""
    asked = typed("make delete", until="[y/N]: ")
    assert "me-example-interactive-pod" in asked
    assert len(SUFFIX.findall(asked)) == 4
    said = SUFFIX.sub(r"\1", typed("y"))
    assert 'job.batch "example-median-data2" deleted' in said
    eventually(lambda: "No resources found" in typed("kubectl get jobs,pods"))
    assert "configmap/bay-plan" not in typed("kubectl get configmaps -o name")
    assert "secret/bay" not in typed("kubectl get secrets -o name")
    assert typed("bay logs example-average-data1").endswith("2.0\n")


def test_an_image_without_make_and_launchbay(reader: Reader, namespace: Namespace) -> None:
    """`make download file=data/` works by what the image has, which plan says beforehand."""
    bucket = reader.store.fresh().url.removeprefix("s3://")
    with reader.terminal() as typed:
        begin(typed, reader, image=PYTHON, bucket=bucket, conda=False)
        typed("make upload file=data/")
        said = typed("bay plan --target kube")
        assert "python3" in said
        assert "not sent: data" in said
        typed("make job")
        await_ended(typed, 1)
        assert typed("bay logs example-average-data1 2>/dev/null").endswith(f"{DOWNLOADED}2.0\n")


def test_the_reference_of_s3(reader: Reader) -> None:
    """Section 3: list, find, the chooser with its five actions, remove and download."""
    bucket = reader.store.fresh().url.removeprefix("s3://")
    model = "Model/Yelp/t5_model_12weeks_wise-sky-249-northern-dawn-288_epoch_1419"
    with reader.terminal() as typed:
        begin(typed, reader, image=PYTHON, bucket=bucket, conda=False)
        typed(f"mkdir -p {model}; echo 1 > {model}/config.json; echo 2 > {model}/x.bin")
        typed("make upload file=Model/")
        typed("rm -r Model")
        seen = typed("make interactive file='Model/*t5*wise*419*'", until="exit]: ")
        assert seen == (
            "Local files matching pattern:\n\nS3 files matching pattern:\n"
            f"{model}/config.json\n{model}/x.bin\n\n"
            "Choose an action [delete (local), remove (S3), download, upload, "
        )
        typed("download")
        assert typed(f"cat {model}/config.json {model}/x.bin") == "1\n2\n"
        assert f"{model}/x.bin" in typed("make find file='Model/*.bin'")
        assert "Model/" in typed("make list")
        asked = typed(f"make remove file={model}/x.bin", until="[y/N]: ")
        assert "1 file" in asked
        typed("y")
        assert f"{model}/x.bin" not in typed("make find file='Model/*'")
        write(typed, "fetch.py", PROGRAM)
        typed(f"rm -r Model; export $(grep -v '^#' .env | xargs -d '\\n'); python fetch.py {model}")
        assert typed(f"cat {model}/config.json") == "1\n"


PROGRAM = """\
import sys
from launchbay.compat.toolbox.s3utils import download_s3_path

folder_path = sys.argv[1]
download_s3_path(folder_path)
"""


def test_two_users_share_a_namespace_and_a_project(
    tmp_path: Path,
    kubernetes: KubernetesCluster,
    namespace: Namespace,
    store: RcloneServer,
    toolbox_image: str,
) -> None:
    """`make delete` of one leaves every object of the other: Jobs, pods, code, plans, secrets."""
    people = [
        next(read_as(name, tmp_path, kubernetes, namespace, store)) for name in ("ann", "ben")
    ]
    bucket = store.fresh().url.removeprefix("s3://")

    def objects(user: str) -> set[str]:
        kinds = "jobs,pods,configmaps,secrets"
        return set(namespace.admin("get", kinds, "-l", f"user={user}", "-o", "name").split())

    for name, person in zip(("ann", "ben"), people, strict=True):
        with person.terminal() as typed:
            begin(typed, person, image=toolbox_image, bucket=bucket)
            kube = person.kube(user=name, image=toolbox_image)
            write(typed, "config/kube.yaml", kube)
            waits = LAUNCH.replace("make download file=data/;", "sleep 600;")
            write(typed, "config/launch.yaml", waits)
            typed("make job")
            assert f"pod/{name}-example-interactive-pod created" in typed("make pod")
    before = objects("ben")
    with people[0].terminal() as typed:
        typed("cd example")
        typed("make delete yes=true")
        assert typed.code == 0
    eventually(lambda: not {one for one in objects("ann") if one.startswith(("job", "pod"))})

    assert {one.partition("/")[0] for one in before} >= {"job.batch", "pod", "configmap", "secret"}
    assert objects("ben") == before
    for person in people:
        end_queue(person.bay.home / "state")
