"""What a person does with a namespace of a real Kubernetes, from `bay run` to `bay rm`."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import STRESS, eventually
from tests.real.kubernetes_cluster import BUSYBOX_USER, PYTHON
from tests.real.kubernetes_desk import KubernetesDesk, kubernetes_desk
from tests.real.object_servers import FaultyProxy, RcloneServer
from tests.real.slurm_cluster import free_ports
from tests.real.test_real_slurm_secrets import Onlooker

from launchbay.sync.bucket import open_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Bay
    from tests.real.kubernetes_cluster import KubernetesCluster, Namespace

    from launchbay.sync.bucket import BucketOptions

pytestmark = [pytest.mark.real, pytest.mark.slow]

ON_CLAIM = {"outputs_to": "claim:results"}
KILLS = 50 if STRESS else 5


@pytest.fixture
def desk(bay: Bay, kubernetes: KubernetesCluster, namespace: Namespace) -> Iterator[KubernetesDesk]:
    """The lab of an ordinary user."""
    with kubernetes_desk(bay, kubernetes, namespace) as made:
        yield made


@contextmanager
def bucket_beside(desk: KubernetesDesk) -> Iterator[tuple[BucketOptions, str]]:
    """A bucket, as this machine knows it, and the address that pods know it by."""
    server = RcloneServer(host=desk.namespace.cluster.gateway)
    server.start()
    try:
        with FaultyProxy(server.url, {}) as proxy:
            yield proxy.before(server.fresh()), server.url
    finally:
        server.stop()


def test_sweep_with_its_outputs_on_a_claim(desk: KubernetesDesk) -> None:
    """A sweep runs, and its table, logs and outputs are there; also once the Jobs are gone."""
    write = (
        """echo '{"loss": <lr>}' >"$BAY_OUT/metrics.jsonl"; mkdir outputs; echo <lr> >outputs/x"""
    )
    desk.write(f"{write}\necho says <lr>", params={"lr": ["1", "2", "3"]}, site=ON_CLAIM)
    said = desk.bay("run")
    (one, _, _) = sorted(desk.rows(), key=lambda row: row["params"]["lr"])

    assert "3 succeeded" in said.err
    assert sorted(row["metrics"]["loss"] for row in desk.rows()) == [1, 2, 3]
    assert one["out"] == f"claim:results/launchbay/runs/{one['id']}/out"
    desk.once(3)
    desk.forget_jobs()
    assert desk.bay("logs", one["id"]).out == "says 1\n"
    desk.bay("fetch", one["id"])
    fetched = desk.bay.project / "results" / one["experiment"] / one["id"]
    assert (fetched / "out/outputs/x").read_text() == "1\n"
    assert (fetched / "log.txt").read_text() == "says 1\n"
    again = desk.bay("run")
    assert "nothing to submit" in again.err or "0 to submit" in again.err


def test_log_that_was_followed_is_still_there(desk: KubernetesDesk) -> None:
    """What somebody saw of a log is kept here, whatever becomes of the pod."""
    desk.write("echo one; sleep 2; echo two")
    said = desk.bay("run")
    desk.forget_jobs()

    assert said.out == "one\ntwo\n"
    assert desk.bay("logs").out == "one\ntwo\n"


def test_log_that_nobody_saw_goes_with_its_pod(desk: KubernetesDesk) -> None:
    """Where nothing of it is left, that is said."""
    desk.write("echo one")
    desk.bay("run", "--detach")
    desk.await_states("succeeded")
    desk.forget_jobs()
    said = desk.bay("logs")

    assert (said.out, "or its log is gone from lab" in said.err) == ("", True)


def test_long_log_is_followed_without_loss(desk: KubernetesDesk, tmp_path: Path) -> None:
    """200 MB that the cluster does not keep come whole, in memory that does not grow with them."""
    size = 200_000_000
    desk.write(f"yes 0123456789abcdef | head -c {size}", site={"memory": "256M"})
    seen = tmp_path / "seen"
    megabytes = desk.bay.weigh("run", to=seen)
    expected = hashlib.sha256((b"0123456789abcdef\n" * (size // 17 + 1))[:size]).hexdigest()
    (row,) = desk.rows()
    kept = desk.bay.project / ".bay/runs" / row["id"] / "attempts/1/log-0.txt"

    assert seen.stat().st_size == size
    assert hashlib.sha256(seen.read_bytes()).hexdigest() == expected
    assert kept.stat().st_size == size
    assert megabytes < 200


def test_secret_is_seen_by_nobody(desk: KubernetesDesk) -> None:
    """A secret reaches its run, and is in no object but its Secret, in no log, index or process."""
    value, word = "k3y-of-the-f1le-7731 $(x)", "w0rd-of-the-shell-8842"
    desk.bay.write(".env", f"API_KEY='{value}'\n").chmod(0o600)
    desk.bay.extra["WORD"] = word
    desk.write('printf "%s|%s" "$API_KEY" "$WORD" | sha256sum', secrets=["WORD"])
    everything = "jobs,pods,configmaps,events,services,pvc"
    with Onlooker([value.encode(), word.encode()]) as onlooker:
        desk.bay("run", "--detach")
        objects = desk.namespace.admin("get", everything, "-o", "yaml")
        desk.await_states("succeeded")
    objects += desk.namespace.admin("get", everything, "-o", "yaml")
    digest = hashlib.sha256(f"{value}|{word}".encode()).hexdigest()
    here = [path.read_bytes() for path in desk.bay.home.rglob("*") if path.is_file()]
    here += [path.read_bytes() for path in (desk.bay.project / ".bay").rglob("*") if path.is_file()]

    assert digest in desk.bay("logs").out
    assert onlooker.looks > 1
    assert not onlooker.seen
    secrets = json.loads(desk.namespace.admin("get", "secrets", "-o", "json"))["items"]
    assert [sorted(one["data"]) for one in secrets] == [["API_KEY", "WORD"]]
    for secret in (value, word):
        assert secret not in objects
        assert not [data for data in here if secret.encode() in data]
    said = desk.bay("rm", desk.rows()[0]["id"], "--yes")
    assert not json.loads(desk.namespace.admin("get", "secrets", "-o", "json"))["items"], said


def kill_while_sending(desk: KubernetesDesk, only: str, before: int) -> None:
    """Begin a launch, and kill it as soon as one of its Jobs is there."""
    process = desk.bay.start("run", "--detach", "--only", only, "--yes")

    def begun() -> bool:
        names = desk.namespace.kubectl("get", "jobs", "-o", "name").split()
        return len(names) > before or process.poll() is not None

    eventually(begun)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_killed_launch_is_gone_on_with(desk: KubernetesDesk) -> None:
    """However often `bay run` is killed while it sends, in the end each run has run once."""
    params = {"n": f"0..{5}", "round": [str(number) for number in range(KILLS)]}
    desk.write("true", params=params)
    for number in range(KILLS):
        kill_while_sending(desk, f"round={number}", 6 * number)
    desk.bay("run", "--detach", "--yes")
    desk.await_states("succeeded")

    desk.once(6 * KILLS)


def test_only_so_many_run_at_once(desk: KubernetesDesk) -> None:
    """With a cap the rest wait for their turn, in order, and all get it."""
    count = "touch /marks/now-<n>; ls /marks | grep -c now- >>/marks/counts"
    watch = f"{count}; sleep 1; rm /marks/now-<n>"
    desk.write(watch, params={"n": "0..4"}, parallel=2)
    desk.bay("run", "--detach")
    suspended = [job["metadata"]["name"] for job in desk.jobs() if job["spec"].get("suspend")]
    waiting = [row for row in desk.rows() if "its turn" in row["reason"]]
    desk.bay("watch", stdin=None)

    counts = [int(line) for line in (desk.shared / "counts").read_text().split()]
    assert len(suspended) == 3
    assert waiting
    assert max(counts) <= 2
    assert len(counts) == 5
    begun = [line.split()[0] for line in desk.marks]
    order = {row["id"]: int(row["params"]["n"]) for row in desk.rows()}
    assert sorted(order[one] for one in begun[:2]) == [0, 1]
    desk.once(5)


def test_cancelled_run_keeps_its_log(desk: KubernetesDesk) -> None:
    """Cancelling ends a run from inside: its last words stay; what waits never starts."""
    desk.write("trap 'echo saved; exit 1' TERM\necho ready; sleep 100 & wait", params={"n": ["0"]})
    desk.bay("run", "--detach")
    desk.await_marks(1)
    desk.bay("cancel", desk.rows()[0]["id"], "--yes")
    (row,) = desk.await_states("cancelled")

    assert desk.bay("logs", row["id"]).out == "ready\nsaved\n"


def test_waiting_run_is_cancelled_before_it_starts(desk: KubernetesDesk) -> None:
    """A run that no node has room for is cancelled like any other."""
    desk.write("true", site={"cpus": "999"})
    said = desk.bay("run", "--detach", code=None)
    if said.code:
        # The cluster was seen, and nothing of that size is in it.
        assert "999" in said.err
        desk.write("true", site={"node_selector": {"no": "such"}})
        desk.bay("run", "--detach")
    eventually(lambda: desk.rows()[0]["reason"])
    desk.bay("cancel", desk.rows()[0]["id"], "--yes")
    desk.await_states("cancelled")

    assert not desk.marks


def test_evicted_run_is_tried_again(desk: KubernetesDesk) -> None:
    """A pod that the cluster takes away is nobody's fault: the next attempt is a Job of its own."""
    text = 'if [ "$BAY_ATTEMPT" = 1 ]; then sleep 100; fi; echo done'
    desk.write(text, retries=1)
    process = desk.bay.start("run")
    desk.await_marks(1)
    (pod,) = desk.namespace.kubectl("get", "pods", "-o", "name").split()
    name = pod.removeprefix("pod/")
    path = f"/api/v1/namespaces/{desk.namespace.name}/pods/{name}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": {"gracePeriodSeconds": 1},
    }
    desk.namespace.admin("create", "--raw", path, "-f", "-", input=json.dumps(body))
    out, err = process.communicate(timeout=120)

    (row,) = desk.rows()
    assert (row["state"], row["attempt"], row["native_id"]) == ("succeeded", 2, f"{row['id']}-2")
    assert "tried again" in err, out
    assert [line.split()[1] for line in desk.marks] == ["1", "2"]


def test_code_of_the_image_with_files_laid_over_it(desk: KubernetesDesk) -> None:
    """`code: image` runs where the image is; listed files are there byte for byte."""
    data = bytes(range(256)) * 3 + b"no newline"
    desk.bay.write(".gitignore", "data\n")
    (desk.bay.project / "data/deep").mkdir(parents=True)
    (desk.bay.project / "data/deep/a b.bin").write_bytes(data)
    desk.bay.write("other.txt", "stays here\n")
    desk.write('pwd; sha256sum "data/deep/a b.bin"; ls other.txt', code="image", file=["data/deep"])
    desk.bay("run", code=1)
    lines = desk.bay("logs").out.splitlines()

    assert lines[0] == "/"
    assert lines[1].split()[0] == hashlib.sha256(data).hexdigest()
    assert "No such file" in lines[2]


def test_files_laid_over_frozen_code(desk: KubernetesDesk) -> None:
    """Files of `file:` travel with the code although git ignores them."""
    desk.bay.write(".gitignore", "secret-data\n")
    desk.bay.write("secret-data", "x\ty")
    desk.bay.write("train.sh", "cat secret-data")
    desk.write("sh train.sh", file=["secret-data", ".env"])

    assert desk.bay("run").out == "x\ty"


def test_big_code_goes_over_a_claim(desk: KubernetesDesk) -> None:
    """Code that objects cannot hold is put on the claim; without one it is refused in words."""
    (desk.bay.project / "noise.bin").write_bytes(os.urandom(9_000_000))
    desk.write("wc -c <noise.bin", params={"n": ["0", "1"]})
    said = desk.bay("run", "--detach", code=None)
    refused = said.err + json.dumps(desk.rows())
    desk.write("wc -c <noise.bin", params={"n": ["0", "1"]}, site=ON_CLAIM)
    desk.bay("run", "--detach")
    desk.await_states("succeeded")

    assert "more than the 8 MB that objects of the cluster hold" in refused
    assert {desk.bay("logs", row["id"]).out.strip() for row in desk.rows()} == {"9000000"}


def test_ordinary_user_in_an_image_that_nobody_can_write(desk: KubernetesDesk) -> None:
    """Neither root nor a writable image is needed."""
    security: dict[str, Any] = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}
    pod = {"containers": {"main": {"securityContext": security}}}
    site = {"image": BUSYBOX_USER, "override": {"spec": {"template": {"spec": pod}}}}
    desk.bay.write("code.txt", "code\n")
    desk.write('id -u; cat code.txt; touch /no 2>/dev/null || echo "read-only"', site=site)

    assert desk.bay("run").out == "1000\ncode\nread-only\n"


def test_metrics_that_a_pattern_reads(desk: KubernetesDesk) -> None:
    """A program left alone has its numbers read from its log."""
    desk.write("echo acc=0.25; echo acc=0.5", metrics={"acc": "acc=([0-9.]+)"})
    desk.bay("run")

    assert desk.rows()[0]["metrics"] == {"acc": 0.5}


def test_index_is_rebuilt_from_the_cluster(desk: KubernetesDesk) -> None:
    """Without its index `bay` finds the runs again, from what was sent and what became of it."""
    desk.write("true", params={"n": ["0", "1"]})
    desk.bay("run", "--detach")
    desk.await_states("succeeded")
    before = sorted((row["id"], row["state"]) for row in desk.rows())
    for path in desk.bay.home.rglob("index.sqlite*"):
        path.unlink()
    desk.bay("ls", "--rebuild")

    assert sorted((row["id"], row["state"]) for row in desk.rows()) == before


def test_outputs_and_log_in_a_bucket(desk: KubernetesDesk) -> None:
    """A pod with nothing but Python has data and big code from a bucket, and ships to it."""
    (desk.bay.project / "noise.bin").write_bytes(os.urandom(9_000_000))
    with bucket_beside(desk) as (public, inside):
        store = open_bucket(public)
        store.put("data/in.txt", b"from afar\n")
        desk.bay.extra |= public.env
        site = {
            "image": PYTHON,
            "endpoints": {public.endpoint: inside},
            "outputs_to": f"{public.url}/outs",
        }
        folders = {"data": f"{public.url}/data"}
        text = "cat data/in.txt; mkdir outputs; wc -c <noise.bin >outputs/x; ls -A | grep bay-code"
        bucket = {"url": public.url, "endpoint": public.endpoint}
        desk.write(text, site=site, time="1h", bucket=bucket, folders=folders)
        said = desk.bay("run", "--detach")
        (row,) = desk.await_states("succeeded", "failed")
        desk.forget_jobs()

        assert desk.bay("logs").out == "from afar\n", said
        desk.bay("fetch")
        fetched = desk.bay.project / "results" / row["experiment"] / row["id"]
        assert (fetched / "out/outputs/x").read_text() == "9000000\n"
        secrets = desk.namespace.admin("get", "jobs,pods,configmaps", "-o", "yaml")
        assert public.env["AWS_SECRET_ACCESS_KEY"] not in secrets


def test_removing_runs_leaves_claims_and_others(desk: KubernetesDesk) -> None:
    """`bay rm` takes the Jobs of its runs, and no claim, and nothing that is not ours."""
    desk.namespace.admin("create", "job", "others", "--image=x", "--", "true")
    desk.write("true", site=ON_CLAIM)
    desk.bay("run")
    desk.bay("rm", desk.rows()[0]["id"], "--yes")

    def left() -> list[str]:
        return [job["metadata"]["name"] for job in desk.jobs()]

    eventually(lambda: left() == ["others"])
    claims = desk.namespace.kubectl("get", "pvc", "-o", "name").split()
    assert sorted(claims) == ["persistentvolumeclaim/marks", "persistentvolumeclaim/results"]


def test_objects_that_nobody_needs_are_cleaned(desk: KubernetesDesk) -> None:
    """Code of runs that were removed goes with `bay clean`; that of others stays."""
    desk.bay.write("code.txt", "first")
    desk.write("true", params={"n": ["0"]})
    desk.bay("run")
    desk.bay("rm", desk.rows()[0]["id"], "--yes")
    desk.bay.write("code.txt", "second")
    desk.bay("run")

    def codes() -> list[str]:
        found = desk.namespace.kubectl("get", "configmaps", "-o", "name").split()
        return [name for name in found if "/bay-code-" in name]

    assert len(codes()) == 2
    eventually(lambda: "objects of lab" in desk.bay("clean", "--older", "1s", "--dry-run").err)
    desk.bay("clean", "--older", "1s", "--yes")
    assert len(codes()) == 1
    assert desk.bay("run", "--again").out == ""


def test_being_where_a_run_runs(desk: KubernetesDesk) -> None:
    """A command runs inside of the run's pod, in its folder, and one of its ports is here."""
    desk.bay.write("page.txt", "from the pod")
    desk.write("httpd -f -p 8000 -h .")
    desk.bay("run", "--detach")
    desk.await_marks(1)
    (row,) = desk.await_states("running")
    said = desk.bay("shell", row["id"], "--", "sh", "-c", 'cat page.txt; echo " $BAY_RUN_ID"')
    assert said.out == f"from the pod {row['id']}\n"
    (port,) = free_ports(1)
    leading = desk.bay.start(
        "port", row["id"], f"8000:{port}", through=("env", "--default-signal=INT")
    )
    try:
        eventually(lambda: page(port) == b"from the pod")
    finally:
        leading.send_signal(signal.SIGINT)
        leading.communicate(timeout=60)
        desk.bay("cancel", row["id"], "--yes")


def page(port: int) -> bytes:
    """What is served at that port of this machine; nothing where nobody serves yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page.txt", timeout=5) as answer:
            return bytes(answer.read())
    except OSError:
        return b""


def test_python_image_runs_python(desk: KubernetesDesk) -> None:
    """A typed command runs in an image with Python, its words as typed."""
    desk.bay.write("train.py", "import sys; print(sys.argv[1:])\n")
    desk.write("true", site={"image": PYTHON})

    assert desk.bay("run", "train.py", "a b", "$(x)", "it's").out == "['a b', '$(x)', \"it's\"]\n"
