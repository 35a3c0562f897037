"""The first tool's own examples, unchanged: the runs, names, commands and order that it prints."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.conftest import DATA
from tests.stubs import write_program

from launchbay.core.command import render
from launchbay.engine.project import read_project
from launchbay.engine.settings import Wish, read_settings_of
from launchbay.engine.steps import Frame, Request
from launchbay.runstore.store import RunStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

    from launchbay.engine.steps import Step

TOOLBOX = DATA / "toolbox"
ALL = "run:\n   dataset: [data1, data2]\n   model: [average, median]\n"


def plan(file: Path) -> list[Step]:
    """The steps of a file on this machine."""
    settings = read_settings_of(file)
    experiment, target = settings.experiment(Wish())
    frame = Frame(
        request=Request(experiment=experiment),
        project=read_project(settings.folder),
        target=target,
        same_code=(),
        store=RunStore(None),
        now=0.0,
    )
    return list(frame.steps())


def quickstart(folder: Path, *changes: tuple[str, str]) -> Path:
    """The quick start's project, its launch file changed here and there."""
    shutil.copytree(TOOLBOX / "quickstart", folder / "example")
    file = folder / "example" / "config" / "launch.yaml"
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


RUN_ONE = "run:\n  dataset: [data1]\n  model: [average]\n"


def test_quick_start_as_written(tmp_path: Path) -> None:
    """One model on one dataset is one run, with the document's name and command."""
    (step,) = plan(quickstart(tmp_path))

    assert (step.name, render(step.command)) == (
        "example-average-data1",
        "python src/avg.py data/1.txt",
    )


def test_quick_start_with_everything(tmp_path: Path) -> None:
    """Four runs, dataset by dataset, named and worded as the document prints them."""
    steps = plan(quickstart(tmp_path, (RUN_ONE, ALL)))

    assert [(step.name, render(step.command)) for step in steps] == [
        ("example-average-data1", "python src/avg.py data/1.txt"),
        ("example-median-data1", "python src/med.py data/1.txt"),
        ("example-average-data2", "python src/avg.py data/2.txt"),
        ("example-median-data2", "python src/med.py data/2.txt"),
    ]


def test_commented_lines_work_when_uncommented(tmp_path: Path) -> None:
    """Further parameters, memory and image of a model count for its runs."""
    steps = plan(
        quickstart(
            tmp_path,
            ("    # hparam:\n    #   hid_dim", "    hparam:\n      hid_dim"),
            ("    # memory: 8  #", "    memory: 8  #"),
            ("    # image:", "    image:"),
        )
    )

    assert [step.name for step in steps] == [
        "example-average-data1-hid-dim-256",
        "example-average-data1-hid-dim-512",
    ]
    assert {step.recipe.resources.memory_mib for step in steps} == {8192}
    assert {step.recipe.image for step in steps} == {
        "registry.example.org/prp/jupyter-stack/minimal"
    }
    assert {step.recipe.resources.gpus for step in steps} == {0}


def test_quick_start_runs_here(bay: Bay) -> None:
    """`make local` is `bay run`: the same four answers, in files nobody changed."""
    shutil.copytree(TOOLBOX / "quickstart", bay.project, dirs_exist_ok=True)
    file = bay.project / "config" / "launch.yaml"
    file.write_text(file.read_text().replace(RUN_ONE, ALL))
    (bay.project / "src").mkdir()
    (bay.project / "data").mkdir()
    read = "list(map(float, open(sys.argv[1]).read().split(',')))"
    (bay.project / "src" / "avg.py").write_text(f"import sys; print(sum({read}) / 3)\n")
    (bay.project / "src" / "med.py").write_text(
        f"import sys, statistics; print(statistics.median({read}))\n"
    )
    (bay.project / "data" / "1.txt").write_text("1,2,3\n")
    (bay.project / "data" / "2.txt").write_text("4,5,6\n")
    bay("run", "--detach")
    bay("wait", "example")
    rows = json.loads(bay("ls", "--all", "--json").out)
    printed = {row["name"]: bay("logs", row["id"]).out.strip() for row in rows}

    assert printed == {
        "example-average-data1": "2.0",
        "example-median-data1": "2.0",
        "example-average-data2": "5.0",
        "example-median-data2": "5.0",
    }
    assert "nothing to submit" in bay("run").err


def test_group_of_hyperparameters() -> None:
    """Three trainings, each with its own numbers, as typed."""
    steps = plan(TOOLBOX / "groups" / "launch.yaml")
    words = "python train.py --lr {} --lr_scheduler {} --warmup {}"

    assert [(step.name, render(step.command)) for step in steps] == [
        ("example-diffusion-train-paper", words.format("0.000000008192", "linear", "0")),
        ("example-diffusion-train-original", words.format("1e-5", "constant", "500")),
        ("example-diffusion-train-scale", words.format("1e-5", "constant", "500")),
    ]


def test_early_batch_file() -> None:
    """All combinations of two models, three datasets and two parameters with two values each."""
    steps = plan(TOOLBOX / "batch" / "launch.yaml")
    commands = [render(step.command) for step in steps]

    assert len(steps) == len(set(commands)) == 24
    assert sorted(commands[:4]) == [f"python src/modelA.py A {a} {b}" for a in "12" for b in "34"]
    assert len({step.name for step in steps}) == 24


def test_early_batch_file_with_its_filter(tmp_path: Path) -> None:
    """The commented filter, uncommented, skips every run with another value."""
    text = (TOOLBOX / "batch" / "launch.yaml").read_text()
    (tmp_path / "launch.yaml").write_text(
        text.replace("#   hparam:\n#     hp2", "  hparam:\n    hp2")
    )
    steps = plan(tmp_path / "launch.yaml")

    assert len(steps) == 12
    assert {step.params["hp2"] for step in steps} == {"3"}


def fill_blanks(bay: Bay) -> None:
    """The quick start's files with what the document says to replace."""
    shutil.copytree(TOOLBOX / "quickstart", bay.project, dirs_exist_ok=True)
    file = bay.project / "config" / "kube.yaml"
    file.write_text(file.read_text().replace("<NAMESPACE>", "lab").replace("<USER>", "me"))


def test_files_of_the_first_tool_become_jobs(bay: Bay) -> None:
    """A plan for `kube` shows the Jobs that would be made, and asks nobody."""
    fill_blanks(bay)
    write_program(bay.home / "bin" / "kubectl", '#!/bin/sh\ntouch "$HOME/asked"\n')
    bay.extra["PATH"] = f"{bay.home / 'bin'}:{bay.environment['PATH']}"
    said = bay("plan", "--target", "kube", "--document")
    made = [one for one in yaml.safe_load_all(said.out) if one["kind"] == "Job"]
    (container,) = made[0]["spec"]["template"]["spec"]["containers"]

    assert len(made) == len(bay.json("plan", "--target", "kube"))
    assert container["resources"]["requests"]["memory"] == f"{32 * 1024}Mi"
    assert "outputs end with the pods" in bay("plan", "--target", "kube").out
    assert not (bay.home / "asked").exists()


def test_running_without_a_cluster_says_so(bay: Bay) -> None:
    """Without a cluster that answers there is one error, and nothing is left of the launch."""
    fill_blanks(bay)
    text = '#!/bin/sh\necho "Unable to connect to the server: dial tcp: no such host" >&2; exit 1\n'
    write_program(bay.home / "bin" / "kubectl", text)
    bay.extra["PATH"] = f"{bay.home / 'bin'}:{bay.environment['PATH']}"
    said = bay("run", "--target", "kube", code=1)

    assert "`kube` does not answer" in said.err
    assert bay.json("ls") == []


@pytest.mark.parametrize("name", ["quickstart/config/kube.yaml", "kube/early.yaml"])
def test_kube_files_are_the_target_kube(tmp_path: Path, name: str) -> None:
    """Each is accepted as it stands, placeholders and all."""
    file = quickstart(tmp_path)
    shutil.copy(TOOLBOX / name, file.with_name("kube.yaml"))
    entry = read_settings_of(file).targets()["kube"]

    assert entry["kind"] == "kubernetes"
    assert entry["conda_home"]
    assert entry["namespace"].startswith("<")
