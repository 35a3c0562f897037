"""Kubernetes' reasons and refusals, in words that say what to try next."""

from __future__ import annotations

import json

import pytest
from tests.conftest import DATA

from launchbay.backends.kubernetes.reasons import (
    explain_eviction,
    explain_mount,
    explain_refusal,
    explain_start,
    explain_unschedulable,
    explain_waiting,
    is_there,
    of_pod_reason,
    refused_lines,
    which_object,
)
from launchbay.core.run import Cause

REFUSALS = json.loads((DATA / "kubernetes_captured" / "refusals.json").read_text())
"""What a real `kubectl create` complained about, by what was wrong."""
VICTIMS = " preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod."
USELESS = " preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    ("what", "named", "says"),
    [
        ("create-forbidden", "", "you may not create jobs in the namespace `lab`"),
        ("unknownfield", "", 'unknown field "spec.nosuch"; correct `override:`'),
        ("badkind", "", "the cluster knows no `Job` of this version"),
        ("nonamespace", "", "no namespace `nosuchns`; correct the target's `namespace:`"),
        ("bigmap", "configmap/big", "larger than the cluster takes"),
        ("bigann", "job/bigann", "larger than the cluster takes"),
        ("huge", "", "larger than the cluster takes"),
        ("denied", "job/denied", "`lab`, denies it: a label deny is not allowed here"),
    ],
)
def test_refused_for_good(what: str, named: str, says: str) -> None:
    """What trying again cannot help is said to be that, with what is wrong and the way out."""
    line = refused_lines(REFUSALS[what])[0]
    refused = explain_refusal(line)

    assert says in refused.reason
    assert not refused.transient
    assert which_object(line) == named


@pytest.mark.parametrize(
    ("what", "named", "says"),
    [
        ("jobquota", "job/over1", "quota `count` is used up, Jobs: 3 of 1 are in use; `bay rm`"),
        ("mapquota", "configmap/m1", "ConfigMaps: 1 of 1"),
        ("webhook", "", "has to ask `pods.example.com` first, which does not answer"),
    ],
)
def test_refused_for_now(what: str, named: str, says: str) -> None:
    """What may be taken later is said to be that."""
    line = refused_lines(REFUSALS[what])[0]
    refused = explain_refusal(line)

    assert says in refused.reason
    assert refused.transient
    assert which_object(line) == named


def test_each_object_has_its_line() -> None:
    """Of many that are refused at once each is explained by its own line, with the key at fault."""
    name, _, requests = refused_lines(REFUSALS["invalid"])

    assert which_object(name) == "job/Bad_Name"
    assert "`metadata.name`: Invalid value" in explain_refusal(name).reason
    assert which_object(requests) == "job/req"
    assert explain_refusal(requests).reason.endswith("cpu limit of 1; correct `cpus:`")


def test_there_already() -> None:
    """An object that exists is no refusal; one that is on its way out is, for a moment."""
    (line,) = REFUSALS["exists"].strip().splitlines()
    leaving = line.replace("jobs.batch", "object is being deleted: jobs.batch")

    assert is_there(line)
    assert which_object(line) == "job/listed"
    assert refused_lines(REFUSALS["exists"]) == []
    assert not is_there(leaving)
    assert explain_refusal(leaving).transient


def test_warnings_refuse_nothing() -> None:
    """What kubectl only warns of is not taken for a refusal."""
    assert REFUSALS["podsec-job"].startswith("Warning: ")
    assert refused_lines(REFUSALS["podsec-job"]) == []


@pytest.mark.parametrize(
    "line",
    [
        "Error from server (ServiceUnavailable): the server is currently unable to handle it",
        "Error from server (InternalError): error when creating: etcdserver: request timed out",
        "Unable to connect to the server: net/http: TLS handshake timeout",
        "",
    ],
)
def test_no_answer_is_for_now(line: str) -> None:
    """A cluster that did not answer may do so later."""
    assert explain_refusal(line).transient


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            (
                "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=1, limited: "
                "requests.cpu=1"
            ),
            (
                "CPUs: 1 of 1 are in use and it asks for 500m; it starts by itself when others "
                "end, or ask for less with `cpus:`"
            ),
        ),
        (
            (
                "exceeded quota: q, requested: cpu=1,requests.nvidia.com/gpu=2, used: "
                "cpu=8,requests.nvidia.com/gpu=0, limited: cpu=8,requests.nvidia.com/gpu=1"
            ),
            "it asks for GPUs: 2, and the namespace's quota `q` gives 1 in all",
        ),
        ("exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3", "pods: 3 of 3"),
        (
            "failed quota: q: must specify limits.cpu for: main; limits.memory for: main",
            "set `cpus:` and `memory:`",
        ),
        (
            "maximum memory usage per Container is 1Gi, but limit is 4Gi",
            "memory of 1Gi at the most, and it asks for 4Gi; ask for less with `memory:`",
        ),
        (
            (
                "[minimum cpu usage per Pod is 1, but request is 100m, maximum memory usage per "
                "Pod is 1Gi, but limit is 4Gi]"
            ),
            "one pod CPUs of 1 at the least, and it asks for 100m; ask for more with `cpus:`",
        ),
        (
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            "2 times the request at most; set `limit_ratio:` lower",
        ),
        (
            'admission webhook "gpu.lab" denied the request: ask for a GPU',
            "`gpu.lab`, denies it: ask for a GPU; change",
        ),
        (
            'violates PodSecurity "restricted:latest": runAsNonRoot != true',
            "add what is missing with `override:`",
        ),
        (
            'error looking up service account lab/robot: serviceaccount "robot" not found',
            "no service account `robot`; correct `service_account:`",
        ),
        ("no PriorityClass with name high was found", "correct `priority_class:`"),
        (
            "unable to create new content in namespace lab because it is being terminated",
            "`lab` is being removed",
        ),
        ("something new", "the cluster refused it: "),
    ],
)
def test_pods_that_are_not_made(message: str, says: str) -> None:
    """Why a Job gets no pod is said with the amounts, and the key that changes them."""
    assert says in explain_refusal(f'Error creating: pods "a-" is forbidden: {message}').reason


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            (
                "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) had untolerated "
                f"taint {{x: y}}.{VICTIMS}"
            ),
            (
                "waits for GPUs: not enough is free on 1 of 4 nodes; others: 3 with the taint `x`, "
                "see `tolerations:`"
            ),
        ),
        (
            f"0/4 nodes are available: 4 Insufficient cpu.{USELESS}",
            (
                "waits for CPUs: no node that it may use has so much, even empty; ask for less "
                "with `cpus:`"
            ),
        ),
        (
            (
                "0/4 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/"
                "unreachable: }, 2 Insufficient cpu, 3 Insufficient memory."
            ),
            "waits for CPUs and memory: not enough is free on 3 of 4 nodes; others: 1 unreachable",
        ),
        (
            (
                "0/2 nodes are available: 1 node(s) had taint {a: b}, that the pod didn't "
                "tolerate, 1 node(s) were unschedulable."
            ),
            (
                "no node takes it; of 2: 1 with the taint `a`, see `tolerations:`, 1 closed for "
                "maintenance"
            ),
        ),
        (
            "0/1 nodes are available: 1 Too many pods.",
            "waits for pods: not enough is free on 1 of 1 nodes",
        ),
        (
            'persistentvolumeclaim "data" not found',
            "the volume claim `data` is not there; make it, or correct `volumes:`",
        ),
        (
            "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "a volume claim that it mounts has no volume yet; `kubectl get pvc` shows which",
        ),
        (
            "0/1 nodes are available: 1 something new.",
            "no node takes it; of 1: 1 something new",
        ),
        (
            "no nodes available to schedule pods",
            "the cluster has no nodes that are up; it starts by itself when some are",
        ),
        ("a new sentence.", "no node takes it: a new sentence"),
        ("", "no node takes it"),
    ],
)
def test_no_node_takes_it(message: str, says: str) -> None:
    """What the scheduler says becomes the resource that is short and why other nodes do not do."""
    assert explain_unschedulable(message) == says


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("failed to resolve reference: not found", "correct the name or the tag in `image:`"),
        ("manifest unknown", "correct the name or the tag in `image:`"),
        ("pull access denied, repository does not exist or may require", "or wants a login"),
        ("401 Unauthorized", "name a secret with `image_pull_secrets:`"),
        ("dial tcp: lookup x: no such host", "its registry does not answer"),
        ("toomanyrequests: rate limit", "lets nobody pull so often"),
        ("no match for platform in manifest", "for the processors of its node"),
        ("no space left on device", "no room for it"),
        ("", "correct its name or tag in `image:`, or name a secret"),
    ],
)
def test_image_is_not_pulled(message: str, says: str) -> None:
    """Why an image cannot be pulled is said with its name, which is no reason itself."""
    image = "lab.example/not-found:401"
    said = explain_waiting(
        "ImagePullBackOff", f'Back-off pulling image "{image}": {message}', image
    )

    assert said.startswith(f"the image `{image}` cannot be pulled: ")
    assert says in said


@pytest.mark.parametrize(
    ("reason", "message", "says"),
    [
        ("InvalidImageName", "", "`a` is no name of an image"),
        ("ErrImageNeverPull", "", "may not pull it"),
        ("CreateContainerConfigError", 'secret "key" not found', "the secret `key` is not there"),
        (
            "CreateContainerConfigError",
            "couldn't find key token in Secret lab/key",
            "secret `key` has no key `token`",
        ),
        (
            "CreateContainerConfigError",
            "container has runAsNonRoot and image will run as root",
            "runs as root",
        ),
        ("RunContainerError", "exec format error", "for other processors"),
        ("CreateContainerError", "odd", "cannot be started: odd"),
        ("PodInitializing", "", "`server:`"),
        ("CrashLoopBackOff", "", "again and again"),
        ("ContainerCreating", "", "makes its container ready"),
        ("Novelty", "of a kind", "Novelty, of a kind"),
    ],
)
def test_container_waits(reason: str, message: str, says: str) -> None:
    """Why a container has not started is said in words, also where the word is new."""
    assert says in explain_waiting(reason, message, "a")


def test_image_without_a_shell() -> None:
    """An image in which nothing can be started is named, with what it lacks."""
    said = explain_start('exec: "/bin/sh": stat /bin/sh: no such file or directory', "bare:1")

    assert said == "the image `bare:1` has no `/bin/sh`; take one with a POSIX shell in `image:`"


@pytest.mark.parametrize(
    ("reason", "message", "says"),
    [
        ("FailedMount", 'SetUp failed for volume "v": secret "s" not found', "secret `s`"),
        ("FailedMount", 'persistentvolumeclaim "data" not found', "`volumes:`"),
        ("FailedAttachVolume", "Multi-Attach error for volume", "another node holds a volume"),
        ("FailedMount", "mount failed: exit status 32", "a volume cannot be mounted: mount failed"),
        ("FailedCreatePodSandBox", "no network", "cannot make its pod: no network"),
        ("Pulled", "Container image is there", ""),
    ],
)
def test_what_events_of_a_pod_mean(reason: str, message: str, says: str) -> None:
    """Events tell what a pod lacks on its node; those that are no trouble say nothing."""
    said = explain_mount(reason, message)

    assert says in said
    assert bool(said) == bool(says)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. ",
            "it wrote more to its scratch disk than its limit of 10Mi; ask for more with `disk:`",
        ),
        (
            'Usage of EmptyDir volume "dshm" exceeds the limit "1Gi". ',
            "more than 1Gi to its volume `dshm`; ask for more with `shm:`",
        ),
        (
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 40Mi.",
            "its node had no memory left, ask for as much as it uses with `memory:`",
        ),
        ("something new", "its node evicted it: something new"),
    ],
)
def test_evicted(message: str, says: str) -> None:
    """Why a node threw a pod out is said, with the key that asks for more."""
    assert says in explain_eviction(message)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Preempting", Cause.PREEMPTED),
        ("Terminated", Cause.NODE),
        ("NodeLost", Cause.NODE),
        ("OutOfcpu", Cause.NODE),
        ("UnexpectedAdmissionError", Cause.NODE),
        ("Novelty", None),
    ],
)
def test_reasons_of_pods(reason: str, cause: Cause | None) -> None:
    """What a node says of a pod has a cause; what it never said before has none."""
    found = of_pod_reason(reason)

    assert (found[0] if found else None) == cause
