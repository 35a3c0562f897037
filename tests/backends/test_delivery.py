"""Files on their way to a folder of a host and back, with this machine as the host."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from launchbay.backends import delivery, depot_pull, retrieval
from launchbay.backends.delivery import deliver, deliver_to_run
from launchbay.backends.retrieval import fetch_files, is_here, list_files
from launchbay.core.backend import Parcel
from launchbay.core.errors import BadRequest, Rejected
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from launchbay.core.host import Completed

BYTES = bytes(range(256)) * 3


@dataclass
class Counting(LocalHost):
    """This machine, with what it is given to read and how large that is."""

    sizes: list[int] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        done = super().run(argv, stdin=stdin, tell=tell)
        self.sizes.append(max(len(stdin), len(done.stdout)))
        return done


@dataclass
class Changing(LocalHost):
    """This machine, at the end of a line that changes what goes through it."""

    change: Callable[[str], str]

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        return super().run(argv, stdin=self.change(stdin), tell=tell)


@dataclass
class Busybox(LocalHost):
    """This machine with none but busybox's programs."""

    folder: Path

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        busybox = shutil.which("busybox") or ""
        if not self.folder.exists():
            self.folder.mkdir()
            subprocess.run([busybox, "--install", "-s", str(self.folder)], check=True)
        words = ["env", f"PATH={self.folder}", busybox, "sh", *argv[1:]]
        return super().run(words if argv[0] == "/bin/sh" else argv, stdin=stdin, tell=tell)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with files of this machine."""
    made = tmp_path / "source"
    made.mkdir()
    return made


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder of the host."""
    made = tmp_path / "there"
    made.mkdir()
    return made


@pytest.fixture(params=["here", "busybox"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> LocalHost:
    """This machine, and one that has nothing but busybox."""
    if request.param == "busybox" and not shutil.which("busybox"):
        pytest.skip("`busybox` is not installed")
    return LocalHost() if request.param == "here" else Busybox(tmp_path / "programs")


def written(path: Path, data: bytes, *, mtime: float = 1_700_000_000, mode: int = 0o640) -> Path:
    """A file with a time of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    os.utime(path, (mtime, mtime))
    return path


def drafts(folder: Path) -> list[Path]:
    """What of ours is left."""
    return list(folder.rglob(".bay-*"))


def test_files_arrive_byte_for_byte_with_mode_and_time(
    host: LocalHost, source: Path, there: Path
) -> None:
    """Any bytes, any name, nested folders, empty files; nothing of ours is left beside them."""
    names = ["a", "deep/er/b", "it's $(no) *", "two\nlines", "-x", "empty"]
    parcels = []
    for name in names:
        data = b"" if name == "empty" else BYTES
        parcels.append(Parcel(source=written(source / name, data), place=f"to/{name}"))
    deliver(host, str(there), parcels)

    for parcel in parcels:
        came = there / parcel.place
        assert came.read_bytes() == parcel.source.read_bytes()
        assert (came.stat().st_mode & 0o777, came.stat().st_mtime) == (0o640, 1_700_000_000)
    assert not drafts(there)


def test_large_files_travel_in_pieces(
    host: LocalHost, source: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file larger than a piece is whole at the end, with its mode and time, beside small ones."""
    monkeypatch.setattr(delivery, "PIECE", 1000)
    sizes = {"small": 10, "large": 4321, "exact": 1000, "twice": 2000}
    parcels = [
        Parcel(source=written(source / name, os.urandom(size)), place=name)
        for name, size in sizes.items()
    ]
    told: list[tuple[int, int]] = []
    deliver(host, str(there), parcels, moved=lambda files, size: told.append((files, size)))

    for parcel in parcels:
        came = there / parcel.place
        assert came.read_bytes() == parcel.source.read_bytes()
        assert (came.stat().st_mode & 0o777, came.stat().st_mtime) == (0o640, 1_700_000_000)
    assert (sum(one for one, _ in told), sum(one for _, one in told)) == (4, sum(sizes.values()))
    assert not drafts(there)


def test_no_call_carries_much_more_than_a_piece(
    source: Path, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much there is to send or to fetch, little of it is in memory at a time."""
    monkeypatch.setattr(delivery, "PIECE", 100_000)
    for module in (depot_pull, retrieval):
        monkeypatch.setattr(module, "PIECE", 100_000)
    sizes = [250_000, *[30_000] * 20]
    parcels = [
        Parcel(source=written(source / str(at), os.urandom(size)), place=str(at))
        for at, size in enumerate(sizes)
    ]
    host = Counting()
    deliver(host, str(there), parcels)
    listed = list_files(host, str(there))
    fetched = fetch_files(host, str(there), listed.files, tmp_path / "back")

    assert len(fetched.done) == len(sizes)
    assert max(host.sizes) < 150_000


@pytest.mark.parametrize("place", ["../out", "/etc/out", "a/../../out", "", ".", "a\0b"])
def test_places_lead_nowhere_else(source: Path, there: Path, place: str) -> None:
    """A place that is no path below the folder is refused before anything is sent."""
    parcel = Parcel(source=written(source / "a", b"x"), place=place)
    with pytest.raises(BadRequest, match="no path below the folder"):
        deliver(LocalHost(), str(there), [parcel])

    assert not list(there.iterdir())


def test_links_there_lead_nowhere_else(
    host: LocalHost, source: Path, there: Path, tmp_path: Path
) -> None:
    """A link that leads out of the folder is not followed, and no folder is made behind it."""
    (tmp_path / "outside").mkdir()
    (there / "link").symlink_to(tmp_path / "outside")
    for place in ("link/a", "link/new/a"):
        parcel = Parcel(source=written(source / "a", b"x"), place=place)
        with pytest.raises(Rejected, match=f"{place} would lead out of the folder"):
            deliver(host, str(there), [parcel])

    assert not list((tmp_path / "outside").iterdir())
    assert not drafts(there)


def test_outputs_of_a_run_are_part_of_it(source: Path, tmp_path: Path) -> None:
    """A link of the working folder to the run's own outputs is followed."""
    run = tmp_path / "run"
    (run / "work").mkdir(parents=True)
    (run / "out" / "logs").mkdir(parents=True)
    (run / "work" / "logs").symlink_to(run / "out" / "logs")
    deliver_to_run(
        LocalHost(), str(run), [Parcel(source=written(source / "a", b"x"), place="logs/a")]
    )

    assert (run / "out" / "logs" / "a").read_bytes() == b"x"


def test_frozen_code_stays_as_it_is(source: Path, tmp_path: Path) -> None:
    """A file that replaces one of the frozen code is a file of its own."""
    work = tmp_path / "run" / "work"
    work.mkdir(parents=True)
    frozen = written(tmp_path / "snapshot", b"old")
    os.link(frozen, work / "a")
    deliver_to_run(
        LocalHost(), str(work.parent), [Parcel(source=written(source / "a", b"new"), place="a")]
    )

    assert ((work / "a").read_bytes(), frozen.read_bytes()) == (b"new", b"old")


def test_a_folder_is_not_replaced(host: LocalHost, source: Path, there: Path) -> None:
    """Where a folder of that name stands a file is refused, and nothing of ours stays."""
    (there / "a").mkdir()
    with pytest.raises(Rejected, match="a is a folder there"):
        deliver(host, str(there), [Parcel(source=written(source / "a", b"x"), place="a")])

    assert not drafts(there)
    assert (there / "a").is_dir()


def test_a_folder_that_is_not_there_is_said(host: LocalHost, source: Path, there: Path) -> None:
    """A working folder that is gone is an error in words."""
    parcel = Parcel(source=written(source / "a", b"x"), place="a")
    with pytest.raises(Rejected, match="none is not there"):
        deliver(host, str(there / "none"), [parcel])


@pytest.mark.parametrize("piece", [delivery.PIECE, 3])
def test_what_was_damaged_is_refused(
    source: Path, there: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """Content that differs from what was read takes no place, in one piece or in several."""
    monkeypatch.setattr(delivery, "PIECE", piece)
    host = Changing(lambda text: text.replace("dear", "dean").replace("far", "fax"))
    parcel = Parcel(source=written(source / "a", b"dear" if piece > 3 else b"farfar"), place="a")
    with pytest.raises(Rejected, match="not what was sent"):
        deliver(host, str(there), [parcel])

    assert not list(there.iterdir())


def test_a_connection_that_breaks_leaves_nothing(source: Path, there: Path) -> None:
    """An archive that ends early is not taken for a whole one."""
    parcel = Parcel(source=written(source / "a", BYTES), place="a")
    with pytest.raises(Rejected, match="not whole"):
        deliver(Changing(lambda text: text[:1100]), str(there), [parcel])

    assert not list(there.iterdir())


def test_files_come_back_as_they_are(host: LocalHost, there: Path, tmp_path: Path) -> None:
    """Content and time come back, of any name; a second time nothing is to be fetched."""
    for name in ("a", "deep/er/b", "two\nlines", "it's", "-x"):
        written(there / name, BYTES)
    back = tmp_path / "back"
    listed = list_files(host, str(there))
    fetched = fetch_files(host, str(there), listed.files, back)

    assert not fetched.failed
    for name in ("a", "deep/er/b", "two\nlines", "it's", "-x"):
        assert (back / name).read_bytes() == BYTES
        assert (back / name).stat().st_mtime == 1_700_000_000
    assert all(is_here(file, back) for file in list_files(host, str(there)).files)
    assert not drafts(back)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", ["a.csv", "s/b.csv", "s/t/c.txt"]),
        ("s", ["s/b.csv", "s/t/c.txt"]),
        ("s/", ["s/b.csv", "s/t/c.txt"]),
        ("s/b.csv", ["s/b.csv"]),
        ("*.csv", ["a.csv", "s/b.csv"]),
        ("s/*.txt", ["s/t/c.txt"]),
        ("none", []),
    ],
)
def test_patterns_choose(there: Path, pattern: str, found: list[str]) -> None:
    """A path, a folder or a pattern chooses what is listed."""
    for name in ("a.csv", "s/b.csv", "s/t/c.txt"):
        written(there / name, b"x")
    written(there / ".bay-draft" / "1", b"x")

    assert [one.place for one in list_files(LocalHost(), str(there), pattern).files] == found


def test_nothing_is_written_outside(there: Path, tmp_path: Path) -> None:
    """A link here leads nothing away, a link there is counted, a folder here stays."""
    back, outside = tmp_path / "back", tmp_path / "outside"
    outside.mkdir()
    back.mkdir()
    (back / "s").symlink_to(outside)
    (back / "d").mkdir()
    (back / "f").write_bytes(b"mine")
    for name in ("s/b", "d", "f/c", "ok"):
        written(there / name, b"x")
    (there / "link").symlink_to("/etc/hostname")
    listed = list_files(LocalHost(), str(there))
    fetched = fetch_files(LocalHost(), str(there), listed.files, back)

    assert listed.links == 1
    assert dict(fetched.failed) == {
        "d": "a folder of that name is here",
        "f/c": "a file stands here where its folder would be",
        "s/b": "a link here leads it out of the folder",
    }
    assert [one.place for one in fetched.done] == ["ok"]
    assert not list(outside.iterdir())
    assert (back / "f").read_bytes() == b"mine"


def test_a_file_that_changes_is_told(there: Path, tmp_path: Path) -> None:
    """A file that is written while it is read is not taken for whole."""
    written(there / "a", b"x")
    listed = list_files(LocalHost(), str(there))
    argv = retrieval.SEND.replace('tar -cf - "$@"', f'tar -cf - "$@"; echo y >>{there}/a')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "SEND", argv)
        fetched = fetch_files(LocalHost(), str(there), listed.files, tmp_path / "back")

    assert fetched.failed == (("a", "it changed while it was read"),)
    assert not (tmp_path / "back" / "a").exists()
