"""`bay copy` into a run of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually

from launchbay.core.errors import BadRequest
from launchbay.engine.deliver import gather

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

BYTES = bytes(range(256))


def test_files_go_into_a_run_that_runs(bay: Bay, tmp_path: Path) -> None:
    """Files of the project keep their paths, others go by name, `--to` chooses; then it ended."""
    bay.write("src/a.py", "old\n")
    bay("run", "-q", "-d", "sh", "-c", "until [ -e end/go ]; do sleep 0.05; done; cat src/a.py")
    eventually(lambda: bay.states() == ["running"])
    (row,) = bay.json("ls")
    bay.write("src/a.py", "new\n")
    (bay.project / "src" / "b.bin").write_bytes(BYTES)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "c").write_text("c\n")
    (bay.project / "go").touch()

    said = bay("copy", row["id"], "src", str(tmp_path / "other"))
    bay("copy", row["id"], "go", "--to", "end")
    bay("wait", row["id"])
    work = bay.project / ".bay" / "runs" / row["id"] / "work"
    late = bay("copy", row["id"], "src", code=2)

    assert said.out.splitlines() == ["src/a.py", "src/b.bin", "other/c"]
    assert f"copied 3 files (262 B) to {work}" in said.err
    assert (work / "src" / "b.bin").read_bytes() == BYTES
    assert (work / "other" / "c").read_text() == "c\n"
    assert bay("logs", row["id"]).out == "new\n"
    assert f"`{row['id']}` does not run: it has succeeded" in late.err


def test_without_files_those_of_the_file_go(bay: Bay) -> None:
    """`file:` lists what `bay copy ID` sends again; without a list it asks which."""
    bay.write("lib/x.txt", "1\n")
    bay.write(
        "bay.yaml",
        "file: [lib]\ncommand: until [ -e lib/go ]; do sleep 0.05; done; cat lib/x.txt\n",
    )
    bay("run", "-q", "-d")
    eventually(lambda: bay.states() == ["running"])
    bay.write("lib/x.txt", "2\n")
    bay.write("lib/go", "")
    said = bay("copy")
    bay("wait", bay.json("ls")[0]["id"])
    bay("run", "-q", "-d", "sleep", "100")
    eventually(lambda: bay.states()[-1] == "running")
    none = bay("copy", code=2)
    bay("cancel", "--state", "running", "--yes")

    assert said.out.splitlines() == ["lib/go", "lib/x.txt"]
    assert bay("logs", bay.json("ls", "--all")[0]["id"]).out == "2\n"
    assert "which files?" in none.err


def test_what_is_gathered(tmp_path: Path) -> None:
    """Folders are walked but for what git and we keep; a name twice is the last one."""
    project, other = tmp_path / "project", tmp_path / "other"
    for name in ("a", "d/b", "d/.git/config", ".bay/x", "d/__pycache__/y"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(name)
    other.mkdir()
    (tmp_path / "empty").mkdir()
    (other / "a").write_text("other")
    found = {one.place: one.source for one in gather(project, [project, other / "a"])}

    assert found == {"a": other / "a", "d/b": project / "d" / "b"}
    assert [one.place for one in gather(project, [project / "d"], "to")] == ["to/d/b"]
    with pytest.raises(BadRequest, match="there is no file"):
        gather(project, [project / "none"])
    with pytest.raises(BadRequest, match="nothing to copy"):
        gather(project, [tmp_path / "empty"])
