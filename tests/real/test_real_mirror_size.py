"""Many objects, with little memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conftest import STRESS
from tests.real.test_real_mirror_faults import mirror

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.object_servers import RcloneServer

pytestmark = [pytest.mark.real, pytest.mark.slow]

OBJECTS = 100_000 if STRESS else 20_000
MOST_BYTES = 300_000_000


def test_many_objects_in_little_memory(rclone_server: RcloneServer, tmp_path: Path) -> None:
    """All arrive, and are listed and found unchanged again, in less than 300 MB."""
    options = rclone_server.fresh()
    folder = tmp_path / "here"
    for number in range(OBJECTS // 1000):
        (folder / f"a folder {number}").mkdir(parents=True)
    for number in range(OBJECTS):
        (folder / f"a folder {number % (OBJECTS // 1000)}" / f"object-{number:08d}").write_bytes(
            b"%d" % number
        )

    first = mirror("up", options, folder, tmp_path / "memory")
    again = mirror("up", options, folder, tmp_path / "memory")
    back = mirror("down", options, folder, tmp_path / "memory")

    assert (len(first["sent"]), first["failed"]) == (OBJECTS, [])
    assert (again["sent"], again["same"]) == ([], OBJECTS)
    assert (back["sent"], back["same"]) == ([], OBJECTS)
    assert max(first["peak"], again["peak"], back["peak"]) < MOST_BYTES
