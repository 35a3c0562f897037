"""Code is frozen at submit, and every run has a folder of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conftest import Bay, eventually

if TYPE_CHECKING:
    from pathlib import Path

WAITS = """
import os, pathlib, sys, time
go = pathlib.Path(sys.argv[1])
while not go.exists():
    time.sleep(0.02)
import constant
print("constant", constant.VALUE)
"""
SHARES = """
import os, pathlib, sys, time
here = pathlib.Path(__file__).resolve().parent
os.makedirs("checkpoints", exist_ok=True)
own = pathlib.Path("checkpoints/last.pt")
assert not own.exists(), "somebody else's"
own.write_text(os.environ["BAY_RUN_ID"])
go = pathlib.Path(sys.argv[1])
(go.parent / os.environ["BAY_RUN_ID"]).touch()
while not go.exists():
    time.sleep(0.02)
assert own.read_text() == os.environ["BAY_RUN_ID"]
print("data", (here / "data" / "x").read_text())
"""


def commit(bay: Bay, ignored: str = "") -> None:
    bay.write(".gitignore", ignored)
    bay.git("init", "-q")
    bay.git("add", "-A")
    bay.git("commit", "-qm", "first")


def printed(bay: Bay, run_id: str) -> str:
    return bay("logs", run_id).out


def test_edited_code_does_not_reach_a_waiting_run(ordinary: Bay) -> None:
    """The run prints the old value, so does a rerun, which says so; the latest is asked for."""
    go = ordinary.home / "go"
    ordinary.write("main.py", WAITS)
    ordinary.write("constant.py", "VALUE = 'old'\n")
    commit(ordinary)
    (run_id,) = ordinary("run", "-q", "--detach", "python3", "main.py", str(go)).out.split()
    eventually(lambda: ordinary.states() == ["running"])
    ordinary.write("constant.py", "VALUE = 'new'\n")
    go.touch()
    first = ordinary("wait", run_id)
    said = [printed(ordinary, run_id)]
    again = ordinary("rerun", run_id)
    said.append(printed(ordinary, run_id))
    ordinary("rerun", "--latest-code", run_id)
    said.append(printed(ordinary, run_id))

    assert first.code == 0
    assert said == ["constant old\n", "constant old\n", "constant new\n"]
    assert "the code has changed since" in again.err


def test_runs_at_once_share_data_and_nothing_else(ordinary: Bay) -> None:
    """Each run has its own git-ignored checkpoints; all see the ignored data beside the script."""
    go = ordinary.home / "go"
    ordinary.write("main.py", SHARES)
    ordinary.write("data/x", "shared")
    ordinary.write("checkpoints/last.pt", "of the project")
    commit(ordinary, "data/\ncheckpoints/\n")
    words = ("run", "-q", "--detach", "-j", "2", "seed=0,1", "python3", "main.py", str(go))
    ids = ordinary(*words).out.split()
    eventually(lambda: all((ordinary.home / run_id).exists() for run_id in ids))
    go.touch()
    ordinary("wait", *ids)

    assert [printed(ordinary, run_id) for run_id in ids] == ["data shared\n"] * 2
    outs = [row["out"] for row in ordinary.json("ls", "--all")]
    assert [_text(f"{out}/checkpoints/last.pt") for out in outs] == ids
    assert (ordinary.project / "checkpoints/last.pt").read_text() == "of the project"


def test_a_run_cannot_change_the_frozen_code(ordinary: Bay) -> None:
    """An ordinary program that opens a frozen file for writing is refused; the code stays whole."""
    ordinary.write("main.py", "open('main.py', 'a').write('#')\n")
    commit(ordinary)
    ordinary("run", "python3", "main.py", code=1)
    (row,) = ordinary.json("ls", "--all")

    assert "PermissionError" in printed(ordinary, row["id"])
    assert _text(ordinary.project / f".bay/snapshots/{row['code']}/main.py").endswith("('#')\n")


def test_git_state_is_recorded(bay: Bay) -> None:
    """Commit, branch, both diffs and untracked files are kept with the run."""
    bay.write("a.py", "1\n")
    bay.write("b.py", "1\n")
    commit(bay)
    bay.write("a.py", "2\n")
    bay.git("add", "a.py")
    bay.write("b.py", "2\n")
    bay.write("c.py", "new\n")
    bay("run", "-q", "true")
    shown = bay.json("show")
    patches = [_text(path) for path in shown["git"]["patches"]]

    assert shown["git"]["commit"] == bay.git("rev-parse", "HEAD").strip()
    assert shown["git"]["untracked"] == ["c.py"]
    assert ["a.py" in patch for patch in patches] == [True, False]
    assert ["b.py" in patch for patch in patches] == [False, True]


def test_environment_file_never_enters_a_snapshot(bay: Bay) -> None:
    """Keys stay at home; the one file of a run that hands them over is nobody else's to read."""
    bay.write(".env", "KEY=secret-value")
    bay.write("main.py", "pass")
    bay("run", "-q", "true")
    found = [path for path in bay.project.glob(".bay/**/*") if path.is_file()]
    holding = [path for path in found if b"secret-value" in path.read_bytes()]

    assert [path.name for path in holding] == ["secrets.sh"]
    assert holding[0].stat().st_mode & 0o777 == 0o600


def test_without_git_a_folder_works_too(bay: Bay) -> None:
    """No repository and no git program: the folder itself is frozen."""
    bay.write("main.py", "print('hello')")
    bay.extra = {"PATH": f"{bay.home}/bin"}
    tools = bay.home / "bin"
    tools.mkdir()
    for name in ("sh", "bash", "mkdir", "cp", "rm", "date", "uname", "id", "tail", "python3"):
        (tools / name).symlink_to(_which(name))

    assert bay("run", "python3", "main.py").out == "hello\n"


def _which(name: str) -> str:
    import shutil  # noqa: PLC0415
    import sys  # noqa: PLC0415

    return sys.executable if name == "python3" else str(shutil.which(name))


def _text(path: Path | str) -> str:
    with open(path) as file:  # noqa: PTH123
        return file.read()
