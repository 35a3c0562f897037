"""`bay capacity`."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import starmap
from typing import TYPE_CHECKING, Any

import click

from launchbay.cli.options import complete_targets, json_option
from launchbay.cli.screen import render_table, say, screen_width
from launchbay.core.quantity import render_size
from launchbay.engine.access import ask_capacity
from launchbay.engine.open import open_lab

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.core.backend import Room
    from launchbay.engine.access import Offer

COLUMNS = ("part", "free", "waiting", "note")
USERS = ("part", "user", "uses")
MIB = 1024 * 1024


@click.command("capacity")
@click.argument("target", required=False, shell_complete=complete_targets)
@click.option("--users", "by_user", is_flag=True, help="who uses what")
@json_option
def command(*, target: str | None, by_user: bool, as_json: bool) -> None:
    """What each part of a target has, what of it is free, and how many jobs wait for it.

    Without a name: of every target that can tell.
    """
    offers = ask_capacity(open_lab(writing=False), target)
    if as_json:
        click.echo(json.dumps([_record(offer) for offer in offers], indent=1))
        return
    width = screen_width()
    told = [offer for offer in offers if not offer.silence]
    for number, offer in enumerate(told):
        if len(told) > 1:
            click.echo(f"{chr(10) * bool(number)}{offer.target}")
        click.echo(render_users(offer.rooms) if by_user else render_rooms(offer.rooms, width))
    for offer in offers:
        if offer.silence:
            say(f"{offer.target} does not tell: {offer.silence}")


def render_rooms(rooms: tuple[Room, ...], width: int | None = None) -> str:
    """A line for each part; notes stand below where there is no room beside."""
    rows = [(room.name, _shares(room), str(room.waiting), room.note) for room in rooms]
    noted = [f"{room.name}: {room.note}" for room in rooms if room.note]
    whole = _table(COLUMNS if noted else COLUMNS[:-1], rows, None)
    if width is None or max(map(len, whole.splitlines())) <= width:
        return whole
    return "\n".join([_table(COLUMNS[:-1], rows, width), *noted])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    cut = [row[: len(columns)] for row in rows]
    numbers = frozenset({"waiting"})
    return render_table(columns, cut, width=width, numbers=numbers, keep=frozenset(columns))


def render_users(rooms: tuple[Room, ...]) -> str:
    """A line for everybody who uses something of a part, whoever uses most first."""
    rows = [
        (room.name, user, _amounts(use))
        for room in rooms
        for user, use in sorted(
            room.users.items(), key=lambda one: (-one[1].get("gpus", 0), -one[1].get("cpus", 0))
        )
    ]
    if not rows:
        return "nobody uses anything"
    return render_table(USERS, rows, width=screen_width(), keep=frozenset(USERS))


def _shares(room: Room) -> str:
    """What is free of all that there is: `2 of 4 nodes, 8 of 16 cpus`."""
    return ", ".join(_share(word, room.free.get(word), all_) for word, all_ in room.total.items())


def _share(word: str, free: float | None, total: float) -> str:
    if free is None:
        # Nobody tells how many of these are free.
        return _amount(word, total)
    if word == "memory_mib":
        return f"{render_size(free * MIB)} of {_amount(word, total)}"
    return f"{free:g} of {_amount(word, total)}"


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(starmap(_amount, amounts.items()))


def _amount(word: str, amount: float) -> str:
    if word == "memory_mib":
        return f"{render_size(amount * MIB)} memory"
    return f"{amount:g} {word}"


def _record(offer: Offer) -> dict[str, Any]:
    parts = [asdict(room) for room in offer.rooms]
    return {"target": offer.target, "parts": parts, "silence": offer.silence}
