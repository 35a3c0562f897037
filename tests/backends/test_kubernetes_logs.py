"""Logs of runs whose pods have ended: what the cluster kept, at the place where it belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.stubs import write_program

from launchbay.backends.kubernetes import logs
from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.logs import NOT_FOUND, read_log
from launchbay.core.errors import Unreachable
from launchbay.core.run import Handle
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from launchbay.backends.kubernetes.status import Objects

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
    """Objects of which only the length of a log is asked, and whether the run is over."""

    def __init__(self, size: int | None, *, over: bool) -> None:
        self.size, self.over = size, over

    def is_over(self, name: str) -> bool:
        assert name == "run-aaaaa"
        return self.over

    def log_size(self, name: str) -> int | None:
        assert name == "run-aaaaa"
        return self.size


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl of the test's own."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "kubectl"


def read(offset: int, size: int | None, *, over: bool = True) -> tuple[str, str, bool]:
    def look(handles: Sequence[Handle]) -> Objects:
        assert handles == [HANDLE]
        return Seen(size, over=over)  # type: ignore[return-value]

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


def lose(program: Path, failures: int) -> None:
    """A node that does not find the log for so many times."""
    lost = f'[ "$(wc -l <"$0.asked")" -gt {failures} ] || exec echo "{NOT_FOUND}x://1"; printf'
    write_program(program, ENDED.replace("printf", lost))


def test_a_node_that_does_not_find_it_is_not_the_log(program: Path) -> None:
    """What it says then is asked for again, and never taken for what the run printed."""
    lose(program, 1)

    assert read(0, 6) == ("defgh\n", "6", False)


def test_a_node_that_never_finds_it_has_not_answered(program: Path) -> None:
    """A log that has a length is not empty."""
    lose(program, 9)

    with pytest.raises(Unreachable, match="log of `run-aaaaa`: unable to retrieve container"):
        read(2, 6)


@pytest.mark.parametrize(("size", "refused"), [(6, True), (2, False), (None, False)])
def test_log_that_is_refused(program: Path, *, size: int | None, refused: bool) -> None:
    """Why is told where there is one; nobody knows of a pod that has gone."""
    why = "echo 'Error from server (Forbidden): pods/log is forbidden' >&2; exit 1; printf"
    write_program(program, ENDED.replace("printf", why))

    if refused:
        with pytest.raises(Unreachable, match="log of `run-aaaaa`: pods/log is forbidden"):
            read(2, size)
    else:
        assert read(2, size) == ("", "2", False)


def test_log_of_unknown_length_begins_at_its_beginning(program: Path) -> None:
    """A pod that was killed said nothing of its log."""
    write_program(program, ENDED)

    assert read(2, None) == ("fgh\n", "6", False)


def test_run_that_is_about_to_end_is_waited_for(program: Path) -> None:
    """All that is known would come once more, and what it is of nobody could tell yet."""
    write_program(program, ENDED)

    assert read(2, None, over=False) == ("", "2", False)
    assert read(0, None, over=False) == ("defgh\n", "6", False)


def test_whoever_may_not_enter_reads_what_the_cluster_keeps(program: Path) -> None:
    """Also while it goes on."""
    denied = "echo 'Error from server (Forbidden): pods/exec is forbidden' >&2; exit 1"
    write_program(program, ENDED.replace("*exec*) ", f"*exec*) {denied};"))

    assert read(2, None, over=False) == ("fgh\n", "6", False)


@pytest.mark.parametrize("size", [6, None])
def test_long_log_is_handed_out_in_pieces(
    program: Path, monkeypatch: pytest.MonkeyPatch, size: int | None
) -> None:
    """Nobody has more of it in memory than a piece; of one that grows no more is taken."""
    monkeypatch.setattr(logs, "LOG_PIECE", 4)
    taken = r'for word; do :; done; printf "defgh\n" | head -c "${word#*=}"'
    write_program(program, ENDED.replace("printf 'defgh\\n'", taken) if size is None else ENDED)

    assert read(0, size) == ("defg", "4", True)
    assert read(4, size) == ("h\n", "6", False)


def test_half_a_character_waits_for_its_rest(program: Path) -> None:
    """A piece may end inside of a character, and says that more is there."""
    write_program(program, RUNNING)

    assert read(0, None) == ("ab", "2", True)
