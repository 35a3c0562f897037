"""Runs as Jobs of a Kubernetes, through the user's own `kubectl` on a host.

Met: Kubernetes 1.34. Nothing is needed but rights in one namespace. A run is a `batch/v1` Job of
its own, whose name is its claim; what it runs travels as immutable ConfigMaps, and what became of
it is in the termination message of its pod, which `node/pod.sh` writes.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from getpass import getuser
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.backends import kubernetes_words as words
from launchbay.backends.kubernetes_calls import Kubectl, chunked
from launchbay.backends.kubernetes_code import pack_code, render_code, render_programs
from launchbay.backends.kubernetes_files import Files
from launchbay.backends.kubernetes_logs import read_log
from launchbay.backends.kubernetes_manifest import Frame
from launchbay.backends.kubernetes_plan import Planner
from launchbay.backends.kubernetes_pods import helper_spec
from launchbay.backends.kubernetes_refusals import explain_refusal
from launchbay.backends.kubernetes_sending import (
    SEPARATOR,
    object_key,
    secrets_of,
    send,
    send_all,
    send_objects,
)
from launchbay.backends.kubernetes_status import judge, parse_events, parse_objects, wants_events
from launchbay.backends.kubernetes_yaml import render_yaml
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
)
from launchbay.core.errors import BadRequest, ConfigError, Rejected, Unsupported
from launchbay.core.run import Handle, State, Status
from launchbay.hosts.reach import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes_status import Objects
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
    rest: Mapping[str, Any] = field(default_factory=dict)
    """What the target says of its pods."""


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
                options=options.rest,
            )
        )
        helpers = helper_spec(options.rest)
        self._files = Files(kubectl, user=options.user, image=options.image, spec=helpers)
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
        running = [
            one for one in going if seen[one].state is State.RUNNING and seen[one].allocation
        ]
        if len(running) > GENTLY:
            running = []
        self._patch({one.native_id for one in going if one not in running}, suspend=True)
        self._patch({one.native_id for one in running})
        with ThreadPoolExecutor(AT_ONCE) as pool:
            asked = pool.map(lambda one: self._ask_to_end(seen[one].allocation), running)
            left = {one.native_id for one, told in zip(running, asked, strict=True) if not told}
        self._patch(left, suspend=True)

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
        from launchbay.backends.kubernetes_facts import survey  # noqa: PLC0415

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
        from launchbay.backends.kubernetes_storage import list_claims  # noqa: PLC0415

        return list_claims(self._kubectl)

    def make_claim(
        self, name: str, *, size_mib: int, storage_class: str = "", shared: bool = True
    ) -> tuple[Claim, bool]:
        from launchbay.backends.kubernetes_storage import make_claim, render_claim  # noqa: PLC0415

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
        from launchbay.backends.kubernetes_storage import open_claim  # noqa: PLC0415

        options, spec = self._options, helper_spec(self._options.rest)
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
        from launchbay.backends.kubernetes_tidy import find_leftovers  # noqa: PLC0415

        return find_leftovers(self._kubectl, self._selector(), before=before)

    def remove_leftovers(self, names: Sequence[str]) -> None:
        from launchbay.backends.kubernetes_tidy import remove_leftovers  # noqa: PLC0415

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
        from launchbay.backends.kubernetes_capacity import capacity  # noqa: PLC0415

        return capacity(self._kubectl)

    def trial(self, plan: Plan) -> list[Finding]:
        from launchbay.backends.kubernetes_trial import trial  # noqa: PLC0415

        return trial(self._kubectl, plan.document)

    def dev_argv(
        self,
        plan: Plan,
        *,
        command: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> list[str]:
        from launchbay.backends.kubernetes_dev import DevPods  # noqa: PLC0415

        (job,) = plan.jobs
        pods = DevPods(
            kubectl=self._kubectl,
            frame=self._planner.frame,
            secret=self._secret,
        )
        return pods.argv(job, command, tell)

    def diagnose(self) -> list[Finding]:
        from launchbay.backends.kubernetes_checkup import diagnose, named_claims  # noqa: PLC0415

        claims = named_claims(self._options.rest)
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

    def _patch(self, names: Iterable[str], *, suspend: bool = False) -> None:
        """Mark Jobs as cancelled; those that have gone or ended are left alone."""
        spec = {"spec": {"suspend": True}} if suspend else {}
        patch = {"metadata": {"annotations": {words.CANCELLED: "yes"}}, **spec}
        self._patch_all(names, patch)

    def _patch_all(self, names: Iterable[str], patch: Mapping[str, Any]) -> None:
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
        from launchbay.backends.kubernetes_turns import choose_next  # noqa: PLC0415

        objects = self._look([])
        chosen = choose_next(objects.jobs.values())
        if chosen:
            self._patch_all(chosen, {"spec": {"suspend": False}})

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
    namespace = str(options.get("namespace") or "")
    if not namespace:
        raise ConfigError(
            f"target `{opening.target}` does not say in which namespace",
            hint="write `namespace: NAME`; `kubectl config view --minify` shows your own",
        )
    parallel = options.get("parallel")
    host = reach(str(options.get("host") or ""), opening.target)
    kubeconfig = str(options.get("kubeconfig") or "")
    if kubeconfig and not host.name:
        kubeconfig = str(Path(kubeconfig).expanduser())
    return KubernetesBackend(
        opening.target,
        KubernetesOptions(
            user=str(options.get("user") or getuser()),
            image=str(options.get("image") or ""),
            parallel=int(parallel) if parallel else None,
            look_every_s=float(options.get("look_every", LOOK_EVERY_S)),
            rest=options,
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


def _name(job: Job) -> str:
    return words.job_name(job.run_id, job.attempt)


def _refusal(job: Job, said: str) -> Refusal:
    refused = explain_refusal(said)
    return Refusal(run_id=job.run_id, reason=refused.reason, transient=refused.transient)


def _label(found: Mapping[str, Any], key: str) -> str:
    return str(found["metadata"].get("labels", {}).get(key, ""))
