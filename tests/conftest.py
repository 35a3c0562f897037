"""What tests of several modules share."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST_S = 60.0
DATA = Path(__file__).parent / "data"
STRESS = bool(os.environ.get("BAY_STRESS"))
# What a machine does beside us is no property of what is tested.
settings.register_profile("bay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bay")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden files anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test says in a sentence what behaviour it shows; those that start `bay` take longer."""
    for item in items:
        if {"bay", "ordinary", "desk"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        if {"plain_slurm", "counted_slurm"} & set(getattr(item, "fixturenames", ())):
            # One cluster of each kind, and nothing else that keeps its daemons waiting.
            item.add_marker(pytest.mark.slurm)
        if "real_kubernetes" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kubernetes)
            item.add_marker(pytest.mark.slow)
        function = getattr(item, "function", None)
        assert function is None or function.__doc__, f"{item.nodeid} has no docstring"


def require_program(name: str) -> str:
    """The program's path; without it the test is skipped, or fails where real ones are required."""
    path = shutil.which(name)
    if path is None and os.environ.get("BAY_REQUIRE_REAL") == "1":
        pytest.fail(f"`{name}` is not installed")
    if path is None:
        pytest.skip(f"`{name}` is not installed")
    return path


def eventually(condition: Callable[[], object], *, within_s: float = LONGEST_S) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s} s: {condition}")
        time.sleep(0.02)


# A child's peak begins at that of the process it was forked from, so a small one must stand between
# it and pytest, which is large.
WEIGH = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=open(sys.argv[1], "w"))
sys.exit(code)
"""


def end_queue(state: Path) -> None:
    """End the worker of a test's own queue and everything that it started."""
    mark = f"XDG_STATE_HOME={state}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            # What a process began with: a variable that a test set later is not there.
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with a file under `tests/data`, or write it there with `--rewrite-golden`."""

    def compare(name: str, text: str) -> None:
        path = DATA / name
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text()

    return compare


@dataclass
class Bay:
    """`bay` as a person has it: a home and a project of its own."""

    home: Path
    project: Path
    extra: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable
    account: dict[str, int] = field(default_factory=dict)
    """`user` and `group` to run as, when not ourselves."""
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            # A make that runs the tests is none of whoever types here.
            if not name.startswith(("BAY_", "XDG_", "CUDA_", "WANDB_", "PYTHON", "MAKE", "MFLAGS"))
        }
        path = os.pathsep.join([str(Path(self.python).parent), kept["PATH"]])
        return {
            **kept,
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "PATH": path,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            **self.extra,
        }

    def start(
        self, *words: str, through: tuple[str, ...] = (), **options: Any
    ) -> subprocess.Popen[str]:
        """Begin a command, perhaps through another program."""
        process = subprocess.Popen(
            [*through, self.python, "-m", "launchbay", *words],
            **{
                **self.account,
                "cwd": self.project,
                "env": self.environment,
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "text": True,
                **options,
            },
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """End what a test that failed in the middle has left."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def weigh(self, *words: str, to: Path, code: int = 0) -> float:
        """The most memory that a command had, in megabytes; what it prints goes to a file."""
        peak = to.with_name(f"{to.name}-peak")
        with to.open("wb") as out:
            self(
                *words,
                code=code,
                through=(self.python, "-c", WEIGH, str(peak)),
                stdout=out,
                stderr=subprocess.DEVNULL,
            )
        return int(peak.read_text()) / 1000

    def __call__(self, *words: str, code: int | None = 0, **options: Any) -> Said:
        """Run a command to its end and check its exit code."""
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=600)
        said = Said(out or "", err or "", process.returncode)
        assert code is None or said.code == code, said
        return said

    def json(self, *words: str) -> Any:
        """What a reading command prints with `--json`."""
        verbs = 2 if words[0] in {"target", "config"} else 1
        return json.loads(self(*words[:verbs], "--json", *words[verbs:]).out)

    def write(self, name: str, text: str) -> Path:
        """A file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if self.account:
            for made in (path.parent, path):
                os.chown(made, self.account["user"], self.account["group"])
        return path

    def git(self, *words: str) -> str:
        """Git in the project, as somebody."""
        somebody = ["-c", "user.name=Me", "-c", "user.email=me@box"]
        done = subprocess.run(
            ["git", *somebody, *words],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            user=self.account.get("user"),
            group=self.account.get("group"),
        )
        return done.stdout

    def states(self, *words: str) -> list[str]:
        """The state of each run, oldest first."""
        return [row["state"] for row in self.json("ls", "--all", *words)]


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    out: str
    err: str
    code: int


@pytest.fixture
def bay(tmp_path: Path) -> Iterator[Bay]:
    """`bay` in an empty project and an empty home."""
    made = Bay(home=tmp_path / "home", project=tmp_path / "project")
    made.home.mkdir()
    made.project.mkdir()
    yield made
    made.end()
    end_queue(made.home / "state")


NOBODY = 65534


@pytest.fixture(scope="session")
def shared_install() -> Iterator[tuple[str, str]]:
    """An interpreter and a module path that an ordinary account can use."""
    if os.getuid():
        yield sys.executable, ""
        return
    folder = Path(tempfile.mkdtemp(prefix="bay-shared-", dir="/tmp"))
    folder.chmod(0o755)
    for name in sorted(_required("launchbay")):
        for file in importlib.metadata.files(name) or ():
            if not str(file).startswith("..") and file.suffix not in {".pyc", ".pth"}:
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), target)
    source = Path(__file__).parent.parent / "src" / "launchbay"
    shutil.copytree(source, folder / "launchbay", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    yield _ordinary_python(), str(folder)
    shutil.rmtree(folder)


def _ordinary_python() -> str:
    for candidate in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [candidate, "-c", "import sys; print(sys.version_info[:2] == (3, 11))"],
                user=NOBODY,
                group=NOBODY,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            continue
        if done.stdout.strip() == "True" or candidate == sys.executable:
            return candidate
    if os.environ.get("BAY_REQUIRE_REAL") == "1":
        pytest.fail("no Python 3.11 that an ordinary account can use")
    pytest.skip("no Python 3.11 that an ordinary account can use")


def _required(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """The distribution and everything that it needs."""
    found = {name}
    for line in importlib.metadata.requires(name) or ():
        word = re.split(r"[^\w.-]", line)[0]
        if "extra ==" in line or word in seen:
            continue
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found |= _required(word, seen | found)
    return found


@pytest.fixture
def ordinary(shared_install: tuple[str, str]) -> Iterator[Bay]:
    """`bay` of an ordinary account: as root, modes and read-only folders prove nothing."""
    python, modules = shared_install
    folder = Path(tempfile.mkdtemp(prefix="bay-ordinary-", dir="/tmp"))
    made = Bay(home=folder / "home", project=folder / "project", python=python)
    made.home.mkdir()
    made.project.mkdir()
    if modules:
        made.extra = {"PYTHONPATH": modules, "PATH": "/usr/bin:/bin"}
        made.account = {"user": NOBODY, "group": NOBODY}
        for path in (folder, made.home, made.project):
            os.chown(path, NOBODY, NOBODY)
    yield made
    end_queue(made.home / "state")
    shutil.rmtree(folder, ignore_errors=True)
