"""`bay run`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from launchbay.cli.options import json_option, quiet_option, yes_option
from launchbay.cli.planning import TypedCommand, headline, plan_options, prepare
from launchbay.cli.screen import confirm, interactive, say, tell_waiting
from launchbay.core import rundir
from launchbay.engine.launch import Check
from launchbay.engine.origin import find_origin
from launchbay.engine.steps import tallied
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.launch import Draft

MANY = 100


@click.command("run", cls=TypedCommand)
@plan_options
@click.option("--detach", "-d", is_flag=True, help="do not follow the runs")
@click.option("--fail-fast", is_flag=True, help="cancel the rest when one fails")
@click.option("--here", is_flag=True, help="the first run in this terminal and folder")
@click.option("--note", help="a remark kept with the runs")
@click.option("--tag", "tags", multiple=True, help="a word to find the runs by")
@click.option("--from", "source", metavar="ID[:PATTERN]", help="earlier outputs, at $BAY_FROM")
@quiet_option
@json_option
@yes_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    detach: bool,
    fail_fast: bool,
    here: bool,
    source: str | None,
    quiet: bool,
    as_json: bool,
    yes: bool,
    **flags: Any,  # noqa: ANN401
) -> int:
    """Freeze the code, submit what is missing, failed or lost, and follow it.

    \b
    bay run lr=0.1,0.01 seed=0..2 python train.py
    bay run                        what bay.yaml describes
    bay run sweep.yaml lr=0.3      with another value of one of its parameters

    In COMMAND, <key> is the value of a KEY; a key that it does not use is appended as --key value.
    """  # noqa: D301 (click wants the backspace itself)
    typed = ctx.meta["typed"]
    origin = find_origin(source) if source else None
    prepared = prepare(typed, flags, writing=True, origin=origin)
    if not quiet:
        prepared.lab.tell = say
    prepared.look()
    lab, draft = prepared.lab, prepared.draft()
    undecided = draft.under_older_code and not (flags["again"] or flags["changed_code"])
    if undecided and _wants_redone(draft, quiet=quiet):
        request = replace(prepared.request, changed_code=True)
        draft = replace(prepared, request=request).draft()
    if here:
        from launchbay.cli.here import run_here  # noqa: PLC0415

        return run_here(lab, draft)
    check = Check(draft)
    for step in draft.steps:
        check(step)
    if not quiet:
        say(headline(tallied(draft.steps), draft))
    if not draft.to_submit:
        _explain_nothing(draft, quiet=quiet, as_json=as_json)
        return 0
    if len(draft.to_submit) > MANY and not confirm(f"start {len(draft.to_submit)} runs?", yes=yes):
        return 1
    runs = lab.launch(draft)
    return _after(lab, runs, detach=detach, fail_fast=fail_fast, quiet=quiet, as_json=as_json)


def _after(
    lab: Lab, runs: list[Run], *, detach: bool, fail_fast: bool, quiet: bool, as_json: bool
) -> int:
    if not runs:
        say("another `bay run` was quicker and has sent them all; `bay watch` follows them")
        if as_json:
            click.echo("[]")
        return 0
    if quiet:
        click.echo("\n".join(run.id for run in runs))
    elif not as_json:
        then = "`bay watch` follows them, `bay ls` lists them" if detach else ""
        say(f"launched as {runs[0].launch}" + (f"; {then}" if then else ""))
    code = 0
    if not detach:
        # The live table is dear to load, and a detached launch does without.
        from launchbay.cli.following import follow  # noqa: PLC0415

        code = follow(lab, runs, fail_fast=fail_fast, silent=quiet or as_json)
    # Something was here when it was sent, or somebody left early.
    waits = not quiet and any(run.waits_here for run in runs)
    now = lab.store.runs(Query(ids=[run.id for run in runs])) if waits or as_json else []
    if waits:
        tell_waiting(lab, now)
    if as_json:
        from launchbay.cli.record import run_record  # noqa: PLC0415

        click.echo(json.dumps([run_record(run, lab) for run in now], indent=1))
    return code


def _wants_redone(draft: Draft, *, quiet: bool) -> bool:
    """Ask, where somebody can answer, whether old successes count under new code."""
    from launchbay.sync.compare import changed_paths  # noqa: PLC0415

    older = draft.under_older_code
    tree = rundir.code_folder(draft.project.bay, older[-1].code)
    changed = changed_paths(draft.listing, tree)
    named = ", ".join(changed[:3]) + (" …" if len(changed) > 3 else "")  # noqa: PLR2004
    text = f"{len(older)} succeeded under older code ({named or 'changed'} changed)"
    if not interactive() or quiet:
        say(f"{text}; `--changed-code` redoes them")
        return False
    return click.confirm(f"{text}: redo?", default=False, err=True)


def _explain_nothing(draft: Draft, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        click.echo("[]")
    if quiet:
        return
    say("nothing to submit:")
    for step in draft.steps[:5]:
        say(f"  {step.name}: {step.why}")
    if len(draft.steps) > 5:  # noqa: PLR2004
        say(f"  … and {len(draft.steps) - 5} more; `bay plan` lists all")
    if any(step.standing != "done" for step in draft.steps):
        say("`bay watch` follows what is under way")
    else:
        say("`bay results` shows what came out, `--again` runs everything once more")
    sys.stderr.flush()
