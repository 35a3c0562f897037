"""A machine without Python, as a real sshd and an ordinary account have it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import end_queue, eventually, require_program

from launchbay.backends.machine.backend import MachineBackend, MachineOptions
from launchbay.core.errors import Rejected, Unreachable
from launchbay.core.job import Argv, Job, Script
from launchbay.core.naming import run_id
from launchbay.core.python import Python
from launchbay.core.run import Handle, State
from launchbay.testing.contract import BackendContract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.conftest import Sshd

    from launchbay.core.backend import Backend
    from launchbay.hosts.ssh import SSHHost

pytestmark = [pytest.mark.slow, pytest.mark.real]


def fill_tools(folder: Path, kind: str) -> None:
    """Programs of a machine that has no Python: all but those, or what busybox has."""
    folder.mkdir()
    if kind == "busybox":
        busybox = require_program("busybox")
        listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
        for name in listed.stdout.split():
            (folder / name).symlink_to(busybox)
        return
    for path in Path("/usr/bin").iterdir():
        if not path.name.startswith("python"):
            (folder / path.name).symlink_to(path)


@pytest.fixture(params=["busybox", "others"])
def account(request: pytest.FixtureRequest, sshd: Sshd) -> Iterator[Path]:
    """A folder of the account, with a queue of the test's own and no Python."""
    folder = Path(tempfile.mkdtemp(dir=sshd.home))
    owner = sshd.home.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    fill_tools(folder / "tools", request.param)
    sshd.give({"XDG_STATE_HOME": str(folder / "state"), "PATH": str(folder / "tools")})
    yield folder
    sshd.give({})
    end_queue(folder / "state")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def there(account: Path, box: SSHHost) -> MachineBackend:
    """The target, as a client has it that has looked round."""
    return open_there(account, box)


def open_there(account: Path, box: SSHHost) -> MachineBackend:
    options = MachineOptions(root=account / "bay")
    facts = MachineBackend("there", options, box).survey()
    return MachineBackend(
        "there", options, box, facts=facts, secret=lambda name: f"value of {name}"
    )


class TestSerial(BackendContract):
    """Runs one after another, with nothing there but a shell and its programs."""

    @pytest.fixture
    def backend(self, there: MachineBackend) -> Backend:
        return there

    @pytest.fixture
    def tmp_path(self, account: Path) -> Path:
        return account

    def test_environment_is_built_once(self, backend: Backend, tmp_path: Path) -> None:
        """Without Python no environment can be built, and that is said."""
        assert isinstance(backend, MachineBackend)
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "requirements.txt").write_text("# nothing\n")
        backend.stage("c0de", tmp_path / "code")
        python = Python("requirements", "requirements.txt")

        with pytest.raises(Rejected, match="python"):
            backend.build_python(python, snapshot="c0de", key="k3y", tell=print)


def job(command: Argv | Script) -> Job:
    return Job(run_id=run_id("serial"), name="serial", experiment="serial", command=command)


def send(backend: Backend, *jobs: Job) -> list[Handle]:
    answers = [answer for plan in backend.plan(jobs) for answer in backend.submit(plan)]
    return [answer for answer in answers if isinstance(answer, Handle)]


def cut(sshd: Sshd) -> None:
    """Kill every connection of the account."""
    for process in sshd.sessions():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_queue_survives_its_connection(there: MachineBackend, account: Path, sshd: Sshd) -> None:
    """Runs go on, one after another, when every connection is cut."""
    go = account / "go"
    text = f'until [ -e "{go}" ]; do sleep 0.05; done; echo end'
    handles = send(there, job(Script(text)), job(Script("echo next")))
    eventually(lambda: there.poll(handles)[handles[0]].state is State.RUNNING)
    cut(sshd)
    with suppress(Unreachable):
        there.poll(handles)
    go.touch()
    eventually(lambda: {one.state for one in there.poll(handles).values()} == {State.SUCCEEDED})

    assert [there.read_log(handle).text for handle in handles] == ["end\n", "next\n"]


def test_later_processes_know_the_queue(there: MachineBackend, account: Path, box: SSHHost) -> None:
    """Opened without having looked round, the target finds runs, polls, pushes and cancels them."""
    running, waiting = send(there, job(Argv(("sleep", "600"))), job(Argv(("true",))))
    eventually(lambda: there.poll([running])[running].state is State.RUNNING)
    later = MachineBackend("there", MachineOptions(root=account / "bay"), box)
    later.feed([running, waiting])
    found = later.discover()
    later.cancel([running])
    eventually(lambda: later.poll([waiting])[waiting].state is State.SUCCEEDED)

    assert found == [running, waiting]
    assert later.poll([running])[running].state is State.CANCELLED


def test_kept_plan_is_sent_as_it_was(there: MachineBackend, account: Path, box: SSHHost) -> None:
    """A plan that was not sent yet goes to the queue that it was made for."""
    (plan,) = there.plan([job(Argv(("true",)))])
    later = MachineBackend("there", MachineOptions(root=account / "bay"), box)
    (handle,) = [one for one in later.submit(plan) if isinstance(one, Handle)]

    eventually(lambda: later.poll([handle])[handle].state is State.SUCCEEDED)


def test_secrets_and_code(there: MachineBackend, account: Path, tmp_path: Path) -> None:
    """A run has its frozen code, its variables and its secrets, and comes home without those."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "go").write_text('#!/bin/sh\necho "$KEY $OWN ${HOME##*/}"; pwd\n')
    (tree / "go").chmod(0o755)
    there.stage("aaa", tree)
    wanted = replace(job(Argv(("./go",))), snapshot="aaa", secrets=("KEY",), env={"OWN": "a b"})
    (plan,) = there.plan([wanted])
    (handle,) = [one for one in there.submit(plan) if isinstance(one, Handle)]
    eventually(lambda: there.poll([handle])[handle].state.final)
    work = account / "bay" / "runs" / handle.run_id / "work"

    assert "value of" not in plan.document
    assert there.read_log(handle).text == f"value of KEY a b home\n{work}\n"


def test_lack_of_python_is_told(there: MachineBackend) -> None:
    """A check-up says that runs go one after another, and how to change that."""
    (finding,) = [one for one in there.diagnose() if one.level != "ok"]

    assert (finding.subject, finding.level) == ("Python", "warning")
    assert "one after another" in finding.message
    assert "uv python install" in finding.remedy


def test_ended_run_is_removed(there: MachineBackend, account: Path) -> None:
    """The folder of a run goes, and nothing beside it."""
    first, second = send(there, job(Argv(("true",))), job(Argv(("true",))))
    eventually(lambda: all(one.state.final for one in there.poll([first, second]).values()))
    there.dispose([first])

    assert [path.name for path in (account / "bay" / "runs").iterdir()] == [second.run_id]


def test_python_that_went_away(account: Path, box: SSHHost) -> None:
    """Runs of a queue that needs Python are not lost where it is gone: nobody answers for them."""
    opened = MachineBackend("there", MachineOptions(root=account / "bay"), box)
    with pytest.raises(Unreachable, match=r"no Python 3\.8 or newer"):
        opened.poll([Handle("gone-aaaaa", "there", "queue/p1/gone-aaaaa")])
