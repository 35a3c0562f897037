"""`bay completion`, and what a shell is told when somebody presses TAB."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from launchbay.cli.main import COMMANDS

VARIABLE = "_BAY_COMPLETE"
SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
INSTALL = {
    "bash": """\
# To install, with the package bash-completion:
#   bay completion bash > ~/.local/share/bash-completion/completions/bay
# or without it, in ~/.bashrc:
#   eval "$(bay completion bash)\"""",
    "zsh": """\
# To install, with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc:
#   bay completion zsh > ~/.zfunc/_bay""",
    "fish": """\
# To install:
#   bay completion fish > ~/.config/fish/completions/bay.fish""",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def command(ctx: click.Context, *, shell: str) -> None:
    """Print what makes your shell complete commands, targets and run ids, and how to install it."""
    completer = SHELLS[shell](ctx.find_root().command, {}, "bay", VARIABLE)
    # zsh wants its own first line to be the first.
    click.echo(f"{completer.source().strip()}\n\n{INSTALL[shell]}")


def complete_commands(incomplete: str) -> list[CompletionItem]:
    """The commands that begin so, without loading any of them."""
    return [
        CompletionItem(name, help=what)
        for name, (_, what) in COMMANDS.items()
        if name.startswith(incomplete)
    ]
