"""What breaks on a real Kubernetes, and what becomes of runs: none is lost, none is there twice."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import eventually
from tests.real.kubernetes_cluster import BUSYBOX

from launchbay.backends.kubernetes.backend import KubernetesBackend, open_kubernetes
from launchbay.core.backend import Opening, Refusal
from launchbay.core.errors import Rejected, TargetError, Unreachable
from launchbay.core.job import Job, Resources, Script
from launchbay.core.naming import run_id
from launchbay.core.run import Cause, Handle, State, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.real.kubernetes_cluster import Namespace

    from launchbay.core.backend import Plan

pytestmark = [pytest.mark.real, pytest.mark.slow]

FOREVER = "sleep 600"
LATEST_S = 180
"""Parts of a cluster that lost the API server ask it again after more than a minute, at times."""
LATEST = f"--timeout={LATEST_S}s"
SMALL = Resources(cpus=0.05, memory_mib=32)


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A user's backend for a namespace, and what happens there."""

    namespace: Namespace
    backend: KubernetesBackend

    def job(self, command: str, **more: Any) -> Job:
        """A run that keeps nothing."""
        made = Job(
            run_id=run_id("fault"),
            name="fault",
            experiment="faults",
            command=Script(command),
            image=BUSYBOX,
            resources=SMALL,
            options={"outputs_to": "none"},
        )
        options = {**made.options, **more.pop("options", {})}
        return replace(made, options=options, **more)

    def plan(self, jobs: Sequence[Job]) -> Plan:
        (plan,) = self.backend.plan(jobs)
        return plan

    def send(self, *jobs: Job) -> list[Handle]:
        """Submit, and expect that all are taken."""
        answers = list(self.backend.submit(self.plan(jobs)))
        handles = [answer for answer in answers if isinstance(answer, Handle)]
        assert len(handles) == len(jobs), answers
        return handles

    def see(self, handle: Handle) -> Status:
        """What became of a run by now."""
        return self.backend.poll([handle])[handle]

    def until(self, handle: Handle, test: Callable[[Status], bool]) -> Status:
        """The first status that passes."""
        found: list[Status] = []

        def passes() -> bool:
            found.append(self.see(handle))
            return test(found[-1])

        try:
            eventually(passes, within_s=LATEST_S)
        except pytest.fail.Exception:
            pytest.fail(f"it stays {found[-1]}")
        return found[-1]

    def begun(self, handle: Handle) -> Status:
        """Its status once its container runs."""
        return self.until(handle, lambda seen: seen.state is State.RUNNING)

    def over(self, handle: Handle) -> Status:
        """Its status once it has ended."""
        return self.until(handle, lambda seen: seen.state.final)

    def says(self, handle: Handle, words: str) -> Status:
        """Its status once its reason has these words."""
        return self.until(handle, lambda seen: words in seen.reason)

    def await_job(self, handle: Handle, word: str) -> None:
        """Wait until the cluster's controllers have come to an end with a Job."""
        name = f"job/{handle.native_id}"
        self.namespace.kubectl("wait", name, f"--for=condition={word}", LATEST)

    def is_taken_away(self, pod: str) -> bool:
        """Whether a pod is gone, and what was known of it with it."""
        found = self.namespace.admin("get", "pod", pod, "-o", "name", "--ignore-not-found")
        return not found

    def jobs(self) -> list[str]:
        """The names of all Jobs that are there."""
        found = self.namespace.admin("get", "jobs", "-o", "name").split()
        return sorted(line.rpartition("/")[2] for line in found)

    def make(self, kind: str, name: str, version: str = "v1", **fields: Any) -> None:
        """An object that an administrator makes."""
        made = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}
        self.namespace.admin("create", "-f", "-", input=json.dumps(made))


def opened(namespace: Namespace, name: str = "") -> KubernetesBackend:
    """The backend of the namespace's user, there or in another namespace."""
    options = {
        "namespace": name or namespace.name,
        "kubeconfig": str(namespace.kubeconfig),
        "user": "me",
    }
    return open_kubernetes(Opening(target="lab", options=options, root=namespace.kubeconfig))


@pytest.fixture
def desk(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The backend of a fresh namespace's user."""
    for name, value in namespace.cluster.environment(namespace.kubeconfig).items():
        monkeypatch.setenv(name, value)
    return Desk(namespace=namespace, backend=opened(namespace))


def test_api_server_is_stopped_while_it_is_asked(desk: Desk) -> None:
    """A look that breaks off says nothing of runs; the next one is right."""
    cluster = desk.namespace.cluster
    (handle,) = desk.send(desk.job(FOREVER))
    desk.begun(handle)
    heard: list[object] = []

    def look() -> None:
        try:
            heard.append(desk.see(handle))
        except TargetError as err:
            heard.append(err)

    cluster.pause_api()
    asking = threading.Thread(target=look)
    asking.start()
    cluster.stop_api()
    asking.join()
    with pytest.raises(Unreachable):
        desk.see(handle)
    with pytest.raises(Unreachable):
        desk.backend.cancel([handle])
    cluster.start_api()

    assert isinstance(heard[0], Unreachable), heard
    assert desk.begun(handle).allocation
    desk.backend.cancel([handle])
    assert desk.over(handle).state is State.CANCELLED
    desk.await_job(handle, "Failed")


def test_api_server_is_stopped_while_runs_are_sent(desk: Desk) -> None:
    """What broke off is sent again, and then each run is there, once."""
    cluster, count = desk.namespace.cluster, 200
    plan = desk.plan([desk.job("true", parallel=1) for _ in range(count)])
    answers: list[Handle | Refusal] = []

    def send() -> None:
        try:
            answers.extend(desk.backend.submit(plan))
        except Unreachable:
            answers.append(Refusal(run_id="", reason="", transient=True))

    sending = threading.Thread(target=send)
    with desk.namespace.watching("jobs") as first:
        sending.start()
        assert first.readline()
        cluster.stop_api()
    sending.join()
    with pytest.raises(Unreachable):
        list(desk.backend.submit(plan))
    cluster.start_api()
    made = desk.jobs()
    known = {answer.native_id for answer in answers if isinstance(answer, Handle)}
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    found = desk.backend.discover()
    again = list(desk.backend.submit(plan))
    taken = [answer for answer in again if isinstance(answer, Handle)]
    begun = [one for one, status in desk.backend.poll(taken).items() if not status.unfed]

    assert 0 < len(made) < count
    assert known <= set(made)
    assert refused
    assert all(answer.transient for answer in refused), refused
    assert {handle.native_id for handle in found} <= set(made)
    assert taken == again
    assert len(taken) == count
    assert desk.jobs() == sorted(job.run_id for job in plan.jobs)
    assert len(begun) == 1
    desk.await_job(begun[0], "Complete")


def test_kubelet_is_killed(desk: Desk) -> None:
    """What runs where nobody answers still runs; back again, the node tells how it ended."""
    cluster = desk.namespace.cluster
    (handle,) = desk.send(desk.job("sleep 15; exit 3"))
    pod = desk.begun(handle).allocation
    cluster.kill_kubelet()
    silent = desk.until(handle, lambda seen: bool(seen.reason))
    cluster.start_kubelet()
    status = desk.over(handle)

    assert (silent.state, silent.allocation) == (State.RUNNING, pod)
    assert silent.reason.startswith("its node `node1` does not answer")
    assert (status.state, status.cause, status.exit_code) == (State.FAILED, Cause.EXIT, 3)


def test_pod_is_deleted_behind_our_back(desk: Desk) -> None:
    """A run whose pod somebody deleted has failed, for somebody else ended it, and runs nowhere."""
    (handle,) = desk.send(desk.job(FOREVER))
    pod = desk.begun(handle).allocation
    desk.namespace.kubectl("delete", "pod", pod, "--wait=false", "--grace-period=1")
    status = desk.over(handle)

    assert (status.state, status.cause) == (State.FAILED, Cause.CANCELLED_ELSEWHERE)
    assert "its pod was deleted" in status.reason
    eventually(lambda: desk.is_taken_away(pod))


def test_job_is_deleted_behind_our_back(desk: Desk) -> None:
    """A run whose Job is gone is lost, and nothing makes it anew but a further attempt."""
    first = desk.job(FOREVER)
    (handle,) = desk.send(first)
    desk.begun(handle)
    desk.namespace.kubectl("delete", "job", handle.native_id, "--wait=false")
    status = desk.over(handle)
    (again,) = desk.send(replace(first, attempt=2, command=Script("true")))

    assert status.state is State.LOST
    assert f"its Job `{handle.native_id}` is gone" in status.reason
    assert desk.over(again).state is State.SUCCEEDED
    assert desk.jobs() == [again.native_id]


def test_pod_of_a_failed_run_is_deleted(desk: Desk) -> None:
    """How a run ended is still known when its pod was cleared away before anybody looked."""
    (handle,) = desk.send(desk.job("exit 3"))
    desk.namespace.kubectl("wait", f"job/{handle.native_id}", "--for=condition=Failed", LATEST)
    desk.namespace.kubectl("delete", "pods", "--all")
    status = desk.see(handle)

    assert (status.state, status.cause, status.exit_code) == (State.FAILED, Cause.EXIT, 3)


def test_image_is_missing(desk: Desk) -> None:
    """A run whose image cannot be pulled waits, says which and what to do, and can be cancelled."""
    (handle,) = desk.send(desk.job("true", image="bay.test/none:9"))
    status = desk.says(handle, "the image `bay.test/none:9` cannot be pulled")
    desk.backend.cancel([handle])

    assert (status.state, status.cause) == (State.QUEUED, Cause.IMAGE)
    assert "`image:`" in status.reason
    assert desk.over(handle).state is State.CANCELLED


def test_quota_is_exhausted(desk: Desk) -> None:
    """A run that the quota leaves no room for waits, says for what, and starts when there is."""
    desk.make("ResourceQuota", "small", spec={"hard": {"pods": "1"}})
    desk.namespace.admin("wait", "quota/small", "--for=jsonpath={.status.hard.pods}=1", LATEST)
    (first,) = desk.send(desk.job(FOREVER))
    desk.begun(first)
    (second,) = desk.send(desk.job("true"))
    status = desk.says(second, "the namespace's quota `small` is used up, pods: 1 of 1")
    desk.backend.cancel([first])

    assert status.state is State.QUEUED
    assert status.reason.startswith("it gets no pod: ")
    assert desk.over(second).state is State.SUCCEEDED


def test_quota_of_jobs_is_exhausted(desk: Desk) -> None:
    """Of runs that are sent together those that the quota has no room for are refused for now."""
    desk.make("ResourceQuota", "few", spec={"hard": {"count/jobs.batch": "1"}})
    full = r"--for=jsonpath={.status.hard.count/jobs\.batch}=1"
    desk.namespace.admin("wait", "quota/few", full, LATEST)
    jobs = [desk.job("true") for _ in range(3)]
    taken, *refused = desk.backend.submit(desk.plan(jobs))

    assert taken == Handle(jobs[0].run_id, "lab", jobs[0].run_id)
    assert [type(one) for one in refused] == [Refusal] * 2
    assert all(isinstance(one, Refusal) and one.transient for one in refused)
    assert all("quota `few` is used up, Jobs: 1 of 1" in str(one) for one in refused)


def test_pods_may_not_be_listed(desk: Desk) -> None:
    """Where only Jobs may be listed they tell how runs stand, and what is not known is said."""
    runs, ends, goes = desk.send(desk.job(FOREVER), desk.job("exit 3"), desk.job("true"))
    desk.begun(runs)
    for handle in (ends, goes):
        desk.over(handle)
    rules = json.loads(desk.namespace.admin("get", "role", "works", "-o", "json"))["rules"]
    for rule in rules:
        rule["resources"] = [one for one in rule["resources"] if one != "pods"]
    patch = json.dumps([{"op": "replace", "path": "/rules", "value": rules}])
    desk.namespace.admin("patch", "role", "works", "--type=json", "-p", patch)
    eventually(lambda: desk.namespace.run("auth", "can-i", "list", "pods").returncode)

    assert desk.over(goes).state is State.SUCCEEDED
    assert desk.over(ends).state is State.FAILED
    assert "its pods may not be listed" in desk.see(ends).reason
    assert "its pods may not be listed" in desk.begun(runs).reason


def test_namespace_without_rights(desk: Desk) -> None:
    """Where somebody has no rights nothing is sent and nothing is taken for lost."""
    cluster, other = desk.namespace.cluster, f"{desk.namespace.name}-other"
    cluster.kubectl("create", "namespace", other)
    try:
        foreign = opened(desk.namespace, other)
        job = desk.job("true")
        (plan,) = foreign.plan([job])
        (answer,) = foreign.submit(plan)
        with pytest.raises(Rejected, match=f"you may not list jobs in the namespace `{other}`"):
            foreign.poll([Handle(job.run_id, "lab", job.run_id)])
    finally:
        cluster.kubectl("delete", "namespace", other, "--wait=false")

    assert isinstance(answer, Refusal)
    assert not answer.transient
    assert f"you may not create configmaps in the namespace `{other}`" in answer.reason


def test_out_of_memory(desk: Desk) -> None:
    """A run that wants more memory than it may have says its limit, and how to ask for more."""
    (handle,) = desk.send(desk.job("tail /dev/zero"))
    status = desk.over(handle)

    assert (status.state, status.cause) == (State.FAILED, Cause.OOM)
    assert status.exit_code == 137
    assert "more memory than its limit of 39Mi; ask for more with `memory:`" in status.reason


def test_time_is_over(desk: Desk) -> None:
    """A run that takes longer than it may has failed for that."""
    limited = replace(SMALL, time_limit=timedelta(seconds=3))
    limit, deadline = desk.send(
        desk.job(FOREVER, resources=limited), desk.job(FOREVER, options={"deadline": "3s"})
    )

    assert desk.over(limit).cause is Cause.TIMEOUT
    assert "its time limit of 3s was over" in desk.see(limit).reason
    assert desk.over(deadline).cause is Cause.TIMEOUT
    assert "its deadline of 3s was over" in desk.see(deadline).reason


def test_no_node_has_so_much(desk: Desk) -> None:
    """A run that no node can take waits, and says for which resource."""
    big, many = desk.send(
        desk.job("true", resources=replace(SMALL, cpus=900)),
        desk.job("true", resources=replace(SMALL, gpus=64)),
    )

    assert desk.says(big, "waits for CPUs").state is State.QUEUED
    assert desk.says(many, "waits for GPUs").state is State.QUEUED


def test_makes_way(desk: Desk) -> None:
    """A run that has to make way for a more urgent pod says so, once its pod is gone."""
    cluster = desk.namespace.cluster
    urgent = f"{desk.namespace.name}-urgent"
    (handle,) = desk.send(desk.job(FOREVER, resources=replace(SMALL, gpus=2)))
    pod = desk.begun(handle).allocation
    desk.make("PriorityClass", urgent, "scheduling.k8s.io/v1", value=1000)
    try:
        limits = {"limits": {"nvidia.com/gpu": "2"}}
        main = {"name": "main", "image": BUSYBOX, "command": ["true"], "resources": limits}
        spec = {"restartPolicy": "Never", "priorityClassName": urgent, "containers": [main]}
        desk.make("Pod", "urgent", spec=spec)
        eventually(lambda: desk.is_taken_away(pod))
        status = desk.over(handle)
    finally:
        cluster.kubectl("delete", "priorityclass", urgent)

    assert (status.state, status.cause) == (State.FAILED, Cause.PREEMPTED)
    assert "make way for a pod of higher priority" in status.reason


def test_is_evicted(desk: Desk) -> None:
    """A run whose node is being emptied says that it had to leave, though its pod is gone."""
    (handle,) = desk.send(desk.job(FOREVER))
    pod = desk.begun(handle).allocation
    where = f"/api/v1/namespaces/{desk.namespace.name}/pods/{pod}/eviction"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    desk.namespace.admin("create", "--raw", where, "-f", "-", input=json.dumps(eviction))
    eventually(lambda: desk.is_taken_away(pod))
    status = desk.over(handle)

    assert (status.state, status.cause) == (State.FAILED, Cause.NODE)
    assert "it had to leave its node" in status.reason


def test_wrote_more_than_its_disk(desk: Desk) -> None:
    """A run that writes more than its share of a node's disk is evicted, and says what to ask."""
    resources = replace(SMALL, disk_mib=10)
    command = f"head -c 60000000 /dev/zero >/tmp/big; {FOREVER}"
    (handle,) = desk.send(desk.job(command, resources=resources))
    status = desk.over(handle)

    assert (status.state, status.cause) == (State.FAILED, Cause.NODE)
    assert "ask for more with `disk:`" in status.reason
