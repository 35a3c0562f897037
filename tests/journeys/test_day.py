"""A day with `bay`: what people type, and what they get."""

from __future__ import annotations

import json
import os
import pty
import select
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import Bay, eventually

if TYPE_CHECKING:
    import pytest

WAIT = "while [ ! -e {go} ]; do sleep 0.05; done"


def test_applied_again_submits_nothing_and_says_why(bay: Bay) -> None:
    """The second `bay run` names what succeeded, where and when."""
    bay.write("bay.yaml", "command: 'true'\nparams: {seed: [0, 1]}\n")
    bay("run")
    again = bay("run")

    assert len(bay.states()) == 2
    assert "nothing to submit:" in again.err
    assert "project-seed-0: succeeded on local " in again.err


def test_ids_by_suffix_name_and_experiment(bay: Bay) -> None:
    """Whatever tells a run apart names it; what does not lists the candidates."""
    ids = bay("run", "-q", "--name", "exp", "x=1,2", "true").out.split()
    suffix = ids[0].rpartition("-")[2]

    assert bay.json("show", suffix)["id"] == ids[0]
    assert bay.json("show", "project-x-2")["id"] == ids[1]
    assert [row["id"] for row in bay.json("ls", "exp")] == ids
    assert bay("show", "exp", code=2).err.startswith("error: 2 runs are meant, not one")
    assert bay("show", "nonsense", code=2).out == ""


def test_states_select_disjoint_runs(bay: Bay) -> None:
    """Each run is in one state; filters by tag, launch and parameter find theirs."""
    bay("run", "-q", "--tag", "mine", "x=0,1", "--", "sh", "-c", "exit $0", "<x>", code=1)
    bay("run", "-q", "x=2", "true")
    launch = bay.json("show", "project-x-0")["launch"]

    assert len(bay.json("ls", "--state", "succeeded")) == 2
    assert len(bay.json("ls", "--state", "failed")) == 1
    assert len(bay.json("ls", "--tag", "mine")) == len(bay.json("ls", "--tag", launch)) == 2
    assert len(bay.json("ls", "--only", "x=0,2")) == 2


def test_cancel_one_and_many(bay: Bay) -> None:
    """Waiting and running runs end; ended ones are a note and exit 0."""
    go = bay.home / "go"
    ids = bay(
        "run", "-q", "-d", "-j", "1", "x=1..3", "--", "sh", "-c", WAIT.format(go=go)
    ).out.split()
    eventually(lambda: bay.states().count("running") == 1)
    bay("cancel", ids[0])
    bay("cancel", "--yes", *ids[1:])
    bay("wait", *ids, code=1)
    note = bay("cancel", ids[0])

    assert bay.states() == ["cancelled"] * 3
    assert note.err == f"{ids[0]} was cancelled already\n"


def test_program_that_ignores_the_end_is_killed(bay: Bay) -> None:
    """TERM, grace, then KILL: also what it started."""
    script = "trap '' TERM; sleep 300 & sleep 300"
    (run_id,) = bay("run", "-q", "-d", "--", "sh", "-c", script).out.split()
    eventually(lambda: bay.states() == ["running"])
    bay("cancel", run_id)
    bay("wait", run_id, code=1)

    assert bay.states() == ["cancelled"]
    assert not carrying(run_id)


def carrying(run_id: str) -> list[str]:
    """Processes that carry the run's id."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"BAY_RUN_ID={run_id}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(folder.name)
        except OSError:
            continue
    return found


def test_time_limit(bay: Bay) -> None:
    """A run over its time fails and says so."""
    bay("run", "-q", "--time", "1s", "sleep", "60", code=1)
    (row,) = bay.json("ls", "--all")

    assert (row["state"], row["cause"], row["reason"]) == (
        "failed",
        "timeout",
        "its time limit was over",
    )


def test_rerun_keeps_outputs_and_fresh_keeps_the_old_aside(bay: Bay) -> None:
    """The same folder for all attempts; `--fresh` starts empty beside `out.1`."""
    script = 'echo x >>"$BAY_OUT/file"; echo "$BAY_ATTEMPT"'
    (run_id,) = bay("run", "-q", "--", "sh", "-c", script).out.split()
    out = Path(bay.json("show", run_id)["out"])
    bay("rerun", run_id)
    kept = (out / "file").read_text()
    said = bay("rerun", "--fresh", run_id)

    assert (kept, (out / "file").read_text(), said.out) == ("x\nx\n", "x\n", "3\n")
    assert (out.parent / "out.1" / "file").read_text() == "x\nx\n"
    assert [a["number"] for a in bay.json("show", run_id)["attempts"]] == [1, 2, 3]


def test_rerun_failed_takes_the_newest_experiment(bay: Bay) -> None:
    """Only what failed, and of that only the newest experiment."""
    bay("run", "-q", "--name", "old", "x=1", "false", code=1)
    flag = bay.home / "flag"
    bay(
        "run",
        "-q",
        "--name",
        "new",
        "x=1,2",
        "--",
        "sh",
        "-c",
        f"test -e {flag} || test $0 = 1",
        "<x>",
        code=1,
    )
    flag.touch()
    bay("rerun", "--failed", "-q")

    assert bay.states("-e", "old") == ["failed"]
    assert [row["attempt"] for row in bay.json("ls", "-e", "new")] == [1, 2]


def test_start_from_an_earlier_run(bay: Bay) -> None:
    """`--from` gives earlier outputs; a pattern gives copies of what matches."""
    bay(
        "run",
        "-q",
        "--name",
        "first",
        "--",
        "sh",
        "-c",
        'mkdir $BAY_OUT/ckpt; echo 7 >"$BAY_OUT/ckpt/w"; echo n >"$BAY_OUT/no"',
    )
    whole = bay(
        "run", "--from", "first", "--", "sh", "-c", 'cd "$BAY_FROM" && find . -type f | sort'
    )
    some = bay(
        "run", "--from", "first:ckpt/*", "--", "sh", "-c", 'cd "$BAY_FROM" && find . -type f'
    )

    assert whole.out == "./ckpt/w\n./no\n"
    assert some.out == "./ckpt/w\n"


def test_here_runs_in_this_folder_and_is_recorded(bay: Bay) -> None:
    """The project folder itself, the first point only, with log and exit code on record."""
    bay.write("bay.yaml", "command: pwd; exit <x>\nparams: {x: [3, 0]}\n")
    said = bay("run", "--here", code=1)
    (row,) = bay.json("ls", "--all")

    assert said.out == f"{bay.project}\n"
    assert (row["state"], row["exit_code"], row["params"]) == ("failed", 3, {"x": "3"})
    assert bay("logs", row["id"]).out == f"{bay.project}\n"


def test_here_has_a_terminal(bay: Bay) -> None:
    """A program that asks on the terminal is answered there, so that a debugger works."""
    bay.write("ask.py", "print('got', input('name? '))")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(bay.project)
        os.execve(
            bay.python,
            [bay.python, "-m", "launchbay", "run", "--here", "python3", "ask.py"],
            bay.environment,
        )
    seen = read_until(terminal, "name? ")
    os.write(terminal, b"bay\n")
    seen += read_until(terminal, "succeeded")
    os.waitpid(pid, 0)

    assert "got bay" in seen
    assert "got bay" in bay("logs").out


def read_until(terminal: int, text: str) -> str:
    seen = ""
    deadline = time.monotonic() + 60
    while text not in seen and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                seen += os.read(terminal, 4096).decode(errors="replace")
            except OSError:
                break
    return seen


def test_live_table_on_a_terminal(bay: Bay) -> None:
    """Many runs on a terminal: counts while they run, the table of results at the end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(bay.project)
        words = ["run", "-j", "2", "x=1..4", "--", "sh", "-c", "sleep 0.3"]
        os.execve(
            bay.python,
            [bay.python, "-m", "launchbay", *words],
            {**bay.environment, "TERM": "xterm", "COLUMNS": "80"},
        )
    seen = read_until(terminal, "bay results")
    os.waitpid(pid, 0)

    assert "4 runs" in seen
    assert "4 succeeded" in seen


def test_replace_takes_the_new_resources(bay: Bay) -> None:
    """A running run whose resources changed is ended and tried anew when asked."""
    go = bay.home / "go"
    words = ("run", "-q", "-d", "x=1", "--", "sh", "-c", WAIT.format(go=go))
    (run_id,) = bay(*words).out.split()
    eventually(lambda: bay.states() == ["running"])
    bay("run", "-q", "-d", "--time", "1h", *words[3:])
    left = bay.json("ls", "--all")[0]["attempt"]
    bay("run", "-q", "-d", "--replace", "--time", "1h", *words[3:])
    go.touch()
    bay("wait", run_id)

    assert left == 1
    assert [a["state"] for a in bay.json("show", run_id)["attempts"]] == ["cancelled", "succeeded"]


def test_changed_code_is_said_and_redone_on_request(bay: Bay) -> None:
    """Elsewhere than on a terminal one line says which file changed."""
    bay.write("main.py", "print(1)")
    bay("run", "-q", "x=1", "python3", "main.py")
    bay.write("main.py", "print(22)")
    said = bay("run", "x=1", "python3", "main.py")
    bay("run", "-q", "--changed-code", "x=1", "python3", "main.py")

    assert (
        "1 succeeded under older code (main.py changed); `--changed-code` redoes them" in said.err
    )
    assert len(bay.states()) == 2


def test_repeat_limit_first_shuffle(bay: Bay) -> None:
    """Points can be repeated, cut and shuffled; the command does not learn of repeats."""
    plan = bay.json("plan", "--repeat", "2", "--limit", "3", "x=1,2", "echo", "<x>")
    first = bay.json("plan", "--first", "x=1,2", "echo")
    orders = [
        [row["params"]["x"] for row in bay.json("plan", "--shuffle", seed, "x=1..9", "echo")]
        for seed in ("1", "1", "2")
    ]

    assert [(row["params"], row["command"]) for row in plan] == [
        ({"x": "1", "repeat": "0"}, "echo 1"),
        ({"x": "1", "repeat": "1"}, "echo 1"),
        ({"x": "2", "repeat": "0"}, "echo 2"),
    ]
    assert len({row["identity"] for row in plan}) == 3
    assert len(first) == 1
    assert orders[0] == orders[1] != orders[2]


def test_everything_is_about_this_project(bay: Bay) -> None:
    """Another project's runs are seen only on request."""
    other = Bay(home=bay.home, project=bay.home / "other")
    other.project.mkdir()
    other("run", "-q", "true")
    bay("run", "-q", "true")

    assert len(bay.json("ls", "--all")) == 1
    assert len(bay.json("ls", "--all", "--everywhere")) == 2
    assert len(bay.json("ls", "--all", "--project", "other")) == 1


def test_copied_project_begins_anew_and_moved_one_goes_on(bay: Bay) -> None:
    """A copy of the folder is another project; the same folder under a new name is not."""
    import shutil  # noqa: PLC0415

    bay("run", "-q", "x=1", "true")
    copy = Bay(home=bay.home, project=bay.home / "copy")
    shutil.copytree(bay.project, copy.project, symlinks=True)
    moved = Bay(home=bay.home, project=bay.home / "moved")
    copied = [row["action"] for row in copy.json("plan", "x=1", "true")]
    bay.project.rename(moved.project)
    followed = [row["action"] for row in moved.json("plan", "x=1", "true")]
    (row,) = moved.json("ls", "--all")

    assert (copied, followed) == (["submit"], ["skip"])
    assert Path(row["out"]).is_dir()
    moved("rerun", "-q", row["id"], code=None)
    assert moved.json("show", row["id"])["attempt"] == 2


def test_a_value_more_in_the_file_is_no_changed_code(bay: Bay) -> None:
    """Editing the experiment file itself asks nobody whether to redo what succeeded."""
    bay.write("main.py", "pass")
    bay.write("bay.yaml", "command: python3 main.py\nparams: {seed: [0, 1]}\n")
    bay("run", "-q")
    bay.write("bay.yaml", "command: python3 main.py\nparams: {seed: [0, 1, 2]}\n")
    said = bay("run")

    assert "3 runs · 2 done · 1 to submit" in said.err
    assert "older code" not in said.err


def test_results_take_the_newest_run_of_each_point(bay: Bay) -> None:
    """What was run again is not averaged with what it replaces."""
    bay("run", "-q", "x=1,2", "true")
    bay("run", "-q", "--again", "x=1,2", "true")
    rows = bay.json("results")

    assert len(rows) == 2
    assert len(bay.states()) == 4


def test_a_short_experiment_name_is_no_end_of_an_id(bay: Bay) -> None:
    """An experiment wins over a run whose id happens to end so."""
    ids = bay("run", "-q", "--name", "long", "x=1..3", "true").out.split()
    letter = ids[0][-1]
    bay("run", "-q", "--name", letter, "x=9", "true")

    assert [row["experiment"] for row in bay.json("ls", letter)] == [letter]


def test_subfolder_is_where_a_typed_command_runs(bay: Bay) -> None:
    """The snapshot is of the project; the command starts where it was typed."""
    bay.write("bay.yaml", "command: 'true'\n")
    bay.write(
        "sub/x.py", "import os; print(os.path.basename(os.getcwd()), os.path.exists('../bay.yaml'))"
    )
    said = bay("run", "python3", "x.py", cwd=bay.project / "sub")

    assert said.out == "sub True\n"


def test_variables_that_a_run_finds(bay: Bay) -> None:
    """Its id, name, outputs, attempt, target; device variables of the shell are not sent."""
    bay.extra = {"CUDA_VISIBLE_DEVICES": "3", "MINE": "kept", "BAY_RUN_ID": "outer"}
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    said = bay("run", "x=1", "--", "python3", "-c", code, "<x>")
    seen = json.loads(said.out)
    (row,) = bay.json("ls", "--all")

    assert (seen["BAY_RUN_ID"], seen["BAY_NAME"], seen["BAY_OUT"]) == (
        row["id"],
        row["name"],
        row["out"],
    )
    assert (seen["BAY_ATTEMPT"], seen["BAY_TARGET"], seen["PYTHONUNBUFFERED"]) == (
        "1",
        "local",
        "1",
    )
    assert seen["MINE"] == "kept"
    assert "CUDA_VISIBLE_DEVICES" not in seen
    assert seen["WANDB_RUN_ID"] == row["id"]


def test_python_interface(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same runs as on the command line: wait, results, logs, states; nothing twice."""
    import launchbay  # noqa: PLC0415

    for name, value in bay.environment.items():
        monkeypatch.setenv(name, value)
    script = """echo '{"acc": <lr>}' >>"$BAY_OUT/metrics.jsonl"; echo hello"""
    runs = launchbay.run(script, params={"lr": [0.1, 0.01]}, folder=bay.project, parallel=2)
    rows = runs.wait().results()
    again = launchbay.run(script, params={"lr": [0.1, 0.01]}, folder=bay.project)

    assert [(row["lr"], row["acc"], row["state"]) for row in rows] == [
        ("0.1", 0.1, "succeeded"),
        ("0.01", 0.01, "succeeded"),
    ]
    assert set(runs.logs().values()) == {"hello\n"}
    assert set(runs.states.values()) == {"succeeded"}
    assert [run.id for run in again] == [run.id for run in runs]


def test_a_plug_in_backend_is_found(bay: Bay) -> None:
    """A package with an entry point brings a kind of target."""
    site = bay.home / "site"
    info = site / "toy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[launchbay.backends]\ntoy = toy:open_toy\n")
    bay.extra = {"PYTHONPATH": str(site)}

    assert "toy" in bay("target", "kinds").out.split()


def test_wait_tells_by_its_exit_code(bay: Bay) -> None:
    """0 only if all succeeded."""
    bay("run", "-q", "-d", "--name", "good", "true")
    bay("run", "-q", "-d", "--name", "bad", "false")

    bay("wait", "good")
    bay("wait", "bad", "good", code=1)


def test_bay_alone(bay: Bay) -> None:
    """In a project with runs the table and the next steps, else the help."""
    fresh = bay().out
    bay("run", "-q", "true")

    assert fresh.startswith("Usage: bay COMMAND")
    assert "succeeded" in bay().out
    assert "`bay results`" in bay().out


def test_large_experiment_is_one_line(bay: Bay) -> None:
    """More than ten runs fold, unless they are named."""
    bay("run", "-q", "-j", "4", "--name", "big", "x=1..12", "true")

    assert bay("ls").out.splitlines()[-1].split()[:3] == ["12", "runs", "big"]
    assert len(bay("ls", "big").out.splitlines()) == 14
