"""Logs of runs whose pods have ended: what the cluster kept, at the place where it belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.stubs import write_program

from launchbay.backends.kubernetes_calls import Kubectl
from launchbay.backends.kubernetes_logs import read_log
from launchbay.core.run import Handle
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from launchbay.backends.kubernetes_status import Objects

HANDLE = Handle("run-aaaaa", "lab", "run-aaaaa")
ENDED = """\
#!/bin/sh
case $* in
*exec*) echo 'error: cannot exec into a container in a completed pod' >&2; exit 1 ;;
*logs*) echo x >>"$0.asked"; printf 'defgh\\n' ;;
esac
"""
RUNNING = """\
#!/bin/sh
case $* in
*exec*) printf '6\\nab\\303' ;;
*) exit 1 ;;
esac
"""


class Seen:
    """Objects of which only the length of a log is asked."""

    def __init__(self, size: int | None) -> None:
        self.size = size

    def log_size(self, name: str) -> int | None:
        assert name == "run-aaaaa"
        return self.size


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl of the test's own."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "kubectl"


def read(offset: int, size: int | None) -> tuple[str, str, bool]:
    def look(handles: Sequence[Handle]) -> Objects:
        assert handles == [HANDLE]
        return Seen(size)  # type: ignore[return-value]

    kubectl = Kubectl(LocalHost(), "lab", "space")
    chunk = read_log(kubectl, HANDLE, rank=0, offset=offset, look=look)
    return chunk.text, chunk.cursor, chunk.more


def test_end_that_the_cluster_kept_is_put_where_it_belongs(program: Path) -> None:
    """Of a log of nine bytes the last six are left: whoever had seen four misses the fifth on."""
    write_program(program, ENDED)

    assert read(0, 9) == ("defgh\n", "9", False)
    assert read(5, 9) == ("fgh\n", "9", False)


def test_whole_log_is_asked_for_no_more(program: Path) -> None:
    """Whoever has all of a log does not fetch it again."""
    write_program(program, ENDED)

    assert read(9, 9) == ("", "9", False)
    assert not program.with_name("kubectl.asked").exists()


def test_log_of_unknown_length_begins_at_its_beginning(program: Path) -> None:
    """A pod that was killed said nothing of its log."""
    write_program(program, ENDED)

    assert read(2, None) == ("fgh\n", "6", False)


def test_half_a_character_waits_for_its_rest(program: Path) -> None:
    """A piece may end inside of a character, and says that more is there."""
    write_program(program, RUNNING)

    assert read(0, None) == ("ab", "2", True)
