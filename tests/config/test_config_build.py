"""From the shape of the files to an experiment and its target."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.config.conftest import points, refusal

from launchbay.config.build import (
    parse_flag,
    surround,
    typed_experiment,
    with_policy,
    with_resources,
)
from launchbay.config.configuration import (
    Configuration,
    choose_target,
    default_target,
    load_user_config,
    resolve_targets,
)
from launchbay.config.schema import Target, UserConfig
from launchbay.core.errors import BadRequest, ConfigError
from launchbay.core.job import Argv, Policy, Recipe, Resources, Script
from launchbay.core.sweep import Branch, Experiment, Grid, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.config.conftest import Project

SIMPLE = """\
command: python train.py --lr <lr> --seed <seed>
params:
  lr: [0.1, 1e-5]
  seed: 0..2
"""
FULL = """\
project: demo
name: first
command: echo <x>
params: {x: a}
prefix: me
gpus: 0.5
gpu_type: [a100]
cpus: 2
memory: 4
disk: 1
time: 8h
nodes: 2
hostname_whitelist: [n1, n2]
extra: {licence: 1}
image: python:3.12
modules: [cuda]
volumes: {data: /data}
parallel: 3
target: desk
env: {A: '1'}
setup: [one, two]
outputs: [runs]
metrics: {acc: 'acc=(.)'}
code: ['../lib:lib']
"""


def comparable(experiment: Experiment) -> Experiment:
    """The experiment with what can be compared of it: recipes are functions."""
    branches = tuple(replace(branch, recipe=KEPT) for branch in experiment.branches)
    return replace(experiment, branches=branches)


def KEPT(_: object) -> Recipe:  # noqa: N802
    """In the place of every recipe."""
    return Recipe()


def test_simple_experiment(project: Project) -> None:
    """Two keys make a sweep, named for the project."""
    experiment = project.build(SIMPLE)
    (branch,) = experiment.branches

    assert (experiment.name, experiment.project) == ("demo", "demo")
    assert branch.command == Script("python train.py --lr <lr> --seed <seed>")
    assert (len(branch.grid), branch.grid[3]) == (6, {"lr": "1e-5", "seed": "0"})
    assert (experiment.append, experiment.always, experiment.warnings) == ("", False, ())
    assert isinstance(branch.grid.values_of("seed"), Span)


def test_full_experiment(project: Project) -> None:
    """Every key of a file reaches the experiment."""
    experiment = project.build(FULL)

    assert comparable(experiment) == Experiment(
        name="first",
        project="demo",
        prefix="me",
        branches=(
            Branch(
                command=Script("echo <x>"),
                written="echo <x>\0python:3.12",
                grid=Grid.of({"x": ("a",)}),
                recipe=KEPT,
            ),
        ),
        target="desk",
        parallel=3,
        outputs=("runs",),
        metrics={"acc": "acc=(.)"},
        code=(("../lib", "lib"),),
    )
    assert experiment.branches[0].recipe({"x": "a"}) == Recipe(
        resources=Resources(
            nodes=2,
            cpus=2,
            gpus=0.5,
            gpu_types=("a100",),
            memory_mib=4096,
            disk_mib=1024,
            time_limit=timedelta(hours=8),
            hosts=("n1", "n2"),
            extra={"licence": "1"},
        ),
        env={"A": "1"},
        image="python:3.12",
        modules=("cuda",),
        setup="one\ntwo",
        options={"volumes": {"data": "/data"}},
    )


def test_name_of_a_named_project(project: Project) -> None:
    """An experiment without a name has that of its project."""
    experiment = project.build("project: own\ncommand: x")

    assert (experiment.name, experiment.project) == ("own", "own")


def test_override(project: Project) -> None:
    """Typed values replace those of the file, in its order."""
    experiment = project.build(SIMPLE, {"lr": ["3"]})

    assert points(experiment) == [{"lr": "3", "seed": seed} for seed in ("0", "1", "2")]


@pytest.mark.parametrize(
    ("overrides", "message", "hint"),
    [
        ({"seeds": ["1"]}, "`seeds` is no parameter of bay.yaml", "did you mean `seed`?"),
        ({"x": ["1"]}, "`x` is no parameter of bay.yaml", "there are: `lr`, `seed`"),
        ({"lr": []}, "`lr` has no values", "write `lr=VALUE`"),
        (
            {"lr": Span(1, 10**18), "seed": Span(1, 10**18)},
            "the parameters have more combinations than can be counted",
            "give some of them fewer values",
        ),
        (
            {"lr": Span(1, 10**30)},
            "the parameters have more combinations than can be counted",
            "give some of them fewer values",
        ),
    ],
)
def test_bad_override(
    project: Project, overrides: dict[str, Sequence[str]], message: str, hint: str
) -> None:
    """An override must name a parameter of the file and give it values."""
    assert refusal(lambda: project.build(SIMPLE, overrides), BadRequest) == (message, hint)


@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        (
            "echo <lrr>",
            "bay.yaml:3:1: command: `<lrr>` is no parameter",
            "did you mean `<lr>`? Or write `\\<lrr>` for that very text",
        ),
        (
            "echo `<lr>`",
            "bay.yaml:3:1: command: `<lr>` stands in backquotes, where no quoting is right",
            "write `$(…)` in place of the backquotes",
        ),
    ],
)
def test_bad_placeholder(project: Project, command: str, message: str, hint: str) -> None:
    """A placeholder that cannot be filled is an error at the line of the command."""
    text = f"# one\nparams: {{lr: 1}}\ncommand: {command}\n"

    assert refusal(lambda: project.build(text)) == (message, hint)


@pytest.mark.parametrize("command", ["echo", "echo <repeat>", r"echo \<lrr>"])
def test_good_placeholders(project: Project, command: str) -> None:
    """A parameter may be unused; `<repeat>` comes with a flag; an escaped one is text."""
    (branch,) = project.build(f"params: {{lr: 1}}\ncommand: {command}\n").branches

    assert branch.command == Script(command)


@pytest.mark.parametrize(
    ("words", "command", "name"),
    [
        (["python", "src/train.py", "--x"], ["python", "src/train.py", "--x"], "train"),
        (["src/train.py", "--x"], ["python", "src/train.py", "--x"], "train"),
        (["bash", "-e", "go.sh"], ["bash", "-e", "go.sh"], "go"),
        (["/usr/bin/env", "A=1"], ["/usr/bin/env", "A=1"], "env"),
        (["python", "-m", "pkg.main"], ["python", "-m", "pkg.main"], "python"),
    ],
)
def test_typed_command(words: list[str], command: list[str], name: str) -> None:
    """A typed command runs verbatim each time, python in front of a script, named for it."""
    experiment = typed_experiment(words, {}, project_name="demo", subfolder="a")

    assert comparable(experiment) == Experiment(
        name=name,
        project="demo",
        branches=(Branch(command=Argv(tuple(command)), recipe=KEPT),),
        append="--",
        subfolder="a",
        always=True,
    )


def test_typed_parameters() -> None:
    """Typed parameters make a grid that runs once."""
    experiment = typed_experiment(
        ["train.py"], {"lr": ("1", "2")}, project_name="demo", style="hydra"
    )

    assert experiment.branches[0].grid == Grid.of({"lr": ("1", "2")})
    assert (experiment.append, experiment.always) == ("=", False)


def test_typed_hidden_parameters() -> None:
    """A typed key that begins with `_` is left out of names, and is found without it."""
    experiment = typed_experiment(["x"], {"_fn": ["a", "b"]}, project_name="demo")
    (branch,) = experiment.branches

    assert (branch.grid.keys, set(branch.hidden), branch.ambiguous) == (("fn",), {"fn"}, True)


def test_typed_surroundings(project: Project) -> None:
    """A typed command is given what flags and the target say, not what the file's root does."""
    project.write("bay.yaml", "command: x\ncpus: 9\ntargets: {local: {memory: 1}}\n")
    config = project.config()
    around = surround(
        config,
        ("local", choose_target("local", config)),
        flags={"gpus": "2", "parallel": "3"},
        env={"A": "1"},
        root=False,
    )
    experiment = typed_experiment(["x"], {}, around, project_name="demo")

    assert experiment.branches[0].recipe({}) == Recipe(
        resources=Resources(gpus=2, memory_mib=1024), env={"A": "1"}
    )


@pytest.mark.parametrize(
    ("words", "params", "message", "hint"),
    [
        ([], {}, "no command given", "write it last: `bay run lr=0.1 python train.py`"),
        (
            ["x"],
            {"1x": ["1"]},
            "`1x` is no name of a parameter",
            "use letters, digits, `_`, `-` and `.`, a letter first",
        ),
        (["x"], {"lr": []}, "`lr` has no values", "write `lr=VALUE`"),
        (
            ["x"],
            {"lr": Span(1, 10**30)},
            "the parameters have more combinations than can be counted",
            "give some of them fewer values",
        ),
    ],
)
def test_bad_typed(
    words: list[str], params: dict[str, Sequence[str]], message: str, hint: str
) -> None:
    """A typed experiment needs a command, and parameters with names and values."""
    assert refusal(lambda: typed_experiment(words, params, project_name="x"), BadRequest) == (
        message,
        hint,
    )


FAR_HINT = (
    "take it out; there are `kind`, `host`, `root`, `parallel`, `devices`, `profiles`, "
    "`endpoints` and more"
)
RETRIES_FIX = "write `2`, or by cause `{timeout: 1, exit: 2}`, as a flag `timeout=1,exit=2`"
FLAGS = {
    "gpus": "2",
    "gpu_type": "a100,h100",
    "cpus": "4",
    "memory": "512M",
    "disk": "0",
    "time": "90m",
    "nodes": "2",
    "processes": "3",
    "image": "i",
    "parallel": "3",
    "pack": "node",
    "retries": "1",
    "resume": "true",
    "grace": "30s",
    "hold": "30m",
}
HANDLED = Policy(
    pack="node",
    retries={"preempted": 1, "node": 1, "lost": 1},
    resume=True,
    grace_s=30,
    hold_s=1800,
)
TYPED = Resources(
    nodes=2,
    processes=3,
    cpus=4,
    gpus=2,
    gpu_types=("a100", "h100"),
    memory_mib=512,
    disk_mib=0,
    time_limit=timedelta(minutes=90),
)


def test_flags(project: Project) -> None:
    """Flags replace every resource and policy."""
    text = "command: x\ncpus: 1\nimage: j\npack: 2\nretries: 9\nresume: no\ngrace: 1h\n"
    (branch,) = project.build(text, flags=FLAGS).branches

    assert branch.recipe({}) == Recipe(resources=TYPED, image="i", policy=HANDLED)


def test_flags_over_resources() -> None:
    """Flags replace the resources of a run that was made before, and leave the others."""
    before = Resources(gpus=1, hosts=("a",))

    assert with_resources(before, FLAGS) == replace(TYPED, hosts=("a",))
    assert with_resources(before, {}) == before


def test_flags_over_a_policy() -> None:
    """Flags go over the policy of a run that was made before; causes merge, a number replaces."""
    before = Policy(pack="3", retries={"exit": 1, "oom": 1}, grace_s=5)
    merged = with_policy(before, {"retries": "exit=2,lost=1", "gpus": "1"})

    assert with_policy(before, FLAGS) == HANDLED
    assert merged == replace(before, retries={"exit": 2, "oom": 1, "lost": 1})
    assert with_policy(before, {"retries": "0"}) == replace(before, retries={})
    assert with_policy(before, {}) == before


def test_no_profile_of_an_earlier_run() -> None:
    """A run that was made before has no profile to choose: what should change is named itself."""
    assert refusal(lambda: with_resources(Resources(), {"profile": "gpu"}), BadRequest) == (
        "--profile: an earlier run has what its profile gave it",
        "name what should change: `--time 8h`",
    )


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (
            {"gpus": "1.5"},
            "--gpus: `1.5` is no number of GPUs; write 0, 2, or a fraction below 1",
            None,
        ),
        (
            {"gpu_type": ""},
            "--gpu-type: `` is no name of a GPU; write `a100` or `a100,h100`",
            None,
        ),
        (
            {"parallel": "0"},
            "--parallel: `0` is no whole number of at least 1; write `1` or more",
            None,
        ),
        (
            {"retries": "many"},
            f"--retries: `many` is no number of further tries; {RETRIES_FIX}",
            None,
        ),
        (
            {"resume": "maybe"},
            "--resume: `maybe` is neither yes nor no; write `true` or `false`",
            None,
        ),
        ({"gpu": "1"}, "`gpu` is no resource", "did you mean `gpus`?"),
    ],
)
def test_bad_flag(project: Project, flags: dict[str, str], message: str, hint: str | None) -> None:
    """A bad flag is named, wherever it is given."""
    project.write("bay.yaml", "command: x")
    ((key, text),) = flags.items()

    for action in (
        lambda: parse_flag(key, text),
        lambda: with_resources(Resources(), flags),
        lambda: project.build(flags=flags),
    ):
        assert refusal(action, BadRequest) == (message, hint)


def test_local_always_exists() -> None:
    """Without any file there is this computer."""
    config = Configuration(user=UserConfig())
    targets = resolve_targets(config)

    assert {name: target.kind for name, target in targets.items()} == {"local": "machine"}
    assert default_target(config) == "local"


def test_no_user_config(project: Project) -> None:
    """A missing configuration is an empty one; what is no file is an error."""
    assert load_user_config(project.folder / "none.yaml") == UserConfig()
    assert refusal(lambda: load_user_config(project.folder), ConfigError) == (
        ".: a folder, not a file",
        "name the file inside it",
    )


def test_targets_merge(project: Project) -> None:
    """The project's entries are merged over the user's key by key; maps merge, lists replace."""
    project.user(
        "targets:\n"
        "  desk: {kind: other, partition: gpu, list: [a, b], env: {A: '1', B: '1'}, cpus: 1}\n"
        "  local: {parallel: 2}\n"
    )
    project.file(
        "command: x\n"
        "targets:\n"
        "  desk: {partition: big, list: [c], env: {B: '2'}}\n"
        "  local: {devices: 1}\n"
        "  new: {kind: machine}\n"
    )
    targets = resolve_targets(project.config())

    assert {name: (target.kind, target.options) for name, target in targets.items()} == {
        "local": ("machine", {"parallel": 2, "devices": "1"}),
        "desk": (
            "other",
            {
                "partition": "big",
                "list": ["c"],
                "env": {"A": "1", "B": "2"},
                "cpus": 1.0,
            },
        ),
        "new": ("machine", {}),
    }


def test_default_target(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file's target counts first, then the variable, then the one in use."""
    mine = project.user("use: c")
    files = (project.file("command: x\ntarget: a"), project.file("command: x"), None)
    configs = [Configuration(file=file, user=mine) for file in files]

    assert [default_target(config) for config in configs] == ["a", "c", "c"]

    monkeypatch.setenv("BAY_DEFAULT_TARGET", "b")

    assert [default_target(config) for config in configs] == ["a", "b", "b"]


def test_chosen_target(project: Project) -> None:
    """A target that can work is given, whatever is wrong with others."""
    project.user("targets:\n  box: {parallel: 2}\n  desk: {kind: machine}\n")
    project.file("command: x")
    target = choose_target("desk", project.config())

    assert (target.kind, target.options) == ("machine", {})


@pytest.mark.parametrize(
    ("mine", "entry", "message", "hint"),
    [
        (
            "{kind: machine}",
            "{colour: x}",
            "bay.yaml:2:17: targets.box.colour: unknown key",
            FAR_HINT,
        ),
        (
            "{kind: machine}",
            "{partition: x}",
            "bay.yaml:2:17: targets.box.partition: a machine has no such key",
            "take it out: only a cluster's target has it",
        ),
        (
            "{look_every: 1m}",
            "{kind: machine}",
            "user.yaml:1:17: targets.box.look_every: a machine has no such key",
            "take it out: only a cluster's target has it",
        ),
        (
            "{profiles: {gpu: {qos: x}}}",
            "{kind: machine}",
            "user.yaml:1:34: targets.box.profiles.gpu.qos: a machine has no such key",
            "take it out: only a cluster's target has it",
        ),
        (
            "{kind: slurm}",
            "{devices: 2}",
            "bay.yaml:2:17: targets.box.devices: a Slurm target has no such key",
            "take it out: a cluster gives each run its GPUs",
        ),
        (
            "{volumes: {a: /a}}",
            "{kind: slurm}",
            "user.yaml:1:17: targets.box.volumes: a Slurm target has no such key",
            "take it out: only a Kubernetes target has it",
        ),
        (
            "{kind: slurm}",
            "{partitoin: x}",
            "bay.yaml:2:17: targets.box.partitoin: unknown key",
            "did you mean `partition`?",
        ),
        (
            "",
            "{parallel: 2}",
            "bay.yaml:2:11: targets.box.kind: missing",
            "write `kind: machine`",
        ),
        (
            "{parallel: 2}",
            "",
            "user.yaml:1:11: targets.box.kind: missing",
            "write `kind: machine`",
        ),
    ],
)
def test_unfit_target(
    project: Project, mine: str, entry: str, *, message: str, hint: str | None
) -> None:
    """A target that cannot work is refused at the line that says so."""
    project.user(f"targets: {{box: {mine}}}" if mine else "")
    project.file("command: x\n" + (f"targets: {{box: {entry}}}" if entry else ""))
    config = project.config()

    assert refusal(lambda: choose_target("box", config)) == (message, hint)


def test_no_such_target(project: Project) -> None:
    """A target that does not exist is an error that names the nearest."""
    project.user("targets: {desk: {kind: machine}}")
    config = project.config()

    assert refusal(lambda: choose_target("dsk", config), BadRequest) == (
        "there is no target `dsk`",
        "did you mean `desk`?",
    )


def test_target_caps_itself(project: Project) -> None:
    """How many runs a target takes is no matter of one experiment."""
    project.user("targets: {desk: {kind: machine, parallel: 2}}")

    assert project.build("command: x", target="desk").parallel is None


@pytest.mark.parametrize(
    ("entry", "side"),
    [({}, "local"), ({"kind": "machine", "host": "box"}, "remote"), ({"kind": "x"}, "remote")],
)
def test_side(project: Project, entry: dict[str, Any], side: str) -> None:
    """What is around knows on which side of `[local](remote)` it is."""
    target = ("t", Target.model_validate(entry))

    assert surround(project.config(), target).side == side
