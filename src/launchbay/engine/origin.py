"""Starting from an earlier run's files."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launchbay.core import rundir
from launchbay.core.backend import Staging
from launchbay.core.errors import BadRequest, Unsupported
from launchbay.core.naming import digest
from launchbay.engine.fetch import bring_home
from launchbay.engine.open import open_lab
from launchbay.engine.project import ensure_project
from launchbay.engine.select import Selection, select

if TYPE_CHECKING:
    from pathlib import Path

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.targets import Place


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The run whose outputs others begin with."""

    run: Run
    pattern: str = ""
    """Of its outputs, those that match; empty is all, where they are."""


def find_origin(source: str) -> Origin:
    """What `--from ID[:PATTERN]` means.

    Raises:
        BadRequest: when there is no such run.
    """
    word, _, pattern = source.partition(":")
    lab = open_lab()
    runs = select(lab.store, Selection(ids=(word,), project=lab.project.id))
    if len(runs) != 1:
        raise BadRequest(f"--from: `{word}` means {len(runs)} runs", hint="name one of them")
    return Origin(run=runs[0], pattern=pattern)


def lay_out(lab: Lab, origin: Origin, place: Place) -> str:
    """The folder of earlier outputs at a place: its path, or its path below the root there.

    What is there already stays where it is; the rest is brought.

    Raises:
        BadRequest: when nothing matches.
        Unsupported: when the target takes no files.
    """
    run, where = origin.run, place.where
    host = where.get("host", "")
    there = (run.place.get("host", ""), run.place["root"]) == (host, where["root"])
    if there and host and not origin.pattern:
        return f"runs/{run.id}/{rundir.OUT}"
    bring_home(lab, run, (origin.pattern,) if origin.pattern else ())
    folder = _matching(lab, origin)
    if not host:
        return str(folder)
    if not isinstance(place.backend, Staging):
        raise Unsupported(
            f"`{place.name}` takes no outputs of earlier runs", hint="leave out --from"
        )
    name = f"from-{digest(_listing(folder))[:12]}"
    place.backend.stage(name, folder)
    return f"snapshots/{name}"


def _matching(lab: Lab, origin: Origin) -> Path:
    """The outputs here, or copies of those that match."""
    out = lab.folder(origin.run) / rundir.OUT
    if not origin.pattern:
        return out
    found = [path for path in sorted(out.glob(origin.pattern)) if path.is_file()]
    if not found:
        raise BadRequest(f"--from: nothing in `{out}` matches `{origin.pattern}`")
    project = ensure_project(lab.project)
    copies = project.bay / "origins" / f"{origin.run.id}-{os.getpid()}"
    for path in found:
        place = copies / path.relative_to(out)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copy2(path, place)
    return copies


def _listing(folder: Path) -> list[list[object]]:
    """What tells one state of the outputs from another."""
    return [
        [str(path.relative_to(folder)), path.lstat().st_size, path.lstat().st_mtime_ns]
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
