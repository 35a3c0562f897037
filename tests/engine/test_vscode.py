"""Launch entries of VS Code: what is made of a command, and what becomes of the user's file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from launchbay.core.errors import ConfigError, StoreError
from launchbay.engine.vscode import find_python, insert_entries, make_entry, write_entries

FILE = Path("launch.json")
NEW = {"name": "new", "type": "debugpy"}
USERS = """\
// Mine: https://example.org//x
{
  "version": "0.2.0",
  "configurations": [
    { "name": "a", "url": "http://localhost:1//p", }, // the first
    /* once more */
    {
      "name": "b",   "args": [ 1,2 ]
    } // the last
  ],
  "compounds": [],
}
"""


def insert(text: str, *names: str, overwrite: bool = False) -> tuple[str, list[str]]:
    """The text with entries of these names."""
    entries = [{**NEW, "name": name} for name in names]
    after, outcomes = insert_entries(text, entries, file=FILE, overwrite=overwrite)
    return after, list(outcomes)


def test_a_new_entry_leaves_every_other_byte() -> None:
    """It stands behind the last one, laid out like the file, and only a comma is added."""
    after, outcomes = insert(USERS, "new")

    assert outcomes == ["added"]
    assert after == USERS.replace(
        "    } // the last\n",
        '    }, // the last\n    {\n      "name": "new",\n      "type": "debugpy"\n    }\n',
    )


def test_an_entry_that_is_there_is_left_alone() -> None:
    """Neither it nor anything else changes, and that is said."""
    assert insert(USERS, "a", "b") == (USERS, ["exists", "exists"])


def test_overwriting_replaces_exactly_its_text() -> None:
    """Comments, commas and other entries around it stay."""
    after, outcomes = insert(USERS, "a", "c", overwrite=True)
    old = '{ "name": "a", "url": "http://localhost:1//p", }'
    new = '{\n      "name": "a",\n      "type": "debugpy"\n    }'
    third = '},\n    {\n      "name": "c",\n      "type": "debugpy"\n    }\n  ],\n'

    assert outcomes == ["overwritten", "added"]
    assert after.replace(new, old) == USERS.replace(
        "} // the last\n  ],\n", third.replace("},", "}, // the last", 1)
    )


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"configurations":[]}', '{"configurations":[\n    NEW\n]}'),
        ('{"configurations":[{"name":"x"}]}', '{"configurations":[{"name":"x"},\n    NEW\n]}'),
        ('{\n\t"configurations": [\n\t\t{},\n\t]\n}', None),
        ('{"configurations": [ // none yet\n]}', '{"configurations": [ // none yet\n    NEW\n]}'),
        ('{"configurations": [] /* [] */}', '{"configurations": [\n    NEW\n] /* [] */}'),
    ],
)
def test_lists_of_every_form_are_added_to(text: str, rest: str | None) -> None:
    """Empty, on one line, with a trailing comma, with tabs, with a comment inside."""
    after, outcomes = insert(text, "new")
    entry = json.dumps(NEW, indent=4).replace("\n", "\n    ")
    tabbed = '\n\t\t{\n\t\t\t"name": "new",\n\t\t\t"type": "debugpy"\n\t\t},\n\t]\n}'

    assert outcomes == ["added"]
    assert after == (rest.replace("NEW", entry) if rest else text.replace("\n\t]\n}", tabbed))
    assert insert(after, "new")[1] == ["exists"]


def test_the_ends_of_lines_are_the_files_own() -> None:
    """A file from Windows stays one."""
    after, _ = insert(USERS.replace("\n", "\r\n"), "new")
    assert re.findall(r"(?<!\r)\n", after) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "configurations": {}\n}', "launch.json:2:21: it has no list `configurations`"),
        ("// none\n{}", "launch.json:2:1: it has no list `configurations`"),
        ('{"configurations": [}', "launch.json:1:21: no value"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_line(text: str, said: str) -> None:
    """What is wrong and where; nobody guesses."""
    with pytest.raises(ConfigError, match=re.escape(said)):
        insert(text, "new")


def test_writing_keeps_mode_and_link_and_makes_what_is_missing(tmp_path: Path) -> None:
    """A file that several may read stays so, a link stays a link, a broken file stays as it is."""
    own = tmp_path / "own.json"
    own.write_text('{"configurations": []}')
    own.chmod(0o640)
    link = tmp_path / "launch.json"
    link.symlink_to(own)
    write_entries(link, [NEW], overwrite=False)
    fresh = tmp_path / ".vscode" / "launch.json"
    write_entries(fresh, [NEW], overwrite=False)
    broken = tmp_path / "broken.json"
    broken.write_bytes(b'{"configurations": [\xff]}')
    with pytest.raises(ConfigError, match="UTF-8"):
        write_entries(broken, [NEW], overwrite=True)

    assert link.is_symlink()
    assert own.stat().st_mode & 0o777 == 0o640
    assert json.loads(own.read_text()) == {"configurations": [NEW]}
    assert json.loads(fresh.read_text()) == {"version": "0.2.0", "configurations": [NEW]}
    assert broken.read_bytes() == b'{"configurations": [\xff]}'
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        ".vscode",
        "broken.json",
        "launch.json",
        "own.json",
    ]


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """One sentence, and what to see to."""
    (tmp_path / ".vscode").write_text("a file")
    with pytest.raises(StoreError, match="cannot be written"):
        write_entries(tmp_path / ".vscode" / "launch.json", [NEW], overwrite=False)


@pytest.mark.parametrize(
    ("command", "program", "args"),
    [
        ("python src/avg.py data/1.txt", "src/avg.py", ("data/1.txt",)),
        ("make data; python x.py 2>&1 | tee log", "x.py", ()),
        ("python x.py 2 > log --lr 1", "x.py", ("2", "--lr", "1")),
        ("python -u -X dev -m pkg.train --lr 'a b' # last", "pkg.train", ("--lr", "a b")),
        ('cd /w && python3.11 \\\n x.py \\\n  --a "$HOME"', "x.py", ("--a", "$HOME")),
        ("poetry run python x.py", "x.py", ()),
        ("conda run -n env python x.py", "x.py", ()),
        ("env A=1 .venv/bin/python x.py", "x.py", ()),
        ("python -c 'import y'\npython x.py a", "x.py", ("a",)),
        ("(python x.py)", "x.py", ()),
    ],
)
def test_the_python_of_a_command_is_found(
    command: str, program: str, args: tuple[str, ...]
) -> None:
    """Behind other commands, variables and runners, without what the shell keeps for itself."""
    found = find_python(command)
    assert found is not None
    assert (found.module or found.script, found.args) == (program, args)


@pytest.mark.parametrize(
    "command", ["./train.sh", "echo python x.py", "which python", "python -c 'x'", "python", ""]
)
def test_a_command_without_a_program_of_python_has_none(command: str) -> None:
    """Nothing is made up."""
    assert find_python(command) is None


def test_an_entry_has_what_a_local_run_has(tmp_path: Path) -> None:
    """Variables of the command over those of the file, the code on the path, the tracker off."""
    (tmp_path / "src").mkdir()
    (tmp_path / ".env").write_text("A=1\n")
    found = find_python("export A=1; B=2 PYTHONPATH=lib ./py/python -O -m pkg --x; python no.py")
    assert found is not None
    entry = make_entry("run-1", found, {"A": "0", "C": "3"}, tmp_path)

    assert entry == {
        "name": "run-1",
        "type": "debugpy",
        "request": "launch",
        "module": "pkg",
        "args": ["--x"],
        "pythonArgs": ["-O"],
        "cwd": "${workspaceFolder}",
        "envFile": "${workspaceFolder}/.env",
        "env": {
            "WANDB_MODE": "offline",
            "A": "1",
            "C": "3",
            "B": "2",
            "PYTHONPATH": "${workspaceFolder}:${workspaceFolder}/src:lib",
        },
        "console": "integratedTerminal",
        "justMyCode": False,
    } | {"python": "${workspaceFolder}/py/python"}


def test_an_entry_stands_where_the_command_has_gone(tmp_path: Path) -> None:
    """After `cd` the program counts from there, and without `.env` none is named."""
    found = find_python("cd src; cd a && WANDB_MODE=online python x.py")
    assert found is not None
    entry = make_entry("x", found, {}, tmp_path)

    assert (entry["cwd"], entry["program"]) == (
        "${workspaceFolder}/src/a",
        "${workspaceFolder}/src/a/x.py",
    )
    assert entry["env"] == {"WANDB_MODE": "online", "PYTHONPATH": "${workspaceFolder}"}
    assert "envFile" not in entry
