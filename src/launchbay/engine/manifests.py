"""What would be sent to a Kubernetes, as files of the folder `build/`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from launchbay.core.errors import StoreError
from launchbay.engine.launch import sketch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from launchbay.engine.launch import Draft
    from launchbay.engine.steps import Step

FOLDER = "build"
OURS = (
    "# What would be sent; code, programs and secrets are objects beside it, and ????? is drawn\n"
)
KEPT_S = 30 * 86_400


def job_texts(draft: Draft, steps: Sequence[Step]) -> dict[str, str]:
    """The Job of each step, by the name of its run."""
    from launchbay.backends.kubernetes.sending import SEPARATOR  # noqa: PLC0415 (only here)

    found = {}
    for plan in sketch(draft, steps):
        # What they share comes first.
        _, *documents = plan.document.removesuffix("\n").split(SEPARATOR)
        for job, document in zip(plan.jobs, documents, strict=True):
            found[job.name] = document
    return found


def write_manifests(project: Path, texts: Mapping[str, str]) -> Iterator[str]:
    """Write manifests to the project's `build/`; their paths from there.

    A folder that is made for them is left to nobody's git. Our own of a month ago go.

    Raises:
        StoreError: when it cannot be written.
    """
    folder = project / FOLDER
    try:
        if not folder.is_dir():
            folder.mkdir()
            (folder / ".gitignore").write_text("*\n")
        _prune(folder)
        for name, text in texts.items():
            (folder / f"{name}.yaml").write_text(f"{OURS}{text}\n")
            yield f"{FOLDER}/{name}.yaml"
    except OSError as err:
        raise StoreError(f"cannot write `{folder}`: {err.strerror}") from err


def _prune(folder: Path) -> None:
    before = time.time() - KEPT_S
    for path in folder.glob("*.yaml"):
        if path.stat().st_mtime < before and path.read_text().startswith(OURS):
            path.unlink()
