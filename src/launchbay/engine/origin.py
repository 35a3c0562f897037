"""Starting from an earlier run's files."""

from __future__ import annotations

import os
import shutil

from launchbay.core import rundir
from launchbay.core.errors import BadRequest
from launchbay.engine.fetch import bring_home
from launchbay.engine.open import open_lab
from launchbay.engine.project import ensure_project
from launchbay.engine.select import Selection, select


def find_origin(source: str) -> str:
    """The folder that `--from ID[:PATTERN]` means; a pattern gets a folder of copies.

    Raises:
        BadRequest: when there is no such run, or nothing matches.
    """
    word, _, pattern = source.partition(":")
    lab = open_lab()
    runs = select(lab.store, Selection(ids=(word,), project=lab.project.id))
    if len(runs) != 1:
        raise BadRequest(f"--from: `{word}` means {len(runs)} runs", hint="name one of them")
    if runs[0].place.get("host"):
        bring_home(lab, runs[0], (pattern,) if pattern else ())
    out = lab.folder(runs[0]) / rundir.OUT
    if not pattern:
        return str(out)
    found = [path for path in sorted(out.glob(pattern)) if path.is_file()]
    if not found:
        raise BadRequest(f"--from: nothing in `{out}` matches `{pattern}`")
    project = ensure_project(lab.project)
    copies = project.bay / "origins" / f"{runs[0].id}-{os.getpid()}"
    for path in found:
        place = copies / path.relative_to(out)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copy2(path, place)
    return str(copies)
