"""Nothing is loaded that is not used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from launchbay.cli.main import COMMANDS, GROUPS, render_help

if TYPE_CHECKING:
    from tests.conftest import Bay

PROGRAM = """
import runpy, sys
sys.argv = ["bay", *sys.argv[1:]]
try:
    runpy.run_module("launchbay", run_name="__main__")
except SystemExit:
    pass
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""
DEAR = {"yaml", "pydantic", "rich", "pathspec", "launchbay.engine.launch", "concurrent.futures"}


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        (["--help"], {*DEAR, "click", "sqlite3", "dataclasses"}),
        (
            ["ls", "--no-refresh"],
            {*DEAR, "launchbay.backends.machine.backend", "importlib.metadata"},
        ),
        (["ls"], DEAR),
        (["show", "x"], DEAR),
    ],
)
def test_a_command_loads_only_what_it_needs(
    bay: Bay, words: list[str], forbidden: set[str]
) -> None:
    """The start-up path stays short."""
    import subprocess  # noqa: PLC0415

    done = subprocess.run(
        [bay.python, "-c", PROGRAM, *words],
        cwd=bay.project,
        env=bay.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.splitlines()[-1].split())

    assert "launchbay.cli.main" in loaded
    assert loaded & forbidden == set()


def test_help_lists_the_commands_of_the_groups() -> None:
    """The first page has the four groups, the whole list has every command."""
    short, whole = render_help(everything=False), render_help(everything=True)
    grouped = {name for name, (group, _) in COMMANDS.items() if group}

    assert all(f"\n{group}:" in short for group in GROUPS)
    assert all(f"\n  {name} " in short for name in grouped)
    assert all(f"\n  {name} " in whole for name in COMMANDS)
    assert max(map(len, whole.splitlines())) <= 90


def test_every_command_explains_itself(bay: Bay) -> None:
    """Each command loads and has help."""
    for name in COMMANDS:
        assert bay(name, "--help").out.startswith(f"Usage: bay {name}")


def test_version(bay: Bay) -> None:
    """`bay --version` tells the version."""
    from launchbay import __version__  # noqa: PLC0415

    assert bay("--version").out == f"bay, version {__version__}\n"
