"""Files of a folder of a host on their way here: which there are, and writing them safely.

Whatever the other side says, nothing is written outside of the folder that is named here, and no
file takes the place of a folder. Links are left where they are.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from launchbay.backends.depot_pull import LINE, PIECE, SEND_PIECE, Remote, batches, matches
from launchbay.core.errors import BayError, Rejected, StoreError, Unreachable
from launchbay.core.host import encoded
from launchbay.hosts.ssh_words import last_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from launchbay.core.host import Completed, Host

    Moved = Callable[[int, int], None]
    """Is told of so many files and bytes more."""

WILD = re.compile(r"[*?\[]")
SUM = re.compile(r"^\\?([0-9a-f]{64}) [ *]", re.MULTILINE)
DRAFTS = ".bay-"
"""How the names of what is being written begin."""
# $1 the folder, $2 a word that no name holds, then what below it; what is not there is nothing.
LIST = """\
cd "$1" || exit 1
word=$2
shift 2
for path do
    shift
    [ ! -e "./$path" ] && [ ! -L "./$path" ] || set -- "$@" "./$path"
done
[ "$#" -eq 0 ] || find "$@" '(' -type f -o -type l ')' -exec stat -c "$word%f %s %Y %y/%n" '{}' +
"""
# $1 the folder, then files. The sums come after the archive: a file that grew meanwhile differs.
SEND = """\
cd "$1" && shift || exit
tar -cf - "$@"
! command -v sha256sum >/dev/null 2>&1 || sha256sum "$@" >&2
"""
SUM_ONE = 'cd "$1" && { ! command -v sha256sum >/dev/null 2>&1 || sha256sum "$2"; }'


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What is below a folder there."""

    files: tuple[Remote, ...]
    links: int = 0
    """Symbolic links, which stay where they are."""


def list_files(host: Host, folder: str, pattern: str = "") -> Listed:
    """The files below a folder that match; no pattern is all.

    Args:
        host: where.
        folder: the folder there.
        pattern: a path below it, or with `*`, `?` and `[…]`, where `*` also crosses folders.

    Raises:
        Rejected: when it cannot be read.
    """
    found = look_up(host, folder, [literal_part(pattern)])
    wanted = [pattern.strip("/")] if pattern.strip("/") else []
    chosen = [file for file in found.values() if matches(file.place, wanted)]
    files = sorted((one for one in chosen if not one.is_link), key=lambda one: one.place)
    return Listed(files=tuple(files), links=len(chosen) - len(files))


def look_up(host: Host, folder: str, paths: Sequence[str]) -> dict[str, Remote]:
    """Every file and link at or below these paths of a folder there, by its place.

    Raises:
        Rejected: when it cannot be read.
    """
    word = f"bay-{os.urandom(12).hex()} "
    done = host.run(["/bin/sh", "-c", LIST, "sh", folder, word, *paths])
    if not done.ok and not done.stdout:
        where = f"`{host.name}`" if host.name else "this machine"
        raise Rejected(f"{where} cannot list it: {last_line(done.stderr) or 'no word'}")
    found = filter(None, map(_parse, done.stdout.split(word)[1:]))
    return {file.place: file for file in found if not _is_draft(file.place)}


def literal_part(pattern: str) -> str:
    """The folders of a pattern before anything wild, or all of one that is not.

    >>> literal_part("a/b*/c"), literal_part("a/b/"), literal_part("*")
    ('a', 'a/b', '')
    """
    found = WILD.search(pattern)
    return (pattern[: found.start()].rpartition("/")[0] if found else pattern).strip("/")


def _parse(line: str) -> Remote | None:
    parsed = LINE.fullmatch(line)
    if parsed is None:
        return None
    mode, size, seconds, clock, path = parsed.groups()
    plain = path.removeprefix("./").lstrip("/")
    if any(part in {"", ".", ".."} for part in plain.split("/")):
        return None
    fraction = re.search(r"\.(\d{9})", clock)
    return Remote(
        source=plain,
        place=plain,
        size=int(size),
        mtime_ns=int(seconds) * 10**9 + int(fraction[1] if fraction else 0),
        is_link=stat.S_ISLNK(int(mode, 16)),
    )


def _is_draft(place: str) -> bool:
    return any(part.startswith(DRAFTS) for part in place.split("/"))


def is_here(file: Remote, into: Path) -> bool:
    """Whether a file is here as it is there, by size and time."""
    try:
        here = (into / file.place).stat()
    except OSError:
        return False
    # Not every archive carries more than whole seconds.
    same_time = here.st_mtime_ns // 10**9 == file.mtime_ns // 10**9
    return stat.S_ISREG(here.st_mode) and here.st_size == file.size and same_time


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What came of files that were to come here."""

    done: tuple[Remote, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """Those that did not come, and why."""


def fetch_files(
    host: Host,
    folder: str,
    files: Sequence[Remote],
    into: Path,
    moved: Moved = lambda files, size: None,  # noqa: ARG005
) -> Fetched:
    """Have files of a folder there below a folder here, each whole or not at all.

    Raises:
        TargetError: when the host does not answer.
    """
    done: list[Remote] = []
    failed: list[tuple[str, str]] = []
    landing = Landing(into)
    for batch in batches(files):
        if batch[0].size > PIECE:
            wrong = _fetch_large(host, folder, batch[0], landing, moved)
        else:
            wrong = _fetch_some(host, folder, batch, landing)
            moved(len(batch), sum(file.size for file in batch))
        failed += wrong.items()
        done += [file for file in batch if file.place not in wrong]
    return Fetched(done=tuple(done), failed=tuple(failed))


def _fetch_some(
    host: Host, folder: str, batch: Sequence[Remote], landing: Landing
) -> dict[str, str]:
    names = [f"./{file.source}" for file in batch]
    sent = host.run(["/bin/sh", "-c", SEND, "sh", folder, *names])
    came = _unpack(encoded(sent.stdout))
    sums = dict(zip(names, SUM.findall(sent.stderr), strict=False))
    complete = len(sums) == len(names)
    wrong: dict[str, str] = {}
    for file in batch:
        data = came.get(file.source)
        if data is None:
            wrong[file.place] = _why(sent)
        elif complete and hashlib.sha256(data).hexdigest() != sums[f"./{file.source}"]:
            wrong[file.place] = CHANGED
        else:
            wrong |= landing.take(file, data)
    return wrong


CHANGED = "it changed while it was read"


def _why(sent: Completed) -> str:
    said = [line for line in sent.stderr.splitlines() if not SUM.match(line)]
    return said[0] if said else "it did not come"


def _unpack(data: bytes) -> dict[str, bytes]:
    """The plain files of an archive, by name."""
    import tarfile  # noqa: PLC0415 (dear, and most commands fetch nothing)

    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errors="surrogateescape") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content:
                    found[member.name.removeprefix("./")] = content.read()
    except tarfile.TarError as err:
        if not found:
            raise Unreachable(f"what came is no archive: {err}") from err
    return found


def _fetch_large(
    host: Host, folder: str, file: Remote, landing: Landing, moved: Moved
) -> dict[str, str]:
    """Bring a file piece by piece; or why it did not come, by its name."""
    try:
        with landing.writing(file) as stream:
            _copy_pieces(host, folder, file, stream, moved)
    except _Unfit as err:
        return {file.place: str(err)}
    moved(1, 0)
    return {}


def _copy_pieces(host: Host, folder: str, file: Remote, stream: BinaryIO, moved: Moved) -> None:
    total, words = hashlib.sha256(), [folder, f"./{file.source}"]
    for start in range(0, file.size, PIECE):
        length = min(PIECE, file.size - start)
        range_ = [str(start + 1), str(length)]
        piece = encoded(host.run(["/bin/sh", "-c", SEND_PIECE, "sh", *words, *range_]).stdout)
        if len(piece) != length:
            raise _Unfit(CHANGED)
        total.update(piece)
        stream.write(piece)
        moved(0, length)
    told = SUM.match(host.run(["/bin/sh", "-c", SUM_ONE, "sh", *words]).stdout)
    if told and told[1] != total.hexdigest():
        raise _Unfit(CHANGED)


class _Unfit(BayError):
    """A file that cannot be taken."""


class Landing:
    """A folder here that files come to, none of them beyond it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, file: Remote, data: bytes) -> dict[str, str]:
        """Write a file; or why it cannot be, by its name."""
        try:
            with self.writing(file) as stream:
                stream.write(data)
        except _Unfit as err:
            return {file.place: str(err)}
        return {}

    @contextmanager
    def writing(self, file: Remote) -> Iterator[BinaryIO]:
        """A draft that takes the file's place at the end, with the time of its original."""
        try:
            place = self._place(file)
            draft = place.with_name(f"{DRAFTS}{os.urandom(6).hex()}")
            try:
                with draft.open("xb") as stream:
                    yield stream
                os.utime(draft, ns=(file.mtime_ns, file.mtime_ns))
                draft.replace(place)
            finally:
                draft.unlink(missing_ok=True)
        except OSError as err:
            raise StoreError(
                f"`{err.filename or self._folder}` cannot be written: {err.strerror}",
                hint="make room, or choose another folder with `-o`",
            ) from err

    def _place(self, file: Remote) -> Path:
        """Where a file belongs; a link of this side may not lead it away."""
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / file.place
        top = self._folder.resolve()
        if not place.parent.resolve().is_relative_to(top):
            raise _Unfit("a link here leads it out of the folder")
        if place.is_dir():
            raise _Unfit("a folder of that name is here")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise _Unfit("a file stands here where its folder would be") from None
        return place
