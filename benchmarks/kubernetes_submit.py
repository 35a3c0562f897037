"""How long 500 Jobs take to be with a Kubernetes, beside `kubectl` by hand; what asking costs.

Bounds: planning and submitting is at least 15 times as fast as one `kubectl create` process for
each Job, and has at least half the rate of one plain `kubectl create` of the same list; what became
of all 500 is known from one call of `kubectl`. Each is the best of several. The Kubernetes is the
tests' own, on this machine, so this needs root; its controllers are stopped while Jobs are made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.real.kubernetes_cluster import BUSYBOX, KubernetesCluster, Namespace

from launchbay.backends.kubernetes.backend import open_kubernetes
from launchbay.backends.kubernetes.sending import SEPARATOR
from launchbay.core.backend import Opening
from launchbay.core.job import Argv, Job, Resources
from launchbay.core.naming import run_id
from launchbay.core.run import Handle

if TYPE_CHECKING:
    from launchbay.backends.kubernetes.backend import KubernetesBackend
    from launchbay.core.run import Status

RUNS = 500
SINGLE = 40
ROUNDS = 4
LEAST_TIMES = 15.0
LEAST_RATE = 0.5
# Nothing may start: 500 pods are more than a machine of tests holds.
OPTIONS = {"outputs_to": "none", "node_selector": {"nowhere": "yes"}}
# The runs of a sweep share what they are given.
NEEDS = Resources()
WRAPPER = """\
#!/bin/sh
echo "$$" >>'{calls}'
exec '{kubectl}' "$@"
"""


def main() -> int:
    """Print the times with their bounds; 1 when one is missed."""
    cluster = KubernetesCluster()
    with tempfile.TemporaryDirectory(prefix="bay-bench-", dir="/tmp") as name:
        cluster.start()
        try:
            place = cluster.namespace()
            os.environ.update(cluster.environment(place.kubeconfig))
            held = compare(cluster, place, Path(name))
        finally:
            cluster.stop()
    for claim, true in held.items():
        print(f"{'ok' if true else 'MISSED':<6} {claim}")
    return 0 if all(held.values()) else 1


def compare(cluster: KubernetesCluster, place: Namespace, folder: Path) -> dict[str, bool]:
    """Print what was measured; the claims, and whether they hold."""
    backend = open_kubernetes(
        Opening(target="cluster", options={"namespace": place.name}, root=folder)
    )
    # Making pods is the cluster's own work, and would be timed, too.
    for name in ("controller-manager", "scheduler"):
        process = cluster.processes.pop(name)
        process.kill()
        process.wait()
    ours, plain, singly = [], [], []
    for _ in range(ROUNDS):
        plain.append(time_plain(backend, folder))
        ours.append(time_launchbay(backend, place))
        singly.append(time_singly(backend, folder))
    best, once, each = min(ours), min(plain), min(singly)
    cluster.clean()
    calls, took = count_calls(backend, place, folder)
    print(f"bay, planned and sent     {RUNS} in {best:.2f} s, {RUNS / best:.0f} a second")
    print(f"one `kubectl create`      {RUNS} in {once:.2f} s, {RUNS / once:.0f} a second")
    print(f"one process for each      {RUNS} in {each:.1f} s, by {SINGLE} of them")
    print(f"{each / best:.1f} times one process each; {once / best:.2f} of the rate of one list")
    print(f"the status of all takes {calls} call{'s' * (calls != 1)} and {took * 1000:.0f} ms")
    return {
        f"at least {LEAST_TIMES:g} times one process each": each >= LEAST_TIMES * best,
        f"at least {LEAST_RATE:g} of the rate of one list": once / best >= LEAST_RATE,
        "the status of all in one call": calls == 1,
    }


def make_jobs(count: int) -> list[Job]:
    """Runs of a sweep that nobody has sent before."""
    return [
        Job(
            run_id=run_id(f"bench-{number}"),
            name=f"bench-{number}",
            experiment="bench",
            command=Argv(("true", str(number))),
            params={"seed": str(number)},
            image=BUSYBOX,
            resources=NEEDS,
            options=OPTIONS,
        )
        for number in range(count)
    ]


def time_launchbay(backend: KubernetesBackend, place: Namespace) -> float:
    """Seconds to plan and submit all."""
    forget_jobs(place)
    jobs = make_jobs(RUNS)
    began = time.perf_counter()
    answers = [one for plan in backend.plan(jobs) for one in backend.submit(plan)]
    took = time.perf_counter() - began
    if sum(isinstance(one, Handle) for one in answers) != RUNS:
        raise SystemExit(f"not all were taken: {answers[0]}")
    return took


def time_plain(backend: KubernetesBackend, folder: Path) -> float:
    """Seconds of one `kubectl create` of the same list."""
    path = folder / "list.yaml"
    path.write_text(SEPARATOR.join(documents(backend, RUNS)))
    began = time.perf_counter()
    subprocess.run(["kubectl", "create", "-f", str(path)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def time_singly(backend: KubernetesBackend, folder: Path) -> float:
    """Seconds that all would take with one process each, from some of them."""
    paths = []
    for number, text in enumerate(documents(backend, SINGLE)):
        paths.append(folder / f"job{number}.yaml")
        paths[-1].write_text(text)
    began = time.perf_counter()
    for path in paths:
        words = ["kubectl", "create", "-f", str(path)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * RUNS / SINGLE


def documents(backend: KubernetesBackend, count: int) -> list[str]:
    """The Jobs as they would be sent, without what they share."""
    texts = [plan.document.split(SEPARATOR)[1:] for plan in backend.plan(make_jobs(count))]
    return [text for some in texts for text in some]


def count_calls(backend: KubernetesBackend, place: Namespace, folder: Path) -> tuple[int, float]:
    """How many processes of `kubectl` it takes to know what became of all, and how long."""
    forget_jobs(place)
    answers = [one for plan in backend.plan(make_jobs(RUNS)) for one in backend.submit(plan)]
    handles = [one for one in answers if isinstance(one, Handle)]
    while len(place.admin("get", "pods", "-o", "name").split()) < RUNS:
        time.sleep(0.5)
    calls = folder / "calls"
    wrapper = folder / "bin" / "kubectl"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER.format(calls=calls, kubectl=shutil.which("kubectl")))
    wrapper.chmod(0o755)
    os.environ["PATH"] = f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}"
    began = time.perf_counter()
    found: dict[Handle, Status] = backend.poll(handles)
    took = time.perf_counter() - began
    if {status.state.value for status in found.values()} != {"queued"} or len(found) != RUNS:
        raise SystemExit("not all of them wait")
    return len(calls.read_text().splitlines()), took


def forget_jobs(place: Namespace) -> None:
    """Remove all Jobs, and wait until they are gone."""
    place.admin("delete", "jobs", "--all", "--wait=false")
    while place.admin("get", "jobs,pods", "-o", "name"):
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
