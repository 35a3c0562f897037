"""pack.py as a program: what it needs of a machine, and what it says."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import NOBODY, end_queue
from tests.node.workshop import NODE, Desk, make_job

MODULES = sorted(path for path in NODE.glob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_is_old_python(path: Path) -> None:
    """Every file can be read by Python 3.8."""
    ast.parse(path.read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_stands_alone(path: Path) -> None:
    """Files import the standard library and each other, and no name of ours hides one of its."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
        elif isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
    ours = {module.stem for module in MODULES}

    assert imported <= ours | sys.stdlib_module_names
    assert not ours & sys.stdlib_module_names


def oldest_python() -> str:
    """A Python 3.8 that runs; few machines have one, so it is never required."""
    shim = shutil.which("python3.8")
    # A shim lies beside the versions that it stands for.
    versions = Path(shim).parents[1].glob("versions/3.8.*/bin/python3.8") if shim else ()
    for candidate in (*map(str, versions), shim):
        works = candidate and subprocess.run(
            [candidate, "-c", ""], capture_output=True, check=False
        )
        if works and not works.returncode:
            return str(candidate)
    pytest.skip("there is no Python 3.8")


def test_queue_works_with_the_oldest_python(desk: Desk) -> None:
    """Adding, running, looking and cancelling need no newer Python."""
    desk.python = oldest_python()
    desk.add(make_job("a", script="exit 3"), make_job("b", ["sleep", "600"]))
    (ended,) = desk.until("ended", "a")
    desk.cancel("b")
    (cancelled,) = desk.until("ended", "b")

    assert (ended["code"], cancelled["stop"]) == (3, "cancel")
    assert desk.errors() == ""


def test_survey_says_what_the_machine_has(desk: Desk) -> None:
    """Processors, memory and GPUs, by a stand-in nvidia-smi."""
    desk.tools = desk.folder / "tools"
    desk.tools.mkdir()
    smi = desk.tools / "nvidia-smi"
    smi.write_text('#!/bin/sh\necho "0, GPU-a, NVIDIA A100, 80 GB"\necho "1, GPU-b, Tesla"\n')
    smi.chmod(0o755)
    (line,) = desk.call("survey")

    assert line["gpus"] == [["0", "NVIDIA A100, 80 GB"], ["1", "Tesla"]]
    assert line["cpus"] == len(os.sched_getaffinity(0))
    assert line["memory_mib"] > 0


@pytest.mark.parametrize("text", ["No devices were found", "", "x\n\ny"])
def test_nvidia_smi_that_finds_nothing(desk: Desk, text: str) -> None:
    """Words in place of a table are no GPUs."""
    desk.tools = desk.folder / "tools"
    desk.tools.mkdir()
    smi = desk.tools / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nprintf '{text}'\n")
    smi.chmod(0o755)
    (line,) = desk.call("survey")

    assert line["gpus"] == []


def test_survey_writes_nothing_where_it_may_not(tmp_path: Path) -> None:
    """A package folder that is read-only, and of somebody else, is good enough."""
    folder = Path(tempfile.mkdtemp(prefix="bay-survey-")) / "node"
    folder.parent.chmod(0o755)
    shutil.copytree(NODE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    account: dict[str, Any] = {} if os.getuid() else {"user": NOBODY, "group": NOBODY}
    try:
        folder.chmod(0o555)
        done = subprocess.run(
            ["/usr/bin/env", "python3", "-S", "-E", str(folder / "pack.py"), "survey"],
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            check=True,
            **account,
        )
        left = list(folder.glob("__pycache__"))
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder.parent)

    assert json.loads(done.stdout)["cpus"] > 0
    assert (done.stderr, left) == (b"", [])


def test_installed_copy_keeps_its_bytecode(tmp_path: Path) -> None:
    """Where the folder can be written all but the small main file is compiled once."""
    folder = tmp_path / "node"
    shutil.copytree(NODE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-S", "-E", str(folder / "pack.py"), "list"],
        env={"XDG_STATE_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
    )
    kept = {path.name.partition(".")[0] for path in (folder / "__pycache__").iterdir()}
    end_queue(tmp_path)

    assert {"waiting", "entries", "records"} <= kept
