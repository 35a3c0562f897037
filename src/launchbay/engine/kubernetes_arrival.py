"""Looking round on a Kubernetes that is about to become a target.

What can be chosen depends on what was chosen before: the context, in it the namespace, and there
claims and queues. So it is looked at anew after each answer, until nothing is open.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.core.errors import Rejected, TargetError
from launchbay.engine.arrival import Arrival, Question
from launchbay.hosts.reach import reach

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

KUBERNETES = "kubernetes"
MANY = 12
"""Names that fit into a line."""


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """What `kubectl` on a machine is set up for."""

    current: str = ""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """By the name of a context, its own namespace, which may be empty."""


def read_contexts(host: str = "", name: str = "", kubeconfig: str = "") -> Contexts:
    """The contexts of `kubectl` there.

    Args:
        host: as `ssh` takes it; empty is this machine.
        name: what the target will be called.
        kubeconfig: the file to read; empty is its own choice.

    Raises:
        Unreachable: when there is no `kubectl`.
    """
    kubectl = Kubectl(reach(host, name), name, "", kubeconfig=kubeconfig)
    return parse_contexts(kubectl.said("config", "view", "-o", "json"))


def parse_contexts(text: str) -> Contexts:
    """What `kubectl config view -o json` says."""
    told = json.loads(text)
    return Contexts(
        current=told.get("current-context") or "",
        namespaces={
            one["name"]: str((one.get("context") or {}).get("namespace") or "")
            for one in told.get("contexts") or ()
        },
    )


def is_context(word: str, kubeconfig: str = "") -> bool:
    """Whether `kubectl` on this machine has a context of that name."""
    try:
        return word in read_contexts(kubeconfig=kubeconfig).namespaces
    except TargetError:
        return False


def look_at_cluster(name: str, answers: Mapping[str, str | None]) -> Arrival:
    """What is there, and what to choose next.

    Args:
        name: what the target will be called.
        answers: what was chosen already, by key; `host`, `kubeconfig`, `context`, `namespace`.

    Raises:
        TargetError: when it does not answer, or wants a login.
    """
    host, kubeconfig = answers.get("host") or "", answers.get("kubeconfig") or ""
    contexts = read_contexts(host, name, kubeconfig)
    context = answers.get("context")
    if context is None:
        return _choose_context(contexts)
    _check_context(context, contexts)
    namespace = answers.get("namespace") or ""
    kubectl = Kubectl(reach(host, name), name, namespace, context, kubeconfig)
    if not namespace:
        return _choose_namespace(kubectl, contexts.namespaces[context])
    from launchbay.backends.kubernetes.facts import survey  # noqa: PLC0415 (only here)

    return describe_cluster(survey(kubectl).details)


def describe_cluster(details: Mapping[str, Any]) -> Arrival:
    """A namespace as its facts tell it."""
    claims = [one["name"] for one in details["claims"] or ()]
    queues = tuple(details["queues"] or ())
    questions = [
        Question(key="image", default="", what="image, unless each experiment names its own")
    ]
    if claims:
        only = f"claim:{claims[0]}" if len(claims) == 1 else ""
        what = f"outputs_to: {', '.join(f'claim:{one}' for one in claims)}, a bucket or none"
        questions.append(Question(key="outputs_to", default=only, needed=True, what=what))
    else:
        what = "outputs_to: s3://BUCKET/PATH or none, unless each experiment says it"
        questions.append(Question(key="outputs_to", default="", what=what))
    if queues:
        only = queues[0] if len(queues) == 1 else ""
        questions.append(Question(key="queue", default=only, choices=queues, needed=True))
    lines = tuple(_lines(details))
    return Arrival(kind=KUBERNETES, lines=lines, questions=tuple(questions))


def _choose_context(contexts: Contexts) -> Arrival:
    names = tuple(contexts.namespaces)
    if not names:
        raise Rejected(
            "`kubectl` there has no context",
            hint="log in as its owner says; `kubectl config get-contexts` lists what you have",
        )
    usual = contexts.current if contexts.current in names else ""
    usual = names[0] if len(names) == 1 else usual
    question = Question(key="context", default=usual, choices=names, needed=True)
    return Arrival(
        kind=KUBERNETES, lines=_named("contexts", names), questions=(question,), more=True
    )


def _check_context(context: str, contexts: Contexts) -> None:
    if context not in contexts.namespaces:
        raise Rejected(
            f"`kubectl` has no context `{context}`",
            hint=f"it has {', '.join(f'`{one}`' for one in contexts.namespaces) or 'none'}",
        )


def _choose_namespace(kubectl: Kubectl, own: str) -> Arrival:
    """One of those that may be listed, or any; the context's own unless somebody says."""
    done = kubectl.call("get", "namespaces", "-o", "name")
    names = (
        tuple(line.removeprefix("namespace/") for line in done.stdout.split()) if done.ok else ()
    )
    if own and names and own not in names:
        names = (*names, own)
    question = Question(key="namespace", default=own, choices=names, needed=True)
    lines = _named("namespaces", names) if names else ("namespaces may not be listed here",)
    return Arrival(kind=KUBERNETES, lines=lines, questions=(question,), more=True)


def _lines(details: Mapping[str, Any]) -> Iterator[str]:
    yield f"Kubernetes {details['version'] or 'of an unknown version'}"
    yield from _node_lines(details["nodes"])
    for quota in details["quotas"] or ():
        hard, used = quota["hard"], quota["used"]
        parts = [f"{used.get(key, 0):g} of {bound:g} {key}" for key, bound in hard.items()]
        yield f"quota {quota['name']}: {', '.join(parts)} used"
    for claim in details["claims"] or ():
        modes = "one node at a time" if claim["modes"] == ["ReadWriteOnce"] else ""
        facts = [word for word in (claim["size"], claim["phase"], modes) if word]
        yield f"claim {claim['name']}: {', '.join(facts)}"
    if details["claims"] == []:
        yield "no claims; `bay storage init` makes one for outputs, or send them to a bucket"
    for word, key in (("queues", "queues"), ("priority classes", "classes")):
        yield from _named(
            word, [one for one in details[key] or () if not one.startswith("system-")]
        )
    yield from details["unknown"]


def _node_lines(nodes: Sequence[Mapping[str, Any]] | None) -> Iterator[str]:
    from launchbay.backends.kubernetes.capacity import rooms_of  # noqa: PLC0415 (only here)

    for room in rooms_of(nodes or (), []):
        count, gpus = room.total["nodes"], room.total.get("gpus", 0)
        words = f"{count:g} node{'s' * (count != 1)} {'with' if gpus else ''} {room.name}"
        yield " ".join(words.split()) + (f", {gpus:g} in all" if gpus else "")


def _named(word: str, names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    rest = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return (f"{word}: {', '.join(names[:MANY])}{rest}",)
