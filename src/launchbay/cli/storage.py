"""`bay storage`: claims of a Kubernetes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launchbay.cli.data_progress import showing
from launchbay.cli.data_words import count_files, print_lines, render_rate, tell_some
from launchbay.cli.options import complete_targets, json_option
from launchbay.cli.screen import render_table, say, screen_width
from launchbay.core.errors import BadRequest
from launchbay.core.quantity import parse_memory, render_size
from launchbay.engine.open import open_lab
from launchbay.engine.storage import find_storage, list_below, parse_place, pull, push

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.backends.depot_pull import Remote
    from launchbay.core.backend import Claim
    from launchbay.engine.storage import Moved

target_option = click.option(
    "--target", "-t", help="the Kubernetes that has it", shell_complete=complete_targets
)


@click.group("storage", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Volume claims of a Kubernetes: storage that outlives runs.

    Runs have one by `folders: {data: claim:NAME}` or `outputs_to: claim:NAME`. Files go through a
    pod that is gone afterwards. No command of `bay` deletes a claim.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("init")
@click.argument("name")
@click.option("--size", default="100G", help="how much to ask for: 100G")
@click.option("--class", "storage_class", default="", help="the storage class; unset is its own")
@click.option(
    "--mode",
    type=click.Choice(["rwx", "rwo"]),
    default="rwx",
    help="for several nodes at once, or one",
)
@target_option
def init(*, name: str, size: str, storage_class: str, mode: str, target: str | None) -> None:
    """Make a claim, once; one that is there stays as it is."""
    try:
        size_mib = parse_memory(size)
    except ValueError as err:
        raise BadRequest(f"--size: {err}") from err
    claims = find_storage(open_lab(), target)
    made, fresh = claims.make_claim(
        name, size_mib=size_mib, storage_class=storage_class, shared=mode == "rwx"
    )
    said = "made" if fresh else "is there already, and stays as it is:"
    say(f"`{name}` {said} {_describe(made)}")
    if made.note:
        say(f"it has no volume yet: {made.note}")


@command.command("ls")
@click.argument("place", default="", metavar="[NAME[:PATH]]")
@target_option
@json_option
def show(*, place: str, target: str | None, as_json: bool) -> None:
    """List claims, or with NAME:PATH the files in one.

    PATH is a file, a folder, or a pattern in which `*` crosses folders; `NAME:` lists all.
    """
    claims = find_storage(open_lab(), target)
    if ":" in place:
        _show_files(list_below(claims, place, tell=say), as_json=as_json)
        return
    found = claims.list_claims()
    if place:
        name, _ = parse_place(place)
        found = [one for one in found if one.name == name]
        if not found:
            raise BadRequest(
                f"there is no claim `{name}`", hint=f"`bay storage init {name}` makes it"
            )
    if as_json:
        click.echo(json.dumps([vars(one) for one in found], indent=1))
    elif found:
        click.echo(_render_claims(found))
    else:
        say("there are no claims; `bay storage init NAME` makes one")


@command.command("push")
@click.argument("files", nargs=-1, required=True, metavar="FILES… NAME:PATH")
@target_option
def send(*, files: tuple[str, ...], target: str | None) -> None:
    """Copy files or folders into the folder PATH of a claim.

    A folder keeps its name, with `/` at its end what is in it goes. What is there already, by size
    and time, is not sent again.
    """
    *words, place = files
    if not words:
        raise BadRequest("which files?", hint="`bay storage push FILES… NAME:PATH`")
    claims = find_storage(open_lab(), target)
    with showing("sending") as progress:
        moved = push(claims, words, place, tell=say, show=progress)
    _report("sent", moved)


@command.command("pull")
@click.argument("place", metavar="NAME:PATTERN")
@click.option("-o", "--to", default=".", type=click.Path(path_type=Path), help="a folder here")
@target_option
def fetch(*, place: str, to: Path, target: str | None) -> int:
    """Copy files of a claim, with their paths there, below a folder here.

    PATTERN is a file, a folder, or a pattern in which `*` crosses folders; quote it. What is here
    already, by size and time, is not fetched again.
    """
    claims = find_storage(open_lab(), target)
    with showing("getting") as progress:
        moved = pull(claims, place, to, tell=say, show=progress)
    _report("got", moved)
    return int(bool(moved.failed))


def _describe(claim: Claim) -> str:
    kind = f", class {claim.storage_class}" if claim.storage_class else ""
    return f"{claim.size} {'/'.join(claim.modes)}, {claim.phase.lower()}{kind}"


def _render_claims(claims: Sequence[Claim]) -> str:
    columns = ("name", "size", "mode", "phase", "class", "used by")
    rows = [
        (
            one.name,
            one.size,
            "/".join(one.modes),
            one.phase,
            one.storage_class,
            ", ".join(one.used_by),
        )
        for one in claims
    ]
    return render_table(columns, rows, width=screen_width(), keep=frozenset(columns))


def _show_files(files: Sequence[Remote], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"name": file.place, "size": file.size, "modified": file.mtime_ns / 10**9}
            for file in files
        ]
        click.echo(json.dumps(rows, indent=1))
        return
    print_lines(
        [
            f"{render_size(file.size):>10}  {_moment(file.mtime_ns)}  {_printable(file.place)}"
            for file in files
        ]
    )
    say(f"{count_files(len(files))}, {render_size(sum(file.size for file in files))}")


def _moment(mtime_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(mtime_ns / 10**9))


def _printable(name: str) -> str:
    """A name that a terminal can show in one line."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\n", "␊")


def _report(verb: str, moved: Moved) -> None:
    parts = []
    if moved.files:
        parts.append(f"{verb} {count_files(len(moved.files))}, {_rate(moved)}")
    if moved.same:
        parts.append(f"{moved.same} unchanged")
    say("; ".join(parts) or f"{verb} nothing")
    if moved.links:
        say(f"left out {moved.links} symbolic link{'s' * (moved.links != 1)}")
    if moved.failed:
        say(f"{count_files(len(moved.failed))} failed; the same command tries them again:")
        tell_some([f"{name}: {why}" for name, why in moved.failed])


def _rate(moved: Moved) -> str:
    return render_rate(moved.size, moved.seconds)
