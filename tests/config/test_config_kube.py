"""The first tool's `config/kube.yaml`, which is the target `kube`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.config.conftest import commands, recipes, refusal

from launchbay.config.configuration import choose_target, resolve_targets
from launchbay.config.schema import KubeFile
from launchbay.core.job import Resources

if TYPE_CHECKING:
    from tests.config.conftest import Project

SPECIFIED = """\
project_name: example
user: ada
namespace: lab
conda_env_name: example
env:
  OMP_NUM_THREADS: 4
startup_script: git pull
extra_startup_script: echo ready
conda_home: /opt/conda
ssh_host: git.example.org
ssh_port: 30622
server_command: sleep infinity
gpu_count: 1
cpu_count: 5
ephermal_storage: 100
memory: 32
volumes:
  data-claim: /data
image: registry.example.org/ada/example:latest
gitlab_user: ada
registry_host: registry.example.org
registry_port: 5050
image_pull_secrets: example-read-registry
prefix: ada
tolerations:
  - example.org/large-gpu
gpu_whitelist:
  - NVIDIA-TITAN-RTX
  - NVIDIA-A10
hostname_blacklist:
  - node-1.example.org
special_gpu: a100
file: [src/temp.py]
shared: 0.5
server:
  redis: {image: 'registry.example.org/redis:7'}
"""
"""Every key of the first tool's documentation, and those of its newest version."""
SEED = """\
project_name: demo
namespace: lab
user: ada
conda_home: /opt/conda
registry_host: registry.example.org
registry_port: 5050
tolerations:
  - example.org/reserved
gpu_whitelist:
  - NVIDIA-A10
hostname_blacklist:
  - node-1.example.org
"""
KEYS = [
    ("conda_env_name: base", "conda_env_name", "base"),
    ("env: {A: 1}", "env", {"A": "1"}),
    ("gpu_count: 0", "gpus", 0.0),
    ("cpu_count: 5", "cpus", 5.0),
    ("memory: 32", "memory", 32 * 1024),
    ("ephermal_storage: 100", "disk", 100 * 1024),
    ("ephemeral_storage: 100", "disk", 100 * 1024),
    ("ephemeral_storage: 0", "disk", 0),
    ("disk: 0", "disk", 0),
    ("ssh_port: 30622", "ssh_port", "30622"),
    ("volumes: {claim: /data}", "volumes", {"claim": "/data"}),
    ("tolerations: [a]", "tolerations", ("a",)),
    (
        "tolerations: [{key: a, operator: Exists}]",
        "tolerations",
        ({"key": "a", "operator": "Exists"},),
    ),
    ("gpu_whitelist: [A10, Quadro-RTX-6000]", "gpu_type", ("A10", "Quadro-RTX-6000")),
    ("gpu_blacklist: [A10]", "gpu_blacklist", ("A10",)),
    ("hostname_whitelist: [n.example.org]", "hostname_whitelist", ("n.example.org",)),
    ("hostname_blacklist: n.example.org", "hostname_blacklist", ("n.example.org",)),
    ("special_gpu: rtxa6000", "special_gpu", "rtxa6000"),
    ("limit_ratio: 1.2", "limit_ratio", 1.2),
    ("file: [src/temp.py]", "file", ("src/temp.py",)),
    ("shared: 0.5", "shared", "0.5"),
    ("context: west", "context", "west"),
    (
        "endpoints: {'https://s3.example.org': 'http://s3.inside'}",
        "endpoints",
        {"https://s3.example.org": "http://s3.inside"},
    ),
]


def load(project: Project, text: str) -> KubeFile:
    """The file of this text, loaded."""
    project.write("config/kube.yaml", text)
    kube = project.config().kube
    assert kube is not None
    return kube


@pytest.mark.parametrize("text", [SPECIFIED, SEED], ids=["newest", "first"])
def test_documented_files(project: Project, text: str) -> None:
    """Every key of the first tool's documentation is taken."""
    written = {line.partition(":")[0] for line in text.splitlines() if line[0] not in " -"}
    kube = load(project, text)

    assert {KubeFile.spellings()[key] for key in written} == kube.model_fields_set


@pytest.mark.parametrize(("text", "field", "value"), KEYS)
def test_keys(project: Project, text: str, field: str, value: Any) -> None:
    """Each key is read as the value that it means, in either spelling."""
    assert getattr(load(project, text), field) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "gpu_whitelist: [a]\ngpu_blacklist: [b]",
            "2:1: gpu_blacklist: `gpu_whitelist` and `gpu_blacklist` are both set",
        ),
        (
            "hostname_blacklist: [b]\nhostname_whitelist: [a]",
            "1:1: hostname_blacklist: `hostname_whitelist` and `hostname_blacklist` are both set",
        ),
        (
            "ephemeral_storage: 1\nephermal_storage: 1",
            "2:1: ephermal_storage: the same key as `ephemeral_storage` on line 1",
        ),
        ("gpu_cuont: 1", "1:1: gpu_cuont: unknown key"),
        ("memory: lots", "1:1: memory: `lots` is no amount of memory"),
        ("limit_ratio: 0.5", "1:1: limit_ratio: `0.5` is no ratio of limit to request"),
        (
            "tolerations: [[a]]",
            "1:1: tolerations: no toleration",
        ),
    ],
)
def test_what_cannot_be(project: Project, text: str, message: str) -> None:
    """What is wrong in the file is told with its place and a fix."""
    said, hint = refusal(lambda: load(project, text))

    assert said == f"config/kube.yaml:{message}"
    assert hint


def test_target(project: Project) -> None:
    """The file is the target `kube`, with all that it says."""
    load(project, "project_name: demo\nnamespace: lab\nuser: ada\ngpu_count: 1\nenv: {A: 1}\n")
    target = choose_target("kube", project.config())

    assert (target.kind, target.options) == (
        "kubernetes",
        {"namespace": "lab", "user": "ada", "gpus": 1.0, "env": {"A": "1"}},
    )


def test_no_target_without_the_file(project: Project) -> None:
    """Without the file there is no target `kube`."""
    assert set(resolve_targets(project.config())) == {"local"}


def test_what_a_run_is_given(project: Project) -> None:
    """On `kube` a run is given what the file says, the project's file over it."""
    project.write("config/kube.yaml", SPECIFIED)
    experiment = project.build("command: '[a](b)'\ngpu_count: 2\n", target="kube")
    (recipe,) = recipes(experiment)

    assert commands(experiment) == ["b"]
    assert recipe.resources == Resources(
        gpus=2,
        cpus=5,
        memory_mib=32 * 1024,
        disk_mib=100 * 1024,
        gpu_types=("NVIDIA-TITAN-RTX", "NVIDIA-A10"),
        hosts_denied=("node-1.example.org",),
    )
    assert (recipe.image, recipe.env) == (
        "registry.example.org/ada/example:latest",
        {"OMP_NUM_THREADS": "4"},
    )
    assert recipe.options == {
        "special_gpu": "a100",
        "tolerations": ("example.org/large-gpu",),
        "volumes": {"data-claim": "/data"},
        "image_pull_secrets": "example-read-registry",
        "registry_host": "registry.example.org",
        "registry_port": "5050",
        "gitlab_user": "ada",
        "startup_script": "git pull",
        "extra_startup_script": "echo ready",
        "server_command": "sleep infinity",
        "conda_env_name": "example",
        "conda_home": "/opt/conda",
        "ssh_host": "git.example.org",
        "ssh_port": "30622",
        "file": ("src/temp.py",),
        "shared": "0.5",
        "server": {"redis": {"image": "registry.example.org/redis:7"}},
        "outputs_to": "none",
    }


def test_base_of_the_file(project: Project) -> None:
    """The file may build on another one, as every file may."""
    project.write("config/all.yaml", "namespace: lab\ngpu_count: 1\n")
    kube = load(project, "_base_: all.yaml\ngpus: 2\n")

    assert (kube.namespace, kube.gpus) == ("lab", 2)
