"""A pod for a person to work in: made, waited for, entered, and taken away.

In it runs what a run would be, but for the command, which only waits. Its set-up is left to the
shell of whoever enters, who sees it. What is made beside the pod goes with it.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.manifest import render_pod
from launchbay.backends.kubernetes.packing import render_programs, render_shared
from launchbay.backends.kubernetes.plan import carry, labels_of, prepared
from launchbay.backends.kubernetes.pods import NotRunning, PodHost
from launchbay.backends.kubernetes.podspec import project_of
from launchbay.backends.kubernetes.ready import await_pod, delete_pods, look_at_pod
from launchbay.backends.kubernetes.refusals import explain_refusal, is_there
from launchbay.backends.kubernetes.sending import secrets_of, send_objects
from launchbay.backends.kubernetes.yaml import render_yaml
from launchbay.backends.sheet import render_sheet
from launchbay.core.errors import Rejected, TargetError
from launchbay.core.job import IN_IMAGE, Script
from launchbay.core.naming import digest, slug

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.backends.kubernetes.podspec import Frame
    from launchbay.core.job import Job

LONGEST_NAME = 58
# Where the run's folder is only the run knows. The last word is: whoever waits may come.
WAIT = """\
{open}printf %s {setup} >"${{BAY_OUT%/*}}/setup.sh" && : >"${{BAY_OUT%/*}}/ready" || exit
{then}
"""
FOREVER = "exec sleep 2147483647"
# Whoever comes by `kubectl exec` alone is to find the code and the variables, too: a shell that
# somebody types into reads one of these files, and goes on as a shell in the run's own folder.
WELCOME = """\
for bay_shell in bash sh; do
    bay_file=${{BAY_OUT%/runs/*}}/{rc}
    [ "$bay_shell" = sh ] || bay_file=${{HOME:-/}}/.bashrc
    printf '[ -n "${{BAY_RUN_ID-}}" ] || exec /bin/sh %s/enter.sh %s %s\\n' \\
        {programs} "${{BAY_OUT%/*}}" "$bay_shell" >>"$bay_file"
done 2>/dev/null
{then}
"""
RC = "welcome"
OPEN = 'chmod -R u+w "${BAY_OUT%/*}/work" 2>/dev/null\n'
IS_READY = """\
waited=0
until [ -e "$1/ready" ]; do
    waited=$((waited + 1))
    [ "$waited" -le 20 ] || exit 1
    sleep 0.1 2>/dev/null || sleep 1
done
"""
# $1 where in the code, then a command; none is a shell.
INSIDE = """\
cd "./$1" || exit
shift
[ "$#" -gt 0 ] || ! command -v bash >/dev/null 2>&1 || exec bash
[ "$#" -gt 0 ] || set -- "${SHELL:-/bin/sh}"
exec "$@"
"""
# Ctrl-C is for what is entered; a terminal that is closed leaves the pod until its time is over.
ENTER = """\
trap : INT
{enter}
code=$?
{leave} >/dev/null 2>&1 </dev/null
exit "$code"
"""


@dataclass(frozen=True, kw_only=True)
class DevPods:
    """The pods that a user works in by hand.

    Args:
        kubectl: how to reach the cluster.
        frame: what manifests of the target depend on.
        secret: the value of a secret.
    """

    kubectl: Kubectl
    frame: Frame
    secret: Callable[[str], str] = str

    def argv(self, job: Job, command: Sequence[str], tell: Callable[[str], None]) -> list[str]:
        """Make a pod and wait until it can be entered; what a terminal executes to be in it.

        Whoever gives up while it is waited for leaves nothing behind.

        Raises:
            Unsupported: when the cluster cannot be asked for that.
            Rejected: when it refuses, or the pod does not start.
        """
        names = free_names(f"{project_of(job)}-dev-pod", self._look_round())
        name = self._make(job, words.DEV, names)
        tell(f"pod {name}")
        host, run = PodHost(self.kubectl, name), self._folder(job)
        try:
            await_pod(self.kubectl, name, tell=tell)
            self._await_folder(host, run)
        except BaseException:
            self._give_up(name, tell)
            raise
        inside = ["/bin/sh", "-c", INSIDE, "sh", job.subfolder or ".", *command]
        enter = ["/bin/sh", f"{words.PROGRAMS_AT}/enter.sh", run, *inside]
        return ["sh", "-c", self._render_enter(host, enter)]

    def create(self, job: Job, wanted: str) -> str:
        """Make a pod that stays until it is deleted; its name, with a number where it is taken.

        Raises:
            Unsupported: when the cluster cannot be asked for that.
            Rejected: when it refuses.
        """
        return self._make(job, words.LASTING, free_names(wanted, ()))

    def _give_up(self, name: str, tell: Callable[[str], None]) -> None:
        try:
            delete_pods(self.kubectl, name)
        except TargetError as err:
            tell(f"pod {name} stays until its time is over: {err}")
        else:
            tell(f"pod {name} is deleted")

    def _look_round(self) -> set[str]:
        """The names that are taken; those of ours whose time is over are asked to go."""
        chosen = f"{words.MANAGED}={words.OURS},{words.ROLE}={words.DEV}"
        found = self.kubectl.get("pods", "-l", chosen)
        ours = self._labels().items()
        ended = [
            str(pod["metadata"]["name"])
            for pod in found
            if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
            and ours <= pod["metadata"]["labels"].items()
        ]
        delete_pods(self.kubectl, *ended)
        return {str(pod["metadata"]["name"]) for pod in found}

    def _make(self, job: Job, role: str, names: Iterable[str]) -> str:
        """Make the pod, and what it mounts; its name, the first of these that nobody has."""
        beside = self.beside(job, role)
        self.send(beside)
        for name in names:
            document = render_yaml([self.render(job, name, role)])
            done = self.kubectl.call("create", "-f", "-", "-o", "json", stdin=document)
            if done.ok:
                self._adopt(json.loads(done.stdout), beside)
                return name
            # Where somebody else has a pod of that name, the next one is tried.
            if not is_there(done.stderr.strip()):
                break
        self._remove(beside)
        raise self._refusal(done.stderr.strip())

    def send(self, beside: Sequence[Mapping[str, Any]]) -> None:
        """Have there what a pod mounts, and the node programs.

        Raises:
            Rejected: when the cluster refuses it.
        """
        refused = send_objects(self.kubectl, [render_programs(self._labels()), *beside]).refused
        if refused:
            raise self._refusal(next(iter(refused.values())))

    def render(self, job: Job, name: str, role: str = words.DEV) -> dict[str, Any]:
        """The pod, as it is sent."""
        waiting, files = self._sheet(job, role)
        carried = carry(plan_id(job), 0, waiting)
        line = files["sheet"].splitlines()[0]
        pod = render_pod(waiting, self.frame, carried, line=line, name=name, role=role)
        if role == words.LASTING:
            # What shells other than bash read when somebody types into them.
            rc = {"name": "ENV", "value": f"{words.root_of('')}/{RC}"}
            pod["spec"]["containers"][0]["env"].append(rc)
        return pod

    def beside(self, job: Job, role: str) -> list[dict[str, Any]]:
        """What the pod mounts and nobody else."""
        waiting, files = self._sheet(job, role)
        plan = plan_id(job)
        shared = render_shared(plan, files["shared.sh"], self._labels())
        return [shared, *secrets_of(plan, [waiting], self.secret, self._labels())]

    def _sheet(self, job: Job, role: str) -> tuple[Job, dict[str, str]]:
        """What runs in the pod, and the files that say so."""
        waiting = waiting_job(job, lasting=role == words.LASTING)
        target, plan = self.frame.target, plan_id(job)
        return waiting, render_sheet([waiting], target=target, plan=plan, pod=words.PLAN_AT)

    def _adopt(self, pod: Mapping[str, Any], beside: Sequence[Mapping[str, Any]]) -> None:
        """Have what was made for a pod go when it does."""
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
        }
        patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
        # Where that is not allowed they stay, as those of runs do, until `bay clean`.
        self.kubectl.call("patch", *map(_spell, beside), "--type=merge", "-p", patch)

    def _remove(self, beside: Sequence[Mapping[str, Any]]) -> None:
        self.kubectl.call("delete", *map(_spell, beside), "--ignore-not-found", "--wait=false")

    def _await_folder(self, host: PodHost, run: str) -> None:
        """Wait until the working folder is there."""
        try:
            while not host.run(["/bin/sh", "-c", IS_READY, "sh", run]).ok:
                if (wait := look_at_pod(self.kubectl, host.name)).ended:
                    raise self._ended(host.name, wait.why)
        except NotRunning as err:
            raise self._ended(host.name, look_at_pod(self.kubectl, host.name).why) from err

    def _ended(self, name: str, why: str) -> Rejected:
        last = self.kubectl.call("logs", name, "-c", words.MAIN, "--tail=1").stdout.strip()
        return Rejected(f"pod `{name}` of `{self.kubectl.target}` does not stay: {last or why}")

    def _render_enter(self, host: PodHost, inside: Sequence[str]) -> str:
        flags = ("--ignore-not-found", "--wait=false", "--grace-period=1")
        delete = self.kubectl.argv("delete", "pod", host.name, *flags)
        leave = self.kubectl.host.terminal_argv(delete)
        return ENTER.format(enter=shlex.join(host.terminal_argv(inside)), leave=shlex.join(leave))

    def _folder(self, job: Job) -> str:
        root = words.root_of("")
        return f"{root}/runs/{job.run_id}"

    def _labels(self) -> dict[str, str]:
        return labels_of(self.frame.user)

    def _refusal(self, line: str) -> Rejected:
        return Rejected(f"`{self.kubectl.target}`: {explain_refusal(line).reason}")


def free_names(wanted: str, taken: Collection[str]) -> Iterator[str]:
    """Names for a pod that nobody has, without a number first.

    >>> names = free_names("x-dev-pod", {"x-dev-pod", "x-dev-pod-1"})
    >>> next(names), next(names)
    ('x-dev-pod-2', 'x-dev-pod-3')
    """
    first = slug(wanted)[:LONGEST_NAME].rstrip("-")
    for number in count():
        name = f"{first}-{number}" if number else first
        if name not in taken:
            yield name


def waiting_job(job: Job, *, lasting: bool = False) -> Job:
    """What runs in the pod: all that the job would have, and a command that waits.

    One that lasts may have a command of its own, and lets in whoever comes without us.
    """
    whole = prepared(job)
    # Frozen files are not to be written; here nobody else has them.
    writable = "" if job.options.get("code") == IN_IMAGE else OPEN
    then = FOREVER
    if lasting:
        then = str(job.options.get("server_command") or FOREVER)
        then = WELCOME.format(rc=RC, programs=words.PROGRAMS_AT, then=then)
    text = WAIT.format(open=writable, setup=shlex.quote(whole.entry + whole.setup), then=then)
    return replace(whole, command=Script(text), entry="", setup="", ship=None)


def plan_id(job: Job) -> str:
    """What the objects of a job that is sent alone are called by."""
    return digest([[job.run_id, job.attempt]])[:10]


def _spell(made: Mapping[str, Any]) -> str:
    return f"{made['kind'].lower()}/{made['metadata']['name']}"
