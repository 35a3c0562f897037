"""A place to work in by hand: what is sent to `node/dev.sh`, and how a person enters it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from launchbay.backends.depot_programs import archive
from launchbay.backends.sheet import render_exports
from launchbay.core.errors import Rejected
from launchbay.core.host import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launchbay.backends.depot import Depot
    from launchbay.core.job import Job

OF_BATCH = frozenset({"array", "no-requeue", "open-mode", "output", "requeue", "signal"})
"""Options of sbatch that are none of srun, or not for a person who sits there."""
DIRECTIVE = re.compile(r"^#SBATCH (.+)$", re.MULTILINE)


def make_folder(
    depot: Depot, job: Job, *, secret: Callable[[str], str], links: bool = False
) -> str:
    """Make the folder from the frozen code, and return where it is there.

    Args:
        depot: where.
        job: what it is for.
        secret: the value of a secret.
        links: whether what stays outside of the snapshot is to be had there.

    Raises:
        Rejected: when it cannot be made.
    """
    files = render_files(job, target=depot.target, secret=secret, links=links)
    words = [depot.root_path(), job.run_id, job.snapshot, job.subfolder]
    done = depot.call(
        "dev.sh",
        "make",
        *words,
        stdin=archive({name: (0o600, encoded(text)) for name, text in files.items()}),
    )
    if not done.ok:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise Rejected(
            f"`{depot.target}` could not make a folder to work in: {said}",
            hint="free some space there, or choose another `root:`",
        )
    return done.stdout.strip()


def render_files(
    job: Job, *, target: str, secret: Callable[[str], str], links: bool = False
) -> dict[str, str]:
    """What the folder holds beside the code."""
    variables = {
        "PYTHONUNBUFFERED": "1",
        **job.env,
        **{name: secret(name) for name in job.secrets},
        "BAY_NAME": job.name,
        "BAY_TARGET": target,
    }
    linked = job.links if links else {}
    return {
        "env.sh": render_exports(variables),
        "setup.sh": job.entry + job.setup,
        "links.sh": "".join(f"link {_words(name, to)}\n" for name, to in sorted(linked.items())),
    }


def enter_argv(
    depot: Depot, folder: str, command: Sequence[str], *, seconds: int = 0, gpus: str = ""
) -> list[str]:
    """What is started there to work in the folder.

    Args:
        depot: where.
        folder: as `make_folder` returned it.
        command: none is a shell.
        seconds: when it ends; 0 leaves that to a scheduler.
        gpus: how many a scheduler was asked for, or `see:` and the ids to see.
    """
    words = [folder, str(seconds), gpus or "-", *command]
    return ["/bin/sh", f"{depot.programs()}/dev.sh", "enter", *words]


def srun_words(script: str) -> list[str]:
    r"""The options of a job script as words for srun.

    >>> srun_words("#SBATCH --gres=gpu:1\n#SBATCH --array=0-3\n#SBATCH -p gpu\n")
    ['--gres=gpu:1', '-p', 'gpu']
    """
    lines = DIRECTIVE.findall(script)
    kept = [line for line in lines if re.split(r"[=\s]", line.lstrip("-"))[0] not in OF_BATCH]
    return [word for line in kept for word in shlex.split(line)]


def _words(*words: str) -> str:
    return " ".join(map(shlex.quote, words))
