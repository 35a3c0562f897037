"""Addresses that work for a while without keys, for nodes that have no tool for object storage.

They are secrets, made when a plan is sent: `bay_gets_<kept> <url>` is one for each object of a
folder, `bay_puts <url>` one for the archive of a run's outputs and one for its log.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from launchbay.core.errors import BadRequest, Unsupported
from launchbay.engine.storing import find_store
from launchbay.sync.bucket import LONGEST_ADDRESS_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.core.job import Job
    from launchbay.engine.settings import Settings
    from launchbay.engine.storing import Store

ARCHIVE = "out.tar.gz"
LOG = "log.txt"
GETS = "bay_gets_"
PUTS = "bay_puts"
MOST_OBJECTS = 1000
LASTS = timedelta(seconds=LONGEST_ADDRESS_S)
LONGEST_RUN = LASTS / 2
"""A run may wait before it starts."""


def gets_name(kept: str, url: str) -> str:
    """The name of the secret that has an address for each object of a folder."""
    return f"{GETS}{kept} {url}"


def puts_name(url: str) -> str:
    """The name of the secret that has the addresses of a run's archive and of its log."""
    return f"{PUTS} {url}"


def check_signing(store: Store, job: Job, target: str, *, counting: bool = False) -> None:
    """Raise `Unsupported` where addresses could expire before the run ends, or cannot be made."""
    fix = f"or install s5cmd on `{target}`"
    limit = job.resources.time_limit
    if limit is None or limit > LONGEST_RUN:
        why = "its runs have no time limit" if limit is None else "its runs may take too long"
        raise Unsupported(
            f"`{target}` reaches {store.url} by addresses that expire after a week, and {why}",
            hint=f"set `time:` to three days at most, {fix}",
        )
    _check_login(store, fix)
    if counting:
        _count(store, fix)


def _check_login(store: Store, fix: str) -> None:
    from launchbay.sync.credentials import find_login  # noqa: PLC0415

    login = find_login(store.options)
    if login.anonymous:
        raise Unsupported(
            f"addresses of {store.url} cannot be made without its keys",
            hint=f"have them in `.env`, {fix}",
        )
    keys = login.keys() if login.keys else None
    if keys is not None and keys.token:
        raise Unsupported(
            f"the keys of {store.url} are for a while, and so would be addresses made with them",
            hint=f"use lasting keys, {fix}",
        )


def _count(store: Store, fix: str) -> None:
    count = sum(1 for _ in islice(store.open().walk(), MOST_OBJECTS + 1))
    if count > MOST_OBJECTS:
        raise Unsupported(
            f"{store.url} has more than {MOST_OBJECTS} objects, and each would need an address",
            hint=f"put them into an archive, {fix}",
        )


def sign(settings: Settings, name: str, endpoints: Mapping[str, str] | None = None) -> str:
    """The value of a secret of ours.

    Args:
        settings: what the configuration says.
        name: the secret.
        endpoints: addresses of services that whoever is given it knows by another name.

    Raises:
        BadRequest: when it is none.
    """
    word, _, url = name.partition(" ")
    if not url:
        raise BadRequest(f"`{name}` is no secret of ours")
    store = find_store(settings, url)
    # What an address leads to is part of its signature.
    inside = (endpoints or {}).get(store.endpoint)
    signer = replace(store, options=replace(store.options, endpoint=inside)) if inside else store
    there = signer.open()
    seconds = int(LASTS.total_seconds())
    if word == PUTS:
        return "\n".join(there.sign(key, seconds=seconds, method="PUT") for key in (ARCHIVE, LOG))
    keys = [entry.key for entry in islice(store.open().walk(), MOST_OBJECTS)]
    lines = [f"{there.sign(key, seconds=seconds)} {json.dumps(key)}" for key in keys]
    return "\n".join(lines)
