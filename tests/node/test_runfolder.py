"""A run's folder as it is written before the run is queued."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import runfolder
from runfolder import Writer, python_path, render_exports
from tests.node.workshop import make_job

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the run will be."""
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs" / "r"


def write(folder: Path, *, environment: dict[str, str] | None = None, **fields: Any) -> None:
    private = {"environment": environment or {}, "umask": "022", "secrets": {"KEY": "value"}}
    job = {**make_job("r", **{"words": ["true"], **fields}), "target": "desk", "root": "/bay"}
    Writer(private).write(str(folder), str(folder / "work"), job)


def variable(folder: Path, name: str) -> str:
    """What a shell makes of the run's environment."""
    text = f'. {folder}/env.sh; printf %s "${{{name}-unset}}"'
    return subprocess.check_output(["sh", "-c", text], env={}, text=True)


def test_everything_is_private(folder: Path) -> None:
    """Folders and files can be read by their owner only."""
    write(folder, secrets=["KEY"], setup="true\n", metrics={"a": "b"})
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}

    assert modes == {0o600}


def test_job_stands_in_run_and_attempt(folder: Path) -> None:
    """What was asked for can be read from the run and from each of its attempts."""
    write(folder, params={"lr": "1"})
    write(folder, params={"lr": "2"}, attempt=2)
    seen = [
        json.loads((folder / name).read_text())["params"]
        for name in ("attempts/1/job.json", "attempts/2/job.json", "job.json")
    ]

    assert seen == [{"lr": "1"}, {"lr": "2"}, {"lr": "2"}]
    assert json.loads((folder / "params.json").read_text()) == {"lr": "2"}


def test_next_attempt_keeps_outputs(folder: Path) -> None:
    """All attempts share their outputs."""
    write(folder)
    (folder / "out/model").write_text("trained")
    write(folder, attempt=2)

    assert (folder / "out/model").read_text() == "trained"


def test_fresh_attempt_begins_empty_and_keeps_the_old(folder: Path) -> None:
    """What was there is kept beside; writing the same attempt again moves nothing."""
    write(folder)
    (folder / "out/model").write_text("first")
    write(folder, attempt=2, fresh=True)
    (folder / "out/model").write_text("second")
    write(folder, attempt=2, fresh=True)
    write(folder, attempt=3, fresh=True)

    assert [(folder / name / "model").read_text() for name in ("out.1", "out.2")] == [
        "first",
        "second",
    ]
    assert list((folder / "out").iterdir()) == []


def test_files_of_an_earlier_attempt_do_not_stay(folder: Path) -> None:
    """Set-up and secrets are those of the attempt."""
    write(folder, setup="true\n", secrets=["KEY"])
    write(folder, attempt=2)

    assert not [name for name in ("setup.sh", "secrets.sh") if (folder / name).exists()]


def test_file_in_use_is_replaced_not_rewritten(folder: Path) -> None:
    """A shell that still reads the old command goes on reading the old one."""
    write(folder)
    with (folder / "command.sh").open() as old:
        write(folder, attempt=2, words=["false"])

        assert old.read() == "exec true\n"
    assert (folder / "command.sh").read_text() == "exec false\n"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", "/work:/work/src"),
        ("/lib", "/work:/work/src:/lib"),
        ("/home/me/project/src", "/work:/work/src"),
        ("/home/me/project:/lib:/home/me/project/sub", "/work:/work/src:/lib:/work/sub"),
        ("/home/me/project2", "/work:/work/src:/home/me/project2"),
        (":/lib/:", "/work:/work/src:/lib"),
    ],
)
def test_python_finds_the_frozen_code_first(tmp_path: Path, typed: str, expected: str) -> None:
    """Paths to the project lead to the frozen code, so an editable install does not win."""
    (tmp_path / "src").mkdir()

    assert python_path(typed, "/home/me/project", "/work", str(tmp_path)) == expected


def test_tracker_gets_names_unless_somebody_gave_some(folder: Path) -> None:
    """The shell's names and the experiment's win over ours."""
    write(folder, environment={"WANDB_NAME": "typed"}, env={"WANDB_RESUME": "never"})
    names = ("WANDB_NAME", "WANDB_RESUME", "WANDB_RUN_GROUP", "WANDB_RUN_ID", "WANDB_DIR")

    assert [variable(folder, name) for name in names] == [
        "typed",
        "never",
        "experiment",
        "r",
        str(folder / "out"),
    ]


def test_experiment_wins_over_the_shell(folder: Path) -> None:
    """A variable of the experiment replaces the shell's, but not the run's own."""
    write(folder, environment={"A": "typed"}, env={"A": "given", "BAY_OUT": "/elsewhere"})

    assert [variable(folder, name) for name in ("A", "BAY_OUT", "BAY_FROM")] == [
        "given",
        str(folder / "out"),
        "unset",
    ]


def test_earlier_outputs_are_named(folder: Path) -> None:
    """A run that begins from another's outputs knows where they are."""
    write(folder, origin="/bay/runs/x/out")

    assert variable(folder, "BAY_FROM") == "/bay/runs/x/out"


def test_names_that_no_shell_can_say() -> None:
    """A variable that only another program could set is left out."""
    values = {"A": "1", "BASH_FUNC_x%%": "() { :; }", "B-C": "2", "": "3", "D\n": "4"}

    assert render_exports(values) == "export A=1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one snapshot: a read-only file, and a folder for outputs that code has."""
    snapshot = tmp_path / "snapshots" / "code"
    (snapshot / "results").mkdir(parents=True)
    (snapshot / "results" / "old.csv").write_text("old\n")
    (snapshot / "a.py").write_text("a\n")
    (snapshot / "a.py").chmod(0o444)
    return tmp_path


def with_code(root: Path, run: str = "r", **fields: Any) -> Path:
    private = {"environment": {}, "umask": "022", "secrets": {}}
    job = {**make_job(run, ["true"], snapshot="code", **fields), "target": "desk"}
    folder = root / "runs" / run
    Writer(private).write(str(folder), str(folder / "work"), {**job, "root": str(root)})
    return folder


def test_little_code_is_laid_out_ahead(root: Path) -> None:
    """The working folder of a few small files is there before the run starts, links and all."""
    folder = with_code(root, links={"data": "/big/data", "deep/cache": "/c"})
    work = folder / "work"
    found = sorted(str(path.relative_to(work)) for path in work.rglob("*"))

    assert found == ["a.py", "data", "deep", "deep/cache", "results", "results/old.csv"]
    assert str((work / "data").readlink()) == "/big/data"
    assert "bay_ready=1\n" in (folder / "env.sh").read_text()


def test_files_are_shared_unless_we_are_root(root: Path) -> None:
    """Read-only files are links, but root could write them."""
    folder = with_code(root)
    places = [root / "snapshots/code/a.py", folder / "work/a.py"]
    same = places[0].stat().st_ino == places[1].stat().st_ino

    assert same == (os.getuid() != 0)


def test_much_code_is_left_to_run_sh(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying much would keep the others waiting."""
    monkeypatch.setattr(runfolder, "SMALL_FILES", 1)
    folder = with_code(root)

    assert not (folder / "work").exists()
    assert "bay_ready=\n" in (folder / "env.sh").read_text()


def test_half_made_folder_is_left_to_run_sh(root: Path) -> None:
    """Somebody died while making it: run.sh makes it anew."""
    work = root / "runs/r/work"
    work.mkdir(parents=True)
    (work / "half").touch()
    folder = with_code(root)

    assert "bay_ready=\n" in (folder / "env.sh").read_text()


def test_half_made_tree_of_a_dead_process(root: Path) -> None:
    """What a process of our number left is no obstacle."""
    with_code(root, "first", links={"data": "/d"})
    (tree,) = (root / "trees").iterdir()
    tree.rename(f"{tree}.{os.getpid()}")
    with_code(root, "second", links={"data": "/d"})

    assert list((root / "trees").iterdir()) == [tree]


def test_dotted_parameters_are_nested_for_the_program(folder: Path) -> None:
    """`m.lr` is `lr` inside of `m` in params.json, and as typed in what the lab reads."""
    write(folder, params={"m.lr": "1", "m.net.width": "2", "seed": "0"})
    read = [json.loads((folder / name).read_text()) for name in ("params.json", "job.json")]

    assert read[0] == {"m": {"lr": "1", "net": {"width": "2"}}, "seed": "0"}
    assert read[1]["params"] == {"m.lr": "1", "m.net.width": "2", "seed": "0"}


def test_python_path_of_the_job_is_added_to(folder: Path) -> None:
    """The frozen code comes first; what the project sets follows, once, led to the run's folder."""
    write(folder, env={"PYTHONPATH": "lib:/opt/x:lib"}, environment={"PYTHONPATH": "/shell"})
    work = folder / "work"

    assert variable(folder, "PYTHONPATH") == f"{work}:{work}/lib:/opt/x"


@pytest.mark.parametrize("shell", ["bash", "dash", "bash --posix"])
def test_names_that_belong_to_the_shell_are_left_out(shell: str) -> None:
    """Setting one would end run.sh before it could record anything."""
    names = ["UID", "PPID", "SHELLOPTS", "OPTIND", "bay_run", "FINE"]
    text = render_exports(dict.fromkeys(names, "x")) + '\nprintf %s "$FINE${bay_run-}"'

    assert subprocess.check_output([*shell.split(), "-c", text], text=True) == "x"
