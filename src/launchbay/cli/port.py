"""`bay port`."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import one, selection_options
from launchbay.cli.terminal import become
from launchbay.core.errors import BadRequest
from launchbay.engine.access import forward_argv

if TYPE_CHECKING:
    from launchbay.engine.lab import Lab
    from launchbay.engine.select import Selection

HIGHEST = 65535


class PortCommand(click.Command):
    """Takes its last word for the port."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return ["[OPTIONS] [ID] PORT[:LOCAL]"]


@click.command("port", cls=PortCommand)
@selection_options
def command(*, lab: Lab, selection: Selection) -> None:
    """Lead a port of this computer to a PORT where a run runs, until Ctrl-C.

    Here it has the same number, or another where that is taken; PORT:LOCAL chooses it.
    """
    *ids, text = (*selection.ids,) or ("",)
    to_port, local = parse_ports(text)
    run = one(lab, replace(selection, ids=tuple(ids)))
    port = _free_port(to_port) if local is None else _asked_port(local)
    argv = forward_argv(lab, run, port, to_port)
    (run,) = lab.refresh([run]).runs
    pod = run.status.allocation if run.place.get("namespace") else ""
    where = pod or next(iter(run.status.nodes), "") or run.place.get("host") or run.target
    click.echo(f"http://127.0.0.1:{port} leads to {where}:{to_port}; Ctrl-C ends it")
    become(argv)


def parse_ports(text: str) -> tuple[int, int | None]:
    """`PORT` or `PORT:LOCAL`.

    >>> parse_ports("8888"), parse_ports("8888:9000")
    ((8888, None), (8888, 9000))
    """
    match = re.fullmatch(r"(\d+)(?::(\d+))?", text)
    ports = [int(word) for word in match.groups() if word] if match else []
    if not ports or not all(1 <= port <= HIGHEST for port in ports):
        raise BadRequest(
            f"`{text}` is no port" if text else "which port?",
            hint="name the run and the port: `bay port ID 8888`, or `8888:9000`",
        )
    return ports[0], ports[1] if len(ports) > 1 else None


def _asked_port(port: int) -> int:
    if not _is_free(port):
        raise BadRequest(f"port {port} is taken on this computer", hint="choose another one")
    return port


def _free_port(wanted: int) -> int:
    if _is_free(wanted):
        return wanted
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as asked:
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            asked.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
