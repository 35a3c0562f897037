"""From the models, datasets and runs of a file to the branches of an experiment."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.config.conftest import commands, points, recipes, refusal

from launchbay.core.errors import BadRequest
from launchbay.core.job import Resources

if TYPE_CHECKING:
    from tests.config.conftest import Project

FOUR = """\
model:
  a: {command: python a.py <fn>}
  b: {command: python b.py <fn>, hparam: {hid: [1, 2]}}
dataset:
  d1: {hparam: {_fn: 1.txt}}
  d2: {hparam: {_fn: 2.txt}}
"""
SEED = """\
project_name: example
model:
  average:
    command: >-
      [](make download file=data/;) python src/avg.py <fn>
    gpu_count: 0
  median:
    command: >-
      [](make download file=data/;) python src/med.py <fn>
    gpu_count: 0
dataset:
  data1:
    hparam:
      _fn: data/1.txt
  data2:
    hparam:
      _fn: data/2.txt
run:
  dataset: [data1, data2]
  model: [average, median]
"""
FIRST = """\
project_name: demo
model:
  modelA:
    command: python src/modelA.py <name> <hp1> <hp2>
    hparam:
      hp1: [1, 2]
  modelB:
    command: python src/modelB.py <name> <hp1> <hp2>
    hparam:
      hp1: [2, 3]
dataset:
  dataA:
    hparam:
      name: A
      hp2: [3, 4]
  dataB:
    hparam: {name: B, hp2: [3, 4]}
run:
  dataset: [dataA, dataB]
  model: [modelA, modelB]
  hparam:
    hp2: [3]
"""
GROUP = """\
command: train <train> <learning_rate> <lr_scheduler>
hparam:
    train:
        paper:
          _learning_rate: 0.000000008192
          _lr_scheduler: linear
        original:
          _learning_rate: 1e-5
          _lr_scheduler: constant
"""


def words(project: Project, text: str, **overrides: tuple[str, ...]) -> list[str]:
    """Every run's values, in order."""
    return [" ".join(point.values()) for point in points(project.build(text, overrides))]


def test_dataset_major(project: Project) -> None:
    """Runs come by dataset, then by model, then by parameters, the last key fastest."""
    experiment = project.build(FOUR)

    assert [(branch.model, branch.dataset) for branch in experiment.branches] == [
        ("a", "d1"),
        ("b", "d1"),
        ("a", "d2"),
        ("b", "d2"),
    ]
    assert points(experiment) == [
        {"model": "a", "dataset": "d1", "fn": "1.txt"},
        {"model": "b", "dataset": "d1", "fn": "1.txt", "hid": "1"},
        {"model": "b", "dataset": "d1", "fn": "1.txt", "hid": "2"},
        {"model": "a", "dataset": "d2", "fn": "2.txt"},
        {"model": "b", "dataset": "d2", "fn": "2.txt", "hid": "1"},
        {"model": "b", "dataset": "d2", "fn": "2.txt", "hid": "2"},
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SEED,
            [
                "python src/avg.py data/1.txt",
                "python src/med.py data/1.txt",
                "python src/avg.py data/2.txt",
                "python src/med.py data/2.txt",
            ],
        ),
        (
            FIRST,
            [
                "python src/modelA.py A 1 3",
                "python src/modelA.py A 2 3",
                "python src/modelB.py A 2 3",
                "python src/modelB.py A 3 3",
                "python src/modelA.py B 1 3",
                "python src/modelA.py B 2 3",
                "python src/modelB.py B 2 3",
                "python src/modelB.py B 3 3",
            ],
        ),
        (GROUP, ["train paper 0.000000008192 linear", "train original 1e-5 constant"]),
    ],
)
def test_the_first_tools_files(project: Project, text: str, expected: list[str]) -> None:
    """The examples of the first tool's documentation run as it says there."""
    assert commands(project.build(text)) == expected


def test_names_of_the_first_tools_files(project: Project) -> None:
    """What begins with `_` is left out of names, and model and dataset are in them already."""
    experiment = project.build(SEED)

    assert experiment.project == "example"
    assert {branch.hidden for branch in experiment.branches} == {
        frozenset({"fn", "model", "dataset"})
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("command: x\nparams: {a: [1, 2]}", ["1", "2"]),
        ("command: x", [""]),
        ("model: {a: {command: x}, b: {command: y}}", ["a", "b"]),
        ("command: x\nmodel: {a: , b: {command: y}}", ["a", "b"]),
        ("command: x\ndataset: {d: , e: {params: {a: 1}}}", ["d", "e 1"]),
        ("command: x\nparams: {z: 1}\ndataset: {d: }\nmodel: {m: }", ["m d 1"]),
        ("command: x\nparams: [{a: 1}, {b: 2}]\nmodel: {m: {params: {c: 3..4}}}", ["m 1 3"]),
    ],
)
def test_sections_may_be_missing(project: Project, text: str, expected: list[str]) -> None:
    """A file may have models, datasets, both or neither; the root's parameters hold for all."""
    assert words(project, text)[: len(expected)] == expected


def test_union_times_union(project: Project) -> None:
    """Unions of the root, a dataset and a model make every combination of their grids."""
    text = """\
command: x
params: [{a: 1}, {b: 2}]
dataset: {d: {params: [{c: 3}, {e: 4}]}}
"""

    assert words(project, text) == ["d 1 3", "d 1 4", "d 2 3", "d 2 4"]


def test_keys_of_dataset_and_model(project: Project) -> None:
    """A dataset's keys come before a model's, over the root's; where both say, the model does."""
    text = """\
command: x
params: {r: 0, x: root, y: root}
dataset: {d: {params: {a: 1, x: data, z: data}}}
model: {m: {params: {b: 2, x: model, z: model}}}
"""
    (point,) = points(project.build(text))

    assert list(point.items()) == [
        ("model", "m"),
        ("dataset", "d"),
        ("r", "0"),
        ("x", "model"),
        ("y", "root"),
        ("a", "1"),
        ("z", "model"),
        ("b", "2"),
    ]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("", ["a d1", "b d1", "a d2", "b d2"]),
        ("run:", ["a d1", "b d1", "a d2", "b d2"]),
        ("run: {}", ["a d1", "b d1", "a d2", "b d2"]),
        ("run: {model: a}", ["a d1", "a d2"]),
        ("run: {model: [b, a, b]}", ["b d1", "a d1", "b d2", "a d2"]),
        ("run: {dataset: [d2]}", ["a d2", "b d2"]),
        ("run: [{model: [a]}]", ["a d1", "a d2"]),
        (
            "run: [{model: a, dataset: d1}, {model: b, dataset: d2}]",
            ["a d1", "b d2"],
        ),
        ("run: [{model: a, dataset: d1}, {dataset: d1}]", ["a d1", "a d1", "b d1"]),
    ],
)
def test_run_selects(project: Project, run: str, expected: list[str]) -> None:
    """`run` chooses models and datasets, as one block or several; what it leaves out is all."""
    text = "command: x\nmodel: {a: , b: }\ndataset: {d1: , d2: }\n"

    assert words(project, text + run) == expected


FILTERED = """\
model:
  a: {command: x, params: {lr: [1, 2], _fn: [p, q]}}
  b: {command: y, params: {train: {s: {w: 1}, t: {w: 2}}}}
"""


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("lr: 1", ["a 1 p", "a 1 q", "b s 1", "b t 2"]),
        ("lr: [2], fn: q", ["a 2 q", "b s 1", "b t 2"]),
        ("train: t, lr: 1, fn: p", ["a 1 p", "b t 2"]),
    ],
)
def test_run_keeps_values(project: Project, kept: str, expected: list[str]) -> None:
    """A filter keeps what has the value; a run without the parameter passes."""
    for key in ("params", "hparam"):
        assert words(project, f"{FILTERED}run: {{{key}: {{{kept}}}}}") == expected


@pytest.mark.parametrize(
    ("run", "message", "hint"),
    [
        (
            "{model: c}",
            "4:7: run.model: there is no model `c`",
            "there are: `a`, `b`",
        ),
        (
            "[{}, {model: [a, bb]}]",
            "4:12: run[1].model: there is no model `bb`",
            "did you mean `b`? there are: `a`, `b`",
        ),
        ("{model: []}", "4:7: run.model: names no model", "take the key out to run all"),
        (
            "{dataset: d}",
            "4:7: run.dataset: there is no dataset `d`",
            "take it out; the file has no `dataset:`",
        ),
        (
            "{params: {lrr: 1}}",
            "4:16: run.params.lrr: no parameter of these runs",
            "did you mean `lr`?",
        ),
        (
            "{hparam: {_fn: p}}",
            "4:16: run.hparam._fn: no parameter of these runs",
            "did you mean `fn`?",
        ),
        ("{params: {fn: r}}", "4:16: run.params.fn: is never `r`", "there are: `p`, `q`"),
        ("{params: {lr: 1.0}}", "4:16: run.params.lr: is never `1.0`", None),
        ("{params: {lr: 0..1}}", "4:16: run.params.lr: is never `0`", None),
        (
            "{model: b, params: {lr: 1}}",
            "4:26: run.params.lr: no parameter of these runs",
            None,
        ),
        ("{params: {lr: []}}", "4:16: run.params.lr: an empty list of values", None),
        ("{params: [1]}", "4:7: run.params: must be a mapping of parameters to values", None),
    ],
)
def test_run_is_strict(project: Project, run: str, message: str, hint: str | None) -> None:
    """A name, a key or a value of `run` that is nowhere is an error that names the nearest."""
    said, told = refusal(lambda: project.build(f"{FILTERED}run: {run}"))

    assert said == f"bay.yaml:{message}"
    assert told == hint if hint else told


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("exclude: [{a: 1}]", ["2 3", "2 4"]),
        ("exclude: {a: 1, b: [3]}", ["1 4", "2 3", "2 4"]),
        ("exclude: [{a: 1, b: 3}, {a: 2, b: 4}]", ["1 4", "2 3"]),
        ("include: [{a: 9}]", ["1 3", "1 4", "2 3", "2 4", "9 3", "9 4"]),
        ("include: [{a: 9, b: 8}]", ["1 3", "1 4", "2 3", "2 4", "9 8"]),
        ("exclude: [{a: 1}, {a: 2}]\ninclude: [{a: 1, b: 3}]", ["1 3"]),
    ],
)
def test_points_in_and_out(project: Project, rules: str, expected: list[str]) -> None:
    """Points are left out where all of their values are, and added besides the grid."""
    assert words(project, f"command: x\nparams: {{a: [1, 2], b: [3, 4]}}\n{rules}") == expected


SOME = "model:\n  m: {command: x, params: {a: [1, 2]}}\n  n: {command: y, params: {b: 3}}\n"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("exclude: [{a: 1}]", ["m 2", "n 3"]),
        ("include: [{a: 5}]", ["m 1", "m 2", "m 5", "n 3"]),
        ("run: {model: n}", ["n 3"]),
    ],
)
def test_rules_of_the_root_concern_some(project: Project, rules: str, expected: list[str]) -> None:
    """A rule of the root holds for the models that have its parameters, and leaves the others."""
    assert words(project, f"{SOME}{rules}\n") == expected


def test_rules_of_what_is_not_run(project: Project) -> None:
    """What a model that is not run leaves out or adds is nobody's error."""
    text = (
        "command: x\n"
        "model: {m: {params: {a: 1}, exclude: [{a: 1}], include: [{a: 2}]}, n: }\n"
        "run: {model: n}\n"
    )

    assert words(project, text) == ["n"]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("exclude: [{c: 1}]", "4:12: exclude[0].c: no parameter of these runs"),
        ("exclude: [{a: 7}]", "4:12: exclude[0].a: is never `7`"),
        ("include: [{c: 1}]", "4:12: include[0].c: no parameter of these runs"),
        ("include: [{a: 1, b: 2}]", "4:11: include[0]: no run has all of `a`, `b`"),
    ],
)
def test_rules_are_strict(project: Project, rules: str, message: str) -> None:
    """A rule about something that no run has is an error."""
    said, hint = refusal(lambda: project.build(f"{SOME}{rules}"))

    assert said == f"bay.yaml:{message}"
    assert hint


def test_included_choice_must_be_there(project: Project) -> None:
    """A point that is added may only choose what a group has."""
    text = "command: x\nparams: {t: {a: {x: 1}, b: {x: 2}}}\ninclude: [{t: c}]"

    assert refusal(lambda: project.build(text)) == (
        "bay.yaml:3:12: include[0].t: is never `c`",
        "there are: `a`, `b`",
    )


CHOSEN = """\
command: x
params: {lr: [1, 2], t: {a: {w: 1}, b: {w: 2}}}
exclude: [{lr: 1, t: a}]
include: [{lr: 7, t: a}]
run: {params: {lr: [1]}}
"""


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, ["1 b 2"]),
        ({"lr": ("5",)}, ["5 a 1", "5 b 2", "5 a 1"]),
        ({"lr": ("1", "5")}, ["1 b 2", "5 a 1", "5 b 2", "1 a 1", "5 a 1"]),
        ({"lr": ("5",), "t": ("b",)}, ["5 b 2"]),
        ({"w": ("9",), "lr": ("3",)}, ["3 a 9", "3 b 9", "3 a 9"]),
    ],
)
def test_typed_values_win(
    project: Project, overrides: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    """Typed values replace the file's; what it keeps, leaves out or adds of its own gives way."""
    assert words(project, CHOSEN, **overrides) == expected


def test_typed_choice_of_some_models(project: Project) -> None:
    """A choice that only one model's group has leaves the other model nothing to run."""
    text = "command: x\nmodel:\n  m: {params: {t: {a: {w: 1}}}}\n  n: {params: {t: {b: {w: 2}}}}\n"

    assert words(project, text, t=("b",)) == ["n b 2"]


@pytest.mark.parametrize(
    ("overrides", "message", "hint"),
    [
        ({"lrr": ("1",)}, "`lrr` is no parameter of bay.yaml", "did you mean `lr`?"),
        ({"lr": ()}, "`lr` has no values", "write `lr=VALUE`"),
        ({"t": ("a", "c")}, "there is no `c` in the group `t`", "there are: `a`, `b`"),
    ],
)
def test_typed_values_are_strict(
    project: Project, overrides: dict[str, tuple[str, ...]], message: str, hint: str
) -> None:
    """A typed key must be a parameter, with values; of a group it chooses what is there."""
    assert refusal(lambda: project.build(CHOSEN, overrides), BadRequest) == (message, hint)


@pytest.mark.parametrize(
    ("command", "local", "remote"),
    [
        ("x {{1,2}} {{a,b}}", ["x 1 a", "x 1 b", "x 2 a", "x 2 b"], None),
        ("x {{0..2}}", ["x 0", "x 1", "x 2"], None),
        ("x {{.Names}} \\{{1,2}}", ["x {{.Names}} {{1,2}}"], None),
        ("x {{1,2}} <params>", ["x 1 --lr 5", "x 2 --lr 5"], None),
        ("[a [b]](c (d)) x[0]", ["a [b] x[0]"], ["c (d) x[0]"]),
        ("[](make <lr>;) go", ["go"], ["make 5; go"]),
        ("x ## not <this> ## y", ["x  y"], None),
        ("|\n  one <lr>\n  two\n", ["one 5\ntwo"], None),
    ],
)
def test_sugar(project: Project, command: str, local: list[str], remote: list[str] | None) -> None:
    """Brace lists, sides and comments of a command are read; what is meant literally stays."""
    quoted = command if command.startswith("|") else f"'{command}'"
    text = f"params: {{lr: 5}}\ntargets: {{far: {{kind: slurm}}}}\ncommand: {quoted}\n"

    assert commands(project.build(text)) == local
    assert commands(project.build(text, target="far")) == (remote or local)


@pytest.mark.parametrize("variable", ["KUBERNETES_SERVICE_HOST", "NODE_NAME"])
def test_inside_a_pod_is_remote(
    project: Project, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Inside a pod this machine is a remote one."""
    monkeypatch.setenv(variable, "x")

    assert commands(project.build("command: '[a](b)'")) == ["b"]


def test_identity_is_as_written(project: Project) -> None:
    """A run is known again by the command and image as written, whatever the target."""
    text = """\
targets: {far: {kind: slurm}}
image: root
dataset: {d: {image: data}, e: }
model: {m: {command: '[a](b) ## c ##', image: 'i:<x>', params: {x: 1}}, n: {command: q}}
"""
    written = ["[a](b) ## c ##\0i:<x>", "q\0data", "[a](b) ## c ##\0i:<x>", "q\0root"]

    assert [branch.written for branch in project.build(text).branches] == written
    assert [branch.written for branch in project.build(target="far").branches] == written


TEMPLATES = """\
model:
  m:
    command: x
    params: {tag: [a b, c], n: [1, 2]}
    image: repo:<tag>
    env: {TAG: <tag>, FIXED: yes}
    setup: echo <tag>
    gpus: <n>
    volumes: {data: /<tag>}
    modules: [cuda/<n>]
    time: <n>h
zip: [tag, n]
"""


def test_placeholders_in_an_entry(project: Project) -> None:
    """`<key>` is replaced in all that a model's entry says, quoted where a shell reads it."""
    one, two = recipes(project.build(TEMPLATES))

    assert one.resources == Resources(gpus=1, time_limit=timedelta(hours=1))
    assert two.resources == Resources(gpus=2, time_limit=timedelta(hours=2))
    assert (one.image, one.env) == ("repo:a b", {"TAG": "a b", "FIXED": "yes"})
    assert (one.setup, two.setup) == ("echo 'a b'", "echo c")
    assert (one.modules, one.options) == (("cuda/1",), {"volumes": {"data": "/a b"}})


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("setup: [echo <tag>, ls]", {"setup": "echo 'a b'\nls"}),
        ("startup_script: go <tag>", {"options": {"startup_script": "go 'a b'"}}),
        ("image: <tag>", {"image": "a b"}),
        ("env: {A: '\\<tag> <tag>'}", {"env": {"A": "<tag> a b"}}),
        ("env: {A: <model>-<dataset>}", {"env": {"A": "m-d"}}),
        ("env: {A: 'b # <tag>'}", {"env": {"A": "b # a b"}}),
        ("setup: 'go # <tag>'", {"setup": "go # <tag>"}),
    ],
)
def test_placeholders_are_quoted_for_shells(
    project: Project, entry: str, expected: dict[str, Any]
) -> None:
    """What a shell reads is quoted, also as a list of lines; other text is not."""
    text = (
        f"dataset: {{d: }}\nmodel:\n  m:\n    command: x\n    params: {{tag: a b}}\n    {entry}\n"
    )
    (recipe,) = recipes(project.build(text))

    assert {key: getattr(recipe, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("command: x\nparams: {t: [1, 2]}\nimage: i:<t>", ["i:1", "i:2"]),
        (
            "command: x\nparams: {t: 1}\nimage: i:<t>\ndataset: {d: , e: {image: own}}",
            ["i:1", "own"],
        ),
        (
            "command: x\nparams: {t: 1}\nimage: i:<t>\ntargets: {local: {image: here}}",
            ["here"],
        ),
        (
            "image: i:<t>\nmodel: {m: {command: x, params: {t: 1}}, n: {command: x, image: j}}",
            ["i:<t>", "j"],
        ),
    ],
)
def test_placeholders_at_the_root(project: Project, text: str, images: list[str]) -> None:
    """Without models the root is the model, in the rank of a root."""
    assert [recipe.image for recipe in recipes(project.build(text))] == images


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("command: x <zzz>", "3:5: model.m.command: `<zzz>` is no parameter"),
        ("command: x\n    image: <zzz>", "4:5: model.m.image: `<zzz>` is no parameter"),
        ("command: x\n    setup: go <zzz>", "4:5: model.m.setup: `<zzz>` is no parameter"),
        ("command: x\n    env: {A: <zzz>}", "4:5: model.m.env: `<zzz>` is no parameter"),
        (
            "command: x\n    gpus: <n>",
            "4:5: model.m.gpus: `two` is no number of GPUs",
        ),
        ("command: x\n    time: <n>", "4:5: model.m.time: `two` is no span of time"),
    ],
)
def test_leftovers(project: Project, entry: str, message: str) -> None:
    """A placeholder that nothing fills, or that comes to nonsense, is told with the model."""
    text = f"model:\n  m:\n    {entry}\n    params: {{lr: 1, n: [1, two]}}\n"
    said, hint = refusal(lambda: project.build(text))

    assert said == f"bay.yaml:{message}"
    assert hint


def test_every_leftover_at_once(project: Project) -> None:
    """All that is wrong in all models is told together, each once."""
    text = """\
dataset: {d: , e: }
model:
  m: {command: x <one>, image: <two>}
  n: {command: <three>}
"""
    message, _ = refusal(lambda: project.build(text))

    assert [line.split(" is no")[0] for line in message.splitlines()] == [
        "3 problems",
        "bay.yaml:3:7: model.m.command: `<one>`",
        "bay.yaml:3:25: model.m.image: `<two>`",
        "bay.yaml:4:7: model.n.command: `<three>`",
    ]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ("{gpu_count: [1, 2]}", [Resources(gpus=1), Resources(gpus=2)]),
        ("{cpu_count: 4}", [Resources(cpus=4)]),
        ("{resources.gpus: [1, 2]}", [Resources(gpus=1), Resources(gpus=2)]),
        ("{resources: {cpus: 2, memory: 1G}}", [Resources(cpus=2, memory_mib=1024)]),
        ("{resources.gpu_count: 3}", [Resources(gpus=3)]),
        ("{resources.time: 8h}", [Resources(time_limit=timedelta(hours=8))]),
        ("{ephemeral_storage: 0}", [Resources(disk_mib=0)]),
        ("{ephermal_storage: 1}", [Resources(disk_mib=1024)]),
        ("{gpu_whitelist: 'a,b'}", [Resources(gpu_types=("a", "b"))]),
        ("{hostname_blacklist: [x, y]}", [Resources(hosts_denied=(one,)) for one in "xy"]),
        ("{t: {s: {gpu_count: 1}, l: {gpu_count: 8}}}", [Resources(gpus=1), Resources(gpus=8)]),
        ("{gpus: 2, cpus: 3, memory: 4, time: 5}", [Resources()]),
    ],
)
def test_parameters_that_set_resources(
    project: Project, params: str, expected: list[Resources]
) -> None:
    """A parameter sets a resource under its old name or below `resources`, else it is its own."""
    experiment = project.build(f"command: x <params>\nparams: {params}\n")

    assert [recipe.resources for recipe in recipes(experiment)] == expected
    if expected != [Resources()]:
        assert all("resource" in warning for warning in experiment.warnings)
        assert set(commands(experiment)) <= {"x "}
    else:
        assert experiment.warnings == ()
        assert commands(experiment) == ["x --gpus 2 --cpus 3 --memory 4 --time 5"]


def test_memory_and_image_of_models(project: Project) -> None:
    """In files with models `memory` and `image` are resources too, and plan says so."""
    experiment = project.build("model: {m: {command: x, hparam: {memory: [1, 2], image: i}}}")

    assert [recipe.resources.memory_mib for recipe in recipes(experiment)] == [1024, 2048]
    assert {recipe.image for recipe in recipes(experiment)} == {"i"}
    assert experiment.warnings == (
        "the parameter `memory` sets the resource `memory`",
        "the parameter `image` sets the resource `image`",
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("{gpu_count: [1, x]}", "2:10: params.gpu_count: `x` is no number of GPUs"),
        ("{resources.gpu: 1}", "2:10: params.resources.gpu: there is no resource `gpu`"),
        ("{resources.parallel: 1}", "2:10: params.resources.parallel: there is no resource"),
        ("{resources: {extra: 1}}", "2:22: params.resources.extra: there is no resource `extra`"),
        (
            "{gpu_count: 1, resources.gpus: 2}",
            "2:24: params.resources.gpus: `gpu_count` and `resources.gpus` cannot both",
        ),
        (
            "{gpu_whitelist: a, gpu_blacklist: b}",
            "2:28: params.gpu_blacklist: `gpu_whitelist` and `gpu_blacklist` cannot both",
        ),
    ],
)
def test_parameters_that_are_no_resource(project: Project, params: str, message: str) -> None:
    """What a parameter sets must be a resource, valid in every value, and set once."""
    said, hint = refusal(lambda: project.build(f"command: x\nparams: {params}\n"))

    assert said.startswith(f"bay.yaml:{message}")
    assert hint


@pytest.mark.parametrize(
    ("command", "warned"),
    [("x <lr>", True), ("x <lr:raw>", False), (r"x \<lr> <lr:raw>", False), ("x <seed>", False)],
)
def test_warning_of_spaces(project: Project, command: str, *, warned: bool) -> None:
    """With models a value with spaces that is quoted gets a warning which names `:raw`."""
    text = f"model: {{m: {{command: '{command}', params: {{lr: [1, a b], seed: 1}}}}}}\n"
    warning = "`<lr>` has values with spaces, each one argument; `<lr:raw>` puts them in as typed"

    assert project.build(text).warnings == ((warning,) if warned else ())


def test_no_warning_of_spaces_without_models(project: Project) -> None:
    """In files of our own kind a value is one argument, and nobody is told."""
    assert project.build("command: x <lr>\nparams: {lr: a b}").warnings == ()


@pytest.mark.parametrize(
    ("text", "ambiguous"),
    [
        ("params: {a: [1, 2]}", False),
        ("params: {_a: [1, 2]}", True),
        ("params: {a: [x, X]}", True),
        ("params: {t: {p: {_a: 1}, q: {_a: 2}}}", False),
    ],
)
def test_names_that_do_not_tell_apart(project: Project, text: str, *, ambiguous: bool) -> None:
    """Where what is shown does not tell points apart, the names need more."""
    (branch,) = project.build(f"command: x\n{text}").branches

    assert branch.ambiguous == ambiguous


def test_hundreds_of_datasets(project: Project) -> None:
    """Hundreds of datasets make their branches in order, each with its own values."""
    names = [f"d{at:03}" for at in range(400)]
    lines = "".join(f"  {name}: {{hparam: {{n: {name[1:]}}}, memory: 2}}\n" for name in names)
    text = (
        f"dataset:\n{lines}"
        "model:\n"
        "  a: {command: a <n>, params: {seed: 0..999999}, env: {N: <n>}}\n"
        "  b: {command: b <n>, gpu_count: 1}\n"
        "run: {params: {seed: 7}}\n"
    )
    experiment = project.build(text)

    assert [branch.dataset for branch in experiment.branches] == [
        name for name in names for _ in "ab"
    ]
    assert sum(map(len, experiment.branches)) == 400 * 1_000_001
    last = experiment.branches[-2]
    assert last.recipe(last[7]).env == {"N": "399"}
