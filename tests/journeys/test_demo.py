"""The first five minutes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import require_program

if TYPE_CHECKING:
    from tests.conftest import Bay

ROOT = Path(__file__).parents[2]


def demo(bay: Bay) -> subprocess.CompletedProcess[str]:
    """`make demo`, without the set-up that comes before it."""
    tools = bay.home / "bin"
    tools.mkdir(exist_ok=True)
    command = tools / "bay"
    command.write_text(f'#!/bin/sh\nexec {bay.python} -m launchbay "$@"\n')
    command.chmod(0o755)
    return subprocess.run(
        ["sh", str(ROOT / "scripts" / "demo.sh")],
        env={**bay.environment, "BAY": str(command), "BAY_DEMO": str(bay.project)},
        capture_output=True,
        text=True,
        check=True,
    )


def test_demo_ends_with_a_table_and_does_nothing_twice(bay: Bay) -> None:
    """The table of results and where the outputs are; the second time nothing, and why."""
    first, second = demo(bay), demo(bay)

    assert first.stdout.count("succeeded") == 16
    assert "outputs: .bay/runs/*/out · `bay fetch`" in first.stderr
    assert "12 runs · 12 done · 0 to submit" in second.stderr
    assert "nothing to submit:" in second.stderr
    assert len(bay.states()) == 12


def test_planning_needs_no_network(bay: Bay) -> None:
    """A plan in a network namespace without any interface is the same plan."""
    require_program("unshare")
    bay.write("bay.yaml", "command: echo <x>\nparams: {x: [1, 2]}\n")
    inside = subprocess.run(
        ["unshare", "--net", "--map-root-user", bay.python, "-m", "launchbay", "plan", "--json"],
        cwd=bay.project,
        env=bay.environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert inside.stdout == bay("plan", "--json").out
