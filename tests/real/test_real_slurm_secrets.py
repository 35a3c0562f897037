"""Secrets and arguments on a real Slurm: the one seen by nobody, the other as they were typed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest
from tests.conftest import NOBODY, STRESS, eventually
from tests.real.slurm_desk import SlurmDesk, slurm_desk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Bay
    from tests.real.conftest import Sshd
    from tests.real.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

VALUES = 2000 if STRESS else 200
PER_RUN = 50


@pytest.fixture
def desk(bay: Bay, slurm: SlurmCluster, sshd: Sshd, control: Path) -> Iterator[SlurmDesk]:
    """The lab over SSH, on the cluster without accounting."""
    with slurm_desk(bay, slurm, sshd, control) as made:
        yield made


class Onlooker:
    """Somebody who reads the words of every process, again and again."""

    def __init__(self, values: list[bytes]) -> None:
        self.values = values
        self.seen: set[bytes] = set()
        self.looks = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes()
                except OSError:
                    continue
                self.seen |= {words for value in self.values if value in words}
            self.looks += 1


def found_as(user: int, value: str, *places: Path) -> list[str]:
    """The files in these places that hold the value and that a user can read."""
    argv = ["grep", "-rlaF", "-e", value, *map(str, places)]
    done = subprocess.run(
        argv, user=user, group=user, extra_groups=[], capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines()


def test_secrets_are_seen_by_nobody(desk: SlurmDesk) -> None:
    """A secret reaches its run, and is in no script, listing, process, log, index or open file."""
    secrets = {"API_KEY": "k3y-of-the-f1le-7731", "WORD": "w0rd-of-the-shell-8842"}
    desk.bay.write(".env", f"API_KEY={secrets['API_KEY']}\n").chmod(0o600)
    desk.bay.extra["WORD"] = secrets["WORD"]
    go = desk.shared / "go"
    desk.write(
        f'printf %s "$API_KEY$WORD" | sha256sum; until [ -e {go} ]; do sleep 0.1; done',
        secrets=["WORD"],
        params={"n": [1, 2]},
    )
    with Onlooker([value.encode() for value in secrets.values()]) as onlooker:
        desk.bay("run", "-d")
        rows = desk.await_states("running")
        desk.await_marks(2)
        job = rows[0]["native_id"].partition("_")[0]
        shown = desk.cluster.run("scontrol", "show", "job", "-dd", job).stdout
        script = desk.cluster.run("scontrol", "write", "batch_script", f"{job}_0", "-").stdout
        go.touch()
        desk.await_states("succeeded")
    both = "".join(secrets.values())
    wanted = subprocess.check_output(["sha256sum"], input=both, text=True)
    logs = [desk.bay("logs", row["id"]).out for row in rows]
    desk.bay("fetch", code=None)
    kept = [desk.bay.project / ".bay", desk.bay.project / "results", desk.bay.home]
    spool = [desk.cluster.folder / "state", desk.cluster.folder / "spool"]
    own = set(desk.root.glob("plans/*/secrets-*.sh"))

    assert logs == [wanted, wanted]
    assert "#SBATCH" in script
    assert onlooker.looks > 1
    assert not onlooker.seen
    for value in secrets.values():
        assert value not in shown + script
        assert found_as(os.getuid(), value, *kept, *spool) == []
        # What the account itself has is the one file that the run reads.
        assert {Path(name) for name in found_as(os.getuid(), value, desk.root)} == own
        assert found_as(NOBODY, value, desk.shared, desk.bay.project) == []
    assert {path.stat().st_mode & 0o777 for path in own} == {0o600}


APPTAINER = """#!/bin/sh
# Stands in for the real one: notes its words, and runs what comes after the image.
printf '%s\\n' "$@" >>{folder}/words
shift
while [ "$1" != /images/lab.sif ]; do
    case $1 in --nv) shift ;; *) shift 2 ;; esac
done
shift
exec "$@"
"""
ODD = "aZ0 \t\n\\'\"`$!*?[]{}()<>|&;#~%^=,.:-+@/é—ß😀\r\x01\x7f"
DUMP = """\
import json, os, sys
with open(os.environ["BAY_OUT"] + "/words.json", "w") as file:
    json.dump(sys.argv[1:], file)
"""


def words_of(dice: random.Random) -> list[str]:
    """Words of everything that a shell, a list or a container could take for its own."""
    made = ["".join(dice.choices(ODD, k=dice.randint(1, 24))) for _ in range(VALUES)]
    fixed = ["", " ", "-n", "--", "$HOME", "$(id)", "`id`", "%j", "%a", "\\n", "a'b\"c", "*", "~"]
    return [*fixed, *made][:VALUES]


def test_arguments_arrive_as_typed(desk: SlurmDesk) -> None:
    """Any words survive ssh, sbatch and a container; its folders and GPUs are asked for."""
    stub = desk.put_before("apptainer", APPTAINER)
    desk.bay.write("dump.py", DUMP)
    words = words_of(random.Random(7))
    parts = [words[at : at + PER_RUN] for at in range(0, len(words), PER_RUN)]
    site = {
        "image": "/images/lab.sif",
        "gpus": 1,
        "partition": "gpu",
        "binds": ["/data:/d a", "/x:/y:ro"],
    }
    desk.write("true", site=site)
    for part in parts:
        desk.bay("run", "-d", "--", "python3", "dump.py", *part)
    eventually(lambda: len(list(desk.root.glob("runs/*/out/words.json"))) == len(parts))
    rows = desk.await_states("succeeded")
    got = [
        json.loads((desk.root / "runs" / row["id"] / "out" / "words.json").read_text())
        for row in rows
    ]
    noted = (stub / "words").read_text().splitlines()

    assert got == parts
    assert noted.count("--nv") == len(parts)
    pairs = list(pairwise(noted))
    assert pairs.count(("--bind", "/data:/d a")) == len(parts)
    assert pairs.count(("--bind", "/x:/y:ro")) == len(parts)
