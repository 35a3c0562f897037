"""`bay toolbox debug`, `shell` and `tmux`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually, require_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Bay

LAUNCH = """\
project_name: example
env: {MODE: fast}
model:
  average: {command: "[](make download file=data/;) A=1 python src/avg.py <fn>"}
  script: {command: ./run.sh <fn>}
dataset:
  data1: {hparam: {_fn: data/1.txt}}
  data2: {hparam: {_fn: data/2.txt}}
"""


@pytest.fixture
def old(bay: Bay) -> Bay:
    """A project as the first tool's document lays it out."""
    bay.write("config/launch.yaml", LAUNCH)
    bay.write("src/avg.py", "")
    bay.write(".env", "TOKEN='a b'\nWANDB_MODE=online\n")
    return bay


def entries(bay: Bay) -> dict[str, dict[str, object]]:
    """What stands in VS Code's file, by name."""
    found = json.loads((bay.project / ".vscode" / "launch.json").read_text())
    return {entry["name"]: entry for entry in found["configurations"]}


def test_every_run_gets_an_entry(old: Bay) -> None:
    """By the run's name, with the local side of its command; what runs no python is named."""
    said = old("toolbox", "debug")
    found = entries(old)

    assert said.out == "added example-average-data1\nadded example-average-data2\n"
    assert "example-script-data1: its command runs no file or module with python" in said.err
    assert found["example-average-data2"] | {"env": {}} == {
        "name": "example-average-data2",
        "type": "debugpy",
        "request": "launch",
        "program": "${workspaceFolder}/src/avg.py",
        "args": ["data/2.txt"],
        "cwd": "${workspaceFolder}",
        "envFile": "${workspaceFolder}/.env",
        "env": {},
        "console": "integratedTerminal",
        "justMyCode": False,
    }
    assert found["example-average-data2"]["env"] == {
        "WANDB_MODE": "offline",
        "MODE": "fast",
        "A": "1",
        "PYTHONPATH": "${workspaceFolder}:${workspaceFolder}/src",
    }
    assert "a b" not in (old.project / ".vscode" / "launch.json").read_text()


def test_a_second_time_changes_only_what_is_asked_for(old: Bay) -> None:
    """What is there stays with its comments; `overwrite=true` makes the entries anew."""
    old("toolbox", "debug")
    file = old.project / ".vscode" / "launch.json"
    mine = "// mine\n" + file.read_text().replace("data/1.txt", "data/9.txt")
    file.write_text(mine)
    again = old("toolbox", "debug")
    kept = file.read_text()
    anew = old("toolbox", "debug", "overwrite=true")

    assert again.out == "exists example-average-data1\nexists example-average-data2\n"
    assert kept == mine
    assert anew.out.count("overwritten example-average-data") == 2
    assert file.read_text() == mine.replace("data/9.txt", "data/1.txt")


def test_what_the_file_says_of_the_tracker_holds(old: Bay) -> None:
    """Debugging is offline, unless `env:` says otherwise."""
    old.write("config/launch.yaml", LAUNCH.replace("MODE: fast", "WANDB_MODE: online"))
    old("toolbox", "debug")
    env = entries(old)["example-average-data1"]["env"]
    assert isinstance(env, dict)
    assert env["WANDB_MODE"] == "online"


def test_a_broken_file_of_the_editor_is_left_alone(old: Bay) -> None:
    """The line is named, and nothing is written."""
    file = old.write(".vscode/launch.json", '{\n  "configurations": [\n')
    said = old("toolbox", "debug", code=2)

    assert ".vscode/launch.json:3:1: it ends where a `]` is missing" in said.err
    assert file.read_text() == '{\n  "configurations": [\n'


def test_a_large_grid_gets_its_first_hundred(bay: Bay) -> None:
    """Nobody looks through more, and that is said."""
    bay.write("bay.yaml", "command: python x.py <n>\nparams: {n: 0..149}\n")
    said = bay("toolbox", "debug")

    assert len(said.out.splitlines()) == 100
    assert "only the first 100 runs" in said.err


def test_a_target_of_make_gets_an_entry(old: Bay) -> None:
    """The python of what `make -n` prints; a target without one, or none at all, is an error."""
    old.write("Makefile", "fit:\n\t@echo begin\n\tpython -m fit --n 1\nother:\n\tls\n")
    said = old("toolbox", "debug", "target=fit")
    none = old("toolbox", "debug", "target=other", code=2)
    unknown = old("toolbox", "debug", "target=nothing", code=2)

    assert said.out == "added fit\n"
    assert (entries(old)["fit"]["module"], entries(old)["fit"]["args"]) == ("fit", ["--n", "1"])
    assert "`make other` runs no file or module with python" in none.err
    assert "nothing" in unknown.err


def test_the_shell_has_the_projects_variables(old: Bay) -> None:
    """Those of `.env`, `src` first on the path of Python, the project's name and folder."""
    (old.project / "sub").mkdir()
    old.extra["PYTHONPATH"] = "/elsewhere"
    for words in ((), ("bash=true",)):
        process = old.start(
            "toolbox", "shell", *words, cwd=old.project / "sub", stdin=subprocess.PIPE
        )
        out, err = process.communicate('echo "$TOKEN|$BAY_PROJECT|$PYTHONPATH|$PWD"; exit 3\n')
        path = f"{old.project}/src:{old.project}:/elsewhere"
        assert (out, process.returncode) == (f"a b|example|{path}|{old.project}\n", 3), err


def test_the_shell_is_the_users_own(old: Bay, tmp_path: Path) -> None:
    """`$SHELL`, where it is a program; `bash=true` is bash whatever that says."""
    own = tmp_path / "own"
    own.write_text("#!/bin/sh\necho own\n")
    own.chmod(0o755)
    old.extra["SHELL"] = str(own)
    asked = 'echo "${BASH_VERSION:+bash}"\n'
    process = old.start("toolbox", "shell", "bash=true", stdin=subprocess.PIPE)

    assert old("toolbox", "shell").out == "own\n"
    assert process.communicate(asked)[0] == "bash\n"


@pytest.fixture
def sessions(old: Bay) -> Iterator[Bay]:
    """A tmux of its own, which ends with the test."""
    require_program("tmux")
    require_program("make")
    old.write("Makefile", 'fit.all:\n\t@echo "fit in $$PWD with $$BAY_MINE"\nother:\n\t@true\n')
    with tempfile.TemporaryDirectory(prefix="bay-tmux-", dir="/tmp") as folder:
        old.extra |= {"TMUX_TMPDIR": folder, "SHELL": "/bin/sh", "TERM": "xterm"}
        yield old
        ask(old, "kill-server")


def ask(bay: Bay, *words: str) -> str:
    """What the private tmux answers."""
    done = subprocess.run(
        ["tmux", *words], env=bay.environment, capture_output=True, text=True, check=False
    )
    return done.stdout


def test_a_target_runs_in_a_session_that_stays(sessions: Bay) -> None:
    """Named after it, in the project's folder, readable after the end; a second is not made."""
    sessions("toolbox", "tmux", "target=other")
    sessions.extra["BAY_MINE"] = "a 'value'"
    (sessions.project / "sub").mkdir()
    said = sessions("toolbox", "tmux", "target=fit.all", cwd=sessions.project / "sub")
    eventually(
        lambda: "make fit.all: exit code 0" in ask(sessions, "capture-pane", "-pJt", "fit_all")
    )
    shown = ask(sessions, "capture-pane", "-pJt", "fit_all")
    again = sessions("toolbox", "tmux", "target=fit.all", code=1)

    assert said.out == "fit_all\n"
    assert "`tmux attach -t fit_all`" in said.err
    assert "`tmux ls`" in said.err
    assert f"fit in {sessions.project} with a 'value'" in shown
    assert "there is a session `fit_all` already: `tmux attach -t fit_all`" in again.err
    assert ask(sessions, "ls", "-F", "#S").split() == ["fit_all", "other"]


def test_a_session_needs_a_target_that_there_is(sessions: Bay) -> None:
    """No session is made for nothing."""
    sessions("toolbox", "tmux", "target=fti", code=2)
    assert ask(sessions, "ls") == ""


def test_without_tmux_another_way_is_named(old: Bay, tmp_path: Path) -> None:
    """One sentence that says what to do."""
    old.extra["PATH"] = str(tmp_path)
    said = old("toolbox", "tmux", "target=fit", code=2)

    assert "tmux is not installed" in said.err
    assert "`bay run --detach`" in said.err
