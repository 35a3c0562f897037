"""What is kept of a launch: what was typed, where the code came from, in which environment."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from launchbay.engine.vault import SECRET_NAME
from launchbay.sync.provenance import Git, read_git

if TYPE_CHECKING:
    from pathlib import Path

    from launchbay.engine.lab import Lab

# What tells how a run was made, and nothing that could be a key.
RECORDED = re.compile(
    r"(PATH|LANG|LC_\w+|SHELL|VIRTUAL_ENV|CONDA_\w+|PYTHON\w+|CUDA_\w+|NVIDIA_\w+|NCCL_\w+"
    r"|OMP_\w+|MKL_\w+|SLURM_\w+|LD_LIBRARY_PATH|TORCH_\w+|JAX_\w+|XLA_\w+|TF_\w+)"
)


def record_launch(lab: Lab, folder: Path) -> None:
    """What was typed, where the code came from, and in which environment."""
    project, tag = lab.project, folder.name
    _write_provenance(folder, read_git(project.folder))
    _write_environment(folder)
    argv = [lab.settings.vault.mask_word(word) for word in sys.argv]
    lab.store.add_launch(tag, project=project.id, argv=argv, created_at=lab.clock())


def _write_environment(folder: Path) -> None:
    chosen = {
        name: value
        for name, value in sorted(os.environ.items())
        if RECORDED.fullmatch(name) and not SECRET_NAME.search(name)
    }
    (folder / "environment.json").write_text(json.dumps(chosen), errors="surrogateescape")


def _write_provenance(folder: Path, git: Git | None) -> None:
    """Where the code came from, beside the launch; readable without launchbay."""
    if git is None:
        return
    record = asdict(git)
    for name in ("staged", "unstaged"):
        (folder / f"{name}.patch").write_text(record.pop(name), errors="surrogateescape")
    (folder / "git.json").write_text(json.dumps(record))
