"""What the Slurm backend plans: exactly the text that it would send, from the site's facts."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from launchbay.backends.depot import Depot
from launchbay.backends.depot_programs import programs_version
from launchbay.backends.sheet import parse_document
from launchbay.backends.slurm.backend import SlurmBackend, SlurmOptions
from launchbay.backends.slurm.facts import parse_survey
from launchbay.core.backend import Facts, Plan, Refusal
from launchbay.core.errors import Unsupported
from launchbay.core.job import Argv, Job, Policy, Resources, Script
from launchbay.core.run import Handle, State
from launchbay.engine.plans import keep_plans, kept_plans
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable

    Golden = Callable[[str, str], None]

DATA = Path(__file__).parent.parent / "data" / "slurm"
SITE = parse_survey((DATA / "survey-22.05.txt").read_text())
"""Arrays of at most 101 tasks, 500 jobs at once, four CPUs on a node."""


def backend(details: dict[str, Any] | None = None, **options: Any) -> SlurmBackend:
    facts = Facts(seen_at=0.0, details=SITE if details is None else details)
    settings = SlurmOptions(root=Path("/bay"), **options)
    depot = Depot(LocalHost(), Path("/bay"), target="brc", programs="root")
    return SlurmBackend("brc", settings, depot, facts=facts)


def job(number: int = 0, **fields: Any) -> Job:
    given = {
        "run_id": f"lr-{number}-aaaaa",
        "name": f"lr-{number}",
        "experiment": "sweep",
        "command": Argv(("true", str(number))),
    }
    return Job(**{**given, **fields})


def sweep(count: int, **fields: Any) -> list[Job]:
    return [job(number, **fields) for number in range(count)]


def files(plan: Plan) -> dict[str, str]:
    return parse_document(plan.document)


def array(plan: Plan) -> str:
    """The indices of a plan's array; empty for a job of its own."""
    lines = files(plan)["job.sh"].splitlines()
    return next((line[16:] for line in lines if line.startswith("#SBATCH --array=")), "")


def shown(plans: list[Plan]) -> str:
    """The plans as they are kept for comparison; programs are named by their content."""
    text = "".join(plan.document for plan in plans)
    return text.replace(programs_version(), "VERSION")


def test_plain_plan(golden: Golden) -> None:
    """A sweep is one array, its runs found by their index."""
    jobs = sweep(3, params={"lr": "1e-3"}, env={"A": "it's"}, secrets=("KEY",), snapshot="c0de")

    golden("slurm/plan-array.txt", shown(backend().plan(jobs)))


def test_packed_plan(golden: Golden) -> None:
    """Runs that share allocations are an array of allocations."""
    need = Resources(time_limit=timedelta(minutes=10), cpus=1)
    jobs = sweep(5, resources=need, policy=Policy(pack="2"), command=Script("a\nb\n"))

    golden("slurm/plan-packed.txt", shown(backend().plan(jobs)))


def test_resumed_plan(golden: Golden) -> None:
    """A run that wants to go on is warned, may be queued again, and its end is followed up."""
    policy = Policy(resume=True, grace_s=60)
    need = Resources(time_limit=timedelta(hours=2), gpus=1, gpu_types=("a100",), memory_mib=2000)
    options = {"partition": "gpu", "account": "lab"}
    wanted = job(attempt=2, policy=policy, resources=need, options=options, setup="x\n")

    golden("slurm/plan-resume.txt", shown(backend().plan([wanted])))


def test_grouped_by_shape() -> None:
    """Runs of different needs go into arrays of their own, each in the order it came."""
    small, large = Resources(cpus=1), Resources(cpus=2)
    jobs = [job(number, resources=(small, large)[number % 2]) for number in range(6)]
    plans = backend().plan(jobs)

    assert [[one.run_id for one in plan.jobs] for plan in plans] == [
        [one.run_id for one in jobs[::2]],
        [one.run_id for one in jobs[1::2]],
    ]
    assert [array(plan) for plan in plans] == ["0-2", "0-2"]


def test_one_run_is_no_array() -> None:
    """A single run is a job of its own."""
    (plan,) = backend().plan([job()])

    assert array(plan) == ""


def test_split_at_the_largest_array() -> None:
    """No array has more tasks than the site allows, and no run is lost or doubled."""
    jobs = sweep(250)
    plans = backend().plan(jobs)

    assert [array(plan) for plan in plans] == ["0-100", "0-100", "0-47"]
    assert [one for plan in plans for one in plan.jobs] == jobs


def test_split_at_the_submit_limit() -> None:
    """An array takes a quarter of what may be submitted at once."""
    accounts = [{**entry, "max_submit": 40} for entry in SITE["accounts"]]
    plans = backend({**SITE, "accounts": accounts, "max_jobs": 40}).plan(sweep(25))

    assert [len(plan.jobs) for plan in plans] == [10, 10, 5]


def test_packed_runs_count_by_allocation() -> None:
    """Limits are of allocations, so that thousands of packed runs are few arrays."""
    plans = backend().plan(sweep(3000, policy=Policy(pack="20")))

    assert [(len(plan.jobs), array(plan)) for plan in plans] == [(2020, "0-100"), (980, "0-48")]


def test_without_facts() -> None:
    """A site that nobody has looked at gets arrays of a common size."""
    plans = backend({}).plan(sweep(1500))

    assert [len(plan.jobs) for plan in plans] == [1000, 500]


def test_at_most_k_at_once() -> None:
    """`parallel` is the array's throttle; the smaller of the sweep's and the target's counts."""
    assert [array(plan) for plan in backend().plan(sweep(9, parallel=4))] == ["0-8%4"]
    both = backend(parallel=2).plan(sweep(9, parallel=4))
    assert [array(plan) for plan in both] == ["0-8%2"]


@pytest.mark.parametrize("parallel", [1, 2, 3, 5, 100])
def test_several_arrays_under_one_cap(parallel: int) -> None:
    """Arrays of one sweep go in lanes that hold the cap together, one behind the other."""
    plans = backend().plan(sweep(450, parallel=parallel))
    behind = [files(plan).get("behind", "").strip() for plan in plans]
    lanes = behind.count("")
    throttles = [int(array(plan).partition("%")[2]) for plan in plans]

    assert lanes == min(parallel, len(plans))
    assert behind[lanes:] == [plan.id for plan in plans[:-lanes]]
    assert lanes * max(throttles) <= parallel


@pytest.mark.parametrize("parallel", [1, 3, 4, 8, 9])
def test_packed_under_a_cap(parallel: int) -> None:
    """Allocations at once, times the runs side by side in each, hold the cap."""
    plans = backend().plan(sweep(300, parallel=parallel, policy=Policy(pack="2")))
    width = json.loads(files(plans[0])["pack.json"])["width"]
    lanes = sum("behind" not in files(plan) for plan in plans)
    throttle = int(array(plans[0]).partition("%")[2])

    assert 1 <= lanes * throttle * width <= parallel


def test_pack_record() -> None:
    """What an allocation has to know: how wide, how many, how long each and all."""
    need = Resources(time_limit=timedelta(minutes=10), gpus=0.5)
    options = {"partition": "gpu"}
    (plan,) = backend().plan(sweep(9, resources=need, policy=Policy(pack="8"), options=options))

    assert json.loads(files(plan)["pack.json"]) == {
        "format": 1,
        "width": 4,
        "share": 8,
        "gpus": 0.5,
        "time_s": 600,
        "limit_s": 1200,
    }
    assert array(plan) == "0-1"
    assert "#SBATCH --gres=gpu:2\n" in files(plan)["job.sh"]


def test_pack_of_one_is_packed() -> None:
    """A plan says that it is packed even where an allocation has one run."""
    (plan,) = backend().plan(sweep(2, policy=Policy(pack="1")))

    assert "pack.json" in files(plan)
    assert "allocation.sh" in files(plan)["job.sh"]


def test_packed_and_resumed() -> None:
    """A run that shares an allocation cannot be continued by Slurm, and that is said."""
    with pytest.raises(Unsupported, match="`pack:` and `resume:`"):
        backend().plan([job(policy=Policy(pack="2", resume=True))])


def test_names() -> None:
    """A plan is named by its runs and attempts; its job by experiment and plan."""
    first, again = job(experiment="e" * 60), job(experiment="e" * 60, attempt=2)
    plans = [backend().plan([one])[0] for one in (first, again, first)]

    assert plans[0].id == plans[2].id != plans[1].id
    assert f"#SBATCH --job-name={'e' * 40}-{plans[0].id}\n" in files(plans[0])["job.sh"]


def test_planning_is_pure() -> None:
    """The same runs are the same text, whenever they are planned."""
    jobs = sweep(150, parallel=3)

    assert [one.document for one in backend().plan(jobs)] == [
        one.document for one in backend().plan(jobs)
    ]


def test_kept_plan_is_the_same_text(tmp_path: Path) -> None:
    """A plan that waits on this side is sent as it was made, to the last odd byte."""
    texts = ["a\r\nb\rc\n", "\udcff", "ü"]
    jobs = [job(number, command=Script(text)) for number, text in enumerate(texts)]
    plans = backend().plan(jobs)
    keep_plans(tmp_path, plans, target="brc", place={"root": "/bay"})

    assert [kept.plan() for kept in kept_plans(tmp_path, unsent=True)] == plans


STAND_IN = """\
#!/bin/sh
echo "{name} $*" >>{calls}
[ {name} != sbatch ] || cat >/dev/null
[ {name} != sbatch ] || [ ! -s {refusal} ] || {{ cat {refusal} >&2; exit 1; }}
[ {name} != sbatch ] || echo 5
"""


@dataclass
class Desk:
    """Slurm's commands as stand-ins that write down how they were called."""

    folder: Path
    backend: SlurmBackend

    def refuse(self, words: str) -> None:
        """What sbatch says from now on; nothing has it take what it is given."""
        (self.folder / "refusal").write_text(words)

    def calls(self, name: str) -> list[str]:
        """How a command was called so far."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(f"{name} ")]

    def send(self, jobs: list[Job]) -> list[Handle | Refusal]:
        return [answer for plan in self.backend.plan(jobs) for answer in self.backend.submit(plan)]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A backend on this machine whose Slurm takes everything and lists nothing."""
    tools, calls, refusal = (tmp_path / name for name in ("tools", "calls", "refusal"))
    tools.mkdir()
    calls.touch()
    for name in ("sbatch", "squeue", "sacct", "scancel"):
        (tools / name).write_text(STAND_IN.format(name=name, calls=calls, refusal=refusal))
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    root = tmp_path / "root"
    depot = Depot(LocalHost(), root, target="brc", programs="root")
    facts = Facts(seen_at=0.0, details=SITE)
    return Desk(tmp_path, SlurmBackend("brc", SlurmOptions(root=root), depot, facts=facts))


def packed(desk: Desk, **fields: Any) -> list[Handle]:
    answers = desk.send(sweep(9, policy=Policy(pack="2"), **fields))
    return [answer for answer in answers if isinstance(answer, Handle)]


def test_fed_under_the_same_cap(desk: Desk) -> None:
    """What is handed over once more has allocations for what is left, and the plan's throttle."""
    handles = packed(desk, parallel=4)
    seen = desk.backend.poll(handles)
    assert [one.unfed for one in seen.values()] == [True] * 9
    desk.backend.feed(handles[:3])

    first, again = desk.calls("sbatch")
    assert "--array" not in first
    assert again.split()[-1] == "--array=0-1%2"


def test_sent_again_after_a_refusal(desk: Desk) -> None:
    """What Slurm refused is simply sent again; nobody looks for what cannot be there."""
    desk.refuse("sbatch: error: AssocMaxSubmitJobLimit\n")
    refused = desk.send(sweep(3))
    assert [isinstance(one, Refusal) and one.transient for one in refused] == [True] * 3
    desk.refuse("")

    assert [isinstance(one, Handle) for one in desk.send(sweep(3))] == [True] * 3
    assert desk.calls("squeue") == []


def test_looked_for_after_silence(desk: Desk) -> None:
    """What Slurm did not answer about may be there, and is looked for before it is sent again."""
    desk.refuse("sbatch: error: Batch job submission failed: Socket timed out on send/recv\n")
    desk.send(sweep(3))
    desk.refuse("")
    desk.send(sweep(3))

    assert len(desk.calls("squeue")) == 1


def test_cancelled_before_any_allocation_began(desk: Desk) -> None:
    """Packed runs that wait end at once, and their allocations leave the queue with the last."""
    handles = packed(desk)
    desk.backend.cancel(handles[:8])
    assert desk.calls("scancel") == []
    desk.backend.cancel(handles)

    (call,) = desk.calls("scancel")
    assert "--state=PENDING" in call
    seen = desk.backend.poll(handles).values()
    assert {one.state for one in seen} == {State.CANCELLED}
    assert {one.reason for one in seen} == {"cancelled before it started"}


def test_one_look_is_one_squeue(desk: Desk) -> None:
    """However many runs are asked after, Slurm's list is asked for once."""
    handles = packed(desk)
    desk.backend.poll(handles)

    assert len(desk.calls("squeue")) == 1
    assert desk.calls("sacct") == []
