"""The commands that go where runs run, as a person types them, on a real sshd and a real Slurm."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import end_queue, eventually

from launchbay.hosts.ssh import SSHHost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Bay
    from tests.real.conftest import Sshd
    from tests.real.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.real]

CONFIG = """\
targets:
  brc: {{kind: slurm, host: box, partition: main, root: {root}, look_every: 0s}}
  near: {{kind: slurm, root: {near}, look_every: 0s}}
  plain: {{kind: machine, host: box, root: {root}}}
  gone: {{kind: machine, host: 'nobody@127.0.0.1:1'}}
  strange: {{kind: machine, host: stranger, root: {root}}}
"""


@pytest.fixture
def account(sshd: Sshd) -> Iterator[Path]:
    """A folder of the account."""
    folder = Path(tempfile.mkdtemp(dir=sshd.home))
    shutil.chown(folder, sshd.account)
    yield folder
    end_queue(folder / "state")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def far(bay: Bay, sshd: Sshd, control: Path, account: Path) -> Iterator[Bay]:
    """`bay` with targets on the account, and a file of code beside ignored data."""
    bay.extra = {"BAY_SSH_CONFIG": str(sshd.config), "XDG_RUNTIME_DIR": str(control)}
    config = bay.home / "config" / "launchbay" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG.format(root=account / "bay", near=bay.home / "near"))
    bay.git("init", "-q")
    bay.write(".gitignore", "data\n")
    bay.write("data/numbers", "1\n")
    bay.write("main.py", "print('frozen')\n")
    yield bay
    for name in ("box", "stranger"):
        SSHHost(name, config=sshd.config).close()


@pytest.fixture
def queue(sshd: Sshd, account: Path) -> None:
    """The account's queue of machine targets is the test's own."""
    sshd.give({"XDG_STATE_HOME": str(account / "state")})


def typed(bay: Bay, words: list[str], answers: list[tuple[str, str]]) -> tuple[str, int]:
    """What a terminal shows of a command, each question answered when it is asked; its code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(bay.project)
        os.execve(bay.python, [bay.python, "-m", "launchbay", *words], bay.environment)
    seen = ""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if answers and answers[0][0] in seen:
            os.write(terminal, answers.pop(0)[1].encode())
        if select.select([terminal], [], [], 0.2)[0]:
            # The end of a terminal is an error.
            try:
                seen += os.read(terminal, 4096).decode(errors="replace")
            except OSError:
                break
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    return seen, os.waitstatus_to_exitcode(status)


def test_add_finds_a_slurm(far: Bay, slurm: SlurmCluster, account: Path) -> None:
    """Where sbatch is, the target is a Slurm with its default partition; then it is checked."""
    said = far("target", "add", "new", "box", "--root", str(account / "bay"), "--yes")
    subjects = [line.split()[2] for line in said.out.splitlines()]

    assert far.json("target", "show", "new")["options"] == {
        "host": "box",
        "partition": "main",
        "root": str(account / "bay"),
    }
    assert "partition gpu: at most 2h00m, 2 nodes, 4 cpus a node, 2 a100 a node\n" in said.err
    assert subjects == ["ssh", "clock", "Slurm", "partitions", "limits", "accounting"]


def test_add_asks_on_a_terminal(far: Bay, slurm: SlurmCluster) -> None:
    """Each choice is asked with its default, which Enter takes."""
    answers = [("partition [main]: ", "gpu\n"), ("root [~/bay]: ", "\n"), ("write this", "y\n")]
    _, code = typed(far, ["target", "add", "new", "box"], answers)

    assert (code, answers) == (0, [])
    assert far.json("target", "show", "new")["options"] == {
        "host": "box",
        "partition": "gpu",
        "root": "~/bay",
    }


def test_add_without_a_host(far: Bay, slurm: SlurmCluster) -> None:
    """`--kind slurm` alone is the Slurm of this machine."""
    far("target", "add", "here", "--kind", "slurm", "--partition", "gpu", "--yes")

    assert far.json("target", "show", "here")["options"]["partition"] == "gpu"
    assert "host" not in far.json("target", "show", "here")["options"]


def test_add_a_machine(far: Bay) -> None:
    """A box is told by its processors, GPUs and Python."""
    said = far("target", "add", "new", "box", "--kind", "machine", "--yes")

    assert f"{os.cpu_count()} cpus, " in said.err
    assert ", Python 3." in said.err
    assert far.json("target", "show", "new")["options"] == {"host": "box", "root": "~/bay"}


def test_add_what_does_not_answer(far: Bay) -> None:
    """Nothing is written of a machine that cannot be seen, unless its kind is said."""
    words = ("target", "add", "new", "stranger", "--yes")
    unseen = far(*words, code=1)
    far("target", "show", "new", code=2)
    written = far(*words, "--kind", "machine", code=1)

    assert unseen.err.startswith("error: the host key of `stranger` is not known yet\n")
    assert "so it is written as it was typed" in written.err
    assert far.json("target", "show", "new")["options"] == {"host": "stranger"}


def test_login_opens_the_connection_anew(far: Bay, sshd: Sshd, slurm: SlurmCluster) -> None:
    """One login each time, and what was seen there is kept for plans."""
    unknown = far("plan", "-t", "brc", "python3", "main.py").out
    before = sshd.logins
    said = far("target", "login", "brc")
    far("target", "login", "brc")
    known = far("plan", "-t", "brc", "python3", "main.py").out

    assert said.err.startswith("the connection to `box` is open\n")
    assert sshd.logins - before == 2
    assert (
        "nothing is known of brc yet: its limits are not checked; `bay doctor brc` looks" in unknown
    )
    assert "limits of brc as seen " in known


def test_login_answers_questions(far: Bay, sshd: Sshd) -> None:
    """What ssh asks is asked in the terminal; afterwards nothing asks."""
    assert "host key of `stranger` is not known" in far("doctor", "strange", code=1).out
    seen, code = typed(far, ["target", "login", "strange"], [("(yes/no", "yes\n")])
    far("doctor", "strange")
    sshd.write("no_hosts", "")

    assert (code, "the connection to `stranger` is open" in seen) == (0, True)


def test_login_where_none_is_needed(far: Bay) -> None:
    """This computer needs no login, and is told so."""
    said = far("target", "login", "near", code=2)

    assert said.err.startswith("error: `near` is this computer, and needs no login\n")


def test_doctor_of_machines_elsewhere(far: Bay, sshd: Sshd, account: Path) -> None:
    """A clock that is off is a warning, a machine that is not there a problem."""
    tools = account / "tools"
    tools.mkdir()
    tools.chmod(0o755)
    (tools / "date").write_text('#!/bin/sh\necho $(($(/bin/date "$@") + 7200))\n')
    (tools / "date").chmod(0o755)
    sshd.give({"PATH": f"{tools}:/usr/bin:/bin"})
    skewed = far("doctor", "plain").out
    sshd.give({})
    gone = far("doctor", "gone", code=1).out

    assert re.search(r"\nwarning  plain clock +is (2h00m|1h59m) ahead of ours\n", skewed)
    assert "problem  gone     `nobody@127.0.0.1:1` does not answer: " in gone


def test_root_that_cannot_be_written(far: Bay, slurm: SlurmCluster) -> None:
    """A Slurm whose root is not writable is a problem with its remedy."""
    said = far("target", "add", "new", "box", "--root", "/proc/bay", "--yes", code=1)

    assert said.out.splitlines()[-2:] == [
        "problem  new root        `/proc` is not writable",
        "                         → choose another `root:` for target `new`",
    ]


def test_plan_elsewhere(far: Bay, slurm: SlurmCluster) -> None:
    """It names the way, the age of limits, what stays here, and what the target expects."""
    words = ("-t", "brc", "--pack", "2", "x=0..4", "python3", "main.py")
    lines = far("plan", "--check", *words).out.splitlines()

    lines[2] = re.sub(r"\d+s ago$", "just now", lines[2])
    assert lines[1:4] == [
        "pack 2 · partition main · in 1 array",
        "limits of brc as seen just now",
        "not there: data (they are ignored by git and stay on this machine)",
    ]
    assert lines[-1] == "ok       brc  would start at once on n1 in partition main"
    assert far.states() == []


def test_plan_that_would_be_refused(far: Bay, slurm: SlurmCluster) -> None:
    """What only the site knows is found out by asking; the exit code says so."""
    far.write("bay.yaml", "command: python3 main.py\nsbatch: [--constraint=nowhere]\n")
    said = far("plan", "--check", "-t", "brc", code=1)

    assert said.out.splitlines()[-1].startswith("problem  brc  ")


def test_what_has_no_room_waits_on_this_side(far: Bay, counted: SlurmCluster) -> None:
    """A launch above the site's limit says how many wait, and how they get there."""
    said = far("run", "-d", "-t", "brc", "--yes", "x=0..549", "--", "sleep", "600")
    waiting = [row for row in far.json("ls", "--all", "--no-refresh") if row["state"] == "created"]
    listed = far("ls", "--no-refresh")
    far("cancel", "--target", "brc", "--yes")

    line = f"{len(waiting)} runs wait on this side; `bay watch` or the next bay command sends "
    assert 0 < len(waiting) < 550  # how many it takes is the site's to say
    assert said.err.splitlines()[-1] == f"{line}what has room"
    assert listed.err == f"{line}what has room\n"


def test_capacity(far: Bay, slurm: SlurmCluster) -> None:
    """A line for each partition; a target that does not answer is a line; who uses what."""
    far("run", "-q", "-d", "-t", "brc", "--gpus", "1", "sleep", "60")
    eventually(lambda: far.states() == ["running"])
    lines = far("capacity", "brc").out.splitlines()
    users = far("capacity", "brc", "--users").out.splitlines()
    whole = far("capacity")

    assert [re.split("  +", line) for line in lines[:2]] == [
        ["part", "free", "waiting", "note"],
        ["gpu", "1 of 2 nodes, 7 of 8 cpus, 3 of 4 gpus", "0", "free: 3 of 4 a100"],
    ]
    assert (users[0].split(), users[1].split()[:3:2]) == (["part", "user", "uses"], ["main", "1"])
    assert "gone does not tell: `nobody@127.0.0.1:1` does not answer: " in whole.err
    assert {row["target"] for row in far.json("capacity")} >= {"brc", "near", "plain", "gone"}


SHOW = 'cat main.py; echo "$PWD"; echo "$BAY_OUT"; echo "gpus $SLURM_GPUS_ON_NODE"; exit 7'


def test_dev_on_slurm(far: Bay, slurm: SlurmCluster, account: Path) -> None:
    """An allocation with what was asked for, in a copy of the code that stays; no run."""
    words = ("-t", "brc", "--gpus", "2", "--", "sh", "-c", SHOW)
    said = far("dev", *words, code=7)
    (folder,) = (account / "bay" / "dev").iterdir()

    assert said.out.splitlines() == [
        "print('frozen')",
        str(folder / "work"),
        str(folder / "out"),
        "gpus 2",
    ]
    assert said.err.startswith(f"on brc for 1h with 2 GPUs, in box:{folder}/work\n")
    assert said.err.endswith(f"the folder stays: box:{folder}\n")
    assert (folder / "work" / "main.py").is_file()
    assert far.states() == []
    eventually(slurm.empty)


def test_dev_is_no_step_of_where_one_sits(far: Bay, slurm: SlurmCluster) -> None:
    """Typed inside an allocation it asks for one of its own, and never for an array."""
    far.extra["SLURM_JOB_ID"] = "1"
    text = 'echo "$SLURM_JOB_ID ${SLURM_ARRAY_JOB_ID-none}"'
    number, array = far("dev", "-t", "near", "--", "sh", "-c", text).out.split()

    assert (number != "1", array) == (True, "none")


def test_dev_with_a_terminal(far: Bay, slurm: SlurmCluster) -> None:
    """Without a command it is a shell in the terminal, whose code is passed on."""
    answers = [("/work$ ", "test -t 0 && echo is-a-$BAY_TARGET\n"), ("is-a-brc", "exit 5\n")]
    seen, code = typed(far, ["dev", "-t", "brc"], answers)

    assert (code, answers) == (5, []), seen


def test_dev_on_a_machine_ends_after_its_time(far: Bay, queue: None) -> None:
    """Its time is over, and so is what runs there."""
    said = far("dev", "-t", "plain", "--time", "1s", "--", "sleep", "600", code=None)

    assert said.code != 0
    assert "on plain for 1s, in box:" in said.err


def test_dev_enters_the_environment(far: Bay, queue: None, account: Path) -> None:
    """Variables, secrets and set-up are there, where one stands; no secret stays in a file."""
    far.write(".env", "KEY=hidden\n")
    far.write("bay.yaml", "command: 'true'\nenv: {OWN: a b}\nsetup: export MADE=$OWN!\n")
    inside = far.write("sub/x.txt", "").parent
    said = far("dev", "-t", "plain", "--", "sh", "-c", 'echo "$MADE $KEY"; pwd', cwd=inside)
    files = [path for path in (account / "bay" / "dev").rglob("*") if path.is_file()]

    assert said.out.splitlines()[0] == "a b! hidden"
    assert said.out.splitlines()[1].endswith("/work/sub")
    assert [path for path in files if "hidden" in path.read_text()] == []


def test_dev_refuses_what_is_of_runs(far: Bay) -> None:
    """Several nodes are for runs."""
    said = far("dev", "-t", "near", "--nodes", "2", code=2)

    assert said.err.startswith("error: `--nodes` is for runs; `bay dev` is one shell on one node\n")


def test_shell_where_a_run_runs(far: Bay, slurm: SlurmCluster, account: Path) -> None:
    """A shell in the terminal, a command without one, each with its own exit code."""
    far("run", "-q", "-d", "-t", "brc", "sleep", "300")
    eventually(lambda: far.states() == ["running"])
    (row,) = far.json("ls")
    folder = account / "bay" / "runs" / row["id"]
    said = far("shell", row["id"], "--", "sh", "-c", 'pwd; echo "$BAY_RUN_ID"; exit 9', code=9)
    answers = [("/work$ ", "test -t 0 && echo is-$BAY_TARGET\n"), ("is-brc", "exit 5\n")]
    seen, code = typed(far, ["shell"], answers)
    path = far("show", "--path").out
    paths = far.json("show")["paths"]
    far("cancel", row["id"])
    far("wait", row["id"], code=1)

    assert said.out.splitlines() == [str(folder / "work"), row["id"]]
    assert (code, answers) == (5, []), seen
    assert path == f"box:{folder}\n"
    assert paths["log"] == f"box:{folder}/attempts/1/log-0.txt"
    assert "cancelled, not running" in far("shell", row["id"], code=2).err


SERVER = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        server.accept()[0].sendall(b"hello")
"""


def test_port_of_a_run(far: Bay, queue: None) -> None:
    """The run's port is led to a free one here, as long as the command runs."""
    far.write("serve.py", SERVER)
    far("run", "-q", "-d", "-t", "plain", "python3", "serve.py")
    eventually(lambda: far("logs").out.endswith("\n"))
    port = far("logs").out.strip()
    # What was started in the background of a script would not hear of an interrupt.
    leading = far.start("port", port, through=("env", "--default-signal=INT"))
    assert leading.stdout
    line = leading.stdout.readline()
    # It is taken, by the server itself.
    local = int(line.split()[0].rpartition(":")[2])
    eventually(lambda: heard(local) == b"hello")
    leading.send_signal(signal.SIGINT)
    leading.communicate(timeout=30)
    taken = far("port", f"{port}:{port}", code=2)
    far("cancel", "--target", "plain", "--yes")
    far("wait", "--target", "plain", code=1)

    assert line.endswith(f":{port}; Ctrl-C ends it\n")
    assert str(local) != port
    assert f"error: port {port} is taken on this computer\n" in taken.err


def heard(port: int) -> bytes | None:
    """What is said there; None where nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as caller:
            return caller.recv(99)
    except OSError:
        return None
