"""Files of runs in pods, and on the claims that outlive them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from launchbay.backends.delivery import deliver_to_run
from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.manifest import claim_of
from launchbay.backends.kubernetes.pods import NotRunning, PodHost, claim_depot, pod_depot
from launchbay.backends.kubernetes.tidy import is_long_ago
from launchbay.core import rundir
from launchbay.core.errors import Rejected
from launchbay.core.job import CODE_FOLDER, from_record
from launchbay.core.quantity import render_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from launchbay.backends.depot import Depot
    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.core.backend import Parcel
    from launchbay.core.job import Job
    from launchbay.core.run import Handle


NONE = "0"
"""Parts of code that objects cannot hold."""
CODE = (
    '-o=jsonpath={.data.parts}{" "}{.metadata.creationTimestamp}{" "}'
    "{.metadata.annotations.launchbay/used}"
)


class Files:
    """The files of one user's runs in one namespace.

    Args:
        kubectl: how to reach the cluster.
        user: whose helpers they are.
        image: what helpers run in, where nothing else is known.
        spec: more of the helpers' specification, as secrets to pull the image with.
    """

    def __init__(
        self, kubectl: Kubectl, *, user: str, image: str = "", spec: Mapping[str, Any] | None = None
    ) -> None:
        self._kubectl = kubectl
        self._user = user
        self._image = image
        self._spec = spec
        self._big: dict[str, tuple[Path, int]] = {}

    def note_big(self, snapshot: str, tree: Path, size: int) -> None:
        """Remember code that objects cannot hold, until a plan says which claim can."""
        self._big[snapshot] = tree, size

    def has_code(self, snapshot: str) -> bool:
        """Whether objects hold that code; they stay as long as somebody asks so now and then."""
        first = words.code_name(snapshot, 0)
        there = self._kubectl.said("get", "configmap", first, CODE, "--ignore-not-found")
        parts, made, *used = there.split() or ["", ""]
        if parts in ("", NONE):
            return False
        if is_long_ago(made, used[0] if used else "", now=time.time()):
            self._note_use(snapshot, int(parts))
        return True

    def _note_use(self, snapshot: str, parts: int) -> None:
        names = [words.code_name(snapshot, part) for part in range(parts)]
        mark = f"{words.USED}={time.time():.0f}"
        self._kubectl.call("annotate", "configmap", *names, mark, "--overwrite")

    def is_big(self, snapshot: str) -> bool:
        """Whether objects cannot hold that code."""
        return snapshot in self._big

    def bring(self, jobs: Sequence[Job]) -> None:
        """Have big code on the claims of those that run it.

        Raises:
            Rejected: when one has no claim.
        """
        big = [job for job in jobs if job.snapshot in self._big and not _comes_by_itself(job)]
        places = {(job.snapshot, claim_of(job)): job for job in big}
        for (snapshot, claim), job in places.items():
            tree, size = self._big[snapshot]
            if not claim:
                raise Rejected(
                    f"the code is {render_size(size)} when packed, more than the "
                    f"{words.CODE_PARTS} MB that objects of the cluster hold",
                    hint="leave what is no code out with `.bayignore`, or say where it can be: "
                    "`outputs_to: claim:NAME` or `outputs_to: s3://…`",
                )
            with self._open(claim, job.image) as depot:
                depot.stage(snapshot, tree)

    def pull(self, handle: Handle, twin: Path, patterns: Sequence[str]) -> bool:
        """Have in `twin` what is new of a run's folder; see `Outputs.pull`."""
        asked = _read_asked(twin)
        claim = (claim_of(asked) if asked else "") or self._claim_of(handle)
        if pod := self._find_pod(handle):
            try:
                depot = pod_depot(PodHost(self._kubectl, pod), claim)
                return depot.pull(handle.run_id, twin, patterns)
            except NotRunning:
                # It ended just now; what it left is on its claim, if anywhere.
                pass
        if not claim:
            return False
        with self._open(claim, asked.image if asked else "") as depot:
            return depot.pull(handle.run_id, twin, patterns)

    def _open(self, claim: str, image: str) -> AbstractContextManager[Depot]:
        chosen = image or self._image
        return claim_depot(self._kubectl, claim, image=chosen, user=self._user, spec=self._spec)

    def deliver(self, handle: Handle, pod: str, parcels: Sequence[Parcel]) -> None:
        """Have files in the working folder of a run; see `Delivery.deliver`."""
        root = words.root_of(self._claim_of(handle))
        deliver_to_run(PodHost(self._kubectl, pod), f"{root}/runs/{handle.run_id}", parcels)

    def _find_pod(self, handle: Handle) -> str:
        """The pod of a run that somebody can be in; empty where there is none."""
        chosen = f"{words.RUN}={handle.run_id},job-name={handle.native_id}"
        for pod in self._kubectl.get("pods", "-l", chosen):
            if pod.get("status", {}).get("phase") == "Running":
                return str(pod["metadata"]["name"])
        return ""

    def _claim_of(self, handle: Handle) -> str:
        name = ("job", handle.native_id, "--ignore-not-found")
        for job in self._kubectl.get(*name):
            marks: dict[str, Any] = job["metadata"].get("annotations", {})
            return str(marks.get(words.CLAIM, ""))
        return ""


def _comes_by_itself(job: Job) -> bool:
    return any(folder.name == CODE_FOLDER for folder in job.folders)


def _read_asked(twin: Path) -> Job | None:
    """What was asked for a run, from its folder here."""
    try:
        return from_record(json.loads((twin / rundir.JOB).read_text(errors="surrogateescape")))
    except (OSError, ValueError, KeyError):
        return None
