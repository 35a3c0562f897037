"""A person's days with a real Slurm over SSH: from the first run to the root that is gone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually
from tests.real.slurm_desk import SlurmDesk, slurm_desk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Bay
    from tests.real.conftest import Sshd
    from tests.real.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture
def desk(bay: Bay, slurm: SlurmCluster, sshd: Sshd, control: Path) -> Iterator[SlurmDesk]:
    """The lab over SSH, on the cluster without accounting."""
    with slurm_desk(bay, slurm, sshd, control) as made:
        yield made


def index_files(desk: SlurmDesk) -> list[Path]:
    """The index and what SQLite keeps beside it."""
    return list(desk.bay.home.rglob("index.sqlite*"))


def test_journey(desk: SlurmDesk) -> None:
    """Run, follow, cancel, rerun, fetch, lose the index and the root: what is known stays so."""
    go = desk.shared / "go"
    wait = f"until [ -e {go} ]; do sleep 0.1; done"
    desk.write(
        f"""\
echo "n <n> attempt $BAY_ATTEMPT"
case <n> in 1) {wait} ;; 2) [ "$BAY_ATTEMPT" != 1 ] || exit 3 ;; 3) sleep 600 ;; esac
echo "<n>" >$BAY_OUT/value.txt""",
        params={"n": "1..3"},
        time="5m",
    )
    desk.bay("run", "-d")
    eventually(lambda: desk.row(n="2")["state"] == "failed")
    desk.await_marks(3)
    # One more, which can only wait.
    desk.hold_nodes()
    desk.bay("run", "-d", "n=4")
    waiting, running = desk.row(n="4"), desk.row(n="3")
    desk.bay("cancel", "--yes", waiting["id"], running["id"])
    eventually(lambda: {desk.row(n=n)["state"] for n in "34"} == {"cancelled"})
    desk.free_nodes()

    following = desk.bay.start("logs", "-f", desk.row(n="1")["id"])
    assert following.stdout
    first = following.stdout.readline()
    go.touch()
    rest, _ = following.communicate(timeout=60)
    assert (first, rest, following.returncode) == ("n 1 attempt 1\n", "", 0)

    desk.bay("rerun", "--yes", desk.row(n="2")["id"])
    eventually(lambda: desk.row(n="2")["state"] == "succeeded")
    before = {row["id"]: (row["state"], row["attempt"]) for row in desk.rows()}
    assert sorted(before.values()) == [
        ("cancelled", 1),
        ("cancelled", 1),
        ("succeeded", 1),
        ("succeeded", 2),
    ]
    assert waiting["state"] == "queued"
    assert f"{waiting['id']} 1" not in desk.marks

    ids = [desk.row(n=n)["id"] for n in "12"]
    desk.bay("fetch", *ids)
    results = desk.bay.project / "results"
    values = {path: path.stat() for path in results.rglob("value.txt")}
    desk.bay("fetch", *ids)
    again = {path: path.stat() for path in results.rglob("value.txt")}
    assert sorted(path.read_text() for path in values) == ["1\n", "2\n"]
    assert {p: s.st_ino for p, s in again.items()} == {p: s.st_ino for p, s in values.items()}

    for path in index_files(desk):
        path.unlink()
    desk.bay("ls", "--rebuild")
    assert {row["id"]: (row["state"], row["attempt"]) for row in desk.rows()} == before

    shutil.rmtree(desk.root)
    assert desk.bay("logs", ids[1]).out == "n 2 attempt 2\n"
    assert {row["id"]: (row["state"], row["attempt"]) for row in desk.rows()} == before


def test_log_says_whether_to_try_again(desk: SlurmDesk) -> None:
    """A failure whose log matches is tried again so often as said; another failure is not."""
    desk.write(
        '[ <n> = 1 ] || { echo other; exit 4; }\necho "link flapped"; [ "$BAY_ATTEMPT" = 3 ]',
        params={"n": [1, 2]},
        retries={"flap+ed": 2},
    )
    desk.bay("run", code=1)
    flapped, other = desk.row(n="1"), desk.row(n="2")

    assert (flapped["state"], flapped["attempt"]) == ("succeeded", 3)
    assert (other["state"], other["attempt"], other["exit_code"]) == ("failed", 1, 4)
    assert len(desk.marks) == 4


@pytest.mark.parametrize("launcher", ["", "env STARTED_BY=mine srun --ntasks=4"])
def test_several_processes(desk: SlurmDesk, launcher: str) -> None:
    """Two nodes with two processes each: four ranks with logs of their own, set up once a node."""
    count = desk.shared / "set-up"
    desk.write(
        'echo "$RANK of $WORLD_SIZE on $SLURMD_NODENAME by ${STARTED_BY-srun} $MADE $MASTER_ADDR"',
        setup=f"'echo $SLURMD_NODENAME >>{count}; export MADE=ready'",
        nodes=2,
        processes=2,
        **({"site": {"launcher": f"'{launcher}'"}} if launcher else {}),
    )
    desk.bay("run")
    logs = [desk.bay("logs", "--rank", str(rank)).out.split() for rank in range(4)]
    by = "mine" if launcher else "srun"

    assert [words[:3] for words in logs] == [[str(rank), "of", "4"] for rank in range(4)]
    assert {tuple(words[5:]) for words in logs} == {("by", by, "ready", logs[0][4])}
    assert len({words[4] for words in logs}) == 2
    assert sorted(count.read_text().split()) == sorted({words[4] for words in logs})
    assert len(desk.marks) == 4
