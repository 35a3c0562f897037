"""`bay data watch` with a folder as the bucket."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.cli.conftest import Place


@contextmanager
def watching(place: Place, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A watch that has begun."""
    listening = ("env", "--default-signal=INT")
    process = place.bay.start("data", "watch", *words, through=listening)
    assert process.stderr
    line = process.stderr.readline()
    assert line.startswith("watching"), line + process.stderr.read()
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    """Ask it to end; what it said."""
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


def test_new_and_changed_files_go_up(place: Place) -> None:
    """A file that settled is sent, and again when it changed; others are left alone."""
    file = place.bay.write("runs/a", "1")
    place.bay.write("other", "2")
    with watching(place, "runs/", "--interval", "1s") as process:
        eventually(lambda: place.objects() == ["runs/a"])
        place.bay.write("runs/deep/b", "1")
        file.write_text("22")
        eventually(lambda: (place.bucket / "runs" / "a").read_text() == "22")
        eventually(lambda: place.objects() == ["runs/a", "runs/deep/b"])
        said = end(process)

    assert "sent 1 file: runs/a" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_sends_what_has_not_settled(place: Place, number: int) -> None:
    """TERM and Ctrl-C sync a last time, without waiting for the interval, and exit 0."""
    place.bay.write("runs/a", "1")
    with watching(place, "runs/", "--interval", "1h") as process:
        place.bay.write("runs/b", "2")
        end(process, number)

    assert place.objects() == ["runs/a", "runs/b"]


def test_deletions_are_mirrored_only_if_asked(place: Place) -> None:
    """Without `--delete` the bucket keeps what is gone here; with it, only what was seen goes."""
    for words in ((), ("--delete",)):
        place.put(runs__old="0")
        file = place.bay.write("runs/a", f"1{words}")
        sent = place.bucket / "runs" / "a"
        with watching(place, "runs/", "--interval", "1s", *words) as process:
            assert process.stderr
            line = process.stderr.readline()
            file.unlink()
            end(process)
        assert line == "sent 1 file: runs/a\n"
        assert sent.exists() is (not words)
        assert (place.bucket / "runs" / "old").exists()


def test_a_second_watch_is_refused(place: Place) -> None:
    """The message names the process that watches already."""
    place.bay.write("runs/a", "1")
    with watching(place, "runs/", "--interval", "1h") as process:
        refused = place.bay("data", "watch", "runs", code=2)
        end(process)

    assert f"watched already, by process {process.pid}" in refused.err


def test_once_sends_and_ends(place: Place) -> None:
    """One interval, one sync; secrets and excluded files stay."""
    for name in ("runs/a", "runs/b.tmp", "runs/.env"):
        place.bay.write(name, "1")
    place.bay("data", "watch", "runs/", "--interval", "1s", "--once", "--exclude", "*.tmp")

    assert place.objects() == ["runs/a"]


def test_trouble_is_said_once_and_overcome(place: Place) -> None:
    """A bucket that is away for a while gets everything when it is back."""
    away = place.bucket.rename(place.bucket.with_name("away"))
    place.bucket.write_text("no folder")
    place.bay.write("runs/a", "1")
    with watching(place, "runs/", "--interval", "1s") as process:
        assert process.stderr
        first = process.stderr.readline()
        place.bucket.unlink()
        away.rename(place.bucket)
        eventually(lambda: place.objects() == ["runs/a"])
        rest = end(process)

    assert "error:" in first
    assert "error:" not in rest


def test_a_missing_folder_is_an_error(place: Place) -> None:
    """A typo watches nothing."""
    assert "there is no folder" in place.bay("data", "watch", "rnus/", code=2).err
