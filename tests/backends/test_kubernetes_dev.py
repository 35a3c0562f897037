"""Pods that are no run's, as far as a cluster is not needed: names, reasons, helpers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.dev import DevPods, free_names, waiting_job
from launchbay.backends.kubernetes.manifest import Frame
from launchbay.backends.kubernetes.pods import (
    PodHost,
    helper_pod,
    helper_spec,
    parse_exec,
    render_helper,
    render_line,
)
from launchbay.backends.kubernetes.ready import Wait, judge_pod
from launchbay.backends.kubernetes.storage import parse_claims, render_claim
from launchbay.core.errors import (
    BadRequest,
    Rejected,
    TargetError,
    Unauthorized,
    Unreachable,
)
from launchbay.core.host import Completed
from launchbay.core.job import Argv, Job, Resources, Script
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass
class Answering(LocalHost):
    """A machine whose `kubectl` gives the same answers to anybody."""

    answers: Mapping[str, Completed]
    """By the first word that occurs in a call."""
    calls: list[list[str]] = field(default_factory=list)
    given: list[str] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        assert tell is None
        self.calls.append(list(argv))
        self.given.append(stdin)
        found = (answer for word, answer in self.answers.items() if word in argv)
        return next(found, well_done(stdin) if "exec" in argv else said())


def well_done(stdin: str) -> Completed:
    """What a container answers to a command that succeeds without a word."""
    found = re.search(r"bay-([0-9a-f]+)-start", stdin)
    assert found
    start, end = f"bay-{found[1]}-start", f"bay-{found[1]}-end"
    return said(f"{start} 1\n{end} 0\n", f"\n{start}\n{end}\n")


def said(stdout: str = "", stderr: str = "", code: int = 0) -> Completed:
    """An answer."""
    return Completed(code=code, stdout=stdout, stderr=stderr)


def a_job(**need: Any) -> Job:
    """What somebody works in."""
    return Job(
        run_id="x-dev-abcde",
        name="x-dev",
        experiment="x-dev",
        command=Argv(("sh",)),
        image="image",
        setup="export A=1\n",
        resources=Resources(**{"time_limit": timedelta(hours=2), **need}),
        options={"outputs_to": "none"},
        labels={"project_name": "x"},
    )


def pods_of(host: Answering) -> DevPods:
    """What makes pods through such a `kubectl`."""
    frame = Frame(target="lab", namespace="ns", user="me")
    return DevPods(kubectl=Kubectl(host, "lab", "ns"), frame=frame)


def pod(name: str, phase: str = "Running", user: str = "me") -> dict[str, Any]:
    """A pod that somebody works in."""
    labels = {"app.kubernetes.io/managed-by": "launchbay", "user": user, "launchbay/role": "dev"}
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels}, "status": {"phase": phase}}


MADE = said(json.dumps({"metadata": {"name": "made", "uid": "1"}}))


def made_by(host: Answering) -> dict[str, Any]:
    """The pod that was asked for last."""
    text = host.given[max(at for at, call in enumerate(host.calls) if "create" in call)]
    # Loaded late: nothing else here needs it.
    import yaml  # noqa: PLC0415

    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_the_next_name_that_is_free() -> None:
    """With two of that name there it has the next number; what ended of ours is taken away."""
    there = [
        pod("x-dev-pod"),
        pod("x-dev-pod-1", "Failed"),
        pod("x-dev-pod-3", "Failed", user="you"),
    ]
    host = Answering({"get": said(json.dumps({"items": there})), "json": MADE})
    told: list[str] = []
    argv = pods_of(host).argv(a_job(), ["python", "a.py"], told.append)
    deleted = [call for call in host.calls if "delete" in call]

    assert told == ["pod x-dev-pod-2"]
    assert made_by(host)["metadata"]["name"] == "x-dev-pod-2"
    assert [call[call.index("pod") + 1] for call in deleted] == ["x-dev-pod-1"]
    assert "exec -q -i -t x-dev-pod-2 -c main -- /bin/sh /bay/node/enter.sh" in argv[2]
    assert "kubectl --namespace=ns delete pod x-dev-pod-2 --ignore-not-found" in argv[2]


def test_a_name_that_somebody_else_has() -> None:
    """A pod of that name that is none of ours is told by the cluster, and the next one tried."""
    names = free_names("x-dev-pod", {"x-dev-pod"})

    assert [next(names) for _ in range(3)] == ["x-dev-pod-1", "x-dev-pod-2", "x-dev-pod-3"]
    assert len(next(free_names("y" * 80, ()))) <= 63


def test_the_pod_as_it_is_asked_for() -> None:
    """It asks for what the job does, is known as one to work in, and ends when its time is over."""
    made = pods_of(Answering({})).render(a_job(gpus=2, cpus=16, memory_mib=4096), "x-dev-pod")
    requests = made["spec"]["containers"][0]["resources"]["requests"]

    assert requests == {"cpu": "16", "memory": "4096Mi", "nvidia.com/gpu": "2"}
    assert made["spec"]["activeDeadlineSeconds"] == 7200
    assert made["metadata"]["labels"]["launchbay/role"] == "dev"


def test_set_up_is_left_to_the_shell() -> None:
    """The pod only waits; what prepares a run is written down for whoever enters."""
    waiting = waiting_job(a_job())

    assert isinstance(waiting.command, Script)
    assert "printf %s 'export A=1\n' >" in waiting.command.text
    assert (waiting.setup, waiting.entry) == ("", "")


def test_a_pod_that_is_refused_leaves_nothing() -> None:
    """Where the cluster takes no pod, what was made for it is removed, and why is said."""
    refusal = (
        'Error from server (Forbidden): error when creating "STDIN": pods "x-dev-pod" is '
        "forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"
    )
    host = Answering(
        {
            "get": said(json.dumps({"items": []})),
            "name": said("configmap/a\n"),
            "json": said(stderr=refusal, code=1),
        }
    )
    with pytest.raises(Rejected, match="quota"):
        pods_of(host).argv(a_job(), (), lambda _: None)
    removed = [call[call.index("delete") + 1] for call in host.calls if "delete" in call]

    assert [name.rpartition("-")[0] for name in removed] == ["configmap/bay-plan"]


def status(**found: Any) -> dict[str, Any]:
    """A pod in some state."""
    return {"metadata": {"name": "p"}, "spec": {}, "status": found}


def waiting_for(reason: str, message: str = "") -> dict[str, Any]:
    """A pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return status(phase="Pending", containerStatuses=[{"image": "i:1", "state": state}])


def test_why_a_pod_is_not_ready() -> None:
    """What keeps it, whether waiting helps, and whether it is over."""
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
    }
    ended = {"image": "i:1", "state": {"terminated": {"exitCode": 3, "message": "no room"}}}

    assert judge_pod(status(phase="Pending")) == Wait(why="")
    assert judge_pod(waiting_for("ContainerCreating")) == Wait(why="")
    assert judge_pod(waiting_for("InvalidImageName")).stuck
    assert "`i:1`" in judge_pod(waiting_for("ImagePullBackOff", "not found")).why
    assert "GPU" in judge_pod(status(phase="Pending", conditions=[unscheduled])).why
    assert judge_pod(status(phase="Failed", containerStatuses=[ended])) == Wait(
        why="it ended with exit code 3: no room", ended=True
    )
    late = judge_pod(status(phase="Failed", reason="DeadlineExceeded", message="too long"))
    assert late == Wait(why="it ended (DeadlineExceeded): too long", ended=True)


def test_a_helper_as_it_is_sent() -> None:
    """It is small, ours, mounts claims, has no rights, and ends by itself."""
    labels = {"launchbay/role": "helper"}
    made = render_helper("h", image="i", claims=["a", "b"], labels=labels, near="n1")
    spec, (main,) = made["spec"], made["spec"]["containers"]

    assert [one["mountPath"] for one in main["volumeMounts"]] == ["/claims/a", "/claims/b"]
    assert main["resources"]["requests"] == {"cpu": "100m", "memory": "256Mi"}
    assert (spec["restartPolicy"], spec["automountServiceAccountToken"]) == ("Never", False)
    assert spec["activeDeadlineSeconds"] == 86_400
    assert "n1" in json.dumps(spec["affinity"])
    assert "affinity" not in render_helper("h", image="i", claims=[], labels={})["spec"]


def test_what_a_target_says_holds_for_helpers() -> None:
    """Secrets to pull with, tolerations and the like are its helpers', too; nothing else is."""
    said_there = {
        "image_pull_secrets": "a, b",
        "tolerations": ["gpu"],
        "node_selector": {"zone": 1},
        "gpus": 8,
    }
    spec = helper_spec(said_there)

    assert spec["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    assert (spec["tolerations"][0]["key"], spec["nodeSelector"]) == ("gpu", {"zone": "1"})
    assert set(spec) == {"imagePullSecrets", "tolerations", "nodeSelector"}
    assert helper_spec({}) == {}


def test_a_helper_that_is_refused() -> None:
    """What a cluster says against it is told in words."""
    line = (
        'Error from server (Forbidden): error when creating "STDIN": pods "h" is forbidden: '
        "exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"
    )
    kubectl = Kubectl(Answering({"create": said(stderr=line, code=1)}), "lab", "ns")
    with (
        pytest.raises(Rejected, match=r"`lab` takes no helper: .*quota"),
        helper_pod(kubectl, image="i", claims=[], user="me"),
    ):
        pass


def test_marks_around_a_command() -> None:
    """What is missing of an answer is noticed; what kubectl adds is no part of it."""
    line = render_line("echo 'two\nlines'; code=$?", "m")
    done = LocalHost().run(["/bin/sh", "-c", f"bay_n='\n'\n{line}"])
    answer = parse_exec(done, "m")
    lost = parse_exec(said(done.stdout[:-4], done.stderr), "m")

    assert (answer.code, answer.stdout, answer.stderr) == ("0", b"two\nlines\n", b"")
    assert (lost.started, lost.code) == (True, "")


@pytest.mark.parametrize(
    ("stderr", "kind", "words"),
    [
        ('Error from server (NotFound): pods "p" not found', Unreachable, "does not run"),
        (
            'error: Internal error: unable to upgrade connection: container not found ("main")',
            Unreachable,
            "does not run",
        ),
        (
            "error: cannot exec into a container in a completed pod; current phase is Succeeded",
            Unreachable,
            "does not run",
        ),
        ('exec: "/bin/sh": stat /bin/sh: no such file or directory', Rejected, "no `/bin/sh`"),
        ("error: You must be logged in to the server (Unauthorized)", Unauthorized, "a login"),
        ("Unable to connect to the server: dial tcp: i/o timeout", Unreachable, "does not answer"),
        (
            'Error from server (Forbidden): pods "p" is forbidden: User "me" cannot exec',
            Rejected,
            "does not allow it",
        ),
        ("", Unreachable, "no word"),
    ],
)
def test_what_kubectl_means(stderr: str, kind: type[TargetError], words: str) -> None:
    """A call that never came to its command is explained."""
    host = PodHost(Kubectl(Answering({"exec": said(stderr=stderr, code=1)}), "lab", "ns"), "p")
    with pytest.raises(kind, match=words):
        host.run(["true"])


def test_a_terminal_and_a_port_of_a_pod() -> None:
    """A terminal goes through `exec`, a port through `port-forward`; words stay words."""
    host = PodHost(Kubectl(LocalHost(), "lab", "ns", context="c"), "p")

    assert host.terminal_argv(["a b"])[1:] == [
        *("--context=c", "--namespace=ns", "exec", "-q", "-i", "-t", "p", "-c", "main", "--"),
        "a b",
    ]
    assert host.forward_argv(80, "", 90)[-3:] == ["--address=127.0.0.1", "pod/p", "80:90"]


def test_claims_and_who_has_them() -> None:
    """Size, modes, phase, and the pods that have it now, by their runs where they are runs."""
    volumes = [{"persistentVolumeClaim": {"claimName": "a"}}, {"emptyDir": {}}]
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}}

    def user(name: str, phase: str, **labels: str) -> dict[str, Any]:
        return {
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"volumes": volumes},
            "status": {"phase": phase},
        }

    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "a"},
        "spec": spec,
        "status": {"phase": "Bound", "capacity": {"storage": "8Gi"}},
    }
    other = {**claim, "metadata": {"name": "b"}, "status": {}}
    run = user("r-1", "Running", **{"launchbay/run": "run-1"})
    found = parse_claims([other, claim, run, user("p", "Pending"), user("q", "Failed")])

    assert [(one.name, one.size, one.phase, one.used_by) for one in found] == [
        ("a", "8Gi", "Bound", ("p", "run-1")),
        ("b", "5Gi", "Pending", ()),
    ]
    assert found[0].modes == ("rwx",)


def test_a_claim_as_it_is_sent() -> None:
    """Mode and class as asked for, and nothing that nobody asked for."""
    made = render_claim("data", size_mib=100 * 1024, storage_class="", shared=True, user="me")
    other = render_claim("data", size_mib=1500, storage_class="fast", shared=False, user="me")

    assert made["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "100Gi"}},
    }
    assert other["spec"]["resources"] == {"requests": {"storage": "1500Mi"}}
    assert (other["spec"]["accessModes"], other["spec"]["storageClassName"]) == (
        ["ReadWriteOnce"],
        "fast",
    )
    with pytest.raises(BadRequest, match="no name of a claim"):
        render_claim("A_b", size_mib=1, storage_class="", shared=True, user="me")
