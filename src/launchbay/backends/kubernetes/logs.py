"""Logs of runs in pods: from the run's own file while it runs, then what the cluster has kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.calls import last_words
from launchbay.backends.kubernetes.pods import NOT_THERE
from launchbay.backends.names import attempt_of
from launchbay.core import rundir
from launchbay.core.backend import LOG_PIECE, LogChunk
from launchbay.core.errors import Unreachable
from launchbay.core.host import decoded_so_far, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.backends.kubernetes.status import Objects
    from launchbay.core.host import Completed
    from launchbay.core.run import Handle

AT_ONCE = "--pod-running-timeout=1s"
"""Where there is no pod of the Job, kubectl would wait a minute for one."""
NOT_FOUND = "unable to retrieve container logs for "
"""What a node prints in the place of a log."""
PAUSES_S = (0.2, 0.5, 1.0, 2.0)


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
    done = _ask_inside(kubectl, handle, rank, offset)
    size, line_end, rest = done.stdout.partition("\n")
    if done.ok and line_end and size.isdecimal():
        piece = Piece(offset, encoded(rest), int(size))
    elif rank == 0:
        ending = bool(NOT_THERE.search(done.stderr))
        piece = _read_kept(kubectl, handle, offset, look([handle]), ending=ending)
    else:
        piece = Piece(offset, b"", offset)
    text, used = decoded_so_far(piece.data)
    more = piece.begins + len(piece.data) < piece.end
    return LogChunk(text=text, cursor=str(piece.begins + used), more=more)


class Piece(NamedTuple):
    """A part of a log."""

    begins: int
    data: bytes
    end: int
    """Of all that there is of the log."""


def _ask_inside(kubectl: Kubectl, handle: Handle, rank: int, offset: int) -> Completed:
    """The length of the run's own file, and a piece of it; refused where nobody can be inside."""
    asked = [handle.run_id, attempt_of(handle), rundir.log_name(rank), offset, LOG_PIECE]
    inside = ["/bin/sh", f"{words.PROGRAMS_AT}/read.sh", *map(str, asked)]
    where = (f"job/{handle.native_id}", "-c", words.MAIN, AT_ONCE)
    return kubectl.call("exec", *where, "--", *inside)


def _read_kept(
    kubectl: Kubectl, handle: Handle, offset: int, objects: Objects, *, ending: bool
) -> Piece:
    """A piece of what the cluster has kept of the log.

    Args:
        kubectl: how to reach the cluster.
        handle: the run.
        offset: bytes that are known already.
        objects: the run's Job and pods.
        ending: whether its container does not run, so that what it tells at its end is at hand.
    """
    size = objects.log_size(handle.native_id)
    nothing = Piece(offset, b"", offset)
    if size is not None and size <= offset:
        return nothing
    if offset and ending and not objects.is_over(handle.native_id):
        # What it will tell may save bringing all that is known once more.
        return nothing
    # Of a log that goes on nothing more is taken than is handed out: it may grow fast. One byte
    # more tells whether it goes on.
    kept, problem = _ask_kept(kubectl, handle, offset + LOG_PIECE + 1 if size is None else 0)
    if not kept and size is not None:
        # Only an empty log has no text.
        raise Unreachable(
            f"`{kubectl.target}` does not give out the log of `{handle.run_id}`: {problem}",
            hint="a node may take a moment; try again",
        )
    # Where it was rotated, what is left is the end.
    begins = max(0, size - len(kept)) if size is not None else 0
    offset = max(offset, begins)
    start = offset - begins
    return Piece(offset, kept[start : start + LOG_PIECE], begins + len(kept))


def _ask_kept(kubectl: Kubectl, handle: Handle, most: int) -> tuple[bytes, str]:
    """What `kubectl logs` prints, the first so many bytes of it, or all; and why if nothing.

    Right after the end a node may not find the log for a moment, and says so in its place.
    """
    asked = ["logs", f"job/{handle.native_id}", "-c", words.MAIN, AT_ONCE]
    asked += [f"--limit-bytes={most}"] * bool(most)
    for pause_s in (*PAUSES_S, None):
        done = kubectl.call(*asked)
        if not done.ok:
            return b"", last_words(done.stderr)
        if not done.stdout.startswith(NOT_FOUND):
            return encoded(done.stdout), "it is empty there"
        if pause_s is not None:
            time.sleep(pause_s)
    return b"", last_words(done.stdout)
