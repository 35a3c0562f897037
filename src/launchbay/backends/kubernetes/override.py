"""The user's last word on a Job: a merge patch over it, where nothing of ours depends on it.

It is RFC 7396, where `null` removes, with one thing more: where the Job has a list of named things,
`containers`, `initContainers`, `volumes` and `env`, a mapping patches those of these names, as in
`containers: {main: {securityContext: {runAsUser: 1000}}}`.

Files hold every value as text, so text that JSON would read as a number, `true`, `false` or `null`
is that, and text in quotes of its own, `'"1"'`, is the text inside them. Where Kubernetes itself
wants text (labels, annotations, selectors, the values of variables, words of commands), it stays
text.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from launchbay.backends.kubernetes.words import MAIN
from launchbay.core.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXTS = frozenset(
    {
        "annotations",
        "args",
        "command",
        "key",
        "labels",
        "matchLabels",
        "name",
        "nodeSelector",
        "value",
        "values",
    }
)
"""Keys below which Kubernetes takes text only."""
NAMED = frozenset({"containers", "env", "initContainers", "volumes"})
LITERAL = re.compile(r'-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|".*"', re.ASCII)
NOTHING = (None, "null", "~")
OWN = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("spec", "backoffLimit"),
    ("spec", "completions"),
    ("spec", "parallelism"),
    ("spec", "suspend"),
    ("spec", "template", "spec", "restartPolicy"),
)
"""What a run is found by, or started exactly once by."""
MARKS = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "template", "metadata", "labels"),
    ("spec", "template", "metadata", "annotations"),
)


def apply_override(job: dict[str, Any], written: object) -> dict[str, Any]:
    """The Job with what is written under `override:` laid over it.

    Raises:
        Unsupported: when it changes what a run is found by, or started exactly once by.
    """
    if not isinstance(written, dict):
        raise Unsupported("`override:` is no mapping", hint="write `override: {spec: {…}}`")
    patch = read_values(written)
    merged: dict[str, Any] = _merge(job, patch)
    for route in OWN:
        if _at(merged, route) != _at(job, route):
            raise _refusal(".".join(route))
    for route in MARKS:
        ours = _at(job, route) or {}
        theirs = _at(merged, route)
        for key, value in ours.items():
            if not isinstance(theirs, dict) or theirs.get(key) != value:
                raise _refusal(f"{'.'.join(route)}.{key}")
    if _main(merged) != _main(job):
        raise Unsupported(
            "`override:` takes the container of the command away, or its command",
            hint=f"patch it by its name: `containers: {{{MAIN}: {{…}}}}`",
        )
    return merged


def _refusal(where: str) -> Unsupported:
    return Unsupported(
        f"`override:` changes `{where}`, which launchbay sets itself", hint="leave it out"
    )


def _at(value: object, route: tuple[str, ...]) -> Any:  # noqa: ANN401
    for key in route:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _main(job: Mapping[str, Any]) -> object:
    containers = _at(job, ("spec", "template", "spec", "containers"))
    found = containers if isinstance(containers, list) else []
    return [
        (one.get("name"), one.get("command"), one.get("args"))
        for one in found
        if isinstance(one, dict) and one.get("name") == MAIN
    ]


def read_values(written: object, *, texts: bool = False) -> Any:  # noqa: ANN401
    """What is meant by what files hold as text.

    Args:
        written: a value, or mappings and lists of them.
        texts: whether only text can be meant.
    """
    match written:
        case dict():
            return {
                key: None if value in NOTHING else read_values(value, texts=texts or key in TEXTS)
                for key, value in ((str(key), value) for key, value in written.items())
            }
        case list() | tuple():
            return [read_values(value, texts=texts) for value in written]
        case str() if not texts and LITERAL.fullmatch(written):
            try:
                return json.loads(written)
            except ValueError:
                return written
    return written


def _merge(target: Any, patch: Any) -> Any:  # noqa: ANN401
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif key in NAMED and isinstance(value, dict):
            merged[key] = _merge_named(merged.get(key), value)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


def _merge_named(items: object, patch: Mapping[str, Any]) -> list[Any]:
    """The list with those things patched, added or taken out that have the names."""
    there = items if isinstance(items, list) else []
    found = {one["name"]: one for one in there}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _merge(found.get(name, {"name": name}), value)
    return list(found.values())
