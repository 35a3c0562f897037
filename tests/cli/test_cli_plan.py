"""`bay plan`: where people think."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Bay

FILE = """\
project: demo
model:
  good: {command: 'true'}
  bad: {command: 'exit <seed>', gpu_count: 0}
dataset:
  d: {params: {seed: [1, 2]}}
  e: {params: {seed: 3}}
"""


@pytest.fixture
def demo(bay: Bay) -> Bay:
    """A file of two models on two datasets."""
    bay.write("bay.yaml", FILE)
    return bay


def test_counts_by_model_and_dataset(demo: Bay) -> None:
    """What is done, failed and missing, for each model on each dataset."""
    before = demo("plan").out
    demo("run", "--only", "dataset=d", code=1)
    after = demo("plan").out

    assert before.splitlines()[1:6] == [
        "model  dataset  runs  missing",
        "good   d        2     2",
        "bad    d        2     2",
        "good   e        1     1",
        "bad    e        1     1",
    ]
    assert after.splitlines()[0].startswith("6 runs · 2 done · 4 to submit · target local")
    assert after.splitlines()[1:6] == [
        "model  dataset  runs  done  failed  missing",
        "good   d        2     2",
        "bad    d        2           2",
        "good   e        1                   1",
        "bad    e        1                   1",
    ]


def test_plan_writes_nothing(demo: Bay) -> None:
    """Neither in the project nor at home."""
    for words in ([], ["--json"], ["--document"], ["--diff"]):
        demo("plan", *words)

    assert [path.name for path in demo.project.iterdir()] == ["bay.yaml"]
    assert list(demo.home.iterdir()) == []


def test_diff_against_what_is_stored(demo: Bay) -> None:
    """New points, runs that were made otherwise, and runs that nothing describes any more."""
    demo("run", "--only", "dataset=d", "--only", "model=good")
    same = demo("plan", "--diff", "--only", "dataset=d", "--only", "model=good")
    demo.write("bay.yaml", FILE.replace("[1, 2]", "[1, 5]") + "memory: 1\n")
    lines = demo("plan", "--diff").out.splitlines()
    rows = json.loads(demo("plan", "--diff", "--json").out)

    assert (same.out, same.err) == ("", "everything is as the file says\n")
    assert [row["sign"] for row in rows].count("+") == 5
    assert {row["what"] for row in rows if row["sign"] == "~"} == {"memory was unset, is 1G"}
    assert [row["what"] for row in rows if row["sign"] == "-"] == ["succeeded; no longer described"]
    assert any(line.startswith("- demo-good-d-seed-2") for line in lines)


def test_json_has_the_resources_of_each_run(demo: Bay) -> None:
    """One JSON list, a row a run, in the order of the plan."""
    rows = demo.json("plan")

    assert [(row["params"]["model"], row["resources"]) for row in rows[:3]] == [
        ("good", {}),
        ("good", {}),
        ("bad", {"gpus": "0"}),
    ]
    assert rows[2]["command"] == "exit 1"
    assert set(rows[0]) == {
        *("name", "params", "command", "target", "resources", "identity", "action", "why")
    }


def test_no_runs_are_an_empty_list(demo: Bay) -> None:
    """What excludes everything still prints JSON."""
    demo.write("bay.yaml", "command: 'true'\nparams: {a: 1}\nexclude: [{a: 1}]\n")

    assert demo.json("plan") == []
    assert demo("plan").out.startswith("0 runs · 0 to submit")


def test_warnings_are_words_and_not_data(bay: Bay) -> None:
    """Spaces in values and parameters that set resources are told on standard error."""
    bay.write(
        "bay.yaml",
        "model: {m: {command: 'echo <args>'}}\nparams: {args: a b, gpu_count: [0]}\n",
    )
    said = bay("plan", "--json")

    assert json.loads(said.out)[0]["command"] == "echo 'a b'"
    assert "`<args:raw>`" in said.err
    assert "the parameter `gpu_count` sets the resource `gpus`" in said.err


def test_private_overlay(bay: Bay) -> None:
    """It goes over the file, git leaves it alone, and no snapshot has it."""
    bay.git("init", "-q")
    bay.write("bay.yaml", "command: 'true'\nparams: {a: [1, 2]}\nmemory: 1\n")
    bay.write("bay.local.yaml", "params: {a: 3}\n")
    rows = bay.json("plan")
    bay("run")
    snapshots = {path.name for path in (bay.project / ".bay" / "snapshots").rglob("*")}

    assert [(row["params"], row["resources"]) for row in rows] == [({"a": "3"}, {"memory": "1G"})]
    assert "bay.local.yaml" not in bay.git("status", "--short")
    assert "bay.local.yaml" not in snapshots
    assert "bay.yaml" in snapshots


def test_machine_says_that_it_ignores_an_image(bay: Bay) -> None:
    """The key is part of the run, and has no effect here."""
    bay.write("bay.yaml", "command: 'true'\nimage: python:3.12\n")

    assert "a machine runs without the image python:3.12" in bay("plan").err


def test_same_grid_in_another_order_is_the_same(bay: Bay) -> None:
    """The order of keys in a file says nothing about what a run is."""
    bay.write("bay.yaml", "command: 'true <a> <b>'\nparams: {a: [1, 2], b: 3}\n")
    bay("run")
    bay.write("bay.yaml", "command: 'true <a> <b>'\nparams: {b: [3], a: [2, 1]}\n")

    assert [row["action"] for row in bay.json("plan")] == ["skip", "skip"]


def test_editing_what_a_file_builds_on_is_no_change_of_code(bay: Bay) -> None:
    """Adding a value to a base changes no program: what succeeded counts."""
    bay.write("common.yaml", "params: {a: [1]}\n")
    bay.write("config/launch.yaml", "_base_: ../common.yaml\ncommand: 'true <a>'\n")
    bay.write("config/kube.yaml", "namespace: lab\n")
    bay("run")
    bay.write("common.yaml", "params: {a: [1, 2]}\n")
    bay.write("config/kube.yaml", "namespace: other\n")

    assert [(row["action"], "older" in row["why"]) for row in bay.json("plan")] == [
        ("skip", False),
        ("submit", False),
    ]


@pytest.mark.parametrize(
    ("line", "name"), [("prefix: me", "me-demo"), ("prefix: ''", "demo"), ("", "demo")]
)
def test_prefix(bay: Bay, line: str, name: str) -> None:
    """It stands in front of names where it is set, and an empty one takes it away."""
    bay.write("bay.yaml", f"project: demo\ncommand: 'true'\n{line}\n")

    assert [row["name"] for row in bay.json("plan")] == [name]


def test_what_the_target_cannot_do_is_said_before_anything_is_printed(bay: Bay) -> None:
    """A need of a later point does not leave half a document behind."""
    bay.write("bay.yaml", "command: 'true'\nparams: {cpu_count: [1, 100000]}\n")
    said = bay("plan", "--json", code=2)

    assert said.out == ""
    assert "wants 100000" in said.err


def test_a_script_of_several_lines_is_one_row(bay: Bay) -> None:
    """The table stays a table; JSON has the script as it is."""
    bay.write("bay.yaml", "command: |\n  echo <a>\n\n  echo two\nparams: {a: [1, 2]}\n")
    lines = bay("plan").out.splitlines()

    assert lines[-2:] == ["1  echo 1 ⏎ echo two", "2  echo 2 ⏎ echo two"]
    assert bay.json("plan")[0]["command"] == "echo 1\n\necho two"
