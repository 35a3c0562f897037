"""`bay target login`."""

from __future__ import annotations

import click

from launchbay.cli.options import complete_targets
from launchbay.cli.screen import say
from launchbay.cli.terminal import call_in_terminal
from launchbay.core.errors import BadRequest
from launchbay.engine.access import host_of, log_in
from launchbay.engine.open import open_lab


@click.command("login")
@click.argument("name", shell_complete=complete_targets)
def login(*, name: str) -> None:
    """Open the connection to a target's machine anew; it may ask for a password or a code.

    After that nothing asks again, as long as the connection is used.
    """
    lab = open_lab(writing=False)
    host = host_of(lab, name)
    if not host:
        raise BadRequest(
            f"`{name}` is this computer, and needs no login",
            hint="only a target with `host:` is somewhere else",
        )
    log_in(host, name, call_in_terminal)
    say(f"the connection to `{host}` is open")
    lab.targets.open(name)
    say(f"looked round on `{name}`; `bay doctor {name}` says what is there")
