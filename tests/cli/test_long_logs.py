"""Logs that are longer than memory should be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

SIZE = 100_000_000
END = "0123456789abcdef\nValueError: no\n"
FILE = f"""\
name: long
command: |
  yes 0123456789abcdef | head -c {SIZE}
  echo; echo "ValueError: no"; exit 3
"""


def test_long_log_takes_little_memory(bay: Bay, tmp_path: Path) -> None:
    """Following it, printing it, its end, what is found in it, and what it says of the failure."""
    bay.write("bay.yaml", FILE)
    seen = tmp_path / "seen"

    def weigh(*words: str, code: int = 0) -> str:
        assert bay.weigh(*words, to=seen, code=code) < 300
        return seen.read_text()

    followed = weigh("run", code=1)
    assert len(followed) == SIZE + len("\nValueError: no\n")
    assert followed.endswith(END)
    assert weigh("logs") == followed
    assert weigh("logs", "-f") == followed
    assert weigh("logs", "-n", "2") == END
    assert weigh("logs", "-n", "2", "-f") == END
    assert weigh("logs", "--grep", "Value") == "ValueError: no\n"
    assert weigh("show", "long").endswith("ValueError: no\n")


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\nc\n", 0, ""),
        ("a\nb\n", 5, "a\nb\n"),
        ("bar\rbar\nend\n", 1, "end\n"),
        ("\n\n\n", 2, "\n\n"),
        ("", 3, ""),
    ],
)
def test_last_lines(bay: Bay, text: str, lines: int, expected: str) -> None:
    """So many, also of a log that does not end with a line's end."""
    bay.write("text", "")
    (bay.project / "text").write_bytes(text.encode())
    bay("run", "--", "cat", "text")

    assert bay("logs", "-n", str(lines)).out.replace("\r", "\n") == expected.replace("\r", "\n")
