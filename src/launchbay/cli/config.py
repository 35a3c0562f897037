"""`bay config`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import json_option
from launchbay.cli.screen import say
from launchbay.config.edits import render_inline
from launchbay.config.explain import explain
from launchbay.config.files import parse_document, read_text
from launchbay.config.paths import user_config_path
from launchbay.config.user_file import set_value, unset_value
from launchbay.engine.open import open_lab

if TYPE_CHECKING:
    from launchbay.config.explain import Explanation


@click.group("config", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show, set and explain configuration; keys are dotted: targets.desk.parallel."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(show, as_json=False)


@command.command("show")
@json_option
def show(*, as_json: bool) -> None:
    """Show your own configuration as it is written, and where it lies."""
    path = user_config_path()
    text = read_text(path) if path.exists() else ""
    if as_json:
        data = dict(parse_document(text, path).data)
        click.echo(json.dumps({"path": str(path), "exists": path.exists(), "data": data}, indent=1))
        return
    say(str(path) if path.exists() else f"{path} is not there yet; everything is as by default")
    click.echo(text, nl=bool(text) and not text.endswith("\n"))


@command.command("set")
@click.argument("key")
@click.argument("value")
def change(*, key: str, value: str) -> None:
    """Set one key of your configuration.

    A VALUE such as '[a, b]' is a list, '{a: b}' a mapping.
    """
    path = user_config_path()
    set_value(path, key, value)
    say(f"set `{key}` in {path}")


@command.command("unset")
@click.argument("key")
def unset(*, key: str) -> None:
    """Remove one key from your configuration."""
    path = user_config_path()
    unset_value(path, key)
    say(f"removed `{key}` from {path}")


@command.command("explain")
@click.argument("key")
@click.option("--model", default="", help="as it holds for this model")
@click.option("--dataset", default="", help="as it holds on this dataset")
@json_option
def explain_key(*, key: str, model: str, dataset: str, as_json: bool) -> None:
    """Say what a key is set to, where, and over what weaker places say."""
    settings = open_lab(writing=False).settings
    found = explain(key, settings.config, model=model, dataset=dataset)
    click.echo(json.dumps(asdict(found), indent=1) if as_json else _render(found))


def _render(found: Explanation) -> str:
    if found.value is None:
        return f"{found.key} is not set ({found.source})"
    lines = [f"{found.key} = {render_inline(found.value)}  ({_place(found)})"]
    lines += [f"  over {render_inline(one.value)}  ({_place(one)})" for one in found.over]
    return "\n".join(lines)


def _place(found: Explanation) -> str:
    return found.source if found.line is None else f"{found.source}:{found.line}"
