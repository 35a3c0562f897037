"""A target's root on another machine: programs, frozen code and run folders.

The other machine is this one under a name: everything goes the way that it would go over SSH.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import require_program

from launchbay.backends import depot as depot_module
from launchbay.backends import depot_pull, depot_tree
from launchbay.backends.depot import Depot
from launchbay.backends.depot_programs import program_texts, programs_version
from launchbay.core.errors import Rejected, StoreError, Unreachable, Unsupported
from launchbay.core.host import Completed, decoded
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAMES = ("plain", "a b", "it's", "two\nlines", "-x", "*", "ü→", "\udcff", " ")
TOOLS = ("sh", "tar", "mkdir", "rm", "mv", "cat", "find", "stat", "cp", "ls", "mktemp", "touch")


class Far(LocalHost):
    """This machine under a name, which counts what it is asked."""

    name = "box"

    def __init__(self) -> None:
        self.asked: list[int] = []
        """For each call, how much it was given to read."""

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        self.asked.append(len(stdin))
        return super().run(argv, stdin=stdin, tell=tell)


class Breaking(Far):
    """A machine to which only the first bytes of an input get through."""

    passes = 1024

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        return super().run(argv, stdin=stdin[: self.passes], tell=tell)


class Lying(Far):
    """A machine that answers a call for files with an archive of its own."""

    archive = b""

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        if self.archive and "exec tar" in argv[2]:
            return Completed(code=0, stdout=decoded(self.archive), stderr="")
        return super().run(argv, stdin=stdin, tell=tell)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home there."""
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return place


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def depot(far: Far, home: Path) -> Depot:
    """A root `~/bay` on the other machine."""
    return Depot(far, Path("~/bay"), target="there")


def few_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no program but a handful, and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        (folder / name).symlink_to(require_program(name))
    monkeypatch.setenv("PATH", str(folder))


def test_programs_come_once(depot: Depot, far: Far, home: Path) -> None:
    """The first call brings them all; from then on a call is one round trip."""
    first = depot.call("pack.py", "survey")
    trips = len(far.asked)
    second = depot.call("pack.py", "survey")
    folder = home / ".local/state/launchbay/node" / programs_version()

    assert (first.stdout, first.code) == (second.stdout, 0)
    assert (trips, len(far.asked)) == (3, 4)
    assert {path.name for path in folder.iterdir() if path.is_file()} == {
        *program_texts(),
        "python",
    }
    assert [path.name for path in folder.parent.iterdir()] == [programs_version()]
    assert depot.programs() == str(folder)


def test_every_program_of_the_package_travels() -> None:
    """A program that is added to the package needs no list."""
    folder = Path(depot_module.__file__).parent.parent / "node"
    there = {path.name for path in folder.iterdir() if path.suffix in {".sh", ".py"}}

    assert set(program_texts()) == there - {"__init__.py"}


def test_programs_under_a_root(far: Far, home: Path) -> None:
    """Where several machines share a root they are kept there, and know their own folder."""
    shared = Depot(far, Path("~/bay"), target="there", programs="root")
    text = shared.call("environment.sh", "none", "", "", "").stderr

    assert shared.programs() == f"{home}/bay/node/{programs_version()}"
    assert "not found" not in text
    assert not (home / ".local").exists()


def test_programs_on_this_machine(tmp_path: Path, home: Path) -> None:
    """This machine's own root is used without a detour."""
    here = Depot(LocalHost(), tmp_path / "root", target="here", programs="root")

    assert here.call("pack.py", "list") == Completed(code=0, stdout="", stderr="")
    assert here.programs() == f"{tmp_path}/root/node/{programs_version()}"


@pytest.mark.parametrize("host", [LocalHost(), Far()], ids=["here", "there"])
def test_many_install_at_once(tmp_path: Path, home: Path, host: LocalHost) -> None:
    """Whoever is first wins, and no draft is left."""
    depots = [Depot(host, tmp_path / "root", target="t", programs="root") for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        places = set(pool.map(lambda depot: depot.programs(), depots))

    assert places == {f"{tmp_path}/root/node/{programs_version()}"}
    assert [str(path) for path in (tmp_path / "root" / "node").iterdir()] == [*places]


def test_python_that_went_away(depot: Depot, home: Path) -> None:
    """After an upgrade of the machine another interpreter is looked for."""
    python = Path(depot.programs()) / "python"
    python.write_text("/usr/bin/python3.0-gone\n")

    assert depot.call("pack.py", "list").ok
    assert os.access(python.read_text().strip(), os.X_OK)


def test_machine_without_python(
    depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told for what needs Python, and shell programs run all the same."""
    few_tools(tmp_path, monkeypatch)
    for ask in (depot.call, depot.visit):
        with pytest.raises(Unsupported, match=r"`box` has no Python 3\.8 or newer") as caught:
            ask("pack.py", "survey")
        assert "uv python install" in str(caught.value.hint)

    assert "launchbay" in depot.call("run.sh", "/none", "1").stderr


def test_visit_leaves_nothing(
    depot: Depot, far: Far, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only looks round needs no installation."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))

    assert '"cpus"' in depot.visit("pack.py", "survey").stdout
    assert [*home.iterdir(), *scratch.iterdir()] == []
    depot.programs()
    before = len(far.asked)
    assert depot.visit("pack.py", "survey").ok
    assert len(far.asked) == before + 1


@pytest.mark.parametrize("passes", [0, 1024, 5 * 512, 20_000])
def test_half_an_installation_does_not_count(home: Path, passes: int) -> None:
    """Programs of which only a part came are not there at all."""
    host = Breaking()
    host.passes = passes
    with pytest.raises(Rejected, match="cannot be written"):
        Depot(host, Path("~/bay"), target="there").programs()

    assert list((home / ".local/state/launchbay/node").iterdir()) == []


def test_root_begins_at_home(far: Far, home: Path) -> None:
    """`~` and what is not absolute begin at the home there, which is asked for once."""
    roots = [Depot(far, Path(root), target="t") for root in ("~/bay", "bay", "/abs/bay", "~")]

    assert [root.root_path() for _ in range(2) for root in roots] == [
        f"{home}/bay",
        f"{home}/bay",
        "/abs/bay",
        f"{home}",
    ] * 2
    assert len(far.asked) == 3


def make_tree(place: Path) -> Path:
    """A tree with everything that code may hold."""
    (place / "sub" / "deep").mkdir(parents=True)
    for number, name in enumerate(NAMES):
        (place / name).write_text(f"{number}\n" * 5000)
        (place / name).chmod(0o444)
    (place / "sub" / "run").write_text("#!/bin/sh\n")
    (place / "sub" / "run").chmod(0o555)
    (place / "sub" / "deep" / "x").write_text("x")
    (place / "link").symlink_to("a b")
    (place / "far").symlink_to("/nowhere/../else")
    (place / ("long" * 30)).write_text("long name\n")
    return place


def contents(tree: Path) -> dict[str, tuple[int, bytes | str]]:
    """Mode and content of everything in a tree."""
    return {
        str(path.relative_to(tree)): (
            path.lstat().st_mode,
            str(path.readlink())
            if path.is_symlink()
            else (path.read_bytes() if path.is_file() else ""),
        )
        for path in tree.rglob("*")
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The snapshots here."""
    return tmp_path / "here" / "snapshots"


def test_code_is_sent_once(depot: Depot, far: Far, home: Path, store: Path) -> None:
    """A tree arrives as it is; the second time one question is all."""
    tree = make_tree(store / "aaa")
    sent = depot.stage("aaa", tree)
    calls = len(far.asked)

    assert contents(home / "bay/snapshots/aaa") == contents(tree)
    assert stat.S_IMODE((home / "bay/snapshots").stat().st_mode) == 0o700
    assert sent > 5000 * len(NAMES)
    assert (depot.stage("aaa", tree), far.asked[calls:]) == (0, [0])


def test_files_keep_their_time(depot: Depot, home: Path, store: Path) -> None:
    """Tools that build by time, or pack by year, find the times of the files here."""
    tree = make_tree(store / "aaa")
    depot.stage("aaa", tree)
    pair = [(folder / "plain").stat().st_mtime for folder in (tree, home / "bay/snapshots/aaa")]

    assert int(pair[0]) == int(pair[1])


def change(tree: Path) -> None:
    """Change a little of everything."""
    for name in ("plain", "a b", "link"):
        (tree / name).unlink()
    (tree / "plain").write_text("changed\n")
    (tree / "a b").mkdir()
    (tree / "a b" / "inside").write_text("now a folder\n")
    (tree / "link").symlink_to("plain")
    shutil.rmtree(tree / "sub" / "deep")
    (tree / "sub" / "deep").write_text("now a file\n")
    (tree / "two\nlines").unlink()
    (tree / "-x").chmod(0o555)
    (tree / "sub").chmod(0o700)


def test_small_change_sends_little(depot: Depot, home: Path, store: Path) -> None:
    """Only what differs from the newest tree that is there is sent, and that one stays as it is."""
    first = make_tree(store / "aaa")
    depot.stage("aaa", first)
    before = contents(home / "bay/snapshots/aaa")
    second = Path(shutil.copytree(first, store / "bbb", symlinks=True))
    change(second)
    sent = depot.stage("bbb", second)

    assert contents(home / "bay/snapshots/bbb") == contents(second)
    assert contents(home / "bay/snapshots/aaa") == before
    assert sent <= 20480
    same = [(home / "bay/snapshots" / name / "it's").stat().st_ino for name in ("aaa", "bbb")]
    assert same[0] == same[1]


def test_very_many_changes_send_all(
    depot: Depot, home: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the names alone would be too many words, the whole tree is sent."""
    monkeypatch.setattr(depot_tree, "MOST_REMOVED", 10)
    first = make_tree(store / "aaa")
    depot.stage("aaa", first)
    second = Path(shutil.copytree(first, store / "bbb", symlinks=True))
    change(second)

    assert depot.stage("bbb", second) > 20480
    assert contents(home / "bay/snapshots/bbb") == contents(second)


def test_base_that_is_only_there_is_of_no_use(depot: Depot, home: Path, store: Path) -> None:
    """A snapshot of another laptop cannot be compared with."""
    tree = make_tree(store / "aaa")
    (home / "bay/snapshots/other").mkdir(parents=True)
    depot.stage("aaa", tree)

    assert contents(home / "bay/snapshots/aaa") == contents(tree)


@pytest.mark.parametrize("passes", [0, 1536, 20_480])
def test_half_a_tree_does_not_count(home: Path, store: Path, passes: int) -> None:
    """Code of which only a part came is not there at all."""
    host = Breaking()
    host.passes = passes
    depot = Depot(host, Path("~/bay"), target="there")
    with pytest.raises(Rejected):
        depot.stage("aaa", make_tree(store / "aaa"))

    assert list((home / "bay/snapshots").iterdir()) == []


def test_many_stage_at_once(home: Path, store: Path) -> None:
    """Whoever is first wins, and nobody sees half of it or more than it."""
    tree = make_tree(store / "aaa")
    depots = [Depot(Far(), Path("~/bay"), target="there") for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda depot: depot.stage("aaa", tree), depots))

    assert [path.name for path in (home / "bay/snapshots").iterdir()] == ["aaa"]
    assert contents(home / "bay/snapshots/aaa") == contents(tree)


def test_root_that_cannot_be_made(depot: Depot, home: Path, store: Path) -> None:
    """The error names the place and says what to do."""
    (home / "bay").write_text("in the way")
    with pytest.raises(Rejected) as caught:
        depot.stage("aaa", make_tree(store / "aaa"))

    assert str(caught.value).startswith(f"`{home}/bay/snapshots/aaa` on `box` cannot be written: ")
    assert caught.value.hint == "make room there, or choose another `root:` for target `there`"
    assert "\n" not in str(caught.value)


def test_code_on_this_machine(tmp_path: Path, store: Path) -> None:
    """Nothing is copied where it is; another root on this machine gets a copy."""
    tree = make_tree(store / "aaa")
    Depot(LocalHost(), store.parent, target="here").stage("aaa", tree)
    elsewhere = Depot(LocalHost(), tmp_path / "disk", target="disk")
    elsewhere.stage("aaa", tree)
    elsewhere.stage("aaa", tree)

    assert [path.name for path in store.iterdir()] == ["aaa"]
    assert contents(tmp_path / "disk/snapshots/aaa") == contents(tree)


def test_root_here_that_cannot_be_made(tmp_path: Path, store: Path) -> None:
    """On this machine it is an error of this side."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        Depot(LocalHost(), tmp_path / "file", target="t").stage("aaa", make_tree(store / "aaa"))


ENV = """\
umask 022
export BAY_OUT=/somewhere
each_output() {
:
"$1" results
"$1" 'deep/er'
"$1" moved
}
"""


@pytest.fixture
def run(home: Path) -> Path:
    """A run's folder there, while the run runs."""
    place = home / "bay/runs/r1"
    for folder in ("out/sub", "attempts/1", "attempts/2", "work/results", "work/deep/er"):
        (place / folder).mkdir(parents=True)
    for name in ("job.json", "params.json", "command.sh", "secrets.sh", "setup.sh"):
        (place / name).write_text(name)
    (place / "env.sh").write_text(ENV)
    (place / "attempts/1/log-0.txt").write_text("one\n")
    (place / "attempts/2/events.jsonl").write_text("{}\n")
    (place / "out/model.bin").write_bytes(bytes(range(256)) * 100)
    (place / "out/sub/a.csv").write_text("a\n")
    (place / "work/results/b.csv").write_text("b\n")
    (place / "work/deep/er/c").write_text("c\n")
    (place / "work/train.py").write_text("code\n")
    (place / "work/moved").symlink_to(place / "out/sub")
    return place


def files(folder: Path) -> dict[str, bytes]:
    """The content of every file, links followed."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


RECORDS = {
    "job.json",
    "params.json",
    "command.sh",
    "attempts/1/log-0.txt",
    "attempts/2/events.jsonl",
}


def test_run_comes_home(depot: Depot, run: Path, tmp_path: Path) -> None:
    """Records and outputs come, also those that have not moved yet; secrets and code stay."""
    twin = tmp_path / "twin"
    depot.pull("r1", twin)
    seen = files(twin)

    outputs = {"out/model.bin", "out/sub/a.csv", "out/results/b.csv", "out/deep/er/c"}
    assert set(seen) == RECORDS | outputs
    assert seen["out/model.bin"] == (run / "out/model.bin").read_bytes()
    assert seen["out/results/b.csv"] == b"b\n"
    assert stat.S_IMODE(twin.stat().st_mode) == 0o700


def test_only_news_come(depot: Depot, far: Far, run: Path, tmp_path: Path) -> None:
    """What is here by size and time is not sent again; what changed is."""
    twin = tmp_path / "twin"
    depot.pull("r1", twin)
    inode = (twin / "out/model.bin").stat().st_ino
    calls = len(far.asked)
    depot.pull("r1", twin)
    assert len(far.asked) == calls + 1

    (run / "out/sub/a.csv").write_text("z\n")
    with (run / "attempts/1/log-0.txt").open("a") as log:
        log.write("two\n")
    depot.pull("r1", twin)
    assert len(far.asked) == calls + 3
    assert (twin / "out/sub/a.csv").read_text() == "z\n"
    assert (twin / "attempts/1/log-0.txt").read_text() == "one\ntwo\n"
    assert (twin / "out/model.bin").stat().st_ino == inode
    times = [(folder / "out/sub/a.csv").stat().st_mtime_ns for folder in (run, twin)]
    assert times[0] == times[1]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["*.csv"], {"out/sub/a.csv", "out/results/b.csv"}),
        (["sub/"], {"out/sub/a.csv"}),
        (["model.bin", "deep"], {"out/model.bin", "out/deep/er/c"}),
        (["none"], set()),
    ],
)
def test_chosen_outputs(
    depot: Depot, run: Path, tmp_path: Path, patterns: list[str], expected: set[str]
) -> None:
    """Patterns choose outputs; records come in any case."""
    depot.pull("r1", tmp_path / "twin", patterns)

    assert set(files(tmp_path / "twin")) == RECORDS | expected


def test_odd_names_come_home(depot: Depot, run: Path, tmp_path: Path) -> None:
    """Names with spaces, line ends, quotes or bytes that are no text survive."""
    for name in NAMES:
        (run / "out/sub" / name).write_text(name.encode("utf-8", "surrogateescape").hex())
    depot.pull("r1", tmp_path / "twin", ["sub"])

    assert files(tmp_path / "twin/out/sub") == files(run / "out/sub")


def test_unknown_run_brings_nothing(depot: Depot, tmp_path: Path) -> None:
    """A run without a folder leaves no twin."""
    depot.pull("none", tmp_path / "twin")

    assert not (tmp_path / "twin").exists()


def test_links_among_outputs_stay_links(depot: Depot, run: Path, tmp_path: Path) -> None:
    """A link to another output leads to it here too, however it was written."""
    (run / "out/latest").symlink_to("sub/a.csv")
    (run / "out/sub/up").symlink_to("../model.bin")
    (run / "out/whole").symlink_to(run / "out/sub")
    (run / "work/results/best").symlink_to("b.csv")
    twin = tmp_path / "twin"
    for _ in range(2):
        depot.pull("r1", twin)

    assert (twin / "out/latest").read_text() == "a\n"
    assert (twin / "out/sub/up").resolve() == twin / "out/model.bin"
    assert (twin / "out/whole").resolve() == twin / "out/sub"
    assert (twin / "out/results/best").resolve() == twin / "out/results/b.csv"


def test_links_out_of_the_outputs_stay_there(depot: Depot, run: Path, tmp_path: Path) -> None:
    """No link leads out of the twin or to what may hold secrets, by whatever turns."""
    out = run / "out"
    (out / "absolute").symlink_to("/etc/passwd")
    (out / "up").symlink_to("../../../../etc")
    (out / "secret").symlink_to("../secrets.sh")
    (out / "self").symlink_to(".")
    (out / "above").symlink_to("self/..")
    (out / "outside").symlink_to("above/../x")
    (out / "code").symlink_to("../work/train.py")
    os.mkfifo(out / "pipe")
    twin = tmp_path / "twin"
    depot.pull("r1", twin)
    links = [path for path in twin.rglob("*") if path.is_symlink()]

    assert all(path.resolve().is_relative_to(twin / "out") for path in links)
    assert {path.name for path in links} <= {"outside", "code"}
    assert not (twin / "out/pipe").exists()


def test_nothing_is_written_through_a_link(depot: Depot, run: Path, tmp_path: Path) -> None:
    """A folder that was a link before is a folder afterwards, and what it led to stays."""
    twin, victim = tmp_path / "twin", tmp_path / "victim"
    (twin / "out").mkdir(parents=True)
    victim.mkdir()
    (victim / "a.csv").write_text("mine\n")
    (twin / "out/sub").symlink_to(victim)
    (twin / "out/model.bin").symlink_to(victim / "a.csv")
    depot.pull("r1", twin)

    assert (victim / "a.csv").read_text() == "mine\n"
    assert files(twin / "out/sub") == {"a.csv": b"a\n"}
    assert (twin / "out/model.bin").stat().st_size == 25600


def test_file_in_the_place_of_a_folder(depot: Depot, run: Path, tmp_path: Path) -> None:
    """What became a file there becomes one here, and the other way round."""
    twin = tmp_path / "twin"
    depot.pull("r1", twin)
    shutil.rmtree(run / "out/sub")
    (run / "out/sub").write_text("file\n")
    (run / "out/model.bin").unlink()
    (run / "out/model.bin").mkdir()
    (run / "out/model.bin/part").write_text("part\n")
    depot.pull("r1", twin)

    assert (twin / "out/sub").read_text() == "file\n"
    assert (twin / "out/model.bin/part").read_text() == "part\n"


def test_archive_of_a_hostile_machine(home: Path, run: Path, tmp_path: Path) -> None:
    """What was not asked for, links in the place of files, devices: none of it is written."""
    host, stream = Lying(), io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("../evil", f"{tmp_path}/evil", "out/../../evil", "out/new", "env.sh"):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"evil"))
        for name, kind in (("job.json", tarfile.SYMTYPE), ("out/model.bin", tarfile.LNKTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        info = tarfile.TarInfo("out/sub/a.csv")
        info.type = tarfile.CHRTYPE
        tar.addfile(info)
    host.archive = stream.getvalue()
    Depot(host, Path("~/bay"), target="there").pull("r1", tmp_path / "in" / "twin")

    assert [path for path in (tmp_path / "in").rglob("*") if path.name != "twin"] == []
    assert not (tmp_path / "evil").exists()


def test_answer_that_is_no_archive(home: Path, run: Path, tmp_path: Path) -> None:
    """Where `tar` fails it is said, and nothing is half written."""
    host = Lying()
    host.archive = b"tar: no such option\n" * 99
    with pytest.raises(Unreachable, match="is no archive"):
        Depot(host, Path("~/bay"), target="there").pull("r1", tmp_path / "twin")

    assert not (tmp_path / "twin").exists()


def test_large_files_come_in_pieces(
    depot: Depot, far: Far, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than a piece is held in memory, and the pieces are one file again."""
    monkeypatch.setattr(depot_pull, "PIECE", 10_000)
    data = os.urandom(35_001)
    (run / "out/model.bin").write_bytes(data)
    depot.root_path()
    before = len(far.asked)
    depot.pull("r1", tmp_path / "twin")

    assert (tmp_path / "twin/out/model.bin").read_bytes() == data
    # A list, four pieces, and the small ones before and after.
    assert len(far.asked) - before <= 1 + 4 + 2


def test_many_names_are_several_calls(
    depot: Depot, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More names than a system takes as words are asked for in groups."""
    monkeypatch.setattr(depot_pull, "MOST_NAMES", 40)
    depot.pull("r1", tmp_path / "twin")

    assert len(files(tmp_path / "twin")) == 9


def test_twin_that_cannot_be_written(depot: Depot, run: Path, tmp_path: Path) -> None:
    """It is an error of this side, in one line."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written: Not a directory"):
        depot.pull("r1", tmp_path / "file" / "twin")


def test_run_on_this_machine_is_at_home(home: Path, run: Path) -> None:
    """Where the twin is the folder itself there is nothing to do."""
    before = contents(run)
    Depot(LocalHost(), home / "bay", target="here").pull("r1", run)

    assert contents(run) == before


def test_log_goes_on_where_it_stopped(far: Far, home: Path, run: Path) -> None:
    """A character that is half written waits for its other half."""
    depot, log = Depot(far, home / "bay", target="there"), run / "attempts/1/log-0.txt"
    log.write_bytes(b"one \xc3")
    first = depot.read_log("r1", 1, 0, "")
    log.write_bytes(b"one \xc3\xbc")
    second = depot.read_log("r1", 1, 0, first.cursor)

    assert (first.text, second.text, second.cursor) == ("one ", "ü", "6")
    assert depot.read_log("r1", 3, 0, "").text == ""


def test_folder_that_is_not_writable(depot: Depot, home: Path) -> None:
    """Nothing is said of a root that can be made; a check makes nothing."""
    assert depot.unwritable() == ""
    assert not (home / "bay").exists()


def test_asking_needs_no_archives() -> None:
    """What only sending and fetching need is not loaded to look at a queue."""
    text = "import sys, launchbay.backends.machine.backend; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())
    assert "launchbay.backends.depot" in loaded
    assert not {"tarfile", "launchbay.hosts.ssh", "launchbay.backends.depot_pull"} & loaded


def test_busybox_is_enough(
    depot: Depot, home: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs, code and outputs travel where nothing but busybox is installed."""
    busybox, folder = require_program("busybox"), tmp_path / "applets"
    folder.mkdir()
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for applet in listed.stdout.split():
        (folder / applet).symlink_to(busybox)
    monkeypatch.setenv("PATH", str(folder))
    first = make_tree(store / "aaa")
    depot.stage("aaa", first)
    second = Path(shutil.copytree(first, store / "bbb", symlinks=True))
    change(second)
    sent = depot.stage("bbb", second)
    out = home / "bay/runs/r1/out"
    out.mkdir(parents=True)
    for name in NAMES:
        (out / name).write_text(name.encode("utf-8", "surrogateescape").hex())
    (out / "link").symlink_to("plain")
    depot.pull("r1", tmp_path / "twin")

    assert "launchbay" in depot.call("run.sh", "/none", "1").stderr
    assert [contents(home / "bay/snapshots" / tree.name) for tree in (first, second)] == [
        contents(first),
        contents(second),
    ]
    assert sent <= 20480
    assert files(tmp_path / "twin/out") == files(out)
