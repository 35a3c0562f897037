"""Looking round on a machine that is about to become a target."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay import backends
from launchbay.core.backend import Facts, Opening, Survey
from launchbay.core.errors import Unsupported
from launchbay.core.quantity import render_size, render_span
from launchbay.hosts.reach import reach

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MACHINE, SLURM = "machine", "slurm"
HOME_ROOT = "~/bay"
MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Question:
    """One thing to choose, with what is taken where nobody says."""

    key: str
    default: str
    choices: tuple[str, ...] = ()
    """What there is to choose from; empty takes any text."""
    needed: bool = False
    """Whether it has to be said where there is no default."""
    what: str = ""
    """How it is asked for, unless the key says it all."""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """What was seen of a machine: its kind, for people to read, and what to choose."""

    kind: str
    lines: tuple[str, ...] = ()
    questions: tuple[Question, ...] = field(default=())
    more: bool = False
    """Whether there is more to look at once these are answered."""


def look_round(name: str, host: str, kind: str | None) -> Arrival:
    """What drives that machine, what it has, and what to choose for a target there.

    Args:
        name: what the target will be called.
        host: as `ssh` takes it; empty is this machine.
        kind: what drives it; None finds out.

    Raises:
        TargetError: when it does not answer, or wants a login.
    """
    if kind is None:
        slurm = reach(host, name).run(["/bin/sh", "-c", "command -v sbatch"]).ok
        kind = SLURM if slurm else MACHINE
    options = {"host": host} if host else {}
    opening = Opening(target=name, options={**options, "root": HOME_ROOT}, root=Path(HOME_ROOT))
    backend = backends.load(kind)(opening)
    if not isinstance(backend, Survey):
        return Arrival(kind=kind)
    try:
        facts = backend.survey()
    except Unsupported as err:
        # It may serve all the same, and the check-up tells.
        return Arrival(kind=kind, lines=(str(err),), questions=(_root([]),))
    if kind == SLURM:
        return describe_slurm(facts.details)
    return Arrival(kind=kind, lines=(_machine_line(facts),), questions=(_root([]),))


def describe_slurm(details: Mapping[str, Any]) -> Arrival:
    """A cluster as its facts tell it."""
    partitions = details.get("partitions", ())
    names = tuple(part["name"] for part in partitions)
    usual = next((part["name"] for part in partitions if part["default"]), "")
    accounts = tuple(dict.fromkeys(entry["name"] for entry in details.get("accounts", ())))
    questions = [Question(key="partition", default=usual or names[0], choices=names)]
    if len(accounts) > 1:
        usual = details.get("default_account") or accounts[0]
        questions.append(Question(key="account", default=usual, choices=accounts))
    home = str(details.get("home") or "").rstrip("/")
    folders = [one for one in details.get("folders", ()) if one["path"] != home]
    questions.append(_root(folders))
    return Arrival(
        kind=SLURM, lines=tuple(_slurm_lines(details, folders)), questions=tuple(questions)
    )


def _root(folders: Sequence[Mapping[str, Any]]) -> Question:
    """Scratch comes before the home, which is often small."""
    default = f"{folders[0]['path']}/bay" if folders else HOME_ROOT
    return Question(key="root", default=default)


def _slurm_lines(details: Mapping[str, Any], folders: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cluster = details.get("cluster")
    yield f"Slurm {details.get('version') or '?'}" + (f", cluster {cluster}" if cluster else "")
    for part in details.get("partitions", ()):
        yield f"partition {_partition_words(part)}"
    if accounts := [entry["name"] for entry in details.get("accounts", ())]:
        yield f"accounts: {', '.join(dict.fromkeys(accounts))}"
    limits = [f"arrays of {details['max_array']}"] if details.get("max_array") else []
    if details.get("submit_limit"):
        limits.append(f"{details['submit_limit']} jobs at once")
    if limits:
        yield f"limits: {', '.join(limits)}"
    for folder in folders:
        free = folder["free_mib"]
        yield f"folder {folder['path']}" + (f": {render_size(free * MIB)} free" if free else "")


def _partition_words(part: Mapping[str, Any]) -> str:
    words = [f"{part['name']}{' (the default)' if part['default'] else ''}:"]
    minutes = part["max_minutes"]
    facts = [f"at most {render_span(minutes * 60)}" if minutes else "no time limit"]
    if part["nodes"]:
        facts.append(f"{part['nodes']} node{'s' * (part['nodes'] != 1)}")
    if part["cpus_per_node"]:
        facts.append(f"{part['cpus_per_node']} cpus a node")
    facts += [f"{count} {kind or 'GPU'} a node" for kind, count in part["gpus"].items()]
    return " ".join([*words, ", ".join(facts)])


def _machine_line(facts: Facts) -> str:
    names = [name for _, name in facts.gpus]
    gpus = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "no GPUs"
    python = facts.details.get("python")
    return f"{facts.cpus} cpus, {gpus}" + (f", Python {python}" if python else "")
