"""Sweeps that are larger than what a Slurm takes at once: packed, or fed in from this side."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import STRESS, Bay, eventually

from launchbay.backends.depot import Depot
from launchbay.backends.slurm.backend import SlurmBackend, SlurmOptions
from launchbay.core.job import Job, Policy, Script
from launchbay.core.naming import run_id
from launchbay.core.run import Cause, Handle, State, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.conftest import Sshd
    from tests.real.slurm_cluster import SlurmCluster

    from launchbay.hosts.ssh import SSHHost

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNTED = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo", "sacctmgr")
STATUS = ("squeue", "sacct", "scontrol")
LOOK_EVERY_S = 10
PACKED_RUNS = 10_000 if STRESS else 3_000
PLAIN_RUNS = 600

WRAPPER = """\
#!/bin/sh
printf '%s\\n' "$(date +%s.%N) {name} $*" >>{calls}
exec {program} "$@"
"""
CONFIG = """\
targets:
  brc: {{kind: slurm, host: box, root: {root}, partition: main}}
target: brc
"""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A login host on which every call of a command of Slurm is written down."""

    bay: Bay
    root: Path
    calls: Path

    def counts(self) -> Counter[str]:
        """How often each command was called so far."""
        return Counter(line.split()[1] for line in self.calls.read_text().splitlines())

    def looks(self) -> list[float]:
        """When runs were asked after; what was asked before the first was sent is no look."""
        lines = [line.split() for line in self.calls.read_text().splitlines()]
        calls = [(float(at), name) for at, name, *_ in lines]
        first = min(at for at, name in calls if name == "sbatch")
        return sorted(at for at, name in calls if name in STATUS and at > first)


def are_within_budget(looks: list[float]) -> bool:
    """Whether a look, of two calls, came every ten seconds at most; one may be long on its way."""
    return len(looks) <= 2 * ((looks[-1] - looks[0]) / LOOK_EVERY_S + 1)


@pytest.fixture
def site(counted: SlurmCluster, sshd: Sshd, control: Path, box: SSHHost) -> Iterator[Site]:
    """`bay` of a person whose target is the limited cluster, reached as an ordinary account.

    Its connection is that of `box`, and ended with it.
    """
    folder = Path(tempfile.mkdtemp(prefix="bay-limits-", dir="/tmp"))
    folder.chmod(0o755)
    owner = sshd.home.stat()
    calls, tools = folder / "calls", folder / "tools"
    tools.mkdir()
    for path in (folder, calls):
        path.touch()
        os.chown(path, owner.st_uid, owner.st_gid)
    for name in COUNTED:
        program = shutil.which(name)
        (tools / name).write_text(WRAPPER.format(name=name, calls=calls, program=program))
        (tools / name).chmod(0o755)
    sshd.give({**counted.environment(), "PATH": f"{tools}:/usr/bin:/bin"})
    bay = Bay(home=folder / "home", project=folder / "project")
    bay.extra = {"BAY_SSH_CONFIG": str(sshd.config), "XDG_RUNTIME_DIR": str(control)}
    bay.home.mkdir()
    bay.project.mkdir()
    bay.write("bay.yaml", CONFIG.format(root=folder / "root"))
    yield Site(bay=bay, root=folder / "root", calls=calls)
    shutil.rmtree(folder, ignore_errors=True)


def grow(site: Site, text: str) -> None:
    """Add to the experiment file."""
    path = site.bay.project / "bay.yaml"
    path.write_text(path.read_text() + text)


def test_packed_sweep_larger_than_every_limit(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Thousands of runs that share allocations all succeed, in few calls of Slurm's commands."""
    grow(site, f"command: 'true <i>'\nparams: {{i: 1..{PACKED_RUNS}}}\npack: 20\ntime: 2m\n")

    began = time.monotonic()
    site.bay("run", "--yes", "--quiet")
    took_s = time.monotonic() - began

    assert Counter(site.bay.states()) == {"succeeded": PACKED_RUNS}
    counts = site.counts()
    with capsys.disabled():
        print(f"\n{PACKED_RUNS} packed runs in {took_s:.0f} s: {dict(counts)}")  # noqa: T201
    assert counts["sbatch"] <= 60
    assert are_within_budget(site.looks())


def test_sweep_above_the_submit_limit_is_fed_in(site: Site) -> None:
    """What the site does not take waits on this side, and `bay watch` sends it; each runs once."""
    # None may end, and make room, before all were offered.
    go = site.root / "go"
    text = f"until [ -e {go} ]; do sleep 0.2; done; echo ran >>$BAY_OUT/ran"
    grow(site, f"command: '{text}'\nparams: {{i: 1..{PLAIN_RUNS}}}\n")
    site.bay("run", "--yes", "--quiet", "--detach")
    first = site.bay.json("ls", "--all", "--no-refresh")
    waiting = [row for row in first if row["state"] == "created"]

    assert 100 <= len(waiting) <= 300
    assert "waits on this side: " in waiting[0]["reason"]

    go.touch()
    site.bay("watch")
    assert Counter(site.bay.states()) == {"succeeded": PLAIN_RUNS}
    marks = sorted(site.root.glob("runs/*/out/ran"))
    assert [path.read_text() for path in marks] == ["ran\n"] * PLAIN_RUNS
    assert are_within_budget(site.looks())


@pytest.fixture
def brc(site: Site, box: SSHHost) -> SlurmBackend:
    """The same cluster as a backend, for what has to be asked at the right moment."""
    depot = Depot(box, site.root, target="brc", programs="root")
    options = SlurmOptions(root=site.root, look_every_s=0)
    facts = SlurmBackend("brc", options, depot).survey()
    return SlurmBackend("brc", options, depot, facts=facts)


def jobs(count: int, text: str, pack: str = "4", **options: Any) -> list[Job]:
    """Runs that share allocations; four run side by side on a node."""
    return [
        Job(
            run_id=run_id("packed"),
            name="packed",
            experiment="packed",
            command=Script(text),
            policy=Policy(pack=pack),
            options=options,
        )
        for _ in range(count)
    ]


def send(backend: SlurmBackend, wanted: list[Job]) -> list[Handle]:
    answers = [answer for plan in backend.plan(wanted) for answer in backend.submit(plan)]
    return [answer for answer in answers if isinstance(answer, Handle)]


def await_states(backend: SlurmBackend, handles: list[Handle], **wanted: int) -> list[Status]:
    """The statuses once so many runs have each state."""
    seen: list[Status] = []

    def reached() -> bool:
        polled = backend.poll(handles)
        seen[:] = [polled[handle] for handle in handles]
        states = Counter(status.state for status in seen)
        assert not any(state.final for state in states.keys() - wanted), seen
        return states == wanted

    eventually(reached)
    return seen


def test_allocation_is_cancelled_behind_our_back(brc: SlurmBackend, counted: SlurmCluster) -> None:
    """The runs in it end as cancelled there; those in another allocation of the plan go on."""
    handles = send(brc, jobs(8, "sleep 600"))
    running = await_states(brc, handles, running=8)
    gone = running[0].allocation
    events = Path(brc._depot.run_path(handles[0].run_id)) / "attempts/1/events.jsonl"
    # The number alone may be that of the whole array.
    counted.run("scancel", json.loads(events.read_text().splitlines()[0])["task"])

    seen = await_states(brc, handles, running=4, cancelled=4)
    assert {one.cause for one in seen if one.allocation == gone} == {Cause.CANCELLED_ELSEWHERE}
    assert {one.state for one in seen if one.allocation != gone} == {State.RUNNING}
    assert "cancelled by an administrator" in seen[0].reason
    brc.cancel(handles)
    await_states(brc, handles, cancelled=8)


def test_what_an_ended_allocation_left_is_fed_again(
    brc: SlurmBackend, counted: SlurmCluster
) -> None:
    """Runs that their allocation had not begun wait for a push, and the next one takes them."""
    marks = 'until [ -e "$BAY_OUT/../../../go" ]; do sleep 0.1; done; echo ran >>"$BAY_OUT/ran"'
    handles = send(brc, jobs(10, marks, pack="10"))
    running = [one for one in await_states(brc, handles, running=4, queued=6) if one.nodes]
    counted.run("scancel", running[0].allocation)
    seen = await_states(brc, handles, cancelled=4, queued=6)
    assert [one.unfed for one in seen if one.state is State.QUEUED] == [True] * 6

    left = [handle for handle, one in zip(handles, seen, strict=True) if one.unfed]
    brc.feed(left)
    brc.feed(left)
    await_states(brc, handles, cancelled=4, running=4, queued=2)
    root = Path(brc._depot.root_path())
    (root / "go").touch()
    await_states(brc, handles, cancelled=4, succeeded=6)
    ran = [(root / "runs" / one.run_id / "out" / "ran").exists() for one in handles]
    assert ran == [one in left for one in handles]


def test_cancelled_in_a_shared_allocation(brc: SlurmBackend, counted: SlurmCluster) -> None:
    """One that runs is ended, one that waits never starts, the others go on to the end."""
    handles = send(brc, jobs(8, "sleep 600", pack="8"))
    seen = dict(zip(handles, await_states(brc, handles, running=4, queued=4), strict=True))
    runs = [handle for handle in handles if seen[handle].state is State.RUNNING]
    waits = [handle for handle in handles if seen[handle].state is State.QUEUED]
    brc.cancel([waits[0]])
    assert brc.poll([waits[0]])[waits[0]].reason == "cancelled before it started"
    brc.cancel([runs[0]])

    await_states(brc, handles, cancelled=2, running=4, queued=2)
    brc.cancel(handles)
    await_states(brc, handles, cancelled=8)
    eventually(counted.empty)


def test_nothing_waits_for_cancelled_runs(brc: SlurmBackend, counted: SlurmCluster) -> None:
    """An allocation that waits leaves the queue when all its runs were cancelled."""
    handles = send(brc, jobs(4, "true", sbatch=["--hold"]))
    await_states(brc, handles, queued=4)
    brc.cancel(handles[:2])
    assert not counted.empty()
    brc.cancel(handles)

    eventually(counted.empty)
    await_states(brc, handles, cancelled=4)


def test_allocation_has_to_make_way(brc: SlurmBackend, counted: SlurmCluster) -> None:
    """Runs of an allocation that was pre-empted say so; what it had not begun is fed again."""
    handles = send(brc, jobs(6, "sleep 600", pack="6", partition="low"))
    await_states(brc, handles, running=4, queued=2)
    urgent = ["-p", "urgent", "-N", "4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600"]
    assert counted.run("sbatch", *urgent).returncode == 0

    seen = await_states(brc, handles, failed=4, queued=2)
    assert {one.cause for one in seen if one.state is State.FAILED} == {Cause.PREEMPTED}
    assert [one.unfed for one in seen if one.state is State.QUEUED] == [True] * 2
