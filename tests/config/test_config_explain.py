"""What a key is set to, by whom, and over whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.config.conftest import refusal

from launchbay.config.configuration import SITE_VARIABLE
from launchbay.config.explain import Explanation, explain
from launchbay.core.errors import BadRequest

if TYPE_CHECKING:
    from tests.config.conftest import Project

FILE = """\
command: x <a.b>
hparam: {a.b: [1, 2], m: {lr: 3}}
gpu_count: 2
cpus: 1
env: {A: file, B: file}
targets:
  desk: {cpus: 4}
dataset:
  d: {memory: 5, gpus: 6}
model:
  m:
    command: y
    memory: <a.b>
    env: {B: model}
  n:
"""
MINE = """\
use: desk
targets:
  desk:
    kind: machine
    memory: 8
    cpus: 2
    gpus: 1
    env: {B: mine, C: mine}
"""
SITE = "cpus: 9\ntime: 1h\ntargets: {desk: {time: 2h}}\n"


@pytest.fixture
def written(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in which many have a say."""
    project.write("bay.yaml", FILE)
    project.write("user.yaml", MINE)
    monkeypatch.setenv(SITE_VARIABLE, str(project.write("site.yaml", SITE)))
    return project


def told(found: Explanation) -> list[tuple[Any, str]]:
    """The value and its place, then those that it is over."""
    return [
        (one.value, f"{one.source}:{one.line}" if one.line else one.source)
        for one in (found, *found.over)
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("command", [("x <a.b>", "bay.yaml:1")]),
        ("params", [({"a.b": ["1", "2"], "m": {"lr": "3"}}, "bay.yaml:2")]),
        ("hparam", [({"a.b": ["1", "2"], "m": {"lr": "3"}}, "bay.yaml:2")]),
        ("params.a.b", [(["1", "2"], "bay.yaml:2")]),
        ("params.m.lr", [("3", "bay.yaml:2")]),
        ("hparam.m", [({"lr": "3"}, "bay.yaml:2")]),
        ("gpus", [("2", "bay.yaml:3"), ("1", "user.yaml:7")]),
        ("gpu_count", [("2", "bay.yaml:3"), ("1", "user.yaml:7")]),
        (
            "cpus",
            [
                ("4", "bay.yaml:7"),
                ("1", "bay.yaml:4"),
                ("2", "user.yaml:6"),
                ("9", "site.yaml:1"),
            ],
        ),
        ("memory", [("8", "user.yaml:5")]),
        ("time", [("2h", "site.yaml:3"), ("1h", "site.yaml:2")]),
        ("env.A", [("file", "bay.yaml:5")]),
        ("env.B", [("file", "bay.yaml:5"), ("mine", "user.yaml:8")]),
        (
            "env",
            [
                ({"A": "file", "B": "file", "C": "mine"}, "bay.yaml:5"),
                ({"B": "mine", "C": "mine"}, "user.yaml:8"),
            ],
        ),
        ("nodes", [(None, "default")]),
        ("use", [("desk", "user.yaml:1")]),
        ("target", [("desk", "user.yaml:1")]),
        ("targets.desk.cpus", [("4", "bay.yaml:7"), ("2", "user.yaml:6")]),
        ("targets.desk.memory", [("8", "user.yaml:5")]),
        ("targets.desk.time", [("2h", "site.yaml:3")]),
        ("model.m.memory", [("<a.b>", "bay.yaml:13")]),
        ("dataset.d", [({"memory": "5", "gpus": "6"}, "bay.yaml:9")]),
    ],
)
def test_explain(written: Project, key: str, expected: list[tuple[Any, str]]) -> None:
    """A key is explained by what was typed, its file and line, and what it is over."""
    found = explain(key, written.config())

    assert found.key == key
    assert told(found) == expected


@pytest.mark.parametrize(
    ("key", "names", "expected"),
    [
        ("memory", {"dataset": "d"}, [("5", "bay.yaml:9"), ("8", "user.yaml:5")]),
        (
            "memory",
            {"model": "m", "dataset": "d"},
            [("<a.b>", "bay.yaml:13"), ("5", "bay.yaml:9"), ("8", "user.yaml:5")],
        ),
        (
            "gpu_count",
            {"dataset": "d"},
            [("6", "bay.yaml:9"), ("2", "bay.yaml:3"), ("1", "user.yaml:7")],
        ),
        ("gpus", {"model": "n"}, [("2", "bay.yaml:3"), ("1", "user.yaml:7")]),
        (
            "env.B",
            {"model": "m"},
            [("model", "bay.yaml:14"), ("file", "bay.yaml:5"), ("mine", "user.yaml:8")],
        ),
        ("command", {"model": "m"}, [("y", "bay.yaml:12"), ("x <a.b>", "bay.yaml:1")]),
        ("command", {"model": "n"}, [("x <a.b>", "bay.yaml:1")]),
    ],
)
def test_explain_for_an_entry(
    written: Project, key: str, names: dict[str, str], expected: list[tuple[Any, str]]
) -> None:
    """For a model and a dataset, what they say comes over the rest."""
    assert told(explain(key, written.config(), **names)) == expected


@pytest.mark.parametrize(
    ("names", "message", "hint"),
    [
        ({"model": "mm"}, "there is no model `mm`", "did you mean `m`?"),
        ({"dataset": "x"}, "there is no dataset `x`", "there are: `d`"),
    ],
)
@pytest.mark.parametrize("key", ["memory", "command", "use"])
def test_explain_for_nobody(
    written: Project, key: str, names: dict[str, str], message: str, hint: str
) -> None:
    """A model or dataset that is not there is an error, whatever the key."""
    config = written.config()

    assert refusal(lambda: explain(key, config, **names), BadRequest) == (message, hint)


@pytest.mark.parametrize(
    ("file", "user", "variable", "expected"),
    [
        ("command: x", "", "", [("local", "default")]),
        ("command: x", "", "box", [("box", "$BAY_DEFAULT_TARGET")]),
        ("command: x", "use: c", "box", [("box", "$BAY_DEFAULT_TARGET"), ("c", "user.yaml:1")]),
        ("command: x", "use: c", "", [("c", "user.yaml:1")]),
        (
            "command: x\ntarget: desk",
            "use: c",
            "box",
            [("desk", "bay.yaml:2"), ("c", "user.yaml:1")],
        ),
    ],
)
def test_explain_the_target(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    *,
    file: str,
    user: str,
    variable: str,
    expected: list[tuple[str, str]],
) -> None:
    """The default target may come from nowhere, the user, a variable, or the file."""
    project.write("bay.yaml", file)
    project.write("user.yaml", user)
    monkeypatch.setenv("BAY_DEFAULT_TARGET", variable)

    assert told(explain("target", project.config())) == expected


def test_explain_with_bases(project: Project) -> None:
    """What comes from a base or the private overlay is told with that file and its line."""
    project.write("base.yaml", "# one\ncpus: 1\ngpus: 1\n")
    project.write("bay.local.yaml", "gpu_count: 2\n")
    project.write("bay.yaml", "_base_: base.yaml\ncommand: x\n")
    config = project.config()

    assert told(explain("cpus", config)) == [("1", "base.yaml:2")]
    assert told(explain("gpus", config)) == [("2", "bay.local.yaml:1")]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("namespace", [("lab", "config/kube.yaml:1")]),
        ("project", [("demo", "config/kube.yaml:2")]),
        ("memory", [("4", "config/kube.yaml:3")]),
    ],
)
def test_explain_kube(project: Project, key: str, expected: list[tuple[str, str]]) -> None:
    """On target `kube` its file has a say."""
    project.write("config/kube.yaml", "namespace: lab\nproject_name: demo\nmemory: 4\n")
    project.write("bay.yaml", "command: x\ntarget: kube\n")

    assert told(explain(key, project.config())) == expected


def test_explain_without_a_file(project: Project) -> None:
    """Outside of a project the user's own configuration is explained."""
    project.write("user.yaml", MINE)

    assert told(explain("memory", project.config())) == [("8", "user.yaml:5")]
    assert told(explain("command", project.config())) == [(None, "default")]


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("comand", "did you mean `command`?"),
        ("targets.desk.mem", "did you mean `targets.desk.memory`?"),
        ("model.m.memry", "did you mean `model.m.memory`?"),
    ],
)
def test_explain_nothing(written: Project, key: str, hint: str) -> None:
    """A key that does not exist is an error that names the nearest."""
    config = written.config()

    assert refusal(lambda: explain(key, config), BadRequest) == (
        f"`{key}` is not set and no key of a file",
        hint,
    )
