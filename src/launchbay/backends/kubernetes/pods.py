"""A container of a pod as a host, by the user's own `kubectl exec`; and pods that only serve that.

What is to be done goes to `sh` in the container as the first line of its standard input: words in
the command line of `exec` would stand in a URL, which proxies cut and clusters keep in their books.
Marks on both outputs tell what the command said from what kubectl did, and that nothing is missing.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.backends.depot import Depot
from launchbay.backends.kubernetes.calls import LOGIN, SILENT, Kubectl, last_words
from launchbay.backends.kubernetes.placing import render_access
from launchbay.backends.kubernetes.ready import await_pod, delete_pods
from launchbay.backends.kubernetes.refusals import explain_refusal
from launchbay.backends.kubernetes.words import (
    CLAIMS_AT,
    MAIN,
    MANAGED,
    OURS,
    ROLE,
    TARGET,
    USER,
    label,
    root_of,
)
from launchbay.core.errors import (
    BadRequest,
    Rejected,
    TargetError,
    Unauthorized,
    Unreachable,
    Unsupported,
)
from launchbay.core.host import Completed, Host, decoded, encoded
from launchbay.hosts.ssh_words import (
    ABSENT,
    Answer,
    find_start,
    last_line,
    parse_answer,
    render_command,
    render_reading,
    render_writing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

READY_S = 180.0
"""For a helper: a claim that is made with its first pod takes a while."""
DAY_S = 86_400
RECEIVE = """IFS= LC_ALL=C read -r bay_line || exit 1
bay_n='
'
eval "$bay_line"
"""
"""A shell's own `read` takes no byte more than its line; a line end inside is `$bay_n`."""
STOP = """kill -s TERM -- "-$1" 2>/dev/null || kill -s TERM "$1" || exit 0
bay_waited=0
while kill -0 -- "-$1" 2>/dev/null && [ "$bay_waited" -lt 20 ]; do
    bay_waited=$((bay_waited + 1))
    sleep 0.1 2>/dev/null || sleep 1
done
"""
# Nobody but itself for a quarter of an hour: whoever made it is gone.
IDLE = """trap 'exit 0' TERM
idle=0
while [ "$idle" -lt 90 ]; do
    sleep 10 &
    wait "$!"
    set -- /proc/[0-9]*
    idle=$((idle + 1))
    [ "$#" -le 1 ] || idle=0
done
"""
NOT_THERE = re.compile(
    r"\(NotFound\): pods |container not found|completed pod|is not valid for pod|"
    r"does not have a host assigned|not created or running|is waiting to start|"
    r"no running task|stopped container"
)
NO_SHELL = re.compile(r"/bin/sh\S*: (?:stat|executable|no such)|exec: \"/bin/sh\"")
SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class NotRunning(Unreachable):
    """There is no such pod, not yet or no longer, or its container does not run."""


class PodHost(Host):
    """A container of a pod.

    Args:
        kubectl: how to reach it.
        pod: its name.
        container: which of its containers.
    """

    def __init__(self, kubectl: Kubectl, pod: str, container: str = MAIN) -> None:
        self.kubectl = kubectl
        self.name = pod
        self._container = container

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        answer = self._ask(render_command(argv), stdin=stdin, tell=tell)
        if answer.code == ABSENT:
            raise Unreachable(f"`{argv[0]}` does not start in pod `{self.name}`: it is not there")
        return Completed(
            code=int(answer.code), stdout=decoded(answer.stdout), stderr=decoded(answer.stderr)
        )

    def read_bytes(self, path: Path, *, offset: int = 0, most: int | None = None) -> bytes:
        answer = self._ask(render_reading(path, offset, most))
        if answer.code == "0":
            return answer.stdout
        problems = decoded(answer.stderr).splitlines()
        # busybox has one more word after that.
        if any(line.endswith(": No such file or directory") for line in problems):
            return b""
        problem = problems[0] if problems else "no word"
        raise Unreachable(f"`{path}` in pod `{self.name}` cannot be read: {problem}")

    def write_bytes(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        answer = self._ask(render_writing(path, len(data), mode), stdin=decoded(data))
        if answer.code != "0":
            problem = last_line(decoded(answer.stderr))
            raise Rejected(f"`{path}` in pod `{self.name}` cannot be written: {problem}")

    def terminal_argv(self, argv: Sequence[str]) -> list[str]:
        # Without a terminal here `-t` would only be complained about.
        words = ["exec", "-q", "-i", "-t", self.name, "-c", self._container, "--", *argv]
        return self.kubectl.host.terminal_argv(self.kubectl.argv(*words))

    def forward_argv(self, port: int, to_host: str, to_port: int) -> list[str]:  # noqa: ARG002
        lead = ["port-forward", "--address=127.0.0.1", f"pod/{self.name}"]
        if self.kubectl.host.name:
            raise Unsupported(
                f"`{self.kubectl.target}` is reached through `{self.kubectl.host.name}`, and a "
                "port of a pod is not",
                hint="run `kubectl port-forward` there",
            )
        return self.kubectl.argv(*lead, f"{port}:{to_port}")

    def environment(self) -> Mapping[str, str]:
        # A program there has the environment of its container.
        return {}

    def _ask(
        self, body: str, *, stdin: str = "", tell: Callable[[str], None] | None = None
    ) -> Answer:
        """What a piece of shell text answers."""
        mark = secrets.token_hex(8)
        listener = None if tell is None else _Listener(mark, tell)
        try:
            done = self.kubectl.host.run(
                self._exec("/bin/sh", "-c", RECEIVE),
                stdin=render_line(body, mark) + stdin,
                tell=listener,
            )
        except BaseException:
            if listener and listener.pid:
                self._stop(listener.pid)
            raise
        answer = parse_exec(done, mark)
        if answer.code:
            return answer
        raise self._broken(answer)

    def _exec(self, *words: str) -> list[str]:
        return self.kubectl.argv("exec", "-i", self.name, "-c", self._container, "--", *words)

    def _stop(self, pid: str) -> None:
        """Ask a command to end: when its reader goes, only its next word would tell it."""
        with suppress(TargetError):
            self.kubectl.host.run(self._exec("/bin/sh", "-c", STOP, "sh", pid))

    def _broken(self, answer: Answer) -> TargetError:
        """The error of a call that did not come to its end."""
        said = last_words(answer.ssh_said)
        where = f"pod `{self.name}` of `{self.kubectl.target}`"
        if answer.started:
            return Unreachable(f"{where} broke off in the middle of a command: {said or 'no word'}")
        if NOT_THERE.search(answer.ssh_said):
            return NotRunning(f"{where} does not run", hint="`bay ls` shows what runs")
        if NO_SHELL.search(answer.ssh_said):
            return Rejected(f"{where} has no `/bin/sh`", hint="take an image that has one")
        if LOGIN.search(answer.ssh_said):
            hint = "log in as you do for `kubectl`, then try again"
            return Unauthorized(f"`{self.kubectl.target}` wants a login: {said}", hint=hint)
        if SILENT.search(answer.ssh_said) or not said:
            return Unreachable(f"{where} does not answer: {said or 'no word'}")
        return self.kubectl.error(Completed(code=1, stdout="", stderr=answer.ssh_said))


class _Listener:
    """Tells the lines of a command, and no line of ours."""

    def __init__(self, mark: str, tell: Callable[[str], None]) -> None:
        self.pid = ""
        self._mark = mark
        self._tell = tell

    def __call__(self, line: str) -> None:
        if not self.pid:
            found = find_start(encoded(f"\n{line}\n"), self._mark)
            self.pid = found[0] if found else ""
            return
        said, ended, _ = line.partition(f"bay-{self._mark}-end ")
        if said or not ended:
            self._tell(said)


def render_line(body: str, mark: str) -> str:
    r"""Shell text as the one line that `RECEIVE` reads, between marks.

    >>> render_line("echo 'two\nlines'; code=$?", "m").count("\n")
    1
    """
    # What a command leaves of its input would keep the connection open for a minute.
    script = f"""printf 'bay-{mark}-start %s\\n' "$$"; printf '\\nbay-{mark}-start\\n' >&2
{body}
cat >/dev/null
printf 'bay-{mark}-end %s\\n' "$code"
printf 'bay-{mark}-end\\n' >&2
exit 0"""
    line = shlex.quote(script).replace("\n", "'\"$bay_n\"'")
    return f"eval {line}\n"


def parse_exec(done: Completed, mark: str) -> Answer:
    """What a call of kubectl answered; without a code when the end of it is missing."""
    stdout, stderr = encoded(done.stdout), encoded(done.stderr)
    found = find_start(b"\n" + stdout, mark)
    pid, at = found or ("", 1)
    return parse_answer(pid, stdout[at - 1 :], stderr, done.code, mark)


@contextmanager
def claim_depot(
    kubectl: Kubectl, claim: str, *, image: str, user: str, spec: Mapping[str, Any] | None = None
) -> Iterator[Depot]:
    """The folders of runs on a claim, by way of a helper.

    Args:
        kubectl: how to reach the cluster.
        claim: the claim that they are on.
        image: any that has a POSIX `sh` and `tar`.
        user: whose helper it is.
        spec: more of the helper's specification, as secrets to pull its image with.
    """
    with helper_pod(kubectl, image=image, claims=[claim], user=user, spec=spec) as host:
        yield pod_depot(host, claim)


def pod_depot(host: PodHost, claim: str = "") -> Depot:
    """The folders of runs that a pod sees: those on a claim, or without one its own."""
    return Depot(host, Path(root_of(claim)), target=host.kubectl.target)


@contextmanager
def helper_pod(
    kubectl: Kubectl,
    *,
    image: str,
    claims: Sequence[str],
    user: str,
    spec: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[PodHost]:
    """A pod that has claims at `/claims/<name>`, until the end of the block.

    Whoever is killed meanwhile leaves it behind; it ends when nobody has used it for a while.

    Args:
        kubectl: how to reach the cluster.
        image: any that has a POSIX `sh`.
        claims: what to mount.
        user: whose it is.
        spec: more of its specification, as secrets to pull the image with.
        tell: is told why it does not start yet.

    Raises:
        BadRequest: when a claim is not there.
        Rejected: when it does not start, and why.
    """
    name = f"bay-helper-{secrets.token_hex(4)}"
    labels = {
        MANAGED: OURS,
        USER: label(user),
        ROLE: "helper",
        TARGET: label(kubectl.target),
    }
    near = _nearest_node(kubectl, claims)
    made = render_helper(name, image=image, claims=claims, labels=labels, near=near)
    made["spec"].update(spec or {})
    done = kubectl.call("create", "-f", "-", stdin=json.dumps(made))
    if not done.ok:
        why = explain_refusal(done.stderr.strip()).reason
        raise Rejected(f"`{kubectl.target}` takes no helper: {why}")
    try:
        await_pod(kubectl, name, tell=tell, within_s=READY_S)
        yield PodHost(kubectl, name)
    finally:
        with suppress(TargetError):
            delete_pods(kubectl, name)


def render_helper(
    name: str,
    *,
    image: str,
    claims: Sequence[str],
    labels: Mapping[str, str],
    near: str = "",
) -> dict[str, Any]:
    """The helper as it is sent.

    Args:
        name: what it is called.
        image: what it runs in.
        claims: what it mounts.
        labels: whose it is, and what.
        near: the node that has the claims already.
    """
    volumes = {f"claim-{at}": claim for at, claim in enumerate(claims)}
    container = {
        "name": MAIN,
        "image": image,
        "command": ["/bin/sh", "-c", IDLE],
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
        "volumeMounts": [
            {"name": volume, "mountPath": f"{CLAIMS_AT}/{claim}"}
            for volume, claim in volumes.items()
        ],
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": DAY_S,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            for volume, claim in volumes.items()
        ],
    }
    if near:
        fields = [{"key": "metadata.name", "operator": "In", "values": [near]}]
        term = {"nodeSelectorTerms": [{"matchFields": fields}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": term}
        spec["affinity"] = {"nodeAffinity": required}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": spec,
    }


def helper_spec(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a target's options say that concerns helpers, too: for `helper_pod`."""
    found = render_access(options)
    if account := options.get("service_account"):
        found["serviceAccountName"] = str(account)
    return found


def _nearest_node(kubectl: Kubectl, claims: Sequence[str]) -> str:
    """Where a claim is that only one node can have at a time; empty where any will do."""
    found = {one["metadata"]["name"]: one for one in _claims(kubectl, claims)}
    alone = {
        name
        for name, claim in found.items()
        if not SHARED & set(claim["spec"].get("accessModes", ()))
    }
    if not alone:
        return ""
    chosen = "status.phase!=Succeeded,status.phase!=Failed"
    for pod in kubectl.get("pods", f"--field-selector={chosen}"):
        if alone & claims_mounted(pod) and pod["spec"].get("nodeName"):
            return str(pod["spec"]["nodeName"])
    return ""


def _claims(kubectl: Kubectl, names: Sequence[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    found = kubectl.get("pvc", *names, "--ignore-not-found")
    there = {one["metadata"]["name"] for one in found}
    if missing := [name for name in names if name not in there]:
        raise BadRequest(
            f"`{kubectl.target}` has no claim `{missing[0]}`",
            hint=f"`bay storage init {missing[0]}` makes it, `bay storage ls` lists what is there",
        )
    return found


def claims_mounted(pod: Mapping[str, Any]) -> set[str]:
    """The claims that a pod has."""
    volumes = pod["spec"].get("volumes", ())
    return {
        str(one["persistentVolumeClaim"]["claimName"])
        for one in volumes
        if "persistentVolumeClaim" in one
    }
