"""`bay target`: the places to run on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from launchbay import backends
from launchbay.cli.options import complete_targets, json_option
from launchbay.cli.screen import from_here, render_table, screen_width
from launchbay.cli.target_add import add, copy
from launchbay.cli.target_edit import edit, remove, use
from launchbay.cli.target_login import login
from launchbay.config.edits import render_inline, render_mapping
from launchbay.engine.catalogue import find_target, list_targets
from launchbay.engine.open import open_lab

if TYPE_CHECKING:
    from launchbay.engine.catalogue import Entry

COLUMNS = ("target", "kind", "host", "root", "parallel", "devices", "defined in")
SHOWN = ("host", "root", "parallel", "devices")


@click.group("target", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Name the places to run on: list, show, add, copy, edit, rm, use, login.

    `local`, this computer, is always one. `bay run --target` chooses for one launch,
    `bay target use` for all.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show_all, as_json=False)


@click.command("list")
@json_option
def show_all(*, as_json: bool) -> None:
    """List the targets; * marks the default."""
    entries = list_targets(open_lab(writing=False).settings)
    if as_json:
        click.echo(json.dumps([_record(entry) for entry in entries], indent=1))
        return
    rows = [_row(entry) for entry in entries]
    used = [at for at in range(len(COLUMNS)) if any(row[at] for row in rows)]
    shown = [COLUMNS[at] for at in used]
    cells = [[row[at] for at in used] for row in rows]
    click.echo(render_table(shown, cells, width=screen_width(), keep=frozenset(COLUMNS)))


@click.command("show")
@click.argument("name", shell_complete=complete_targets)
@json_option
def show(*, name: str, as_json: bool) -> None:
    """Show one target as it is written, and where."""
    entry = find_target(open_lab(writing=False).settings, name)
    if as_json:
        click.echo(json.dumps(_record(entry), indent=1))
        return
    for source in entry.sources or ("always there",):
        click.echo(f"# {source}")
    click.echo(render_mapping({name: {"kind": entry.kind, **entry.written}}), nl=False)


@click.command("kinds")
@json_option
def kinds(*, as_json: bool) -> None:
    """List the kinds of targets that are installed."""
    found = backends.kinds()
    click.echo(json.dumps(found) if as_json else "\n".join(found))


for one in (show_all, show, add, copy, edit, remove, use, login, kinds):
    command.add_command(one)


def _row(entry: Entry) -> list[str]:
    return [
        f"{entry.name}{' *' if entry.default else ''}",
        entry.kind,
        *(render_inline(entry.written.get(key)) for key in SHOWN),
        ", ".join(map(from_here, entry.sources)) or "always there",
    ]


def _record(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": entry.kind,
        "default": entry.default,
        "options": {key: value for key, value in entry.written.items() if key != "kind"},
        "sources": list(entry.sources),
    }
