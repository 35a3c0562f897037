"""What breaks on a real Slurm, and what becomes of runs: none is lost, none runs twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from tests.conftest import STRESS, eventually
from tests.real.slurm_cluster import SlurmCluster, can_enforce_memory
from tests.real.slurm_desk import SlurmDesk, slurm_desk

from launchbay.backends.depot import Depot
from launchbay.hosts.ssh import SSHHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Bay
    from tests.real.conftest import Sshd

pytestmark = [pytest.mark.real, pytest.mark.slow]

KILLS = 100 if STRESS else 10


@pytest.fixture
def desk(bay: Bay, slurm: SlurmCluster, sshd: Sshd, control: Path) -> Iterator[SlurmDesk]:
    """The lab over SSH, on the cluster without accounting."""
    with slurm_desk(bay, slurm, sshd, control) as made:
        yield made


@pytest.fixture
def counted_desk(bay: Bay, counted: SlurmCluster, sshd: Sshd, control: Path) -> Iterator[SlurmDesk]:
    """The lab over SSH, on the cluster with accounting."""
    with slurm_desk(bay, counted, sshd, control) as made:
        yield made


def test_controller_is_restarted(desk: SlurmDesk) -> None:
    """While slurmctld is away runs stay as last seen; afterwards each ends, once."""
    desk.write("until [ -e $BAY_OUT/../../../../go ]; do sleep 0.1; done", params={"n": "0..3"})
    desk.bay("run", "-d")
    desk.await_states("running")
    desk.cluster.stop_controller(signal.SIGKILL)
    silent = desk.bay("ls")
    after = desk.bay.states("--no-refresh")
    (desk.shared / "go").touch()
    eventually(lambda: len(list(desk.root.glob("runs/*/attempts/1/events.jsonl"))) == 4)
    desk.cluster.start_controller()
    desk.bay("watch", code=None)

    assert after == ["running"] * 4
    assert "lab" in silent.err
    assert {row["state"] for row in desk.rows()} == {"succeeded"}
    desk.once(4)


def test_node_dies(desk: SlurmDesk) -> None:
    """A node's end is said to be that; what may be tried again is, once, whoever follows."""
    desk.write(
        'if [ "$BAY_ATTEMPT" = 1 ]; then sleep 600; fi',
        params={"n": [1, 2]},
        retries={"node": 1},
        time="5m",
    )
    desk.bay("run", "-d")
    rows = desk.await_states("running")
    desk.await_marks(2)
    followers = [desk.bay.start("wait", "-e", rows[0]["experiment"]) for _ in range(2)]
    for name in {row["nodes"][0] for row in rows}:
        desk.cluster.fail_node(name)
    said = [follower.communicate(timeout=250) for follower in followers]
    ids = [row["id"] for row in rows]
    first = [desk.bay.json("show", one)["attempts"][0] for one in ids]

    assert [follower.returncode for follower in followers] == [0, 0], said
    assert {row["state"] for row in desk.rows()} == {"succeeded"}
    assert sorted(desk.marks) == sorted(f"{one} {number}" for one in ids for number in (1, 2))
    assert {one["state"] for one in first} == {"failed"}
    assert all("a node that it ran on failed" in one["reason"] for one in first)


def test_pushed_out(desk: SlurmDesk) -> None:
    """Who has to make way ends as pre-empted; who resumes goes on by itself, with its outputs."""
    site = {"partition": "low"}
    desk.write("sleep 600", params={"n": 1}, site=site, time="5m")
    desk.bay("run", "-d")
    goes_on = 'echo "$BAY_ATTEMPT" >>$BAY_OUT/list; [ "$BAY_ATTEMPT" != 1 ] || sleep 600'
    desk.write(goes_on, params={"n": 2}, site=site, time="5m", resume=True)
    desk.bay("run", "-d")
    *_, second = desk.await_states("running")
    out = desk.root / "runs" / second["id"] / "out"
    desk.await_marks(2)
    eventually(lambda: (out / "list").exists() and (out / "list").read_text() == "1\n")
    everything = ["-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1"]
    assert desk.cluster.run("sbatch", "-p", "urgent", *everything).returncode == 0
    one, other = desk.await_states("failed", "succeeded")

    assert (one["state"], one["cause"]) == ("failed", "preempted")
    assert "make way" in one["reason"]
    assert (other["state"], other["attempt"]) == ("succeeded", 2)
    assert (out / "list").read_text() == "1\n2\n"
    assert len(desk.marks) == 3


def test_requeued_by_hand(desk: SlurmDesk) -> None:
    """`scontrol requeue` begins a further attempt of a run that resumes, and of no other."""
    command = 'echo x >>$BAY_OUT/list; [ "$BAY_ATTEMPT" = 2 ] || sleep 600'
    desk.write(command, params={"n": 1}, resume=True, time="5m")
    desk.bay("run", "-d")
    desk.write("sleep 600", params={"n": 2}, time="5m")
    desk.bay("run", "-d")
    resumes, other = desk.await_states("running")
    desk.await_marks(2)
    requeued = [
        desk.cluster.run("scontrol", "requeue", row["native_id"]) for row in (resumes, other)
    ]
    eventually(lambda: desk.row(n="1")["state"] == "succeeded")
    shown = desk.bay.json("show", resumes["id"])

    assert [done.returncode for done in requeued] == [0, 1]
    assert "disabled" in requeued[1].stderr
    assert desk.row(n="2")["state"] == "running"
    assert shown["attempt"] == 2
    assert [one["number"] for one in shown["attempts"]] == [1, 2]
    assert (desk.root / "runs" / resumes["id"] / "out" / "list").read_text() == "x\nx\n"
    assert desk.marks.count(f"{other['id']} 1") == 1


def test_cancelled_behind_our_back(counted_desk: SlurmDesk) -> None:
    """Who cancelled a run on the cluster is said where accounting tells."""
    desk = counted_desk
    desk.write("sleep 600", params={"n": [1, 2]}, time="5m")
    desk.bay("run", "-d")
    one, other = desk.await_states("running")
    desk.cluster.run("scancel", one["native_id"])
    desk.cluster.run("scancel", other["native_id"], user=desk.sshd.account)
    one, other = desk.await_states("cancelled")

    assert {one["cause"], other["cause"]} == {"cancelled-elsewhere"}
    assert "cancelled by an administrator" in one["reason"]
    assert f"cancelled by {desk.sshd.account} on the cluster" in other["reason"]


RESUMES = """\
import os, signal, sys, time
if "2" == os.environ["BAY_ATTEMPT"]:
    sys.exit(0 if os.path.exists(os.environ["BAY_OUT"] + "/saved") else 1)
def save(*_):
    if sys.argv[1] == "saves":
        time.sleep(0.5)
        open(os.environ["BAY_OUT"] + "/saved", "w").close()
    sys.exit(3)
signal.signal(signal.SIGUSR1, save)
time.sleep(600)
"""


def test_time_is_up(desk: SlurmDesk) -> None:
    """A warned run that saved goes on, one that saved nothing does not; unwarned is timed out."""
    desk.bay.write("train.py", RESUMES)
    desk.write("sleep 600", params={"n": 1}, time="1m")
    desk.bay("run", "-d")
    words = {"how": ["saves", "idles"]}
    desk.write("python3 train.py <how>", params=words, time="2m", resume=True, grace="50s")
    desk.bay("run", "-d")
    ended = desk.bay("watch", code=1)
    plain, saved, idle = desk.row(n="1"), desk.row(how="saves"), desk.row(how="idles")

    assert (plain["state"], plain["cause"]) == ("failed", "timeout"), ended
    assert "its time limit of 1m was over" in plain["reason"]
    assert (saved["state"], saved["attempt"]) == ("succeeded", 2)
    assert (idle["state"], idle["cause"], idle["attempt"]) == ("failed", "timeout", 1)
    assert "nothing new" in idle["reason"]
    assert sorted(desk.marks) == sorted(
        [f"{plain['id']} 1", f"{saved['id']} 1", f"{saved['id']} 2", f"{idle['id']} 1"]
    )


@pytest.mark.skipif(not can_enforce_memory(), reason="the kernel has no groups to limit memory by")
def test_out_of_memory(
    bay: Bay, sshd: Sshd, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that takes more memory than it asked for is told so."""
    cluster = SlurmCluster(enforce_memory=True, users=(sshd.account,))
    try:
        cluster.start()
        monkeypatch.setenv("SLURM_CONF", str(cluster.config))
        with slurm_desk(bay, cluster, sshd, control, over_ssh=False) as desk:
            desk.write("python3 -c 'x = bytearray(200 << 20); print(len(x))'", memory="50M")
            bay("run", code=1)
            (row,) = desk.rows()
    finally:
        cluster.stop()

    assert (row["state"], row["cause"]) == ("failed", "oom")
    assert "--memory" in row["reason"]


SLOW = """#!/bin/sh
# Hands the job over, and tells of it only when it is let.
case " $* " in *" --parsable "*) ;; *) exec {sbatch} "$@" ;; esac
hold() {{
    touch {folder}/reached
    until [ -e {folder}/go ]; do sleep 0.1; done
}}
[ {when} != before ] || hold
{sbatch} "$@" || exit
[ {when} != after ] || hold
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_connection_is_cut_while_submitting(desk: SlurmDesk, when: str) -> None:
    """Cut before Slurm heard of the sweep or after: one line, and the next command completes it."""
    folder = desk.put_before("sbatch", SLOW, when=when)
    desk.write("true", params={"n": "0..9"})
    sending = desk.bay.start("run", "-d")
    eventually((folder / "reached").exists)
    for pid in desk.sshd.sessions():
        os.kill(pid, signal.SIGKILL)
    _, said = sending.communicate(timeout=60)
    before = desk.bay.states("--no-refresh")
    (folder / "go").touch()
    desk.bay("run", code=0)
    desk.await_states("succeeded")

    assert sending.returncode == 1
    assert said.count("error: ") == 1
    assert "broke off" in said
    assert before == ["created"] * 10
    desk.once(10)


def test_connection_is_cut_while_reading(desk: SlurmDesk) -> None:
    """Following a log outlives sshd: one line says that there is no news, then the rest comes."""
    go = desk.shared / "go"
    desk.write(f"echo begun; until [ -e {go} ]; do sleep 0.1; done; echo done")
    desk.bay("run", "-d")
    desk.await_marks(1)
    following = desk.bay.start("logs", "-f", desk.rows()[0]["id"])
    assert following.stdout
    assert following.stderr
    seen = following.stdout.readline()
    desk.sshd.stop()
    for pid in desk.sshd.sessions():
        os.kill(pid, signal.SIGKILL)
    told = following.stderr.readline()
    away = desk.bay("ls")
    desk.sshd.start()
    go.touch()
    rest, _ = following.communicate(timeout=60)

    assert (seen, rest, following.returncode) == ("begun\n", "done\n", 0)
    assert "lab" in told
    assert "box" in told
    assert "as last seen" in away.err
    assert desk.bay("logs").out == "begun\ndone\n"
    desk.once(1)


def test_name_of_the_host_is_gone(desk: SlurmDesk, tmp_path: Path) -> None:
    """A host that nobody can find changes nothing: what is known stays, and nothing is sent."""
    desk.write("sleep 600", params={"n": [1, 2]}, time="5m")
    desk.bay("run", "-d")
    desk.await_states("running")
    gone = tmp_path / "ssh_config"
    gone.write_text("Host box\n    HostName gone.invalid\n")
    right = desk.bay.extra["BAY_SSH_CONFIG"]
    desk.bay.extra["BAY_SSH_CONFIG"] = str(gone)
    # Away from the connection that is open.
    room = tmp_path / "r"
    room.mkdir(mode=0o700)
    held = desk.bay.extra["XDG_RUNTIME_DIR"]
    desk.bay.extra["XDG_RUNTIME_DIR"] = str(room)
    listed = desk.bay("ls")
    refused = desk.said("run", "-d", "n=3")
    desk.bay.extra |= {"BAY_SSH_CONFIG": right, "XDG_RUNTIME_DIR": held}

    assert "gone.invalid" in listed.err
    assert "running" in listed.out
    assert "gone.invalid" in refused.err
    assert [row["state"] for row in desk.rows()] == ["running"] * 2
    desk.once(2)


@pytest.fixture
def small_disk(desk: SlurmDesk) -> Iterator[Path]:
    """A disk of four megabytes, which is the account's."""
    place = desk.shared / "disk"
    place.mkdir()
    owner = desk.shared.stat()
    options = f"size=4m,mode=0755,uid={owner.st_uid},gid={owner.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", place], check=True)
    yield place
    desk.cluster.cancel_all()
    eventually(desk.cluster.empty)
    subprocess.run(["umount", "--lazy", place], check=True)


def test_disk_is_full(desk: SlurmDesk, small_disk: Path) -> None:
    """No room there: nothing is sent by halves; a run that meets it ends with its own error."""
    filler = small_disk / "filler"
    fill = f"dd if=/dev/zero of={filler} bs=64k"
    desk.write(f"case <n> in 1) {fill}; exit 5 ;; esac", root=small_disk / "bay", params={"n": 1})
    desk.bay("run", code=1)
    failed = desk.row(n="1")
    # More than what several processors may each still have in hand of a disk that is full.
    desk.bay.write("large.bin", "x" * 1_000_000)
    full = desk.said("run", "-d", "n=2")
    queued = desk.cluster.run("squeue", "-h").stdout
    filler.unlink()
    desk.bay("run", "n=2")
    # The disk is full from the moment at which Slurm has taken the job.
    desk.hold_nodes()
    desk.put_before(
        "sbatch", '#!/bin/sh\n{sbatch} "$@" || exit\n{fill} 2>/dev/null\nexit 0\n', fill=fill
    )
    SSHHost("box", config=desk.sshd.config).close()
    half = desk.said("run", "-d", "n=3")
    filler.unlink()
    desk.bay("run", "-d", "n=3")
    desk.free_nodes()
    desk.bay("watch")

    assert (failed["state"], failed["exit_code"]) == ("failed", 5)
    assert "No space left" in full.err
    assert queued == ""
    assert "is the disk full?" in half.err
    assert {row["state"] for row in desk.rows() if row["params"]["n"] != "1"} == {"succeeded"}
    desk.once(3)


def test_killed_at_any_instant(desk: SlurmDesk) -> None:
    """`bay run` is killed somewhere in a launch, and typed again: every run runs exactly once."""
    dice = random.Random(4)
    for number in range(KILLS):
        desk.write("true", params={"n": "0..7", "round": number})
        sending = desk.bay.start("run", "-d")
        # The instant is the point here: there is nothing to wait for.
        time.sleep(dice.uniform(0.05, 1.2))
        sending.kill()
        sending.communicate()
        desk.bay("run", "-d")
    desk.bay("watch", code=None)
    eventually(desk.cluster.empty)

    assert {row["state"] for row in desk.rows()} == {"succeeded"}
    desk.once(8 * KILLS)


def test_what_was_kept_is_sent_by_looking(desk: SlurmDesk) -> None:
    """Killed after its plan was written down: `bay ls` alone sends the sweep, once."""
    desk.write("true", params={"n": "0..4"})
    folder = desk.put_before("sbatch", SLOW, when="before")
    sending = desk.bay.start("run", "-d")
    eventually((folder / "reached").exists)
    sending.kill()
    sending.communicate()
    (folder / "go").touch()
    desk.await_states("succeeded")
    eventually(desk.cluster.empty)

    desk.once(5)


def test_handed_over_twice(desk: SlurmDesk) -> None:
    """Two jobs for the same runs: the first to start has them, and says how they fare."""
    go = desk.shared / "go"
    desk.write(f"until [ -e {go} ]; do sleep 0.1; done", params={"n": [1, 2]})
    desk.bay("run", "-d")
    desk.await_states("running")
    desk.await_marks(2)
    (plan,) = desk.root.glob("plans/*")
    text = (plan / "job.sh").read_text()
    first = (plan / "submitted").read_text()
    again = desk.cluster.run(
        "sbatch", "--parsable", f"--chdir={plan}", input=text, user=desk.sshd.account
    )
    second = again.stdout.strip()
    eventually(lambda: second not in desk.cluster.run("squeue", "-h", "-o", "%F").stdout)
    # As one has it who heard only of the second.
    (plan / "submitted").write_text(f"{second}\n")
    for name in desk.bay.project.glob(".bay/launches/*/plans/*.sent"):
        name.write_text(name.read_text().replace(first.strip(), second))
    for index in desk.bay.home.rglob("index.sqlite*"):
        index.unlink()
    desk.bay("ls", "--rebuild")
    meanwhile = desk.rows()
    go.touch()
    ended = desk.await_states("succeeded")

    assert {row["native_id"].partition("_")[0] for row in meanwhile} == {second}
    assert {row["state"] for row in meanwhile} == {"running"}
    assert len(ended) == 2
    desk.once(2)


def test_code_is_edited_while_runs_wait(desk: SlurmDesk) -> None:
    """Code that changes while fifty runs wait is not theirs; unchanged code is not sent again."""
    desk.hold_nodes()
    desk.bay.write("say.sh", "echo old\n")
    desk.write("sh say.sh >$BAY_OUT/said", params={"n": "0..49"})
    desk.bay("run", "-d")
    (staged,) = desk.root.glob("snapshots/*")
    before = staged.stat()
    box = SSHHost("box", config=desk.sshd.config)
    depot = Depot(box, desk.root, target="lab", programs="root")
    sent = depot.stage(staged.name, desk.bay.project / ".bay" / "snapshots" / staged.name)
    desk.bay("run", "-d", "n=50")
    after = staged.stat()
    desk.bay.write("say.sh", "echo new\n")
    desk.free_nodes()
    desk.bay("watch")
    said = [path.read_text() for path in desk.root.glob("runs/*/out/said")]

    assert said == ["old\n"] * 51
    assert sent == 0
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
    desk.once(51)
