"""Runs that fail and are tried again by themselves, on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conftest import eventually

if TYPE_CHECKING:
    from tests.conftest import Bay

FAILS_ONCE = 'echo "this is attempt $BAY_ATTEMPT"; [ "$BAY_ATTEMPT" = 2 ]'


def write(bay: Bay, command: str, more: str = "") -> None:
    """An experiment that may be tried twice."""
    bay.write("bay.yaml", f"retries: {{exit: 1}}\n{more}command: |\n  {command}\n")


def test_log_of_each_attempt_is_printed(bay: Bay) -> None:
    """Whoever follows a run sees what its second attempt prints, from its first line."""
    write(bay, FAILS_ONCE)
    said = bay("run")

    assert said.out.splitlines() == ["this is attempt 1", "this is attempt 2"]


def test_waiting_tries_again_what_failed_before(bay: Bay) -> None:
    """A failure that a listing saw, while nobody followed, has its second attempt too."""
    write(bay, FAILS_ONCE)
    bay("run", "-d")
    eventually(lambda: bay.states() == ["failed"])
    bay("wait", "-e", "project")

    assert [row["attempt"] for row in bay.json("ls", "--all")] == [2]


def test_failing_fast_waits_for_the_last_attempt(bay: Bay) -> None:
    """What is tried again has not failed yet, and the others go on."""
    write(bay, FAILS_ONCE, "params: {n: [1, 2]}\n")
    bay("run", "-q", "--fail-fast")

    assert bay.states() == ["succeeded"] * 2


def test_what_is_tried_again_counts_once(bay: Bay) -> None:
    """The lines of a sweep count runs, however often each ends."""
    write(bay, FAILS_ONCE, "params: {n: [1, 2]}\n")
    lines = [line for line in bay("run").err.splitlines() if line.startswith("[")]

    assert len(lines) == 4
    assert lines[-1].startswith("[2/2] ")
