"""Sending objects to a Kubernetes: many in few calls, and what is there already is fine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.calls import chunked
from launchbay.backends.kubernetes.packing import (
    has_files,
    has_variables,
    render_env_secret,
    render_file_secret,
)
from launchbay.backends.kubernetes.refusals import is_there, refused_lines, which_object
from launchbay.backends.kubernetes.yaml import render_yaml
from launchbay.backends.sheet import common_secrets, secret_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from launchbay.backends.kubernetes.calls import Kubectl
    from launchbay.core.job import Job

SLICE = 63
"""Objects of one `kubectl create`, which slows itself down after some hundreds."""
AT_ONCE = 8
SEPARATOR = "\n---\n"


@dataclass(frozen=True)
class Sent:
    """What became of some objects."""

    there: frozenset[str] = frozenset()
    """Names of those that are there, new or not."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """What was said of the others, by kind and name where that was told."""

    def why(self, name: str) -> str:
        """What was said of an object that is not there."""
        return self.refused.get(name) or next(iter(self.refused.values()), "")


def send_all(
    kubectl: Kubectl, documents: Sequence[str], *, strict: bool = False
) -> Iterator[tuple[Sequence[str], Sent]]:
    """Have the objects there: slices of them, in their order, each as soon as it is answered.

    Args:
        kubectl: how to reach the cluster.
        documents: one text for each object.
        strict: whether a field that the cluster does not know is refused, not ignored.

    Raises:
        TargetError: when the cluster does not answer; some may be there.
    """
    slices = chunked(documents, SLICE)
    with ThreadPoolExecutor(min(AT_ONCE, max(1, len(slices)))) as pool:
        answers = pool.map(lambda some: send(kubectl, SEPARATOR.join(some), strict=strict), slices)
        yield from zip(slices, answers, strict=True)


def send(kubectl: Kubectl, document: str, *, strict: bool = False) -> Sent:
    """Have the objects of a document there.

    Raises:
        TargetError: when the cluster does not answer; some may be there.
    """
    # To know all fields kubectl fetches a description of them first; ours are right.
    how = "strict" if strict else "false"
    done = kubectl.call("create", "-f", "-", "-o", "name", f"--validate={how}", stdin=document)
    said = done.stderr.splitlines()
    there = {line.rpartition("/")[2] for line in done.stdout.splitlines()}
    there |= {which_object(line).rpartition("/")[2] for line in said if is_there(line)}
    refused = refused_lines(done.stderr)
    if not done.ok and not refused and not any(map(is_there, said)):
        refused = [done.stderr.strip()]
    return Sent(frozenset(there), {which_object(line) or line: line for line in refused})


def send_objects(kubectl: Kubectl, objects: Sequence[Mapping[str, Any]]) -> Sent:
    """Have some objects there, one after the other."""
    return send(kubectl, render_yaml(objects))


def secrets_of(
    plan: str, jobs: Sequence[Job], secret: Callable[[str], str], labels: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The Secrets that the pods of a plan want, with their values."""
    groups = secret_groups(jobs)
    known: set[str] = set()
    for job in jobs:
        group = groups.index(common_secrets(job))
        if has_variables(job) and f"env {group}" not in known:
            known.add(f"env {group}")
            yield render_env_secret(plan, group, job.secrets, secret, labels)
        if has_files(job):
            made = render_file_secret(plan, group, job, secret, labels)
            if made["metadata"]["name"] not in known:
                known.add(made["metadata"]["name"])
                yield made


def object_key(run_id: str, attempt: int) -> str:
    """What refusals call the Job of an attempt."""
    return f"job/{words.job_name(run_id, attempt)}"
