"""From a job to the Job and the pod that Kubernetes is asked for, by value."""

from __future__ import annotations

import json
import random
import re
import string
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from launchbay.backends.kubernetes.manifest import (
    Carried,
    Frame,
    check_job,
    check_jobs,
    render_job,
    render_pod,
)
from launchbay.backends.kubernetes.words import job_name
from launchbay.backends.kubernetes.yaml import render_yaml
from launchbay.core.errors import Unsupported
from launchbay.core.job import Argv, Folder, Job, Resources, Ship
from launchbay.core.naming import run_id, run_name

if TYPE_CHECKING:
    from collections.abc import Callable

FRAME = Frame(target="lab", namespace="space", user="me@box")
FIRST_TOOL = Frame(target="kube", namespace="space", user="ada")
CARRIED = Carried(plan="3f9a", programs="bay-node-1")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def job(options: dict[str, Any] | None = None, image: str = "python:3.12", **need: Any) -> Job:
    return Job(
        run_id="demo-lr-0-1-a4x7b",
        name="demo-lr-0-1",
        experiment="sweep",
        command=Argv(("true",)),
        params={"lr": "0.1"},
        image=image,
        snapshot="cafe",
        labels={"project_name": "demo"},
        resources=Resources(**need),
        options={"outputs_to": "none", **(options or {})},
    )


def rendered(wanted: Job, frame: Frame = FRAME, *, index: int = 0) -> dict[str, Any]:
    return render_job(wanted, frame, CARRIED, line="lr 1", index=index)


def pod(wanted: Job, frame: Frame = FRAME) -> dict[str, Any]:
    found: dict[str, Any] = rendered(wanted, frame)["spec"]["template"]["spec"]
    return found


def main(wanted: Job, frame: Frame = FRAME) -> dict[str, Any]:
    (container,) = pod(wanted, frame)["containers"]
    return dict(container)


def sides(wanted: Job, frame: Frame = FRAME) -> tuple[dict[str, str], dict[str, str]]:
    amounts = main(wanted, frame)["resources"]
    return amounts["requests"], amounts["limits"]


def refusal(wanted: Job, frame: Frame = FRAME) -> tuple[str, str]:
    with pytest.raises(Unsupported) as caught:
        check_job(wanted, frame)
    return str(caught.value), str(caught.value.hint)


def expressions(wanted: Job, frame: Frame = FRAME) -> list[tuple[str, str, list[str]]]:
    node = pod(wanted, frame)["affinity"]["nodeAffinity"]
    (term,) = node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [(one["key"], one["operator"], one["values"]) for one in term["matchExpressions"]]


FULL = replace(
    job(
        {
            "limit_ratio": 1.5,
            "special_gpu": "a100",
            "tolerations": (
                "example.org/large-gpu",
                {"key": "spot", "operator": "Exists", "tolerationSeconds": "300"},
            ),
            "volumes": {"data": "/data"},
            "image_pull_secrets": "one, two",
            "shm": 8192,
            "priority_class": "low",
            "service_account": "runner",
            "node_selector": {"zone": "a", "fast": "true"},
            "deadline": timedelta(days=2),
            "ttl": timedelta(days=7),
            "server": {
                "redis": {
                    "image": "redis:7",
                    "command": "redis-server --port $(cat /port)",
                    "port": "6379",
                    "cpus": "0.5",
                    "memory": "512M",
                    "env": {"MODE": "$(MODE)"},
                    "volumes": {"sockets": "/run/redis"},
                }
            },
            "override": {"spec": {"template": {"spec": {"hostIPC": "false"}}}},
        },
        cpus=5,
        memory_mib=32 * 1024,
        disk_mib=100 * 1024,
        gpus=2,
        gpu_types=("NVIDIA-A100-SXM4-80GB",),
        hosts_denied=("node-1.example.org",),
        extra={"example.com/tpu": "4"},
        time_limit=timedelta(hours=8),
    ),
    attempt=2,
    parallel=8,
    metrics={"loss": r"loss=(\S+)"},
    folders=(Folder(name="sets", source="claim:data/sets", at="/sets", read_only=True),),
    ship=Ship(to="claim:results"),
)
"""A run that says everything that can be said at once."""
SECRETS = {"env_secret": "bay-env-3f9a-0", "file_secret": "bay-files-3f9a-0"}
FULL_CARRIED = replace(CARRIED, **SECRETS)
FULL_FRAME = replace(FRAME, parallel=100)


def test_every_field(golden: Callable[[str, str], None]) -> None:
    """All that can be said of a run is in its Job."""
    made = render_job(FULL, FULL_FRAME, FULL_CARRIED, line="demo 2 bay_job='{}'", index=3)

    golden("kubernetes/job-full.yaml", render_yaml([made]))


def test_plain_job(golden: Callable[[str, str], None]) -> None:
    """What nobody says is not in the Job."""
    golden("kubernetes/job-plain.yaml", render_yaml([rendered(job())]))


def test_dev_pod(golden: Callable[[str, str], None]) -> None:
    """A pod for a person has what the run's would have, ends by itself, and is no run."""
    wanted = job({"queue": "lab"}, gpus=1, time_limit=timedelta(hours=1))
    made = render_pod(wanted, FRAME, CARRIED, line="demo 1", name="ada-dev")

    golden("kubernetes/pod-dev.yaml", render_yaml([made]))


def test_labels_and_annotations() -> None:
    """Job and pod say whose they are and which run, what it was given, and where its folder is."""
    made = rendered(FULL, FULL_FRAME, index=3)
    template = made["spec"]["template"]["metadata"]

    assert made["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "launchbay",
        "user": "me-box",
        "project": "demo",
        "launchbay/experiment": "sweep",
        "launchbay/run": "demo-lr-0-1-a4x7b",
        "launchbay/attempt": "2",
        "launchbay/plan": "3f9a",
        "launchbay/target": "lab",
    }
    assert template["labels"] == made["metadata"]["labels"]
    assert json.loads(made["metadata"]["annotations"]["launchbay/params"]) == {"lr": "0.1"}
    assert json.loads(template["annotations"]["launchbay/metrics"]) == {"loss": r"loss=(\S+)"}
    assert template["annotations"]["launchbay/claim"] == "results"
    assert template["annotations"]["launchbay/line"] == "lr 1"
    assert "launchbay/line" not in made["metadata"]["annotations"]


def test_a_run_without_a_project() -> None:
    """The first word of its name stands for the project that a run does not name."""
    assert rendered(replace(job(), labels={}))["metadata"]["labels"]["project"] == "demo"


def test_each_attempt_is_a_job_of_its_own() -> None:
    """Kubernetes tries nothing again; a further attempt has a name of its own."""
    first, second = rendered(job()), rendered(replace(job(), attempt=2))

    assert first["metadata"]["name"] == "demo-lr-0-1-a4x7b"
    assert second["metadata"]["name"] == "demo-lr-0-1-a4x7b-2"
    assert first["spec"]["backoffLimit"] == 0
    assert first["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_default_amounts() -> None:
    """One processor and 4 GiB where nobody says anything; no GPU, no disk."""
    assert sides(job()) == (
        {"cpu": "1", "memory": "4096Mi"},
        {"cpu": "1200m", "memory": "4916Mi"},
    )


def test_default_amounts_of_the_first_tools_files() -> None:
    """Its files get what they got there."""
    requests, limits = sides(job(), FIRST_TOOL)

    assert requests == {"cpu": "5", "memory": "32768Mi", "ephemeral-storage": "102400Mi"}
    assert limits == {"cpu": "6", "memory": "39322Mi", "ephemeral-storage": "102400Mi"}


@pytest.mark.parametrize("frame", [FRAME, FIRST_TOOL])
def test_a_pod_asks_for_what_a_job_asks(frame: Frame) -> None:
    """Defaults and written amounts are the same for `bay dev` and for runs."""
    for wanted in (job(), job(cpus=3, memory_mib=100, gpus=1, disk_mib=0)):
        made = render_pod(wanted, frame, CARRIED, line="", name="dev")

        assert made["spec"]["containers"] == pod(wanted, frame)["containers"]


def test_limits_are_a_ratio_of_requests() -> None:
    """Processors and memory may grow by the ratio; all else is the same on both sides."""
    wanted = job(cpus=5, memory_mib=1000, disk_mib=50, gpus=2, extra={"example.com/tpu": "4"})
    alike = {"ephemeral-storage": "50Mi", "nvidia.com/gpu": "2", "example.com/tpu": "4"}

    assert sides(wanted) == (
        {"cpu": "5", "memory": "1000Mi", **alike},
        {"cpu": "6", "memory": "1200Mi", **alike},
    )
    assert sides(replace(wanted, options={"limit_ratio": 2.0}))[1] == {
        "cpu": "10",
        "memory": "2000Mi",
        **alike,
    }


def test_no_disk() -> None:
    """A disk of 0 asks for none, also where the default is some."""
    assert "ephemeral-storage" not in sides(job(disk_mib=0), FIRST_TOOL)[0]


def test_no_gpus() -> None:
    """Without GPUs there is no word of them, whatever else is said of them."""
    wanted = job({"special_gpu": "a100"}, gpus=0, gpu_types=("A10",))

    assert set(sides(wanted)[0]) == {"cpu", "memory"}
    assert "affinity" not in pod(wanted)


@pytest.mark.parametrize(
    ("special", "key"),
    [("", "nvidia.com/gpu"), ("a100", "nvidia.com/a100"), ("amd.com/gpu", "amd.com/gpu")],
)
def test_special_gpu(special: str, key: str) -> None:
    """A GPU with a resource name of its own is asked for by that name only."""
    requests, limits = sides(job({"special_gpu": special}, gpus=2))

    assert {name: amount for name, amount in requests.items() if "/" in name} == {key: "2"}
    assert limits[key] == "2"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (job(gpus=0.5), "Kubernetes gives whole GPUs, and `demo-lr-0-1-a4x7b` wants 0.5"),
        (
            job({"shared": "0.5"}, gpus=1),
            "Kubernetes gives whole GPUs, and `demo-lr-0-1-a4x7b` wants a share of 0.5",
        ),
    ],
)
def test_part_of_a_gpu(wanted: Job, message: str) -> None:
    """A part of a GPU is refused, not rounded."""
    said, hint = refusal(wanted)

    assert said == message
    assert "`--gpus 1`" in hint
    assert "`shared:`" in hint


@pytest.mark.parametrize(
    ("extra", "key"), [("cpu", "cpus"), ("ephemeral-storage", "disk"), ("nvidia.com/gpu", "gpus")]
)
def test_extra_is_for_what_has_no_key(extra: str, key: str) -> None:
    """What has a key of its own is not taken from `extra`, where it would be said twice."""
    said, hint = refusal(job(gpus=1, extra={extra: "1"}))

    assert extra in said
    assert hint == f"set it with `{key}:`"


def test_no_affinity() -> None:
    """A run that may go anywhere says nothing of nodes."""
    spec = pod(job(gpus=1))

    assert {"affinity", "tolerations", "nodeSelector"} & set(spec) == set()


def test_affinity_allows() -> None:
    """Allowed GPUs and hosts are in one term, which both must satisfy."""
    wanted = job(gpus=1, gpu_types=("NVIDIA-A10", "Quadro RTX 6000"), hosts=("n1", "n2"))

    assert expressions(wanted) == [
        ("kubernetes.io/hostname", "In", ["n1", "n2"]),
        ("nvidia.com/gpu.product", "In", ["NVIDIA-A10", "Quadro-RTX-6000"]),
    ]


def test_affinity_denies() -> None:
    """Denied GPUs and hosts are kept away from."""
    wanted = job(gpus=1, gpu_types_denied=("NVIDIA-A10",), hosts_denied=("n1",))

    assert expressions(wanted) == [
        ("kubernetes.io/hostname", "NotIn", ["n1"]),
        ("nvidia.com/gpu.product", "NotIn", ["NVIDIA-A10"]),
    ]


@pytest.mark.parametrize(
    ("need", "message"),
    [
        (
            {"gpu_types": ("a",), "gpu_types_denied": ("b",)},
            "`gpu_type` and `gpu_blacklist` are both set",
        ),
        (
            {"hosts": ("a",), "hosts_denied": ("b",)},
            "`hostname_whitelist` and `hostname_blacklist` are both set",
        ),
    ],
)
def test_allowing_and_denying(need: dict[str, Any], message: str) -> None:
    """Both lists of a pair are one too many."""
    assert refusal(job(**need)) == (message, "keep one of them")


def test_tolerations() -> None:
    """A key alone is the first tool's form, a mapping is the cluster's own."""
    full = {"key": "spot", "operator": "Exists"}
    timed = {**full, "tolerationSeconds": "60"}

    assert pod(job({"tolerations": ("reserved", full, timed)}))["tolerations"] == [
        {"key": "reserved", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
        {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ]


@pytest.mark.parametrize(
    ("toleration", "message"),
    [
        ({"key": "a", "efect": "NoSchedule"}, "a toleration has no `efect`"),
        (
            {"key": "a", "tolerationSeconds": "soon"},
            "`tolerationSeconds: soon` is no number of seconds",
        ),
    ],
)
def test_tolerations_that_cannot_be(toleration: dict[str, str], message: str) -> None:
    """A toleration that Kubernetes would not understand is refused before it is sent."""
    assert refusal(job({"tolerations": (toleration,)}))[0] == message


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (timedelta(hours=1), 3600),
        (timedelta(milliseconds=5), 1),
        (90.0, 90),
        ("2h", 7200),
    ],
)
def test_deadline_and_ttl(written: object, seconds: int) -> None:
    """Both are seconds of the Job, also where they come from a record of the job."""
    spec = rendered(job({"deadline": written, "ttl": written}))["spec"]

    assert spec["activeDeadlineSeconds"] == spec["ttlSecondsAfterFinished"] == seconds
    assert "activeDeadlineSeconds" not in spec["template"]["spec"]


def test_time_limit() -> None:
    """The time limit is the pod's: a Job that waits does not use it up."""
    spec = rendered(job(time_limit=timedelta(hours=8)))["spec"]

    assert "activeDeadlineSeconds" not in spec
    assert spec["template"]["spec"]["activeDeadlineSeconds"] == 8 * 3600


def test_service_account() -> None:
    """A pod gets the rights of an account only where one is named."""
    plain, named = pod(job()), pod(job({"service_account": "runner"}))

    assert plain["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in plain
    assert named["automountServiceAccountToken"] is True
    assert named["serviceAccountName"] == "runner"


@pytest.mark.parametrize(
    ("written", "names"),
    [("one", ["one"]), ("one, two,", ["one", "two"]), (["one"], ["one"]), ("", None), (None, None)],
)
def test_pull_secrets(written: object, names: list[str] | None) -> None:
    """Secrets that pull the image are named only where there are any."""
    found = pod(job({"image_pull_secrets": written})).get("imagePullSecrets")

    assert found == (None if names is None else [{"name": name} for name in names])


def test_other_words_about_the_pod() -> None:
    """Priority class and node selector go where Kubernetes looks for them."""
    spec = pod(job({"priority_class": "low", "node_selector": {"zone": "a"}}))

    assert spec["priorityClassName"] == "low"
    assert spec["nodeSelector"] == {"zone": "a"}
    assert spec["enableServiceLinks"] is False


@pytest.mark.parametrize(
    ("ship", "seconds"), [(None, 30), (Ship(to="claim:out"), 30), (Ship(to="s3://lab/out"), 120)]
)
def test_grace(ship: Ship | None, seconds: int) -> None:
    """Who has outputs to copy to a bucket gets longer to end."""
    assert pod(replace(job(), ship=ship))["terminationGracePeriodSeconds"] == seconds


def test_variables_of_the_container() -> None:
    """The container knows where its things are; the run's own variables are not in the manifest."""
    wanted = replace(job(), env={"TOKEN": "secret-value"})
    env = {one["name"]: one for one in main(wanted)["env"]}

    assert {name: one["value"] for name, one in env.items() if "value" in one} == {
        "BAY_ROOT": "/bay/root",
        "BAY_PLAN": "/bay/plan",
        "BAY_SNAPSHOT": "cafe",
        "BAY_GRACE": "25",
    }
    paths = {name: one["valueFrom"]["fieldRef"] for name, one in env.items() if "value" not in one}
    assert paths == {
        "NODE_NAME": {"fieldPath": "spec.nodeName"},
        "BAY_ALLOCATION": {"fieldPath": "metadata.name"},
    }
    assert "secret-value" not in render_yaml([rendered(wanted)])
    assert "envFrom" not in main(wanted)


def test_secrets_by_reference() -> None:
    """Variables of a Secret come by its name, and files of one with the plan."""
    spec = render_job(job(), FRAME, FULL_CARRIED, line="", index=0)["spec"]["template"]["spec"]

    assert spec["containers"][0]["envFrom"] == [{"secretRef": {"name": "bay-env-3f9a-0"}}]
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert {"secret": {"name": "bay-files-3f9a-0"}} in volumes["plan"]["projected"]["sources"]


@pytest.mark.parametrize(
    ("options", "image"),
    [
        ({"registry_host": "r.example.org"}, "r.example.org/ada/demo:latest"),
        (
            {"registry_host": "r.example.org", "registry_port": "5050", "gitlab_user": "Bob"},
            "r.example.org:5050/bob/demo:latest",
        ),
        ({"image": "busybox:1"}, "busybox:1"),
    ],
)
def test_image_that_nobody_names(options: dict[str, Any], image: str) -> None:
    """The first tool's registry gives the project's image; a target's image holds for its runs."""
    frame = replace(FRAME, user="ada", options=options)

    assert main(job(image=""), frame)["image"] == image


def test_no_image() -> None:
    """Without an image there is no pod."""
    said, hint = refusal(job(image=""))

    assert said == "`demo-lr-0-1-a4x7b` has no image, and a pod needs one"
    assert "`image: python:3.12`" in hint


def test_target_says_what_the_job_does_not() -> None:
    """What the target says holds, where the job says nothing."""
    frame = replace(FRAME, options={"priority_class": "low", "limit_ratio": 3.0})

    assert pod(job({"limit_ratio": 1.0}), frame)["priorityClassName"] == "low"
    assert sides(job({"limit_ratio": 1.0}), frame)[1]["cpu"] == "1"


def test_capped_jobs_wait() -> None:
    """Under a cap a Job waits suspended, with what decides whose turn it is."""
    frame = replace(FRAME, parallel=10)
    made = rendered(replace(job(), parallel=2), frame, index=7)

    assert made["spec"]["suspend"] is True
    caps = {key: value for key, value in made["metadata"]["annotations"].items() if "p" in key}
    assert caps.items() >= {
        ("launchbay/parallel", "2"),
        ("launchbay/target-parallel", "10"),
    }
    assert made["metadata"]["annotations"]["launchbay/index"] == "7"
    assert "suspend" not in rendered(job())["spec"]


def test_queue() -> None:
    """A queue is a label of the Job, and decides alone how many run."""
    wanted = job({"queue": "lab"})
    made = rendered(wanted)

    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lab"
    assert "kueue.x-k8s.io/queue-name" not in made["spec"]["template"]["metadata"]["labels"]
    said, hint = refusal(replace(wanted, parallel=2))
    assert said == ("`queue: lab` decides how many runs there are at once, and so does `parallel:`")
    assert hint == "leave one of them out"


def test_outputs_that_would_be_gone() -> None:
    """A run whose outputs nobody keeps is refused, with the three ways out."""
    said, hint = refusal(job({"outputs_to": ""}))

    assert said == "the outputs of `demo-lr-0-1-a4x7b` would be gone with its pod"
    for fix in ("`outputs_to: claim:NAME`", "`outputs_to: s3://…`", "`outputs_to: none`"):
        assert fix in hint


@pytest.mark.parametrize(
    ("wanted", "frame"),
    [
        (job(), FRAME),
        (replace(job({"outputs_to": ""}), ship=Ship(to="s3://lab/out")), FRAME),
        (job({"outputs_to": ""}), FIRST_TOOL),
        (job({"outputs_to": ""}), replace(FRAME, options={"outputs_to": "none"})),
    ],
)
def test_outputs_that_are_kept_or_not_wanted(wanted: Job, frame: Frame) -> None:
    """Who says where outputs go, or that they may go, is let pass; so is the first tool's file."""
    options = {key: value for key, value in wanted.options.items() if value}

    check_job(replace(wanted, options=options), frame)

    assert rendered(wanted, frame)["kind"] == "Job"


@pytest.mark.parametrize("need", [{"nodes": 2}, {"processes": 2}])
def test_one_pod(need: dict[str, Any]) -> None:
    """Several nodes or processes are more than a pod."""
    assert refusal(job(**need))[0].startswith("a run on Kubernetes is one process in one pod")


def test_many_jobs_are_checked() -> None:
    """Runs that were given the same are looked at once, others each."""
    good, bad = job(), job(gpus=0.5)
    check_jobs([good] * 3, FRAME)

    with pytest.raises(Unsupported, match="whole GPUs"):
        check_jobs([good, replace(good, run_id="x"), bad], FRAME)


def test_random_names_are_valid() -> None:
    """Whatever the parameters, names of Jobs are names to Kubernetes, and labels are labels."""
    chance = random.Random(3)
    signs = string.printable + "äß漢😀-_./"

    def text(longest: int) -> str:
        return "".join(chance.choices(signs, k=chance.randrange(longest)))

    for _ in range(1000):
        params = {text(20): text(40) for _ in range(chance.randrange(6))}
        name = run_name([text(20), text(5)], params)
        identity, attempt = run_id(name), chance.choice([1, 2, 17])
        wanted = replace(
            job(), run_id=identity, name=name, attempt=attempt, experiment=text(90), params=params
        )
        metadata = rendered(wanted)["metadata"]

        assert metadata["name"] == job_name(identity, attempt)
        assert NAME.fullmatch(metadata["name"]), name
        assert len(metadata["name"]) <= 63
        for value in metadata["labels"].values():
            assert re.fullmatch(r"([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?", value, re.ASCII)
