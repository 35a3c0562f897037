"""The commands as one click group, each loaded when it is typed."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

import click

from launchbay import __version__
from launchbay.cli.main import COMMANDS, drop_output, render_help
from launchbay.cli.screen import complain
from launchbay.core.errors import BayError
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

INTERRUPTED = 130
ALIASES = {"context": "target"}
UNLISTED = frozenset({"carry", "toolbox"})
"""Commands that other programs call: nodes, and the Makefile of the first tool's users."""


ELSEWHERE = {
    "status": "ls",
    "ps": "ls",
    "jobs": "ls",
    "queue": "ls",
    "submit": "run",
    "launch": "run",
    "start": "run",
    "stop": "cancel",
    "kill": "cancel",
    "retry": "rerun",
    "delete": "rm",
    "remove": "rm",
    "upload": "data up",
    "download": "data down",
    "version": "--version",
}
"""What other tools call their commands."""


def _meant(name: str) -> str:
    """The command that was probably meant; nothing where none is near."""
    near = suggest(ELSEWHERE.get(name, name), [*COMMANDS, *ELSEWHERE.values()]) or ""
    return f"; {near}" if near.startswith("did you mean") else ""


class LateGroup(click.Group):
    """Knows its commands by name and loads the one that is typed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002, D102
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS and cmd_name not in UNLISTED:
            return None
        return cast("click.Command", import_module(f"launchbay.cli.{cmd_name}").command)

    def resolve_command(  # noqa: D102
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = name in COMMANDS or name in ALIASES or name in UNLISTED
        if not known and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"there is no command `{name}`{_meant(name)}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: D102
        # click's own would load every command.
        from launchbay.cli.completion import complete_commands  # noqa: PLC0415

        flags = click.Command.shell_complete(self, ctx, incomplete)
        return [*complete_commands(incomplete), *flags]

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002, D102
        return render_help(everything=False)


@click.group(
    cls=LateGroup,
    name="bay",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="bay")
@click.option("--config", metavar="FILE", help="the user configuration to use, for this call")
@click.pass_context
def app(ctx: click.Context, /, config: str | None) -> None:
    """Describe experiments once, run them anywhere."""
    if config:
        os.environ["BAY_CONFIG"] = config
    if ctx.invoked_subcommand is None:
        overview()


def overview() -> None:
    """In a project with runs their table and the next steps, else the short help."""
    from launchbay.cli.ls import overview_lines  # noqa: PLC0415

    lines = overview_lines()
    click.echo(lines or render_help(everything=False), nl=bool(lines))


FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def run_app(words: Sequence[str]) -> int:
    """Run one command; every error becomes a line, a hint and an exit code."""
    try:
        code = app.main(args=list(words), prog_name="bay", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as err:
        return err.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as err:
        return _complain_usage(err)
    except BayError as err:
        complain(str(err), err.hint)
        return err.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as err:
        if os.environ.get("BAY_DEBUG"):
            raise
        if isinstance(err, OSError) and err.errno in FULL:
            where = f" for `{err.filename}`" if err.filename else " for what it prints"
            complain(f"no space left{where}", "free some space, then type it again")
            drop_output()
            return 1
        complain(f"{type(err).__name__}: {err}", "this is a bug; BAY_DEBUG=1 shows where")
        return 1
    return code if isinstance(code, int) else 0


def _complain_usage(err: click.ClickException) -> int:
    context = getattr(err, "ctx", None)
    command = context.command_path if context else "bay"
    # click spreads some over several lines.
    message = " ".join(err.format_message().split()).rstrip(".")
    complain(message[:1].lower() + message[1:], f"`{command} --help` explains")
    return err.exit_code
