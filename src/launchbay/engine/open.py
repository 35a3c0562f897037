"""The composition root: from a folder to a lab."""

from __future__ import annotations

from pathlib import Path

from launchbay.config.paths import state_folder
from launchbay.engine.lab import Lab
from launchbay.engine.project import read_project
from launchbay.engine.settings import Settings, read_settings
from launchbay.runstore.store import Query, RunStore, index_path


def open_lab(
    start: Path | None = None, *, settings: Settings | None = None, writing: bool = True
) -> Lab:
    """The lab of the project that `start`, or this folder, is in.

    Works in any folder; nothing is written there until something is run.

    Args:
        start: where to look for the project.
        settings: what was read already.
        writing: whether the index may be made where there is none.
    """
    settings = settings or read_settings((start or Path.cwd()).absolute())
    project = read_project(settings.folder)
    path = index_path(state_folder())
    store = RunStore(path if writing or path.exists() else None)
    lab = Lab(project, store, settings=settings)
    if writing and project.id:
        _follow_project(lab)
    return lab


def _follow_project(lab: Lab) -> None:
    """Mend the index where the project was moved, or where it knows nothing of its runs."""
    project, store = lab.project, lab.store
    name, folder = store.projects().get(project.id, ("", project.folder))
    if name and folder != project.folder:
        store.move_project(project.id, folder, project.folder)
    runs = project.bay / "runs"
    if not store.runs(Query(project=project.id, last=1)) and runs.is_dir() and any(runs.iterdir()):
        # The index was lost; what it held is in the run folders.
        lab.rebuild()
