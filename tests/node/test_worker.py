"""The worker: what it starts, in which order, and what becomes of runs when anything dies."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import worker
from entries import Entry
from live import LiveRun
from processes import clock
from tests.conftest import eventually
from tests.node.workshop import Desk, is_alive, make_job, read_events
from waiting import Queue, open_lock, try_lock
from worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

SMI = """#!/bin/sh
case "$1" in
--query-gpu=index,uuid,name) for i in 0 1 2 3; do echo "$i, GPU-$i, NVIDIA A100-SXM4"; done ;;
--query-gpu=index,uuid) for i in 0 1 2 3; do echo "$i, GPU-$i"; done ;;
--query-compute-apps=gpu_uuid,pid) cat "$0.busy" 2>/dev/null; exit 0 ;;
esac
"""
FOUR = ["0", "1", "2", "3"]
TARGET = {"target desk": [2, "`parallel` of target `desk`"]}
SWEEP = {"sweep e": [1, "`parallel` of `e`"]}
HOST = {"host": [3, "this machine"]}


def waiting(desk: Desk, run: str, **fields: Any) -> dict[str, Any]:
    """A run that ends once its file `go` is there."""
    text = f"echo ready; while [ ! -e {desk.folder}/go-{run} ]; do sleep 0.02; done"
    return make_job(run, script=text, **fields)


def go(desk: Desk, *runs: str) -> None:
    for run in runs:
        (desk.folder / f"go-{run}").touch()


def gpu(amount: float, **fields: Any) -> dict[str, Any]:
    return {"needs": {"gpus": amount, "devices": FOUR, **fields}}


def begun(desk: Desk, *runs: str) -> list[float]:
    return [read_events(desk.run(run))[0]["at"] for run in runs]


def kill_worker(desk: Desk, number: int = signal.SIGKILL) -> None:
    pid = desk.worker()
    assert pid is not None
    os.kill(pid, number)
    eventually(lambda: not is_alive(pid))


@pytest.fixture
def four_gpus(desk: Desk) -> Desk:
    """A machine with four GPUs, by a stand-in nvidia-smi."""
    desk.tools = desk.folder / "tools"
    desk.tools.mkdir()
    (desk.tools / "nvidia-smi").write_text(SMI)
    (desk.tools / "nvidia-smi").chmod(0o755)
    return desk


@pytest.fixture
def own(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker in this very process, with one run that waits."""
    monkeypatch.setenv("XDG_STATE_HOME", str(desk.state))
    queue = Queue()
    queue.make()
    folder = desk.run("r")
    (folder / "attempts/1").mkdir(parents=True)
    needs = {"gpus": 1, "devices": ["0"]}
    record = {"run": "r", "attempt": 1, "folder": str(folder), "needs": needs, "caps": {}}
    queue.put(Entry(record), 1)
    made = Worker(queue, open_lock(queue.folder), -1)
    yield made
    os.close(made.lock)


@pytest.mark.parametrize(("caps", "most"), [(TARGET, 2), (SWEEP, 1), (HOST, 3), ({}, 4)])
def test_no_more_than_a_cap_run_at_once(desk: Desk, caps: dict[str, Any], most: int) -> None:
    """As many as the cap lets run do, the others wait and say why."""
    runs = ["a", "b", "c", "d"]
    desk.add(*(waiting(desk, run, caps=caps) for run in runs))
    desk.until("running", *runs[:most])
    states = desk.states(*runs)
    why = [f"{meaning} lets {number} run at once" for number, meaning in caps.values()]
    eventually(lambda: [desk.look("d")["d"]["why"]] == (why or [""]))
    go(desk, *runs)
    desk.until("ended", *runs)

    assert states == ["running"] * most + ["waiting"] * (4 - most)


def test_first_come_first_served(desk: Desk) -> None:
    """Runs start in the order in which they were added, over several calls."""
    runs = [f"r{number}" for number in range(9)]
    for start in (0, 3, 6):
        desk.add(*(make_job(run, ["true"], caps=SWEEP) for run in runs[start : start + 3]))
    desk.until("ended", *runs)
    moments = begun(desk, *runs)

    assert moments == sorted(moments)


def test_how_many_are_before(desk: Desk) -> None:
    """A waiting run knows its place."""
    runs = ["a", "b", "c"]
    desk.add(*(waiting(desk, run, caps=SWEEP) for run in runs))
    desk.until("running", "a")
    seen = desk.look("b", "c")

    assert [seen[run]["ahead"] for run in ("b", "c")] == [0, 1]


def test_three_hundred_waiting(desk: Desk) -> None:
    """A long queue is looked at quickly and worked off completely."""
    runs = [f"r{number}" for number in range(300)]
    desk.add(waiting(desk, "first", caps=SWEEP))
    desk.until("running", "first")
    desk.add(*(make_job(run, ["true"], caps=TARGET if "9" in run else SWEEP) for run in runs))
    began = time.monotonic()
    states = desk.states(*runs)
    took = time.monotonic() - began
    go(desk, "first")
    desk.until("ended", *runs)

    assert set(states) <= {"waiting", "running", "ended"}
    assert took < 20
    assert desk.errors() == ""


def test_gpus_are_never_given_twice(four_gpus: Desk) -> None:
    """Runs of mixed need overlap only where their shares fit, by what they themselves saw."""
    desk = four_gpus
    text = "date +%s.%N; echo $CUDA_VISIBLE_DEVICES; sleep 0.05; date +%s.%N"
    amounts = {f"r{number}": [1, 2, 0.5, 0.5, 4, 0.3, 0.3, 0.3][number % 8] for number in range(24)}
    desk.add(*(make_job(run, script=text, **gpu(amount)) for run, amount in amounts.items()))
    desk.until("ended", *amounts)
    changes: dict[str, list[tuple[float, float]]] = {device: [] for device in FOUR}
    for run, amount in amounts.items():
        start, devices, end = desk.log(run).split()
        assert len(devices.split(",")) == max(1, int(amount))
        for device in devices.split(","):
            changes[device] += [(float(start), min(1, amount)), (float(end), -min(1, amount))]

    for device in FOUR:
        used = 0.0
        for _, change in sorted(changes[device]):
            used += change
            assert used <= 1 + 1e-9, device


def test_halves_share_a_gpu(four_gpus: Desk) -> None:
    """Two halves run on one GPU, three thirds too, and whole ones on what is left."""
    desk = four_gpus
    parts = {"h1": 0.5, "h2": 0.5, "t1": 0.3, "t2": 0.3, "t3": 0.3, "w1": 1, "w2": 1}
    desk.add(*(waiting(desk, run, **gpu(amount)) for run, amount in parts.items()))
    desk.until("running", *parts)
    seen = [desk.started(run)["devices"] for run in parts]
    go(desk, *parts)
    desk.until("ended", *parts)

    assert seen == ["0", "0", "1", "1", "1", "2", "3"]


def test_nobody_overtakes_for_gpus(four_gpus: Desk) -> None:
    """A run for four GPUs gets them although smaller ones come after it."""
    desk = four_gpus
    desk.add(waiting(desk, "small", **gpu(1)))
    desk.until("running", "small")
    desk.add(waiting(desk, "large", **gpu(4)), waiting(desk, "late", **gpu(1)))
    desk.add(make_job("cpu", ["true"], needs={"hide_gpus": True}))
    desk.until("ended", "cpu")
    eventually(lambda: desk.look("late")["late"].get("why"))
    reasons = [desk.look(run)[run]["why"] for run in ("large", "late")]
    go(desk, "small", "large")
    desk.until("running", "late")
    go(desk, "late")
    desk.until("ended", "large", "late")
    moments = begun(desk, "large", "late")

    assert reasons == ["it needs 4 GPU, too few are free", "another run waits for GPUs before it"]
    assert moments == sorted(moments)


def test_gpu_of_somebody_else_is_left_alone(four_gpus: Desk) -> None:
    """With `auto`, GPUs on which others' processes run are not given."""
    desk = four_gpus
    assert desk.tools
    (desk.tools / "nvidia-smi.busy").write_text("GPU-0, 999999999\nGPU-1, 999999999\n")
    desk.add(make_job("r", ["true"], **gpu(1, auto=True)))
    desk.until("ended", "r")

    assert desk.started("r")["devices"] == "2"


def test_hidden_gpus(desk: Desk) -> None:
    """A run that wants none sees none."""
    text = 'echo "[${CUDA_VISIBLE_DEVICES-unset}]"'
    desk.add(make_job("none", script=text, needs={"hide_gpus": True}), make_job("any", script=text))
    desk.until("ended", "none", "any")

    assert (desk.log("none"), desk.log("any")) == ("[]\n", "[unset]\n")


def test_time_limit_ends_a_run(desk: Desk) -> None:
    """A run over its time is told to end, and the reason is kept."""
    desk.add(make_job("r", ["sleep", "600"], needs={"time_s": 0.3}))
    (seen,) = desk.until("ended", "r")

    assert (seen["stop"], seen["code"], seen["signal"]) == ("timeout", 143, "TERM")


def test_time_limit_holds_for_the_next_worker(desk: Desk) -> None:
    """An adopted run's time is counted from its own start, whatever the record's date says."""
    desk.add(make_job("r", ["sleep", "600"], needs={"time_s": 1.5}))
    desk.started("r")
    kill_worker(desk)
    path = desk.run("r") / "attempts/1/events.jsonl"
    event = json.loads(path.read_text())
    path.write_text(json.dumps({**event, "at": event["at"] + 10**6}) + "\n")
    (seen,) = desk.until("ended", "r")

    assert seen["stop"] == "timeout"


def test_run_that_does_not_listen_is_killed(desk: Desk) -> None:
    """After its grace a run that ignores TERM is killed, and its end recorded by run.sh."""
    text = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    desk.add(make_job("r", script=text, needs={"grace_s": 0.3}))
    eventually(lambda: desk.log("r"))
    desk.cancel("r")
    (seen,) = desk.until("ended", "r")

    assert (seen["stop"], seen["code"], seen["signal"], seen["why"]) == ("cancel", 137, "TERM", "")


def test_stragglers_are_ended(desk: Desk) -> None:
    """What a run left running is told to go before its place is given away."""
    text = "sleep 600 & echo $!"
    desk.add(make_job("r", script=text, needs={"grace_s": 0.3}))
    desk.until("ended", "r")
    straggler = int(desk.log("r"))
    eventually(lambda: not is_alive(straggler))
    eventually(lambda: not desk.names("picked"))


def test_stragglers_outside_the_group_hold_their_gpu(four_gpus: Desk) -> None:
    """A process that left the group keeps its GPU until it is gone."""
    desk = four_gpus
    text = "setsid sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 0.05; done\" & sleep 0.2"
    desk.add(make_job("r", script=text, needs={**gpu(4)["needs"], "grace_s": 1}))
    desk.until("ended", "r")
    straggler = int(desk.log("r"))
    alive = f"grep -qs '^State:.[^Z]' /proc/{straggler}/status"
    desk.add(make_job("next", script=f"! {alive}", **gpu(4)))
    (seen,) = desk.until("ended", "next")

    assert seen["code"] == 0


def test_processes_of_the_next_attempt_are_spared(desk: Desk) -> None:
    """Sweeping up after one attempt does not touch the next one of the same run."""
    deaf = "(trap '' TERM; while :; do sleep 0.05; done) & echo ready"
    desk.add(make_job("r", script=deaf, needs={"grace_s": 1}))
    desk.until("ended", "r")
    desk.add(waiting(desk, "r", attempt=2))
    desk.started("r", 2)
    eventually(lambda: not any("r-1" in name for name in desk.names("picked")))
    states = desk.look("r", attempt=2)["r"]["state"]
    go(desk, "r")
    (seen,) = desk.until("ended", "r", attempt=2)

    assert (states, seen["code"]) == ("running", 0)


def test_terminated_worker_leaves_its_runs(desk: Desk) -> None:
    """TERM ends the worker only; the runs go on and the next worker minds them."""
    desk.add(*(waiting(desk, run, caps=TARGET) for run in ("a", "b", "c")))
    desk.until("running", "a", "b")
    kill_worker(desk, signal.SIGTERM)
    states = desk.states("a", "b", "c")
    eventually(lambda: desk.worker() is not None)
    go(desk, "a", "b", "c")
    desk.until("ended", "a", "b", "c")

    assert states == ["running", "running", "waiting"]
    assert [len(read_events(desk.run(run))) for run in ("a", "b", "c")] == [2, 2, 2]


def test_killed_worker_gives_no_gpu_twice(four_gpus: Desk) -> None:
    """The next worker knows what the adopted runs hold."""
    desk = four_gpus
    desk.add(waiting(desk, "a", **gpu(3)))
    desk.until("running", "a")
    kill_worker(desk)
    desk.add(waiting(desk, "b", **gpu(2)), waiting(desk, "c", **gpu(1)))
    eventually(lambda: "GPU" in desk.look("b")["b"].get("why", ""))
    states = desk.states("a", "b", "c")
    go(desk, "a")
    desk.until("running", "b", "c")
    go(desk, "b", "c")
    desk.until("ended", "a", "b", "c")

    assert states == ["running", "waiting", "waiting"]
    assert (desk.started("a")["devices"], desk.started("b")["devices"]) == ("0,1,2", "0,1")


def test_run_that_ended_without_a_worker(desk: Desk) -> None:
    """Nobody needs to watch: the run recorded its own end, and the queue forgets it."""
    desk.add(waiting(desk, "a"))
    desk.until("running", "a")
    kill_worker(desk)
    go(desk, "a")
    eventually(lambda: len(read_events(desk.run("a"))) == 2)
    (seen,) = desk.until("ended", "a")
    eventually(lambda: not desk.names("picked"))

    assert seen["code"] == 0


def test_killed_worker_and_run_are_lost(desk: Desk) -> None:
    """When all that could record an end was killed, a look says lost and the queue goes on."""
    desk.add(waiting(desk, "a", caps=SWEEP), waiting(desk, "b", caps=SWEEP))
    pid = desk.started("a")["pid"]
    kill_worker(desk)
    os.killpg(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid))
    seen = desk.look("a")["a"]
    desk.until("running", "b")
    go(desk, "b")
    desk.until("ended", "b")

    assert (seen["state"], seen["why"]) == ("lost", "its process is gone and left no exit record")


def test_killed_run_sh_is_a_failure_with_a_reason(desk: Desk) -> None:
    """When run.sh alone is killed its worker records the end, and ends the command."""
    desk.add(make_job("r", script="echo $$; exec sleep 600", needs={"grace_s": 0.5}))
    eventually(lambda: desk.log("r"))
    os.kill(desk.started("r")["pid"], signal.SIGKILL)
    (seen,) = desk.until("ended", "r")
    eventually(lambda: not is_alive(int(desk.log("r"))))

    assert (seen["code"], seen["why"]) == (137, "run.sh was killed by signal 9")


def test_attempt_that_somebody_else_claimed(desk: Desk) -> None:
    """The worker's run.sh gives way; the run is minded until the other one ends it."""
    desk.add(waiting(desk, "hold", caps=SWEEP), make_job("r", ["true"], caps=SWEEP))
    records = desk.run("r") / "attempts/1"
    (records / "claim").touch()
    go(desk, "hold")
    desk.until("ended", "hold")
    eventually(lambda: any("-r-1" in name for name in desk.names("picked")))
    event = {"event": "exit", "at": 1, "code": 4, "signal": "", "phase": "command"}
    (records / "events.jsonl").write_text(json.dumps(event) + "\n")
    eventually(lambda: not desk.names("picked"))

    assert desk.look("r")["r"]["code"] == 4
    assert not (desk.run("r") / "work/ran").exists()


def test_command_that_exits_as_a_lost_race_would(desk: Desk) -> None:
    """A command's own 75 is its exit code and nothing else."""
    desk.add(make_job("r", script="exit 75"))
    (seen,) = desk.until("ended", "r")

    assert seen["code"] == 75


def test_picked_and_never_started_is_started(desk: Desk) -> None:
    """What a dead worker had picked and not begun is begun by the next, once."""
    desk.add(waiting(desk, "a", caps=SWEEP), make_job("b", ["true"], caps=SWEEP))
    desk.until("running", "a")
    kill_worker(desk)
    (name,) = desk.names("waiting")
    (desk.queue / "waiting" / name).rename(desk.queue / "picked" / name)
    desk.until("ended", "b")
    go(desk, "a")
    desk.until("ended", "a")

    assert len(read_events(desk.run("b"))) == 2


def test_picked_without_devices_waits_again(four_gpus: Desk) -> None:
    """A worker that died before it chose devices has started nothing: it waits for free ones."""
    desk = four_gpus
    desk.add(waiting(desk, "a", **gpu(4)), make_job("b", ["true"], **gpu(4)))
    desk.until("running", "a")
    kill_worker(desk)
    (name,) = desk.names("waiting")
    (desk.queue / "waiting" / name).rename(desk.queue / "picked" / name)
    eventually(lambda: "GPU" in desk.look("b")["b"].get("why", ""))
    state = desk.states("b")
    go(desk, "a")
    desk.until("ended", "b")

    assert state == ["waiting"]


def test_cancelled_between_pick_and_claim(desk: Desk) -> None:
    """A mark on what was picked and not begun keeps it from starting."""
    desk.add(waiting(desk, "a", caps=SWEEP), make_job("b", ["true"], caps=SWEEP))
    desk.until("running", "a")
    kill_worker(desk)
    (name,) = desk.names("waiting")
    (desk.queue / "waiting" / name).rename(desk.queue / "picked" / name)
    (desk.run("b") / "attempts/1/cancel").touch()
    (seen,) = desk.until("ended", "b")

    assert (seen["code"], seen["stop"]) == (None, "cancel")


@pytest.mark.parametrize("text", ["", "{", "null", '{"format": 1}'])
def test_unreadable_entry_is_set_aside(desk: Desk, text: str) -> None:
    """Half an entry is left aside and said to be lost; the others go on."""
    desk.add(waiting(desk, "a", caps=SWEEP))
    desk.until("running", "a")
    desk.add(make_job("bad", ["true"]), make_job("good", ["true"], caps=SWEEP))
    kill_worker(desk)
    desk.add(make_job("later", ["true"], caps=SWEEP))
    for place in ("waiting", "picked"):
        name = f"{1:020d}.00000000-{place}-1"
        (desk.queue / place / name).write_text(text)
    go(desk, "a")
    desk.until("ended", "a", "good", "later")
    seen = desk.look("waiting", "picked")

    assert [seen[run]["state"] for run in seen] == ["lost", "lost"]
    assert "it was set aside" in seen["waiting"]["why"]
    assert desk.errors().count("is set aside") == 2


def test_entry_whose_folder_is_gone(desk: Desk) -> None:
    """A deleted project neither stops nor spins the worker, waiting or running."""
    desk.add(waiting(desk, "a", caps=SWEEP), make_job("b", ["true"], caps=SWEEP))
    desk.until("running", "a")
    desk.add(make_job("c", ["true"], caps=SWEEP))
    shutil.rmtree(desk.run("b"))
    shutil.rmtree(desk.run("a"))
    go(desk, "a")
    desk.until("ended", "c")
    eventually(lambda: not desk.names("picked") and not desk.names("waiting"))

    assert desk.states("a", "b") == ["lost", "lost"]
    assert not desk.run("b").exists()


def test_adopted_run_whose_folder_is_gone(desk: Desk) -> None:
    """The next worker does not wait for ever for a run that nobody can know."""
    desk.add(waiting(desk, "a", caps=SWEEP), make_job("b", ["true"], caps=SWEEP))
    pid = desk.started("a")["pid"]
    kill_worker(desk)
    shutil.rmtree(desk.run("a"))
    os.killpg(pid, signal.SIGKILL)
    desk.until("ended", "b")


def test_end_on_a_full_disk_is_recorded_later(desk: Desk) -> None:
    """When run.sh cannot write its end, the worker does as soon as there is room."""
    desk.add(waiting(desk, "r", caps=SWEEP))
    pid = desk.started("r")["pid"]
    events = desk.run("r") / "attempts/1/events.jsonl"
    kept = events.rename(events.with_name("kept"))
    # Nothing can be appended to a folder either.
    events.mkdir()
    go(desk, "r")
    eventually(lambda: not is_alive(pid))
    held = desk.names("picked")
    events.rmdir()
    kept.rename(events)
    (seen,) = desk.until("ended", "r")

    assert len(held) == 1
    assert (seen["code"], seen["why"]) == (0, "run.sh could not record its end")


def test_added_while_the_worker_leaves(desk: Desk) -> None:
    """Whoever adds as the worker ends is served: one of the two sees the other."""
    for number in range(6):
        desk.add(make_job(f"r{number}", ["true"]))
        desk.until("ended", f"r{number}")
        # About when the worker gives up waiting.
        time.sleep(1.9 + number * 0.06)
        desk.add(make_job(f"s{number}", ["true"]))
        folder = desk.run(f"s{number}")
        eventually(partial(read_events, folder))


def test_second_attempt_finds_the_first_ones_outputs(desk: Desk) -> None:
    """Attempts share outputs and have a log each."""
    text = "cat $BAY_OUT/seen 2>/dev/null; echo $BAY_ATTEMPT >>$BAY_OUT/seen"
    for attempt in (1, 2, 3):
        desk.add(make_job("r", script=text, attempt=attempt))
        desk.until("ended", "r", attempt=attempt)

    assert [desk.log("r", attempt) for attempt in (1, 2, 3)] == ["", "1\n", "1\n2\n"]


def test_runs_overlap_no_more_than_allowed(desk: Desk) -> None:
    """One at a time means that one ends before the next begins."""
    runs = [f"r{number}" for number in range(12)]
    desk.add(*(make_job(run, ["sleep", "0.02"], caps=SWEEP) for run in runs))
    desk.until("ended", *runs)
    spans = [[event["at"] for event in read_events(desk.run(run))] for run in runs]

    assert all(before[1] <= after[0] + 0.02 for before, after in pairwise(spans))


def test_full_disk_lets_runs_wait(own: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the worker cannot write what a run gets, the run waits and says why."""

    def full(path: str, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(worker, "write_whole", full)
    own.start_all(clock())

    assert [why.partition(":")[0] for why in own.blocked.values()] == ["No space left on device"]
    assert own.queue.names("waiting").keys() == {"r-1"}
    assert own.queue.names("picked") == {}
    assert own.paused_until > clock()


def test_program_that_is_gone_fails_no_run(own: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose run.sh was deleted leaves, and what it picked is kept for the next."""
    monkeypatch.setattr(worker, "HERE", "/no/such/folder")
    own.start_all(clock())
    (name,) = own.queue.names("picked").values()

    assert own.leaves
    assert own.queue.read("picked", name).devices == ["0"]


def test_trouble_with_a_living_run_does_not_free_its_gpu(own: Worker) -> None:
    """What goes wrong in minding a run sets it aside only when nothing of it runs any more."""
    (name,) = own.queue.names("waiting").values()
    own.queue.pick(name)
    run = own.live[name] = LiveRun(name, own.queue.read("picked", name))
    variables = {"BAY_OUT": f"{run.entry.folder}/out", "BAY_ATTEMPT": "1"}
    with subprocess.Popen(["sleep", "600"], env=variables) as process:
        eventually(run.processes)
        with own.guard(name):
            raise RuntimeError(name)
        held = list(own.live), own.queue.names("aside")
        process.kill()
    own.tend_all(clock())

    assert held == ([name], {})
    assert (list(own.live), own.queue.names("aside")) == ([], {"r-1": name})


def test_lock_that_was_tidied_away(own: Worker) -> None:
    """A worker whose lock was removed makes it anew, or leaves where somebody else was quicker."""
    path = Path(f"/proc/self/fd/{own.lock}").readlink()
    kept = own.keep_lock()
    path.unlink()
    again = own.keep_lock()
    other = open_lock(own.queue.folder)
    free = try_lock(other)
    os.close(other)
    path.unlink()
    taken = open_lock(own.queue.folder)
    fcntl.flock(taken, fcntl.LOCK_EX)
    lost = own.keep_lock()
    os.close(taken)

    assert (kept, again, free, lost) == (True, True, False, False)


def test_adopted_run_that_left_a_process_keeps_its_gpu(four_gpus: Desk) -> None:
    """Worker and run.sh killed: the GPU is given again only when the program is gone too."""
    desk = four_gpus
    text = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    desk.add(make_job("a", script=text, needs={**gpu(4)["needs"], "grace_s": 1}))
    eventually(lambda: desk.log("a"))
    program = int(desk.log("a"))
    kill_worker(desk)
    os.kill(desk.started("a")["pid"], signal.SIGKILL)
    alive = f"grep -qs '^State:.[^Z]' /proc/{program}/status"
    desk.add(make_job("b", script=f"! {alive}", **gpu(4)))
    (seen,) = desk.until("ended", "b")

    assert seen["code"] == 0


def test_outputs_of_a_lost_run_are_kept(desk: Desk) -> None:
    """What a killed run wrote is moved to its outputs by whoever finds out."""
    text = "mkdir results; echo x >results/x; echo ready; exec sleep 600"
    desk.add(make_job("r", script=text, outputs=["results"]))
    eventually(lambda: desk.log("r"))
    kill_worker(desk)
    os.killpg(desk.started("r")["pid"], signal.SIGKILL)
    desk.look("r")
    eventually((desk.run("r") / "out/results/x").exists)
