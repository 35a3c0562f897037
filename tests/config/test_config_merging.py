"""One document from several files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.config.conftest import points, recipes, refusal

from launchbay.config.configuration import load_file
from launchbay.config.files import read_document
from launchbay.config.merging import overlay, read_merged

if TYPE_CHECKING:
    from tests.config.conftest import Project

    from launchbay.config.problems import Route


def place(project: Project, *route: str | int) -> str:
    """Where a value of `bay.yaml` stands."""
    return str(read_merged(project.folder / "bay.yaml").find_place(route))


def test_nothing_to_build_on(project: Project) -> None:
    """A file without `_base_` is itself."""
    path = project.write("bay.yaml", "command: x\nparams: {a: 1}\n")
    document = read_merged(path)

    assert document == read_document(path)


def test_one_base(project: Project) -> None:
    """Maps merge deeply, lists and single values are replaced, and `_base_` is gone."""
    project.write(
        "a.yaml",
        "command: old\nenv: {A: 1, B: 1}\nmodel: {m: {gpus: 1, env: {X: 1}}}\nmodules: [p, q]\n",
    )
    path = project.write(
        "bay.yaml",
        "_base_: a.yaml\ncommand: new\nenv: {B: 2, C: 2}\n"
        "model: {m: {cpus: 2, env: {Y: 2}}, n: }\nmodules: [r]\n",
    )

    assert read_merged(path).data == {
        "command": "new",
        "env": {"A": "1", "B": "2", "C": "2"},
        "model": {"m": {"gpus": "1", "env": {"X": "1", "Y": "2"}, "cpus": "2"}, "n": None},
        "modules": ["r"],
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.yaml": "x: 1\ny: 1", "bay.yaml": "_base_: [a.yaml]"}, {"x": "1", "y": "1"}),
        (
            {
                "a.yaml": "x: a\ny: a\nz: a",
                "b.yaml": "y: b\nz: b",
                "bay.yaml": "_base_: [a.yaml, b.yaml]\nz: c",
            },
            {"x": "a", "y": "b", "z": "c"},
        ),
        (
            {
                "sub/a.yaml": "x: a\ny: a",
                "sub/b.yaml": "_base_: a.yaml\ny: b",
                "bay.yaml": "_base_: sub/b.yaml\nz: c",
            },
            {"x": "a", "y": "b", "z": "c"},
        ),
        (
            {
                "root.yaml": "x: 0\ny: 0",
                "a.yaml": "_base_: root.yaml\nx: a",
                "b.yaml": "_base_: root.yaml\nz: b",
                "bay.yaml": "_base_: [a.yaml, b.yaml]",
            },
            {"x": "0", "y": "0", "z": "b"},
        ),
        ({"a.yaml": "x: 1", "bay.yaml": "_base_: a.yaml\nx:"}, {"x": "1"}),
        ({"a.yaml": "x: {p: 1}", "bay.yaml": "_base_: a.yaml\nx: 2"}, {"x": "2"}),
        ({"a.yaml": "x: 2", "bay.yaml": "_base_: a.yaml\nx: {p: 1}"}, {"x": {"p": "1"}}),
        ({"a.yaml": "", "bay.yaml": "_base_: a.yaml\nx: 1"}, {"x": "1"}),
        ({"bay.yaml": "_base_:\nx: 1"}, {"x": "1"}),
        ({"bay.yaml": "_base_: []\nx: 1"}, {"x": "1"}),
    ],
)
def test_bases(project: Project, files: dict[str, str], expected: dict[str, Any]) -> None:
    """A later base is laid over an earlier one, whole with what that one builds on."""
    for name, text in files.items():
        project.write(name, text)

    assert read_merged(project.folder / "bay.yaml").data == expected


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (("command",), "a.yaml:1:1"),
        (("env", "A"), "a.yaml:2:7"),
        (("env", "B"), "bay.yaml:2:7"),
        (("params", "lr"), "bay.yaml:3:10"),
        (("params", "seed"), "a.yaml:3:16"),
        (("modules", 0), "bay.yaml:4:11"),
        (("modules", 1), "bay.yaml:4:1"),
        (("gpus",), "bay.yaml:5:1"),
        (("model", "m", "cpus"), "bay.yaml:6:13"),
        ((), "bay.yaml:1:1"),
    ],
)
def test_places(project: Project, route: Route, expected: str) -> None:
    """Every value remembers the file that it stands in, also under another spelling."""
    project.write(
        "a.yaml",
        "command: x\nenv: {A: 1, B: 1}\nparams: {lr: 1,seed: 2}\nmodules: [p, q]\ngpus: 1\n"
        "model: {m: {cpus: 1}}\n",
    )
    project.write(
        "bay.yaml",
        "_base_: a.yaml\nenv: {B: 2}\nhparam: {lr: 3}\nmodules: [r]\ngpu_count: 2\n"
        "model: {m: {cpu_count: 2}}\n",
    )

    assert place(project, *route) == expected


@pytest.mark.parametrize(
    ("under", "over", "expected"),
    [
        ("hparam: {a: 1}", "params: {b: 2}", {"hparam": {"a": "1", "b": "2"}}),
        ("project_name: a", "project: b", {"project_name": "b"}),
        ("project: a", "project_name: b", {"project": "b"}),
        ("gpus: 1", "gpu_count: 2", {"gpus": "2"}),
        ("ephermal_storage: 1", "disk: 2", {"ephermal_storage": "2"}),
        ("run: {hparam: {a: 1}}", "run: {params: {a: 2}}", {"run": {"hparam": {"a": "2"}}}),
        (
            "dataset: {d: {gpu_whitelist: [a]}}",
            "dataset: {d: {gpu_type: [b]}}",
            {"dataset": {"d": {"gpu_whitelist": ["b"]}}},
        ),
        (
            "targets: {t: {cpus: 1}}",
            "targets: {t: {cpu_count: 2}}",
            {"targets": {"t": {"cpus": "2"}}},
        ),
        (
            "params: {gpus: 1, hparam: 1}",
            "params: {gpu_count: 2, params: 2}",
            {"params": {"gpus": "1", "hparam": "1", "gpu_count": "2", "params": "2"}},
        ),
        ("gpus: 1", "gpus: 2\ngpu_count: 3", {"gpus": "2", "gpu_count": "3"}),
        ("gpu_type: [a]", "gpu_blacklist: [b]", {"gpu_blacklist": ["b"]}),
        ("hostname_blacklist: [a]", "hostname_whitelist: b", {"hostname_whitelist": "b"}),
        (
            "model: {m: {gpu_blacklist: [a]}}",
            "model: {m: {gpu_whitelist: [b]}}",
            {"model": {"m": {"gpu_whitelist": ["b"]}}},
        ),
        ("gpu_type: [a]", "gpu_blacklist:", {"gpu_type": ["a"], "gpu_blacklist": None}),
    ],
)
def test_spellings_and_opposites(
    project: Project, under: str, over: str, expected: dict[str, Any]
) -> None:
    """Two spellings of a key are one key; what one file denies, another no longer allows."""
    documents = [
        read_document(project.write(name, text))
        for name, text in (("under.yaml", under), ("over.yaml", over))
    ]

    assert overlay(*documents).data == expected


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"bay.yaml": "_base_: bay.yaml"},
            "bay.yaml:1:1: _base_: builds on itself: bay.yaml → bay.yaml",
        ),
        (
            {"bay.yaml": "_base_: a.yaml", "a.yaml": "x: 1\n_base_: bay.yaml"},
            "a.yaml:2:1: _base_: builds on itself: bay.yaml → a.yaml → bay.yaml",
        ),
        ({"bay.yaml": "_base_: no.yaml"}, "bay.yaml:1:1: _base_: there is no file `no.yaml`"),
        (
            {"bay.yaml": "_base_: [a.yaml, no.yaml]", "a.yaml": ""},
            "bay.yaml:1:18: _base_[1]: there is no file `no.yaml`",
        ),
        ({"bay.yaml": "_base_: {a: b}"}, "bay.yaml:1:1: _base_: no file, nor a list of files"),
        ({"bay.yaml": "_base_: [[a]]"}, "bay.yaml:1:1: _base_: no file, nor a list of files"),
        (
            {"bay.yaml": "_base_: a.yaml", "a.yaml": "[x]"},
            "a.yaml:1:1: a list, not lines of `key: value`",
        ),
    ],
)
def test_no_base(project: Project, files: dict[str, str], message: str) -> None:
    """A base that is not there, is no file or builds on itself is told at its line."""
    for name, text in files.items():
        project.write(name, text)
    said, hint = refusal(lambda: read_merged(project.folder / "bay.yaml"))

    assert said == message
    assert hint


def test_problem_of_a_base(project: Project) -> None:
    """What is wrong in a base is told with the base's own file and line."""
    project.write("a.yaml", "command: x\ncpus: many\n")
    path = project.write("bay.yaml", "_base_: a.yaml\nmemory: lots\n")
    message, _ = refusal(lambda: load_file(path))

    assert [line.split(" is no")[0] for line in message.splitlines()] == [
        "2 problems",
        "a.yaml:2:1: cpus: `many`",
        "bay.yaml:2:1: memory: `lots`",
    ]


def test_private_overlay(project: Project) -> None:
    """`bay.local.yaml` beside the file is laid over it."""
    project.write("bay.local.yaml", "gpu_count: 2\nparams: {lr: 3}\nenv: {B: mine}\n")
    experiment = project.build("command: x\ngpus: 1\nhparam: {lr: [1, 2]}\nenv: {A: theirs}\n")

    assert points(experiment) == [{"lr": "3"}]
    (recipe,) = recipes(experiment)
    assert (recipe.resources.gpus, recipe.env) == (2, {"A": "theirs", "B": "mine"})


def test_private_overlay_of_a_project(project: Project) -> None:
    """The overlay lies in the project's folder, and may have a base of its own."""
    project.write("mine.yaml", "cpus: 3\n")
    project.write("bay.local.yaml", "_base_: mine.yaml\n")
    path = project.write("config/launch.yaml", "command: x\n")

    assert load_file(path, folder=project.folder).cpus == 3
    assert load_file(path).cpus is None


def test_private_overlay_alone(project: Project) -> None:
    """The overlay is no overlay of itself."""
    path = project.write("bay.local.yaml", "command: x\ncpus: 1\n")

    assert load_file(path).cpus == 1


def test_problems_with_an_overlay(project: Project) -> None:
    """A wrong line is told with its own file; what no line says is a matter of the main file."""
    project.write("bay.local.yaml", "cpus: many\n")
    path = project.write("bay.yaml", "env: {A: 1}\n")
    message, _ = refusal(lambda: load_file(path))

    assert [line.split(";")[0] for line in message.splitlines()] == [
        "2 problems",
        "bay.local.yaml:1:1: cpus: `many` is no number of processors",
        "bay.yaml:1:1: command: missing",
    ]


def test_file_of_an_overlaid_document(project: Project) -> None:
    """The document is still that of the main file."""
    project.write("bay.local.yaml", "cpus: 1\n")

    assert project.file("command: x").document.file == project.folder / "bay.yaml"
