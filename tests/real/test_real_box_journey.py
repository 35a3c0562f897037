"""A day with a machine that SSH reaches: `bay` as a person types it, over a real sshd."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import Bay, end_queue, eventually

from launchbay.hosts.ssh import SSHHost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.conftest import Sshd

pytestmark = [pytest.mark.slow, pytest.mark.real]

CONFIG = """\
targets:
  box: {{kind: machine, host: box, root: {root}, parallel: 1}}
  stranger: {{kind: machine, host: stranger, root: {root}}}
  denied: {{kind: machine, host: denied, root: {root}}}
"""
SWEEP = """\
name: sweep
target: box
command: sh train.sh <lr>
params:
  lr: [0.1, 0.01]
"""
TRAIN = """\
echo "lr $1 attempt $BAY_ATTEMPT"
mkdir -p results
echo "$1" >results/lr
echo "{\\"loss\\": $1}" >>"$BAY_OUT/metrics.jsonl"
[ "$1" != 0.01 ] || [ -e "$HOME/mended" ]
"""


@pytest.fixture
def account(sshd: Sshd) -> Iterator[Path]:
    """A folder of the account, and in it a queue of the test's own."""
    folder = Path(tempfile.mkdtemp(dir=sshd.home))
    owner = sshd.home.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    sshd.give({"XDG_STATE_HOME": str(folder / "state")})
    yield folder
    sshd.give({})
    end_queue(folder / "state")
    shutil.rmtree(folder, ignore_errors=True)
    (sshd.home / "mended").unlink(missing_ok=True)


@pytest.fixture
def laptop(bay: Bay, sshd: Sshd, account: Path, box: SSHHost, control: Path) -> Bay:
    """`bay` of somebody whose config names the machine."""
    return settle_in(bay, sshd, account, control)


def settle_in(bay: Bay, sshd: Sshd, account: Path, control: Path) -> Bay:
    bay.extra = {"BAY_SSH_CONFIG": str(sshd.config), "XDG_RUNTIME_DIR": str(control)}
    config = bay.home / "config" / "launchbay" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG.format(root=account / "bay"))
    bay.write("bay.yaml", SWEEP)
    bay.write("train.sh", TRAIN)
    return bay


@pytest.fixture
def second(
    tmp_path: Path, sshd: Sshd, account: Path, laptop: Bay, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bay]:
    """Another laptop of the same person, with a connection of its own."""
    runtime = Path(tempfile.mkdtemp(prefix="bay c-", dir="/tmp"))
    made = Bay(home=tmp_path / "home2", project=tmp_path / "project2")
    made.home.mkdir()
    made.project.mkdir()
    yield settle_in(made, sshd, account, runtime)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    SSHHost("box", config=sshd.config).close()
    end_queue(made.home / "state")
    shutil.rmtree(runtime, ignore_errors=True)


def wait_for(path: Path) -> str:
    """Shell text that goes on once the file is there."""
    return f'until [ -e "{path}" ]; do sleep 0.05; done'


def running(bay: Bay, count: int = 1) -> None:
    eventually(lambda: bay.states().count("running") == count)


def cut(sshd: Sshd) -> None:
    """Kill every connection of the account."""
    for process in sshd.sessions():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def files_of(folder: Path) -> dict[str, int]:
    """Every file that came from a run, with the number of its inode."""
    own = {"run.json", "results.csv"}
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in own)
    return {str(path.relative_to(folder)): path.stat().st_ino for path in found}


def test_day_with_a_machine_elsewhere(laptop: Bay, sshd: Sshd, account: Path) -> None:
    """Planned, run and followed, looked at, mended, brought home, and removed."""
    planned = laptop("plan").out
    assert "2 runs" in planned
    assert not (account / "bay").exists()

    followed = laptop("run", code=1)
    assert laptop.states() == ["succeeded", "failed"]
    assert "1 succeeded" in followed.out + followed.err
    ids = [row["id"] for row in laptop.json("ls", "--all")]
    folders = [account / "bay" / "runs" / one for one in ids]
    assert (folders[0] / "out" / "results" / "lr").read_text() == "0.1\n"

    assert laptop("logs", ids[0]).out == "lr 0.1 attempt 1\n"
    assert laptop("logs", "-f", ids[1]).out == "lr 0.01 attempt 1\n"
    shown = laptop("show", ids[1]).out
    assert "exit code 1" in shown
    assert str(folders[1]) in shown
    rows = laptop.json("results")
    assert [row["loss"] for row in rows] == [0.1, 0.01]

    (sshd.home / "mended").touch()
    laptop("rerun", "--failed", "--yes")
    laptop("wait", "sweep")
    assert laptop.states() == ["succeeded", "succeeded"]
    assert laptop("logs", ids[1]).out.splitlines()[-1] == "lr 0.01 attempt 2"

    laptop("fetch", "sweep")
    home = laptop.project / "results" / "sweep"
    first = files_of(home)
    assert sum(name.endswith("results/lr") for name in first) == 2
    laptop("fetch", "sweep")
    assert files_of(home) == first

    for path in (laptop.home / "state" / "launchbay").glob("index.sqlite*"):
        path.unlink()
    assert {row["id"] for row in laptop.json("ls", "--rebuild")} == set(ids)
    assert laptop.states() == ["succeeded", "succeeded"]

    laptop("rm", ids[0], "--yes")
    assert not folders[0].exists()
    assert folders[1].exists()


def test_cancel_and_wait(laptop: Bay, account: Path) -> None:
    """A run that is cancelled ends, the one behind it starts, and following goes to the end."""
    go = account / "go"
    laptop("run", "--detach", "--name", "long", "-t", "box", "--", "sleep", "600")
    laptop.write("wait.sh", f"echo one; {wait_for(go)}; echo two")
    laptop("run", "--detach", "--name", "short", "-t", "box", "--", "sh", "wait.sh")
    running(laptop)
    why = "next; `parallel` of target `box` lets 1 run at once"
    eventually(lambda: laptop.json("ls", "--all")[1]["reason"] == why)
    laptop("cancel", "long", "--yes")
    following = laptop.start("logs", "-f", "short")
    go.touch()
    text, _ = following.communicate(timeout=60)
    laptop("wait", "short")

    assert text == "one\ntwo\n"
    assert laptop.states() == ["cancelled", "succeeded"]


def test_two_laptops_share_the_queue(laptop: Bay, second: Bay, account: Path) -> None:
    """Runs of two projects on two machines wait for each other, and each sees its own."""
    go = account / "go"
    laptop.write("wait.sh", wait_for(go))
    laptop("run", "--detach", "-t", "box", "--", "sh", "wait.sh")
    running(laptop)
    second("run", "--detach", "-t", "box", "--", "echo", "mine")
    eventually(lambda: "lets 1 run at once" in second.json("ls", "--all")[0]["reason"])
    (waiting,) = second.json("ls", "--all")
    go.touch()
    eventually(lambda: laptop.states() == second.states() == ["succeeded"])

    assert (waiting["state"], waiting["experiment"]) == ("queued", "echo")
    assert second("logs").out == "mine\n"


def test_edited_code_does_not_reach_waiting_runs(laptop: Bay, account: Path) -> None:
    """Runs that wait there have the code of the moment they were sent."""
    go = account / "go"
    laptop.write("code.sh", f"{wait_for(go)}; echo old")
    laptop.write("bay.yaml", "target: box\ncommand: sh code.sh <n>\nparams: {n: 0..5}\n")
    laptop("run", "--detach", "--yes")
    laptop.write("code.sh", "echo new")
    go.touch()
    eventually(lambda: laptop.states() == ["succeeded"] * 6)
    ids = [row["id"] for row in laptop.json("ls", "--all")]

    assert {laptop("logs", one).out for one in ids} == {"old\n"}


def test_ignored_data_is_named_in_the_plan(laptop: Bay) -> None:
    """What frozen code leaves out is not there, and the plan says so."""
    laptop.write(".gitignore", "data/\n")
    laptop.write("data/numbers", "1\n")
    laptop.git("init", "-q")
    said = laptop("plan").out

    assert "not there: data (" in said


def test_environment_is_built_there_once(laptop: Bay, account: Path) -> None:
    """`python:` is built on the other machine, and the second launch finds it ready."""
    laptop.write("requirements.txt", "# nothing\n")
    laptop.write("where.py", "import sys; print(sys.prefix)")
    laptop.write("bay.yaml", "target: box\npython: requirements.txt\ncommand: python where.py\n")
    first = laptop("run")
    prefix = laptop("logs").out.strip()
    built = Path(prefix).stat().st_ino
    laptop("run", "--again", "--yes")

    assert prefix.startswith(f"{account}/bay/envs/")
    assert Path(prefix).stat().st_ino == built
    assert laptop("logs").out.strip() == prefix
    assert laptop.states() == ["succeeded", "succeeded"], first


def end_master(control: Path) -> None:
    """Kill the process on this side that holds the shared connection."""
    found = subprocess.run(
        ["pgrep", "-f", f"ssh.*{control}"], capture_output=True, text=True, check=True
    )
    for word in found.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(word), signal.SIGKILL)


@pytest.mark.parametrize("side", ["here", "there"])
def test_connection_lost_while_following(
    laptop: Bay, sshd: Sshd, account: Path, control: Path, side: str
) -> None:
    """A connection that is cut is no end: following goes on, and nothing of the log is missing."""
    go = account / "go"
    laptop.write("wait.sh", f"echo one; {wait_for(go)}; echo two")
    following = laptop.start("run", "--name", "cut", "-t", "box", "--", "sh", "wait.sh")
    running(laptop)
    if side == "here":
        end_master(control)
    else:
        cut(sshd)
    go.touch()
    out, err = following.communicate(timeout=120)

    assert following.returncode == 0, err
    assert [line for line in out.splitlines() if line in {"one", "two"}] == ["one", "two"]
    assert "Traceback" not in err


def test_machine_gone_while_following(laptop: Bay, sshd: Sshd, account: Path) -> None:
    """While nobody answers that is one line; what runs goes on and is found again."""
    go = account / "go"
    laptop.write("wait.sh", f"echo one; {wait_for(go)}; echo two")
    following = laptop.start("run", "--name", "gone", "-t", "box", "--", "sh", "wait.sh")
    running(laptop)
    sshd.stop()
    cut(sshd)
    assert following.stderr is not None
    told = next(line for line in following.stderr if "does not answer" in line)
    said = laptop("ls")
    sshd.start()
    go.touch()
    out, err = following.communicate(timeout=120)

    assert told.startswith("no news of box: `box` does not answer: ssh: connect")
    assert "runs of box are as last seen: `box` does not answer" in said.err
    assert "does not answer" not in err
    assert (following.returncode, out) == (0, "one\ntwo\n")


def test_unknown_host_key(laptop: Bay) -> None:
    """A machine that nobody met yet is told with what to do, and nothing is submitted."""
    said = laptop("run", "-t", "stranger", "--", "true", code=1)

    assert "the host key of `stranger` is not known yet" in said.err
    assert "`ssh stranger` once" in said.err
    assert laptop.json("ls", "--all") == []


def test_login_is_asked_for(laptop: Bay, sshd: Sshd, tmp_path: Path) -> None:
    """A machine that wants a password is told with the command that asks for it."""
    keyless = tmp_path / "ssh_config"
    keyless.write_text(sshd.config.read_text().replace(f"IdentityFile {sshd.folder}/user_key", ""))
    laptop.extra["BAY_SSH_CONFIG"] = str(keyless)
    said = laptop("run", "-t", "denied", "--", "true", code=1)

    assert "`denied` wants a login" in said.err
    assert "`bay target login denied`" in said.err
    assert laptop.json("ls", "--all") == []


def test_login_opens_the_connection(laptop: Bay, sshd: Sshd) -> None:
    """A login looks round, and what follows needs none of its own."""
    said = laptop("target", "login", "box")
    before = sshd.logins
    laptop("run", "-t", "box", "--", "true")

    assert "the connection to `box` is open" in said.out + said.err
    assert sshd.logins == before


@pytest.fixture
def bare(laptop: Bay, sshd: Sshd, account: Path) -> Bay:
    """`bay` of somebody whose machine has no Python."""
    tools = account / "tools"
    tools.mkdir()
    for path in Path("/usr/bin").iterdir():
        if not path.name.startswith("python"):
            (tools / path.name).symlink_to(path)
    sshd.give({"XDG_STATE_HOME": str(account / "state"), "PATH": str(tools)})
    return laptop


def test_day_with_a_machine_without_python(bare: Bay, sshd: Sshd, account: Path) -> None:
    """Runs go one after another there, and every verb works all the same."""
    go = account / "go"
    bare.write("wait.sh", f"echo one; {wait_for(go)}; echo two")
    bare("run", "--detach", "--name", "first", "-t", "box", "--", "sh", "wait.sh")
    running(bare)
    bare("run", "--detach", "--yes")
    rows = bare.json("ls", "--all")
    ids = [row["id"] for row in rows]
    assert [row["state"] for row in rows] == ["running", "queued", "queued"]
    assert rows[2]["reason"].startswith("1 before it in this machine's queue; runs go one after")
    following = bare.start("logs", "-f", ids[0])
    go.touch()
    assert following.communicate(timeout=60)[0] == "one\ntwo\n"
    bare("wait", "sweep", code=1)
    assert bare.states() == ["succeeded", "succeeded", "failed"]
    assert [row["loss"] for row in bare.json("results", "sweep")] == [0.1, 0.01]

    (sshd.home / "mended").touch()
    bare("rerun", "--failed", "--yes")
    bare("wait", "sweep")
    bare("run", "--detach", "--name", "long", "-t", "box", "--", "sleep", "600")
    bare("cancel", "long", "--yes")
    eventually(lambda: bare.states() == ["succeeded"] * 3 + ["cancelled"])
    bare("fetch", "sweep")
    assert sum(name.endswith("results/lr") for name in files_of(bare.project / "results")) == 2

    for path in (bare.home / "state" / "launchbay").glob("index.sqlite*"):
        path.unlink()
    assert {row["id"] for row in bare.json("ls", "--rebuild")} >= set(ids)
    bare("rm", ids[1], "--yes")
    assert not (account / "bay" / "runs" / ids[1]).exists()
    assert "runs go one after another" in bare("doctor", "box", code=None).out


def test_login_that_has_run_out(laptop: Bay, sshd: Sshd) -> None:
    """Where the connection is gone and a login is wanted again, one line says what to type."""
    laptop("run", "--detach", "-t", "box", "--", "sleep", "600")
    running(laptop)
    keys = sshd.folder / "authorized_keys"
    keys.rename(keys.with_name("kept"))
    cut(sshd)
    said = laptop("ls")
    shown = laptop("show")
    keys.with_name("kept").rename(keys)
    laptop("cancel", "--yes", "-e", "sleep")

    (line,) = said.err.splitlines()
    assert line == shown.err.splitlines()[-1]
    assert line.startswith("runs of box are as last seen: `box` wants a login: ")
    assert line.endswith("; `bay target login box`")
