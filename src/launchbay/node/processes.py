"""Processes: started in a session of their own, known again, found and counted out."""

from __future__ import annotations

import os
import signal
import time

from files import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PLAIN = ("HOME", "PATH", "XDG_STATE_HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME")
NO_COMMAND = 127
ORDINARY = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)
"""What a program may expect to be sent; Python and `nohup` ignore some, and that is inherited."""


def clock() -> float:
    """Seconds that no change of the date touches; they go on while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def plain_environment() -> dict[str, str]:
    """What a program needs that brings its own environment along."""
    return {name: os.environ[name] for name in PLAIN if name in os.environ}


def spawn_session(argv: list[str], environment: dict[str, str], log: int | None = None) -> int:
    """Start a program that outlives us; its errors go to `log`, if given. Returns its id."""
    null = os.open(os.devnull, os.O_RDWR)
    streams = [(null, 0), (null, 1), (null if log is None else log, 2)]
    try:
        return os.posix_spawn(
            argv[0],
            argv,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in streams],
            setsid=True,
            setsigdef=ORDINARY,
        )
    except NotImplementedError:
        return _fork_session(argv, environment, streams)
    finally:
        os.close(null)


def _fork_session(
    argv: list[str], environment: dict[str, str], streams: list[tuple[int, int]]
) -> int:
    """As `posix_spawn`, where the system's own cannot start a session."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number in ORDINARY:
            signal.signal(number, signal.SIG_DFL)
        for source, target in streams:
            os.dup2(source, target)
        os.execve(argv[0], argv, environment)  # noqa: S606
    finally:
        os._exit(NO_COMMAND)


def ended_children() -> Iterator[tuple[int, int]]:
    """Id and wait status of each child that has ended since."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, status


def age_s(started: dict[str, Any]) -> float:
    """How long the process that wrote the record has run."""
    if hasattr(time, "CLOCK_BOOTTIME") and started.get("start"):
        return clock() - int(started["start"]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.time() - float(started.get("at") or time.time()))


def group_lives(group: int) -> bool:
    """Whether the group may have members; a zombie is one."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def processes_of(folder: str, attempt: int, group: int | None) -> set[int]:
    """Ids of the processes that carry the marks of a run's attempt, or belong to the group."""
    if not os.path.isdir("/proc/self"):
        # A negative number names the whole group.
        return {-group} if group and group_lives(group) else set()
    # The run's id alone would not do: its next attempt has it too, and so may another root's run.
    out = os.path.join(folder, "out")
    marks = {os.fsencode(f"BAY_OUT={out}"), f"BAY_ATTEMPT={attempt}".encode()}
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and _belongs(int(name), marks, group):
            found.add(int(name))
    return found


def send_signal(pid: int, number: int) -> None:
    """Signal a process, if it is still there and ours."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _belongs(pid: int, marks: set[bytes], group: int | None) -> bool:
    fields = _fields(pid)
    if not fields or fields[0] == "Z":
        return False
    if group is not None and fields[2] == str(group):
        return True
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return marks.issubset(file.read().split(b"\0"))
    except OSError:
        return False


def _fields(pid: int) -> list[str]:
    """State, parent, group and so on; the name before them, in parentheses, may hold anything."""
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
