"""What runs recorded of themselves, as a shell on a login host reads it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.conftest import require_program
from tests.node.workshop import NODE, ORDINARY_PATH
from tests.stubs import SHELLS, write_program

from launchbay.backends.records import parse_look

if TYPE_CHECKING:
    from pathlib import Path

READ = '. "$1/records.sh"; read_records "$2"'
ENDS = """#!/bin/sh
echo '{"loss": 0.5}' >"$RUN/out/metrics.jsonl"
echo '{"event":"exit","at":2,"code":0}' >>"$RUN/attempts/1/events.jsonl"
exec REAL "$@"
"""


# That of busybox has a `grep` of its own.
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_end_is_never_seen_without_its_values(shell: str, tmp_path: Path) -> None:
    """A run that tells its first value, and ends, while it is looked at has both or neither."""
    require_program(SHELLS[shell][0])
    run, programs = tmp_path / "runs/run-aaaaa", tmp_path / "bin"
    records = run / "attempts/1"
    for folder in (records, run / "out", programs):
        folder.mkdir(parents=True)
    (records / "claim").touch()
    (records / "events.jsonl").write_text('{"event":"started","at":1}\n')
    real = shutil.which("grep", path=ORDINARY_PATH)
    write_program(programs / "grep", ENDS.replace("REAL", str(real)))
    done = subprocess.run(
        [*SHELLS[shell], "-c", READ, "sh", str(NODE), str(tmp_path)],
        env={"PATH": f"{programs}:{ORDINARY_PATH}", "RUN": str(run)},
        input="run-aaaaa\n",
        capture_output=True,
        text=True,
        check=True,
    )
    found = parse_look(done.stdout)[1]["run-aaaaa"]

    assert found.attempts[1].events["exit"]["code"] == 0
    assert json.loads(found.metrics) == {"loss": 0.5}
