"""The machine backend: what it plans, what it refuses, and how it reads the queue's answers."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import end_queue, eventually, require_program
from tests.stubs import write_uv_project

from launchbay.backends.machine.backend import (
    CHUNK,
    MachineBackend,
    MachineOptions,
    open_machine,
    parse_devices,
)
from launchbay.backends.machine.capacity import parse_room
from launchbay.backends.outcome import parse_status
from launchbay.core.backend import Facts, Opening, Room
from launchbay.core.errors import BadRequest, Rejected, StoreError, Unreachable, Unsupported
from launchbay.core.host import Completed
from launchbay.core.job import Argv, Job, Resources, Script
from launchbay.core.python import Python, activation, environment_id, render_setup
from launchbay.core.run import Cause, Handle, State, Status
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Golden = Callable[[str, str], None]

A100 = "NVIDIA A100-SXM4-80GB"
GPUS = (("0", A100), ("1", A100), ("2", A100), ("3", "Tesla T4"))
PLAIN = Facts(seen_at=0.0, cpus=16, memory_mib=64000)
FOUR_GPUS = Facts(seen_at=0.0, cpus=16, memory_mib=64000, gpus=GPUS)


class Deaf(LocalHost):
    """This machine, where every command ends in the same way."""

    def __init__(self, completed: Completed) -> None:
        self.completed = completed

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        return self.completed


def backend(facts: Facts | None = PLAIN, **options: Any) -> MachineBackend:
    settings = MachineOptions(root=Path("/bay"), **options)
    return MachineBackend("desk", settings, LocalHost(), facts=facts)


def job(**fields: Any) -> Job:
    given = {"run_id": "lr-4x7ab", "name": "lr", "experiment": "sweep", "command": Argv(("true",))}
    return Job(**{**given, **fields})


def needing(**resources: Any) -> Job:
    return job(resources=Resources(**resources))


def needs(target: MachineBackend, wanted: Job) -> dict[str, Any]:
    """What the queue is told that the job needs."""
    (plan,) = target.plan([wanted])
    return dict(json.loads(plan.document.splitlines()[1])["needs"])


def caps(target: MachineBackend, wanted: Job) -> dict[str, list[Any]]:
    """What the queue is told that limits the job."""
    (plan,) = target.plan([wanted])
    return dict(json.loads(plan.document.splitlines()[1])["caps"])


def test_plain_plan(golden: Golden) -> None:
    """A job that asks for nothing is limited by a quarter of the cores."""
    (plan,) = backend().plan([job()])

    golden("machine/plain.jsonl", plan.document)


def test_full_plan(golden: Golden) -> None:
    """Everything that a job can say stands in the plan, secrets by name only."""
    wanted = job(
        attempt=2,
        command=Script("python train.py --lr <lr>\n"),
        params={"lr": "1e-3"},
        env={"A": "it's"},
        secrets=("KEY",),
        setup="module load cuda\n",
        resources=Resources(
            cpus=2, gpus=0.5, gpu_types=("a100",), memory_mib=4000, time_limit=timedelta(hours=8)
        ),
        parallel=3,
        snapshot="c0de",
        project_folder="/home/me/project",
        links={"data": "/home/me/project/data"},
        subfolder="experiments",
        outputs=("results",),
        metrics={"acc": "acc=(.*)"},
        origin="/bay/runs/x/out",
        fresh=True,
        labels={"project": "p1"},
    )
    (plan,) = backend(FOUR_GPUS, parallel=2, devices=("0", "3")).plan([wanted])

    golden("machine/full.jsonl", plan.document)


def test_plan_holds_no_secret() -> None:
    """The value of a secret is asked for at submit, not for a plan."""

    def never(name: str) -> str:
        raise AssertionError(name)

    settings = MachineOptions(root=Path("/bay"))
    target = MachineBackend("desk", settings, LocalHost(), facts=PLAIN, secret=never)

    assert target.plan([job(secrets=("KEY",))])


def test_large_sweep_is_several_plans() -> None:
    """Handles are stored by the chunk, so that an interruption loses little."""
    jobs = [job(run_id=f"lr-{number:05d}") for number in range(CHUNK + 1)]
    plans = backend().plan(jobs)

    assert [len(plan.jobs) for plan in plans] == [CHUNK, 1]
    assert len({plan.id for plan in plans}) == 2


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (needing(gpus=5), "`desk` has 4 GPUs; `lr-4x7ab` wants 5"),
        (
            needing(gpus=2, gpu_types=("t4",)),
            "`desk` has 1 GPU of type t4; `lr-4x7ab` wants 2",
        ),
        (
            needing(gpus=1, gpu_types=("h100", "b200")),
            "`desk` has no GPUs of type h100 or b200; `lr-4x7ab` wants 1",
        ),
        (needing(nodes=2), "`desk` is one machine; `lr-4x7ab` wants 2 nodes"),
        (needing(processes=4), "`desk` starts a command once; `lr-4x7ab` wants 4 processes"),
        (needing(cpus=17), "`desk` has 16 of `cpus`; `lr-4x7ab` wants 17"),
        (
            needing(memory_mib=64001),
            "`desk` has 64000 MiB of `memory`; `lr-4x7ab` wants 64001 MiB",
        ),
    ],
)
def test_what_can_never_run_is_refused(wanted: Job, message: str) -> None:
    """A plan says what the machine lacks, before anything is sent."""
    with pytest.raises(Unsupported) as caught:
        backend(FOUR_GPUS).plan([job(run_id="fine"), wanted])

    assert str(caught.value) == message
    assert caught.value.hint


def test_a_type_that_the_machine_lacks_is_refused() -> None:
    """Who names a type and no number wants one of them, and not to run without any."""
    with pytest.raises(Unsupported, match="has no GPU that `lr-4x7ab` wants; it has "):
        backend(FOUR_GPUS).plan([needing(gpu_types=("h100",))])

    assert backend(FOUR_GPUS).plan([needing(gpu_types=("h100",), gpus=0)])
    assert backend(PLAIN).plan([needing(gpu_types=("h100",))])


def test_a_named_gpu_that_is_not_there_is_refused() -> None:
    """A wrong id in `devices:` is said at once; where no GPU is seen, the user knows better."""
    with pytest.raises(Unsupported, match="names GPU `7`"):
        backend(FOUR_GPUS, devices=("0", "7")).plan([needing(gpus=1)])

    assert backend(PLAIN, devices=("0", "7")).plan([needing(gpus=2)])


@pytest.mark.parametrize(
    "wanted", [needing(gpus=4), needing(gpus=0.5), needing(cpus=16), needing(memory_mib=64000)]
)
def test_what_just_fits_is_planned(wanted: Job) -> None:
    """All of a machine may be asked for."""
    assert backend(FOUR_GPUS).plan([wanted])


def test_unknown_machine_refuses_nothing_but_nodes() -> None:
    """Without facts no limit is checked."""
    target = backend(None)

    assert target.plan([needing(gpus=99, cpus=999, memory_mib=10**9)])
    with pytest.raises(Unsupported):
        target.plan([needing(nodes=2)])


@pytest.mark.parametrize(
    ("facts", "wanted", "expected"),
    [
        (PLAIN, needing(), {}),
        (FOUR_GPUS, needing(), {"gpus": 1.0, "devices": ["0", "1", "2", "3"], "auto": True}),
        (FOUR_GPUS, needing(gpus=0), {"hide_gpus": True}),
        (
            FOUR_GPUS,
            needing(gpus=2, gpu_types=("a100",)),
            {"gpus": 2, "devices": ["0", "1", "2"], "auto": True},
        ),
        (
            FOUR_GPUS,
            needing(gpus=1, gpu_types_denied=("A100",)),
            {"gpus": 1, "devices": ["3"], "auto": True},
        ),
    ],
)
def test_gpus_of_a_machine(facts: Facts, wanted: Job, expected: dict[str, Any]) -> None:
    """One GPU unless a job says otherwise; none hides them; a type leaves some out."""
    amounts = {"cpus": None, "memory_mib": None, "time_s": None}

    assert needs(backend(facts), wanted) == {**amounts, **expected}


def test_named_devices_are_all_there_are() -> None:
    """A target's own list is given out whoever else uses them."""
    seen = needs(backend(FOUR_GPUS, devices=("1", "3")), needing(gpus=2))

    assert (seen["devices"], seen["auto"]) == (["1", "3"], False)


@pytest.mark.parametrize(
    ("facts", "options", "wanted", "expected"),
    [
        (PLAIN, {}, job(), {"host": 4}),
        (None, {}, job(), {"host": 1}),
        (FOUR_GPUS, {}, job(), {}),
        (FOUR_GPUS, {}, needing(gpus=0), {"host": 4}),
        (PLAIN, {"parallel": 3}, job(), {"target desk": 3}),
        (PLAIN, {}, job(parallel=9), {"sweep  sweep": 9}),
        (PLAIN, {"parallel": 3}, job(parallel=9), {"sweep  sweep": 9, "target desk": 3}),
    ],
)
def test_how_many_at_once(
    facts: Facts | None, options: dict[str, Any], wanted: Job, expected: dict[str, int]
) -> None:
    """A sweep's cap and a target's both hold; without either the cores are the limit."""
    seen = caps(backend(facts, **options), wanted)

    assert {cap: most for cap, (most, _) in seen.items()} == expected


ENDED = {"state": "ended", "signal": "", "phase": "command", "stop": "", "why": ""}
TIMES = {"started": 1.0, "ended": 2.0, "host": "box", "metrics": {"acc": 0.5}}
KNOWN: dict[str, Any] = {
    "started_at": 1.0,
    "ended_at": 2.0,
    "nodes": ("box",),
    "metrics": {"acc": 0.5},
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            {"state": "waiting", "ahead": 0, "why": ""},
            Status(state=State.QUEUED, reason="next"),
        ),
        (
            {"state": "waiting", "ahead": 3, "why": "it needs 2 GPU, too few are free"},
            Status(
                state=State.QUEUED,
                reason="3 before it in this machine's queue; it needs 2 GPU, too few are free",
            ),
        ),
        (
            {"state": "running", "why": "", "started": 1.0, "host": "box", "metrics": {}},
            Status(state=State.RUNNING, started_at=1.0, nodes=("box",)),
        ),
        (
            {"state": "lost", "why": "unknown"},
            Status(state=State.LOST, reason="the machine does not know it"),
        ),
        (
            {"state": "lost", "why": "the machine was restarted"},
            Status(state=State.LOST, reason="the machine was restarted"),
        ),
        (
            {**ENDED, **TIMES, "code": 0},
            Status(state=State.SUCCEEDED, exit_code=0, **KNOWN),
        ),
        (
            {**ENDED, **TIMES, "code": 3},
            Status(
                state=State.FAILED,
                cause=Cause.EXIT,
                exit_code=3,
                reason="exit code 3",
                **KNOWN,
            ),
        ),
        (
            {**ENDED, **TIMES, "code": 127},
            Status(
                state=State.FAILED,
                cause=Cause.EXIT,
                exit_code=127,
                reason=(
                    "exit code 127: the command was not found; is it on the PATH there, or can "
                    "`python:` or `setup:` bring it?"
                ),
                **KNOWN,
            ),
        ),
        (
            {**ENDED, **TIMES, "code": 137},
            Status(
                state=State.FAILED,
                cause=Cause.EXIT,
                exit_code=137,
                reason="killed by signal 9; often the kernel's, for want of memory",
                **KNOWN,
            ),
        ),
        (
            {**ENDED, **TIMES, "code": 137, "why": "run.sh was killed by signal 9"},
            Status(
                state=State.FAILED,
                cause=Cause.EXIT,
                exit_code=137,
                reason="run.sh was killed by signal 9",
                **KNOWN,
            ),
        ),
        (
            {**ENDED, **TIMES, "code": 1, "phase": "setup"},
            Status(
                state=State.FAILED,
                cause=Cause.SETUP,
                exit_code=1,
                reason="its set-up failed with code 1",
                **KNOWN,
            ),
        ),
        (
            {**ENDED, **TIMES, "code": 143, "signal": "TERM", "stop": "timeout"},
            Status(
                state=State.FAILED,
                cause=Cause.TIMEOUT,
                exit_code=143,
                reason="its time limit was over",
                **KNOWN,
            ),
        ),
        (
            {**ENDED, **TIMES, "code": 0, "signal": "TERM", "stop": "timeout"},
            Status(
                state=State.FAILED,
                cause=Cause.TIMEOUT,
                exit_code=0,
                reason="its time limit was over",
                **KNOWN,
            ),
        ),
        (
            {**ENDED, **TIMES, "code": 143, "signal": "TERM", "stop": "cancel"},
            Status(state=State.CANCELLED, exit_code=143, reason="cancelled", **KNOWN),
        ),
        (
            {**ENDED, **TIMES, "code": 0, "stop": "cancel"},
            Status(state=State.SUCCEEDED, exit_code=0, **KNOWN),
        ),
        (
            {**ENDED, "ended": 2.0, "code": None, "stop": "cancel"},
            Status(state=State.CANCELLED, reason="cancelled before it started", ended_at=2.0),
        ),
    ],
)
def test_status(line: dict[str, Any], expected: Status) -> None:
    """What the queue answers, in the lab's words."""
    assert parse_status(line) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("auto", None), ("2", ("0", "1")), ("0", ()), (["1", "3"], ("1", "3"))],
)
def test_devices_of_a_target(value: str | list[str], expected: tuple[str, ...] | None) -> None:
    """All, a number, or a list."""
    assert parse_devices(value) == expected


def test_target_opens_with_its_options(tmp_path: Path) -> None:
    """A target's root is its own, or the one that it was opened with."""
    options = {"root": str(tmp_path), "parallel": "2", "devices": ["1"]}
    opened = [
        open_machine(Opening(target="desk", options=options, root=Path("/bay")))._options,
        open_machine(Opening(target="desk", options={}, root=Path("/bay")))._options,
    ]

    assert opened == [
        MachineOptions(root=tmp_path, parallel=2, devices=("1",)),
        MachineOptions(root=Path("/bay")),
    ]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of the test's own."""
    place = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
    yield place
    end_queue(place)


@pytest.mark.parametrize(
    ("completed", "error", "message"),
    [
        (
            Completed(code=1, stdout='{"error": "No space left: /bay"}\n', stderr=""),
            Rejected,
            "the queue of `desk` cannot go on: No space left: /bay",
        ),
        (
            Completed(code=1, stdout="", stderr="Traceback\nKeyError: 'x'\n"),
            Unreachable,
            "the queue of `desk` failed: KeyError: 'x'",
        ),
        (
            Completed(code=0, stdout='{"run": "a", "state": "lost", "why": ""}\n', stderr=""),
            Unreachable,
            "`desk` answered for 1 of 2 runs",
        ),
    ],
)
def test_queue_that_does_not_answer(
    state: Path, completed: Completed, error: type[Exception], message: str
) -> None:
    """What went wrong on the node is one line here."""
    target = MachineBackend("desk", MachineOptions(root=Path("/bay")), Deaf(completed))
    handles = [Handle(run, "desk", f"queue/p/{run}") for run in ("a", "b")]

    with pytest.raises(error) as caught:
        target.poll(handles)
    assert str(caught.value) == message


def test_state_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the node programs cannot be kept the hint says what to do."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    with pytest.raises(StoreError) as caught:
        backend().feed([])
    assert "XDG_STATE_HOME" in str(caught.value.hint)


def test_node_programs_are_kept_once(state: Path) -> None:
    """What travels is one folder named by its content, complete, whoever calls."""
    for _ in range(2):
        backend().feed([])
    (folder,) = (state / "launchbay" / "node").iterdir()
    kept = {path.name for path in folder.iterdir()}

    assert {"run.sh", "pack.py", "worker.py", "__pycache__"} <= kept


def test_survey_installs_nothing(state: Path) -> None:
    """Planning looks at the machine and leaves no trace."""
    facts = backend().survey()

    assert facts.cpus
    assert facts.details["python"].startswith("3.")
    assert facts.details["home"] == str(Path.home())
    assert not state.exists()


def test_second_attempt_has_a_name_of_its_own() -> None:
    """The handle tells attempts apart, and the log read is the attempt's own."""
    plans = [backend().plan([job(attempt=attempt)])[0] for attempt in (1, 2)]
    names = [json.loads(plan.document.splitlines()[1])["native_id"] for plan in plans]

    assert [name.rpartition("/")[2] for name in names] == ["lr-4x7ab", "lr-4x7ab-2"]


UV = Python("uv", "uv.lock")


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A locked project; uv asks nobody but its files."""
    require_program("uv")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    tree = tmp_path / "code"
    tree.mkdir()
    write_uv_project(tree)
    return tree


def open_desk(root: Path) -> MachineBackend:
    return MachineBackend("desk", MachineOptions(root=root), LocalHost(), facts=PLAIN)


def test_environment_of_a_run(state: Path, code: Path, tmp_path: Path) -> None:
    """What is locked is built once, told while it is, and there for the run."""
    desk = open_desk(tmp_path / "bay")
    desk.stage("c0de", code)
    key = environment_id(UV, code)
    told: list[list[str]] = [[], []]
    lines = [desk.build_python(UV, snapshot="c0de", key=key, tell=heard.append) for heard in told]
    words = ("python", "-c", "import hello, sys; print(hello.WORD, sys.prefix)")
    wanted = job(
        command=Argv(words), setup=render_setup(python=lines[0]), project_folder=str(tmp_path)
    )
    (plan,) = desk.plan([wanted])
    _, argv = desk.prepare(plan)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == (f"installed {tmp_path}/bay/envs/{key}\n", "")
    assert lines[0] == lines[1]
    assert any("hello==1.0" in line for line in told[0])
    assert told[1] == []


def test_environment_that_cannot_be_built(state: Path, code: Path, tmp_path: Path) -> None:
    """The error says what the tool said, and nothing is left."""
    (code / "pkgs" / "hello-1.0-py3-none-any.whl").unlink()
    desk = open_desk(tmp_path / "bay")
    desk.stage("c0de", code)
    with pytest.raises(Rejected) as caught:
        desk.build_python(UV, snapshot="c0de", key="k3y", tell=print)

    assert str(caught.value).startswith("`desk` cannot build `python: uv`: ")
    assert "Distribution not found" in str(caught.value)
    assert "uv lock" in str(caught.value.hint)
    assert [path.name for path in (tmp_path / "bay" / "envs").iterdir()] == ["k3y.lock"]


def test_failing_set_up_keeps_the_command_from_running(state: Path, tmp_path: Path) -> None:
    """An environment that is gone when a run starts fails it, and its record says so."""
    desk = open_desk(tmp_path / "bay")
    gone = Python("conda", "no-such-environment")
    setup = desk.build_python(gone, snapshot="", key="", tell=print)
    wanted = job(command=Argv(("touch", "ran")), setup=setup, project_folder=str(tmp_path))
    (plan,) = desk.plan([wanted])
    handle, argv = desk.prepare(plan)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    status = desk.poll([handle])[handle]

    assert "no-such-environment" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "ran").exists()
    assert (status.state, status.cause, status.exit_code) == (State.FAILED, Cause.SETUP, 1)


@pytest.mark.parametrize("python", [Python("conda", "ml"), Python("venv", "~/venv")], ids=str)
def test_environment_that_is_there(python: Python) -> None:
    """It is only activated: nothing is asked of the host."""
    broken = Deaf(Completed(code=1, stdout="", stderr=""))
    desk = MachineBackend("desk", MachineOptions(root=Path("/bay")), broken)

    assert desk.build_python(python, snapshot="", key="k3y", tell=print) == activation(python, "")


class Far(LocalHost):
    """This machine under a name."""

    name = "box"

    def environment(self) -> dict[str, str]:
        return {}


def test_far_target_opens_with_its_host() -> None:
    """A target with a `host:` keeps its runs there, at home unless it says where."""
    given: list[dict[str, Any]] = [
        {"host": "me@box"},
        {"host": "me@box", "root": "~/lab"},
        {"host": "me@box", "root": "/scratch/me"},
    ]
    opened = [open_machine(Opening(target="t", options=one, root=Path("/bay"))) for one in given]

    assert [target._options.root for target in opened] == [
        Path("~/bay"),
        Path("~/lab"),
        Path("/scratch/me"),
    ]
    assert {target._host.name for target in opened} == {"me@box"}


def test_far_plan_has_nothing_of_this_machine() -> None:
    """Links to this machine are left out, and `~` is left to the machine there."""
    far = MachineBackend("box", MachineOptions(root=Path("~/bay")), Far(), facts=PLAIN)
    (plan,) = far.plan([job(links={"data": "/home/me/data"})])
    header, line = map(json.loads, plan.document.splitlines())

    assert (header["root"], line["links"]) == ("~/bay", {})


@pytest.fixture
def desk(state: Path, tmp_path: Path) -> MachineBackend:
    """A target on this machine."""
    return open_desk(tmp_path / "bay")


def start(target: MachineBackend, wanted: Job) -> Handle:
    """Submit a job and wait until it runs."""
    (plan,) = target.plan([wanted])
    (handle,) = target.submit(plan)
    assert isinstance(handle, Handle)
    eventually(lambda: target.poll([handle])[handle].state is State.RUNNING)
    return handle


def test_home_there_is_where_runs_go(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root that begins with `~` is found again by every verb."""
    monkeypatch.setenv("HOME", str(tmp_path))
    far = MachineBackend("box", MachineOptions(root=Path("~/bay")), Far(), facts=PLAIN)
    handle = start(far, job(command=Argv(("sleep", "600"))))
    found = far.discover()
    far.cancel([handle])
    eventually(lambda: far.poll([handle])[handle].state is State.CANCELLED)

    assert found == [handle]
    assert (tmp_path / "bay" / "runs" / handle.run_id / "job.json").is_file()


def test_shell_of_a_run(desk: MachineBackend, tmp_path: Path) -> None:
    """A command finds the run's folder, variables and GPUs; one that ended lets nobody in."""
    handle = start(desk, job(command=Argv(("sleep", "600")), env={"OWN": "it's"}))
    run = tmp_path / "bay" / "runs" / handle.run_id
    events = run / "attempts" / "1" / "events.jsonl"
    events.write_text(events.read_text().replace('"devices":""', '"devices":"1,3"'))
    text = 'echo "$OWN $BAY_ATTEMPT $CUDA_VISIBLE_DEVICES $PWD $1"'
    argv = desk.shell_argv(handle, ["sh", "-c", text, "sh", "a  b"])
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    desk.cancel([handle])
    eventually(lambda: desk.poll([handle])[handle].state.final)

    assert done.stdout == f"it's 1 1,3 {run}/work a  b\n"
    with pytest.raises(BadRequest, match="`lr-4x7ab` does not run: it was cancelled"):
        desk.shell_argv(handle)


def test_shell_without_a_command(
    desk: MachineBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the person's own shell."""
    monkeypatch.setenv("SHELL", "/bin/sh")
    handle = start(desk, job(command=Argv(("sleep", "600"))))
    argv = desk.shell_argv(handle)
    done = subprocess.run(argv, input="pwd\n", capture_output=True, text=True, check=True)
    desk.cancel([handle])

    assert done.stdout == f"{tmp_path}/bay/runs/{handle.run_id}/work\n"


def test_ports_of_this_machine_need_no_lead(desk: MachineBackend) -> None:
    """What runs here is reached as it is."""
    handle = start(desk, job(command=Argv(("sleep", "600"))))
    with pytest.raises(Unsupported, match="this machine needs no forwarding"):
        desk.forward_argv(handle, 8000, 8000)
    desk.cancel([handle])


def test_capacity_of_a_machine(desk: MachineBackend) -> None:
    """What runs hold is not free; what waits is counted."""
    (empty,) = desk.capacity()
    handle = start(
        desk, job(command=Argv(("sleep", "600")), parallel=1, resources=Resources(cpus=1))
    )
    (plan,) = desk.plan([job(run_id="lr-other", parallel=1, resources=Resources(cpus=1))])
    list(desk.submit(plan))
    (room,) = desk.capacity()
    desk.cancel([handle, Handle("lr-other", "desk", "queue/p/lr-other")])

    assert (empty.free, empty.waiting, empty.users, empty.note) == (empty.total, 0, {}, "")
    assert room.total["cpus"] - room.free["cpus"] == 1
    assert (room.waiting, room.note) == (1, "1 of your runs run here")
    assert [held["cpus"] for held in room.users.values()] == [1]


def test_gpus_that_others_use_are_not_free() -> None:
    """What a machine says of its GPUs is told apart: ours, others', free."""
    room = parse_room(
        {
            "host": "box",
            "user": "me",
            "total": {"cpus": 8, "memory_mib": None, "gpus": 4},
            "held": {"cpus": 2.0, "memory_mib": 0.0, "gpus": 1.5},
            "busy_gpus": ["3"],
            "running": 2,
            "waiting": 0,
        }
    )

    assert room == Room(
        name="box",
        total={"cpus": 8, "gpus": 4},
        free={"cpus": 6, "gpus": 1.5},
        users={"me": {"cpus": 2.0, "memory_mib": 0.0, "gpus": 1.5}},
        note="2 of your runs run here; others use 1 GPU",
    )


def test_outputs_on_this_machine_are_at_home(desk: MachineBackend, tmp_path: Path) -> None:
    """Pulling into the run's own folder changes nothing."""
    handle = start(desk, job(command=Argv(("sleep", "600"))))
    run = tmp_path / "bay" / "runs" / handle.run_id
    before = sorted(run.rglob("*"))
    desk.pull(handle, run)
    desk.cancel([handle])

    assert before == [path for path in sorted(run.rglob("*")) if path.name != "cancel"]
