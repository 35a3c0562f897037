"""`bay plan`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from launchbay.cli.options import json_option
from launchbay.cli.planning import TypedCommand, headline, plan_options, prepare
from launchbay.cli.screen import render_table, screen_width
from launchbay.core.command import render
from launchbay.engine.launch import check, preview, render_resources
from launchbay.engine.results import varying_keys

if TYPE_CHECKING:
    from launchbay.engine.launch import Draft, Step

SHOWN = 50


@click.command("plan", cls=TypedCommand)
@plan_options
@click.option("--document", is_flag=True, help="exactly what would be sent")
@json_option
@click.pass_context
def command(ctx: click.Context, /, *, document: bool, as_json: bool, **flags: Any) -> None:  # noqa: ANN401
    """Show what `bay run` would do: each run, whether it would be submitted, and why.

    Writes nothing and contacts nothing; what became of runs is taken as last seen.
    """
    _, draft = prepare(ctx.meta["typed"], flags, looking=False)
    check(draft)
    if document:
        click.echo("".join(preview(draft)), nl=False)
    elif as_json:
        click.echo(json.dumps([_row(step, draft) for step in draft.steps], indent=1))
    else:
        click.echo(headline(draft))
        _print_links(draft)
        _print_steps(draft)


def _row(step: Step, draft: Draft) -> dict[str, Any]:
    return {
        "name": step.name,
        "params": dict(step.params),
        "command": render(step.command),
        "target": draft.place.name,
        "resources": render_resources(draft.request.experiment.resources),
        "identity": step.identity,
        "action": step.action,
        "why": step.why,
    }


def _print_links(draft: Draft) -> None:
    links = sorted(draft.listing.links)
    if links:
        more = f" and {len(links) - 8} more" if len(links) > 8 else ""  # noqa: PLR2004
        click.echo(f"linked from the project: {', '.join(links[:8])}{more}")


def _print_steps(draft: Draft) -> None:
    shown = draft.steps[:SHOWN]
    keys = varying_keys([step.params for step in draft.steps])
    rows = [
        (step.action, step.why, *(step.params.get(key, "") for key in keys), render(step.command))
        for step in shown
    ]
    columns = ("action", "why", *keys, "command")
    click.echo(render_table(columns, rows, width=screen_width(), keep=frozenset({"command"})))
    if len(draft.steps) > SHOWN:
        click.echo(f"… and {len(draft.steps) - SHOWN} more; `--json` lists all")
