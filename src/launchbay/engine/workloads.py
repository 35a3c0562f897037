"""The objects of a cluster as the first tool's users know them: pods that stay, Jobs to delete."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from launchbay.config.schema import KUBE
from launchbay.core.backend import Workloads
from launchbay.core.errors import BadRequest, BayError, TargetError, Unsupported
from launchbay.engine.logs import bring_log
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.core.backend import Backend, Workload
    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.settings import Settings

AT_ONCE = 8
POD = "interactive-pod"


def workloads_of(backend: Backend) -> Workloads:
    """The backend, where it has objects to show.

    Raises:
        Unsupported: where it has none.
    """
    if not isinstance(backend, Workloads):
        raise Unsupported(f"`{backend.target}` has no pods", hint="choose a Kubernetes")
    return backend


def require_kube(settings: Settings) -> None:
    """See that there is a cluster to speak of.

    Raises:
        BadRequest: when no file says where it is.
    """
    if KUBE not in settings.targets():
        raise BadRequest(
            "no file says which cluster is meant: there is no `config/kube.yaml`",
            hint="write it with `project_name`, `namespace`, `user` and `image`; "
            "or `bay target add kube` makes a target of that name",
        )


def pod_name(lab: Lab, target: str) -> str:
    """What an interactive pod of the project is called: whose it is comes first."""
    config = lab.settings.config
    said = [part.prefix for part in (config.file, config.kube) if part and part.prefix is not None]
    user = str(lab.settings.targets()[target].get("user") or "")
    owner = said[0] if said else user
    return "-".join(filter(None, [owner, lab.settings.project_name, POD]))


def delete_workloads(lab: Lab, target: str, workloads: Sequence[Workload]) -> None:
    """End and delete these; of runs that are known here the logs come home first.

    Raises:
        TargetError: when the cluster does not answer.
    """
    backend = lab.targets.open(target, look="never").backend
    ids = [one.run_id for one in workloads if one.run_id]
    _bring_logs(lab, _settle(lab, [*lab.store.named(ids).values()]))
    workloads_of(backend).delete_workloads(workloads)


def _settle(lab: Lab, runs: Sequence[Run]) -> Sequence[Run]:
    """The runs once they have ended, so that each has the time to save what it wants to."""
    runs = lab.refresh(runs).runs
    alive = [run for run in runs if not run.state.final]
    if not alive:
        return runs
    lab.tell(f"asking for the end of {len(alive)}")
    try:
        lab.settle(alive)
    except TargetError as err:
        # What does not end by itself ends with its Job.
        lab.tell(f"{err}; deleted all the same")
    return lab.store.runs(Query(ids=[run.id for run in runs]))


def _bring_logs(lab: Lab, runs: Sequence[Run]) -> None:
    def bring(run: Run) -> None:
        # What cannot be read any more must not keep anybody from deleting it.
        with suppress(BayError):
            bring_log(lab, run)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(bring, [run for run in runs if run.state.final]))
