"""What of a job becomes sbatch directives, what a cluster can give, and how runs share it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from launchbay.backends.slurm.facts import parse_survey
from launchbay.backends.slurm.shape import (
    Limits,
    Shape,
    allocation_minutes,
    check,
    limits,
    pack_width,
    render_directives,
    shape_of,
)
from launchbay.core.errors import Unsupported
from launchbay.core.job import Argv, Job, Policy, Resources

DATA = Path(__file__).parent.parent / "data" / "slurm"
SMALL = parse_survey((DATA / "survey-22.05.txt").read_text())
BIG = parse_survey((DATA / "survey-25.05.txt").read_text())


def job(*, options: dict[str, Any] | None = None, policy: Policy | None = None, **need: Any) -> Job:
    return Job(
        run_id="lr-4x7ab",
        name="lr",
        experiment="sweep",
        command=Argv(("true",)),
        resources=Resources(**need),
        options=options or {},
        policy=policy or Policy(),
    )


def directives(shape: Shape, **more: Any) -> list[str]:
    lines = render_directives(shape, name="bay-1", **more)
    assert all(line.startswith("#SBATCH ") for line in lines)
    return [line.removeprefix("#SBATCH ") for line in lines]


def refusal(function: Any, *values: Any, **more: Any) -> tuple[str, str]:
    with pytest.raises(Unsupported) as caught:
        function(*values, **more)
    return str(caught.value), str(caught.value.hint)


def test_a_job_that_asks_for_nothing() -> None:
    """A plain job is one task on one node, never put back into the queue by Slurm."""
    assert directives(shape_of(job())) == [
        "--job-name=bay-1",
        "--nodes=1",
        "--ntasks-per-node=1",
        "--no-requeue",
        "--output=/dev/null",
    ]


def test_every_directive_in_its_order() -> None:
    """All that can be asked for stands once, in one order, the user's own lines last."""
    shape = shape_of(
        job(
            options={
                "partition": ["gpu", "all"],
                "account": "lab",
                "qos": "long",
                "constraint": "fast&ib",
                "reservation": "course",
                "licenses": "matlab:1",
                "exclusive": True,
                "sbatch": ["--mail-type=END", "#SBATCH --nice=5", "hint=nomultithread"],
            },
            policy=Policy(resume=True, grace_s=90.5),
            nodes=2,
            processes=2,
            cpus=7.5,
            gpus=2,
            gpu_types=("a100",),
            extra={"lustre": "1"},
            memory_mib=2048,
            disk_mib=100,
            time_limit=timedelta(days=1, hours=2, seconds=1),
            hosts=("n1",),
            hosts_denied=("n3", "n4"),
        )
    )
    assert directives(shape, comment="bay:abc", array="0-99%8", output="slurm.txt") == [
        "--job-name=bay-1",
        "--comment=bay:abc",
        "--partition=gpu,all",
        "--account=lab",
        "--qos=long",
        "--constraint=fast&ib",
        "--reservation=course",
        "--licenses=matlab:1",
        "--nodelist=n1",
        "--exclude=n3,n4",
        "--nodes=2",
        "--ntasks-per-node=2",
        "--cpus-per-task=4",
        "--exclusive",
        "--gres=gpu:a100:2,lustre:1",
        "--mem=2048M",
        "--tmp=100M",
        "--time=1-02:01:00",
        "--array=0-99%8",
        "--signal=B:USR1@91",
        "--requeue",
        "--open-mode=append",
        "--output=slurm.txt",
        "--mail-type=END",
        "--nice=5",
        "--hint=nomultithread",
    ]


def test_jobs_that_need_the_same_have_one_shape() -> None:
    """Shapes are equal and hashable where resources and options agree, whatever else differs."""
    one = job(gpus=1, options={"partition": "gpu", "sbatch": ["--nice=5"]})
    other = job(gpus=1.0, options={"partition": "gpu", "sbatch": ["#SBATCH --nice=5"]})
    assert len({shape_of(one), shape_of(other)}) == 1
    assert shape_of(one) != shape_of(job(gpus=2, options={"partition": "gpu"}))


def test_the_target_speaks_where_the_job_is_silent() -> None:
    """Options of the target are the default; those of the job win."""
    target = {"partition": "gpu", "account": "lab"}
    shape = shape_of(job(options={"partition": "cpu"}), options=target)
    assert (shape.partition, shape.account) == ("cpu", "lab")


def test_own_lines_replace_ours() -> None:
    """A line under `sbatch:` stands in place of ours, also where sbatch takes only one of two."""
    lines = ["-t 20", "--mem-per-cpu=1G", "--gpus-per-node=a100:2"]
    need: dict[str, Any] = {"time_limit": timedelta(hours=1), "memory_mib": 512, "gpus": 1}
    shape = shape_of(job(options={"sbatch": lines}, **need))
    assert directives(shape)[-3:] == lines
    assert not [line for line in directives(shape)[:-3] if "time" in line or "mem" in line]
    assert not [line for line in directives(shape)[:-3] if "gres" in line]


@pytest.mark.parametrize("line", ["--array=1-9", "-o log", "#SBATCH --requeue", "job-name=x"])
def test_our_own_options_are_refused(line: str) -> None:
    """What finds a run again cannot be changed by hand."""
    message, hint = refusal(shape_of, job(options={"sbatch": [line]}))
    assert message.endswith("is set by launchbay itself")
    assert hint == "leave it out of `sbatch:`"


@pytest.mark.parametrize(
    "options",
    [
        {"partition": "gpu\n#SBATCH --uid=0"},
        {"account": "lab mine"},
        {"qos": "a#b"},
        {"constraint": "'fast'"},
        {"reservation": "x\x07"},
        {"sbatch": ["--nice=5\n--uid=0"]},
        {"sbatch": ["rm -rf /\x1b"]},
        {"sbatch": ["; true"]},
        {"sbatch": {"nice": 5}},
    ],
)
def test_nothing_slips_into_a_directive(options: dict[str, Any]) -> None:
    """A value that would end or split a directive is refused."""
    with pytest.raises(Unsupported):
        shape_of(job(options=options))


def test_a_name_is_checked_when_it_is_rendered() -> None:
    """Names and marks of ours go through the same check."""
    with pytest.raises(Unsupported):
        render_directives(Shape(), name="a\n#SBATCH --uid=0")


@pytest.mark.parametrize(
    ("need", "message"),
    [
        (
            {"cpus": 6, "processes": 4},
            "6 CPUs of a node cannot be shared by 4 processes; 4 or 8 can",
        ),
        (
            {"cpus": 4, "gpus": 1, "processes": 2},
            "1 GPU of a node cannot be shared by 2 processes; 2 can",
        ),
        (
            {"gpus": 5, "processes": 2},
            "5 GPUs of a node cannot be shared by 2 processes; 4 or 6 can",
        ),
    ],
)
def test_processes_share_evenly(need: dict[str, Any], message: str) -> None:
    """CPUs and GPUs of a node are divided among its processes; the nearest that can are named."""
    assert refusal(shape_of, job(**need))[0] == message


def test_a_fraction_of_a_gpu_needs_company() -> None:
    """Slurm gives whole GPUs; runs that share one share an allocation."""
    message, hint = refusal(shape_of, job(gpus=0.5))
    assert message == "Slurm gives whole GPUs, and `lr-4x7ab` wants 0.5"
    assert "`pack:`" in hint


def test_an_allocation_is_as_wide_as_its_runs() -> None:
    """What runs side by side is asked for together."""
    policy = Policy(pack="20")
    need = job(policy=policy, cpus=1.5, gpus=0.5, memory_mib=1000, disk_mib=10)
    shape = shape_of(need, 5)
    assert (shape.cpus, shape.gpus, shape.memory_mib, shape.disk_mib) == (8, 3, 5000, 50)
    assert shape_of(job(policy=policy), 4).cpus == 4
    assert shape_of(job(policy=policy, gpus=2), 3).gpus == 6


def test_the_allocation_time_replaces_that_of_a_run() -> None:
    """An allocation that many runs share has a limit of its own."""
    shape = shape_of(job(time_limit=timedelta(minutes=10)))
    assert "--time=0-00:50:00" in directives(shape, minutes=50)


@pytest.mark.parametrize(
    ("types", "details", "found"),
    [
        (("A100",), SMALL, "a100"),
        (("h100", "a100"), SMALL, "a100"),
        (("h100", "a100"), BIG, "h100"),
        (("v100",), None, "v100"),
        ((), BIG, ""),
    ],
)
def test_one_type_of_gpu_is_chosen(
    types: tuple[str, ...], details: dict[str, Any] | None, found: str
) -> None:
    """Of the types that would do, the first that the partition has is asked for."""
    need = job(options={"partition": "gpu"}, gpus=1, gpu_types=types)
    assert shape_of(need, details=details).gpu_type == found


def test_gpu_types_that_cannot_be_asked_for() -> None:
    """Several types without facts, none that is there, or types to leave out, are refused."""
    where: dict[str, Any] = {"options": {"partition": "gpu"}, "gpus": 1}
    message, hint = refusal(shape_of, job(**where, gpu_types=("v100", "t4")), details=BIG)
    assert message == "there are no GPUs of type v100 or t4 here"
    assert hint == "there are `a100`, `h100`"
    message, hint = refusal(shape_of, job(**where, gpu_types=("a100", "h100")))
    assert message == "Slurm can be asked for one type of GPU, not for a100 or h100"
    message, hint = refusal(shape_of, job(**where, gpu_types_denied=("t4",)), details=BIG)
    assert message == "Slurm cannot leave out GPUs of type t4"
    assert hint.startswith("name the one that you want with `gpu_type:`; there are `a100`")


def test_one_of_several_hosts_leaves_out_all_others() -> None:
    """Slurm takes every host it is given, so a choice among hosts excludes the rest."""
    need = job(options={"partition": "all"}, hosts=("n1", "n3"), hosts_denied=("n9",))
    shape = shape_of(need, details=SMALL)
    assert (shape.hosts, shape.hosts_denied) == ((), ("n2", "n4", "n9"))
    message, hint = refusal(shape_of, need)
    assert message == "Slurm cannot choose 1 of the hosts n1, n3"
    assert "`bay doctor`" in hint


@pytest.mark.parametrize(
    ("shape", "message", "hint"),
    [
        (Shape(partition="gpo"), "there is no partition `gpo`", "did you mean `gpu`?"),
        (Shape(account="labb"), "account `labb` is not yours", "did you mean `lab`?"),
        (Shape(qos="express"), "QoS `express` is not yours", "`long`, `normal`"),
        (
            Shape(partition="gpu", minutes=180),
            "`gpu` lets a job run for at most 2h, not for 3h",
            "ask for `--time 2h`",
        ),
        (
            Shape(partition="all", qos="long", minutes=1440 + 60),
            "`all` lets a job run for at most 1d, not for 25h",
            "ask for `--time 1d`",
        ),
        (
            Shape(partition="cpu", qos="long", minutes=1440 + 60),
            "QoS `long` lets a job run for at most 1d, not for 25h",
            "ask for `--time 1d`",
        ),
        (
            Shape(partition="gpu", processes=3, cpus=6),
            "a node of `gpu` has at most 4 CPUs, not 6",
            "ask for at most `--cpus 3`",
        ),
        (
            Shape(partition="gpu", processes=8),
            "a node of `gpu` has at most 4 CPUs, not 8",
            "run 4 processes or fewer",
        ),
        (
            Shape(partition="gpu", memory_mib=8192),
            "a node of `gpu` has at most 4000M of memory, not 8G",
            "ask for at most `--memory 4000M`",
        ),
        (
            Shape(partition="gpu", gpus=3),
            "a node of `gpu` has at most 2 GPUs, not 3; it has 2 a100",
            "ask for at most `--gpus 2`",
        ),
        (
            Shape(partition="gpu", gpus=1, gpu_type="h100"),
            "a node of `gpu` has at most 0 h100 GPUs, not 1; it has 2 a100",
            "choose another `partition:`",
        ),
        (
            Shape(gpus=1),
            "a node of `cpu` has at most 0 GPUs, not 1; it has none",
            "choose another `partition:`",
        ),
        (
            Shape(partition="gpu", nodes=3),
            "a job in `gpu` can have at most 2 such nodes, not 3",
            "ask for at most `--nodes 2`",
        ),
        (
            Shape(partition="all", nodes=4),
            "a job in `all` can have at most 3 such nodes, not 4",
            "ask for at most `--nodes 3`",
        ),
        (
            Shape(partition="all", nodes=3, gpus=1),
            "a job in `all` can have at most 2 such nodes, not 3",
            "ask for at most `--nodes 2`",
        ),
        (
            Shape(partition="all", gpus=1, constraint="slow"),
            "no node of `all` has 1 GPUs, feature `slow` together",
            "2 nodes of 4 CPUs, 4000M, 2 a100, fast/ib",
        ),
    ],
)
def test_what_the_cluster_cannot_give(shape: Shape, message: str, hint: str) -> None:
    """Each thing that is not there is refused before it is sent, naming the nearest that is."""
    found = refusal(check, shape, SMALL)
    assert found[0] == message
    assert hint in found[1]


def test_who_may_enter_a_partition() -> None:
    """A partition that takes certain accounts and QoS only is checked for both."""
    assert refusal(check, Shape(partition="gpu", account="guests"), BIG)[0] == (
        "partition `gpu` takes no jobs of account `guests`; it takes lab, vision"
    )
    assert refusal(check, Shape(account="guests"), BIG)[0] == (
        "partition `scavenge` takes no jobs of account `guests`"
    )
    assert refusal(check, Shape(partition="gpu", qos="normal"), BIG) == (
        "partition `gpu` takes no jobs of QoS `normal`",
        "there are: `gpu`, `long`",
    )


@pytest.mark.parametrize(
    ("shape", "details"),
    [
        (Shape(partition="nowhere", cpus=4000, minutes=10**6), None),
        (Shape(partition="nowhere", cpus=4000, minutes=10**6), {}),
        (Shape(partition="gpu", nodes=2, cpus=4, gpus=2, gpu_type="a100", minutes=120), SMALL),
        (Shape(partition="gpu,all", minutes=600), SMALL),
        (Shape(partition="gpu", constraint="[a100|h100]", qos="long", account="lab"), BIG),
    ],
)
def test_what_fits_is_let_through(shape: Shape, details: dict[str, Any] | None) -> None:
    """Without facts nothing is checked; one partition of several is enough."""
    check(shape, details)
    assert directives(shape)


@pytest.mark.parametrize(
    ("details", "found"),
    [
        (None, Limits(array=1000)),
        ({}, Limits(array=1000)),
        (SMALL, Limits(array=101, submit=500)),
        (BIG, Limits(array=100, submit=400)),
        ({"max_array": 0}, Limits(array=1)),
        ({"max_array": 5001, "max_jobs": 10000}, Limits(array=2500)),
    ],
)
def test_how_large_an_array_may_be(details: dict[str, Any] | None, found: Limits) -> None:
    """The largest array is bounded by Slurm's own limit and a quarter of what may be sent."""
    assert limits(details) == found


def test_limits_of_a_qos_that_is_named() -> None:
    """The limits of the account and QoS that a job names are those that count."""
    assert limits(BIG, qos="long") == Limits(array=2, submit=10)
    assert limits(BIG, account="guests", qos="normal") == Limits(array=2, submit=10)


@pytest.mark.parametrize(
    ("need", "pack", "partition", "found"),
    [
        ({}, "20", "gpu", (4, 20)),
        ({"cpus": 2}, "20", "gpu", (2, 20)),
        ({"cpus": 1}, "3", "gpu", (3, 3)),
        ({"memory_mib": 1500}, "20", "gpu", (2, 20)),
        ({"gpus": 1}, "20", "gpu", (2, 20)),
        ({"gpus": 0.5}, "20", "gpu", (4, 20)),
        ({"gpus": 0.5}, "node", "gpu", (4, 4)),
        ({"cpus": 0.5}, "node", "", (8, 8)),
        ({"cpus": 64}, "20", "gpu", (1, 20)),
    ],
)
def test_how_many_runs_share_an_allocation(
    need: dict[str, Any], pack: str, partition: str, found: tuple[int, int]
) -> None:
    """As many runs go side by side as one node holds, by CPUs, memory and GPUs."""
    assert pack_width(job(**need), pack, SMALL, partition=partition) == found


def test_the_commonest_node_that_holds_a_run_is_filled() -> None:
    """In a mixed partition the width is that of the nodes there are most of, within its caps."""
    assert pack_width(job(cpus=4), "node", BIG) == (8, 8)
    assert pack_width(job(cpus=4), "node", BIG, partition="gpu") == (16, 16)
    assert pack_width(job(cpus=4, gpus=1), "node", BIG) == (4, 4)
    assert pack_width(job(cpus=4, gpus=1, gpu_types=("h100",)), "node", BIG) == (6, 6)


def test_packing_without_facts() -> None:
    """Without facts runs follow one another, and the size of a node is unknown."""
    assert pack_width(job(), "20", None) == (1, 20)
    message, hint = refusal(pack_width, job(), "node", None)
    assert message == "`pack: node` needs to know how large a node is"
    assert "`bay doctor`" in hint


@pytest.mark.parametrize(
    ("need", "pack"), [({"nodes": 2}, "4"), ({"processes": 2}, "4"), ({}, "many"), ({}, "0")]
)
def test_what_cannot_be_packed(need: dict[str, Any], pack: str) -> None:
    """Runs of several nodes or processes have an allocation of their own."""
    with pytest.raises(Unsupported):
        pack_width(job(**need), pack, SMALL)


@pytest.mark.parametrize(
    ("minutes", "runs", "width", "most", "found"),
    [
        (10, 20, 4, None, 50),
        (10, 21, 4, None, 60),
        (10, 20, 4, 30, 30),
        (10, 3, 4, 30, 10),
        (None, 20, 4, 30, None),
    ],
)
def test_how_long_an_allocation_is(
    minutes: int | None, runs: int, width: int, most: int | None, found: int | None
) -> None:
    """Runs that follow one another add up, as far as the partition allows."""
    assert allocation_minutes(minutes, runs, width, most) == found
