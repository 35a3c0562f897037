"""`bay init`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from launchbay.config.paths import SCHEMA

if TYPE_CHECKING:
    from tests.conftest import Bay

MODELINE = "# yaml-language-server: $schema=.bay/schema.json"


def test_example_in_a_new_folder(bay: Bay) -> None:
    """A folder that is not there yet gets the example, and the next two commands are said."""
    said = bay("init", "demo")
    place = bay.project / "demo"

    assert sorted(path.name for path in place.iterdir()) == [".bay", "bay.yaml", "train.py"]
    assert said.err == (
        f"wrote {place}/train.py\nwrote {place}/bay.yaml\n\n"
        "next:\n  cd demo && bay run\n  bay results --over seed\n"
    )


def test_example_is_a_grid(bay: Bay) -> None:
    """The example describes twelve runs of a command that its parameters fill."""
    bay("init")
    plan = bay.json("plan")

    assert (len(plan), plan[0]["command"], plan[-1]["params"]) == (
        12,
        "python train.py --lr 0.1 --width 64 --seed 0",
        {"lr": "0.01", "width": "128", "seed": "2"},
    )


def test_example_succeeds(bay: Bay) -> None:
    """The example's script runs as it is, and its last metrics are the run's."""
    bay("init")
    bay("run", "--first")
    (run,) = bay.json("ls")

    assert (run["state"], sorted(run["metrics"]), run["metrics"]["acc"] > 0.7) == (
        "succeeded",
        ["acc", "loss"],
        True,
    )


def test_example_needs_no_bay(bay: Bay) -> None:
    """The script also runs by itself, prints its progress and writes nothing."""
    bay("init")
    done = subprocess.run(
        [sys.executable, "train.py", "--epochs", "2"],
        cwd=bay.project,
        capture_output=True,
        text=True,
        check=True,
    )

    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["epoch", "0"],
        ["epoch", "1"],
    ]
    assert sorted(path.name for path in bay.project.iterdir()) == [".bay", "bay.yaml", "train.py"]


def test_beside_code(bay: Bay) -> None:
    """Beside code only the file is written, and it can be run at once."""
    bay.write("main.py", "print('hello')\n")
    said = bay("init")
    bay("run")

    assert said.err == f"wrote {bay.project}/bay.yaml\n\nnext:\n  bay plan\n  bay run\n"
    assert (bay("logs").out, bay.states()) == ("hello\n", ["succeeded"])


def test_editors_find_the_schema(bay: Bay) -> None:
    """The file's first line names a schema, which is in a folder that is only ours."""
    bay.git("init", "--quiet")
    bay("init")
    kept = bay.project / ".bay"

    assert (bay.project / "bay.yaml").read_text().splitlines()[0] == MODELINE
    assert (kept / "schema.json").read_bytes() == SCHEMA.read_bytes()
    assert (sorted(path.name for path in kept.iterdir()), kept.stat().st_mode & 0o777) == (
        [".gitignore", "schema.json"],
        0o700,
    )
    assert bay.git("status", "--porcelain", "--untracked-files=all") == (
        "?? bay.yaml\n?? train.py\n"
    )


def test_schema_alone_is_no_project(bay: Bay) -> None:
    """Until something was run there, a folder with a schema has no runs and nothing wrong."""
    bay("init")

    assert (bay.json("ls"), bay("doctor").code, bay("clean").code) == ([], 0, 0)
    assert sorted(path.name for path in (bay.project / ".bay").iterdir()) == [
        ".gitignore",
        "schema.json",
    ]


def test_run_brings_the_schema(bay: Bay) -> None:
    """In a clone, and after an update, the next run puts the schema where the file says it is."""
    bay.write("bay.yaml", f"{MODELINE}\ncommand: ls -A\n")
    schema = bay.project / ".bay" / "schema.json"
    bay("run")
    first = schema.read_bytes()
    schema.write_text("{}")
    bay("run", "--again")

    assert (first, schema.read_bytes()) == (SCHEMA.read_bytes(), SCHEMA.read_bytes())
    assert bay("logs").out == "bay.yaml\n"


def test_folder_that_is_no_folder(bay: Bay) -> None:
    """Where the schema cannot be put, the file is written all the same."""
    mine = bay.write(".bay", "mine")
    bay("init")

    assert (mine.read_text(), (bay.project / "bay.yaml").exists()) == ("mine", True)


def test_file_is_left_alone(bay: Bay) -> None:
    """A file that is there is not overwritten, and that is no failure."""
    path = bay.write("launch.yaml", "command: echo mine\n")
    said = bay("init")

    assert said.err == (
        f"{path} is there already; it was left alone\n\nnext:\n  bay plan\n  bay run\n"
    )
    assert [one.name for one in bay.project.iterdir()] == ["launch.yaml"]


def test_folder_that_is_a_file(bay: Bay) -> None:
    """A file is no folder to begin in."""
    bay.write("demo", "mine")
    said = bay("init", "demo", code=2)

    assert said.err == (
        "error: invalid value for '[DIR]': Directory 'demo' is a file\n\n"
        "hint: `bay init --help` explains\n"
    )


def test_folder_that_cannot_be_made(bay: Bay) -> None:
    """Where no folder can be made, that is said with a way out."""
    path = bay.write("demo", "mine")
    said = bay("init", "demo/inner", code=1)

    assert said.err == (
        f"error: cannot write `{path}/inner/train.py`: Not a directory\n\n"
        "hint: choose a folder that you can write\n"
    )


def test_from_a_run(bay: Bay) -> None:
    """The file made from a run repeats it: the same command, parameters and resources."""
    bay.git("init", "--quiet")
    bay.write("sub/show.py", "import sys; print(sys.argv[1:])\n")
    bay("run", "--memory", "512M", "lr=0.1", "show.py", "<x>", cwd=bay.project / "sub")
    (first,) = bay.json("ls")
    said = bay("init", "--from", first["id"])
    line = (bay.project / "bay.yaml").read_text().splitlines()[0]
    bay("run")
    both = bay.json("ls")
    logs = [bay("logs", run["id"]).out for run in both]
    shown = [bay.json("show", run["id"])["resources"] for run in both]

    assert said.err == f"wrote {bay.project}/bay.yaml\n\nnext:\n  bay plan\n  bay run\n"
    assert line == MODELINE
    assert logs == ["['<x>', '--lr', '0.1']\n"] * 2
    assert shown == [{"memory": "512M"}] * 2
    assert [(run["params"], run["experiment"], run["state"]) for run in both] == [
        ({"lr": "0.1"}, "show", "succeeded")
    ] * 2


def test_from_a_run_beside_a_file(bay: Bay) -> None:
    """Where there is a file already, the new one gets the run's name, and runs by that."""
    bay.write("bay.yaml", "command: echo <x>\nparams: {x: [1, 2]}\n")
    bay("run")
    run = bay.json("ls")[0]
    suffix = run["id"].rpartition("-")[2]
    said = bay("init", "--from", suffix)
    plan = bay.json("plan", f"bay-{suffix}.yaml")

    assert said.err == (
        f"wrote {bay.project}/bay-{suffix}.yaml\n\n"
        f"next:\n  bay plan bay-{suffix}.yaml\n  bay run bay-{suffix}.yaml\n"
    )
    assert [(one["command"], one["params"]) for one in plan] == [("echo 1", {"x": "1"})]


def test_from_nothing(bay: Bay) -> None:
    """A run that does not exist is a wrong request."""
    said = bay("init", "--from", "nope", code=2)

    assert said.err == (
        "error: no run or experiment is called `nope`\n\nhint: `bay ls --all` shows what there is\n"
    )
    assert list(bay.project.iterdir()) == []
