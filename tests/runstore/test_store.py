"""The index: safe for many at once, rebuilt on damage, private."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from launchbay.core.errors import StoreError
from launchbay.core.run import Cause, Run, State, Status
from launchbay.runstore import store as module
from launchbay.runstore.store import Query, RunStore, index_path


def run(number: int, **changes: object) -> Run:
    fields: dict[str, object] = {
        "id": f"demo-seed-{number}-a{number:04d}",
        "name": f"demo-seed-{number}",
        "experiment": "demo",
        "project": "p",
        "identity": f"i{number}",
        "target": "local",
        "place": {"kind": "machine", "root": "/r"},
        "params": {"seed": str(number)},
        "tags": ("t",),
        "status": Status(state=State.CREATED),
        "created_at": float(number),
    }
    return Run(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state" / "index.sqlite")


def test_a_run_comes_back_whole(store: RunStore) -> None:
    """Every field survives."""
    status = Status(
        state=State.FAILED,
        cause=Cause.TIMEOUT,
        exit_code=3,
        reason="r",
        nodes=("n",),
        started_at=1.0,
        ended_at=2.0,
        metrics={"acc": 0.5, "note": "x"},
    )
    one = run(1, status=status, seen_at=3.0, suspect_since=2.0, cancel_requested=True)
    store.add([one])

    assert store.runs(Query()) == [one]


def test_files_are_private(store: RunStore) -> None:
    """Nobody else reads the index."""
    store.add([run(1)])
    files = sorted(store.path.parent.iterdir())

    assert store.path.parent.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (Query(), [1, 2, 3]),
        (Query(project="p"), [1, 2]),
        (Query(states=[State.FAILED]), [2]),
        (Query(last=2), [2, 3]),
        (Query(identities=["i3", "i1"]), [1, 3]),
        (Query(experiments=["demo"]), [1, 2, 3]),
        (Query(since=2.0), [2, 3]),
        (Query(targets=["far"]), [3]),
        (Query(ids=["demo-seed-1-a0001"]), [1]),
    ],
)
def test_queries(store: RunStore, query: Query, numbers: list[int]) -> None:
    """What is not given does not matter; oldest first."""
    failed = Status(state=State.FAILED)
    store.add([run(1), run(2, status=failed), run(3, project="q", target="far")])

    assert [int(one.params["seed"]) for one in store.runs(query)] == numbers


def test_find_by_id_suffix_name_and_end(store: RunStore) -> None:
    """A name means its newest run; an end means every run that ends so."""
    store.add([run(1), run(2), run(12, name="demo-seed-1")])

    def suffixes(found: list[Run]) -> list[str]:
        return [one.suffix for one in found]

    assert suffixes(store.find("demo-seed-1-a0001", "p")) == ["a0001"]
    assert suffixes(store.find("a0002", "p")) == ["a0002"]
    assert suffixes(store.find_named("demo-seed-1", "p")) == ["a0012"]
    assert suffixes(store.find_named("2", "p")) == ["a0002", "a0012"]
    assert store.find("a0001", "other") == []


def test_attempts_are_kept(store: RunStore) -> None:
    """Each attempt has its own line, with what became of it."""
    first = run(1, native_id="n1", status=Status(state=State.FAILED, exit_code=1))
    second = replace(
        first, attempt=2, native_id="n2", status=Status(state=State.QUEUED), seen_at=9.0
    )
    store.add([first])
    store.add([second])
    store.update([replace(second, status=Status(state=State.SUCCEEDED))])

    assert [(a.number, a.native_id, a.status.state) for a in store.attempts(first.id)] == [
        (1, "n1", State.FAILED),
        (2, "n2", State.SUCCEEDED),
    ]


def test_a_transaction_is_all_or_nothing(store: RunStore) -> None:
    """What breaks off leaves nothing."""

    def break_off() -> None:
        with store.transaction():
            store.add([run(1)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()

    assert store.runs(Query()) == []


def test_many_processes_write_at_once(tmp_path: Path) -> None:
    """Eight writers of fifty runs each: nothing is lost, nobody sees a lock."""
    path = tmp_path / "index.sqlite"
    program = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.runstore.test_store import run, RunStore
for number in range(50):
    RunStore(Path(sys.argv[1])).add([run(number + 50 * int(sys.argv[2]))])
"""
    root = str(Path(__file__).parents[2])
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(path), str(number), root])
        for number in range(8)
    ]

    assert [writer.wait() for writer in writers] == [0] * 8
    assert len(RunStore(path).runs(Query())) == 400


def test_index_of_a_newer_version_is_left_alone(store: RunStore) -> None:
    """An old launchbay does not touch what it does not know."""
    store._connection.execute("PRAGMA user_version = 99")

    with pytest.raises(StoreError, match="was written by a newer launchbay"):
        RunStore(store.path)


def test_network_home_has_its_index_on_local_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's locks do not work over a network."""
    monkeypatch.setattr(module, "_disk_kind", lambda path: "nfs4")

    assert index_path(Path("/home/me/.local/state/launchbay")).parts[1] == "var"


def test_unwritable_folder_is_told(tmp_path: Path) -> None:
    """One line that says what to do."""
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot be used") as caught:
        RunStore(tmp_path / "file" / "index.sqlite")
    assert caught.value.hint == "free some space, or set BAY_HOME to a folder you can write"
