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
    from collections.abc import Mapping

    from launchbay.core.backend import Room
    from launchbay.engine.access import Offer

COLUMNS = ("part", "total", "free", "waiting", "note")
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
    told = [offer for offer in offers if not offer.silence]
    for number, offer in enumerate(told):
        if len(told) > 1:
            click.echo(f"{chr(10) * bool(number)}{offer.target}")
        click.echo(render_users(offer.rooms) if by_user else render_rooms(offer.rooms))
    for offer in offers:
        if offer.silence:
            say(f"{offer.target} does not tell: {offer.silence}")


def render_rooms(rooms: tuple[Room, ...]) -> str:
    """A line for each part."""
    rows = [
        (room.name, _amounts(room.total), _amounts(room.free), str(room.waiting), room.note)
        for room in rooms
    ]
    shown = COLUMNS if any(row[-1] for row in rows) else COLUMNS[:-1]
    cut = [row[: len(shown)] for row in rows]
    numbers = frozenset({"waiting"})
    return render_table(shown, cut, width=screen_width(), numbers=numbers, keep=frozenset(shown))


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


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(starmap(_amount, amounts.items()))


def _amount(word: str, amount: float) -> str:
    if word == "memory_mib":
        return f"{render_size(amount * MIB)} memory"
    return f"{amount:g} {word}"


def _record(offer: Offer) -> dict[str, Any]:
    parts = [asdict(room) for room in offer.rooms]
    return {"target": offer.target, "parts": parts, "silence": offer.silence}
