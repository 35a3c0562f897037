"""What becomes of a run, from what Slurm lists, what it recorded and what Slurm remembers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import require_program

from launchbay.backends.records import Record, Records, parse_look
from launchbay.backends.slurm.status import Doubt, judge, settle
from launchbay.backends.slurm.words import Listed
from launchbay.core.run import Cause, State, Status

NODE = Path(__file__).parents[2] / "src" / "launchbay" / "node"
JOB = "7_0"
TOLD: dict[str, Any] = {"code": 143, "signal": "TERM"}


def listed(state: str, **more: Any) -> Listed:
    return Listed(job="7", task="0", state=state, **more)


def attempt(*marks: str, begun: bool = True, **end: Any) -> Record:
    """What one attempt left: `claim` and `started` unless it has not begun, and perhaps an end."""
    events: dict[str, dict[str, Any]] = {}
    if begun:
        started = {"at": 100.0, "host": "n1", "allocation": "8", "task": JOB}
        events["started"] = {"event": "started", **started}
    if end:
        plain = {"event": "exit", "at": 200.0, "code": 0, "signal": "", "phase": "command"}
        events["exit"] = {**plain, **end}
    return Record(marks={*marks, *(["claim"] if begun else [])}, events=events)


def records(*attempts: Record, first: int = 1) -> Records:
    return Records(attempts=dict(enumerate(attempts, first)))


def judged(entry: Listed | None, *attempts: Record, packed: bool = False) -> Status:
    found = judge(1, entry, records(*attempts), job="" if packed else JOB, packed=packed)
    assert isinstance(found, Status), found
    return found


def settled(known: Listed | None, *attempts: Record, packed: bool = False) -> Status:
    """The status of a run that `judge` leaves in doubt."""
    own = records(*attempts)
    gone = known if known and not known.alive else None
    doubt = judge(1, gone, own, job="" if packed else JOB, packed=packed)
    assert isinstance(doubt, Doubt), doubt
    return settle(1, known, own, job=doubt.job, packed=packed)


def test_waits_in_the_queue() -> None:
    """A job that is pending is queued, and its reason is a sentence."""
    seen = judged(listed("PENDING", reason="Resources"))

    assert seen.state is State.QUEUED
    assert seen.reason


@pytest.mark.parametrize("word", ["RUNNING", "COMPLETING", "SUSPENDED"])
def test_runs(word: str) -> None:
    """A job that Slurm has started runs, with the node and the moment that it recorded."""
    seen = judged(listed(word), attempt())

    assert (seen.state, seen.nodes, seen.started_at) == (State.RUNNING, ("n1",), 100.0)
    assert bool(seen.reason) == (word == "SUSPENDED")


def test_exit_record_waits_for_slurm() -> None:
    """While Slurm lists a job as running or queued again, its exit record is not final."""
    assert judged(listed("RUNNING"), attempt(code=0)).state is State.RUNNING
    assert judged(listed("REQUEUED"), attempt(code=143)).state is State.QUEUED


def test_ends_while_completing() -> None:
    """A plain exit record counts as soon as Slurm puts the job away; one by a signal does not."""
    assert judged(listed("COMPLETING"), attempt(code=3)).state is State.FAILED
    ending = judged(listed("COMPLETING"), attempt(**TOLD))
    assert (ending.state, ending.reason) == (State.RUNNING, "it is ending")


@pytest.mark.parametrize("entry", [None, listed("COMPLETED"), listed("FAILED")])
def test_plain_end(entry: Listed | None) -> None:
    """A run that Slurm lists no more, or as ended, ended as it recorded."""
    good, bad = judged(entry, attempt(code=0)), judged(entry, attempt(code=3))

    assert (good.state, good.exit_code, good.ended_at) == (State.SUCCEEDED, 0, 200.0)
    assert (bad.state, bad.exit_code, bad.cause) == (State.FAILED, 3, Cause.EXIT)
    assert (good.allocation, good.attempt) == ("8", 1)


def test_set_up_failed() -> None:
    """A run whose set-up failed says so."""
    assert judged(None, attempt(code=1, phase="setup")).cause is Cause.SETUP


def test_cancelled_by_us() -> None:
    """A run with our mark is cancelled, whatever Slurm calls it; one that got through is not."""
    assert judged(None, attempt("cancel", **TOLD)).state is State.CANCELLED
    assert judged(None, attempt("cancel", code=0)).state is State.SUCCEEDED
    never = settled(listed("CANCELLED by 1000"), attempt("cancel", begun=False))
    assert (never.state, never.cause) == (State.CANCELLED, None)
    assert never.reason == "cancelled before it started"
    killed = settled(listed("CANCELLED"), attempt("cancel"))
    assert (killed.state, killed.reason) == (State.CANCELLED, "cancelled")


@pytest.mark.parametrize(
    ("word", "state", "cause"),
    [
        ("TIMEOUT", State.FAILED, Cause.TIMEOUT),
        ("DEADLINE", State.FAILED, Cause.TIMEOUT),
        ("OUT_OF_MEMORY", State.FAILED, Cause.OOM),
        ("PREEMPTED", State.FAILED, Cause.PREEMPTED),
        ("NODE_FAIL", State.FAILED, Cause.NODE),
        ("CANCELLED by 0", State.CANCELLED, Cause.CANCELLED_ELSEWHERE),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", [{}, TOLD, {"code": 143}, {"code": 137}])
def test_slurm_ended_it(
    word: str, state: State, cause: Cause, end: dict[str, Any], *, packed: bool
) -> None:
    """What Slurm did to a job is told apart, also of runs that shared it, recorded or not."""
    seen = settled(listed(word, time_limit="00:01:00"), attempt(**end), packed=packed)

    assert (seen.state, seen.cause) == (state, cause)
    assert seen.reason
    assert seen.nodes == ("n1",)


def test_killed_for_want_of_memory() -> None:
    """A run that the kernel killed is told apart by what Slurm says of the job."""
    killed = attempt(code=137)

    assert settled(listed("OUT_OF_MEMORY"), killed).cause is Cause.OOM
    assert settled(listed("OUT_OF_MEMORY"), killed, packed=True).cause is Cause.OOM
    assert settled(listed("FAILED", exit_code="137:0"), killed).cause is Cause.EXIT


def test_nobody_remembers() -> None:
    """Without a record and without Slurm's memory a run is lost; with a record it ended so."""
    gone, unknown = settled(None, attempt()), settle(1, None, records(), job=JOB)

    assert (gone.state, gone.reason) == (State.LOST, "job 7_0 is gone and left no exit record")
    assert (unknown.state, unknown.reason) == (State.LOST, "Slurm does not know job 7_0")
    assert settled(None, attempt(**TOLD)).exit_code == 143


def test_between_two_lists() -> None:
    """A job that only Slurm's memory still calls alive goes on."""
    assert settled(listed("RUNNING"), attempt()).state is State.RUNNING
    assert settle(1, listed("PENDING"), records(), job=JOB).state is State.QUEUED


def test_slurm_counts_on() -> None:
    """The newest attempt since the one that was submitted counts."""
    own = records(attempt("continued", **TOLD), attempt())
    seen = judge(1, listed("RUNNING"), own, job=JOB)

    assert isinstance(seen, Status)
    assert (seen.state, seen.attempt) == (State.RUNNING, 2)
    assert own.latest(3) == (3, Record())


def test_time_was_up_and_nothing_written() -> None:
    """A run that was warned and did not go on failed for its time limit."""
    seen = judged(None, attempt(code=1, warned=1))

    assert (seen.state, seen.cause) == (State.FAILED, Cause.TIMEOUT)
    assert "BAY_OUT" in seen.reason


def test_packed_waits() -> None:
    """A run that shares an allocation waits with it, or for its turn in it."""
    pending = judged(listed("PENDING", reason="Resources"), packed=True)
    running = judged(listed("RUNNING"), packed=True)

    assert (pending.state, bool(pending.reason)) == (State.QUEUED, True)
    assert (running.state, running.reason) == (State.QUEUED, "next in an allocation that runs")
    assert judge(1, None, records(), job="", packed=True) == Doubt("")


def test_packed_ends_before_its_allocation() -> None:
    """A run that ended by itself has ended, though its allocation goes on."""
    running = listed("RUNNING")

    assert judged(running, attempt(), packed=True).state is State.RUNNING
    assert judged(running, attempt(code=0), packed=True).state is State.SUCCEEDED
    assert judged(running, attempt(code=139), packed=True).exit_code == 139
    over = judged(running, attempt("timeout", **TOLD), packed=True)
    assert (over.state, over.cause) == (State.FAILED, Cause.TIMEOUT)
    assert judged(running, attempt("cancel", **TOLD), packed=True).state is State.CANCELLED


def test_packed_is_told_by_slurm() -> None:
    """A run that somebody else told to end waits for what becomes of its allocation."""
    seen = judged(listed("RUNNING"), attempt(**TOLD), packed=True)

    assert (seen.state, seen.reason) == (State.RUNNING, "it is ending")
    unheard = judged(listed("RUNNING"), attempt(code=143), packed=True)
    assert (unheard.state, unheard.reason) == (State.RUNNING, "it is ending")
    after = settled(listed("COMPLETED"), attempt(**TOLD), packed=True)
    assert (after.state, after.exit_code) == (State.FAILED, 143)


def test_end_of_an_allocation_is_not_that_of_its_runs() -> None:
    """An allocation that ended well, or badly later, says nothing of a run's own end."""
    silent = settled(listed("COMPLETED"), attempt(), packed=True)
    crashed = settled(listed("TIMEOUT"), attempt(code=139), packed=True)
    earlier = settled(listed("TIMEOUT", ended_at="9000"), attempt(code=137), packed=True)

    assert (silent.state, silent.reason) == (
        State.LOST,
        "job 7_0 is gone and left no exit record",
    )
    assert (crashed.cause, crashed.exit_code) == (Cause.EXIT, 139)
    assert (earlier.cause, earlier.exit_code) == (Cause.EXIT, 137)
    unsaid = Records(attempts={1: Record(marks={"claim"})})
    assert settle(1, None, unsaid, job="", packed=True).reason == (
        "its allocation is gone and left no exit record"
    )


def test_allocation_in_which_it_began() -> None:
    """A packed run is asked about by the allocation that its newest attempt recorded."""
    assert records(attempt()).task(1) == JOB
    assert records(attempt(begun=False)).task(1) == ""
    assert judge(1, None, records(attempt()), job="", packed=True) == Doubt(JOB)


LOOK = """\
7|0|RUNNING|n1|1|e-plan|10:00|main|None
--marks
a/attempts/1/claim
a/attempts/2/claim
a/attempts/2/cancel
b/attempts/1/timeout
--events
a/attempts/1/events.jsonl:{"event":"started","at":1,"task":"7_0"}
a/attempts/1/events.jsonl:{"event":"exit","at":2,"code":0}
a/attempts/2/events.jsonl:{"event":"star
b/attempts/1/patterns.json:{"acc": "acc=([0-9.]+)"}
--values
==> a/out/metrics.jsonl <==
{"loss": 1.5}
half a li
{"loss": 0.5, "deep": [1]}

==> b/attempts/1/log-0.txt <==
acc=0.25 acc=0.75

"""


def test_look_is_read() -> None:
    """Marks, events, metrics and ends of logs are found again by run and attempt."""
    text, found = parse_look(LOOK)

    assert text.startswith("7|0|RUNNING")
    assert found["a"].attempts[1].events["exit"]["code"] == 0
    assert found["a"].attempts[2] == Record(marks={"claim", "cancel"})
    assert found["b"].attempts[1].marks == {"timeout"}
    seen = [judge(1, listed("RUNNING"), found[run], job=JOB) for run in "ab"]
    assert [one.metrics for one in seen if isinstance(one, Status)] == [
        {"loss": 0.5},
        {"acc": 0.75},
    ]


@pytest.mark.parametrize("shell", [["dash"], ["busybox", "sh"], ["bash", "--posix"]])
def test_records_as_a_shell_reads_them(tmp_path: Path, shell: list[str]) -> None:
    """What runs left in their folders comes through every shell, those without any left out."""
    for run, code in (("a", 0), ("b", 3)):
        records_at = tmp_path / "runs" / run / "attempts" / "1"
        records_at.mkdir(parents=True)
        (records_at / "claim").touch()
        line = {"event": "exit", "at": 1, "code": code, "signal": "", "phase": "command"}
        (records_at / "events.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "runs/b/attempts/1/timeout").touch()
    (tmp_path / "runs/b/out").mkdir()
    (tmp_path / "runs/b/out/metrics.jsonl").write_text('{"loss": 2}\n')
    script = f'. "{NODE}/records.sh"; read_records "$1"'
    done = subprocess.run(
        [require_program(shell[0]), *shell[1:], "-c", script, "sh", str(tmp_path)],
        input="a\nunknown\nb\n",
        capture_output=True,
        text=True,
        check=True,
    )
    _, found = parse_look(done.stdout)

    assert set(found) == {"a", "b"}
    assert [found[run].attempts[1].events["exit"]["code"] for run in "ab"] == [0, 3]
    assert found["b"].attempts[1].marks == {"claim", "timeout"}
    assert found["b"].metrics == '{"loss": 2}\n'
