"""Logs of runs in pods: from the run's own file while it runs, then what the cluster has kept."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from launchbay.backends import kubernetes_words as words
from launchbay.backends.names import attempt_of
from launchbay.core import rundir
from launchbay.core.backend import LogChunk
from launchbay.core.host import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launchbay.backends.kubernetes_calls import Kubectl
    from launchbay.backends.kubernetes_status import Objects
    from launchbay.core.run import Handle

AT_ONCE = "--pod-running-timeout=1s"
"""Where there is no pod of the Job, kubectl would wait a minute for one."""
PIECE = 16 * 1024 * 1024
"""The most of a log that is handed out at once."""


def read_log(
    kubectl: Kubectl,
    handle: Handle,
    *,
    rank: int,
    offset: int,
    look: Callable[[Sequence[Handle]], Objects],
) -> LogChunk:
    """What came of a log since `offset`, at most a piece of it.

    Args:
        kubectl: how to reach the cluster.
        handle: the run.
        rank: of which of its processes.
        offset: bytes that are known already.
        look: the Jobs and pods of runs.
    """
    size, data = _read_inside(kubectl, handle, rank, offset)
    if size is None:
        offset, data = _read_kept(kubectl, handle, offset, look) if rank == 0 else (offset, b"")
        size = offset + len(data)
    # A character that is half written stays for the next time.
    text, used = codecs.utf_8_decode(data, "replace", False)  # noqa: FBT003
    return LogChunk(text=text, cursor=str(offset + used), more=offset + len(data) < size)


def _read_inside(
    kubectl: Kubectl, handle: Handle, rank: int, offset: int
) -> tuple[int | None, bytes]:
    """How long the run's own file is, and a piece of it; None where nobody can be in its pod."""
    asked = [handle.run_id, str(attempt_of(handle)), rundir.log_name(rank), str(offset), str(PIECE)]
    inside = ["/bin/sh", f"{words.PROGRAMS_AT}/read.sh", *asked]
    where = (f"job/{handle.native_id}", "-c", words.MAIN, AT_ONCE)
    done = kubectl.call("exec", *where, "--", *inside)
    size, line_end, rest = done.stdout.partition("\n")
    if not done.ok or not line_end or not size.isdecimal():
        return None, b""
    return int(size), encoded(rest)


def _read_kept(
    kubectl: Kubectl,
    handle: Handle,
    offset: int,
    look: Callable[[Sequence[Handle]], Objects],
) -> tuple[int, bytes]:
    """What the cluster has kept of the log of a run that ended, and where in it that begins."""
    size = look([handle]).log_size(handle.native_id)
    if size is not None and size <= offset:
        return offset, b""
    done = kubectl.call("logs", f"job/{handle.native_id}", "-c", words.MAIN, AT_ONCE)
    if not done.ok:
        return offset, b""
    kept = encoded(done.stdout)
    # Where it was rotated, what is left is the end.
    begins = max(0, size - len(kept)) if size is not None else 0
    return max(offset, begins), kept[max(0, offset - begins) :]
