"""The environment that runs get: built once, entered before the command, or nothing is sent."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.conftest import Bay, eventually, require_program
from tests.stubs import write_uv_project, write_wheel

if TYPE_CHECKING:
    from pathlib import Path

IMPORTS = "import hello, sys; print(hello.__name__, sys.prefix)\n"


def environments(bay: Bay) -> list[Path]:
    """Those that are ready."""
    return sorted(mark.parent for mark in (bay.project / ".bay" / "envs").glob("*/.bay-ready"))


def write_requirements(bay: Bay) -> None:
    """A project whose program needs a package that its own environment has not."""
    write_wheel(bay.project / "pkgs")
    bay.write("requirements.txt", "./pkgs/hello-1.0-py3-none-any.whl\n")
    bay.write("main.py", IMPORTS)
    bay.write(
        "bay.yaml", "command: python main.py\npython: requirements.txt\nparams: {a: [1, 2]}\n"
    )


def test_requirements_are_installed_once(bay: Bay) -> None:
    """All runs share one environment; the next launch finds it, other requirements make another."""
    require_program("uv")
    write_requirements(bay)
    plan = bay("plan")
    before = environments(bay)
    bay("run")
    (place,) = environments(bay)
    made = (place / ".bay-ready").stat().st_mtime_ns
    said = bay("logs", "-e", bay.project.name).out
    bay("run", "--again")
    bay.write("requirements.txt", "# more\n./pkgs/hello-1.0-py3-none-any.whl\n")
    bay("run", "--again")

    assert "python: requirements.txt" in plan.out
    assert before == []
    assert said.count(f"hello {place}") == 2
    assert (place / ".bay-ready").stat().st_mtime_ns == made
    assert len(environments(bay)) == 2
    assert bay.states() == ["succeeded"] * 6


def test_uv_project(bay: Bay) -> None:
    """`python: uv` is what uv.lock says, and nothing of it is written into the project."""
    require_program("uv")
    write_uv_project(bay.project)
    bay.write("main.py", IMPORTS)
    before = sorted(path.name for path in bay.project.iterdir())
    bay.write("bay.yaml", "command: python main.py\npython: uv\n")
    bay("run")

    assert f"hello {environments(bay)[0]}" in bay("logs").out
    assert sorted(path.name for path in bay.project.iterdir()) == sorted(
        [*before, ".bay", "bay.yaml"]
    )


def test_what_cannot_be_built_sends_nothing(bay: Bay) -> None:
    """The installer's own words, a hint, and no run."""
    require_program("uv")
    write_requirements(bay)
    bay.write("requirements.txt", "./pkgs/missing-1.0-py3-none-any.whl\n")
    said = bay("run", code=1)

    assert "requirements.txt" in said.err
    assert "missing-1.0" in said.err
    assert bay.json("ls") == []
    assert environments(bay) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("python: uv", "uv.lock"),
        ("python: reqs.txt", "reqs.txt"),
        ("python: poetry", "is no Python environment"),
    ],
)
def test_what_is_not_there_is_said_by_the_plan(bay: Bay, line: str, told: str) -> None:
    """A lock file that the project lacks, or a word that means nothing, is an error at once."""
    bay.write("bay.yaml", f"command: python main.py\n{line}\n")

    assert told in bay("plan", code=2).err


def test_set_up_that_fails_fails_the_run(bay: Bay) -> None:
    """Modules where there are none, and a venv that is gone: the program is never started."""
    for line in ("modules: [cuda/12.4]", "python: /nowhere/venv", "setup: 'false'"):
        bay.write("bay.yaml", f"command: echo started\n{line}\n")
        bay("run", "--again", code=1)
        row = bay.json("ls")[-1]

        assert (row["state"], row["cause"]) == ("failed", "setup"), line
        assert "started" not in bay("logs").out


def test_modules_then_python_then_setup(bay: Bay) -> None:
    """Each sees what the one before it did."""
    init = bay.home / "modules" / "init" / "sh"
    init.parent.mkdir(parents=True)
    init.write_text('module() { echo "$@"; export LOADED="${LOADED-}$2 "; }\n')
    bay.extra = {"MODULESHOME": str(bay.home / "modules")}
    bay.write(
        "bay.yaml",
        'command: echo "command $LOADED$MINE"\nmodules: [cuda/12.4, gcc]\nsetup: MINE=$LOADED\n',
    )
    bay("run")

    assert "command cuda/12.4 gcc cuda/12.4 gcc" in bay("logs").out


def test_clean_keeps_environments_that_runs_enter(bay: Bay) -> None:
    """What no run enters any more goes; what one does stays, so that it can be run again."""
    require_program("uv")
    write_requirements(bay)
    bay("run", "-q")
    (place,) = environments(bay)
    for path in place.parent.iterdir():
        os.utime(path, (0, 0))
    kept = bay("clean", "--yes").err
    still = environments(bay)
    bay("rm", "--yes", "-e", bay.project.name)
    bay("clean", "--yes")

    assert still == [place], kept
    assert environments(bay) == []
    assert not place.with_name(f"{place.name}.code").exists()


def test_rerun_builds_what_is_gone_and_what_latest_code_wants(bay: Bay) -> None:
    """The old code enters the old environment, even after it was removed; the latest its own."""
    require_program("uv")
    write_requirements(bay)
    bay("run", "-q", "--first")
    (old,) = environments(bay)
    shutil.rmtree(old)
    bay.write("requirements.txt", "# more\n./pkgs/hello-1.0-py3-none-any.whl\n")
    bay("rerun", "--yes", "-e", bay.project.name)
    first = bay("logs").out
    bay("rerun", "--yes", "--latest-code", "-e", bay.project.name)
    second = bay("logs").out
    (new,) = set(environments(bay)) - {old}

    assert f"hello {old}" in first
    assert f"hello {new}" in second


def test_what_cannot_be_built_cancels_nothing(bay: Bay) -> None:
    """`--replace` ends old runs only once the new ones can start."""
    require_program("uv")
    bay.write("bay.yaml", "command: sleep 60\nparams: {a: 1}\n")
    bay("run", "--detach")
    eventually(lambda: bay.states() == ["running"])
    bay.write("requirements.txt", "./missing-1.0-py3-none-any.whl\n")
    bay.write("bay.yaml", "command: sleep 60\nparams: {a: 1}\npython: requirements.txt\n")
    bay("run", "--again", "--replace", "--yes", "--detach", code=1)

    assert bay.states() == ["running"]
