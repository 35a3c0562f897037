"""Keys for Slurm and for machines elsewhere: what they are read as, and what they reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.config.conftest import recipes, refusal

from launchbay.config.configuration import choose_target
from launchbay.core.job import Policy, Resources
from launchbay.core.python import Python

if TYPE_CHECKING:
    from tests.config.conftest import Project

SLURM = "command: x\ntargets: {lab: {kind: slurm, host: lab, root: ~/bay}}\n"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("partition: gpu,big", {"partition": "gpu,big"}),
        ("account: lab", {"account": "lab"}),
        ("qos: 1", {"qos": "1"}),
        ("constraint: a100&nvlink", {"constraint": "a100&nvlink"}),
        ("reservation: r", {"reservation": "r"}),
        ("exclusive: yes", {"exclusive": True}),
        ("exclusive: False", {"exclusive": False}),
        ("licenses: matlab:1", {"licenses": "matlab:1"}),
        ("sbatch: --mail-type=END", {"sbatch": ("--mail-type=END",)}),
        ("sbatch: ['#SBATCH --mail-type=END', ' -H ']", {"sbatch": ("--mail-type=END", "-H")}),
        ("sbatch: |\n  #SBATCH -H\n\n  --x=1\n", {"sbatch": ("-H", "--x=1")}),
        ("sbatch: []", {"sbatch": ()}),
        ("launcher: mpirun -n 4", {"launcher": "mpirun -n 4"}),
        ("binds: /data:/data:ro", {"binds": ("/data:/data:ro",)}),
        ("binds: [~/a:/a, $SCRATCH:/b:rw]", {"binds": ("~/a:/a", "$SCRATCH:/b:rw")}),
        ("container: singularity", {"container": "singularity"}),
    ],
)
def test_options(project: Project, text: str, options: dict[str, Any]) -> None:
    """What only Slurm understands reaches a run under its own name, on any target."""
    for target in ("lab", "local"):
        (recipe,) = recipes(project.build(f"{SLURM}{text}\n", target=target))

        assert recipe.options == options


@pytest.mark.parametrize(
    ("text", "resources"),
    [
        ("processes: 4", Resources(processes=4)),
        ("ntasks_per_node: 4", Resources(processes=4)),
        ("nodelist: [a, b]", Resources(hosts=("a", "b"))),
        ("exclude_nodes: a", Resources(hosts_denied=("a",))),
    ],
)
def test_words_of_slurm(project: Project, text: str, resources: Resources) -> None:
    """What is no matter of Slurm alone may be written in its words too."""
    (recipe,) = recipes(project.build(f"{SLURM}{text}\n", target="lab"))

    assert (recipe.resources, recipe.options) == (resources, {})


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("pack: 020", Policy(pack="20")),
        ("pack: node", Policy(pack="node")),
        ("retries: 0", Policy()),
        ("retries: 3", Policy(retries={"preempted": 3, "node": 3, "lost": 3})),
        (
            "retries: {timeout: 1, any: 0, 'CUDA error|NCCL': 2}",
            Policy(retries={"timeout": 1, "any": 0, "CUDA error|NCCL": 2}),
        ),
        (
            "retries: 'node=2, a{1,2}=x=3,CUDA error=1'",
            Policy(retries={"node": 2, "a{1,2}=x": 3, "CUDA error": 1}),
        ),
        ("resume: on", Policy(resume=True)),
        ("grace: 5", Policy(grace_s=300)),
        ("grace: 90s", Policy(grace_s=90)),
    ],
)
def test_policies(project: Project, text: str, policy: Policy) -> None:
    """What is to be done about a run reaches it as its policy."""
    (recipe,) = recipes(project.build(f"command: x\n{text}\n"))

    assert recipe.policy == policy


def test_policies_by_placeholder(project: Project) -> None:
    """A parameter may decide a policy; every value of it is looked at before anything is sent."""
    text = "command: x\nparams: {n: [%s]}\nretries: {exit: <n>}\n"
    found = recipes(project.build(text % "1, 2"))

    assert [one.policy.retries for one in found] == [{"exit": 1}, {"exit": 2}]
    assert refusal(lambda: project.build(text % "1, some"))[0] == (
        "bay.yaml:3:1: retries: `some` is no number of further tries"
    )


def test_no_parameter_sets_a_policy(project: Project) -> None:
    """A policy is no resource, so no parameter is taken for one."""
    said, hint = refusal(lambda: project.build("command: x\nparams: {resources.pack: [1, 2]}"))

    assert said == "bay.yaml:2:10: params.resources.pack: there is no resource `pack`"
    assert hint is not None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("pack: 0", "`0` is no number of runs that share an allocation", "write `20` or `node`"),
        ("pack: 1.5", "`1.5` is no number of runs that share an allocation", None),
        ("retries: -1", "`-1` is no number of further tries", None),
        ("retries: exit", "`exit` is no number of further tries", None),
        ("retries: 'exit=1,'", "`exit=1,` is no number of further tries", None),
        ("retries: {exit: }", "what stands behind `exit` is no number of further tries", None),
        ("retries: {' ': 1}", "an empty pattern, which every log has", None),
        ("retries: {'(': 1}", "`(` is no regular expression", None),
        ("retries: [1]", "neither a number nor a mapping", None),
        ("resume: perhaps", "`perhaps` is neither yes nor no", "write `true` or `false`"),
        ("resume: [yes]", "must be one value, not a list", None),
        ("grace: soon", "`soon` is no span of time", None),
        ("exclusive: user", "`user` is neither yes nor no", None),
        ("partition: ''", "an empty value", None),
        ('account: "a\\nb"', "more than one line, or signs that cannot be seen", "write one line"),
        ("sbatch: mail-type=END", "`mail-type=END` is no flag", "write `--mail-type=END`"),
        ("sbatch: [a b]", "`a b` is no flag of `sbatch`", "write `--mail-type=END`"),
        ("sbatch: ''", "`` is no flag of `sbatch`", None),
        ("sbatch:\n  - #SBATCH -H", "what follows a `#` is a comment", None),
        ("sbatch: {a: b}", "must be a list, not a mapping", None),
        ("binds: /data", "`/data` says no folder and its place", None),
        ("binds: /data:data", "`/data:data` says no folder and its place", None),
        ("binds: '/a:/a,/b:/b'", "`/a:/a,/b:/b` says no folder and its place", None),
        ("container: aptainer", "`aptainer` starts no containers", "did you mean `apptainer`?"),
        ("processes: 0", "`0` is no whole number of at least 1", None),
        ("nodelist: a\nexclude_nodes: b", "`nodelist` and `exclude_nodes` are both set", None),
    ],
)
def test_what_cannot_be(project: Project, text: str, message: str, hint: str | None) -> None:
    """What cannot be is refused at its line, with what to write."""
    said, told = refusal(lambda: project.build(f"command: x\n{text}\n"))

    assert said.startswith("bay.yaml:")
    assert message in said
    assert told is not None
    assert hint is None or told.startswith(hint)


@pytest.mark.parametrize("host", ["box", "me@box", "lab.example.org", "me@10.0.0.1"])
def test_host(project: Project, host: str) -> None:
    """A machine may be elsewhere; the folder of its runs is read there, not here."""
    project.file(f"command: x\ntargets: {{t: {{kind: machine, host: {host}, root: ~/bay}}}}")
    target = choose_target("t", project.config())

    assert (target.kind, target.options) == ("machine", {"host": host, "root": "~/bay"})


@pytest.mark.parametrize("host", ["me at box", "-oProxyCommand=x", "''", '"a\\tb"'])
def test_no_host(project: Project, host: str) -> None:
    """What `ssh` would take for something else is no host."""
    said, hint = refusal(lambda: project.file(f"command: x\ntargets: {{t: {{host: {host}}}}}"))

    assert said.startswith("bay.yaml:2:15: targets.t.host: `")
    assert hint == "write `me@box`, or a name of your ssh configuration"


def test_how_often_to_look(project: Project) -> None:
    """How often a Slurm is asked is in seconds for its backend."""
    project.file("command: x\ntargets: {t: {kind: slurm, look_every: 1m30s}}")

    assert choose_target("t", project.config()).options == {"look_every": 90.0}
    assert refusal(lambda: project.file("command: x\ntargets: {t: {look_every: 9999999999d}}")) == (
        "bay.yaml:2:15: targets.t.look_every: `9999999999d` is too large",
        "write less",
    )


ELSEWHERE = ("{kind: machine, host: box}", "{kind: slurm}", "{kind: slurm, host: lab}")


@pytest.mark.parametrize("entry", ELSEWHERE)
@pytest.mark.parametrize(
    ("files", "text", "python"),
    [
        ([], "", None),
        (["requirements.txt"], "", Python("requirements", "requirements.txt")),
        (
            ["requirements.txt", "environment.yml"],
            "",
            Python("environment", "environment.yml"),
        ),
        (["requirements.txt", "environment.yml", "uv.lock"], "", Python("uv", "uv.lock")),
        (["uv.lock"], "python: none", None),
        (["uv.lock"], "python: conda:a", Python("conda", "a")),
        (["uv.lock"], "image: i", None),
        (["uv.lock"], "image: i\npython: uv", Python("uv", "uv.lock")),
    ],
)
def test_python_elsewhere(
    project: Project, entry: str, files: list[str], text: str, *, python: Python | None
) -> None:
    """Elsewhere a run enters what the project's lock files say, unless it has an image."""
    for name in files:
        project.write(name, "")
    written = f"command: x\ntargets: {{t: {entry}}}\n{text}\n"
    (recipe,) = recipes(project.build(written, target="t", folder=project.folder))

    assert recipe.python == python


@pytest.mark.parametrize("entry", ["{kind: machine}", "{}"])
def test_python_here(project: Project, entry: str) -> None:
    """On this machine a run has the environment of the shell, whatever lies in the project."""
    project.write("uv.lock", "")
    written = f"command: x\ntargets: {{local: {entry}}}\n"
    (recipe,) = recipes(project.build(written, folder=project.folder))

    assert recipe.python is None
