"""The files of a run on their way home: which there are, which differ, and writing them safely.

Whatever the other machine says, nothing is written outside the twin: only the places of a run
folder are taken, a link counts only when it stays among the outputs, and no link is written
through.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import shutil
import stat
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from launchbay.core import rundir
from launchbay.core.errors import StoreError, Unreachable
from launchbay.core.host import encoded
from launchbay.core.whole import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from launchbay.core.host import Host

RECORDS = (rundir.JOB, rundir.PARAMS, rundir.COMMAND)
ATTEMPTS = "attempts"
PIECE = 32 << 20
"""Bytes that are held in memory at once."""
MOST_NAMES = 100_000
"""Bytes of names in one call."""

# $1 the run's folder, $2 a word that no name holds. env.sh knows the folders of outputs, which
# move to out/ when the run ends.
LIST = f"""\
cd "$1" 2>/dev/null || exit 0
word=$2
show() {{
    find "$@" '(' -type f -o -type l ')' -exec stat -c "$word%f %s %Y %y/%n" '{{}}' + 2>/dev/null
}}
show {" ".join(RECORDS)} {ATTEMPTS} {rundir.OUT}
show_unmoved() {{ [ ! -d "work/$1" ] || [ -L "work/$1" ] || show "work/$1"; }}
[ ! -f {rundir.ENV} ] || (. ./{rundir.ENV} && each_output show_unmoved) 2>/dev/null
exit 0
"""
SEND = 'cd "$1" && shift && exec tar -cf - "$@"'
SEND_PIECE = 'cd "$1" && tail -c "+$3" "$2" | head -c "$4"'
LINE = re.compile(r"([0-9a-f]+) (\d+) (\d+) ([^/]*)/(.*)\n", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A file or a symbolic link of a run's folder there."""

    source: str
    """Its path in the run's folder."""
    place: str
    """Where it belongs in the twin."""
    size: int
    mtime_ns: int
    is_link: bool


def parse_listing(text: str, word: str) -> list[Remote]:
    """What `LIST` printed, as far as it is wanted; of two for one place the last."""
    found = {}
    for line in text.split(word)[1:]:
        parsed = LINE.fullmatch(line)
        if parsed is None:
            continue
        mode, size, seconds, clock, path = parsed.groups()
        place = find_place(path)
        is_link = stat.S_ISLNK(int(mode, 16))
        if place and (not is_link or place.startswith(f"{rundir.OUT}/")):
            fraction = re.search(r"\.(\d{9})", clock)
            found[place] = Remote(
                source=path,
                place=place,
                size=int(size),
                mtime_ns=int(seconds) * 10**9 + int(fraction[1] if fraction else 0),
                is_link=is_link,
            )
    return list(found.values())


def find_place(path: str) -> str:
    """Where a file of a run's folder belongs in a twin; empty when it stays where it is.

    >>> find_place("work/results/a"), find_place("env.sh"), find_place("out/../env.sh")
    ('out/results/a', '', '')
    """
    first, _, rest = path.partition("/")
    if not rest:
        return path if path in RECORDS else ""
    if any(part in {"", ".", ".."} for part in rest.split("/")):
        return ""
    if first == rundir.WORK:
        return f"{rundir.OUT}/{rest}"
    return path if first in {ATTEMPTS, rundir.OUT} else ""


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether the path of an output, its last word, or a folder above it matches; none wants all.

    >>> matches("a/b.csv", ["*.csv"]), matches("a/b.csv", ["a/"]), matches("a/b.csv", ["b"])
    (True, True, False)
    """
    parents = [str(parent) for parent in PurePosixPath(path).parents][:-1]
    words = (path, path.rpartition("/")[2], *parents)
    return not patterns or any(
        fnmatchcase(word, pattern.rstrip("/")) for pattern in patterns for word in words
    )


def choose(listed: Iterable[Remote], twin: Path, patterns: Sequence[str]) -> list[Remote]:
    """Those that are wanted and not here as they are."""
    return [
        file
        for file in listed
        if matches_place(file.place, patterns) and not _is_here(file, twin / file.place)
    ]


def matches_place(place: str, patterns: Sequence[str]) -> bool:
    """Whether a file is wanted; patterns are about outputs only."""
    first, _, rest = place.partition("/")
    return first != rundir.OUT or matches(rest, patterns)


def _is_here(file: Remote, place: Path) -> bool:
    # Where a link leads only its target tells.
    if file.is_link:
        return False
    try:
        here = place.lstat()
    except OSError:
        return False
    return (here.st_size, here.st_mtime_ns) == (file.size, file.mtime_ns) and stat.S_ISREG(
        here.st_mode
    )


def batches(files: Iterable[Remote]) -> Iterator[list[Remote]]:
    """The files in groups that one call can send; one that is too large stands alone."""
    batch: list[Remote] = []
    size = names = 0
    for file in files:
        length = len(encoded(file.source)) + 3
        if batch and (size + file.size > PIECE or names + length > MOST_NAMES):
            yield batch
            batch, size, names = [], 0, 0
        batch.append(file)
        size, names = size + file.size, names + length
    if batch:
        yield batch


def pull_run(host: Host, run: str, twin: Path, patterns: Sequence[str]) -> bool:
    """Have in `twin` what is new of the folder `run` there: one call lists, further ones send.

    Whether there is such a folder.
    """
    word = f"bay-{os.urandom(12).hex()} "
    listing = host.run(["/bin/sh", "-c", LIST, "sh", run, word]).stdout
    copy = Twin(twin, run)
    with translated(twin):
        for batch in batches(choose(parse_listing(listing, word), twin, patterns)):
            if batch[0].size > PIECE:
                _pull_large(host, run, batch[0], copy)
                continue
            names = [f"./{file.source}" for file in batch]
            sent = host.run(["/bin/sh", "-c", SEND, "sh", run, *names])
            copy.unpack(encoded(sent.stdout), batch)
    return bool(listing)


def _pull_large(host: Host, run: str, file: Remote, copy: Twin) -> None:
    """Bring a file piece by piece."""
    with copy.writing(file) as stream:
        for start in range(0, file.size, PIECE):
            length = min(PIECE, file.size - start)
            words = [run, f"./{file.source}", str(start + 1), str(length)]
            piece = encoded(host.run(["/bin/sh", "-c", SEND_PIECE, "sh", *words]).stdout)
            if len(piece) != length:
                raise Unreachable(f"`{file.source}` of `{run}` became shorter while it was read")
            stream.write(piece)


class Twin:
    """A run's folder here, written file by file."""

    def __init__(self, folder: Path, there: str) -> None:
        self.folder = folder
        self._there = there
        """The run's folder on the other machine."""

    def unpack(self, data: bytes, batch: Sequence[Remote]) -> None:
        """Write what an archive holds of the batch; whatever else is in it is left out."""
        wanted = {file.source: file for file in batch}
        try:
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errors="surrogateescape") as tar:
                for member in tar:
                    file = wanted.get(member.name.removeprefix("./"))
                    content = tar.extractfile(member) if member.isreg() else None
                    if file and not file.is_link and content:
                        with self.writing(file) as stream:
                            shutil.copyfileobj(content, stream)
                    elif file and file.is_link and member.issym():
                        self.link(file, member.linkname)
        except tarfile.TarError as err:
            raise Unreachable(f"what came of `{self._there}` is no archive: {err}") from err

    @contextmanager
    def writing(self, file: Remote) -> Iterator[io.BufferedWriter]:
        """A draft that takes the file's place at the end, with the time of its original."""
        place = self._clear(file.place)
        with replacing(place) as draft:
            with draft.open("wb") as stream:
                yield stream
            # As it was listed: what was written since is brought the next time.
            os.utime(draft, ns=(file.mtime_ns, file.mtime_ns))

    def link(self, file: Remote, target: str) -> None:
        """A symbolic link, in its plainest form, if it leads to an output."""
        inside = target
        if posixpath.isabs(target):
            inside = posixpath.relpath(target, self._there)
        else:
            inside = posixpath.join(posixpath.dirname(file.source), target)
        end = find_place(posixpath.normpath(inside))
        if not end.startswith(f"{rundir.OUT}/"):
            return
        place = self._clear(file.place)
        # Without `..` behind a name, which might itself be a link.
        plain = posixpath.relpath(end, posixpath.dirname(file.place))
        if not (place.is_symlink() and os.readlink(place) == plain):  # noqa: PTH115
            place.unlink(missing_ok=True)
            place.symlink_to(plain)

    def _clear(self, path: str) -> Path:
        """The place of a file: below real folders, and no folder itself."""
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for part in PurePosixPath(path).parts[:-1]:
            folder /= part
            if folder.is_symlink() or not folder.is_dir():
                folder.unlink(missing_ok=True)
                folder.mkdir(exist_ok=True)
        place = self.folder / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        return place


@contextmanager
def translated(twin: Path) -> Iterator[None]:
    """What this side cannot write, as one of our errors."""
    try:
        yield
    except OSError as err:
        raise StoreError(
            f"`{err.filename or twin}` cannot be written: {err.strerror}",
            hint="make room on this machine",
        ) from err
