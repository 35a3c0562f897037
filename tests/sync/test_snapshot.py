"""Hashing the code and storing it once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.sync.playground import git, make_repository, settle, write

from launchbay.core.errors import ConfigError, StoreError
from launchbay.sync.snapshot import CACHE, _link, freeze, remove_objects, scan
from launchbay.sync.statcache import read_stat_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG_AGO = 1_600_000_000
COUNT_OPENS = """
import json, sys
from pathlib import Path
from launchbay.sync.snapshot import freeze, scan

project, store = Path(sys.argv[1]), Path(sys.argv[2])
opened = []
def hook(event, arguments):
    if event == "open" and str(arguments[0]).startswith(f"{project}/"):
        opened.append(str(arguments[0]))
sys.addaudithook(hook)
scan(project, store=store)
print(json.dumps(opened))
"""
FREEZE = """
import sys, time
from pathlib import Path
from launchbay.sync.snapshot import freeze, scan

project, store = Path(sys.argv[1]), Path(sys.argv[2])
listing = scan(project, store=store)
print("ready", flush=True)
sys.stdin.readline()
print(freeze(listing, store).id)
"""
SCAN_AS_NOBODY = """
import json, os, sys
from pathlib import Path
from launchbay.sync.snapshot import freeze, scan

if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
project = Path(sys.argv[1])
listing = scan(project, store=project / ".bay")
tree = freeze(listing, project / ".bay").tree
print(json.dumps([listing.unreadable, sorted(os.listdir(tree))]))
"""


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with code in two folders."""
    folder = write(tmp_path / "project" / "train.py", "import model\n").parent
    write(folder / "model" / "__init__.py", "WIDTH = 1\n")
    return make_repository(folder)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where snapshots go."""
    return tmp_path / "store"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def backdate(project: Path) -> None:
    """Let all files look as if written long ago, so that the cache believes in them."""
    for path in project.rglob("*"):
        if ".git" not in path.parts:
            os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


def contents(tree: Path) -> dict[str, str]:
    """Every file of a tree and what it says."""
    return {
        str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*") if path.is_file()
    }


def state(folder: Path) -> list[tuple[str, int, int]]:
    """Everything in a folder, with the times at which it changed."""
    paths = sorted([folder, *folder.rglob("*")])
    return [(str(path), path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for path in paths]


def run(script: str, *words: str | Path) -> str:
    """What a Python of its own prints."""
    argv = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_scan_writes_nothing(project: Path) -> None:
    """Looking leaves no trace: no store, no cache, no index refreshed."""
    before = state(project)
    scan(project, store=project / ".bay")

    assert state(project) == before


def test_tree_holds_the_code(project: Path, store: Path) -> None:
    """A snapshot is a folder named by its id, with the files as they were."""
    listing = scan(project, store=store)
    snapshot = freeze(listing, store)

    assert snapshot.id == listing.id == snapshot.tree.name
    assert snapshot.tree == store / "snapshots" / snapshot.id
    assert contents(snapshot.tree) == {
        "README": "",
        "model/__init__.py": "WIDTH = 1\n",
        "train.py": "import model\n",
    }
    assert (snapshot.files, snapshot.size, listing.size) == (3, 23, 23)
    assert len(snapshot.id) == 12


@pytest.mark.parametrize("umask", [0o077, 0])
def test_modes(project: Path, store: Path, umask: int) -> None:
    """Files lose the right to be written and keep the others; folders can be cleaned up."""
    (project / "train.py").chmod(0o755)
    (project / "README").chmod(0o640)
    (project / "model" / "__init__.py").chmod(0o644)
    previous = os.umask(umask)
    try:
        tree = freeze(scan(project, store=store), store).tree
    finally:
        os.umask(previous)

    paths = [store / "objects", store / "snapshots", store / CACHE, tree, *tree.rglob("*")]
    assert {path.name: path.stat().st_mode & 0o777 for path in paths} == {
        "objects": 0o700,
        "snapshots": 0o700,
        CACHE: 0o600,
        tree.name: 0o755,
        "README": 0o440,
        "train.py": 0o555,
        "model": 0o755,
        "__init__.py": 0o444,
    }


def test_symbolic_links_stay_as_they_are(project: Path, store: Path) -> None:
    """To a file, to a folder, or to nowhere: the target is kept letter by letter."""
    targets = {"file": "train.py", "folder": "./model/", "dangling": "/no//where/../at/all"}
    for name, target in targets.items():
        (project / name).symlink_to(target)
    tree = freeze(scan(project, store=store), store).tree

    # Path.readlink would tidy the targets up.
    assert {name: os.readlink(tree / name) for name in targets} == targets  # noqa: PTH115


def test_same_code_has_the_same_id(project: Path, store: Path, tmp_path: Path) -> None:
    """The id speaks of content: not of the place, the time, git or the store."""
    copy = tmp_path / "copy"
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns(".git"))
    backdate(copy)

    assert scan(copy, store=tmp_path / "other").id == scan(project, store=store).id


def test_what_changes_the_id(project: Path, store: Path) -> None:
    """Content, names, the right to execute, and where a link points each make another id."""
    ids = [scan(project, store=store).id]
    write(project / "train.py", "import other\n")
    ids.append(scan(project, store=store).id)
    (project / "train.py").rename(project / "run.py")
    ids.append(scan(project, store=store).id)
    (project / "run.py").chmod(0o755)
    ids.append(scan(project, store=store).id)
    for target in ("run.py", "README"):
        (project / "link").unlink(missing_ok=True)
        (project / "link").symlink_to(target)
        ids.append(scan(project, store=store).id)

    assert len(set(ids)) == 6


def test_new_mtime_is_no_change(project: Path, store: Path) -> None:
    """Touching a file makes no new snapshot."""
    before = freeze(scan(project, store=store), store)
    backdate(project)
    after = freeze(scan(project, store=store), store)

    assert after == before


@pytest.mark.parametrize("frozen_before", [False, True])
def test_edit_of_the_same_size_in_the_same_second(
    project: Path, store: Path, *, frozen_before: bool
) -> None:
    """An edit that leaves size and mtime alone is still seen."""
    path = write(project / "train.py", "lr = 1\n")
    backdate(project)
    if frozen_before:
        freeze(scan(project, store=store), store)
    before = scan(project, store=store).id
    write(path, "lr = 2\n")
    os.utime(path, (LONG_AGO, LONG_AGO))

    assert scan(project, store=store).id != before


def test_just_written_files_are_not_believed(project: Path, store: Path) -> None:
    """A file written within two seconds of the scan is read again, like git does."""
    backdate(project)
    write(project / "new.py")
    freeze(scan(project, store=store), store)

    known = {Path(source).name for source in read_stat_cache(store / CACHE)}
    assert known == {"README", "__init__.py", "train.py"}


def test_unchanged_files_are_not_opened(project: Path, store: Path) -> None:
    """A second scan opens only what changed; that it is unread is counted, not timed."""
    backdate(project)
    first = json.loads(run(COUNT_OPENS, project, store))
    freeze(scan(project, store=store), store)
    unchanged = json.loads(run(COUNT_OPENS, project, store))
    write(project / "train.py", "changed\n")
    changed = json.loads(run(COUNT_OPENS, project, store))

    names = ("README", "model/__init__.py", "train.py")
    ignore_file = str(project / ".bayignore")
    assert first == [ignore_file, *(str(project / name) for name in names)]
    assert unchanged == [ignore_file]
    assert changed == [ignore_file, str(project / "train.py")]


def test_damaged_cache_is_ignored(project: Path, store: Path) -> None:
    """Garbage in the place of the cache changes nothing, and is replaced."""
    backdate(project)
    before = freeze(scan(project, store=store), store)
    (store / CACHE).write_bytes(b"\x00garbage" * 100)
    after = freeze(scan(project, store=store), store)

    assert after == before
    assert len(read_stat_cache(store / CACHE)) == 3


def test_content_is_stored_once(project: Path, store: Path) -> None:
    """Snapshots share the bytes of what did not change, and files with equal bytes do."""
    write(project / "copy.py", "import model\n")
    first = freeze(scan(project, store=store), store).tree
    write(project / "README", "changed\n")
    second = freeze(scan(project, store=store), store).tree

    assert first != second
    inodes = {
        (tree / name).stat().st_ino for tree in (first, second) for name in ("train.py", "copy.py")
    }
    assert len(inodes) == 1
    assert len(list((store / "objects").glob("*/*"))) == 4


def test_mode_is_part_of_an_object(project: Path, store: Path) -> None:
    """Equal bytes with different modes do not share a file, whose mode would be one of them."""
    write(project / "run.py", "import model\n").chmod(0o755)
    tree = freeze(scan(project, store=store), store).tree

    assert (tree / "run.py").stat().st_mode & 0o111 == 0o111
    assert (tree / "train.py").stat().st_mode & 0o111 == 0


def test_later_edits_do_not_reach_the_tree(project: Path, store: Path) -> None:
    """A frozen file is a copy, not a link to the original."""
    tree = freeze(scan(project, store=store), store).tree
    with (project / "train.py").open("a") as file:
        file.write("more\n")

    assert (tree / "train.py").read_text() == "import model\n"


def test_edit_between_scan_and_freeze(project: Path, store: Path) -> None:
    """The id names the bytes that were stored, not those that were seen before."""
    listing = scan(project, store=store)
    write(project / "train.py", "import surprise\n")
    snapshot = freeze(listing, store)

    assert (snapshot.tree / "train.py").read_text() == "import surprise\n"
    assert snapshot.id == scan(project, store=store).id != listing.id


def test_deletion_between_scan_and_freeze(project: Path, store: Path) -> None:
    """What is gone is left out, with the folder that held it."""
    listing = scan(project, store=store)
    shutil.rmtree(project / "model")
    snapshot = freeze(listing, store)

    assert sorted(path.name for path in snapshot.tree.iterdir()) == ["README", "train.py"]
    assert snapshot.id == scan(project, store=store).id
    assert snapshot.files == 2


def test_pipe_in_the_place_of_a_file(project: Path, store: Path) -> None:
    """A pipe that took a file's place between scan and freeze is not waited for."""
    listing = scan(project, store=store)
    (project / "train.py").unlink()
    os.mkfifo(project / "train.py")
    snapshot = freeze(listing, store)

    assert snapshot.id == scan(project, store=store).id
    assert not (snapshot.tree / "train.py").exists()


def test_several_processes_at_once(project: Path, store: Path) -> None:
    """Freezing the same code at the same time works for everybody and leaves nothing behind."""
    for number in range(200):
        write(project / f"{number}.py", f"{number}\n")
    argv = [sys.executable, "-c", FREEZE, str(project), str(store)]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ids = {process.communicate()[0].strip() for process in processes}

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert ids == {scan(project, store=store).id}
    assert len(contents(store / "snapshots" / ids.pop())) == 203
    assert list((store / "tmp").iterdir()) == []


@pytest.mark.parametrize("in_git", [True, False])
def test_unreadable_files_are_named_and_left_out(open_folder: Path, *, in_git: bool) -> None:
    """A snapshot is made of what can be read."""
    write(open_folder / "train.py")
    write(open_folder / "locked.py").chmod(0)
    write(open_folder / "locked" / "x.py")
    if in_git:
        make_repository(open_folder)
    (open_folder / "locked").chmod(0)
    if os.geteuid() == 0:
        for path in [open_folder, *open_folder.rglob("*")]:
            os.chown(path, 65534, 65534)
    unreadable, frozen = json.loads(run(SCAN_AS_NOBODY, open_folder))
    (open_folder / "locked").chmod(0o755)

    # Outside git nobody knows what the folder holds.
    assert unreadable == (["locked.py", "locked/x.py"] if in_git else ["locked", "locked.py"])
    assert frozen == (["README"] if in_git else []) + ["train.py"]


def test_too_much_code_is_refused(project: Path, store: Path) -> None:
    """The largest ten files are named, and what to do about them; nothing is read."""
    for number in range(12):
        write(project / f"{number:02d}.bin", "x" * 1000 * (number + 1))
    with pytest.raises(ConfigError) as caught:
        scan(project, store=store, limit_bytes=50_000)

    assert str(caught.value) == "`snapshot_limit`: the code is 78.0 kB, more than 50.0 kB"
    assert caught.value.hint is not None
    first, *rows = caught.value.hint.split("\n")
    assert all(word in first for word in ("`.gitignore`", "`.bayignore`", "`snapshot_limit`"))
    assert [row.split() for row in rows] == [
        [f"{number + 1}.0", "kB", f"{number:02d}.bin"] for number in range(11, 1, -1)
    ]


def test_ignored_code_does_not_count(project: Path, store: Path) -> None:
    """Following the hint helps."""
    write(project / "big.bin", "x" * 1000)
    write(project / ".bayignore", "*.bin\n")

    assert scan(project, store=store, limit_bytes=500).size < 500


def test_store_that_cannot_be_written(project: Path, tmp_path: Path) -> None:
    """The error names the store."""
    store = write(tmp_path / "file")
    listing = scan(project, store=store)

    with pytest.raises(StoreError, match=f"cannot store the code in `{store}`: "):
        freeze(listing, store)


def test_copy_where_links_fail(tmp_path: Path) -> None:
    """Another file system gets a copy with the same mode."""
    other = Path("/dev/shm")  # noqa: S108
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system to link across")
    source = write(tmp_path / "object", "bytes")
    source.chmod(0o555)
    with tempfile.TemporaryDirectory(dir=other) as folder:
        place = Path(folder) / "copy"
        _link(str(source), str(place))

        assert (place.read_text(), place.stat().st_mode & 0o777) == ("bytes", 0o555)


def test_remove_objects(project: Path, store: Path) -> None:
    """What no snapshot holds goes after an hour; what one holds stays."""
    kept = freeze(scan(project, store=store), store).tree
    write(project / "train.py", "x" * 100)
    write(project / "model" / "__init__.py", "x" * 50)
    shutil.rmtree(freeze(scan(project, store=store), store).tree)
    too_young = remove_objects(store)
    for path in (store / "objects").glob("*/*"):
        os.utime(path, (time.time() - 3700,) * 2)
    removed = remove_objects(store)

    assert (too_young, removed) == ((0, 0), (2, 150))
    assert len(contents(kept)) == len(list((store / "objects").glob("*/*"))) == 3


def test_freeze_after_objects_were_removed(project: Path, store: Path) -> None:
    """What was cleaned away is stored again, although the cache spares reading it."""
    backdate(project)
    shutil.rmtree(freeze(scan(project, store=store), store).tree)
    shutil.rmtree(store / "objects")
    snapshot = freeze(scan(project, store=store), store)

    assert len(contents(snapshot.tree)) == 3


def test_remove_objects_sweeps_what_was_never_finished(store: Path) -> None:
    """What a killed process was building goes after a day."""
    for name in ("old", "new"):
        write(store / "tmp" / name / "tree" / "x")
    os.utime(store / "tmp" / "old", (LONG_AGO, LONG_AGO))
    remove_objects(store)

    assert [path.name for path in (store / "tmp").iterdir()] == ["new"]


def test_index_of_git_is_left_alone(project: Path, store: Path) -> None:
    """A scan takes no lock, so that it works beside a rebase."""
    write(project / ".git" / "index.lock")

    assert len(scan(project, store=store).entries) == 3
    assert git(project, "ls-files").split() == ["README", "model/__init__.py", "train.py"]
