"""`make download` and its like in pods of the first tool's files, whatever their image has."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.real.kubernetes_cluster import BUSYBOX, PYTHON
from tests.real.kubernetes_desk import kubernetes_desk
from tests.real.object_servers import FaultyProxy, RcloneServer

from launchbay.sync.bucket import open_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Bay
    from tests.real.kubernetes_cluster import KubernetesCluster, Namespace
    from tests.real.kubernetes_desk import KubernetesDesk

    from launchbay.sync.bucket import BucketOptions

pytestmark = [pytest.mark.real, pytest.mark.slow]
AVERAGE = """\
import sys
numbers = [float(line) for line in open(sys.argv[1])]
print(sum(numbers) / len(numbers))
"""


@dataclass(frozen=True)
class Project:
    """A project in the document's layout, and its bucket as this machine knows it."""

    desk: KubernetesDesk
    options: BucketOptions
    inside: str
    """The bucket's address as pods know it."""

    @property
    def bay(self) -> Bay:
        return self.desk.bay

    def write(self, command: str, image: str = PYTHON) -> None:
        """Have `config/kube.yaml`, `config/launch.yaml` and `.env`, and nothing else."""
        site = {
            "project_name": "example",
            "user": "me",
            "namespace": self.desk.namespace.name,
            "image": image,
            "cpu_count": 1,
            "memory": 1,
            "ephemeral_storage": 0,
        }
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in site.items()]
        self.bay.write("config/kube.yaml", "".join(lines))
        launch = {
            "targets": {"kube": {"endpoints": {self.options.endpoint: self.inside}}},
            "model": {"average": {"command": command}},
            "dataset": {"data1": {"hparam": {"_fn": "data/1.txt"}}},
        }
        self.bay.write("config/launch.yaml", json.dumps(launch))
        self.bay.write("src/avg.py", AVERAGE)
        keys = "".join(f"{name}={value}\n" for name, value in self.options.env.items())
        bucket = self.options.url.removeprefix("s3://")
        where = f"S3_BUCKET_NAME={bucket}\nS3_ENDPOINT_URL={self.options.endpoint}\n"
        self.bay.write(".env", where + keys)

    def run(self, code: int = 0) -> tuple[str, str]:
        """The log of the one run, and what `bay run` said."""
        said = self.bay("run", "--target", "kube", code=code)
        return self.bay("logs").out, said.err


@contextmanager
def bucket_beside(cluster: KubernetesCluster) -> Iterator[tuple[BucketOptions, str]]:
    """A bucket, as this machine knows it, and the address that pods know it by."""
    server = RcloneServer(host=cluster.gateway)
    server.start()
    try:
        with FaultyProxy(server.url, {}) as proxy:
            yield proxy.before(server.fresh()), server.url
    finally:
        server.stop()


@pytest.fixture
def project(bay: Bay, kubernetes: KubernetesCluster, namespace: Namespace) -> Iterator[Project]:
    """The project, with two files of data in its bucket and none in its folder."""
    with (
        kubernetes_desk(bay, kubernetes, namespace) as desk,
        bucket_beside(kubernetes) as (options, inside),
    ):
        store = open_bucket(options)
        for name, text in {"1": b"1\n2\n3\n", "2": b"4\n5\n6\n"}.items():
            store.put(f"data/{name}.txt", text)
        store.put("data2/other.txt", b"no data of ours")
        yield Project(desk, options, inside)


def test_image_with_python_alone(project: Project) -> None:
    """The document's command works in an image without make and bay, and plan says by what."""
    project.write("[](make download file=data/;) python3 src/avg.py <fn>")
    log, said = project.run()

    assert log.splitlines() == [
        "Downloaded data/1.txt to ./data/1.txt",
        "Downloaded data/2.txt to ./data/2.txt",
        "2.0",
    ]
    assert said.count("`make download` uses bay where the image has it, else s5cmd, python3") == 1
    shown = project.desk.namespace.admin("get", "jobs,pods,configmaps", "-o", "yaml")
    assert project.options.env["AWS_SECRET_ACCESS_KEY"] not in shown


def test_upload_from_a_pod(project: Project) -> None:
    """What a run wrote is in the bucket, by the verb under either of its names."""
    text = "mkdir results; echo <fn> >results/a.txt; make upload file=results/"
    project.write(f"{text} && bay toolbox list file=results")
    log, _ = project.run()

    assert log == "Uploaded results/a.txt to results/a.txt\nresults/a.txt\n"
    keys = [entry.key for entry in open_bucket(project.options).walk("results/")]
    assert keys == ["results/a.txt"]


def test_image_with_nothing(project: Project) -> None:
    """An image that has no program for it fails with what would do."""
    project.write("make download file=data/", image=BUSYBOX)
    log, _ = project.run(code=1)

    assert log.startswith("launchbay: `make download` needs s5cmd, python3 or aws in the image")
    assert log.count("\n") == 1


def test_in_a_pod_to_work_in(project: Project) -> None:
    """Whoever works in a pod by hand has them too."""
    project.write("true")
    words = ("sh", "-c", "make download file=data/1.txt && cat data/1.txt")
    said = project.bay("dev", "--target", "kube", "--", *words)

    assert said.out == "Downloaded data/1.txt to ./data/1.txt\n1\n2\n3\n"
