"""What has changed since code was frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchbay.sync.compare import changed_paths
from launchbay.sync.snapshot import freeze, scan

if TYPE_CHECKING:
    from pathlib import Path


def test_unchanged_code_has_no_changes_and_edits_are_named(tmp_path: Path) -> None:
    """A link to a folder is a path like any other; added, removed and edited files are named."""
    project, store = tmp_path / "project", tmp_path / "store"
    (project / "pkg").mkdir(parents=True)
    for name in ("pkg/a.py", "b.py", "gone.py"):
        (project / name).write_text(name)
    (project / "link").symlink_to("pkg")
    tree = freeze(scan(project, store=store), store).tree
    before = changed_paths(scan(project, store=store), tree)
    (project / "b.py").write_text("edited")
    (project / "gone.py").unlink()
    (project / "new.py").write_text("")

    assert before == []
    assert changed_paths(scan(project, store=store), tree) == ["b.py", "gone.py", "new.py"]


def test_what_can_be_run_now_has_changed(tmp_path: Path) -> None:
    """A program that lost or got its executable bit is another one; other bits say nothing."""
    project, store = tmp_path / "project", tmp_path / "store"
    project.mkdir()
    for name in ("run.sh", "readme"):
        (project / name).write_text(name)
    tree = freeze(scan(project, store=store), store).tree
    (project / "run.sh").chmod(0o755)
    (project / "readme").chmod(0o600)

    assert changed_paths(scan(project, store=store), tree) == ["run.sh"]
