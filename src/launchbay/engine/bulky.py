"""Code that a target does not hold: an archive in object storage, which runs fetch and unpack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchbay.core import rundir
from launchbay.core.job import CODE_ARCHIVE, CODE_FOLDER
from launchbay.engine.storing import find_store
from launchbay.sync.address import is_storage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from launchbay.core.backend import Weighing
    from launchbay.core.job import Ship
    from launchbay.engine.lab import Lab


def carry_code(
    lab: Lab, backend: Weighing, codes: Iterable[str], ships: Iterable[Ship | None]
) -> dict[str, str]:
    """Have code that the target does not hold where outputs go; the place of each, by its id.

    Raises:
        DataError: when the store does not let us.
    """
    big = [code for code in codes if backend.is_too_big(code)]
    stores = dict.fromkeys(ship.to for ship in ships if ship and is_storage(ship.to))
    if not big or not stores:
        return {}
    to = next(iter(stores))
    for code in big:
        _upload(lab, code, f"{to}/{CODE_FOLDER}/{code}")
    return {code: f"{to}/{CODE_FOLDER}/{code}" for code in big}


def _upload(lab: Lab, code: str, to: str) -> None:
    # Few launches have code of that size.
    from launchbay.backends.kubernetes.packing import pack_code  # noqa: PLC0415

    bucket = find_store(lab.settings, to).open()
    if bucket.head(CODE_ARCHIVE) is None:
        lab.tell(f"sending the code to {to}")
        bucket.put(CODE_ARCHIVE, b"".join(pack_code(rundir.code_folder(lab.project.bay, code))))
