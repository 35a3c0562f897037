"""Runs as Jobs of a Kubernetes, through the user's own `kubectl` on a host.

Met: Kubernetes 1.34. Nothing is needed but rights in one namespace. A run is a `batch/v1` Job of
its own, whose name is its claim; what it runs travels as immutable ConfigMaps, and what became of
it is in the termination message of its pod, which `node/pod.sh` writes.
"""

from __future__ import annotations

import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from getpass import getuser
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.calls import Kubectl, chunked
from launchbay.backends.kubernetes.files import Files
from launchbay.backends.kubernetes.logs import read_log
from launchbay.backends.kubernetes.manifest import Frame
from launchbay.backends.kubernetes.packing import pack_code, render_code, render_programs
from launchbay.backends.kubernetes.plan import Planner
from launchbay.backends.kubernetes.pods import helper_spec
from launchbay.backends.kubernetes.podspec import FIRST_TOOLS_TARGET
from launchbay.backends.kubernetes.refusals import explain_refusal
from launchbay.backends.kubernetes.sending import (
    SEPARATOR,
    object_key,
    secrets_of,
    send,
    send_all,
    send_objects,
)
from launchbay.backends.kubernetes.status import judge, parse_events, parse_objects, wants_events
from launchbay.backends.kubernetes.yaml import render_yaml
from launchbay.backends.names import attempt_of
from launchbay.core.backend import (
    Backend,
    Capacity,
    Claim,
    Claims,
    Delivery,
    Development,
    Diagnosis,
    Discovery,
    Disposal,
    Facts,
    Feeding,
    Finding,
    Forwarding,
    Interactive,
    LogChunk,
    Opening,
    Outputs,
    Parcel,
    Plan,
    Refusal,
    Room,
    Staging,
    Survey,
    Tidying,
    Trial,
    Weighing,
    Workload,
    Workloads,
)
from launchbay.core.errors import BadRequest, ConfigError, Rejected, Unsupported
from launchbay.core.run import Handle, State, Status
from launchbay.hosts.reach import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes.dev import DevPods
    from launchbay.backends.kubernetes.status import Objects
    from launchbay.core.host import Host
    from launchbay.core.job import Job

LOOK_EVERY_S = 2.0
FEW = 60
"""Runs that are asked after by their names; more by whose they are."""
AT_ONCE = 4
NAMES = 200
"""Objects that one command line names."""
GENTLY = 50
"""Runs that are ended from inside, so that their logs stay; more are ended by the cluster."""


@dataclass(frozen=True, kw_only=True)
class KubernetesOptions:
    """What a target of kind `kubernetes` can say."""

    user: str
    image: str = ""
    parallel: int | None = None
    look_every_s: float = LOOK_EVERY_S
    entry: Mapping[str, Any] = field(default_factory=dict)
    """All that the target says."""


class KubernetesBackend(
    Backend,
    Staging,
    Weighing,
    Survey,
    Discovery,
    Feeding,
    Outputs,
    Delivery,
    Claims,
    Disposal,
    Tidying,
    Interactive,
    Forwarding,
    Capacity,
    Trial,
    Development,
    Workloads,
    Diagnosis,
):
    """One user's Jobs in one namespace."""

    def __init__(
        self,
        target: str,
        options: KubernetesOptions,
        kubectl: Kubectl,
        *,
        facts: Facts | None = None,
        secret: Callable[[str], str] = str,
    ) -> None:
        self.target = target
        self.look_every_s = options.look_every_s
        self._options = options
        self._kubectl = kubectl
        self._secret = secret
        self._planner = Planner(
            Frame(
                target=target,
                namespace=kubectl.namespace,
                user=options.user,
                details=facts.details if facts else None,
                parallel=options.parallel,
                options=options.entry,
            )
        )
        self._helpers = helper_spec(options.entry)
        self._files = Files(kubectl, user=options.user, image=options.image, spec=self._helpers)
        # Cancelled before they were sent; whoever sends them does it with this very object.
        self._unwanted: set[str] = set()

    def plan(self, jobs: Sequence[Job]) -> list[Plan]:
        return self._planner.plan(jobs)

    def submit(self, plan: Plan) -> Iterator[Handle | Refusal]:
        self._files.bring(plan.jobs)
        shared, *documents = plan.document.removesuffix("\n").split(SEPARATOR)
        texts = dict(zip(map(_name, plan.jobs), documents, strict=True))
        jobs = [job for job in plan.jobs if _name(job) not in self._unwanted]
        if refused := self._send_beside(plan, jobs, shared):
            yield from (_refusal(job, refused) for job in jobs)
            return
        rest = iter(jobs)
        strict = any(job.options.get("override") for job in jobs)
        wanted = [texts[_name(job)] for job in jobs]
        for some, sent in send_all(self._kubectl, wanted, strict=strict):
            for job in islice(rest, len(some)):
                if _name(job) in sent.there:
                    yield Handle(job.run_id, self.target, _name(job))
                else:
                    yield _refusal(job, sent.why(object_key(job.run_id, job.attempt)))
        if any(job.parallel for job in jobs) or self._options.parallel:
            self._release()

    def poll(self, handles: Sequence[Handle]) -> dict[Handle, Status]:
        if not handles:
            return {}
        objects = self._look(handles)
        names = [handle.native_id for handle in handles]
        events = {}
        now = time.time()
        if any(wants_events(name, objects, now=now) for name in names):
            done = self._kubectl.call("get", "events", "-o", "json")
            events = dict(parse_events(done.stdout)) if done.ok else {}
        return {one: judge(one.native_id, objects, events, now=now) for one in handles}

    def cancel(self, handles: Sequence[Handle]) -> None:
        if not handles:
            return
        seen = self.poll(handles)
        # What was never sent may still be about to be.
        lost = [one for one in handles if seen[one].state is State.LOST]
        self._unwanted |= {words.job_name(one.run_id, attempt_of(one)) for one in lost}
        going = [one for one in handles if not seen[one].state.final]
        # What has a node may have begun, and the cluster not say so yet.
        begun = [one for one in going if seen[one].allocation and seen[one].nodes]
        if len(begun) > GENTLY:
            begun = []
        self._mark_cancelled({one.native_id for one in going if one not in begun}, suspend=True)
        self._mark_cancelled({one.native_id for one in begun})
        with ThreadPoolExecutor(AT_ONCE) as pool:
            asked = pool.map(lambda one: self._ask_to_end(seen[one].allocation), begun)
            left = {one.native_id for one, told in zip(begun, asked, strict=True) if not told}
        self._mark_cancelled(left, suspend=True)

    def read_log(self, handle: Handle, *, rank: int = 0, cursor: str = "") -> LogChunk:
        return read_log(self._kubectl, handle, rank=rank, offset=int(cursor or 0), look=self._look)

    def stage(self, snapshot: str, tree: Path) -> None:
        if self._files.has_code(snapshot):
            return
        parts = pack_code(tree)
        if len(parts) > words.CODE_PARTS:
            # Which claim can hold it a plan says.
            self._files.note_big(snapshot, tree, sum(map(len, parts)))
            parts = []
        for made in render_code(snapshot, parts, self._planner.labels()):
            sent = send_objects(self._kubectl, [made])
            if sent.refused:
                raise Rejected(f"`{self.target}`: {explain_refusal(sent.why('')).reason}")

    def is_too_big(self, snapshot: str) -> bool:
        return self._files.is_big(snapshot)

    def survey(self) -> Facts:
        from launchbay.backends.kubernetes.facts import survey  # noqa: PLC0415

        return survey(self._kubectl)

    def discover(self) -> list[Handle]:
        objects = self._look([])
        found = []
        for name, job in objects.jobs.items():
            labels = job["metadata"].get("labels", {})
            handle = Handle(labels.get(words.RUN, name), self.target, name)
            if not judge(name, objects, {}, now=time.time()).state.final:
                found.append(handle)
        return found

    def feed(self, handles: Sequence[Handle]) -> None:
        if handles:
            self._release()

    def pull(self, handle: Handle, twin: Path, *, patterns: Sequence[str] = ()) -> bool:
        return self._files.pull(handle, twin, patterns)

    def deliver(self, handle: Handle, parcels: Sequence[Parcel]) -> None:
        self._files.deliver(handle, self._running(handle).allocation, parcels)

    def list_claims(self) -> list[Claim]:
        from launchbay.backends.kubernetes.storage import list_claims  # noqa: PLC0415

        return list_claims(self._kubectl)

    def make_claim(
        self, name: str, *, size_mib: int, storage_class: str = "", shared: bool = True
    ) -> tuple[Claim, bool]:
        from launchbay.backends.kubernetes.storage import make_claim, render_claim  # noqa: PLC0415

        wanted = render_claim(
            name,
            size_mib=size_mib,
            storage_class=storage_class,
            shared=shared,
            user=self._options.user,
        )
        return make_claim(self._kubectl, wanted)

    @contextmanager
    def open_claim(self, name: str, *, tell: Callable[[str], None]) -> Iterator[tuple[Host, str]]:
        from launchbay.backends.kubernetes.storage import open_claim  # noqa: PLC0415

        options, spec = self._options, self._helpers
        with open_claim(
            self._kubectl, name, image=options.image, user=options.user, spec=spec, tell=tell
        ) as opened:
            yield opened

    def dispose(self, handles: Sequence[Handle]) -> None:
        if not handles:
            return
        objects = self._look(handles)
        names = {handle.native_id for handle in handles}
        plans = {_label(objects.jobs[name], words.PLAN) for name in names if name in objects.jobs}
        for some in chunked(sorted(names), NAMES):
            self._kubectl.said("delete", "job", *some, "--ignore-not-found", "--wait=false")
        if not plans:
            return
        chosen = f"{self._selector()},{words.PLAN} in ({','.join(sorted(plans))})"
        left = self._kubectl.get("jobs", "-l", chosen)
        unused = plans - {
            _label(job, words.PLAN) for job in left if _label(job, words.RUN) not in names
        }
        if unused:
            chosen = f"{self._selector()},{words.PLAN} in ({','.join(sorted(unused))})"
            self._kubectl.said("delete", "configmap,secret", "-l", chosen, "--wait=false")

    def find_leftovers(self, *, before: float) -> list[str]:
        from launchbay.backends.kubernetes.tidy import find_leftovers  # noqa: PLC0415

        return find_leftovers(self._kubectl, self._selector(), before=before)

    def remove_leftovers(self, names: Sequence[str]) -> None:
        from launchbay.backends.kubernetes.tidy import remove_leftovers  # noqa: PLC0415

        remove_leftovers(self._kubectl, names)

    def shell_argv(self, handle: Handle, command: Sequence[str] = ()) -> list[str]:
        pod = self._running(handle).allocation
        enter = f'exec /bin/sh {words.PROGRAMS_AT}/enter.sh "$BAY_ROOT/runs/$0" "$@"'
        inside = ["/bin/sh", "-c", enter, handle.run_id, *command]
        how = "-it" if sys.stdin.isatty() else "-i"
        argv = self._kubectl.argv("exec", how, pod, "-c", words.MAIN, "--", *inside)
        return self._kubectl.host.terminal_argv(argv)

    def forward_argv(self, handle: Handle, port: int, to_port: int) -> list[str]:
        pod = self._running(handle).allocation
        if self._kubectl.host.name:
            raise Unsupported(
                f"`{self.target}` is reached by `{self._kubectl.host.name}`, and no port is",
                hint=f"there: `kubectl port-forward {pod} {port}:{to_port}`, then `ssh -L`",
            )
        pair = f"{port}:{to_port}"
        return self._kubectl.argv("port-forward", "--address=127.0.0.1", f"pod/{pod}", pair)

    def capacity(self) -> list[Room]:
        from launchbay.backends.kubernetes.capacity import capacity  # noqa: PLC0415

        return capacity(self._kubectl)

    def trial(self, plan: Plan) -> list[Finding]:
        from launchbay.backends.kubernetes.trial import trial  # noqa: PLC0415

        return trial(self._kubectl, plan.document)

    def dev_argv(
        self,
        plan: Plan,
        *,
        command: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> list[str]:
        (job,) = plan.jobs
        return self._dev_pods().argv(job, command, tell)

    def make_pod(self, plan: Plan, *, name: str) -> str:
        (job,) = plan.jobs
        return self._dev_pods().create(job, name)

    def render_pod(self, plan: Plan, *, name: str) -> str:
        (job,) = plan.jobs
        return render_yaml([self._dev_pods().render(job, name, words.LASTING)])

    def prepare_manifest(self, plan: Plan, *, name: str, lasting: bool) -> dict[str, Any]:
        from launchbay.backends.kubernetes.by_hand import prepare_job, prepare_pod  # noqa: PLC0415

        self._files.bring(plan.jobs)
        (job,) = plan.jobs
        prepare = prepare_pod if lasting else prepare_job
        return prepare(self._dev_pods(), job, name)

    def _dev_pods(self) -> DevPods:
        from launchbay.backends.kubernetes.dev import DevPods  # noqa: PLC0415

        return DevPods(kubectl=self._kubectl, frame=self._planner.frame, secret=self._secret)

    def list_workloads(self, project: str) -> list[Workload]:
        from launchbay.backends.kubernetes.workloads import list_workloads  # noqa: PLC0415

        return list_workloads(self._kubectl, self._options.user, project)

    def delete_workloads(self, workloads: Sequence[Workload]) -> None:
        from launchbay.backends.kubernetes.workloads import delete_workloads  # noqa: PLC0415

        runs = [one for one in workloads if one.run_id and one.kind == "job"]
        others = [one for one in workloads if one not in runs]
        delete_workloads(self._kubectl, others, self._selector())
        self.dispose([Handle(one.run_id, self.target, one.name) for one in runs])

    def deliver_to_pod(self, name: str, parcels: Sequence[Parcel]) -> None:
        from launchbay.backends.kubernetes.workloads import deliver_to_pod  # noqa: PLC0415

        deliver_to_pod(self._kubectl, name, parcels)

    def diagnose(self) -> list[Finding]:
        from launchbay.backends.kubernetes.checkup import diagnose, named_claims  # noqa: PLC0415

        claims = named_claims(self._options.entry)
        return diagnose(self._kubectl, image=self._options.image, claims=claims)

    def _selector(self) -> str:
        """What chooses our objects, and nobody else's."""
        return ",".join(f"{key}={value}" for key, value in self._planner.labels().items())

    def _look(self, handles: Sequence[Handle]) -> Objects:
        """Jobs and pods, in one call; without handles all of ours."""
        selector = self._selector()
        runs = sorted({handle.run_id for handle in handles})
        if 0 < len(runs) <= FEW:
            selector += f",{words.RUN} in ({','.join(runs)})"
        done = self._kubectl.call("get", "jobs,pods", "-l", selector, "-o", "json")
        if not done.ok and not done.stdout.strip():
            raise self._kubectl.error(done)
        return parse_objects(done.stdout, refused=done.stderr)

    def _send_beside(self, plan: Plan, jobs: Sequence[Job], shared: str) -> str:
        """Have there what the Jobs of a plan need; what was said where it was refused."""
        labels = self._planner.labels()
        made = [render_programs(labels), *secrets_of(plan.id, jobs, self._secret, labels)]
        sent = send(self._kubectl, SEPARATOR.join([shared, render_yaml(made)]))
        return sent.why("")

    def _mark_cancelled(self, names: Iterable[str], *, suspend: bool = False) -> None:
        """Mark Jobs as cancelled; those that have gone or ended are left alone."""
        spec = {"spec": {"suspend": True}} if suspend else {}
        patch = {"metadata": {"annotations": {words.CANCELLED: "yes"}}, **spec}
        self._patch(names, patch)

    def _patch(self, names: Iterable[str], patch: Mapping[str, Any]) -> None:
        for some in chunked(sorted(names), NAMES):
            said = ("patch", "job", *some, "--type=merge", "-p", json.dumps(patch))
            done = self._kubectl.call(*said)
            gone = all("NotFound" in line for line in done.stderr.splitlines() if line.strip())
            if not done.ok and not gone:
                raise self._kubectl.error(done)

    def _ask_to_end(self, pod: str) -> bool:
        """Have a run end by itself, so that its pod and its log stay."""
        done = self._kubectl.call(
            "exec", pod, "-c", words.MAIN, "--", "/bin/sh", "-c", "kill -TERM 1"
        )
        return done.ok

    def _release(self) -> None:
        """Let go of Jobs that wait for their turn, as many as there is room for, in order."""
        from launchbay.backends.kubernetes.turns import choose_next  # noqa: PLC0415

        objects = self._look([])
        chosen = choose_next(objects.jobs.values())
        if chosen:
            self._patch(chosen, {"spec": {"suspend": False}})

    def _running(self, handle: Handle) -> Status:
        status = self.poll([handle])[handle]
        if status.state is not State.RUNNING or not status.allocation:
            raise BadRequest(
                f"`{handle.run_id}` is {status.state}, not running",
                hint=f"`bay show {handle.run_id.rpartition('-')[2]}` tells more",
            )
        return status


def open_kubernetes(opening: Opening) -> KubernetesBackend:
    """A target of kind `kubernetes`."""
    options = opening.options
    namespace = _said(opening, "namespace")
    if not namespace:
        raise ConfigError(
            f"target `{opening.target}` does not say in which namespace",
            hint="write `namespace: NAME`; `kubectl config view --minify` shows your own",
        )
    user = _said(opening, "user")
    if not user and opening.target == FIRST_TOOLS_TARGET:
        raise ConfigError(
            f"target `{opening.target}` does not say whose work it is",
            hint="write `user: NAME` in `config/kube.yaml`: what is deleted is chosen by it",
        )
    parallel = options.get("parallel")
    host = reach(str(options.get("host") or ""), opening.target)
    kubeconfig = str(options.get("kubeconfig") or "")
    if kubeconfig and not host.name:
        kubeconfig = str(Path(kubeconfig).expanduser())
    return KubernetesBackend(
        opening.target,
        KubernetesOptions(
            user=user or getuser(),
            image=str(options.get("image") or ""),
            parallel=int(parallel) if parallel else None,
            look_every_s=float(options.get("look_every", LOOK_EVERY_S)),
            entry=options,
        ),
        Kubectl(
            host,
            opening.target,
            namespace,
            context=str(options.get("context") or ""),
            kubeconfig=kubeconfig,
        ),
        facts=opening.facts,
        secret=opening.secret,
    )


def _said(opening: Opening, key: str) -> str:
    """What the target says of a key, which is not the blank of an example any more."""
    text = str(opening.options.get(key) or "")
    if re.fullmatch(r"<.*>", text):
        raise ConfigError(
            f"`{key}` of target `{opening.target}` is still `{text}`",
            hint=f"write your own in its place, as `{key}: lab`",
        )
    return text


def _name(job: Job) -> str:
    return words.job_name(job.run_id, job.attempt)


def _refusal(job: Job, said: str) -> Refusal:
    refused = explain_refusal(said)
    return Refusal(run_id=job.run_id, reason=refused.reason, transient=refused.transient)


def _label(found: Mapping[str, Any], key: str) -> str:
    return str(found["metadata"].get("labels", {}).get(key, ""))
