"""From the shape of the files to an experiment and its target."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from launchbay.config.build import (
    Explanation,
    apply_target_defaults,
    build_experiment,
    choose_target,
    default_target,
    explain,
    load_file,
    load_user_config,
    resolve_targets,
    typed_experiment,
    with_resources,
)
from launchbay.config.schema import MACHINE_KEYS, ExperimentFile, UserConfig
from launchbay.core.errors import BadRequest, BayError, ConfigError
from launchbay.core.job import Argv, Resources, Script
from launchbay.core.sweep import Experiment, Grid, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

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
gpus: 0.5
gpu_type: [a100]
cpus: 2
memory: 4
time: 8h
nodes: 2
parallel: 3
target: desk
env: {A: '1'}
setup: [one, two]
outputs: [runs]
metrics: {acc: 'acc=(.)'}
code: ['../lib:lib']
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, in which files are named shortly."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BAY_DEFAULT_TARGET", raising=False)
    return tmp_path


@pytest.fixture
def file(folder: Path) -> Callable[[str], ExperimentFile]:
    """An experiment file of this text, loaded."""

    def load(text: str) -> ExperimentFile:
        (folder / "bay.yaml").write_text(text, encoding="utf-8")
        return load_file(folder / "bay.yaml")

    return load


@pytest.fixture
def user(folder: Path) -> Callable[[str], UserConfig]:
    """A user's configuration of this text, loaded."""

    def load(text: str) -> UserConfig:
        (folder / "user.yaml").write_text(text, encoding="utf-8")
        return load_user_config(folder / "user.yaml")

    return load


def refusal(action: Callable[[], object], kind: type[BayError]) -> tuple[str, str | None]:
    """What an action that must fail says, and its hint."""
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value), caught.value.hint


def test_simple_experiment(file: Callable[[str], ExperimentFile]) -> None:
    """Two keys make a sweep, named for the project."""
    experiment = build_experiment(file(SIMPLE), project_name="demo")

    assert (experiment.name, experiment.project) == ("demo", "demo")
    assert experiment.command == Script("python train.py --lr <lr> --seed <seed>")
    assert (len(experiment.grid), experiment.grid[3]) == (6, {"lr": "1e-5", "seed": "0"})
    assert (experiment.append, experiment.always) == ("", False)
    assert isinstance(experiment.grid.axes["seed"], Span)


def test_full_experiment(file: Callable[[str], ExperimentFile]) -> None:
    """Every key of a file reaches the experiment."""
    assert build_experiment(file(FULL), project_name="folder") == Experiment(
        name="first",
        project="demo",
        command=Script("echo <x>"),
        grid=Grid({"x": ("a",)}),
        target="desk",
        resources=Resources(
            nodes=2,
            cpus=2,
            gpus=0.5,
            gpu_types=("a100",),
            memory_mib=4096,
            time_limit=timedelta(hours=8),
        ),
        parallel=3,
        env={"A": "1"},
        setup="one\ntwo",
        outputs=("runs",),
        metrics={"acc": "acc=(.)"},
        code=(("../lib", "lib"),),
    )


def test_name_of_a_named_project(file: Callable[[str], ExperimentFile]) -> None:
    """An experiment without a name has that of its project."""
    experiment = build_experiment(file("project: demo\ncommand: x"), project_name="folder")

    assert (experiment.name, experiment.project) == ("demo", "demo")


def test_override(file: Callable[[str], ExperimentFile]) -> None:
    """Typed values replace those of the file, in its order."""
    experiment = build_experiment(file(SIMPLE), project_name="x", overrides={"lr": ["3"]})

    assert list(experiment.grid) == [{"lr": "3", "seed": seed} for seed in ("0", "1", "2")]


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
    file: Callable[[str], ExperimentFile],
    overrides: dict[str, Sequence[str]],
    message: str,
    hint: str,
) -> None:
    """An override must name a parameter of the file and give it values."""
    loaded = file(SIMPLE)

    assert refusal(
        lambda: build_experiment(loaded, project_name="x", overrides=overrides), BadRequest
    ) == (message, hint)


@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        (
            "echo <lrr>",
            "bay.yaml:3:1: command: `<lrr>` is no parameter; there are: `lr`",
            "add `lrr` to `params:`, or write `\\<lrr>` if it is meant",
        ),
        (
            "echo `<lr>`",
            "bay.yaml:3:1: command: `<lr>` stands in backquotes",
            "write `$(…)` instead",
        ),
    ],
)
def test_bad_placeholder(
    file: Callable[[str], ExperimentFile], command: str, message: str, hint: str
) -> None:
    """A placeholder that cannot be filled is an error at the line of the command."""
    loaded = file(f"# one\nparams: {{lr: 1}}\ncommand: {command}\n")

    assert refusal(lambda: build_experiment(loaded, project_name="x"), ConfigError) == (
        message,
        hint,
    )


@pytest.mark.parametrize("command", ["echo", "echo <repeat>", r"echo \<lrr>"])
def test_good_placeholders(file: Callable[[str], ExperimentFile], command: str) -> None:
    """A parameter may be unused; `<repeat>` comes with a flag; an escaped one is text."""
    loaded = file(f"params: {{lr: 1}}\ncommand: {command}\n")

    assert build_experiment(loaded, project_name="x").command == Script(command)


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
    assert typed_experiment(words, {}, project_name="demo", subfolder="a") == Experiment(
        name=name,
        project="demo",
        command=Argv(tuple(command)),
        append="--",
        subfolder="a",
        always=True,
    )


def test_typed_parameters() -> None:
    """Typed parameters make a grid that runs once."""
    experiment = typed_experiment(
        ["train.py"], {"lr": ("1", "2")}, project_name="demo", style="hydra"
    )

    assert experiment.grid == Grid({"lr": ("1", "2")})
    assert (experiment.append, experiment.always) == ("=", False)


@pytest.mark.parametrize(
    ("words", "params", "message", "hint"),
    [
        ([], {}, "no command given", "write it last: `bay run lr=0.1 python train.py`"),
        (
            ["x"],
            {"1x": ["1"]},
            "`1x` is no name of a parameter",
            "use letters, digits, `_`, `-`, `.`; begin with a letter or `_`",
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


def typed() -> Experiment:
    """An experiment that asks for nothing."""
    return typed_experiment(["x"], {}, project_name="demo")


def test_flags() -> None:
    """Flags replace every resource."""
    flags = {
        "gpus": "2",
        "gpu_type": "a100,h100",
        "cpus": "4",
        "memory": "512M",
        "time": "90m",
        "nodes": "2",
        "parallel": "3",
    }
    experiment = with_resources(typed(), flags)

    assert experiment.parallel == 3
    assert experiment.resources == Resources(
        nodes=2,
        cpus=4,
        gpus=2,
        gpu_types=("a100", "h100"),
        memory_mib=512,
        time_limit=timedelta(minutes=90),
    )
    assert with_resources(experiment, {}) == experiment


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
        ({"parallel": "0"}, "--parallel: `0` is no whole number of at least 1", None),
        ({"gpu": "1"}, "`gpu` is no resource", "did you mean `gpus`?"),
    ],
)
def test_bad_flag(flags: dict[str, str], message: str, hint: str | None) -> None:
    """A bad flag is named."""
    assert refusal(lambda: with_resources(typed(), flags), BadRequest) == (message, hint)


def test_local_always_exists() -> None:
    """Without any file there is this computer."""
    targets = resolve_targets(UserConfig(), None)

    assert {name: target.kind for name, target in targets.items()} == {"local": "machine"}
    assert default_target(None, UserConfig()) == "local"


def test_no_user_config(folder: Path) -> None:
    """A missing configuration is an empty one; what is no file is an error."""
    assert load_user_config(folder / "none.yaml") == UserConfig()
    assert refusal(lambda: load_user_config(folder), ConfigError) == (
        ".: a folder, not a file",
        "name the file inside it",
    )


def test_targets_merge(
    file: Callable[[str], ExperimentFile], user: Callable[[str], UserConfig]
) -> None:
    """The project's entries are merged over the user's key by key; maps merge, lists replace."""
    mine = user(
        "targets:\n"
        "  desk: {kind: slurm, partition: gpu, list: [a, b], env: {A: '1', B: '1'}, cpus: 1}\n"
        "  local: {parallel: 2}\n"
    )
    project = file(
        "command: x\n"
        "targets:\n"
        "  desk: {partition: big, list: [c], env: {B: '2'}}\n"
        "  local: {devices: 1}\n"
        "  new: {kind: machine}\n"
    )
    targets = resolve_targets(mine, project)

    assert {name: (target.kind, target.options) for name, target in targets.items()} == {
        "local": ("machine", {"parallel": 2, "devices": "1"}),
        "desk": (
            "slurm",
            {
                "partition": "big",
                "list": ["c"],
                "env": {"A": "1", "B": "2"},
                "cpus": 1.0,
            },
        ),
        "new": ("machine", {}),
    }
    assert {name: set(target.from_project) for name, target in targets.items()} == {
        "local": {"devices"},
        "desk": {"partition", "list", "env", "env.B"},
        "new": {"kind"},
    }


def test_default_target(
    file: Callable[[str], ExperimentFile],
    user: Callable[[str], UserConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file's target counts first, then the variable, then the one in use."""
    named, unnamed, mine = file("command: x\ntarget: a"), file("command: x"), user("use: c")

    assert [default_target(one, mine) for one in (named, unnamed, None)] == ["a", "c", "c"]

    monkeypatch.setenv("BAY_DEFAULT_TARGET", "b")

    assert [default_target(one, mine) for one in (named, unnamed, None)] == ["a", "b", "b"]


def test_chosen_target(
    file: Callable[[str], ExperimentFile], user: Callable[[str], UserConfig]
) -> None:
    """A target that can work is given, whatever is wrong with others."""
    mine = user("targets:\n  box: {kind: machine, host: me@box}\n  desk: {kind: machine}\n")
    target = choose_target("desk", file=file("command: x"), user=mine)

    assert (target.kind, target.options) == ("machine", {})


@pytest.mark.parametrize(
    ("mine", "project", "message", "hint"),
    [
        ("{kind: machine, host: me@box}", "", "user.yaml:1:32: targets.box.host: SSH", None),
        ("{kind: machine}", "{host: me@box}", "bay.yaml:2:17: targets.box.host: SSH", None),
        (
            "{kind: machine}",
            "{partition: x}",
            "bay.yaml:2:17: targets.box.partition: unknown key",
            "there are: " + ", ".join(f"`{key}`" for key in sorted(MACHINE_KEYS)),
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
    file: Callable[[str], ExperimentFile],
    user: Callable[[str], UserConfig],
    *,
    mine: str,
    project: str,
    message: str,
    hint: str | None,
) -> None:
    """A target that cannot work is refused at the line that says so."""
    config = user(f"targets: {{box: {mine}}}" if mine else "")
    loaded = file("command: x\n" + (f"targets: {{box: {project}}}" if project else ""))
    message = message.replace("SSH", "machines over SSH are not supported yet")

    assert refusal(lambda: choose_target("box", file=loaded, user=config), ConfigError) == (
        message,
        hint,
    )


def test_no_such_target(user: Callable[[str], UserConfig]) -> None:
    """A target that does not exist is an error that names the nearest."""
    mine = user("targets: {desk: {kind: machine}}")

    assert refusal(lambda: choose_target("dsk", file=None, user=mine), BadRequest) == (
        "there is no target `dsk`",
        "did you mean `desk`?",
    )


@pytest.mark.parametrize(
    ("mine", "project", "root", "gpus"),
    [
        ("", "", "", None),
        ("gpus: 1", "", "", 1),
        ("gpus: 1", "", "gpus: 2", 2),
        ("gpus: 1", "", "gpus: 0", 0),
        ("gpus: 1", "gpus: 3", "gpus: 2", 3),
        ("", "gpus: 3", "gpus: 2", 3),
        ("gpus: 1", "cpus: 3", "gpus: 2", 2),
    ],
)
def test_precedence(
    file: Callable[[str], ExperimentFile],
    user: Callable[[str], UserConfig],
    *,
    mine: str,
    project: str,
    root: str,
    gpus: float | None,
) -> None:
    """The project's entry beats the file's root, which beats the user's entry; flags beat all."""
    config = user(f"targets: {{desk: {{kind: machine, {mine}}}}}")
    loaded = file(f"command: x\ntargets: {{desk: {{{project}}}}}\n{root}\n")
    target = choose_target("desk", file=loaded, user=config)
    experiment = apply_target_defaults(build_experiment(loaded, project_name="x"), target)

    assert experiment.resources.gpus == gpus
    assert with_resources(experiment, {"gpus": "8"}).resources.gpus == 8


def test_every_default_of_a_target(user: Callable[[str], UserConfig]) -> None:
    """A target fills what nobody asked for."""
    mine = user(
        "targets: {desk: {kind: machine, gpus: 1, gpu_type: a100, cpus: 2, memory: 4, time: 1h}}"
    )
    experiment = apply_target_defaults(typed(), choose_target("desk", file=None, user=mine))

    assert experiment.resources == Resources(
        gpus=1, gpu_types=("a100",), cpus=2, memory_mib=4096, time_limit=timedelta(hours=1)
    )


def test_target_caps_itself(user: Callable[[str], UserConfig]) -> None:
    """How many runs a target takes is no matter of one experiment."""
    mine = user("targets: {desk: {kind: machine, parallel: 2}}")
    target = choose_target("desk", file=None, user=mine)

    assert apply_target_defaults(typed(), target).parallel is None


def test_environment(
    file: Callable[[str], ExperimentFile], user: Callable[[str], UserConfig]
) -> None:
    """The user's target gives way to the file, the file to its own entry of the target."""
    mine = user("targets: {desk: {kind: machine, env: {A: user, B: user, C: user}}}")
    loaded = file("command: x\nenv: {B: file, C: file}\ntargets: {desk: {env: {C: entry}}}\n")
    target = choose_target("desk", file=loaded, user=mine)
    experiment = apply_target_defaults(build_experiment(loaded, project_name="x"), target)

    assert experiment.env == {"A": "user", "B": "file", "C": "entry"}


EXPLAINED = """\
command: x <a.b>
hparam: {a.b: [1, 2]}
gpus: 2
cpus: 1
targets:
  desk: {cpus: 4}
"""
MINE = """\
use: desk
targets:
  desk:
    kind: machine
    memory: 8
    cpus: 2
    gpus: 1
"""


@pytest.mark.parametrize(
    ("key", "value", "source", "line"),
    [
        ("command", "x <a.b>", "bay.yaml", 1),
        ("params", {"a.b": ["1", "2"]}, "bay.yaml", 2),
        ("hparam", {"a.b": ["1", "2"]}, "bay.yaml", 2),
        ("params.a.b", ["1", "2"], "bay.yaml", 2),
        ("gpus", "2", "bay.yaml", 3),
        ("cpus", "4", "bay.yaml", 6),
        ("memory", "8", "user.yaml", 5),
        ("time", None, "default", None),
        ("use", "desk", "user.yaml", 1),
        ("target", "desk", "user.yaml", 1),
        ("targets.desk.cpus", "4", "bay.yaml", 6),
        ("targets.desk.memory", "8", "user.yaml", 5),
    ],
)
def test_explain(
    file: Callable[[str], ExperimentFile],
    user: Callable[[str], UserConfig],
    *,
    key: str,
    value: Any,
    source: str,
    line: int | None,
) -> None:
    """A key is explained by what was typed, the file and the line."""
    assert explain(key, file=file(EXPLAINED), user=user(MINE)) == Explanation(
        key=key, value=value, source=source, line=line
    )


def test_explain_the_target(
    file: Callable[[str], ExperimentFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default target may come from nowhere, a variable, or the file."""
    named = file("command: x\ntarget: desk\n")

    assert explain("target", file=None, user=UserConfig()) == Explanation(
        key="target", value="local", source="default"
    )

    monkeypatch.setenv("BAY_DEFAULT_TARGET", "box")

    assert explain("target", file=None, user=UserConfig()) == Explanation(
        key="target", value="box", source="$BAY_DEFAULT_TARGET"
    )
    assert explain("target", file=named, user=UserConfig()).value == "desk"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("comand", "did you mean `command`?"),
        ("targets.desk.mem", "did you mean `targets.desk.memory`?"),
    ],
)
def test_explain_nothing(
    file: Callable[[str], ExperimentFile], user: Callable[[str], UserConfig], key: str, hint: str
) -> None:
    """A key that does not exist is an error that names the nearest."""
    loaded, mine = file(EXPLAINED), user(MINE)

    assert refusal(lambda: explain(key, file=loaded, user=mine), BadRequest) == (
        f"`{key}` is not set and no key of a file",
        hint,
    )
