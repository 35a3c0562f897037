"""Allocations that runs of a plan share, as programs of their own, without any scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from allocation import find_order
from tests.conftest import eventually, require_program
from tests.node.workshop import NODE, ORDINARY_PATH, is_alive, read_events

from launchbay.backends.sheet import render_sheet
from launchbay.core.job import Job, Script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}
TOOLS = ("cp", "cut", "date", "grep", "id", "mkdir", "mv", "rm", "rmdir", "sed", "setsid", "sleep")
WAITS = 'until [ -e "$BAY_OUT/../../../go" ]; do sleep 0.02; done\n'
READY = f"echo ready\n{WAITS}"
IGNORES = "trap '' TERM\necho ready\nwhile :; do sleep 0.05; done\n"
SPEC = {"format": 1, "width": 2, "share": 4, "gpus": 0, "time_s": None, "limit_s": None}


@dataclass
class Pack:
    """One plan whose runs share allocations, and the allocations that were started."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def plan(self) -> Path:
        return self.root / "plans" / "plan"

    def make(self, *texts: str, **spec: Any) -> list[str]:
        """Write the plan; the names of its runs."""
        names = [f"run-{index:02d}" for index in range(len(texts))]
        jobs = [
            Job(run_id=name, name="run", experiment="e", command=Script(text), outputs=())
            for name, text in zip(names, texts, strict=True)
        ]
        self.plan.mkdir(parents=True)
        for name, text in render_sheet(jobs, target="brc", plan="plan").items():
            (self.plan / name).write_text(text)
        (self.plan / "pack.json").write_text(json.dumps({**SPEC, **spec}) + "\n")
        return names

    def start(self, number: int = 0, *argv: str, **variables: str) -> subprocess.Popen[str]:
        """Begin an allocation."""
        words = argv or (sys.executable, "-S", "-E", str(NODE / "pack.py"), "serve")
        process = subprocess.Popen(
            [*words, str(self.plan), str(number)],
            env={"PATH": ORDINARY_PATH, **self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def serve(self, number: int = 0, *argv: str, **variables: str) -> None:
        """Be an allocation to its end."""
        self.ended(self.start(number, *argv, **variables))

    def ended(self, process: subprocess.Popen[str]) -> None:
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")

    def run(self, name: str) -> Path:
        return self.root / "runs" / name

    def records(self, name: str) -> Path:
        return self.run(name) / "attempts" / "1"

    def mark(self, name: str, mark: str) -> None:
        """What somebody else leaves with a run."""
        self.records(name).mkdir(parents=True, exist_ok=True)
        (self.records(name) / mark).touch()

    def event(self, name: str, kind: str) -> dict[str, Any]:
        return next((one for one in read_events(self.run(name)) if one["event"] == kind), {})

    def codes(self) -> dict[str, Any]:
        """The exit code of every run that recorded an end."""
        ends = {path.name: self.event(path.name, "exit") for path in self.root.glob("runs/*")}
        return {name: end["code"] for name, end in sorted(ends.items()) if end}

    def begun(self) -> list[str]:
        found = [path.name for path in self.root.glob("runs/*") if self.event(path.name, "started")]
        return sorted(found)

    def ready(self) -> list[str]:
        """The runs whose command goes, so that a signal finds it."""
        return [name for name in self.begun() if self.log(name) == "ready\n"]

    def log(self, name: str) -> str:
        path = self.records(name) / "log-0.txt"
        return path.read_text() if path.exists() else ""

    def go(self) -> None:
        """Let everything end that waits for a word."""
        (self.root / "go").touch()

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
            if process.stderr:
                process.stderr.close()
        for name in self.begun():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if not self.event(name, "exit"):
                    os.killpg(self.event(name, "started")["pid"], signal.SIGKILL)


@pytest.fixture
def pack(tmp_path: Path) -> Iterator[Pack]:
    """An empty root; whatever runs there is ended afterwards."""
    made = Pack(tmp_path)
    yield made
    made.end()


def test_every_run_has_its_own_end(pack: Pack) -> None:
    """Each run has its own log, exit code and record, whatever became of the others."""
    names = pack.make("echo one", "echo two; exit 3", "echo three")
    pack.serve(SLURM_JOB_ID="70", SLURM_ARRAY_JOB_ID="69", SLURM_ARRAY_TASK_ID="0")

    assert pack.codes() == dict(zip(names, [0, 3, 0], strict=True))
    assert [pack.log(name) for name in names] == ["one\n", "two\n", "three\n"]
    started = pack.event(names[0], "started")
    assert (started["allocation"], started["task"]) == ("70", "69_0")


def test_as_many_side_by_side_as_it_is_wide(pack: Pack) -> None:
    """No more run at once than there is room for, and the next begins when one ends."""
    count = 'ls -d "$BAY_OUT"/../../*/out/on 2>/dev/null | wc -l'
    text = f'touch "$BAY_OUT/on"; sleep 0.1; {count}; rm "$BAY_OUT/on"'
    names = pack.make(*[text] * 7, width=3)
    pack.serve()

    seen = [int(pack.log(name)) for name in names]
    assert (max(seen), len(seen)) == (3, 7)
    assert set(pack.codes().values()) == {0}


def test_own_share_first(pack: Pack) -> None:
    """Two allocations begin with different runs."""
    names = pack.make(*[WAITS] * 8)
    both = [pack.start(number) for number in range(2)]
    eventually(lambda: len(pack.begun()) == 4)

    assert pack.begun() == [*names[:2], *names[4:6]]
    pack.go()
    for process in both:
        pack.ended(process)


def test_what_others_have_not_begun_is_taken(pack: Pack) -> None:
    """An allocation that is through with its share goes on with the rest; nothing runs twice."""
    names = pack.make(*["echo ran"] * 12, width=3)
    both = [pack.start(number) for number in (0, 2)]
    for process in both:
        pack.ended(process)

    assert pack.codes() == dict.fromkeys(names, 0)
    assert Counter(map(pack.log, names)) == {"ran\n": 12}


def test_others_come_for_different_runs() -> None:
    """Every allocation has all runs in its order, its own first, and then goes its own way."""
    orders = [find_order(95, 10, number) for number in range(10)]

    assert [sorted(order) for order in orders] == [list(range(95))] * 10
    assert [order[0] for order in orders] == list(range(0, 95, 10))
    assert orders[9][:5] == [90, 91, 92, 93, 94]
    assert len({order[20] // 10 for order in orders[:9]}) > 4


def test_more_allocations_than_shares() -> None:
    """An allocation that was started for what is left has a share like any other."""
    assert sorted(find_order(5, 2, 7)) == [0, 1, 2, 3, 4]
    assert find_order(1, 20, 3) == [0]


def test_claim_of_somebody_else(pack: Pack) -> None:
    """A run that somebody has begun is left alone."""
    names = pack.make("echo one", "echo two")
    pack.mark(names[0], "claim")
    pack.serve()

    assert pack.begun() == names[1:]


def test_whole_gpus(pack: Pack) -> None:
    """Runs that go side by side never have a GPU in common, and all that were given are used."""
    names = pack.make(*[f"echo $CUDA_VISIBLE_DEVICES; {WAITS}"] * 3, width=2, gpus=2)
    process = pack.start(CUDA_VISIBLE_DEVICES="3,5,6,7")
    eventually(lambda: len([name for name in names if pack.log(name)]) == 2)

    assert sorted(map(pack.log, names[:2])) == ["3,5\n", "6,7\n"]
    pack.go()
    pack.ended(process)
    assert pack.event(names[2], "started")["devices"] in {"3,5", "6,7"}


def test_half_gpus(pack: Pack) -> None:
    """Two runs of half a GPU share one."""
    names = pack.make(*[WAITS] * 4, width=4, gpus=0.5)
    process = pack.start(SLURM_JOB_GPUS="1,2")
    eventually(lambda: len(pack.begun()) == 4)

    devices = [pack.event(name, "started")["devices"] for name in names]
    assert Counter(devices) == {"1": 2, "2": 2}
    pack.go()
    pack.ended(process)


def test_gpus_are_counted_where_they_are_not_named(pack: Pack) -> None:
    """Where Slurm only says how many GPUs there are, they are numbered."""
    (name,) = pack.make("true", gpus=2)
    pack.serve(SLURM_GPUS_ON_NODE="2")

    assert pack.event(name, "started")["devices"] == "0,1"


def test_fewer_gpus_than_were_asked_for(pack: Pack) -> None:
    """Where too few GPUs can be seen, runs follow one another with what there is."""
    names = pack.make("true", "true", gpus=1)
    pack.serve()

    assert pack.codes() == dict.fromkeys(names, 0)


def test_own_time_limit(pack: Pack) -> None:
    """A run over its own time is told to end and marked; the next one begins."""
    names = pack.make("sleep 60", "sleep 60", "true", width=1, time_s=1)
    pack.serve()

    assert pack.codes() == dict(zip(names, [143, 143, 0], strict=True))
    assert [(pack.records(name) / "timeout").exists() for name in names] == [True, True, False]


def test_cancelled_before(pack: Pack) -> None:
    """A run that was cancelled never starts, and its record says that it ended unstarted."""
    names = pack.make("echo one", "echo two")
    pack.mark(names[0], "cancel")
    pack.serve()

    assert pack.begun() == names[1:]
    assert pack.event(names[0], "exit")["code"] is None


def test_cancelled_during(pack: Pack) -> None:
    """A run that is cancelled is told to end, and its neighbour is not."""
    names = pack.make(READY, READY)
    process = pack.start()
    eventually(lambda: pack.ready() == names)
    pack.mark(names[0], "cancel")
    eventually(lambda: pack.event(names[0], "exit"))

    assert pack.event(names[0], "exit")["signal"] == "TERM"
    assert not pack.event(names[1], "exit")
    pack.go()
    pack.ended(process)


def test_cancelled_and_deaf(pack: Pack, tmp_path: Path) -> None:
    """A run that ignores being told is killed after a grace, and its end is still recorded."""
    (name,) = pack.make(IGNORES)
    eager = "import allocation, sys; allocation.GRACE_S = 0.2; allocation.serve(*sys.argv[1:])"
    process = pack.start(0, sys.executable, "-S", "-c", eager, PYTHONPATH=str(NODE))
    eventually(lambda: pack.log(name) == "ready\n")
    pack.mark(name, "cancel")
    pack.ended(process)

    assert pack.codes() == {name: 137}


def test_told_to_end(pack: Pack) -> None:
    """On TERM the runs are told, and what had not begun is left for another allocation."""
    names = pack.make(*[READY] * 4)
    process = pack.start()
    eventually(lambda: pack.ready() == names[:2])
    process.terminate()
    pack.ended(process)

    assert pack.codes() == dict.fromkeys(names[:2], 143)
    assert pack.begun() == names[:2]
    pack.go()
    pack.serve()
    assert pack.codes() == {**dict.fromkeys(names[:2], 143), **dict.fromkeys(names[2:], 0)}


def test_time_nearly_up(pack: Pack) -> None:
    """Nothing is begun that could not end in time; it stays for the next allocation."""
    late = "import allocation, sys; now = allocation.clock\n"
    late += "allocation.clock = lambda: now() * 100\nallocation.serve(*sys.argv[1:])"
    names = pack.make("sleep 1", "true", width=1, time_s=60, limit_s=90)
    pack.serve(0, sys.executable, "-S", "-c", late, PYTHONPATH=str(NODE))

    assert pack.begun() == names[:1]


def test_first_has_all_the_time(pack: Pack) -> None:
    """An allocation that lasts no longer than a run begins as many as it is wide."""
    names = pack.make(*["true"] * 2, time_s=60, limit_s=60)
    pack.serve()

    assert pack.codes() == dict.fromkeys(names, 0)


def test_slurm_says_when_it_ends(pack: Pack) -> None:
    """The end that Slurm tells counts, not what was asked for."""
    names = pack.make("true", "true", time_s=60, limit_s=6000)
    pack.serve(SLURM_JOB_END_TIME="1")

    assert pack.begun() == []
    assert names


def test_killed_and_started_again(pack: Pack) -> None:
    """After SIGKILL the next allocation leaves alone what runs and takes what had not begun."""
    names = pack.make(*[WAITS] * 4)
    process = pack.start()
    eventually(lambda: pack.begun() == names[:2])
    process.kill()
    process.wait()
    again = pack.start()
    eventually(lambda: pack.begun() == names)
    pack.go()
    pack.ended(again)

    eventually(lambda: pack.codes() == dict.fromkeys(names, 0))
    starts = [one for name in names for one in read_events(pack.run(name)) if "pid" in one]
    assert len(starts) == 4


def test_restart_is_no_further_attempt(pack: Pack) -> None:
    """Runs in an allocation that Slurm started again are still at their first attempt."""
    (name,) = pack.make("echo $BAY_ATTEMPT")
    pack.serve(SLURM_RESTART_COUNT="2")

    assert pack.log(name) == "1\n"


@dataclass
class Serial:
    """allocation.sh in one shell, on a node where no Python is to be found."""

    shell: list[str]
    pack: Pack
    tools: Path

    def start(self, number: int = 0, **variables: str) -> subprocess.Popen[str]:
        script = [*self.shell, str(NODE / "allocation.sh")]
        return self.pack.start(number, *script, PATH=str(self.tools), **variables)

    def serve(self, number: int = 0, **variables: str) -> None:
        self.pack.ended(self.start(number, **variables))


@pytest.fixture(params=SHELLS)
def serial(request: pytest.FixtureRequest, pack: Pack, tmp_path: Path) -> Serial:
    """The path without Python, in each shell."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in (*TOOLS, "sh", "wc", "cat", "tail"):
        (tools / name).symlink_to(require_program(name))
    shell = SHELLS[request.param]
    return Serial([require_program(shell[0]), *shell[1:]], pack, tools)


def test_one_after_the_other(serial: Serial) -> None:
    """Without Python the runs of a share come first, then the others, one at a time."""
    order = 'echo "$BAY_RUN_ID" >>"$BAY_OUT/../../../order"'
    names = serial.pack.make(*[order] * 6, share=4)
    serial.pack.mark(names[5], "claim")
    serial.serve(1)

    ran = (serial.pack.root / "order").read_text().split()
    assert ran == [names[4], *names[:4]]


def test_serial_cancel(serial: Serial) -> None:
    """One that was cancelled before never starts; one that runs is told to end."""
    names = serial.pack.make("true", READY, "true")
    serial.pack.mark(names[0], "cancel")
    process = serial.start()
    eventually(lambda: serial.pack.ready() == [names[1]])
    serial.pack.mark(names[1], "cancel")
    serial.pack.ended(process)

    assert serial.pack.codes() == {names[0]: None, names[1]: 143, names[2]: 0}


def test_serial_time_limit(serial: Serial) -> None:
    """A run over its own time is told to end and marked; the next one begins."""
    names = serial.pack.make("sleep 60", "true", time_s=1)
    serial.serve()

    assert serial.pack.codes() == {names[0]: 143, names[1]: 0}
    assert (serial.pack.records(names[0]) / "timeout").exists()


def test_serial_told_to_end(serial: Serial) -> None:
    """On TERM the run is told, and what had not begun is left."""
    names = serial.pack.make(READY, "true")
    process = serial.start()
    eventually(lambda: serial.pack.ready() == [names[0]])
    process.terminate()
    serial.pack.ended(process)

    assert serial.pack.codes() == {names[0]: 143}
    assert not is_alive(serial.pack.event(names[0], "started")["pid"])


def test_serial_time_nearly_up(serial: Serial) -> None:
    """The first has all the time there is; what could not end in time is left."""
    names = serial.pack.make("true", "true", time_s=60, limit_s=60)
    serial.pack.mark(names[0], "claim")
    serial.serve()

    assert serial.pack.begun() == [names[1]]
