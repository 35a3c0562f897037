"""Calls of the user's own `kubectl`, on this machine or on a host that reaches the cluster."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from launchbay.core.errors import Rejected, TargetError, Unauthorized, Unreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.core.host import Completed, Host

REQUEST_TIMEOUT = "30s"
SILENT = re.compile(
    r"connection refused|was refused - did you specify|Unable to connect to the server|"
    r"i/o timeout|TLS handshake timeout|deadline exceeded|no such host|connection reset|"
    r"unexpected EOF|EOF$|http2: |ServiceUnavailable|TooManyRequests|the server is currently|"
    r"etcdserver: |Timeout: |InternalError|network is unreachable|no route to host|"
    r"error dialing backend|proxy error|apiserver not ready",
    re.IGNORECASE | re.MULTILINE,
)
"""What kubectl says when the cluster did not answer, or not now."""
LOGIN = re.compile(
    r"Unauthorized|must be logged in|getting credentials: |token (?:has )?expired|"
    r"asked for the client to provide credentials",
    re.IGNORECASE,
)
FORBIDDEN = re.compile(r"\(Forbidden\)|is forbidden: ")

T = TypeVar("T")


@dataclass(frozen=True)
class Kubectl:
    """`kubectl` on a host, for one namespace.

    Args:
        host: where it runs.
        target: the target's name, for what is said.
        namespace: the only one that is touched.
        context: of its configuration; empty is the one in use.
        kubeconfig: its file; empty is its own choice.
    """

    host: Host
    target: str
    namespace: str
    context: str = ""
    kubeconfig: str = ""

    def argv(self, *words: str) -> list[str]:
        """The command line with these words."""
        flags = {
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--namespace": self.namespace,
        }
        return ["kubectl", *(f"{flag}={value}" for flag, value in flags.items() if value), *words]

    def call(self, *words: str, stdin: str = "") -> Completed:
        """What kubectl answers, also when it refuses.

        Raises:
            Unreachable: when the cluster did not answer.
            Unauthorized: when it wants a login first.
        """
        # Words such as `exec` and `logs` take as long as what they carry.
        slow = words[0] in {"exec", "logs", "port-forward", "wait", "cp"}
        flags = [] if slow else [f"--request-timeout={REQUEST_TIMEOUT}"]
        done = self.host.run(self.argv(*flags, *words), stdin=stdin)
        if not done.ok and words[0] != "exec":
            self._check_answered(done)
        return done

    def said(self, *words: str, stdin: str = "") -> str:
        """What kubectl prints.

        Raises:
            TargetError: when it refuses, or the cluster does not answer.
        """
        done = self.call(*words, stdin=stdin)
        if not done.ok:
            raise self.error(done)
        return done.stdout

    def get(self, *words: str) -> list[dict[str, Any]]:
        """The objects that `kubectl get` finds.

        Raises:
            TargetError: when it refuses, or the cluster does not answer.
        """
        return items_of(self.said("get", *words, "-o", "json"))

    def error(self, done: Completed) -> TargetError:
        """What a refusal means, to be raised."""
        said = last_words(done.stderr) or f"kubectl ended with code {done.code}"
        if FORBIDDEN.search(done.stderr):
            return Rejected(
                f"`{self.target}` does not allow it: {said}",
                hint=f"ask whoever gave you the namespace; `bay doctor {self.target}` shows all",
            )
        return Rejected(f"`{self.target}`: {said}")

    def _check_answered(self, done: Completed) -> None:
        if LOGIN.search(done.stderr):
            raise Unauthorized(
                f"`{self.target}` wants a login: {last_words(done.stderr)}",
                hint="log in as you do for `kubectl`, then try again",
            )
        if SILENT.search(done.stderr) and not done.stdout.strip():
            raise Unreachable(
                f"`{self.target}` does not answer: {last_words(done.stderr)}",
                hint="`kubectl cluster-info` shows whether the cluster can be reached",
            )


def items_of(text: str) -> list[dict[str, Any]]:
    """The objects in what `kubectl get -o json` prints, one or a list."""
    if not text.strip():
        return []
    found = json.loads(text)
    items: list[dict[str, Any]] = found.get("items", [found])
    return items


def last_words(stderr: str) -> str:
    """The last line that a program complained with, its prefixes left out."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return re.sub(r"^(?:error|Error from server \(\w+\)): ", "", last)


def chunked(names: Sequence[T], size: int) -> list[Sequence[T]]:
    """Names, or what has one, in pieces that one command line can hold."""
    return [names[at : at + size] for at in range(0, len(names), size)]
