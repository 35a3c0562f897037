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
