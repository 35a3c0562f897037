"""`bay fetch`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually

from launchbay.engine.fetch import experiment_folder, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

MAKE = """
cd "$BAY_OUT"
echo '{"acc": 0.5}' > metrics.jsonl
mkdir -p deep/er empty
echo a > deep/er/a.txt
echo b > deep/b.json
ln -s deep/b.json inside.json
ln -s /etc/passwd outside
ln -s ../env.sh private
ln -s deep folder
mkfifo pipe
echo done
"""
OUTPUTS = {
    "out/deep/b.json": "b\n",
    "out/deep/er/a.txt": "a\n",
    "out/inside.json": "b\n",
    "out/metrics.jsonl": '{"acc": 0.5}\n',
}


def read_tree(folder: Path) -> dict[str, str]:
    """Every file below a folder with its text; a link is no file."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def run_make(bay: Bay) -> Path:
    """Run the script; the folder that its run is fetched to."""
    bay.write("make.sh", MAKE)
    (run_id,) = bay("run", "-q", "sh", "make.sh").out.split()
    return bay.project / "results" / "make" / run_id


def test_newest_run(bay: Bay) -> None:
    """Outputs, log and parameters of the newest run come home; links lead nowhere else."""
    place = run_make(bay)
    said = bay("fetch")
    found = read_tree(place)
    record = found.pop("run.json")

    assert found == {**OUTPUTS, "log.txt": "done\n", "params.json": "{}"}
    assert f'"id": "{place.name}"' in record
    assert said.out == f"{place}\n"
    assert said.err == (
        f"the newest run: {place.name}\n"
        f"{place.name[-5:]}: left out, links to elsewhere or no files: "
        "outside, pipe, private\n"
        "6 files (26 B) of 1 run copied to\n"
    )


def test_results_ignore_themselves(bay: Bay) -> None:
    """Git sees nothing of what was fetched."""
    bay.git("init", "--quiet")
    run_make(bay)
    bay("fetch")

    assert bay.git("status", "--porcelain") == "?? make.sh\n"


def test_results_of_somebody_else(bay: Bay) -> None:
    """In a folder of that name that was there before, only what was fetched is ignored."""
    bay.git("init", "--quiet")
    bay.write("results/mine.txt", "mine")
    run_make(bay)
    bay("fetch")
    bay.git("add", "--all")

    assert bay.git("ls-files") == "make.sh\nresults/mine.txt\n"


def test_only_what_changed(bay: Bay) -> None:
    """A second time copies nothing, but for what has changed since."""
    place = run_make(bay)
    bay("fetch")
    before = {path: path.stat().st_ino for path in place.rglob("*.*") if path.name != "run.json"}
    nothing = bay("fetch", place.name).err
    (bay.project / ".bay" / "runs" / place.name / "out" / "deep" / "b.json").write_text("c\n")
    something = bay("fetch", place.name).err
    changed = {path.name for path, inode in before.items() if path.stat().st_ino != inode}

    assert "0 files (0 B) of 1 run copied" in nothing
    assert "2 files (4 B) of 1 run copied" in something
    assert changed == {"b.json", "inside.json"}


def test_time_alone_is_a_change(bay: Bay) -> None:
    """A file of the same size that was written later is copied again."""
    place = run_make(bay)
    bay("fetch")
    source = bay.project / ".bay" / "runs" / place.name / "out" / "deep" / "er" / "a.txt"
    source.write_text("z\n")
    os.utime(source, (1, 1))
    bay("fetch")

    assert (place / "out" / "deep" / "er" / "a.txt").read_text() == "z\n"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.json", ["out/deep/b.json", "out/inside.json"]),
        ("deep/er", ["out/deep/er/a.txt"]),
        ("deep/*", ["out/deep/b.json", "out/deep/er/a.txt"]),
        ("nothing", []),
    ],
)
def test_pattern(bay: Bay, pattern: str, names: list[str]) -> None:
    """A pattern chooses outputs by name, by path or by a folder above; the log always comes."""
    place = run_make(bay)
    bay("fetch", "-p", pattern)

    assert sorted(read_tree(place)) == sorted([*names, "log.txt", "params.json", "run.json"])


def test_another_folder(bay: Bay, tmp_path: Path) -> None:
    """`-o` names another folder, which git is not told to ignore."""
    place = run_make(bay)
    said = bay("fetch", "-o", str(tmp_path / "there"), "-p", "*.jsonl")
    experiment = tmp_path / "there" / "make"

    assert said.out == f"{experiment / place.name}\n"
    assert sorted(path.name for path in experiment.iterdir()) == [place.name, "results.csv"]
    assert sorted(path.name for path in bay.project.iterdir()) == [".bay", "make.sh"]


def test_code(bay: Bay) -> None:
    """`--code` brings the code as it was frozen, whatever became of it."""
    place = run_make(bay)
    bay.write("make.sh", "changed")
    bay("fetch", "--code")

    assert read_tree(place / "code") == {"make.sh": MAKE}


def test_log_of_every_attempt(bay: Bay) -> None:
    """The last attempt's log is `log.txt`, those before have their numbers."""
    bay.write("try.sh", 'echo "attempt $BAY_ATTEMPT"; exit "$((2 - BAY_ATTEMPT))"\n')
    bay("run", "-q", "sh", "try.sh", code=1)
    (run,) = bay.json("ls")
    bay("rerun", run["id"], "--yes")
    bay("fetch", run["id"])
    found = read_tree(bay.project / "results" / "try" / run["id"])

    assert {name: found[name] for name in sorted(found) if name.startswith("log")} == {
        "log.1.txt": "attempt 1\n",
        "log.txt": "attempt 2\n",
    }


def test_table(bay: Bay) -> None:
    """The table holds every run of the experiment, also those that were removed since."""
    bay.write("say.sh", 'echo "{\\"acc\\": $2}" > "$BAY_OUT/metrics.jsonl"\n')
    bay("run", "-q", "acc=1..3", "sh", "say.sh")
    suffixes = [run["id"][-5:] for run in bay.json("ls")]
    said = bay("fetch", *suffixes[:2])
    bay("rm", suffixes[0], "--yes")
    bay("fetch", suffixes[1])
    lines = (bay.project / "results" / "say" / "results.csv").read_text().splitlines()

    assert said.out == f"{bay.project}/results/say\n"
    assert lines[0] == "run,acc,acc,state,time"
    assert sorted(line.rpartition(",")[0] for line in lines[1:]) == sorted(
        f"{suffix},{number},{number},succeeded" for number, suffix in enumerate(suffixes, start=1)
    )


def test_mark(bay: Bay) -> None:
    """A run counts as fetched once all its outputs were copied after its end."""
    place = run_make(bay)
    mark = bay.project / ".bay" / "runs" / place.name / "fetched"
    bay("fetch", "-p", "*.json")
    before = mark.exists()
    bay("fetch")

    assert (before, mark.read_text()) == (False, "1\n")


def test_nothing_there(bay: Bay) -> None:
    """Without runs there is nothing to fetch, and nothing is made."""
    said = bay("fetch", code=2)

    assert said.err == "error: there are no runs yet\n\nhint: start one with `bay run`\n"
    assert list(bay.project.iterdir()) == []


def test_folder_is_gone(bay: Bay) -> None:
    """A run whose folder is gone is no failure, but it is said."""
    bay("run", "-q", "true")
    (run,) = bay.json("ls")
    (bay.project / ".bay" / "runs" / run["id"]).rename(bay.project / "elsewhere")

    assert bay("fetch", run["id"]).err == "1 of 1 runs have no files here\n"


def test_half_a_file_is_none(tmp_path: Path) -> None:
    """What is interrupted leaves the file that was there, and nothing beside it."""
    path = tmp_path / "a.txt"
    path.write_text("whole")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "half \ud800")

    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.txt", "whole")]


@pytest.mark.parametrize(
    ("name", "folder"),
    [("first try", "first try"), ("../../up", "-..-up"), ("..", "experiment"), ("a/b", "a-b")],
)
def test_experiment_folder(tmp_path: Path, name: str, folder: str) -> None:
    """Whatever an experiment is called, its folder is inside."""
    assert experiment_folder(tmp_path, name) == tmp_path / folder


def test_outputs_of_a_run_that_still_runs(bay: Bay) -> None:
    """What it has written so far comes too, where it will be in the end."""
    go = bay.home / "go"
    script = (
        f"mkdir -p checkpoints; echo 1 >checkpoints/a; while [ ! -e {go} ]; do sleep 0.02; done"
    )
    bay("run", "--detach", "--", "sh", "-c", script)
    eventually(lambda: list(bay.project.glob(".bay/runs/*/work/checkpoints/a")))
    bay("fetch")
    (early,) = bay.project.glob("results/*/*/out/checkpoints/a")
    go.touch()
    bay("wait", "sh")
    bay("fetch")

    assert early.read_text() == "1\n"
    assert list(bay.project.glob("results/*/*/out/**/a")) == [early]
