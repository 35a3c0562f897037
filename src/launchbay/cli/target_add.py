"""`bay target add` and `bay target copy`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from launchbay import backends
from launchbay.cli.findings import print_findings
from launchbay.cli.options import complete_targets, yes_option
from launchbay.cli.screen import confirm, interactive, say
from launchbay.cli.terminal import call_in_terminal
from launchbay.config.edits import render_mapping
from launchbay.config.paths import user_config_path
from launchbay.config.schema import KUBERNETES, MACHINE, SLURM
from launchbay.config.user_file import write_target
from launchbay.core.errors import BadRequest, TargetError, Unauthorized, Unreachable
from launchbay.core.nearest import suggest
from launchbay.engine.access import log_in
from launchbay.engine.arrival import Arrival, look_round
from launchbay.engine.catalogue import check_new, find_own, find_target
from launchbay.engine.checkup import check_place
from launchbay.engine.open import open_lab

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launchbay.config.files import Value
    from launchbay.engine.arrival import Question

OPTIONS = {
    "host": "where to log in: me@box, or a name of your ssh configuration",
    "context": "of your kubectl, for a Kubernetes",
    "kubeconfig": "the file that kubectl reads; unset is its own choice",
    "namespace": "yours on a Kubernetes",
    "user": "whose work it is, as a label on a Kubernetes; unset is your name here",
    "image": "the container image of a run that does not say",
    "outputs-to": "where outputs go: claim:NAME on a Kubernetes, s3://bucket/path, none",
    "queue": "the local queue of a Kubernetes where Kueue decides",
    "partition": "the part of a Slurm to run in",
    "account": "whom a Slurm charges",
    "qos": "the quality of service to ask a Slurm for",
    "root": "the folder for its runs; unset is .bay/ in the project, elsewhere ~/bay",
    "parallel": "at most so many runs at once",
    "devices": "the GPUs it has: auto, a number, or ids with commas",
    "gpus": "GPUs of a run that does not say",
    "gpu-type": "GPUs whose name contains this, for a run that does not say",
    "cpus": "processors of a run that does not say",
    "memory": "memory of a run that does not say: 32 (GB), 512M",
    "time": "time limit of a run that does not say: 90m, 8h, 2d",
}
LISTS = ("devices", "gpu_type")


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds a flag for each option that every kind of target may have."""
    for name, what in reversed(OPTIONS.items()):
        function = click.option(f"--{name}", metavar="VALUE", help=what)(function)
    return function


def complete_kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Kinds that begin so."""
    return [kind for kind in backends.kinds() if kind.startswith(incomplete)]


@click.command("add")
@click.argument("name")
@click.argument("place", metavar="[me@HOST or KUBE-CONTEXT]", required=False)
@click.option(
    "--kind",
    help="what drives it, which is found out unless it is said; `bay target kinds` lists them",
    shell_complete=complete_kinds,
)
@target_options
@click.option("--claim", metavar="NAME", help="the same as --outputs-to claim:NAME")
@click.option("--set", "sets", multiple=True, metavar="K=V", help="any other option of the kind")
@click.option("--replace", is_flag=True, help="write a target anew that is there already")
@yes_option
def add(
    *,
    name: str,
    place: str | None,
    kind: str | None,
    claim: str | None,
    sets: tuple[str, ...],
    replace: bool,
    yes: bool,
    **flags: str | None,
) -> int:
    """Add a target to your configuration, and check that it works.

    With a HOST or a context of your kubectl, and for a Slurm or a Kubernetes, it looks round there
    first and asks what it cannot know; every answer is also a flag.
    """
    _check_kind(kind)
    if claim:
        flags["outputs_to"] = f"claim:{claim}"
    kind = _place(place, kind, flags)
    if flags["host"] or kind in {SLURM, KUBERNETES}:
        kind = _complete(name, kind, flags, yes=yes)
    options = _options(kind or MACHINE, flags, sets)
    check_new(name, options)
    path = user_config_path()
    there = find_own(open_lab(writing=False).settings, name)
    if there is not None and dict(there) != options and not replace:
        raise BadRequest(
            f"there is a target `{name}` already",
            hint=f"`bay target edit {name}` changes it, `--replace` writes it anew",
        )
    say(render_mapping({name: options}))
    if there is not None and dict(there) == options:
        say(f"{path} says so already")
    elif confirm(f"write this to {path}?", yes=yes):
        write_target(path, name, options)
    else:
        say("nothing was written")
        return 1
    lab = open_lab(writing=False)
    return print_findings(check_place(lab, name))


def _place(place: str | None, kind: str | None, flags: dict[str, str | None]) -> str | None:
    """Take a place for what it is, a context or a machine; returns the kind where that tells."""
    if place and kind in {None, KUBERNETES} and flags["context"] is None and not flags["host"]:
        # Dear to load, and most targets are machines.
        from launchbay.engine.kubernetes_arrival import is_context  # noqa: PLC0415

        if is_context(place, flags["kubeconfig"] or ""):
            flags["context"] = place
            return KUBERNETES
    flags["host"] = place or flags["host"]
    named = flags["context"] or flags["namespace"]
    return KUBERNETES if named and kind is None else kind


def _complete(name: str, kind: str | None, flags: dict[str, str | None], *, yes: bool) -> str:
    """Look round, and fill in what no flag says; returns the kind."""
    while True:
        seen = _look_round(name, kind, flags)
        for line in seen.lines:
            say(line)
        still = [one for one in seen.questions if flags[one.key] is None]
        answers = {one.key: _answer(one, yes=yes) for one in still}
        if lacking := [one for one in still if one.needed and not answers[one.key]]:
            raise _unanswered(name, lacking)
        flags.update({key: answer or None for key, answer in answers.items()})
        if not seen.more:
            return seen.kind


def _look_round(name: str, kind: str | None, flags: dict[str, str | None]) -> Arrival:
    host = flags["host"] or ""
    try:
        return _see(name, kind, flags)
    except TargetError as err:
        if host and isinstance(err, Unauthorized) and _is_ssh(err) and interactive():
            say(str(err))
            log_in(host, name, call_in_terminal)
            return _see(name, kind, flags)
        if kind and (kind != KUBERNETES or flags["namespace"]):
            say(f"warning: {err}; so it is written as it was typed")
            return Arrival(kind=kind)
        raise type(err)(str(err), hint=_way_out(err, host)) from err


def _way_out(err: TargetError, host: str) -> str:
    """What helps somebody whose target cannot be looked at."""
    unseen = "`--kind machine` or `--kind slurm` writes it unseen"
    hint = err.hint or unseen
    if "bay target login" in hint:
        # There is no such target yet to log in to.
        first = f"`ssh {host}` has to let you in"
        return first if interactive() else f"{first}: type this in a terminal, which asks; {unseen}"
    if isinstance(err, Unreachable) and host and "`sinfo`" not in hint:
        context = "" if "@" in host else f"; no context of your `kubectl` is called `{host}` either"
        return f"{hint}{context}; {unseen}"
    return f"{hint}; `--kind machine` takes it without Slurm" if "`sinfo`" in hint else hint


def _is_ssh(err: Unauthorized) -> bool:
    """Whether the machine wants the login, rather than a cluster that its `kubectl` speaks to."""
    return "`kubectl`" not in (err.hint or "")


def _see(name: str, kind: str | None, flags: dict[str, str | None]) -> Arrival:
    if kind != KUBERNETES:
        return look_round(name, flags["host"] or "", kind)
    from launchbay.engine.kubernetes_arrival import look_at_cluster  # noqa: PLC0415

    return look_at_cluster(name, flags)


def _unanswered(name: str, lacking: Sequence[Question]) -> BadRequest:
    flags = ", ".join(f"--{one.key.replace('_', '-')}" for one in lacking)
    known = [one.what or f"{one.key}: {', '.join(one.choices)}" for one in lacking]
    hint = "; ".join(known) if any(one.what or one.choices for one in lacking) else None
    return BadRequest(f"`{name}` is not complete, and nobody said {flags}", hint=hint)


def _answer(question: Question, *, yes: bool) -> str:
    if yes or not interactive():
        return question.default
    kind = click.Choice(question.choices) if question.choices else None
    default = question.default if question.default or not question.needed else None
    answer = click.prompt(
        question.what or question.key,
        default=default,
        type=kind,
        show_choices=False,
        show_default=bool(default),
        err=True,
    )
    return str(answer)


@click.command("copy")
@click.argument("old", shell_complete=complete_targets)
@click.argument("new")
def copy(*, old: str, new: str) -> None:
    """Add a target that says the same as another."""
    settings = open_lab(writing=False).settings
    entry = find_target(settings, old)
    if find_own(settings, new) is not None:
        hint = f"choose another name, or `bay target rm {new}` first"
        raise BadRequest(f"there is a target `{new}` already", hint=hint)
    options = {"kind": entry.kind, **entry.written}
    check_new(new, options)
    path = user_config_path()
    write_target(path, new, options)
    say(f"wrote `{new}` to {path}; `bay target edit {new}` changes it")


def _check_kind(kind: str | None) -> None:
    known = backends.kinds()
    if kind is not None and kind not in known:
        raise BadRequest(f"kind `{kind}` is not installed", hint=suggest(kind, known))


def _options(kind: str, flags: dict[str, str | None], sets: Sequence[str]) -> dict[str, Value]:
    options: dict[str, Value] = {"kind": kind}
    # In their order, whatever the order that they were typed in.
    for name in (word.replace("-", "_") for word in OPTIONS):
        if (text := flags[name]) is not None:
            several = name in LISTS and "," in text
            options[name] = [*text.split(",")] if several else text
    for word in sets:
        key, sign, text = word.partition("=")
        if not sign:
            raise BadRequest(f"`--set {word}` has no `=`", hint="write `--set partition=gpu`")
        options[key] = text
    return options
