"""`bay clean`."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import BadRequest, StoreError
from launchbay.engine.care import find_waste, measure, remove_waste
from launchbay.engine.open import open_lab
from launchbay.engine.project import owned_launch
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

    from launchbay.engine.lab import Lab

WEEK_S = 7 * 24 * 3600.0


def open_later(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The project's lab, eight days later."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, bay.environment[name])
    made = open_lab(bay.project)
    made.clock = lambda: time.time() + WEEK_S + 24 * 3600
    return made


def with_data(bay: Bay) -> None:
    """Something that is linked: then a tree of code and links is made."""
    bay.write(".bayignore", "data\n")
    bay.write("data/x", "")


@pytest.fixture
def lab(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A project with one run, and frozen code and a launch of none, eight days later."""
    with_data(bay)
    bay("run", "-q", "true")
    for name in (
        "snapshots/0123456789ab",
        "trees/0123456789ab-01234567",
        "launches/calm-otter-001",
        "envs/0123456789ab",
        "envs/0123456789ab.code",
    ):
        (bay.project / ".bay" / name).mkdir(parents=True)
    return open_later(bay, monkeypatch)


def names(lab: Lab) -> dict[str, list[str]]:
    """What there is of each kind, by its name."""
    kinds = ("snapshots", "trees", "launches", "origins", "runs", "tmp")
    return {
        kind: sorted(path.name for path in (lab.project.bay / kind).glob("*")) for kind in kinds
    }


def test_unreferenced_code_goes(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code, tree and launch of a forgotten run go, and the working folder of another that ended."""
    with_data(bay)
    for text in ("first", "second"):
        bay.write("a.txt", text)
        bay("run", "-q", "true")
    bay("rm", bay.json("ls")[0]["id"], "--yes")
    lab = open_later(bay, monkeypatch)
    (run,) = lab.store.runs(Query())
    before = names(lab)
    waste = find_waste(lab, older_s=WEEK_S)
    remove_waste(lab, waste, older_s=WEEK_S)

    assert [one.kind for one in waste] == ["snapshots", "trees", "launches", "working folders"]
    assert (len(before["snapshots"]), len(before["trees"]), len(before["launches"])) == (2, 2, 2)
    assert names(lab) == {
        "snapshots": [run.code],
        "trees": [name for name in before["trees"] if name.startswith(run.code)],
        "launches": [run.launch],
        "origins": [],
        "runs": [run.id],
        "tmp": [],
    }
    assert sorted(path.name for path in lab.folder(run).iterdir()) == [
        "attempts",
        "command.sh",
        "env.sh",
        "job.json",
        "out",
        "params.json",
    ]


def test_young_things_stay(lab: Lab) -> None:
    """Nothing goes before its time, whoever refers to it."""
    assert find_waste(lab, older_s=30 * WEEK_S) == []


def test_index_is_not_needed(bay: Bay, lab: Lab) -> None:
    """What run folders refer to stays, even when the index has been lost."""
    (run,) = lab.store.runs(Query())
    lab.store.forget([run.id])
    remove_waste(lab, find_waste(lab, older_s=WEEK_S), older_s=WEEK_S)

    assert (names(lab)["snapshots"], names(lab)["launches"]) == ([run.code], [run.launch])


def test_run_folder_is_not_needed(lab: Lab) -> None:
    """What the index refers to stays, wherever the run's folder is."""
    (run,) = lab.store.runs(Query())
    shutil.rmtree(lab.folder(run))
    remove_waste(lab, find_waste(lab, older_s=WEEK_S), older_s=WEEK_S)

    assert (names(lab)["snapshots"], names(lab)["launches"]) == ([run.code], [run.launch])


def test_origins(bay: Bay, lab: Lab) -> None:
    """Copies of earlier outputs stay while a run refers to them."""
    bay("run", "-q", "sh", "-c", 'echo x > "$BAY_OUT/x"')
    bay("run", "-q", "--from", "sh:x", "cat", "nothing", code=1)
    kept = names(lab)["origins"]
    stray = lab.project.bay / "origins" / "stray"
    stray.mkdir()
    remove_waste(lab, find_waste(lab, older_s=WEEK_S), older_s=WEEK_S)

    assert (len(kept), names(lab)["origins"]) == (1, kept)


def test_while_something_is_launched(lab: Lab) -> None:
    """Nothing is removed while somebody may be about to use it."""
    with (
        owned_launch(lab.project, "bold-heron-002"),
        pytest.raises(BadRequest, match="being launched"),
    ):
        find_waste(lab, older_s=WEEK_S)


def test_unreadable_record(lab: Lab) -> None:
    """When a run's record cannot be read, nobody knows what it needs: nothing is removed."""
    (run,) = lab.store.runs(Query())
    (lab.folder(run) / "job.json").write_text("{")
    with pytest.raises(StoreError, match=r"job\.json` cannot be read"):
        find_waste(lab, older_s=WEEK_S)


def test_links_are_not_followed(lab: Lab, tmp_path: Path) -> None:
    """A link among the frozen code is removed, what it leads to is not."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    link = lab.project.bay / "snapshots" / "ba9876543210"
    link.symlink_to(outside)
    remove_waste(lab, find_waste(lab, older_s=WEEK_S), older_s=WEEK_S)

    assert (link.is_symlink(), (outside / "precious").exists()) == (False, True)


def test_rerun_after_cleaning(bay: Bay, lab: Lab) -> None:
    """A run whose working folder is gone can be run again."""
    remove_waste(lab, find_waste(lab, older_s=WEEK_S), older_s=WEEK_S)
    bay("rerun", "true", "--yes")

    assert [run["attempt"] for run in bay.json("ls")] == [2]


def test_dry_run(bay: Bay, lab: Lab) -> None:
    """A dry run prints what would go, and everything stays."""
    before = names(lab)
    old = time.time() - WEEK_S - 60
    gone = {one.path for one in find_waste(lab, older_s=WEEK_S) if one.kind == "snapshots"}
    for path in gone:
        os.utime(path, (old, old))
    said = bay("clean", "--dry-run")

    assert said.out == "".join(f"{path}\n" for path in gone)
    assert said.err.startswith("1 snapshots: ")
    assert names(lab) == before


def test_clean_asks(bay: Bay, lab: Lab) -> None:
    """Without anybody to answer nothing is removed; with `--yes` it is."""
    old = time.time() - WEEK_S - 60
    for path in (lab.project.bay / "launches").iterdir():
        os.utime(path, (old, old))
    asked = bay("clean", code=2).err
    between = names(lab)["launches"]
    done = bay("clean", "--yes").err

    assert asked.endswith("error: remove them? — nobody is here to answer\n\nhint: add `--yes`\n")
    assert done.endswith("removed\n")
    assert (len(between), len(names(lab)["launches"])) == (2, 1)


def test_nothing_to_clean(bay: Bay) -> None:
    """Where there is nothing, that is said."""
    assert bay("clean").err == "nothing that nobody needs is older than 7d\n"


def test_wrong_age(bay: Bay) -> None:
    """An age that is none is a wrong request."""
    assert bay("clean", "--older", "old", code=2).err.startswith("error: --older: `old` is no span")


def test_size_counts_what_would_be_free(tmp_path: Path) -> None:
    """A file with another name elsewhere frees nothing; with all its names it counts once."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "x").write_text("12345")
    (tmp_path / "b" / "x").hardlink_to(tmp_path / "a" / "x")
    (tmp_path / "c" / "y").write_text("123")
    folders = [tmp_path / name for name in ("a", "b", "c")]

    assert (measure(folders[1:]), measure(folders)) == (3, 8)


def test_code_of_a_waiting_plan_stays(bay: Bay) -> None:
    """Under a root that others share, what a plan of theirs needs is not waste."""
    bay("target", "add", "desk", "--root", str(bay.home / "shared"), "--yes")
    bay("run", "--target", "desk", "true")
    root = bay.home / "shared"
    for name in ("0123456789ab", "cdef01234567", "ba9876543210"):
        (root / "snapshots" / name).mkdir()
        os.utime(root / "snapshots" / name, (0, 0))
    (root / "plans" / "p").mkdir(parents=True)
    (root / "plans" / "p" / "sheet").write_text(
        """a-b2c3d 1 bay_job='{"snapshot": "0123456789ab"}'\n"""
    )
    (root / "plans" / "p" / "shared.sh").write_text(
        """bay_shared_job='"snapshot": "cdef01234567"'\n"""
    )
    bay("clean", "--yes")
    left = {path.name for path in (root / "snapshots").iterdir()}

    assert {"0123456789ab", "cdef01234567"} <= left
    assert "ba9876543210" not in left
