"""Why programs fail, told from their logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually

if TYPE_CHECKING:
    from tests.conftest import Bay


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "oom"),
        ("MemoryError", "oom"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "node"),
        ("ValueError: no", "exit"),
    ],
)
def test_log_tells_the_cause(bay: Bay, line: str, cause: str) -> None:
    """The last lines of a failed run's log say why it failed."""
    bay("run", "sh", "-c", 'echo "$0"; exit 3', line, code=1)
    (row,) = bay.json("ls")

    assert (row["state"], row["cause"], row["exit_code"]) == ("failed", cause, 3)


def test_own_rules_come_first(bay: Bay) -> None:
    """A file beside the configuration adds rules of one's own."""
    folder = bay.home / "config" / "launchbay"
    folder.mkdir(parents=True)
    rule = '- {pattern: "CUDA out of", cause: setup, reason: "too large a batch"}\n'
    (folder / "failures.yaml").write_text(rule)
    bay("run", "sh", "-c", "echo CUDA out of memory; exit 1", code=1)
    (row,) = bay.json("ls")

    assert (row["cause"], row["reason"]) == ("setup", "too large a batch (exit code 1)")


def test_broken_rules_are_named(bay: Bay) -> None:
    """A rule that cannot be is an error of the file, with an example."""
    folder = bay.home / "config" / "launchbay"
    folder.mkdir(parents=True)
    (folder / "failures.yaml").write_text("- {pattern: '(', reason: x}\n")
    said = bay("run", "false", code=2)

    assert "failures.yaml" in said.err
    assert "write a list of" in said.err


def test_failed_run_is_held(bay: Bay) -> None:
    """With `--hold` a run that fails keeps its place until somebody ends it, and has failed."""
    bay("run", "--detach", "--hold", "10m", "sh", "-c", "exit 4")
    eventually(lambda: "keeps its place" in bay.json("ls")[0]["reason"])
    bay("cancel", "--state", "running")
    eventually(lambda: bay.states() == ["failed"])

    assert bay.json("ls")[0]["exit_code"] == 4


def test_watching_tries_again_what_failed_meanwhile(bay: Bay) -> None:
    """A failure that a listing saw first is retried by `bay watch`, as often as was said."""
    mark = bay.home / "mark"
    text = 'if [ -e "$0" ]; then exit 0; fi; touch "$0"; exit 5'
    bay("run", "--detach", "--retries", "exit=1", "sh", "-c", text, str(mark))
    eventually(lambda: bay.states() == ["failed"])
    bay("watch")

    assert [(row["state"], row["attempt"]) for row in bay.json("ls")] == [("succeeded", 2)]
