"""The queue of a machine without Python, as serial.sh keeps it."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.conftest import LONGEST_S, end_queue, eventually, require_program
from tests.node.workshop import NODE, ORDINARY_PATH, is_alive, read_events

from launchbay.backends.depot import Depot
from launchbay.backends.machine.capacity import Limits
from launchbay.backends.machine.serial import SerialQueue
from launchbay.backends.names import attempt_of
from launchbay.core.host import Completed, decoded, encoded
from launchbay.core.job import Argv, Job, Resources, Script
from launchbay.core.run import Cause, Handle, State, Status
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from launchbay.core.backend import Facts

pytestmark = pytest.mark.slow


class Shed(LocalHost):
    """This machine, spoken to as if it had no Python, by one shell and its programs."""

    name = "shed"

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.node = folder / "state" / "launchbay" / "node" / "version"
        self.tools.mkdir()
        (self.tools / "sh").symlink_to(require_program(shell))
        if shell == "busybox":
            self._take_over()
        self.node.mkdir(parents=True)
        # Whatever they start is to be read by the shell in question too.
        for path in NODE.glob("*.sh"):
            text = path.read_text().replace("/bin/sh", str(self.tools / "sh"))
            (self.node / path.name).write_text(text)

    def _take_over(self) -> None:
        """Have the programs of busybox, and no others."""
        listed = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True)
        for name in set(listed.stdout.split()) - {"sh"}:
            (self.tools / name).symlink_to(require_program("busybox"))

    @property
    def variables(self) -> dict[str, str]:
        own = f"{self.folder}/stand-ins:{self.tools}"
        path = own if (self.tools / "ls").exists() else f"{own}:{ORDINARY_PATH}"
        return {"PATH": path, "HOME": str(self.folder), "XDG_STATE_HOME": f"{self.folder}/state"}

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        words = [str(self.tools / "sh") if word == "/bin/sh" else word for word in argv]
        done = subprocess.run(
            words, input=encoded(stdin), env=self.variables, capture_output=True, check=False
        )
        assert tell is None
        return Completed(
            code=done.returncode, stdout=decoded(done.stdout), stderr=decoded(done.stderr)
        )


class ShedDepot(Depot):
    """A root there; its programs are those of the shed."""

    def call(
        self,
        program: str,
        *words: str,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        assert isinstance(self.host, Shed)
        return self.host.run(
            ["/bin/sh", str(self.host.node / program), *words], stdin=stdin, tell=tell
        )


@dataclass
class Yard:
    """A queue, and what a client does with it."""

    shed: Shed
    facts: Facts | None = None
    root: str = "bay"

    @property
    def depot(self) -> Depot:
        return ShedDepot(self.shed, self.shed.folder / self.root, target="shed")

    @property
    def client(self) -> SerialQueue:
        limits = Limits(target="shed", facts=self.facts, parallel=None, devices=None)
        return SerialQueue(self.depot, limits, lambda name: f"value of {name}")

    @property
    def queue(self) -> Path:
        return self.shed.folder / "state/launchbay/hosts" / os.uname().nodename / "serial"

    def add(self, *jobs: Job, plan: str = "p1") -> list[Handle]:
        return self.client.submit(self.client.plan(plan, jobs))

    def status(self, handle: Handle) -> Status:
        return self.client.poll([handle])[handle]

    def until(self, state: State, *handles: Handle) -> list[Status]:
        """Wait until all have this state."""
        seen: dict[Handle, Status] = {}

        def reached() -> bool:
            seen.update(self.client.poll(handles))
            return all(status.state is state for status in seen.values())

        eventually(reached)
        return [seen[handle] for handle in handles]

    def run(self, handle: Handle) -> Path:
        return self.shed.folder / self.root / "runs" / handle.run_id

    def log(self, handle: Handle) -> str:
        path = self.run(handle) / f"attempts/{attempt_of(handle)}/log-0.txt"
        return path.read_text() if path.exists() else ""

    def worker(self) -> int:
        """Who works; waits for it."""
        eventually((self.queue / "worker").is_symlink)
        return int(os.readlink(self.queue / "worker").partition(".")[0])  # noqa: PTH115


@pytest.fixture(params=["dash", "busybox"])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    """An empty queue; whatever runs there is ended afterwards."""
    yield Yard(Shed(tmp_path, request.param))
    end_queue(tmp_path / "state")


NUMBERS = iter(range(10**6))


def job(command: Argv | Script | str, **fields: object) -> Job:
    text = Script(command) if isinstance(command, str) else command
    made = Job(
        run_id=f"run-{next(NUMBERS):05d}", name="name", experiment="experiment", command=text
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def wait_for(path: Path) -> str:
    """Shell text that goes on once the file is there."""
    return f'until [ -e "{path}" ]; do sleep 0.05; done'


def test_runs_go_one_after_another(yard: Yard, tmp_path: Path) -> None:
    """In the order they came in, over several plans and roots, and never two at once."""
    mark = tmp_path / "mark"
    text = f'echo "$BAY_RUN_ID begins" >>"{mark}"; sleep 0.1; echo "$BAY_RUN_ID ends" >>"{mark}"'
    other = Yard(yard.shed, root="other")
    first = yard.add(job(text), job(text))
    second = other.add(job(text), plan="p0")
    third = yard.add(job(text), plan="p2")
    yard.until(State.SUCCEEDED, *first, *third)
    other.until(State.SUCCEEDED, *second)

    names = [handle.run_id for handle in (*first, *second, *third)]
    assert mark.read_text().split("\n")[:-1] == [
        f"{name} {word}" for name in names for word in ("begins", "ends")
    ]


def test_waiting_says_how_many_are_before_it(yard: Yard, tmp_path: Path) -> None:
    """A waiting run knows its place, whoever sent those before it."""
    go = tmp_path / "go"
    running, waiting = yard.add(job(wait_for(go)), job("true"))
    (last,) = Yard(yard.shed, root="other").add(job("true"), plan="p2")
    yard.until(State.RUNNING, running)
    seen = yard.status(waiting), Yard(yard.shed, root="other").status(last)
    rooms = yard.client.capacity()
    found = yard.client.discover()
    go.touch()
    yard.until(State.SUCCEEDED, running, waiting)

    assert [status.state for status in seen] == [State.QUEUED, State.QUEUED]
    assert seen[0].reason == "next"
    assert seen[1].reason.startswith("1 before it in this machine's queue; runs go one after")
    assert (rooms[0].waiting, rooms[0].free["cpus"]) == (2, 0)
    assert found == [running, waiting]
    eventually(lambda: yard.client.discover() == [])
    # The last one, which is another root's, may still be ending.
    eventually(lambda: yard.client.capacity()[0].free == rooms[0].total)


def test_same_plan_twice(yard: Yard, tmp_path: Path) -> None:
    """A plan that comes again, also by many at once, and also after its end, runs once."""
    mark = tmp_path / "mark"
    wanted = [job(f'echo x >>"{mark}"') for _ in range(3)]
    with ThreadPoolExecutor(4) as pool:
        (handles, *others) = pool.map(lambda _: yard.add(*wanted), range(4))
    yard.until(State.SUCCEEDED, *handles)
    eventually(lambda: not list((yard.queue / "line").iterdir()))
    again = yard.add(*wanted)
    eventually(lambda: not list((yard.queue / "line").iterdir()))

    assert others == [handles] * 3
    assert again == handles
    assert mark.read_text() == "x\n" * 3


def test_next_worker_waits_for_what_runs(yard: Yard, tmp_path: Path) -> None:
    """After a worker was killed a look brings another, which starts nothing beside the old run."""
    go = tmp_path / "go"
    running, waiting = yard.add(job(f"{wait_for(go)}; echo end"), job("echo next"))
    yard.until(State.RUNNING, running)
    killed = yard.worker()
    os.kill(killed, signal.SIGKILL)
    yard.client.poll([running])
    eventually(lambda: yard.worker() != killed)
    states = [yard.status(handle).state for handle in (running, waiting)]
    go.touch()
    yard.until(State.SUCCEEDED, running, waiting)

    assert states == [State.RUNNING, State.QUEUED]
    assert (yard.log(running), yard.log(waiting)) == ("end\n", "next\n")
    assert len(read_events(yard.run(running))) == 2


def test_killed_at_any_moment(yard: Yard, tmp_path: Path) -> None:
    """However often workers are killed, each run runs once, in order, and never two at once."""
    mark = tmp_path / "mark"
    text = f'echo "$BAY_RUN_ID begins" >>"{mark}"; echo "$BAY_RUN_ID ends" >>"{mark}"'
    handles = yard.add(*(job(text) for _ in range(20)))
    chance = Random(7)
    deadline = time.monotonic() + LONGEST_S

    def all_succeeded() -> bool:
        return {one.state for one in yard.client.poll(handles).values()} == {State.SUCCEEDED}

    while not all_succeeded() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            os.kill(int(os.readlink(yard.queue / "worker").partition(".")[0]), signal.SIGKILL)  # noqa: PTH115
        time.sleep(chance.uniform(0.0, 0.4))
    yard.until(State.SUCCEEDED, *handles)

    assert mark.read_text().split("\n")[:-1] == [
        f"{handle.run_id} {word}" for handle in handles for word in ("begins", "ends")
    ]


def test_many_workers_are_one(yard: Yard, tmp_path: Path) -> None:
    """Of many that find a dead one's mark, one works."""
    go = tmp_path / "go"
    running, waiting = yard.add(job(wait_for(go)), job("true"))
    yard.until(State.RUNNING, running)
    os.kill(yard.worker(), signal.SIGKILL)
    program = ["/bin/sh", str(yard.shed.node / "serial.sh"), "work"]
    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(yard.shed.run, program) for _ in range(6)]
        eventually(lambda: sum(call.done() for call in calls) == 5)
        state = yard.status(waiting).state
        go.touch()
    yard.until(State.SUCCEEDED, running, waiting)

    assert state is State.QUEUED


def test_cancel(yard: Yard) -> None:
    """What runs is ended, what waits never starts, and the next one goes on."""
    running, waiting, last = yard.add(job("sleep 600"), job("echo no"), job("echo yes"))
    yard.until(State.RUNNING, running)
    eventually(lambda: read_events(yard.run(running)))
    pid = read_events(yard.run(running))[0]["pid"]
    yard.client.cancel([running, waiting])
    seen = yard.until(State.CANCELLED, running, waiting)
    yard.until(State.SUCCEEDED, last)

    assert [status.reason for status in seen] == ["cancelled", "cancelled before it started"]
    assert yard.log(waiting) == ""
    assert not is_alive(pid)


def test_cancel_by_force(yard: Yard) -> None:
    """A run that does not heed its end is killed, with all that it started."""
    (yard.shed.node / "serial.sh").write_text(
        (yard.shed.node / "serial.sh").read_text().replace("bay_grace_s=10", "bay_grace_s=1")
    )
    text = 'trap "" TERM; echo $$; while :; do sleep 0.1; done'
    (handle,) = yard.add(job(text))
    eventually(lambda: yard.log(handle))
    yard.client.cancel([handle])
    (status,) = yard.until(State.CANCELLED, handle)

    assert status.exit_code == 137
    eventually(lambda: not is_alive(int(yard.log(handle))))


def test_what_ended_stays_as_it_ended(yard: Yard) -> None:
    """Cancelling a run that failed changes nothing; one that is yet to come is over already."""
    (handle,) = yard.add(job("exit 7"))
    yard.until(State.FAILED, handle)
    to_come = Handle("late-aaaaa", "shed", "serial/p9/late-aaaaa")
    yard.client.cancel([handle, to_come])
    status = yard.status(handle)

    assert (status.state, status.cause, status.exit_code) == (State.FAILED, Cause.EXIT, 7)
    assert yard.status(to_come).state is State.CANCELLED
    assert not (yard.run(to_come) / "../../plans/p9").exists()


def test_time_limit(yard: Yard) -> None:
    """A run whose time is up is ended, and says so."""
    limited = job("sleep 600", resources=Resources(time_limit=timedelta(seconds=1)))
    (handle,) = yard.add(limited)
    (status,) = yard.until(State.FAILED, handle)

    assert (status.cause, status.reason) == (Cause.TIMEOUT, "its time limit was over")


def test_killed_run_is_lost(yard: Yard) -> None:
    """A run that was killed from outside left no end, and the next one goes on."""
    running, waiting = yard.add(job("sleep 600"), job("true"))
    yard.until(State.RUNNING, running)
    eventually(lambda: read_events(yard.run(running)))
    os.killpg(read_events(yard.run(running))[0]["pid"], signal.SIGKILL)
    (status,) = yard.until(State.LOST, running)
    yard.until(State.SUCCEEDED, waiting)

    assert status.reason == "its process is gone and left no exit record"


def test_restart_of_the_machine(yard: Yard) -> None:
    """A run of an earlier boot is lost, and says why; what waited goes on."""
    running, waiting = yard.add(job("sleep 600"), job("true"))
    yard.until(State.RUNNING, running)
    eventually(lambda: read_events(yard.run(running)))
    os.kill(yard.worker(), signal.SIGKILL)
    events = yard.run(running) / "attempts/1/events.jsonl"
    started = read_events(yard.run(running))[0]
    os.killpg(started["pid"], signal.SIGKILL)
    events.write_text(events.read_text().replace(started["boot"], "another-boot"))
    status = yard.status(running)
    yard.until(State.SUCCEEDED, waiting)

    assert (status.state, status.reason) == (State.LOST, "the machine was restarted")


def test_removed_runs_do_not_come_back(yard: Yard, tmp_path: Path) -> None:
    """Folders of runs may go while their plan goes on, also under a new worker."""
    mark, go = tmp_path / "mark", tmp_path / "go"
    done, running, dropped = yard.add(
        job(f'echo once >>"{mark}"'), job(wait_for(go)), job(f'echo never >>"{mark}"')
    )
    yard.until(State.RUNNING, running)
    yard.client.cancel([dropped])
    for handle in (done, dropped):
        shutil.rmtree(yard.run(handle))
    os.kill(yard.worker(), signal.SIGKILL)
    go.touch()
    yard.until(State.SUCCEEDED, running)
    eventually(lambda: not list((yard.queue / "line").iterdir()))

    assert mark.read_text() == "once\n"


def test_secrets_go_with_their_plan(yard: Yard) -> None:
    """A run has its secrets, a file of the account holds them, and it is gone after the plan."""
    (handle,) = yard.add(job('echo "$KEY $OWN"', secrets=("KEY",), env={"OWN": "it's"}))
    yard.until(State.SUCCEEDED, handle)
    eventually(lambda: not list((yard.queue / "line").iterdir()))
    found = subprocess.run(
        ["grep", "-rl", "value of KEY", str(yard.shed.folder)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert yard.log(handle) == "value of KEY it's\n"
    assert found.stdout.split() == [str(yard.run(handle) / "attempts/1/log-0.txt")]


def test_next_attempt(yard: Yard) -> None:
    """A second attempt is a run of its own, with the outputs of the first."""
    wanted = job('echo "$BAY_ATTEMPT" >>"$BAY_OUT/seen"; [ "$BAY_ATTEMPT" = 2 ]')
    (first,) = yard.add(wanted)
    yard.until(State.FAILED, first)
    (second,) = yard.add(replace(wanted, attempt=2), plan="p2")
    yard.until(State.SUCCEEDED, second)

    assert second.native_id == f"serial/p2/{wanted.run_id}-2"
    assert yard.status(first).state is State.FAILED
    assert (yard.run(second) / "out/seen").read_text() == "1\n2\n"


def test_metrics(yard: Yard) -> None:
    """Values that a run reports are seen while it runs and after."""
    text = 'echo \'{"loss": 0.5}\' >>"$BAY_OUT/metrics.jsonl"; echo acc=0.75'
    (handle,) = yard.add(job(text, metrics={"acc": "acc=([0-9.]+)"}))
    (status,) = yard.until(State.SUCCEEDED, handle)

    assert status.metrics == {"loss": 0.5, "acc": 0.75}


NVIDIA = """#!/bin/sh
case $1 in
*index,uuid*) printf '0, GPU-a\\n1, GPU-b\\n2, GPU-c\\n' ;;
*index,name*) printf '0, Some GPU\\n1, Some GPU\\n2, Some GPU\\n' ;;
*compute-apps*) printf 'GPU-b, 1\\n' ;;
esac
"""


def test_gpus(yard: Yard) -> None:
    """A run sees as many GPUs as it asked for, and none that others use."""
    if os.getuid() == 0 and Path("/proc/1").stat().st_uid == 0:
        others = "GPU-b, 999999999"
    else:
        others = "GPU-b, 1"
    tools = yard.shed.folder / "stand-ins"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(NVIDIA.replace("GPU-b, 1", others))
    (tools / "nvidia-smi").chmod(0o755)
    yard.facts = yard.client.survey()
    show = 'echo "[${CUDA_VISIBLE_DEVICES-unset}]"'
    wanted = [job(show, resources=Resources(gpus=count)) for count in (2, 0.5, 0, None)]
    handles = yard.add(*wanted)
    yard.until(State.SUCCEEDED, *handles)

    assert yard.facts.gpus == (("0", "Some GPU"), ("1", "Some GPU"), ("2", "Some GPU"))
    assert [yard.log(handle) for handle in handles] == ["[0,2]\n", "[0]\n", "[]\n", "[0]\n"]


def test_survey(yard: Yard) -> None:
    """The machine says what it has without any Python, and nothing is written."""
    facts = yard.client.survey()

    assert (facts.cpus or 0) >= 1
    assert (facts.memory_mib or 0) > 100
    programs = facts.details["programs"]
    assert set(programs) <= {"bay", "s5cmd", "rclone", "aws", "curl", "python3"}
    assert facts.details == {"python": "", "home": str(yard.shed.folder), "programs": programs}
    assert not (yard.shed.folder / "bay").exists()


def test_plan_that_broke_off(yard: Yard) -> None:
    """An archive that ends too early leaves nothing behind, and the next one is taken."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("sheet"))
    words = ["/bin/sh", str(yard.shed.node / "serial.sh"), "add", str(yard.shed.folder / "bay")]
    done = yard.shed.run([*words, "p1"], stdin=decoded(buffer.getvalue()))
    left = list((yard.shed.folder / "bay" / "plans").iterdir())
    (handle,) = yard.add(job("true"))
    yard.until(State.SUCCEEDED, handle)

    assert (done.code, left) == (73, [])
    assert "cannot be written" in done.stderr
