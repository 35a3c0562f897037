"""The first tool's data verbs, with a folder as the bucket."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import Terminal
from tests.cli.test_startup import PROGRAM
from tests.conftest import require_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Place
    from tests.conftest import Bay, Said


def answer(place: Place, text: str, *words: str, code: int = 0) -> Said:
    """A verb with answers piped in."""
    from tests.conftest import Said  # noqa: PLC0415

    process = place.bay.start("toolbox", *words, stdin=subprocess.PIPE)
    out, err = process.communicate(text, timeout=60)
    assert process.returncode == code, err
    return Said(out, err, process.returncode)


def write_data(place: Place) -> None:
    """Files as the document has them, and others that only begin so."""
    for name in ("data/1.txt", "data/2.txt", "data2/x", "data.txt"):
        place.bay.write(name, name)


def test_upload_prints_each_file_once(place: Place) -> None:
    """All below the folder and nothing that only begins so; the second time nothing is to do."""
    write_data(place)
    first = place.bay("toolbox", "upload", "file=data/")
    second = place.bay("toolbox", "up", "file=data/", "api=true")
    place.bay.write("data/1.txt", "another")
    third = place.bay("toolbox", "upload", "file=data/")

    assert first.out == "Uploaded data/1.txt to data/1.txt\nUploaded data/2.txt to data/2.txt\n"
    assert (first.err, second.out) == ("", "")
    assert second.err == "nothing to do: 2 unchanged\n"
    assert (third.out, third.err) == ("Uploaded data/1.txt to data/1.txt\n", "1 unchanged\n")
    assert place.objects() == ["data/1.txt", "data/2.txt"]


def test_download_names_where_each_file_is(place: Place) -> None:
    """`./` as the document has it, or the folder that was typed; `down` is the same verb."""
    place.put(data__1_dot_txt="1", data__2_dot_txt="2", data2__x="3")
    first = place.bay("toolbox", "download", "file=data/")
    other = place.bay("toolbox", "down", "file=data/*", "local_path=out")
    back = place.bay("toolbox", "upload", "file=data/1.txt", "local_path=out", "overwrite=yes")

    assert first.out.splitlines() == [
        "Downloaded data/1.txt to ./data/1.txt",
        "Downloaded data/2.txt to ./data/2.txt",
    ]
    assert other.out.splitlines() == [
        "Downloaded data/1.txt to out/data/1.txt",
        "Downloaded data/2.txt to out/data/2.txt",
    ]
    assert back.out == "Uploaded out/data/1.txt to data/1.txt\n"
    assert place.files() == ["data/1.txt", "data/2.txt", "out/data/1.txt", "out/data/2.txt"]


def test_a_pattern_is_one_word(place: Place) -> None:
    """Spaces belong to it, and a wildcard crosses folders."""
    place.bay.write("m/a b.pt", "1")
    place.bay.write("m/deep/a b.pt", "2")
    place.bay.write("m/a", "3")

    assert place.bay("toolbox", "upload", "file=m/*a b.pt").out.splitlines() == [
        "Uploaded m/a b.pt to m/a b.pt",
        "Uploaded m/deep/a b.pt to m/deep/a b.pt",
    ]


def test_what_is_newer_stays_unless_overwritten(place: Place) -> None:
    """A download leaves a file that is newer here and says so; `overwrite=true` replaces it."""
    place.put(a="old")
    file = place.bay.write("a", "newer")
    said = place.bay("toolbox", "download", "file=a")
    kept = file.read_text()
    forced = place.bay("toolbox", "download", "file=a", "overwrite=true")

    assert (said.out, kept) == ("", "newer")
    assert "left out 1:" in said.err
    assert (forced.out, file.read_text()) == ("Downloaded a to ./a\n", "old")


def test_a_pattern_without_matches_is_an_error(place: Place) -> None:
    """Each verb says that there is nothing of that name, and what there is."""
    place.put(data__x="1")
    said = [
        place.bay("toolbox", verb, "file=dta/", code=1) for verb in ("download", "upload", "find")
    ]

    assert ["error: nothing in" in one.err for one in said] == [True] * 3
    assert "`data/`" in said[0].err


def test_list_shows_one_level(place: Place) -> None:
    """Without a file it is the top of the bucket, as `bay data ls` prints it."""
    place.put(data__x="1", top="22")
    said = place.bay("toolbox", "list")

    assert [line.split()[-1] for line in said.out.splitlines()] == ["data/", "top"]
    assert said.out == place.bay("data", "ls").out
    assert place.bay("toolbox", "ls", "file=data").out == place.bay("data", "ls", "data").out


def test_find_prints_keys_alone(place: Place) -> None:
    """One a line, for programs that read them; folders where the pattern ends with a slash."""
    place.put(m__1__a="1", m__1__b="2", m__2__a="3")
    said = place.bay("toolbox", "find", "file=m/*a")

    assert (said.out, said.err) == ("m/1/a\nm/2/a\n", "")
    assert place.bay("toolbox", "fd", "file=m/*/").out == "m/1/\nm/2/\n"


def test_remove_asks_and_is_exact(place: Place) -> None:
    """Nobody there means no; `yes=true`, or an answer, removes that folder and no other."""
    place.put(data__x="1", data2__x="2", other="3")
    refused = place.bay("toolbox", "remove", "file=data/", code=2)
    kept = place.objects()
    place.bay("toolbox", "rm", "file=data/", "yes=true")
    left = place.objects()
    terminal = Terminal(place.bay, "toolbox", "remove", "file=other")
    terminal.until("[y/N]")
    terminal.type("y\n")

    assert "  data/x\n" in refused.err
    assert "hint: add `yes=true`" in refused.err
    assert (kept, left) == (["data/x", "data2/x", "other"], ["data2/x", "other"])
    assert (terminal.end(), place.objects()) == (0, ["data2/x"])


def test_the_prompt_of_the_document(place: Place) -> None:
    """Both sides are listed under their old headings, and a download prints its lines."""
    place.put(m__a="1", m__b="2", other="3")
    place.bay.write("m/a", "1")
    said = answer(place, "download\n", "interactive", "file=m/*", "local_path=.")

    assert said.out == (
        "Local files matching pattern:\nm/a\n\nS3 files matching pattern:\nm/a\nm/b\n\n"
        "Downloaded m/b to ./m/b\n"
    )
    assert "Choose an action [delete (local), remove (S3), download, upload, exit]: " in said.err
    assert place.files() == ["m/a", "m/b"]


def test_the_prompt_deletes_and_removes_after_a_yes(place: Place) -> None:
    """`delete` is about files here, `remove` about the bucket."""
    place.put(a="1")
    place.bay.write("a", "1")
    answer(place, "remove\nn\n", "interactive", "file=a", code=1)
    kept = place.objects()
    answer(place, "remove\ny\n", "interactive", "file=a")
    removed = (place.files(), place.objects())
    answer(place, "delete\ny\n", "interactive", "file=a")

    assert (kept, removed, place.files()) == (["a"], (["a"], []), [])


def test_the_prompt_on_a_terminal(place: Place) -> None:
    """A pattern that was not typed is asked for, then the action."""
    place.bay.write("a", "1")
    terminal = Terminal(place.bay, "toolbox", "interactive")
    terminal.until("Which file, folder or pattern: ")
    terminal.type("a\n")
    shown = terminal.until("upload, exit]: ")
    terminal.type("upload\n")
    last = terminal.until("Uploaded a to a")

    assert (terminal.end(), place.objects()) == (0, ["a"])
    assert "S3 files matching pattern:" in shown
    assert "Downloaded" not in last


@pytest.mark.parametrize("verb", ["upload", "download", "find", "remove", "interactive", "monitor"])
def test_a_missing_file_is_said(place: Place, verb: str) -> None:
    """Where nobody can answer, the variable that is missing is named."""
    said = place.bay("toolbox", verb, code=2)

    assert said.err == f"error: `{verb}` needs `file=…`\n\nhint: `make {verb} file=…`\n"


@contextmanager
def started(place: Place, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A monitor that has begun."""
    process = place.bay.start("toolbox", "monitor", *words)
    assert process.stderr
    line = process.stderr.readline()
    assert "what is deleted here stays there" in line, line + process.stderr.read()
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_monitor_uploads_and_deletes_nothing(place: Place) -> None:
    """Files go up as they settle and at TERM; what is deleted here stays in the bucket."""
    file = place.bay.write("runs/a", "1")
    with started(place, "file=runs", "interval=1") as process:
        assert process.stdout
        first = process.stdout.readline()
        file.unlink()
        place.bay.write("runs/b", "2")
        process.send_signal(signal.SIGTERM)
        rest, said = process.communicate(timeout=60)

    assert (process.returncode, first, rest) == (
        0,
        "Uploaded runs/a to runs/a\n",
        "Uploaded runs/b to runs/b\n",
    ), said
    assert place.objects() == ["runs/a", "runs/b"]


def test_monitor_under_make_ends_well(place: Place) -> None:
    """TERM to `make` reaches the watch, which sends the rest before it ends."""
    place.bay("init", "--makefile")
    place.bay.write("runs/a", "1")
    process = subprocess.Popen(
        [require_program("make"), "monitor", "file=runs", "interval=1h"],
        cwd=place.bay.project,
        env=place.bay.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stderr
        line = process.stderr.readline()
        process.terminate()
        out, _ = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    assert line.startswith("watching runs/")
    assert (out, place.objects()) == ("Uploaded runs/a to runs/a\n", ["runs/a"])


def test_a_wrong_interval_is_said(place: Place) -> None:
    """A word that is no time is refused before anything is watched."""
    said = place.bay("toolbox", "monitor", "file=runs", "interval=soon", code=2)

    assert "hint: write `interval=5`, in seconds" in said.err


def test_no_server_is_started(bay: Bay) -> None:
    """The verb explains and ends; nothing listens at the port of old."""
    said = bay("toolbox", "server", "port=57575")
    with socket.socket() as probe:
        refused = probe.connect_ex(("127.0.0.1", 57575))

    assert (said.out, refused) == ("", errno.ECONNREFUSED)
    assert "no server is needed, and none was started" in said.err


def test_no_bucket_is_said_with_the_way_out(bay: Bay) -> None:
    """The line for `.env` comes first, since these users have one."""
    said = bay("toolbox", "upload", "file=data/", code=2)

    assert "error: there is no bucket yet\n" in said.err
    assert "hint: a line `S3_BUCKET_NAME=…` in `.env`" in said.err


def loaded(bay: Bay, *words: str) -> set[str]:
    """The modules that a command has loaded at its end."""
    done = subprocess.run(
        [bay.python, "-c", PROGRAM, *words],
        cwd=bay.project,
        env=bay.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


def test_upload_loads_no_more_than_data_up(place: Place) -> None:
    """The old name costs its own three modules, and nothing else."""
    place.bay.write("a", "1")
    place.bay.write("b", "1")
    more = loaded(place.bay, "toolbox", "upload", "file=a") - loaded(place.bay, "data", "up", "b")

    assert more == {
        "launchbay.cli.toolbox",
        "launchbay.cli.toolbox_data",
        "launchbay.cli.toolbox_words",
    }
