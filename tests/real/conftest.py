"""The real services: each starts on loopback, in a folder of its own, and is ended by its id."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import eventually, require_program
from tests.real import kubernetes_cluster
from tests.real.kubernetes_cluster import KubernetesCluster, Namespace
from tests.real.object_servers import (
    STORES,
    AzuriteServer,
    MotoServer,
    RcloneServer,
    started,
)
from tests.real.slurm_cluster import ACCOUNTING_PROGRAMS, PROGRAMS, SlurmCluster

from launchbay.hosts.ssh import SSHHost

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from launchbay.sync.bucket import BucketOptions


@dataclass
class Sshd:
    """A real sshd with an ordinary account, and the ssh config that reaches it as `box`."""

    folder: Path
    account: str
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def log(self) -> str:
        return (self.folder / "sshd.log").read_text()

    @property
    def logins(self) -> int:
        """How many connections were accepted so far."""
        return self.log.count("Accepted publickey")

    def make(self) -> None:
        """Keys, configs and the account."""
        self.folder.chmod(0o755)
        for name in ("host_key", "user_key", "other_key"):
            _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        public = (self.folder / "host_key.pub").read_text().split()[:2]
        self.write("known_hosts", f"[127.0.0.1]:{self.port} {' '.join(public)}\n")
        self.write("no_hosts", "")
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        (self.folder / "authorized_keys").chmod(0o644)
        self.write("sshd_config", SSHD_CONFIG.format(port=self.port, folder=self.folder))
        self.write("ssh_config", SSH_CONFIG.format(**vars(self)))
        # `*` is no password; the default `!` would be a locked account, which sshd refuses.
        account = ["-m", "-d", str(self.home), "-s", "/bin/bash", "-p", "*", self.account]
        _change_accounts("useradd", "-K", "HOME_MODE=0755", *account)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def start(self) -> None:
        Path("/run/sshd").mkdir(exist_ok=True)
        sshd = require_program("sshd")
        self.process = subprocess.Popen(
            [sshd, "-D", "-f", str(self.folder / "sshd_config"), "-E", self.folder / "sshd.log"]
        )
        eventually(self.answers)

    def answers(self) -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End the listening sshd; connections that are open stay."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def give(self, variables: dict[str, str]) -> None:
        """Set variables, without spaces, for the sessions of connections from now on."""
        text = SSHD_CONFIG.format(port=self.port, folder=self.folder)
        if variables:
            text += f"SetEnv {' '.join(f'{name}={value}' for name, value in variables.items())}\n"
        self.write("sshd_config", text)
        if self.process is not None:
            seen = self.log.count("Server listening")
            self.process.send_signal(signal.SIGHUP)
            eventually(lambda: self.log.count("Server listening") > seen)

    def shell(self, path: str) -> None:
        _change_accounts("usermod", "-s", path, self.account)

    def sessions(self) -> list[int]:
        """The processes that serve a logged-in connection of the account."""
        pattern = f"^sshd(-session)?: {self.account}@"
        found = subprocess.run(
            ["pgrep", "-f", pattern], capture_output=True, text=True, check=False
        )
        return [int(word) for word in found.stdout.split()]


SSHD_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
LogLevel VERBOSE
MaxStartups 100
"""
SSH_CONFIG = """\
Host box stranger denied own far
    HostName 127.0.0.1
    Port {port}
    User {account}
    IdentitiesOnly yes
Host stranger
    UserKnownHostsFile {folder}/no_hosts
Host denied
    IdentityFile {folder}/other_key
Host far
    ProxyJump box
Host own
    ControlPath {folder}/own-%C
Host *
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    IdentityFile {folder}/user_key
"""


def _do(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)


def _change_accounts(*argv: str) -> None:
    """Run a program that refuses when another worker's holds the list of accounts."""
    with Path("/run/bay-accounts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(argv, check=argv[0] != "userdel", capture_output=True)


def _require_root(why: str) -> None:
    if os.getuid() and os.environ.get("BAY_REQUIRE_REAL") == "1":
        pytest.fail(why)
    if os.getuid():
        pytest.skip(why)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="session")
def real_sshd() -> Iterator[Sshd]:
    """One sshd and one account for each worker of the test run."""
    _require_root("a second account needs root")
    for program in ("sshd", "ssh", "ssh-keygen", "useradd", "pgrep"):
        require_program(program)
    folder = Path(tempfile.mkdtemp(prefix="bay-sshd-", dir="/tmp"))
    made = Sshd(folder=folder, account=f"bay-{os.getpid()}", port=_free_port())
    made.make()
    try:
        made.start()
        yield made
    finally:
        made.stop()
        _change_accounts("userdel", "-f", made.account)
        # What served a session may still be putting its things away.
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short folder, with a space in its name, for sockets and locks."""
    folder = Path(tempfile.mkdtemp(prefix="bay c-", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    # A control master that ends removes its socket itself.
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def sshd(real_sshd: Sshd) -> Iterator[Sshd]:
    """The real sshd; started again where a test stopped it."""
    yield real_sshd
    if real_sshd.process is None:
        real_sshd.start()


@pytest.fixture
def box(sshd: Sshd, control: Path) -> Iterator[SSHHost]:
    """The account as a host, on a connection of its own."""
    host = SSHHost("box", target="there", config=sshd.config)
    yield host
    host.close()


def _cluster(users: tuple[str, ...], **settings: Any) -> Iterator[SlurmCluster]:
    """A started cluster, for as long as the test run lasts."""
    made = SlurmCluster(users=users, **settings)
    for program in (*PROGRAMS, *(ACCOUNTING_PROGRAMS if made.accounting else ())):
        require_program(program)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def plain_slurm(real_sshd: Sshd) -> Iterator[SlurmCluster]:
    """A Slurm without accounting, for each worker of the test run."""
    yield from _cluster((real_sshd.account,))


@pytest.fixture(scope="session")
def counted_slurm(real_sshd: Sshd) -> Iterator[SlurmCluster]:
    """A Slurm with accounting, small arrays and a limit of submitted jobs, for each worker."""
    limits = {"max_array": 101, "submit_limit": 500}
    yield from _cluster((real_sshd.account,), accounting=True, **limits)


def _used(
    cluster: SlurmCluster, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmCluster]:
    """The cluster, empty before and after, as the one that commands here and over SSH speak to."""
    cluster.clean()
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    sshd.give(cluster.environment())
    yield cluster
    sshd.give({})
    cluster.clean()


@pytest.fixture
def slurm(
    plain_slurm: SlurmCluster, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmCluster]:
    """The Slurm without accounting, empty, here and in sessions over SSH."""
    yield from _used(plain_slurm, sshd, monkeypatch)


@pytest.fixture
def counted(
    counted_slurm: SlurmCluster, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmCluster]:
    """The Slurm with accounting and limits, empty, here and in sessions over SSH."""
    yield from _used(counted_slurm, sshd, monkeypatch)


@pytest.fixture(scope="session")
def real_kubernetes() -> Iterator[KubernetesCluster]:
    """A Kubernetes with one node, for the test run."""
    lacking = kubernetes_cluster.missing()
    if lacking and os.environ.get("BAY_REQUIRE_REAL") == "1":
        pytest.fail(lacking)
    if lacking:
        pytest.skip(lacking)
    made = KubernetesCluster()
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def kubernetes(real_kubernetes: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """The Kubernetes; what a test stopped is started again, nodes that it added are removed."""
    yield real_kubernetes
    real_kubernetes.clean()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that fails on Kubernetes tells what was there, before it is taken away."""
    report = yield
    namespace = getattr(item, "funcargs", {}).get("namespace")
    if report.failed and report.when == "call" and isinstance(namespace, Namespace):
        report.sections.append(("Kubernetes", namespace.cluster.about(namespace.name)))
    return report


@pytest.fixture
def namespace(kubernetes: KubernetesCluster) -> Iterator[Namespace]:
    """A fresh namespace with its ordinary user, who may list nodes."""
    made = kubernetes.namespace()
    yield made
    kubernetes.clean()
    made.remove()


def _object_server(kind: str) -> Iterator[Any]:
    made = started(kind)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def rclone_server() -> Iterator[RcloneServer]:
    """The S3 of rclone, for each worker of the test run."""
    yield from _object_server("rclone")


@pytest.fixture(scope="session")
def moto_server() -> Iterator[MotoServer]:
    """The S3 of moto, for each worker of the test run."""
    yield from _object_server("moto")


@pytest.fixture(scope="session")
def azurite_server() -> Iterator[AzuriteServer]:
    """azurite, for each worker of the test run."""
    yield from _object_server("azurite")


@pytest.fixture(scope="session")
def folder_server() -> Iterator[Any]:
    """A folder that holds folders as buckets."""
    yield from _object_server("folder")


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest) -> BucketOptions:
    """A fresh, empty bucket in each kind of storage."""
    server = request.getfixturevalue(f"{request.param}_server")
    options: BucketOptions = server.fresh()
    return options


@pytest.fixture
def s3(rclone_server: RcloneServer) -> BucketOptions:
    """A fresh, empty bucket in rclone's S3, which checks keys and signatures."""
    return rclone_server.fresh()
