"""Whatever is killed, every run happens exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import LONGEST_S, STRESS, Bay, eventually

from launchbay.core.run import State, Status
from launchbay.engine.again import Rerun
from launchbay.engine.open import open_lab
from launchbay.runstore.store import Query, RunStore
from launchbay.testing.fakes import Clock

ROUNDS = 200 if STRESS else 20
RUNS = 20
MARK = 'echo "$BAY_RUN_ID" >>"$0"'


def worker_pid(bay: Bay) -> int | None:
    """The process that works on this home's queue."""
    mark = f"XDG_STATE_HOME={bay.home / 'state'}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"work" in words and mark in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name)
    return None


def started(bay: Bay, run_id: str) -> dict[str, object]:
    """What run.sh recorded when it began."""
    path = bay.project / f".bay/runs/{run_id}/attempts/1/events.jsonl"
    if not path.exists() or not path.read_text():
        return {}
    return dict(json.loads(path.read_text().splitlines()[0]))


@pytest.mark.slow
def test_killed_at_any_instant_and_applied_again(
    bay: Bay, capsys: pytest.CaptureFixture[str]
) -> None:
    """`bay run` gets SIGKILL at a random instant, then is typed again: each run exactly once."""
    seed = int(os.environ.get("BAY_SEED", random.SystemRandom().randrange(10**6)))
    chance = random.Random(seed)
    with capsys.disabled():
        sys.stdout.write(f"\nkilled {ROUNDS} times, BAY_SEED={seed}\n")
    instants = []
    for number in range(ROUNDS):
        marks = bay.home / f"marks-{number}"
        words = ["run", "-j", "4", "--name", f"round-{number}", f"seed=0..{RUNS - 1}"]
        words += ["--", "sh", "-c", MARK, str(marks), "<seed>"]
        process = bay.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        instant = chance.uniform(0.05, 1.2)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(instant)
        process.kill()
        process.wait()
        instants.append(instant)
        bay(*words)
        _settled(bay, f"round-{number}")
        counted = sorted(marks.read_text().split())
        ids = sorted(row["id"] for row in bay.json("ls", "--all", "-e", f"round-{number}"))

        assert counted == ids, (seed, number, instant)
        assert len(ids) == RUNS, (seed, number, instant)


def _settled(bay: Bay, experiment: str) -> None:
    bay("wait", "-e", experiment)


def test_killed_worker_loses_nothing(bay: Bay) -> None:
    """The runs go on without it, and the next look starts one that adopts them."""
    go, marks = bay.home / "go", bay.home / "marks"
    script = f"{MARK}; while [ ! -e {go} ]; do sleep 0.05; done"
    words = (
        "run",
        "-q",
        "-d",
        "-j",
        "2",
        "--gpus",
        "0",
        "seed=0..3",
        "--",
        "sh",
        "-c",
        script,
        str(marks),
    )
    ids = bay(*words).out.split()
    eventually(lambda: bay.states("--no-refresh") and marks.exists() and len(_lines(marks)) == 2)
    first = worker_pid(bay)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually(lambda: worker_pid(bay) is None)
    states = bay.states()
    eventually(lambda: worker_pid(bay) not in {None, first})
    going = len(_lines(marks))
    go.touch()
    bay("wait", *ids)

    assert (states.count("running"), states.count("queued"), going) == (2, 2, 2)
    assert sorted(_lines(marks)) == sorted(ids)


def test_killed_worker_and_run_are_lost_at_the_second_look(
    bay: Bay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody recorded an end: lost a minute later, and a rerun finishes it."""
    go, marks = bay.home / "go", bay.home / "marks"
    script = f"{MARK}; while [ ! -e {go} ]; do sleep 0.05; done"
    words = ("run", "-q", "-d", "--name", "one", "--", "sh", "-c", script, str(marks))
    (run_id,) = bay(*words).out.split()
    eventually(marks.exists)
    worker = worker_pid(bay)
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    os.killpg(int(str(started(bay, run_id)["pid"])), signal.SIGKILL)
    for name, value in bay.environment.items():
        monkeypatch.setenv(name, value)
    lab = open_lab(bay.project)
    clock = Clock(now=time.time())
    lab.clock, lab._sleep = clock, clock.sleep
    states = []
    for wait_s in (0.0, 59.0, 2.0):
        clock.sleep(wait_s)
        (run,) = lab.refresh(lab.store.runs(Query())).runs
        states.append(run.state)
    go.touch()
    (again,) = lab.rerun([run], Rerun())
    bay("wait", run_id)

    assert states[0] is states[1]
    assert states[2] is State.LOST
    assert (run.status.reason, again.attempt) == ("its process is gone and left no exit record", 2)
    assert bay.states() == ["succeeded"]
    assert _lines(marks) == [run_id, run_id]


def test_looking_changes_no_healthy_run(bay: Bay) -> None:
    """Twenty looks at a waiting and a running run leave their folders as they are."""
    go = bay.home / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.05; done"
    ids = bay("run", "-q", "-d", "-j", "1", "seed=0,1", "--", "sh", "-c", script).out.split()
    eventually(lambda: bay.states() == ["running", "queued"])
    before = _tree(bay.project / ".bay/runs")
    states = [bay.states() for _ in range(20)]
    after = _tree(bay.project / ".bay/runs")
    go.touch()
    bay("wait", *ids)

    assert states == [["running", "queued"]] * 20
    assert after == before


def test_hangup_of_the_terminal_leaves_the_sweep(bay: Bay) -> None:
    """SIGHUP to the terminal's process group ends `bay run` and nothing else."""
    go, marks = bay.home / "go", bay.home / "marks"
    script = f"while [ ! -e {go} ]; do sleep 0.05; done; {MARK}"
    words = ("run", "-j", "2", "--gpus", "0", "seed=0..3", "--", "sh", "-c", script, str(marks))
    # Whoever runs the tests under nohup has it ignored, and so would we.
    listening = ("env", "--default-signal=HUP")
    process = bay.start(*words, through=listening, start_new_session=True)
    eventually(lambda: bay.states().count("running") == 2)
    os.killpg(process.pid, signal.SIGHUP)
    process.communicate(timeout=LONGEST_S)
    go.touch()
    bay("wait", "sh")

    assert process.returncode == -signal.SIGHUP
    assert sorted(_lines(marks)) == sorted(row["id"] for row in bay.json("ls", "--all"))


def test_two_terminals_apply_the_same_file(bay: Bay) -> None:
    """Both type `bay run` at once; every run happens once."""
    marks = bay.home / "marks"
    bay.write(
        "bay.yaml", f"command: |\n  echo <seed> >>{marks}\nparams:\n  seed: 0..9\nparallel: 4\n"
    )
    both = [bay.start("run") for _ in range(4)]
    codes = [process.wait() for process in both]
    for process in both:
        process.communicate()
    bay("wait", "project")

    assert codes == [0] * 4
    assert sorted(_lines(marks), key=int) == [str(seed) for seed in range(10)]


def test_index_that_was_deleted_is_rebuilt(bay: Bay) -> None:
    """Deleting the index loses nothing: run folders hold everything, attempts too."""
    bay(
        "run",
        "-q",
        "seed=0..2",
        "--note",
        "a note",
        "--tag",
        "t",
        "--",
        "sh",
        "-c",
        "exit $0",
        "<seed>",
        code=1,
    )
    bay("rerun", "--failed", "--yes", "-q", code=1)
    before = bay.json("ls", "--all")
    shown = bay.json("show", before[1]["id"])["attempts"]
    for path in (bay.home / "state/launchbay").glob("index.sqlite*"):
        path.unlink()
    after = bay.json("ls", "--all")

    assert [_stable(row) for row in after] == [_stable(row) for row in before]
    assert [a["state"] for a in bay.json("show", before[1]["id"])["attempts"]] == [
        a["state"] for a in shown
    ]


def _stable(row: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in row.items() if key != "seen_at"}


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def _tree(folder: Path) -> list[tuple[str, int, int]]:
    paths = sorted(folder.rglob("*"))
    return [(str(path), path.lstat().st_mtime_ns, path.lstat().st_size) for path in paths]


def test_what_was_queued_unheard_is_cancelled(bay: Bay) -> None:
    """A launch that was killed before it heard of its run: cancelling ends it nevertheless."""
    bay("run", "-d", "--", "sleep", "600")
    (row,) = bay.json("ls", "--all")
    eventually(lambda: bool(started(bay, row["id"])))
    store = RunStore(bay.home / "state/launchbay/index.sqlite")
    unheard = Status(state=State.CREATED)
    store.update(replace(run, native_id="", status=unheard) for run in store.runs(Query()))
    store.close()
    bay("cancel", row["id"])
    events = bay.project / f".bay/runs/{row['id']}/attempts/1/events.jsonl"
    eventually(lambda: '"exit"' in events.read_text())

    assert bay.states() == ["cancelled"]


def test_what_was_never_sent_is_not_waited_for(bay: Bay) -> None:
    """Nobody else sends what a killed launch left: who waits is told so, with what to do."""
    bay("run", "--", "true")
    (row,) = bay.json("ls", "--all")
    index = bay.home / "state/launchbay/index.sqlite"
    store = RunStore(index)
    (ended,) = store.runs(Query())
    store.add([replace(ended, id="left-aaaaa", native_id="", status=Status(state=State.CREATED))])
    store.close()
    said = [
        bay("wait", row["id"], "left-aaaaa", code=1),
        bay("watch", code=1),
        bay("logs", "-f", "left-aaaaa"),
        bay("ls"),
    ]

    never = "1 run was never sent: its bay was killed; the same `bay run` sends what is missing\n"
    assert [one.err.endswith(never) for one in said] == [True] * 4
    assert "`bay watch`" not in said[-1].err
