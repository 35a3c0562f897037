"""Python environments: what may be written, what decides one, and the shell lines that enter it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.conftest import require_program
from tests.stubs import CONDA, SHELLS, write_program, write_python

from launchbay.core.errors import ConfigError
from launchbay.core.host import Completed
from launchbay.core.python import (
    Python,
    activation,
    build_failure,
    environment_id,
    explain,
    load_modules,
    lock_files,
    parse_python,
    render_setup,
)

if TYPE_CHECKING:
    from pathlib import Path

REQUIREMENTS = Python("requirements", "requirements.txt")
UV = Python("uv", "uv.lock")
SYSTEM_PATH = "/usr/bin:/bin"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", None),
        ("uv", UV),
        ("requirements.txt", REQUIREMENTS),
        ("./requirements.txt", REQUIREMENTS),
        ("reqs/dev.txt", Python("requirements", "reqs/dev.txt")),
        ("environment.yml", Python("environment", "environment.yml")),
        ("conda/env.yaml", Python("environment", "conda/env.yaml")),
        ("conda:ml", Python("conda", "ml")),
        ("conda:/opt/envs/ml", Python("conda", "/opt/envs/ml")),
        ("/opt/venv/", Python("venv", "/opt/venv")),
        ("~/my venv", Python("venv", "~/my venv")),
    ],
)
def test_what_may_be_written(text: str, expected: Python | None) -> None:
    """Each spelling is one kind, and is written as it was read."""
    assert parse_python(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "conda", "conda:", "poetry", ".venv", "../reqs.txt", "/etc/reqs.txt", "~/reqs.txt", "UV"],
)
def test_what_may_not_be_written(text: str) -> None:
    """Anything else is answered with what may be written."""
    with pytest.raises(ValueError, match=r"expected `uv`, a file of the project.*or `none`"):
        parse_python(text)


@pytest.mark.parametrize("text", ["uv", "reqs/dev.txt", "environment.yml", "conda:ml", "~/venv"])
def test_written_as_read(text: str) -> None:
    """In a message an environment looks as in the file."""
    assert str(parse_python(text)) == text


def write_files(tree: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


def test_files_of_requirements(tmp_path: Path) -> None:
    """A file brings those that it names, wherever they are and even in a circle."""
    files = {
        "reqs/dev.txt": "-r base.txt\n--constraint=../limits.txt # why\n",
        "reqs/base.txt": "numpy\n  --requirement \\\n more.txt\n-rdev.txt\n#-r no.txt\n",
        "reqs/more.txt": "-r https://site/x.txt\n-c ${LIMITS}\n-r /site/limits.txt\n",
        "limits.txt": "numpy<2\n",
        "unrelated.txt": "",
    }
    write_files(tmp_path, files)

    assert lock_files(Python("requirements", "reqs/dev.txt"), tmp_path) == [
        "limits.txt",
        "reqs/base.txt",
        "reqs/dev.txt",
        "reqs/more.txt",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("./pkgs/hello.whl", ["pkgs/hello.whl"]),
        ("pkgs/hello.whl ; python_version > '3'", ["pkgs/hello.whl"]),
        ("-e ./libs/tool[dev]", ["libs/tool/setup.py", "libs/tool/tool.py"]),
        ("tool @ file:libs/tool", ["libs/tool/setup.py", "libs/tool/tool.py"]),
        ("-e .", ["pyproject.toml"]),
        (".[train]", ["pyproject.toml"]),
        ("../elsewhere", []),
        ("tool @ git+https://site/tool", []),
        ("libs", []),
        ("--index-url https://site/simple", []),
    ],
)
def test_local_packages(tmp_path: Path, line: str, expected: list[str]) -> None:
    """What is installed from the project decides too; of the project itself only what it needs."""
    files = dict.fromkeys(
        [
            "pkgs/hello.whl",
            "libs/tool/tool.py",
            "libs/tool/setup.py",
            "libs/tool/__pycache__/tool.pyc",
            "libs/tool/tool.egg-info/PKG-INFO",
            "pyproject.toml",
            "train.py",
        ],
        "",
    )
    write_files(tmp_path, {**files, "requirements.txt": f"{line}\n"})

    assert lock_files(REQUIREMENTS, tmp_path) == sorted([*expected, "requirements.txt"])


def test_files_of_uv(tmp_path: Path) -> None:
    """The lock file, what uv reads beside it, and packages that are folders of the project."""
    lock = """
[[package]]
source = { registry = "https://site/simple" }
[[package]]
source = { editable = "libs/tool" }
[[package]]
source = { virtual = "libs/notes" }
[[package]]
source = { editable = "." }
"""
    names = ["pyproject.toml", ".python-version", "libs/tool/tool.py", "libs/notes/a", "train.py"]
    write_files(tmp_path, {**dict.fromkeys(names, ""), "uv.lock": lock})

    assert lock_files(UV, tmp_path) == [
        ".python-version",
        "libs/tool/tool.py",
        "pyproject.toml",
        "uv.lock",
    ]


def test_files_of_conda(tmp_path: Path) -> None:
    """A conda file may hand requirements to pip, which starts beside it."""
    text = (
        "name: ml\ndependencies:\n  - python=3.11\n  - pip:\n    - -r reqs.txt\n    - './a.whl'\n"
    )
    names = ["envs/reqs.txt", "envs/a.whl", "a.whl"]
    write_files(tmp_path, {**dict.fromkeys(names, ""), "envs/ml.yml": text})

    assert lock_files(Python("environment", "envs/ml.yml"), tmp_path) == [
        "envs/a.whl",
        "envs/ml.yml",
        "envs/reqs.txt",
    ]


@pytest.mark.parametrize("python", [Python("conda", "ml"), Python("venv", "/opt/venv")])
def test_what_is_there_needs_no_file(tmp_path: Path, python: Python) -> None:
    """Environments that nobody builds depend on nothing of the project."""
    assert lock_files(python, tmp_path) == []


@pytest.mark.parametrize(
    ("python", "files", "message"),
    [
        (UV, {}, "`python: uv` needs `uv.lock`, which the project does not have"),
        (
            UV,
            {"uv.lock": ""},
            "`python: uv` needs `pyproject.toml`, which the project does not have",
        ),
        (
            REQUIREMENTS,
            {},
            "`python: requirements.txt` needs `requirements.txt`, which the project does not have",
        ),
        (
            REQUIREMENTS,
            {"requirements.txt": "-r base.txt"},
            "`requirements.txt` names `base.txt`, which the project does not have",
        ),
        (
            REQUIREMENTS,
            {"requirements.txt": "-r ../base.txt"},
            "`requirements.txt` names `../base.txt`, which the project does not have",
        ),
    ],
)
def test_missing_files(tmp_path: Path, python: Python, files: dict[str, str], message: str) -> None:
    """What is not there is named before anything is sent."""
    write_files(tmp_path, files)
    (tmp_path.parent / "base.txt").touch()
    with pytest.raises(ConfigError) as caught:
        lock_files(python, tmp_path)

    assert (str(caught.value), bool(caught.value.hint)) == (message, True)


def test_id_depends_on_the_files_that_decide(tmp_path: Path) -> None:
    """Code may change, a requirement may not; and two files with the same text are two."""
    write_files(tmp_path, {"a.txt": "-r b.txt\n", "b.txt": "numpy\n", "c.txt": "-r b.txt\n"})
    first, other = Python("requirements", "a.txt"), Python("requirements", "c.txt")
    before = environment_id(first, tmp_path)
    write_files(tmp_path, {"train.py": "new\n"})
    same = environment_id(first, tmp_path)
    beside = environment_id(other, tmp_path)
    write_files(tmp_path, {"b.txt": "numpy<2\n"})
    after = environment_id(first, tmp_path)

    assert before == same
    assert len({before, beside, after}) == 3
    assert before.isalnum()


@dataclass
class Setup:
    """Set-up lines as run.sh has them run: by one shell, under `set -e`, then the command."""

    shell: list[str]
    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, text: str, then: str = "python; echo $-") -> subprocess.CompletedProcess[str]:
        file = self.home / "setup.sh"
        file.write_text(text)
        return subprocess.run(
            [*self.shell, "-c", f'set -e; . "$0"; {then}', str(file)],
            env={"PATH": SYSTEM_PATH, "HOME": str(self.home), **self.variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def output(self, text: str, then: str = "python") -> str:
        """What the command says, where nothing goes wrong."""
        done = self.run(text, then)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def complaint(self, text: str) -> str:
        """What the set-up says last, where it fails."""
        done = self.run(text, "echo the command ran")
        assert (done.returncode, done.stdout) == (1, ""), done
        return done.stderr.splitlines()[-1]


@pytest.fixture(params=SHELLS)
def setup(request: pytest.FixtureRequest, tmp_path: Path) -> Setup:
    """Each shell that a node may have, with an empty home."""
    shell = SHELLS[request.param]
    home = tmp_path / "it's a home"
    home.mkdir()
    return Setup([require_program(shell[0]), *shell[1:]], home)


@pytest.mark.parametrize("python", [UV, REQUIREMENTS], ids=str)
def test_built_environment_is_entered(setup: Setup, python: Python) -> None:
    """Its Python is the first, whatever is in the path; a PYTHONHOME of another is gone."""
    place = write_python(setup.home / "env $(x)", "built")
    setup.variables = {"PYTHONHOME": "/other", "VIRTUAL_ENV": "/other"}
    then = 'python; echo "$VIRTUAL_ENV ${PYTHONHOME-none}"'

    assert setup.output(activation(python, str(place)), then) == f"built\n{place} none\n"


def test_built_environment_that_is_gone(setup: Setup) -> None:
    """The message names it, and the command does not run."""
    place = str(setup.home / "gone")

    assert setup.complaint(activation(UV, place)) == (
        f"launchbay: the environment `{place}` is not there or has lost its Python"
    )


@pytest.mark.parametrize("tool", ["venv", "uv"])
def test_real_venv_is_entered(setup: Setup, tool: str) -> None:
    """The user's own virtual environment, by a path from home, with a space and a quote."""
    place = setup.home / "my venv's"
    words = {
        "venv": [sys.executable, "-m", "venv", "--without-pip"],
        "uv": ["uv", "venv", "--quiet", "--offline", "--python", sys.executable],
    }[tool]
    subprocess.run([require_program(words[0]), *words[1:], str(place)], check=True)
    then = "python -c 'import sys; print(sys.prefix)'; echo $-"
    done = setup.run(activation(Python("venv", "~/my venv's"), ""), then)

    assert (done.stdout.splitlines()[0], done.stderr) == (str(place), "")
    assert "e" in done.stdout.splitlines()[1]


def test_own_lines_of_a_venv(setup: Setup) -> None:
    """What somebody added to `activate` counts, and a line of it may fail."""
    place = write_python(setup.home / "venv", "mine")
    text = f'false\nexport DATA=here VIRTUAL_ENV="{place}"\nPATH="{place}/bin:$PATH"\nfalse\n'
    (place / "bin" / "activate").write_text(text)

    assert setup.output(activation(Python("venv", str(place)), ""), "python; echo $DATA") == (
        "mine\nhere\n"
    )


def test_venv_that_is_not_there(setup: Setup) -> None:
    """The message names it as it was written."""
    said = setup.complaint(activation(Python("venv", "~/it's gone"), ""))

    assert said == "launchbay: there is no virtual environment `~/it's gone`"


def test_venv_that_was_moved(setup: Setup) -> None:
    """Its `activate` leads to where it was; no other Python runs in its place."""
    place = write_python(setup.home / "venv", "mine")
    (place / "bin" / "activate").write_text("VIRTUAL_ENV=/was/here\n")
    said = setup.complaint(activation(Python("venv", str(place)), ""))

    assert said == f"launchbay: the virtual environment `{place}` has no Python; was it moved?"


@pytest.fixture
def conda(setup: Setup) -> Path:
    """A conda with an environment `ml`, first in the path."""
    root = setup.home / "conda"
    write_program(root / "bin" / "conda", CONDA)
    write_python(root / "envs" / "ml", "ml")
    setup.variables = {"PATH": f"{root}/bin:{SYSTEM_PATH}"}
    return root


def test_conda_is_activated(setup: Setup, conda: Path) -> None:
    """The named environment is the active one, by conda's own hook."""
    then = 'python; echo "$CONDA_DEFAULT_ENV"'

    assert setup.output(activation(Python("conda", "ml"), ""), then) == "ml\nml\n"
    assert (conda / "calls").read_text().splitlines() == [
        "shell.posix hook",
        "shell.posix activate ml",
    ]


def test_conda_environment_at_a_place(setup: Setup, conda: Path) -> None:
    """An environment that was built is activated by its path, also through a link."""
    place = write_python(setup.home / "envs" / "k3y", "built")
    (setup.home / "link").symlink_to(place)
    python = Python("environment", "environment.yml")

    assert setup.output(activation(python, str(place))) == "built\n"
    assert setup.output(activation(Python("conda", "~/link"), "")) == "built\n"


def test_failing_scripts_of_packages(setup: Setup, conda: Path) -> None:
    """What a package runs at activation may fail: the environment is active all the same."""
    (conda / "envs/ml/activate.d.sh").write_text("false\nexport GOT=here\nfalse\n")
    done = setup.run(activation(Python("conda", "ml"), ""), "python; echo $GOT $-")

    assert done.stdout.startswith("ml\nhere ")
    assert "e" in done.stdout.split()[-1]


def test_conda_wins_over_a_virtual_environment(setup: Setup, conda: Path) -> None:
    """A virtual environment of the shell that typed `bay run`, before another conda one."""
    base = write_python(conda / "envs" / "base", "base")
    venv = write_python(setup.home / "venv", "venv")
    setup.variables = {
        "PATH": f"{venv}/bin:{base}/bin:{conda}/bin:{SYSTEM_PATH}",
        "VIRTUAL_ENV": str(venv),
        "CONDA_PREFIX": str(base),
        "CONDA_DEFAULT_ENV": "base",
    }
    then = "python; echo ${VIRTUAL_ENV-none}"

    assert setup.output(activation(Python("conda", "ml"), ""), then) == "ml\nnone\n"


@pytest.mark.parametrize("name", ["gone", "it's gone"])
def test_missing_conda_environment(setup: Setup, conda: Path, name: str) -> None:
    """The message names it, and the command does not run."""
    said = setup.complaint(activation(Python("conda", name), ""))

    assert said == f"launchbay: there is no conda environment `{name}`, or it does not work"


def test_removed_conda_environment(setup: Setup, conda: Path) -> None:
    """One that the typing shell had active, and that is gone since, does not count as active."""
    setup.variables |= {"CONDA_DEFAULT_ENV": "gone", "CONDA_PREFIX": str(conda / "envs/gone")}

    assert "`gone`" in setup.complaint(activation(Python("conda", "gone"), ""))


def test_no_conda(setup: Setup) -> None:
    """Without conda the message says what it was wanted for."""
    said = setup.complaint(activation(Python("conda", "ml"), ""))

    assert said == "launchbay: there is no conda here to activate `ml`"


@pytest.mark.parametrize("place", ["miniconda3", "miniforge3", "anaconda3", "mambaforge"])
def test_conda_that_is_not_in_the_path(setup: Setup, place: str) -> None:
    """A conda at home is found by a shell that nobody logged in to."""
    write_program(setup.home / place / "bin" / "conda", CONDA)
    write_python(setup.home / place / "envs" / "ml", "ml")

    assert setup.output(activation(Python("conda", "ml"), "")) == "ml\n"


def test_conda_of_the_shell_comes_first(setup: Setup, conda: Path) -> None:
    """`CONDA_EXE` is the conda that the user has set up."""
    other = write_program(setup.home / "other" / "bin" / "conda", CONDA)
    write_python(setup.home / "other" / "envs" / "ml", "other")
    setup.variables["CONDA_EXE"] = str(other)

    assert setup.output(activation(Python("conda", "ml"), "")) == "other\n"


def test_micromamba(setup: Setup) -> None:
    """It has another word for its hook, and its function another name."""
    text = CONDA.replace("shell.posix hook", "shell hook").replace("conda()", "micromamba()")
    write_program(setup.home / "mamba" / "bin" / "micromamba", text)
    write_python(setup.home / "mamba" / "envs" / "ml", "ml")
    setup.variables = {"PATH": f"{setup.home}/mamba/bin:{SYSTEM_PATH}"}

    assert setup.output(activation(Python("conda", "ml"), "")) == "ml\n"


MODULE = """
module() {
    case $2 in
        missing) echo 'Lmod has detected the following error' >&2; return 1 ;;
        old) echo "init(3):ERROR:105: Unable to locate a modulefile for 'old'" >&2 ;;
        *) echo "$1 $2" ;;
    esac
}
false
"""


@pytest.fixture
def modules(setup: Setup) -> Setup:
    """A site whose `module` is a function that has to be read from a file."""
    place = setup.home / "modules" / "init"
    place.mkdir(parents=True)
    (place / "sh").write_text(MODULE)
    setup.variables = {"MODULESHOME": str(place.parent)}
    return setup


def test_modules_are_loaded_in_order(modules: Setup) -> None:
    """As written, each as one word."""
    said = modules.output(load_modules(["cuda/12.4", "gcc", "it's; echo no"]), "echo $-")

    assert said.splitlines()[:-1] == ["load cuda/12.4", "load gcc", "load it's; echo no"]
    assert "e" in said.splitlines()[-1]


@pytest.mark.parametrize("name", ["missing", "old"])
def test_module_that_cannot_be_loaded(modules: Setup, name: str) -> None:
    """It ends the set-up, also where `module` does not admit it; what it said is in the log."""
    done = modules.run(load_modules([name, "gcc"]), "echo the command ran")

    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 2
    assert done.stderr.endswith(f"launchbay: module `{name}` could not be loaded\n")


def test_no_modules_here(setup: Setup) -> None:
    """Without `module` the message says what was wanted."""
    said = setup.complaint(load_modules(["cuda", "gcc"]))

    assert said == "launchbay: `module` is no command here; cuda, gcc cannot be loaded"


def test_order_of_the_set_up(modules: Setup) -> None:
    """Modules, then the environment, then the user's own lines, each seeing what came before."""
    place = write_python(modules.home / "env", "built")
    text = render_setup(
        modules=["cuda"], python=activation(UV, str(place)), setup='echo "mine $VIRTUAL_ENV"'
    )

    assert modules.output(text) == f"load cuda\nmine {place}\nbuilt\n"


def test_nothing_to_set_up() -> None:
    """No lines where nothing is asked for."""
    assert render_setup(modules=[], python="", setup="\n") == ""


UV_UNSOLVED = """\
Using Python 3.11.7 environment at: /v
error: No solution found when resolving dependencies
  cause: Because nope was not found, we give up
"""
UV_EARLIER = """\
Using Python 3.11.7 environment at: /v
  × No solution found when resolving dependencies:
  ╰─▶ Because nope was not found,
      we give up
"""
UV_UNPLANNED = """\
error: Failed to determine installation plan
  cause: Distribution not found at:
         file:///hello.whl
"""
UV_UNREAD = """\
error: Couldn't parse requirement in `worse.txt`
  cause: Expected one of `@`, found `b`
         a b c ===
           ^
"""
UV_UNBUILT = """\
error: Failed to build `tool @ file:///tool`
  cause: The build backend returned an error

         [stderr]
         this build says no

hint: Build failures usually indicate a problem with the package
"""
PIP_UNSOLVED = """\
ERROR: Could not find a version that satisfies the requirement nope==3 (from versions: none)
ERROR: No matching distribution found for nope==3

[notice] A new release of pip is available: 23.2.1 -> 26.0
"""
PIP_UNBUILT = """\
  × Getting requirements to build wheel did not run successfully.
  │ exit code: 1
  ╰─> [1 lines of output]
      this build says no
      [end of output]
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error
╰─> See above for output.
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            UV_UNSOLVED,
            "No solution found when resolving dependencies: Because nope was not found, we give up",
        ),
        (
            UV_EARLIER,
            "No solution found when resolving dependencies: Because nope was not found, we give up",
        ),
        (
            UV_UNPLANNED,
            "Failed to determine installation plan: Distribution not found at: file:///hello.whl",
        ),
        (
            UV_UNREAD,
            "Couldn't parse requirement in `worse.txt`: Expected one of `@`, found `b` a b c ===",
        ),
        (UV_UNBUILT, "Failed to build `tool @ file:///tool`: this build says no"),
        (PIP_UNSOLVED, "No matching distribution found for nope==3"),
        (
            PIP_UNBUILT,
            "Getting requirements to build wheel did not run successfully: this build says no",
        ),
        ("launchbay: it is being built already; waiting\n", ""),
        ("x" * 1000, "x" * 300),
    ],
)
def test_failure_in_one_line(said: str, expected: str) -> None:
    """Of all that uv (0.13, and 0.9 before) and pip (23) print, what a person needs."""
    assert explain(said.splitlines()) == expected


@pytest.mark.parametrize(
    ("done", "message", "hint"),
    [
        (
            Completed(code=127, stdout="", stderr="launchbay: uv is not installed\n"),
            "`desk` cannot build `python: uv`: uv is not installed",
            "mend that on `desk`, or write another `python:`",
        ),
        (
            Completed(code=2, stdout="error: no\n", stderr="launchbay: `uv sync` failed\n"),
            "`desk` cannot build `python: uv`: no",
            "`uv sync --frozen` in the project may show the same; `uv lock` writes `uv.lock` anew",
        ),
        (
            Completed(code=-9, stdout="", stderr=""),
            "`desk` cannot build `python: uv`: it did not say why",
            "mend that on `desk`, or write another `python:`",
        ),
    ],
)
def test_error_of_a_build(done: Completed, message: str, hint: str) -> None:
    """The error names target and environment, and the hint says what to try."""
    error = build_failure(UV, "desk", done)

    assert (str(error), error.hint) == (message, hint)
