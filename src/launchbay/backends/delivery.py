"""Files of this machine on their way to a folder of a host: checked, whole or not at all.

A file travels under a number, never under its name: what an archive holds cannot lead anywhere.
On the other side a POSIX `sh`, `tar` and `mv` are enough; with `sha256sum` contents are compared.
"""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import shlex
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from launchbay.backends.depot_programs import WHOLE
from launchbay.core.errors import BadRequest, Rejected, TargetError
from launchbay.core.host import decoded, encoded
from launchbay.hosts.ssh_words import last_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from launchbay.core.backend import Parcel
    from launchbay.core.host import Host

    Moved = Callable[[int, int], None]
    """Is told of so many files and bytes more."""
    Member = tuple[str, int, float, bytes]
    """Name, mode, time and content."""

PIECE = 16 << 20
"""Bytes that travel in one call; several times as many are held in memory meanwhile."""
MOST_FILES = 2000
# $1 the folder, $2 another one where links may lead, $3 the umask, $4 the draft. `list.sh` calls
# `place NUMBER PATH` for each file, before that `finish NUMBER MODE` for one that came in pieces.
UNPACK = f"""\
umask "$3"
fail() {{
    rm -rf "$draft"
    printf '%s\\n' "$1" >&2
    exit 1
}}
draft=$1/$4
top=$(cd "$1" 2>/dev/null && pwd -P) || fail "$1 is not there"
also=$(cd "$2" 2>/dev/null && pwd -P) || also=$top
mkdir -p "$draft" && tar -xpof - -C "$draft" && rm "$draft/{WHOLE}" || fail "what came is not whole"
sums=
for program in sha256sum 'shasum -a 256'; do
    command -v "${{program%% *}}" >/dev/null 2>&1 && sums=$program && break
done
[ -z "$sums" ] || (cd "$draft" && $sums -c sums >/dev/null 2>&1) ||
    fail 'what came is not what was sent'
known=
stays_inside() {{
    near=$1
    while [ ! -d "$near" ]; do near=${{near%/*}}; done
    near=$(cd "$near" && pwd -P) || return
    case $near/ in "$top"/* | "$also"/*) return 0 ;; esac
    return 1
}}
finish() {{
    touch -r "$draft/$1.like" "$draft/$1" 2>/dev/null
    chmod "$2" "$draft/$1"
}}
place() {{
    final=$top/$2
    above=${{final%/*}}
    if [ "$above" != "$known" ]; then
        stays_inside "$above" || fail "$2 would lead out of the folder"
        mkdir -p "$above" || fail "no folder for $2 can be made"
        known=$above
    fi
    [ ! -d "$final" ] || fail "$2 is a folder there"
    mv -f "$draft/$1" "$final" || fail "$2 cannot be written"
}}
. "$draft/list.sh"
rm -rf "$draft"
"""
# $1 the draft's folder, $2 the file in it, $3 how long it is before, $4 how long after.
APPEND = """\
umask 077
mkdir -p "$1" || exit 1
[ "$3" -eq 0 ] || [ "$(wc -c <"$1/$2")" -eq "$3" ] || { echo 'a piece is missing' >&2; exit 1; }
cat >>"$1/$2" || exit 1
[ "$(wc -c <"$1/$2")" -eq "$4" ] || { echo 'a piece is not whole' >&2; exit 1; }
"""


def deliver_to_run(host: Host, run: str, parcels: Sequence[Parcel]) -> None:
    """Have files in the working folder of a run, whose folder `run` is; see `Delivery`.

    Raises:
        Rejected: when one cannot be written, or would lead out of the run's folder.
    """
    deliver(host, f"{run}/work", parcels, also=run)


def deliver(
    host: Host,
    folder: str,
    parcels: Iterable[Parcel],
    *,
    also: str = "",
    umask: int = 0o077,
    moved: Moved = lambda files, size: None,  # noqa: ARG005
) -> None:
    """Have files below a folder of a host, with their modes and times, each whole or not at all.

    Args:
        host: where.
        folder: is there already.
        parcels: what, and where below the folder.
        also: another folder where links of the first may lead.
        umask: for folders that are made.
        moved: is told of so many files and bytes more.

    Raises:
        BadRequest: when a place is no path below the folder, or a file cannot be read.
        Rejected: when something cannot be written there.
    """
    words = [folder, also or folder, f"{umask:03o}"]
    for batch in _batches(parcels):
        draft = f".bay-{os.urandom(8).hex()}"
        try:
            _send(host, [*words, draft], batch, moved)
        except BaseException:
            # Where nobody answers it stays; its name says whose it is.
            with suppress(TargetError):
                host.run(["rm", "-rf", f"{folder}/{draft}"])
            raise


def _send(host: Host, words: Sequence[str], batch: Sequence[Parcel], moved: Moved) -> None:
    if _stat(batch[0].source).st_size > PIECE:
        _send_large(host, words, batch[0], moved)
        return
    sent, size = _pack(batch)
    _written(host, ["/bin/sh", "-c", UNPACK, "sh", *words], sent)
    moved(len(batch), size)


def check_place(place: str) -> str:
    """The path in its plainest form.

    >>> check_place("a//b/./c")
    'a/b/c'

    Raises:
        BadRequest: when it does not lead below the folder that it is for.
    """
    plain = posixpath.normpath(place)
    if not place or plain in {".", ".."} or plain.startswith(("/", "../")) or "\0" in place:
        raise BadRequest(f"`{place}` is no path below the folder that it is for")
    return plain


def _batches(parcels: Iterable[Parcel]) -> Iterator[list[Parcel]]:
    """The files in groups that one call can send; one that is too large stands alone."""
    batch: list[Parcel] = []
    size = 0
    for parcel in parcels:
        check_place(parcel.place)
        own = _stat(parcel.source).st_size
        if batch and (size + own > PIECE or len(batch) >= MOST_FILES):
            yield batch
            batch, size = [], 0
        batch.append(parcel)
        size += own
    if batch:
        yield batch


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as err:
        raise BadRequest(f"`{path}` cannot be read: {err.strerror}") from err


def _pack(batch: Sequence[Parcel]) -> tuple[str, int]:
    """The archive of some files, and how many bytes are theirs."""
    members: list[Member] = []
    lines, sums, size = [], [], 0
    for number, parcel in enumerate(batch):
        with _reading(parcel.source) as file:
            seen, data = os.fstat(file.fileno()), file.read()
        members.append((str(number), seen.st_mode & 0o777, seen.st_mtime, data))
        sums.append(f"{hashlib.sha256(data).hexdigest()}  {number}\n")
        lines.append(_render_place(number, parcel))
        size += len(data)
    return _archive(members, lines, sums), size


def _send_large(host: Host, words: Sequence[str], parcel: Parcel, moved: Moved) -> None:
    """Send a file piece by piece."""
    total, at = hashlib.sha256(), 0
    with _reading(parcel.source) as file:
        seen = os.fstat(file.fileno())
        while piece := file.read(PIECE):
            total.update(piece)
            sizes = [str(at), str(at + len(piece))]
            inside = [f"{words[0]}/{words[-1]}", "0", *sizes]
            _written(host, ["/bin/sh", "-c", APPEND, "sh", *inside], decoded(piece))
            at += len(piece)
            moved(0, len(piece))
    mode = seen.st_mode & 0o777
    # An empty file carries the time.
    like = ("0.like", mode, seen.st_mtime, b"")
    lines = [f"finish 0 {mode:o}\n", _render_place(0, parcel)]
    sent = _archive([like], lines, [f"{total.hexdigest()}  0\n"])
    _written(host, ["/bin/sh", "-c", UNPACK, "sh", *words], sent)
    moved(1, 0)


def _render_place(number: int, parcel: Parcel) -> str:
    return f"place {number} {shlex.quote(check_place(parcel.place))}\n"


def _archive(members: Iterable[Member], lines: Iterable[str], sums: Iterable[str]) -> str:
    """A tar archive as text, closed by a mark that it is whole."""
    import tarfile  # noqa: PLC0415 (dear, and most commands send nothing)

    ours = (("sums", sums), ("list.sh", lines))
    texts = [(name, 0o600, 0.0, encoded("".join(text))) for name, text in ours]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, mode, mtime, data in [*members, *texts, (WHOLE, 0o600, 0.0, b"")]:
            info = tarfile.TarInfo(name)
            info.mode, info.mtime, info.size = mode, mtime, len(data)
            tar.addfile(info, io.BytesIO(data))
    return decoded(stream.getvalue())


@contextmanager
def _reading(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as err:
        raise BadRequest(f"`{path}` cannot be read: {err.strerror}") from err


def _written(host: Host, argv: Sequence[str], stdin: str) -> None:
    done = host.run(argv, stdin=stdin)
    if not done.ok:
        where = f"`{host.name}`" if host.name else "this machine"
        said = last_line(done.stderr) or "no word"
        raise Rejected(f"{where} does not take the file: {said}")
