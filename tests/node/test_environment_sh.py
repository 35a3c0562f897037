"""environment.sh in every shell that a host may have, with the real uv and pip."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually, require_program
from tests.node.workshop import NODE, is_alive
from tests.stubs import (
    CONDA,
    SHELLS,
    write_program,
    write_uv_project,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# All that the script itself asks for, and no flock.
TOOLS = (
    "sh",
    "cp",
    "rm",
    "mkdir",
    "mv",
    "chmod",
    "uname",
    "tr",
    "sleep",
    "grep",
    "cat",
    "dirname",
    "touch",
)
OTHERS = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_EXE", "MAMBA_EXE", "PIP_FIND_LINKS"}
MAKE = 'p=$UV_PROJECT_ENVIRONMENT; mkdir -p "$p/bin"; touch "$p/by-$$" "$p/half"'
BLOCK = 'while [ ! -e "$0.go" ]; do sleep 0.02; done'
FINISH = 'cp /bin/sh "$UV_PROJECT_ENVIRONMENT/bin/python"'


@dataclass
class Said:
    """What one call left behind."""

    code: int
    out: str
    err: str


@dataclass
class Builder:
    """environment.sh as one shell runs it, with code and a place."""

    shell: list[str]
    root: Path
    path: str = os.environ["PATH"]
    variables: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def tree(self) -> Path:
        return self.root / "snapshots" / "c0de"

    @property
    def place(self) -> Path:
        return self.root / "envs" / "k3y"

    @property
    def tools(self) -> Path:
        return self.root / "tools"

    def use_tools(self, *names: str) -> None:
        """Let only these programs be found, and those that a test writes itself."""
        self.tools.mkdir()
        for name in names:
            (self.tools / name).symlink_to(require_program(name))
        self.path = str(self.tools)
        self.variables["HOME"] = str(self.root)

    def use_uv(self, *lines: str) -> Path:
        """Let a program of these lines be uv; it counts its calls."""
        lines = ('[ "$1" != --version ] || exit 0', 'echo "$1" >>"$0.calls"', *lines)
        return write_program(self.tools / "uv", "\n".join(["#!/bin/sh", *lines, ""]))

    def calls(self) -> int:
        """How often that uv was called."""
        file = self.tools / "uv.calls"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def start(self, kind: str = "uv", source: str = "uv.lock") -> subprocess.Popen[bytes]:
        """Begin a call, in a group of its own."""
        number = len(self.started)
        variables = {name: value for name, value in os.environ.items() if name not in OTHERS}
        offline = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(self.root / "cache"), "PIP_NO_INDEX": "1"}
        with (
            (self.root / f"{number}.out").open("w") as out,
            (self.root / f"{number}.err").open("w") as err,
        ):
            process = subprocess.Popen(
                [
                    *self.shell,
                    str(NODE / "environment.sh"),
                    *(kind, str(self.place), str(self.tree), source),
                ],
                env={**variables, **offline, "PATH": self.path, **self.variables},
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def said(self, process: subprocess.Popen[bytes]) -> Said:
        """What a call has said so far, with its code once it has ended."""
        number = self.started.index(process)
        texts = [(self.root / f"{number}.{end}").read_text() for end in ("out", "err")]
        return Said(process.poll() or 0, *texts)

    def ended(self, process: subprocess.Popen[bytes]) -> Said:
        process.wait(timeout=60)
        return self.said(process)

    def build(self, kind: str = "uv", source: str = "uv.lock") -> Said:
        """Call it, to its end."""
        return self.ended(self.start(kind, source))

    def built(self, kind: str = "uv", source: str = "uv.lock") -> list[str]:
        """What it printed, where it succeeded."""
        said = self.build(kind, source)
        assert (said.code, said.err) == (0, ""), said
        *lines, last = said.out.splitlines()
        assert last == f"ready {self.place}"
        return lines

    def run(self, code: str) -> str:
        """What the environment's own Python prints."""
        words = [str(self.place / "bin" / "python"), "-I", "-c", code]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def left(self) -> list[str]:
        """What is where environments are, without the locks."""
        return sorted(
            path.name
            for path in self.place.parent.iterdir()
            if path.suffix not in {".lock", ".turn"}
        )


@pytest.fixture(params=SHELLS)
def builder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Builder]:
    """environment.sh in each shell, in a folder whose name wants quoting."""
    shell = SHELLS[request.param]
    made = Builder([require_program(shell[0]), *shell[1:]], tmp_path / "it's here")
    made.tree.mkdir(parents=True)
    write_uv_project(made.tree)
    yield made
    for process in made.started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(params=["flock", pytest.param("turn", marks=pytest.mark.slow)])
def crowd(request: pytest.FixtureRequest, builder: Builder) -> Builder:
    """The same with each of its two locks, and a uv of the test's own."""
    builder.use_tools(*TOOLS)
    if request.param == "flock":
        (builder.tools / "flock").symlink_to(require_program("flock"))
    return builder


def stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """Everything in a folder, and when it was changed."""
    folder = folder.resolve()
    return {
        path: (path.lstat().st_mtime_ns, path.lstat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }


def test_uv_builds_from_its_lock_file(builder: Builder) -> None:
    """What is locked is installed, what the tool says is passed on, the code stays as it was."""
    require_program("uv")
    # A root may keep its snapshots elsewhere.
    builder.tree.rename(builder.root / "elsewhere")
    builder.tree.symlink_to(builder.root / "elsewhere")
    before = stamps(builder.tree)
    lines = builder.built()

    assert builder.run("import hello; print(hello.WORD)") == "installed\n"
    assert any("hello==1.0" in line for line in lines)
    assert stamps(builder.tree) == before


def test_second_time_nothing_is_done(builder: Builder) -> None:
    """What is ready is not touched, and no tool is asked for."""
    require_program("uv")
    builder.built()
    before = stamps(builder.place)
    builder.use_tools()

    assert builder.built() == []
    assert stamps(builder.place) == before


def test_requirements_are_installed_by_uv(builder: Builder) -> None:
    """Paths in a file of a subfolder are those of the project."""
    require_program("uv")
    (builder.tree / "reqs").mkdir()
    (builder.tree / "reqs/dev.txt").write_text("./pkgs/hello-1.0-py3-none-any.whl\n")
    before = stamps(builder.tree)
    builder.built("requirements", "reqs/dev.txt")

    assert builder.run("import hello; print(hello.WORD)") == "installed\n"
    assert stamps(builder.tree) == before


@pytest.mark.slow
def test_requirements_are_installed_by_pip(builder: Builder) -> None:
    """Without uv, pip does it; packages that another environment has do not count."""
    (builder.tree / "reqs").mkdir()
    (builder.tree / "reqs/dev.txt").write_text("./pkgs/hello-1.0-py3-none-any.whl\n")
    shutil.unpack_archive(builder.tree / "pkgs/hello-1.0-py3-none-any.whl", builder.root, "zip")
    before = stamps(builder.tree)
    builder.use_tools(*TOOLS)
    base = Path(sys.base_prefix) / "bin" / "python3"
    write_program(builder.tools / "python3", f'#!/bin/sh\nexec {base} "$@"\n')
    builder.variables |= {"PYTHONPATH": str(builder.root), "PIP_USER": "1"}
    builder.built("requirements", "reqs/dev.txt")

    assert builder.run("import hello; print(hello.WORD)") == "installed\n"
    assert stamps(builder.tree) == before


# A build that needs nothing, and writes beside the sources as others do.
BACKEND = """
import os, shutil, sys
sys.path.insert(0, os.environ["STUBS"])
from pathlib import Path
from tests.stubs import write_wheel

def build_editable(folder, config_settings=None, metadata_directory=None):
    Path("left-behind").touch()
    wheel = write_wheel(Path(folder), "tool")
    import zipfile
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tool.pth", str(Path.cwd() / "src") + "\\n")
    return wheel.name
"""
EDITABLE = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tool"
version = "1.0"
"""


@pytest.mark.slow
def test_editable_package_of_the_project(builder: Builder) -> None:
    """It is built and stays beside the environment; the frozen code is not written to."""
    require_program("uv")
    library = builder.tree / "libs" / "tool"
    (library / "src").mkdir(parents=True)
    (library / "src" / "side.py").write_text('WORD = "editable"\n')
    (library / "pyproject.toml").write_text(EDITABLE)
    (library / "backend.py").write_text(BACKEND)
    (builder.tree / "requirements.txt").write_text("-e ./libs/tool\n")
    builder.variables["STUBS"] = str(Path(__file__).parents[2])
    before = stamps(builder.tree)
    builder.built("requirements", "requirements.txt")

    assert builder.run("import side; print(side.WORD)") == "editable\n"
    assert stamps(builder.tree) == before


def test_four_at_once_build_once(crowd: Builder) -> None:
    """One builds, the others wait for it, all find it ready."""
    uv = crowd.use_uv(MAKE, BLOCK, FINISH)
    calls = [crowd.start() for _ in range(4)]
    eventually(lambda: sum("waiting" in crowd.said(call).out for call in calls) == 3)
    uv.with_name("uv.go").touch()
    ends = [crowd.ended(call) for call in calls]

    assert [(end.code, end.out.splitlines()[-1]) for end in ends] == [
        (0, f"ready {crowd.place}")
    ] * 4
    assert crowd.calls() == 1


def test_killed_builder_leaves_nothing_in_the_way(crowd: Builder) -> None:
    """Half an environment is not taken for one, nor its builder for a living one."""
    uv = crowd.use_uv(MAKE, BLOCK, FINISH)
    killed = crowd.start()
    eventually((crowd.place / "half").exists)
    waiting = crowd.start()
    eventually(lambda: "waiting" in crowd.said(waiting).out)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    eventually(lambda: crowd.calls() == 2)
    uv.with_name("uv.go").touch()

    assert crowd.ended(waiting).out.splitlines()[-1] == f"ready {crowd.place}"
    assert len(list(crowd.place.glob("by-*"))) == 1
    assert crowd.built() == []


def test_who_waited_tries_after_a_failure(crowd: Builder) -> None:
    """The first fails, the next builds."""
    uv = crowd.use_uv(MAKE, BLOCK, '[ -e "$0.failed" ] || { touch "$0.failed"; exit 3; }', FINISH)
    calls = [crowd.start() for _ in range(2)]
    eventually(lambda: any("waiting" in crowd.said(call).out for call in calls))
    uv.with_name("uv.go").touch()
    codes = sorted(crowd.ended(call).code for call in calls)

    assert (codes, crowd.calls()) == ([0, 3], 2)
    assert crowd.left() == ["k3y", "k3y.code"]


@pytest.mark.slow
def test_term_ends_the_tool_too(crowd: Builder) -> None:
    """A build that is told to stop leaves no tool running, and nothing else."""
    crowd.use_uv(MAKE, "echo $$", "exec sleep 600")
    process = crowd.start()
    eventually(lambda: crowd.said(process).out)
    tool = int(crowd.said(process).out)
    process.send_signal(signal.SIGTERM)
    said = crowd.ended(process)

    assert (said.code, said.err) == (143, "launchbay: the build was stopped\n")
    assert (is_alive(tool), crowd.left()) == (False, [])


@pytest.mark.slow
def test_term_ends_waiting(crowd: Builder) -> None:
    """Who waits can be told to stop, and does not disturb who builds."""
    uv = crowd.use_uv(MAKE, BLOCK, FINISH)
    first = crowd.start()
    eventually((crowd.place / "half").exists)
    second = crowd.start()
    eventually(lambda: "waiting" in crowd.said(second).out)
    second.send_signal(signal.SIGTERM)
    code = crowd.ended(second).code
    uv.with_name("uv.go").touch()

    assert (code, crowd.ended(first).code, crowd.left()) == (143, 0, ["k3y", "k3y.code"])


def test_turn_of_a_number_that_is_another_program_now(builder: Builder) -> None:
    """A process that was given the number of a dead builder does not stand in the way."""
    builder.use_tools(*TOOLS)
    builder.use_uv(MAKE, FINISH)
    turn = builder.place.with_name("k3y.turn")
    turn.mkdir(parents=True)
    (turn / f"{os.uname().nodename}+{os.getpid()}").touch()
    builder.built()

    assert [path.name for path in turn.iterdir()] == ["free"]


@pytest.mark.slow
def test_turn_of_another_host_is_waited_for(builder: Builder) -> None:
    """Whether somebody lives elsewhere cannot be seen from here."""
    builder.use_tools(*TOOLS)
    builder.use_uv(MAKE, FINISH)
    turn = builder.place.with_name("k3y.turn")
    turn.mkdir(parents=True)
    (turn / "elsewhere+1").touch()
    process = builder.start()
    eventually(lambda: "waiting" in builder.said(process).out)
    (turn / "elsewhere+1").rename(turn / "free")

    assert (builder.ended(process).code, builder.calls()) == (0, 1)


def test_failing_install(builder: Builder) -> None:
    """The tool's words and its code are passed on, and nothing is left."""
    require_program("uv")
    (builder.tree / "pkgs" / "hello-1.0-py3-none-any.whl").unlink()
    said = builder.build()

    assert said.code not in {0, 127}
    assert "Distribution not found" in said.out
    assert said.err == f"launchbay: `uv sync` failed with code {said.code}\n"
    assert builder.left() == []


@pytest.mark.slow
def test_environment_whose_python_is_gone(builder: Builder) -> None:
    """After an upgrade of the interpreter an environment is built anew."""
    require_program("uv")
    builder.built()
    for name in ("python", "python3"):
        (builder.place / "bin" / name).unlink()
        (builder.place / "bin" / name).symlink_to("/was/here")
    builder.built()

    assert builder.run("import hello; print(hello.WORD)") == "installed\n"


def test_conda_builds_from_its_file(builder: Builder) -> None:
    """It is given the place and the file, in the copy of the code."""
    (builder.tree / "environment.yml").write_text("dependencies: [python]\n")
    builder.use_tools(*TOOLS)
    write_program(builder.root / "miniforge3" / "bin" / "conda", CONDA)
    builder.built("environment", "environment.yml")
    again = builder.built("environment", "environment.yml")

    assert again == []
    assert (builder.root / "miniforge3" / "calls").read_text() == (
        f"env create -p {builder.place} -f {builder.place}.code/environment.yml\n"
    )


def test_failing_conda(builder: Builder) -> None:
    """Its words and its code are passed on, and nothing is left."""
    (builder.tree / "environment.yml").write_text("dependencies: [broken]\n")
    builder.use_tools(*TOOLS)
    write_program(builder.tools / "conda", CONDA)
    said = builder.build("environment", "environment.yml")

    assert (said.code, said.out) == (5, "PackagesNotFoundError: broken\n")
    assert said.err == "launchbay: `conda env create` failed with code 5\n"
    assert builder.left() == []


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("uv", "uv is not installed"),
        ("requirements", "neither uv nor python3 is installed"),
        ("environment", "conda is not installed"),
    ],
)
def test_missing_tool(builder: Builder, kind: str, message: str) -> None:
    """It is named; a stub that answers nothing is none."""
    builder.use_tools(*TOOLS)
    write_program(builder.tools / "uv", "#!/bin/sh\nexit 127\n")
    said = builder.build(kind, "uv.lock")

    assert (said.code, said.err) == (127, f"launchbay: {message}\n")
    assert builder.left() == []


def test_place_that_cannot_be_written(builder: Builder) -> None:
    """The message names the folder."""
    builder.place.parent.write_text("a file")
    said = builder.build()

    assert (said.code, said.err) == (73, f"launchbay: cannot write to {builder.place.parent}\n")


def test_code_that_is_not_there(builder: Builder) -> None:
    """Nothing is built from nothing."""
    shutil.rmtree(builder.tree)
    said = builder.build()

    assert (said.code, said.err) == (1, "launchbay: `cp` failed with code 1\n")
    assert builder.left() == []
