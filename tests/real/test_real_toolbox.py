"""The toolbox's functions with its `.env`, by s5cmd where that is on PATH and without."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.real.object_servers import find_program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

    from launchbay.sync.bucket import BucketOptions

pytestmark = pytest.mark.real

PROGRAM = """
from launchbay.compat.toolbox import *
show = lambda found: print(*found)
show(upload_s3_path("Data/"))
show(upload_s3_path("Data/"))
show(get_s3_objects("Data/*.txt"))
show(list_s3_objects("Data"))
show(get_local_files("Data/*", "./"))
show(download_s3_path("Data/set", local_path="out", api_call=True))
show(download_s3_objects(["Data/set/b c.txt"], "alone"))
show(delete_local_files(["out/Data/set/b c.txt", "nothing"]))
show(remove_s3_path("Data/1"))
show(remove_s3_objects(["Data/set/b c.txt"]))
show(upload_s3_objects(["Data/10.txt"]))
show(get_s3_objects("*"))
"""
SAID = """\
Data/1/x Data/10.txt Data/set/b c.txt

Data/10.txt Data/set/b c.txt
Data/1/ Data/set/ Data/10.txt
Data/1/x Data/10.txt Data/set/b c.txt
out/Data/set/b c.txt
alone/Data/set/b c.txt
out/Data/set/b c.txt
Data/1/x
Data/set/b c.txt

Data/10.txt
"""


@pytest.fixture
def old(bay: Bay, s3: BucketOptions) -> Bay:
    """A project as the toolbox's users have it: a `.env` and data."""
    bay.write(
        ".env",
        f"S3_BUCKET_NAME={s3.url.removeprefix('s3://')}\nS3_ENDPOINT_URL={s3.endpoint}\n"
        f"AWS_ACCESS_KEY_ID={s3.env['AWS_ACCESS_KEY_ID']}\n"
        f"AWS_SECRET_ACCESS_KEY={s3.env['AWS_SECRET_ACCESS_KEY']}\n",
    )
    for name in ("Data/1/x", "Data/10.txt", "Data/set/b c.txt"):
        bay.write(name, name)
    bay.extra["PATH"] = "/usr/bin:/bin"
    return bay


WRITTEN = """
from toolbox.s3utils import download_s3_path

folder_path = f"Data/{dataset}"
download_s3_path(folder_path)
"""
"""As the first tool's document has it."""


def run(bay: Bay, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=bay.project,
        env=bay.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_s5cmd(bay: Bay, folder: Path) -> Path:
    """Put the real one on PATH, behind one that writes down what it is asked; where."""
    tools = folder / "tools"
    tools.mkdir()
    record = folder / "record"
    stub = tools / "s5cmd"
    stub.write_text(f'#!/bin/sh\necho "$@" >>{record}\nexec {find_program("s5cmd")} "$@"\n')
    stub.chmod(0o755)
    bay.extra["PATH"] = f"{tools}:/usr/bin:/bin"
    return record


def test_without_s5cmd(old: Bay) -> None:
    """Lists of keys and files as before, and a path never means what only begins so."""
    assert run(old, PROGRAM) == SAID


def test_with_s5cmd_on_the_path(old: Bay, tmp_path: Path) -> None:
    """s5cmd carries the bytes, and everything else is the same; no key is in its arguments."""
    record = with_s5cmd(old, tmp_path)
    said = run(old, PROGRAM)
    asked = record.read_text()

    assert said == SAID
    assert len(asked.splitlines()) >= 3
    assert "secret" not in asked


def test_the_command_takes_it_when_asked(old: Bay, tmp_path: Path) -> None:
    """`--engine`, or the variable; never by itself."""
    record = with_s5cmd(old, tmp_path)
    old("data", "up", "Data/10.txt")
    before = record.exists()
    old("data", "up", "Data/1/x", "--engine", "s5cmd")
    old.extra["BAY_DATA_ENGINE"] = "s5cmd"
    old("data", "down", "Data/", "--local-path", "out")
    asked = record.read_text().splitlines()

    assert (before, len(asked)) == (False, 2)
    assert (old.project / "out" / "Data" / "1" / "x").read_text() == "Data/1/x"


def test_the_environment_is_loaded(old: Bay) -> None:
    """What `.env` says is in the environment afterwards, and is returned."""
    program = (
        "import os; from launchbay.compat.toolbox import load_env_file as load\n"
        "print(load('.env')['S3_ENDPOINT_URL'] == os.environ['S3_ENDPOINT_URL'])"
    )

    assert run(old, program) == "True\n"


def test_the_documents_program_needs_one_line_changed(old: Bay) -> None:
    """A folder comes from the bucket to where it was, and nothing else does."""
    old("data", "up", "Data/")
    for name in ("Data/1/x", "Data/10.txt", "Data/set/b c.txt"):
        (old.project / name).unlink()
    ours = WRITTEN.replace("toolbox.s3utils", "launchbay.compat.toolbox.s3utils")
    run(old, f"dataset = 'set'{ours}")

    assert (old.project / "Data" / "set" / "b c.txt").read_text() == "Data/set/b c.txt"
    assert not (old.project / "Data" / "10.txt").exists()
