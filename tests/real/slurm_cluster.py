"""A whole Slurm of four nodes on loopback, in one folder, several side by side on one machine."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import LONGEST_S, eventually, require_program

SKIP = 5000
NODES = ("n1", "n2", "n3", "n4")
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol")
ACCOUNTING_PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db")
LOOPBACK = "127.0.0.1"
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")


@dataclass(kw_only=True)
class SlurmCluster:
    """Four nodes, `main` and `gpu` to work in, and `urgent`, which pushes out what is in `low`.

    `n1` and `n2` have two GPUs each, which are empty files; four CPUs and 4,000 MB are on each.
    Everything runs as root under one folder and is ended by its process id.
    """

    max_array: int = 1001
    accounting: bool = False
    submit_limit: int | None = None
    enforce_memory: bool = False
    """Whether the kernel ends what takes more than its `--mem`; see `can_enforce_memory`."""
    users: tuple[str, ...] = ()
    extra: str = ""
    """Further lines of slurm.conf; a key that is there already takes the later value."""
    folder: Path = field(init=False)
    ports: dict[str, int] = field(init=False)
    processes: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "slurm.conf"

    def environment(self) -> dict[str, str]:
        """What makes Slurm's commands speak to this cluster."""
        return {"SLURM_CONF": str(self.config)}

    def said(self, name: str) -> str:
        """What a daemon printed: `slurmctld`, `n1`, `slurmdbd`, `munged` or `mariadbd`."""
        return (self.folder / f"{name}.out").read_text(errors="replace")

    def run(
        self, *argv: str, user: str | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """A command of Slurm, as root or as an account, in `/` unless `cwd` says otherwise."""
        environment = {**os.environ, **self.environment()}
        if user is not None:
            known = pwd.getpwnam(user)
            environment |= {"HOME": known.pw_dir, "USER": user, "LOGNAME": user}
            options |= {"user": known.pw_uid, "group": known.pw_gid, "extra_groups": []}
        settings = {"cwd": "/", "timeout": 120, "env": environment, **options}
        return subprocess.run(argv, capture_output=True, text=True, check=False, **settings)

    def start(self) -> None:
        """Start everything; four nodes are idle when it returns."""
        self.folder = Path(tempfile.mkdtemp(prefix="bay-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        names = ("slurmctld", "slurmdbd", *NODES)
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self._write_files()
        self._start_munged()
        if self.accounting:
            self._start_accounting()
        self._spawn("slurmctld", "slurmctld", "-D", "-c", "-f", str(self.config))
        for name in NODES:
            self.start_node(name)
        self._await("slurmctld", self._controller_answers)
        self._await("slurmctld", self.idle)

    def stop(self) -> None:
        """End everything that runs, jobs included, and remove the folder."""
        # The controller goes first, or it would see its nodes fail one after another.
        self.stop_controller(signal.SIGKILL)
        for name in NODES:
            self.kill_node(name)
        for name in list(self.processes):
            self._end(name, signal.SIGTERM if name == "mariadbd" else signal.SIGKILL)
        if self.enforce_memory:
            _remove_groups()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop_controller(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End slurmctld: gently, its state saved, or by SIGKILL, the last seconds forgotten."""
        self._end("slurmctld", by)

    def start_controller(self) -> None:
        """Start slurmctld with the state that it left."""
        self._skip_ids()
        self._spawn("slurmctld", "slurmctld", "-D", "-f", str(self.config))
        self._await("slurmctld", self._controller_answers)

    def _skip_ids(self) -> None:
        """Have no id given again that a killed slurmctld forgot: nodes refuse to start it twice."""
        text = self.config.read_text()
        skipped = re.sub(
            r"FirstJobId=(\d+)", lambda found: f"FirstJobId={int(found[1]) + SKIP}", text
        )
        self._write(self.config.name, skipped)

    def restart_controller(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End slurmctld and start it again with the state that it left."""
        self.stop_controller(by)
        self.start_controller()

    def start_node(self, name: str) -> None:
        """Start the slurmd of a node."""
        spool = self.folder / "spool" / name
        self._spawn(name, "slurmd", "-D", "-N", name, "-f", str(self.config), folder=spool)

    def kill_node(self, name: str) -> None:
        """Kill slurmd and all that runs on the node, as when its power goes."""
        self._end(name, signal.SIGKILL)
        eventually(lambda: not _kill(self.node_processes(name)))

    def fail_node(self, name: str) -> None:
        """Kill a node and tell the controller, which finds out by itself much later."""
        self.kill_node(name)
        self.run("scontrol", "update", f"nodename={name}", "state=down", "reason=gone")

    def node_processes(self, name: str) -> list[int]:
        """The steps and the jobs on a node, without its slurmd."""
        # A step's title hides its environment; it stays in the folder where slurmd began.
        spool = str(self.folder / "spool" / name)
        marks = {f"SLURM_CONF={self.config}".encode(), f"SLURMD_NODENAME={name}".encode()}
        found: set[int] = set()
        grown = True
        processes = _processes()
        while grown:
            more = {
                one.pid
                for one in processes
                if one.parent in found or one.folder == spool or marks <= one.variables
            }
            grown = more != found
            found = more
        return sorted(found - {one.pid for one in self.processes.values()})

    def resume_node(self, name: str) -> None:
        """Put a node that is down or drained to work again."""
        self.run("scontrol", "update", f"nodename={name}", "state=resume")

    def idle(self) -> bool:
        """Whether every node is up and free."""
        return self.node_states() == dict.fromkeys(NODES, "idle")

    def node_states(self) -> dict[str, str]:
        """The state of each node as `sinfo` says it; a `*` after it: it does not answer."""
        done = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T")
        return dict(line.split() for line in done.stdout.splitlines())

    def empty(self) -> bool:
        """Whether no job waits, runs or is being put away."""
        done = self.run("squeue", "-h", "-o", "%i")
        return done.returncode == 0 and not done.stdout.strip()

    def cancel_all(self) -> None:
        """Kill and cancel every job of everybody."""
        found = sorted(set(self.run("squeue", "-h", "-o", "%F").stdout.split()))
        if found:
            # What ignores a plain cancel would be killed only after `KillWait`.
            self.run("scancel", "--full", "--signal=KILL", *found)
            self.run("scancel", *found)

    def clean(self) -> None:
        """Bring back what a test ended, and wait until no job is left and every node is free."""
        if not self.runs("slurmctld"):
            self.start_controller()
        for name in NODES:
            if not self.runs(name):
                self.start_node(name)
        self._await("slurmctld", self._tidy, within_s=180)

    def runs(self, name: str) -> bool:
        """Whether a daemon is there: `slurmctld`, `n1`, `slurmdbd`, `munged` or `mariadbd`."""
        return name in self.processes and self.processes[name].poll() is None

    def _tidy(self) -> bool:
        if not self.empty():
            self.cancel_all()
            return False
        states = self.node_states()
        for name, state in states.items():
            if state.startswith(("down", "drain")):
                self.resume_node(name)
        if states != dict.fromkeys(NODES, "idle"):
            return False
        # A controller that was killed may have forgotten a job that runs on.
        return not any(_kill(self.node_processes(name)) for name in NODES)

    def _controller_answers(self) -> bool:
        return "is UP" in self.run("scontrol", "ping").stdout

    def _write_files(self) -> None:
        for name in ("state", *(f"spool/{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        for number in range(2):
            (self.folder / f"gpu{number}").touch()
        self._write("gres.conf", GRES.format(folder=self.folder))
        host = socket.gethostname().split(".", maxsplit=1)[0]
        # Jobs of clusters side by side differ in their ids, by which the kernel's groups are named.
        first = self.ports["slurmctld"] * 1000
        numbers = {"first": first, "max_array": self.max_array, **self.ports}
        text = SLURM.format(host=host, folder=self.folder, **numbers)
        for name in NODES:
            also = GPU_NODE if name in {"n1", "n2"} else PLAIN_NODE
            text += NODE.format(name=name, host=host, port=self.ports[name]) + also
        text += PARTITIONS
        bind = BIND if named_on_loopback() else ""
        text += bind
        if self.accounting:
            text += ACCOUNTED.format(folder=self.folder, **self.ports)
            settings = DBD.format(host=host, folder=self.folder, **self.ports)
            self._write("slurmdbd.conf", settings + bind)
        else:
            text += UNACCOUNTED
        if self.enforce_memory:
            text += "TaskPlugin=task/cgroup\n"
            self._write("cgroup.conf", GROUPS)
        self._write("slurm.conf", text + self.extra)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600 if name == "slurmdbd.conf" else 0o644)

    def _start_munged(self) -> None:
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        files = {name: self.folder / f"munge.{name}" for name in ("socket", "key", "pid", "seed")}
        self._spawn(
            "munged",
            *("munged", "--foreground", "--force", f"--socket={files['socket']}"),
            *(f"--{name}-file={files[name]}" for name in ("key", "pid", "seed")),
            f"--log-file={self.folder}/munged.log",
        )
        self._await("munged", files["socket"].exists)

    def _start_accounting(self) -> None:
        data = self.folder / "database"
        data.mkdir(0o700)
        given = ("--no-defaults", "--user=root", f"--datadir={data}")
        # Nothing here has to outlive the machine.
        quick = ("--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0")
        first = ("--auth-root-authentication-method=normal", "--skip-test-db")
        argv = [require_program("mariadb-install-db"), *given, *quick, *first]
        subprocess.run(argv, check=True, capture_output=True)
        # The folder is closed to others, so the socket needs no password.
        socket_at = data / "socket"
        own = (f"--socket={socket_at}", f"--pid-file={data}/pid", "--skip-networking")
        self._spawn("mariadbd", "mariadbd", *given, *quick, *own)
        self._await("mariadbd", socket_at.exists)
        self._spawn("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(socket_at))
        self._await("slurmdbd", lambda: self._manage("list", "cluster"))
        assert self._manage("add", "cluster", "bay")
        assert self._manage("add", "account", "lab")
        limit = [] if self.submit_limit is None else [f"MaxSubmitJobs={self.submit_limit}"]
        users = ",".join(("root", *self.users))
        assert self._manage("add", "user", users, "Account=lab", "DefaultAccount=lab", *limit)

    def _manage(self, *words: str) -> bool:
        return self.run("sacctmgr", "-i", *words).returncode == 0

    def _spawn(
        self, name: str, program: str, *words: str, folder: Path | None = None, **variables: str
    ) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
        with (self.folder / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                [require_program(program), *words],
                env={**kept, **self.environment(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=folder or self.folder,
                start_new_session=True,
            )

    def _end(self, name: str, by: signal.Signals) -> None:
        process = self.processes.pop(name, None)
        if process is not None:
            process.send_signal(by)
            process.wait()

    def _await(self, name: str, condition: Any, *, within_s: float = LONGEST_S) -> None:
        def holds() -> bool:
            assert self.runs(name), f"{name} ended:\n{self.said(name)}"
            return bool(condition())

        eventually(holds, within_s=within_s)


def _kill(pids: list[int]) -> list[int]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def named_on_loopback() -> bool:
    """Whether this machine's own name means loopback.

    Slurm can be told to bind the address of that name, or else binds every address there is.
    """
    try:
        return socket.gethostbyname(socket.gethostname()) == LOOPBACK
    except OSError:
        return False


def can_enforce_memory() -> bool:
    """Whether this machine has the groups of processes that Slurm limits memory by."""
    return os.access(MEMORY_GROUPS / "memory.limit_in_bytes", os.W_OK)


def _remove_groups() -> None:
    """Remove what killed daemons left; a group in use refuses."""
    for top in MEMORY_GROUPS.glob("slurm_n*"):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def free_ports(count: int) -> list[int]:
    """Ports below those that the system gives to callers, so that no call takes one."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            port = 15000 + secrets.randbelow(15000)
            taken = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                taken.bind((LOOPBACK, port))
                found.append(port)
        return found


@dataclass(frozen=True, kw_only=True)
class _Process:
    pid: int
    parent: int
    folder: str
    variables: frozenset[bytes]


def _processes() -> list[_Process]:
    """Every process with where it is and the environment that it began with."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # One that ends meanwhile, or is ended but not yet reaped, has no more of these.
            with contextlib.suppress(OSError):
                found.append(
                    _Process(
                        pid=int(entry.name),
                        parent=int((entry / "stat").read_text().rpartition(") ")[2].split()[1]),
                        folder=str((entry / "cwd").readlink()),
                        variables=frozenset((entry / "environ").read_bytes().split(b"\0")),
                    )
                )
    return found


SLURM = """\
ClusterName=bay
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={slurmctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until what it began with has expired: two minutes, if not told.
AuthInfo=socket={folder}/munge.socket,cred_expire=10
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
MessageTimeout=20
KillWait=5
MinJobAge=10
FirstJobId={first}
MaxArraySize={max_array}
MaxJobCount=20000
SchedulerParameters=sched_interval=5,batch_sched_delay=0,sched_min_interval=100000,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
"""
GROUPS = """\
CgroupPlugin=cgroup/v1
CgroupAutomount=no
ConstrainRAMSpace=yes
"""
BIND = """\
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
"""
GRES = """\
NodeName=n[1-2] Name=gpu Type=a100 File={folder}/gpu[0-1]
"""
NODE = """\
NodeName={name} NodeAddr=127.0.0.1 NodeHostname={host} Port={port} CPUs=4 RealMemory=4000"""
GPU_NODE = " Gres=gpu:a100:2 Feature=fast,a100\n"
PLAIN_NODE = " Feature=slow\n"
PARTITIONS = """\
PartitionName=DEFAULT Nodes=ALL MaxTime=2:00:00 DefaultTime=10 State=UP PreemptMode=off
PartitionName=main Default=YES PriorityTier=1
PartitionName=gpu Nodes=n[1-2] PriorityTier=1
PartitionName=low PriorityTier=1 PreemptMode=requeue
PartitionName=urgent PriorityTier=10
"""
UNACCOUNTED = """\
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
"""
ACCOUNTED = """\
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={slurmdbd}
# The socket of munged, for what is said to slurmdbd.
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=associations,limits
AccountingStorageTRES=gres/gpu
"""
DBD = """\
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={slurmdbd}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
"""
