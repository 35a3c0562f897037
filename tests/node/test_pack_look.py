"""Looking, listing and cancelling."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from tests.conftest import eventually
from tests.node.workshop import NODE, Desk, is_alive, make_job, read_events

if TYPE_CHECKING:
    from pathlib import Path

ONE = {"sweep e": [1, "`parallel` of `e`"]}


def tree(folder: Path) -> list[tuple[str, int, int]]:
    paths = sorted(folder.rglob("*"))
    return [(str(path), path.lstat().st_mtime_ns, path.lstat().st_size) for path in paths]


def test_look_changes_nothing(desk: Desk) -> None:
    """Waiting, running, ended and unknown runs are left as they are, and so is the queue."""
    desk.add(make_job("ended", ["true"]))
    desk.until("ended", "ended")
    runs = ["ended", "running", "waiting", "unknown"]
    desk.add(*(make_job(run, ["sleep", "600"], caps=ONE) for run in runs[1:3]))
    desk.until("running", "running")
    eventually(lambda: desk.look("waiting")["waiting"]["why"])
    eventually(lambda: len(desk.names("picked")) == 1)
    before = tree(desk.root), tree(desk.queue)
    states = [desk.states(*runs) for _ in range(5)]
    after = tree(desk.root), tree(desk.queue)

    assert states == [["ended", "running", "waiting", "lost"]] * 5
    assert after == before


def test_look_where_nothing_ever_was(desk: Desk) -> None:
    """Asking for an unknown run makes no folder."""
    seen = desk.look("r")

    assert seen == {"r": {"state": "lost", "why": "unknown"}}
    assert not desk.state.exists()


def test_look_at_nothing(desk: Desk) -> None:
    """No run asked for, none answered."""
    assert desk.look() == {}


def test_cancelled_while_waiting(desk: Desk) -> None:
    """What waits is ended at once and never starts."""
    desk.add(*(make_job(run, ["sleep", "600"], caps=ONE) for run in ("a", "b")))
    desk.until("running", "a")
    desk.cancel("b")
    seen = desk.look("b")["b"]

    assert (seen["state"], seen["code"], seen["stop"]) == ("ended", None, "cancel")
    assert not any("-b-1" in name for name in desk.names("waiting") + desk.names("picked"))


def test_cancelled_while_running(desk: Desk) -> None:
    """What runs is told to end, and its end recorded as asked for."""
    desk.add(make_job("r", ["sleep", "600"]))
    desk.until("running", "r")
    desk.cancel("r")
    desk.cancel("r")
    (seen,) = desk.until("ended", "r")

    assert (seen["stop"], seen["code"], seen["signal"]) == ("cancel", 143, "TERM")


def test_cancelled_after_its_end(desk: Desk) -> None:
    """What has ended stays as it ended."""
    desk.add(make_job("r", ["true"]))
    (before,) = desk.until("ended", "r")
    desk.cancel("r", "unknown")

    assert desk.look("r")["r"] == before


def test_cancelled_without_a_worker(desk: Desk) -> None:
    """A run whose worker died is ended by the next one."""
    desk.add(make_job("r", ["sleep", "600"]))
    desk.until("running", "r")
    pid = desk.worker()
    assert pid is not None
    os.kill(pid, 9)
    eventually(lambda: not is_alive(pid))
    desk.cancel("r")
    (seen,) = desk.until("ended", "r")

    assert seen["stop"] == "cancel"


def test_cancelled_although_nobody_minds_it(desk: Desk) -> None:
    """A run that somebody started by hand is told to end as well."""
    project = desk.folder / "project"
    project.mkdir()
    job = make_job("r", ["sleep", "600"], project_folder=str(project))
    (answer,) = desk.call("prepare", desk.plan(job))
    argv = ["sh", str(NODE / "run.sh"), answer["folder"], "1"]
    with subprocess.Popen(argv, env={**desk.environment, "BAY_HERE": str(project)}) as process:
        desk.until("running", "r")
        # The program carries its mark as soon as run.sh has started it.
        while process.poll() is None:
            desk.cancel("r")
    (seen,) = desk.until("ended", "r")

    assert (seen["stop"], seen["code"]) == ("cancel", 143)


def test_list_names_waiting_and_running(desk: Desk) -> None:
    """Every run that waits or runs is listed with where it belongs; an ended one is not."""
    desk.add(make_job("ended", ["true"]))
    desk.until("ended", "ended")
    desk.add(*(make_job(run, ["sleep", "600"], caps=ONE) for run in ("a", "b")))
    desk.until("running", "a")
    eventually(lambda: len(desk.names("picked")) == 1)
    (desk.queue / "waiting" / "0.broken-x-1").write_text("{")
    place = {"attempt": 1, "root": str(desk.root), "target": "desk"}
    listed = sorted(desk.call("list"), key=lambda line: line["run"])

    assert listed == [{"run": run, **place, "native_id": f"queue/plan/{run}"} for run in ("a", "b")]


def test_metrics_of_a_running_run(desk: Desk) -> None:
    """What a run has measured so far is seen while it runs."""
    text = "echo loss=0.5; sleep 600"
    desk.add(make_job("r", script=text, metrics={"loss": r"loss=(\S+)"}))
    eventually(lambda: desk.look("r")["r"].get("metrics") == {"loss": 0.5})

    assert len(read_events(desk.run("r"))) == 1
