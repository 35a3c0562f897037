"""A queue on another machine, as a real sshd and an ordinary account have it."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from tests.conftest import end_queue, eventually, require_program

from launchbay.backends.depot import Depot
from launchbay.backends.machine.backend import MachineBackend, MachineOptions, open_machine
from launchbay.core.backend import Backend, Opening
from launchbay.core.errors import BadRequest, Rejected, Unreachable, Unsupported
from launchbay.core.job import Argv, Job, Script
from launchbay.core.naming import run_id
from launchbay.core.run import Handle, State, Status
from launchbay.hosts.ssh import SSHHost
from launchbay.testing.contract import BackendContract

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.real.conftest import Sshd

pytestmark = [pytest.mark.slow, pytest.mark.real]


def own_folder(sshd: Sshd) -> Path:
    """A folder of the account."""
    folder = Path(tempfile.mkdtemp(dir=sshd.home))
    owner = sshd.home.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    return folder


@pytest.fixture
def account(sshd: Sshd) -> Iterator[Path]:
    """A folder of the account, and in it a queue of the test's own."""
    folder = own_folder(sshd)
    sshd.give({"XDG_STATE_HOME": str(folder / "state")})
    yield folder
    sshd.give({})
    end_queue(folder / "state")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def there(account: Path, box: SSHHost) -> MachineBackend:
    """The target on the account."""
    return open_box(account, box)


def open_box(account: Path, box: SSHHost, target: str = "there") -> MachineBackend:
    options = MachineOptions(root=account / "bay", parallel=4)
    return MachineBackend(target, options, box, secret=lambda name: f"value of {name}")


class TestBox(BackendContract):
    """A queue on an account that SSH reaches, by whatever login shell."""

    @pytest.fixture(params=["bash", "fish", "tcsh"])
    def backend(
        self, request: pytest.FixtureRequest, sshd: Sshd, account: Path, box: SSHHost
    ) -> Iterator[Backend]:
        sshd.shell(require_program(request.param))
        yield open_box(account, box)
        sshd.shell("/bin/bash")

    @pytest.fixture
    def tmp_path(self, account: Path) -> Path:
        return account


def job(command: Argv | Script) -> Job:
    return Job(run_id=run_id("box"), name="box", experiment="box", command=command)


def send(backend: Backend, *jobs: Job) -> list[Handle]:
    answers = [answer for plan in backend.plan(jobs) for answer in backend.submit(plan)]
    return [answer for answer in answers if isinstance(answer, Handle)]


def ended(backend: Backend, handles: Sequence[Handle]) -> list[Status]:
    """The statuses once all have ended."""
    eventually(lambda: all(status.state.final for status in backend.poll(handles).values()))
    return list(backend.poll(handles).values())


def running(backend: Backend, handle: Handle) -> None:
    eventually(lambda: backend.poll([handle])[handle].state is State.RUNNING)


def test_home_is_the_root_by_default(
    sshd: Sshd, account: Path, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that only names its host keeps runs in `~/bay` there."""
    monkeypatch.setenv("BAY_SSH_CONFIG", str(sshd.config))
    opened = open_machine(Opening(target="t", options={"host": "box"}, root=Path("/here/.bay")))
    (handle,) = send(opened, job(Script('echo "$BAY_OUT" $BAY_TARGET; umask')))
    ended(opened, [handle])
    out = sshd.home / "bay" / "runs" / handle.run_id / "out"
    text = opened.read_log(handle).text
    found = opened.discover()
    SSHHost("box").close()

    assert text == f"{out} t\n0077\n"
    assert found == []
    shutil.rmtree(sshd.home / "bay")


def test_environment_stays_here(there: MachineBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has the variables of its login there and of its job, not those of this terminal."""
    monkeypatch.setenv("ONLY_HERE", "1")
    wanted = replace(
        job(Script('echo "${ONLY_HERE-none} $OWN $KEY $HOME"')),
        env={"OWN": "it's"},
        secrets=("KEY",),
        links={"data": "/here/data"},
    )
    (handle,) = send(there, wanted)
    ended(there, [handle])
    home = there.survey().details["home"]

    assert there.read_log(handle).text == f"none it's value of KEY {home}\n"
    assert there.survey().details["python"].startswith("3.")


def test_secrets_are_for_the_account_only(there: MachineBackend, account: Path) -> None:
    """Values are in one file of mode 600, in no plan and in nothing that is brought home."""
    wanted = replace(job(Argv(("true",))), secrets=("KEY",))
    (plan,) = there.plan([wanted])
    (handle,) = [one for one in there.submit(plan) if isinstance(one, Handle)]
    ended(there, [handle])
    there.pull(handle, account / "twin")
    done = subprocess.run(
        ["grep", "-rl", "value of KEY", str(account)], capture_output=True, text=True, check=False
    )
    secret = account / "bay" / "runs" / handle.run_id / "secrets.sh"

    assert "value of" not in plan.document
    assert done.stdout.split() == [str(secret)]
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_two_laptops_share_one_queue(sshd: Sshd, account: Path) -> None:
    """Targets of two clients, each on a connection of its own, wait for each other's runs."""
    clients, folders = [], []
    for name in ("first", "second"):
        folder = Path(tempfile.mkdtemp(prefix="bay c-", dir="/tmp"))
        folders.append(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_RUNTIME_DIR", str(folder))
            host = SSHHost("box", target=name, config=sshd.config)
            host.run(["true"])
        clients.append((host, MachineBackend(name, MachineOptions(root=account / name), host)))
    (_, first), (_, second) = clients
    before = sshd.logins
    # Without facts the machine counts as one core: one run at a time, whoever sent it.
    (long,) = send(first, job(Argv(("sleep", "600"))))
    running(first, long)
    (next_one,) = send(second, job(Argv(("true",))))
    eventually(lambda: "lets 1 run at once" in second.poll([next_one])[next_one].reason)
    found = (first.discover(), second.discover())
    room = second.capacity()[0]
    first.cancel([long])

    assert [status.state for status in ended(second, [next_one])] == [State.SUCCEEDED]
    assert [status.state for status in ended(first, [long])] == [State.CANCELLED]
    assert found == ([long], [next_one])
    assert (room.waiting, list(room.users)) == (1, [sshd.account])
    assert sshd.logins == before
    for (host, _), folder in zip(clients, folders, strict=True):
        host.close()
        shutil.rmtree(folder, ignore_errors=True)


def cut(sshd: Sshd) -> None:
    """Kill every connection of the account."""
    for process in sshd.sessions():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_run_survives_its_connection(there: MachineBackend, account: Path, sshd: Sshd) -> None:
    """A run goes on when every connection is cut, and its log is whole."""
    go = account / "go"
    text = f'echo one; until [ -e "{go}" ]; do sleep 0.05; done; echo two'
    (handle,) = send(there, job(Script(text)))
    running(there, handle)
    cut(sshd)
    go.touch()

    assert [status.state for status in ended(there, [handle])] == [State.SUCCEEDED]
    assert there.read_log(handle).text == "one\ntwo\n"


@contextmanager
def cutting(sshd: Sshd, started: Path) -> Iterator[None]:
    """Cut all connections as soon as something is there."""

    def watch() -> None:
        eventually(started.exists, within_s=30)
        cut(sshd)

    watcher = Thread(target=watch)
    watcher.start()
    yield
    watcher.join()


def test_submit_that_breaks_off_starts_nothing_twice(
    there: MachineBackend, account: Path, sshd: Sshd
) -> None:
    """Cut in the middle it is unreachable; sent again, every run is there once."""
    mark = account / "mark"
    jobs = [job(Script(f'echo "$BAY_RUN_ID" >>"{mark}"')) for _ in range(500)]
    (plan,) = there.plan(jobs)
    there.feed([])
    with (
        cutting(sshd, account / "bay" / "runs" / jobs[0].run_id / "job.json"),
        pytest.raises(Unreachable, match="`box` broke off in the middle of a command"),
    ):
        list(there.submit(plan))
    handles = [answer for answer in there.submit(plan) if isinstance(answer, Handle)]

    assert [handle.run_id for handle in handles] == [one.run_id for one in jobs]
    assert {status.state for status in ended(there, handles)} == {State.SUCCEEDED}
    assert sorted(mark.read_text().split()) == sorted(one.run_id for one in jobs)


def test_log_that_breaks_off(there: MachineBackend, account: Path, sshd: Sshd) -> None:
    """A reading that is cut is unreachable; the next goes on at the same cursor."""
    (handle,) = send(there, job(Script("echo one")))
    ended(there, [handle])
    first = there.read_log(handle)
    log = account / "bay" / "runs" / handle.run_id / "attempts" / "1" / "log-0.txt"
    # Reading a pipe without a writer waits, as a file on a dead network disk does.
    log.rename(log.with_name("kept"))
    os.mkfifo(log)
    log.chmod(0o644)

    def waits() -> bool:
        done = subprocess.run(["pgrep", "-f", f"tail .*{log}"], capture_output=True, check=False)
        return done.returncode == 0

    def watch() -> None:
        eventually(waits, within_s=30)
        cut(sshd)

    watcher = Thread(target=watch)
    watcher.start()
    with pytest.raises(Unreachable, match="`box` broke off"):
        there.read_log(handle, cursor=first.cursor)
    watcher.join()
    log.unlink()
    log.with_name("kept").rename(log)
    with log.open("a") as file:
        file.write("two\n")

    assert there.read_log(handle, cursor=first.cursor).text == "two\n"


def test_stopped_sshd_is_unreachable(there: MachineBackend, sshd: Sshd) -> None:
    """While nobody answers nothing is known, and nothing is lost."""
    (handle,) = send(there, job(Argv(("true",))))
    sshd.stop()
    cut(sshd)
    with pytest.raises(Unreachable):
        there.poll([handle])
    sshd.start()

    assert [status.state for status in ended(there, [handle])] == [State.SUCCEEDED]


def test_outputs_come_home(there: MachineBackend, account: Path, tmp_path: Path) -> None:
    """What a run wrote is brought, while it runs and after, and only what is new."""
    go = account / "go"
    text = (
        'echo hi >"$BAY_OUT/a b"; mkdir results; echo m >results/metric; ln -s /etc/passwd '
        f'"$BAY_OUT/leak"; until [ -e "{go}" ]; do sleep 0.05; done; echo end >results/last'
    )
    (handle,) = send(there, job(Script(text)))
    folder = account / "bay" / "runs" / handle.run_id
    eventually((folder / "out" / "leak").is_symlink)
    twin = tmp_path / "twin"
    there.pull(handle, twin)
    early = {str(path.relative_to(twin)) for path in (twin / "out").rglob("*") if path.is_file()}
    kept = (twin / "out" / "a b").stat().st_ino
    go.touch()
    ended(there, [handle])
    there.pull(handle, twin)

    assert early == {"out/a b", "out/results/metric"}
    assert (twin / "out/results/last").read_text() == "end\n"
    assert (twin / "out/a b").stat().st_ino == kept
    assert not (twin / "out/leak").exists()
    assert not (twin / "env.sh").exists()
    assert (twin / "attempts/1/events.jsonl").read_bytes() == (
        folder / "attempts/1/events.jsonl"
    ).read_bytes()


def test_frozen_code_runs_there(there: MachineBackend, account: Path, tmp_path: Path) -> None:
    """Code is sent once, and a small change sends little; runs work in a copy."""
    trees = [tmp_path / "snapshots" / name for name in ("aaa", "bbb")]
    trees[0].mkdir(parents=True)
    (trees[0] / "big file").write_bytes(os.urandom(300_000))
    (trees[0] / "run").write_text("#!/bin/sh\necho first\n")
    (trees[0] / "run").chmod(0o555)
    (trees[0] / "link").symlink_to("run")
    shutil.copytree(trees[0], trees[1], symlinks=True)
    (trees[1] / "run").unlink()
    (trees[1] / "run").write_text("#!/bin/sh\necho second\n")
    (trees[1] / "run").chmod(0o555)
    depot = Depot(there._host, account / "bay", target="there")
    sent = [depot.stage(tree.name, tree) for tree in (*trees, *trees)]
    jobs = [replace(job(Argv(("./link",))), snapshot=tree.name) for tree in trees]
    handles = send(there, *jobs)
    ended(there, handles)

    assert [there.read_log(handle).text for handle in handles] == ["first\n", "second\n"]
    assert sent[0] > 300_000
    assert sent[1] < 20_000
    assert sent[2:] == [0, 0]


def test_place_without_permission(box: SSHHost, sshd: Sshd, tmp_path: Path) -> None:
    """A root that the account may not write is said with its path and what to do."""
    (tmp_path / "tree").mkdir()
    depot = Depot(box, Path("/root-of-nobody/bay"), target="there")
    with pytest.raises(Rejected) as caught:
        depot.stage("aaa", tmp_path / "tree")

    assert "`/root-of-nobody/bay/snapshots/aaa` on `box` cannot be written" in str(caught.value)
    assert "Permission denied" in str(caught.value)
    assert "`root:`" in str(caught.value.hint)
    assert depot.unwritable() == "/"


def test_full_disk(box: SSHHost, account: Path, tmp_path: Path) -> None:
    """Where there is no room nothing is left, and the error says so."""
    disk = account / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k,mode=777", "none", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("no file systems can be mounted here")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "big").write_bytes(os.urandom(500_000))
    try:
        with pytest.raises(Rejected, match=r"cannot be written: .*No space left"):
            Depot(box, disk / "bay", target="there").stage("aaa", tmp_path / "tree")
        assert list((disk / "bay" / "snapshots").iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_here_is_this_machine(there: MachineBackend) -> None:
    """A run in this terminal cannot be on another machine."""
    (plan,) = there.plan([job(Argv(("true",)))])
    with pytest.raises(Unsupported, match="`--here` runs on this machine"):
        there.prepare(plan)


def test_shell_where_a_run_runs(there: MachineBackend, account: Path) -> None:
    """A command enters the run's folder with its variables, in a terminal of its own."""
    wanted = replace(job(Argv(("sleep", "600"))), env={"OWN": "a b"})
    (handle,) = send(there, wanted)
    running(there, handle)
    text = 'echo "$OWN|$BAY_RUN_ID|$PWD"; test -t 0 && test -t 1; echo "terminal $?"'
    argv = there.shell_argv(handle, ["sh", "-c", text])
    said = in_terminal(argv)
    there.cancel([handle])
    ended(there, [handle])

    work = account / "bay" / "runs" / handle.run_id / "work"
    assert said.replace("\r", "").splitlines()[:2] == [
        f"a b|{handle.run_id}|{work}",
        "terminal 0",
    ]
    with pytest.raises(BadRequest, match="does not run: it was cancelled"):
        there.shell_argv(handle)


def in_terminal(argv: Sequence[str]) -> str:
    """What a command prints to the terminal that it is given."""
    master, slave = pty.openpty()
    with subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        said = b""
        # The end of a terminal is an error.
        with suppress(OSError):
            while chunk := os.read(master, 4096):
                said += chunk
        process.wait(30)
    os.close(master)
    return said.decode()


SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        server.accept()[0].sendall(b"hello")
"""


@pytest.mark.parametrize("connected", [True, False], ids=["shared", "own"])
def test_port_of_a_run(there: MachineBackend, box: SSHHost, *, connected: bool) -> None:
    """A port here is the run's as long as the command runs, and free again after."""
    (handle,) = send(there, job(Argv(("/usr/bin/python3", "-c", SERVER))))
    eventually(lambda: there.read_log(handle).text.endswith("\n"))
    port = free_port()
    argv = there.forward_argv(handle, port, int(there.read_log(handle).text))
    if not connected:
        box.close()
    leading = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    eventually(lambda: heard(port) == b"hello", within_s=20)
    leading.terminate()
    leading.wait(20)
    eventually(lambda: heard(port) is None, within_s=20)
    there.cancel([handle])
    ended(there, [handle])

    with pytest.raises(BadRequest, match="does not run"):
        there.forward_argv(handle, port, 1)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def heard(port: int) -> bytes | None:
    """What is said there; None where nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as caller:
            return caller.recv(99)
    except OSError:
        return None


def test_machine_is_checked_up(there: MachineBackend) -> None:
    """The other machine says what it has, and nothing is wrong with it."""
    findings = there.diagnose()

    assert {finding.level for finding in findings} == {"ok"}
    assert {finding.subject for finding in findings} >= {"processors", "memory", "GPUs"}
