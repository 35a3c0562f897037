"""A Job or a pod that its user starts, with a `kubectl` of their own: all but that object is sent.

It holds no value of a secret, and nothing else that somebody may not read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.dev import FOREVER, plan_id
from launchbay.backends.kubernetes.manifest import render_job
from launchbay.backends.kubernetes.packing import render_shared
from launchbay.backends.kubernetes.plan import carry, labels_of, prepared
from launchbay.backends.kubernetes.sending import secrets_of
from launchbay.backends.sheet import render_sheet
from launchbay.core.command import render

if TYPE_CHECKING:
    from launchbay.backends.kubernetes.dev import DevPods
    from launchbay.core.job import Job


def prepare_job(desk: DevPods, job: Job, name: str) -> dict[str, Any]:
    """The Job of a run, once all that it needs is there.

    Raises:
        Rejected: when the cluster refuses what stands beside it.
    """
    # Nobody would tell it that its turn has come.
    frame, whole = replace(desk.frame, parallel=None), replace(prepared(job), parallel=None)
    plan, labels = plan_id(job), labels_of(frame.user)
    files = render_sheet([whole], target=frame.target, plan=plan, pod=words.PLAN_AT)
    shared = render_shared(plan, files["shared.sh"], labels)
    desk.send([shared, *secrets_of(plan, [whole], desk.secret, labels)])
    line = files["sheet"].splitlines()[0]
    made = render_job(whole, frame, carry(plan, 0, whole), line=line, index=0)
    return {**made, "metadata": {**made["metadata"], "name": name}}


def prepare_pod(desk: DevPods, job: Job, name: str) -> dict[str, Any]:
    """A pod that runs the command of a job and then stays, once all that it needs is there.

    Raises:
        Rejected: when the cluster refuses what stands beside it.
    """
    whole = prepared(job)
    stays = str(job.options.get("server_command") or FOREVER)
    text = f"{whole.entry}{whole.setup}{render(job.command)}\n{stays}"
    lasting = replace(job, options={**job.options, "server_command": text})
    desk.send(desk.beside(lasting, words.LASTING))
    return desk.render(lasting, name, words.LASTING)
