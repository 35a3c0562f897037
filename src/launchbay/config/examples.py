"""What to write instead of a value of the wrong type, as an example of what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchbay.config.resources import FIELDS, OLD_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.config.problems import Route

SHORT = 40
LINES: Mapping[str, str] = {
    "dataset": "mnist: {params: {batch: 64}}",
    "env": "OMP_NUM_THREADS: 4",
    "extra": "nvidia.com/mig-1g.5gb: 1",
    "metrics": "val_acc: 'val_acc=([0-9.]+)'",
    "model": "mlp: {command: python mlp.py}",
    "profiles": "gpu: {partition: gpu}",
    "run": "model: [mlp]",
    "targets": "desk: {kind: machine}",
    "volumes": "data: /data",
}
"""A line below each key that holds lines."""
ENTRIES: Mapping[str, str] = {
    "dataset": "params: {batch: 64}",
    "model": "command: python train.py",
    "profiles": "partition: gpu",
    "run": "model: [mlp]",
    "targets": "kind: machine",
}
"""A line of an entry below a key that holds entries."""


def fix_type(route: Route, expected: str, written: object, *, sweeps: bool) -> str:
    """What to write at the end of the route.

    Args:
        route: where the value stands.
        expected: what it should be: a mapping, a list, text or one value.
        written: what it is.
        sweeps: whether the file may try several values of a resource.
    """
    key = next((str(part) for part in reversed(route) if isinstance(part, str)), "")
    match expected:
        case "a mapping":
            return _fix_mapping(route, key, written)
        case "a list":
            return _fix_list(route, key, written)
        case "text" if isinstance(route[-1], int):
            return "write words, one beside the other: `[a, b]`"
        case "text":
            return _fix_text(key, written)
    name = OLD_NAMES.get(key, key)
    items = _joined(written, ", ")
    if sweeps and items and name in FIELDS and route[0] != "targets":
        return f"write one value, or `resources.{name}: [{items}]` below `params:` to try each"
    return "write one value behind the colon"


def _fix_mapping(route: Route, key: str, written: object) -> str:
    within = str(route[-2]) if len(route) > 1 else ""
    inside = within in ENTRIES
    example = ENTRIES[within] if inside else LINES.get(key, "key: value")
    if inside or not _joined(written, ", "):
        return f"write lines such as `{example}` below it"
    first = written[0] if isinstance(written, list) else ""
    name = example.partition(":")[0]
    line = first.replace("=", ": ", 1) if "=" in first else example.replace(name, first)
    return f"write lines such as `{line}` below it, without dashes or brackets"


def _fix_list(route: Route, key: str, written: object) -> str:
    if route == (key,) and key in LINES:
        return f"write lines such as `{LINES[key]}` below it"
    if isinstance(written, str) and 0 < len(written) <= SHORT:
        return f"write `{key}: [{written}]`"
    return "write `[a, b]`, or one `- a` a line"


def _fix_text(key: str, written: object) -> str:
    if key == "target":
        return "write the name of a target; its keys go below `targets:`"
    items = _joined(written, " " if key == "command" else ", ")
    if items:
        return f"write `{key}: {items}`"
    return f"write `{key}: value`, in quotes if it begins with a bracket"


def _joined(written: object, sign: str) -> str:
    """The items of a short list of words as one text; empty for anything else."""
    if not isinstance(written, list) or not all(isinstance(item, str) for item in written):
        return ""
    text = sign.join(written)
    return text if len(text) <= SHORT else ""
