"""Remarks on commands that were written for elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from launchbay.core.job import Recipe, Script
from launchbay.core.python import Python
from launchbay.core.sweep import Branch, Experiment, Grid, Span
from launchbay.engine.habits import Place, find_habits, habits_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

    from launchbay.core.sweep import Point

KUBE = Place(kind="kubernetes", lent=True, image="team/x:1", has_makefile=True)
POD = Place(kind="kubernetes", image="team/x:1")
SLURM = Place(kind="slurm")
OFF = "whichever comes first"


@pytest.mark.parametrize(
    ("place", "text", "says"),
    [
        (KUBE, "make download file=data/; python x.py", f"`make download` uses bay .* {OFF}$"),
        (
            KUBE,
            "a && make -s file=d up",
            f"`make up` uses bay .*, else s5cmd, python3 or aws, {OFF}",
        ),
        (KUBE, "bay toolbox down file=d", "`bay toolbox down` uses bay where the image has it"),
        (POD, "make download file=d", "make and bay in image `team/x:1`; `folders: {data: s3:"),
        (SLURM, "make upload file=d", "needs make and bay on PATH there; `outputs_to: s3://…`"),
        (SLURM, "bay toolbox upload file=d", "needs bay on PATH there"),
        (
            POD,
            "git fetch; git reset --hard o/main",
            "`git fetch`: .* take it out, or `code: image`",
        ),
        (SLURM, "cd src\ngit pull", "`git pull`: a frozen folder has no .git.* take it out$"),
        (POD, "source ~/.bashrc; conda activate me", "/opt/conda .* `conda_env_name: me` says so"),
        (SLURM, "if conda activate me; then x; fi", "write `python: conda:me` instead"),
        (KUBE, 's5cmd cp "<dir>/*" s3://b/', "in image `team/x:1`; `make upload` and `make down"),
        (SLURM, "x | s5cmd pipe s3://b/x", "`s5cmd` has to be on PATH there; `folders:`"),
        (POD, "LIMIT=1 sleep infinity", "neither would the run; `bay dev`"),
    ],
)
def test_remarks(place: Place, text: str, says: str) -> None:
    """A habit that works otherwise is told with what to write instead."""
    (remark,) = find_habits([text], place)

    assert re.search(says, remark.text), remark
    assert remark.works == ("bay where the image" in remark.text or "conda in" in remark.text)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (KUBE, "make train; make -j4 all; python make download.py"),
        (KUBE, "# git pull\necho git pull; gitx fetch; git status; git"),
        (POD, "git clone x && cd x && git checkout y"),
        (Place(kind="kubernetes", in_image=True), "git fetch; git reset --hard origin/main"),
        (Place(kind="kubernetes", has_conda=True), "conda activate other"),
        (POD, ". /opt/conda/etc/profile.d/conda.sh; conda activate me"),
        (SLURM, 'eval "$(conda shell.bash hook)"; conda activate me; conda env list'),
        (SLURM, "sleep 5; echo sleep infinity"),
    ],
)
def test_nothing_to_remark(place: Place, text: str) -> None:
    """What works as it is written, or is no call of these programs, is left alone."""
    assert find_habits([text], place) == []


def test_each_once() -> None:
    """However often and in however many texts, a program is remarked on once."""
    text = "git fetch; git reset --hard x; make download file=a; make upload file=b"

    assert len(find_habits([text, text], POD)) == 2


def test_makefile_is_named_where_it_lacks() -> None:
    """An image with make reads the project's Makefile; without one plan says how to have it."""
    without = Place(kind="kubernetes", lent=True)
    (remark,) = find_habits(["make download file=d"], without)

    assert remark.text.endswith("`bay init --makefile` writes one")
    assert not remark.works
    assert "--makefile" not in find_habits(["bay toolbox download file=d"], without)[0].text


def experiment(*recipes: Recipe, command: str = "true") -> Experiment:
    def branch(recipe: Recipe) -> Branch:
        return Branch(command=Script(command), recipe=lambda _: recipe)

    return Experiment(name="e", project="p", branches=tuple(map(branch, recipes)))


def test_whole_experiment(tmp_path: Path) -> None:
    """Set-ups and start-up scripts are read like commands; equal remarks of branches are one."""
    made = experiment(
        Recipe(setup="git pull\n"),
        Recipe(options={"startup_script": "git pull"}),
        Recipe(options={"extra_startup_script": "sleep infinity"}),
    )
    found = habits_of(made, "lab", "kubernetes", tmp_path)

    assert [remark.text.split("`")[1] for remark in found] == ["git pull", "sleep infinity"]


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(options={"conda_env_name": "x"}),
        Recipe(options={"conda_home": "/conda"}),
        Recipe(python=Python("conda", "x")),
    ],
)
def test_conda_that_is_set_up(recipe: Recipe, tmp_path: Path) -> None:
    """Where the run enters an environment anyway, a command may change to another."""
    made = experiment(recipe, command="conda activate other")

    assert habits_of(made, "lab", "kubernetes", tmp_path) == []


def test_only_the_first_tools_target_lends(tmp_path: Path) -> None:
    """Only pods of `kube` are lent what an image lacks."""
    made = experiment(Recipe(), command="make download file=d")

    assert "whichever" in habits_of(made, "kube", "kubernetes", tmp_path)[0].text
    assert "needs make" in habits_of(made, "lab", "kubernetes", tmp_path)[0].text
    assert "needs make" in habits_of(made, "kube", "slurm", tmp_path)[0].text


def test_one_point_of_a_sweep(tmp_path: Path) -> None:
    """However many runs there are, what one is given is asked for once."""
    asked = []

    def recipe(point: Point) -> Recipe:
        asked.append(point)
        return Recipe()

    grid = Grid.of({"seed": Span(0, 999_999)})
    branch = Branch(command=Script("git pull"), grid=grid, recipe=recipe)
    made = Experiment(name="e", project="p", branches=(branch,))

    assert len(habits_of(made, "lab", "slurm", tmp_path)) == 1
    assert asked == [{"seed": "0"}]


def test_plan_tells(bay: Bay) -> None:
    """`bay plan` for another machine tells them on stderr; for this one they mean nothing."""
    target = "targets: {box: {kind: machine, host: me@box}}\n"
    bay.write("bay.yaml", f"{target}command: git pull; python train.py\n")

    assert "git pull" not in bay("plan").err
    assert "warning: `git pull`: a frozen folder" in bay("plan", "--target", "box", code=None).err
