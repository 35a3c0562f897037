"""Locks that processes share, and programs whose three pipes are served at once."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from itertools import chain
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Any

from launchbay.core.errors import Unreachable
from launchbay.hosts.ssh_words import find_start, tell_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

ANSWER_S = 5.0
"""For a control master that is asked to end."""


START_S = 60.0
"""For the rc files of a login shell; longer means that the connection is dead."""


@contextmanager
def locked(path: Path) -> Iterator[IO[bytes]]:
    """Hold the file, which only we can read."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


@contextmanager
def one_of(count: int, beside: Path) -> Iterator[None]:
    """Hold one of so many locks, which all our processes share."""
    files = [
        os.open(beside.with_suffix(f".{number}"), os.O_RDWR | os.O_CREAT, 0o600)
        for number in range(count)
    ]
    try:
        while not any(_taken(file) for file in files):
            time.sleep(0.02)
        yield
    finally:
        for file in files:
            os.close(file)


def _taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def finished(argv: Sequence[str], errors: IO[bytes], within_s: float = ANSWER_S) -> int | None:
    """The exit code of a command that says nothing but errors; None when it took too long."""
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv,
            stdin=nothing,
            stdout=nothing,
            stderr=errors,
            check=False,
            timeout=within_s,
            **_alone(),
        )
    except subprocess.TimeoutExpired:
        return None
    except OSError as err:
        raise no_ssh(err) from err
    return done.returncode


def _alone() -> dict[str, Any]:
    """Away from terminal and screen: the ssh to a jump host is not told of BatchMode.

    An interrupt from the keyboard is then ours alone, and we end the command.
    """
    return {"start_new_session": True, "env": {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}}


def started(argv: Sequence[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """A program that we write to and read from."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=errors, bufsize=0, **_alone())
    except OSError as err:
        raise no_ssh(err) from err


def no_ssh(err: OSError) -> Unreachable:
    """The error of a machine without `ssh`."""
    return Unreachable(f"`ssh` does not start here: {err.strerror}", hint="install OpenSSH")


@contextmanager
def feeding(process: subprocess.Popen[bytes], script: bytes, rest: bytes) -> Iterator[Event]:
    """Write the script, and the rest once the event is set, while somebody else reads.

    Afterwards the process has ended.
    """
    go, gone = Event(), Event()

    def feed(pipe: IO[bytes]) -> None:
        # A command need not read what it is given.
        with suppress(OSError), pipe:
            _write_all(pipe, script)
            go.wait()
            if not gone.is_set():
                _write_all(pipe, rest)

    feeder = Thread(target=feed, args=[process.stdin], daemon=True)
    feeder.start()
    try:
        yield go
    finally:
        if not go.is_set():
            gone.set()
            go.set()
        process.wait()
        feeder.join()


def _write_all(pipe: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) :]


def _chunks(pipe: IO[bytes], within_s: float | None = None) -> Iterator[bytes]:
    """What comes, as it comes; ends early when the time is up."""
    deadline = None if within_s is None else time.monotonic() + within_s
    ready = select.poll()
    ready.register(pipe)
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        if not ready.poll(left):
            return
        chunk = os.read(pipe.fileno(), 65536)
        if not chunk:
            return
        yield chunk


def until_started(pipe: IO[bytes], mark: str) -> tuple[bytes, str]:
    """What came after the start line, and the process id in it; no id when it never came."""
    heard = b""
    for chunk in _chunks(pipe, START_S):
        heard += chunk
        if found := find_start(heard, mark):
            return heard[found[1] :], found[0]
    return b"", ""


def until_ended(
    pipe: IO[bytes], heard: bytes, mark: str, tell: Callable[[bytes], None] | None
) -> bytes:
    """All that the command prints, the end line included; each line is told as it comes."""
    parts, untold = [], b""
    for chunk in chain([heard], _chunks(pipe)):
        parts.append(chunk)
        if tell is not None:
            untold += chunk
            untold = untold[tell_lines(untold, mark, tell) :]
    return b"".join(parts)


def ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code; a session that does not come to its start is ended."""
    try:
        return process.wait(ANSWER_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        return process.wait()


def read_all(file: IO[bytes]) -> bytes:
    """What the file holds."""
    file.seek(0)
    return file.read()


def write_anew(file: IO[bytes], data: bytes) -> None:
    """Have the file hold this and nothing else."""
    file.seek(0)
    file.truncate()
    file.write(data)


def listens(path: Path) -> bool:
    """Whether a control master takes calls there."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(ANSWER_S)
        try:
            caller.connect(str(path))
        except OSError:
            return False
        return True
