"""The modules of the node import each other by their bare names, and tests import them so too."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.node.workshop import NODE, Desk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

sys.path.append(str(NODE))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """An empty queue; whatever runs there is ended afterwards."""
    made = Desk(tmp_path)
    yield made
    made.end()
