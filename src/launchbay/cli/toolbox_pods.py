"""The first tool's verbs about pods, and about deleting what it and we have on the cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launchbay.cli.screen import render_table, say
from launchbay.config.schema import KUBE
from launchbay.core.quantity import render_span
from launchbay.engine.access import draft_desk, furnish, sketch_desk
from launchbay.engine.deliver import gather
from launchbay.engine.manifests import write_manifests
from launchbay.engine.open import open_lab
from launchbay.engine.workloads import delete_workloads, pod_name, require_kube, workloads_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from launchbay.cli.toolbox_words import Given
    from launchbay.core.backend import Workload
    from launchbay.engine.lab import Lab

COLUMNS = ("kind", "name", "state", "age")
CONFIG = ("config/kube.yaml", "config/launch.yaml")


def pod(given: Given) -> int:
    """Create an interactive pod, which stays until it is deleted."""
    lab = _open()
    draft = draft_desk(lab, target=KUBE, resources={}, bare=True)
    wanted = given.text("pod") or pod_name(lab, KUBE)
    backend = workloads_of(draft.place.backend)
    made = backend.make_pod(furnish(lab, draft), name=wanted)
    click.echo(f"pod/{made} created")
    if made != wanted:
        say(f"`{wanted}` is there already; `make delete_pod` deletes all of yours")
    namespace = lab.settings.targets()[KUBE]["namespace"]
    say(f"once it runs: kubectl exec -n {namespace} -it {made} -- /bin/bash")
    return 0


def pod_dryrun(given: Given) -> int:
    """Write the pod as it would be sent."""
    lab = _open(writing=False)
    draft = draft_desk(lab, target=KUBE, resources={}, bare=True)
    name = given.text("pod") or pod_name(lab, KUBE)
    _, plan = sketch_desk(lab, draft)
    text = workloads_of(draft.place.backend).render_pod(plan, name=name)
    for path in write_manifests(lab.project.folder, {name: text.removesuffix("\n")}):
        click.echo(path)
    return 0


def copy(given: Given) -> int:
    """Send the files of `file:` and the configuration to a pod that runs."""
    lab = _open()
    name = given.text("pod") or pod_name(lab, KUBE)
    folder = lab.project.folder
    listed = [folder / file for file in lab.settings.laid_files(KUBE)]
    own = [folder / file for file in CONFIG if (folder / file).exists()]
    parcels = gather(folder, [*listed, *own])
    backend = workloads_of(lab.targets.open(KUBE, look="never").backend)
    backend.deliver_to_pod(name, parcels)
    for parcel in parcels:
        click.echo(f"Copied {parcel.place} to {name}")
    return 0


def delete(given: Given) -> int:
    """Delete the user's pods and Jobs of this project."""
    return _delete(given, "pods or Jobs", lambda _: True)


def delete_job(given: Given) -> int:
    """Delete the user's Jobs of this project."""
    return _delete(given, "Jobs", lambda one: one.kind == "job")


def delete_pod(given: Given) -> int:
    """Delete the user's pods of this project, but for those of Jobs."""
    return _delete(given, "pods", lambda one: one.kind == "pod")


def clean_jobs(given: Given) -> int:
    """Delete those of the user's Jobs that failed."""
    return _delete(given, "failed Jobs", lambda one: one.kind == "job" and one.state == "failed")


def _delete(given: Given, what: str, wanted: Callable[[Workload], bool]) -> int:
    lab = _open()
    backend = workloads_of(lab.targets.open(KUBE, look="never").backend)
    project = lab.settings.project_name
    user = lab.settings.targets()[KUBE]["user"]
    found = [one for one in backend.list_workloads(project) if wanted(one)]
    if not found:
        say(f"no {what} of user {user} in project {project}")
        return 0
    click.echo(_render(found))
    if not given.agreed(f"delete these {len(found)} of user {user}?"):
        return 1
    delete_workloads(lab, KUBE, found)
    for one in found:
        kind = "job.batch" if one.kind == "job" else one.kind
        click.echo(f'{kind} "{one.name}" deleted')
    if any(one.run_id for one in found):
        say("the runs and their logs stay: `bay ls`, `bay logs NAME`")
    return 0


def _render(found: list[Workload]) -> str:
    now = time.time()
    rows = [[one.kind, one.name, one.state, render_span(now - one.created_at)] for one in found]
    return render_table(COLUMNS, rows, width=None, keep=frozenset(COLUMNS))


def _open(*, writing: bool = True) -> Lab:
    lab = open_lab(Path.cwd(), writing=writing)
    require_kube(lab.settings)
    lab.tell = say
    return lab
