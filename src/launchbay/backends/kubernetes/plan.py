"""From jobs to what is sent to a Kubernetes: one Job a run, and what their pods share."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.manifest import Carried, Frame, check_jobs, render_job
from launchbay.backends.kubernetes.packing import (
    env_secret,
    file_secret,
    has_files,
    has_variables,
    programs_name,
    render_shared,
)
from launchbay.backends.kubernetes.yaml import render_yaml
from launchbay.backends.sheet import common_secrets, render_sheet, secret_groups
from launchbay.core.backend import Plan
from launchbay.core.command import render
from launchbay.core.errors import Unsupported
from launchbay.core.naming import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from launchbay.core.job import Job

MOST_JOBS = 500
"""Jobs of one plan, which share an object of at most 1 MiB."""
LONGEST_LINE = 200_000
"""Of the 256 KiB that all annotations of an object may have."""
CONDA_HOME = "/opt/conda"
ACTIVATES = re.compile(r"\bconda +activate\b")
FIND_CONDA = """\
for bay_conda in "${CONDA_EXE%/bin/conda}" /opt/conda ~/miniconda3 ~/miniforge3 ~/anaconda3; do
    [ -r "$bay_conda/etc/profile.d/conda.sh" ] || continue
    . "$bay_conda/etc/profile.d/conda.sh"
    break
done
"""


@dataclass(frozen=True)
class Planner:
    """What plans depend on besides their jobs."""

    frame: Frame

    def plan(self, jobs: Sequence[Job]) -> list[Plan]:
        """As few plans as objects can hold.

        Raises:
            Unsupported: when the cluster can never do what a job asks.
        """
        check_jobs(jobs, self.frame)
        rest = iter([prepared(job) for job in jobs])
        chunks = list(iter(lambda: tuple(islice(rest, MOST_JOBS)), ()))
        originals = iter(jobs)
        return [self._plan(chunk, tuple(islice(originals, len(chunk)))) for chunk in chunks]

    def _plan(self, jobs: Sequence[Job], asked: tuple[Job, ...]) -> Plan:
        plan_id = digest([[job.run_id, job.attempt] for job in jobs])[:10]
        files = render_sheet(jobs, target=self.frame.target, plan=plan_id, pod=words.PLAN_AT)
        lines = files["sheet"].splitlines()
        shared = render_shared(plan_id, files["shared.sh"], self.labels())
        made = [shared, *self._jobs(plan_id, jobs, lines)]
        return Plan(id=plan_id, jobs=asked, document=render_yaml(made))

    def _jobs(
        self, plan_id: str, jobs: Sequence[Job], lines: Sequence[str]
    ) -> Iterator[Mapping[str, object]]:
        groups = secret_groups(jobs)
        for index, (job, line) in enumerate(zip(jobs, lines, strict=True)):
            if len(line) > LONGEST_LINE:
                raise Unsupported(
                    f"the command and parameters of `{job.run_id}` are {len(line)} bytes, more "
                    "than an object of the cluster holds",
                    hint="put them in a file of the code, and name that",
                )
            carried = carry(plan_id, groups.index(common_secrets(job)), job)
            yield render_job(job, self.frame, carried, line=line, index=index)

    def labels(self) -> dict[str, str]:
        """What every object of ours has."""
        return labels_of(self.frame.user)


def labels_of(user: str) -> dict[str, str]:
    """What every object of one user's has."""
    return {words.MANAGED: words.OURS, words.USER: words.label(user)}


def carry(plan_id: str, group: int, job: Job) -> Carried:
    """What the pod of a job finds mounted."""
    return Carried(
        plan=plan_id,
        programs=programs_name(),
        env_secret=env_secret(plan_id, group) if has_variables(job) else "",
        file_secret=file_secret(plan_id, group, job) if has_files(job) else "",
    )


def prepared(job: Job) -> Job:
    """The job with everything that its pod does before the command as lines of its set-up."""
    own = [_conda(job), job.options.get("startup_script"), job.options.get("extra_startup_script")]
    text = "".join(f"{lines.rstrip()}\n" for lines in own if lines)
    return replace(job, setup=text + job.setup) if text else job


def _conda(job: Job) -> str:
    """Shell lines that enter the conda environment of the image, where one is asked for."""
    name, home = job.options.get("conda_env_name"), job.options.get("conda_home")
    if not name and not home:
        # A shell without a terminal knows no `conda activate` by itself.
        return FIND_CONDA if ACTIVATES.search(render(job.command)) else ""
    where = shlex.quote(str(home or CONDA_HOME))
    # As the first tool did: `base` is conda itself, and unset is the project.
    chosen = str(name or job.labels.get("project_name") or "base")
    wanted = shlex.quote(chosen)
    missing = f"launchbay: the image has no conda environment {chosen}, or no conda at all"
    return (
        f"if [ -r {where}/etc/profile.d/conda.sh ]; then . {where}/etc/profile.d/conda.sh; fi\n"
        f"conda activate {wanted} || {{ echo {shlex.quote(missing)} >&2; false; }}\n"
    )
