"""What was asked for, in the words of a file."""

from __future__ import annotations

from datetime import timedelta

import pytest

from launchbay.core.job import Resources
from launchbay.engine.steps import written_resources


@pytest.mark.parametrize(
    ("need", "written"),
    [
        (Resources(), {}),
        (Resources(nodes=1, processes=1), {}),
        (Resources(nodes=2, processes=4), {"nodes": "2", "processes": "4"}),
        (
            Resources(gpus=0.5, memory_mib=512, time_limit=timedelta(hours=8), hosts=("a",)),
            {"gpus": "0.5", "memory": "512M", "time": "8h", "hostname_whitelist": ["a"]},
        ),
    ],
)
def test_written(need: Resources, written: dict[str, object]) -> None:
    """What nobody asked for is left out, and so is one node with one process."""
    assert written_resources(need) == written
