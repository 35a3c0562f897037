"""`bay data up` and `down` with a folder as the bucket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import Terminal

if TYPE_CHECKING:
    from tests.cli.conftest import Place


def test_a_tree_goes_up_and_comes_down_the_same(place: Place) -> None:
    """Both sides hold the same names; the second time nothing is moved."""
    place.bay.write("data/a/x", "one")
    place.bay.write("data/y", "two")
    first = place.bay("data", "up", "data")
    again = place.bay("data", "up", "data")
    (place.bay.project / "data" / "y").unlink()
    back = place.bay("data", "down", "data")
    at_rest = place.bay("data", "down", "data/")

    assert place.objects() == place.files() == ["data/a/x", "data/y"]
    assert "sent 2 files, 6 B in " in first.err
    assert "nothing to do" in again.err
    assert "2 unchanged" in again.err
    assert "got 1 file, 3 B in " in back.err
    assert "1 unchanged" in back.err
    assert "2 unchanged" in at_rest.err


def test_changed_objects_are_fetched_and_changed_files_sent(place: Place) -> None:
    """The same size does not hide a change, on either side."""
    place.bay.write("x", "one")
    place.bay("data", "up", "x")
    place.put(x="two")
    place.bay("data", "down", "x")
    came = (place.bay.project / "x").read_text()
    place.bay.write("x", "six")
    place.bay("data", "up", "x")

    assert (came, (place.bucket / "x").read_text()) == ("two", "six")


def test_a_path_counts_from_where_it_is_typed(place: Place) -> None:
    """In a sub-folder `x` is that folder's, and `../y` the project's."""
    inside = place.bay.write("sub/x", "1").parent
    place.bay.write("y", "2")
    place.bay("data", "up", "x", "../y", cwd=inside)

    assert place.objects() == ["sub/x", "y"]


def test_dry_run_says_what_and_why_and_moves_nothing(place: Place) -> None:
    """A line for each file with its reason, on standard output."""
    place.bay.write("x", "1")
    place.bay("data", "up", "x")
    place.bay.write("x", "22")
    place.bay.write("y", "333")
    said = place.bay("data", "up", "--dry-run", "x", "y")

    assert [line.split() for line in said.out.splitlines()] == [
        ["changed", "2", "B", "x"],
        ["new", "3", "B", "y"],
    ]
    assert "2 files, 5 B to move; 0 unchanged" in said.err
    assert place.objects() == ["x"]


def test_overwrite_moves_what_is_the_same(place: Place) -> None:
    """Without it nothing moves, with it everything that matches."""
    place.bay.write("x", "1")
    place.bay("data", "up", "x")

    again = place.bay("data", "up", "--overwrite", "x")

    assert "sent 1 file" in again.err
    assert "got 1 file" in place.bay("data", "down", "--overwrite", "x").err


def test_what_is_newer_here_is_not_lost(place: Place) -> None:
    """A file that was changed here since is left out with the reason; `--overwrite` replaces it."""
    place.put(x="there")
    place.bay("data", "down", "x")
    place.bay.write("x", "mine!!")
    place.put(x="theirs")
    said = place.bay("data", "down", "x")
    kept = (place.bay.project / "x").read_text()
    place.bay("data", "down", "x", "--overwrite")

    assert "left out 1" in said.err
    assert "--overwrite replaces it" in said.err
    assert (kept, (place.bay.project / "x").read_text()) == ("mine!!", "theirs")


def test_include_and_exclude_narrow_down(place: Place) -> None:
    """Only what is included, and of that not what is excluded."""
    for name in ("d/a.pt", "d/b.pt", "d/c.txt", "d/tmp/e.pt"):
        place.bay.write(name, "1")
    place.bay("data", "up", "d/", "--include", "*.pt", "--exclude", "d/tmp/", "--exclude", "b.*")

    assert place.objects() == ["d/a.pt"]


def test_what_is_only_excluded_is_not_missing(place: Place) -> None:
    """Nothing is left to move, and nobody is told that the folder does not exist."""
    place.put(d__a_dot_tmp="1")
    said = place.bay("data", "down", "d/", "--exclude", "*.tmp")

    assert "nothing to do" in said.err
    assert place.files() == []


def test_an_ignore_file_leaves_out(place: Place) -> None:
    """Patterns one a line, with comments; what matches one does not come."""
    place.put(ckpt__model="1", ckpt__optimizer="2", ckpt__log="3")
    ignore = place.bay.write("ignore.txt", "# big\noptimizer\n\n*log*\n")
    place.bay("data", "down", "ckpt/", "--ignore-file", str(ignore))

    assert place.files() == ["ckpt/model", "ignore.txt"]


def test_latest_takes_the_newest_checkpoint(place: Place) -> None:
    """Of `iter_1 … iter_10` only the last comes down, whole; the rest of the folder too."""
    place.put(run__iter_1__w="1", run__iter_9__w="2", run__iter_10__w="3", run__iter_10__v="4")
    place.put(run__log="5")
    place.bay("data", "down", "run/", "--latest")

    assert place.files() == ["run/iter_10/v", "run/iter_10/w", "run/log"]


def test_latest_goes_up_by_what_is_here(place: Place) -> None:
    """Upward, the numbers of the files here count."""
    for number in (2, 10):
        place.bay.write(f"epoch={number}.ckpt", "1")
    place.bay("data", "up", "*.ckpt", "--latest")

    assert place.objects() == ["epoch=10.ckpt"]
    assert "choose one" in place.bay("data", "up", "*", "--latest", "--delete", code=2).err


def test_local_path_takes_the_place_of_the_project(place: Place) -> None:
    """Keys stand below the folder that is named, going down and up."""
    place.put(data__x="1")
    place.bay("data", "down", "data/", "--local-path", "out")
    place.bay.write("out/data/y", "2")
    place.bay("data", "up", "data/", "--local-path", "out")

    assert place.files() == ["out/data/x", "out/data/y"]
    assert place.objects() == ["data/x", "data/y"]


def test_delete_mirrors_and_asks(place: Place) -> None:
    """Without an answer nothing happens at all; with `--yes` the sides are equal."""
    place.put(data__old="1", data2__keep="2")
    place.bay.write("data/new", "3")
    refused = place.bay("data", "up", "data/", "--delete", code=2)
    before = place.objects()
    done = place.bay("data", "up", "data/", "--delete", "--yes")

    assert "add `--yes`" in refused.err
    assert "data/old" in refused.err
    assert before == ["data/old", "data2/keep"]
    assert place.objects() == ["data/new", "data2/keep"]
    assert "deleted 1 file" in done.err


def test_delete_downward_removes_files_here(place: Place) -> None:
    """What the bucket does not have goes, but never what belongs to the project's tools."""
    place.put(x="1")
    place.bay.write("stray", "2")
    place.bay.write(".env", "A=1")
    place.bay.git("init", "--quiet")
    said = place.bay("data", "down", "*", "--delete", "--yes", "--exclude", "bay.yaml")

    assert place.files()[-1] == "x"
    assert not (place.bay.project / "stray").exists()
    assert (place.bay.project / ".env").exists()
    assert (place.bay.project / ".git" / "HEAD").exists()
    assert ".env: a pattern does not mean it" in said.err


def test_secrets_do_not_go_up_by_a_pattern(place: Place) -> None:
    """`*` leaves `.env` and `.git/` here and says so; named, they go."""
    place.bay.write("x", "1")
    place.bay.write(".env", "KEY=1")
    place.bay.write("sub/.git/config", "1")
    said = place.bay("data", "up", "*", "--exclude", "bay.yaml")
    by_pattern = place.objects()
    place.bay("data", "up", ".env")

    assert by_pattern == ["x"]
    assert "sub/.git/: a pattern does not mean it" in said.err
    assert place.objects() == [".env", "x"]


def test_a_bucket_cannot_bring_hooks(place: Place) -> None:
    """What others put below `.git/` is not fetched by a pattern."""
    place.put_key(".git/hooks/pre-commit", "#!/bin/sh")
    place.put(x="1")
    said = place.bay("data", "down", "*")

    assert place.files() == ["x"]
    assert ".git/: a pattern does not mean it" in said.err


def test_what_nothing_matches_is_said_with_the_nearest(place: Place) -> None:
    """A typo moves nothing, names what is there, and is an error in both directions."""
    place.put(models__x="1")
    place.bay.write("results/y", "1")

    assert "did you mean `models/`?" in place.bay("data", "down", "modles/", code=1).err
    assert "did you mean `results/`?" in place.bay("data", "up", "reslts/", code=1).err


def test_one_missing_name_of_several_is_told(place: Place) -> None:
    """The others come, and the exit code says that not all did."""
    place.put(model="1")
    said = place.bay("data", "down", "model", "confg", code=1)

    assert place.files() == ["model"]
    assert "matches `confg`" in said.err
    assert "got 1 file" in said.err


def test_an_expanded_pattern_is_noticed(place: Place) -> None:
    """A shell that replaced `data/*` by what is here finds only that; the note says so."""
    for name in "abc":
        place.bay.write(name, "1")
    place.bay("data", "up", "a", "b", "c")
    said = place.bay("data", "down", "a", "b", "c")

    assert "quote it" in said.err


def test_odd_names_travel(place: Place) -> None:
    """Blanks, quotes, hashes, brackets and dots in front, there and back."""
    names = ["d/ a b ", "d/it's", 'd/"q"', "d/#1", "d/x[1]*?", "d/.hidden", "d/é", "d/!x"]
    for name in names:
        place.bay.write(name, name)
    place.bay("data", "up", "d")
    place.bay("data", "down", "d", "--local-path", "out")

    assert place.objects() == sorted(names)
    assert (place.bay.project / "out" / "d" / "it's").read_text() == "d/it's"


def test_what_cannot_be_sent_is_left_out_with_the_reason(place: Place) -> None:
    """A link that leads out and a pipe are named; the rest goes."""
    place.bay.write("d/x", "1")
    (place.bay.project / "d" / "out").symlink_to("/etc/hostname")
    os.mkfifo(place.bay.project / "d" / "pipe")
    said = place.bay("data", "up", "d")

    assert place.objects() == ["d/x"]
    assert "left out 2" in said.err
    assert "d/out: a link" in said.err


def test_failures_are_listed_and_fail(place: Place) -> None:
    """A file that cannot be written is named, the others come, the exit code is 1."""
    place.put(d__x="1", d__y="2")
    (place.bay.project / "d" / "x" / "inside").mkdir(parents=True)
    said = place.bay("data", "down", "d/", code=None)

    assert place.files() == ["d/y"]
    assert "d/x: " in said.err


def test_json_tells_the_outcome(place: Place) -> None:
    """One document: what was done, what was the same, how much."""
    place.bay.write("x", "1")
    planned = json.loads(place.bay("data", "up", "--json", "--dry-run", "x").out)
    done = json.loads(place.bay("data", "up", "--json", "x").out)
    again = json.loads(place.bay("data", "up", "--json", "x").out)

    assert [(one["key"], one["why"]) for one in planned["send"]] == [("x", "new")]
    assert [one["key"] for one in done["done"]] == ["x"]
    assert (done["bytes"], again["unchanged"], again["failed"]) == (1, 1, [])


def test_a_terminal_is_asked_before_deletions(place: Place) -> None:
    """`n` leaves everything as it is; what would go was shown."""
    place.put(data__old="1")
    place.bay.write("data/new", "2")
    terminal = Terminal(place.bay, "data", "up", "data/", "--delete")
    shown = terminal.until("[y/N]")
    terminal.type("n\n")

    assert terminal.end() == 1
    assert "data/old" in shown
    assert place.objects() == ["data/old"]


def test_a_terminal_shows_how_far_it_is(place: Place) -> None:
    """A line that is written over, and the summary at the end."""
    place.bay.write("x", "1" * 1000)
    terminal = Terminal(place.bay, "data", "up", "x")
    shown = terminal.until("sent 1 file, 1.0 kB")

    assert terminal.end() == 0
    assert "sending 1/1 files, 1.0 kB of 1.0 kB" in shown


def test_a_full_disk_is_one_sentence(place: Place) -> None:
    """What did not fit is not there under its name, and the message says why."""
    disk = place.bay.home / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if done.returncode and os.environ.get("BAY_REQUIRE_REAL") == "1":
        pytest.fail(f"no tmpfs: {done.stderr.decode()}")
    if done.returncode:
        pytest.skip("a tmpfs needs root")
    try:
        place.put(big="x" * 400_000)
        said = place.bay("data", "down", "big", "--local-path", str(disk), code=1)
        left = [path for path in disk.rglob("*") if path.is_file()]
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)

    assert "full" in said.err or "no space" in said.err.lower()
    assert left == []


def test_ctrl_c_in_the_middle_leaves_whole_files(place: Place) -> None:
    """What is there is whole, and the same command completes it."""
    for number in range(300):
        place.bay.write(f"d/{number}", "x" * 200_000)
    listening = ("env", "--default-signal=INT")
    process = place.bay.start("data", "up", "d", "--at-once", "1", through=listening)
    while not place.objects() and process.poll() is None:
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    sizes = {(place.bucket / key).stat().st_size for key in place.objects() if ".part" not in key}
    place.bay("data", "up", "d")

    assert sizes == {200_000}
    assert process.returncode == 130, said
    assert "the same command goes on" in said
    assert len(place.objects()) == 300
