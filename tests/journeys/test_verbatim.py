"""What is typed reaches the program byte for byte."""

from __future__ import annotations

import json
import random
import string
from typing import TYPE_CHECKING

import pytest

from tests.conftest import STRESS, Bay

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 10_000 if STRESS else 1_000
BATCH = 250
PIECES = [*string.printable, "\\n", "$(id)", "`id`", "${HOME}", "ü", "日本", "🚀", "\u200b", "--", "<v>", "{{", "'\"'"]
RECORDER = """
import json, os, sys
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([os.environ["BAY_RUN_ID"], sys.argv[2:]]) + "\\n")
"""


def word(chance: random.Random, *, empty: bool = True) -> str:
    """A nasty word."""
    length = chance.choice([0, 1, 1, 2, 3, 5, 8] if empty else [1, 1, 2, 3, 5, 8])
    text = "".join(chance.choice(PIECES) for _ in range(length))
    return f"-{text}" if chance.random() < 0.1 else text


@pytest.mark.slow
def test_argument_vectors_arrive(bay: Bay) -> None:
    """Generated argument vectors, each a typed command of its own."""
    chance = random.Random(1)
    script, record = bay.write("record.py", RECORDER), bay.home / "record"
    sent = [[word(chance) for _ in range(chance.randrange(6))] for _ in range(COUNT // BATCH)]
    received = []
    for words in sent:
        (run_id,) = bay("run", "-q", "--", "python3", str(script), str(record), *words).out.split()
        received.append(read(record)[run_id])

    assert received == sent


@pytest.mark.slow
def test_parameter_values_arrive_bare_and_quoted(bay: Bay) -> None:
    """Values through `<v>` bare, in "…" and in '…'; empty ones only inside quotes."""
    chance = random.Random(2)
    script, record = bay.write("record.py", RECORDER), bay.home / "record"
    values = sorted({word(chance, empty=False) for _ in range(COUNT)})
    bay.write(
        "bay.yaml",
        f"""command: |
  python3 {script} {record} "<v>" '<v>' x<v>y "a <v> b" 'a <v> b' <v>
params: {{v: {json.dumps(values, ensure_ascii=False)}}}
parallel: 2
""",
    )
    bay("run", "-q", "--yes")
    runs = {row["id"]: row["params"]["v"] for row in bay.json("ls", "--all")}
    received = read(record)

    assert sorted(runs.values()) == values
    assert {run: words for run, words in received.items()} == {
        run: [value, value, f"x{value}y", f"a {value} b", f"a {value} b", value]
        for run, value in runs.items()
    }


def test_parameters_file_equals_what_the_program_got(bay: Bay) -> None:
    """`$BAY_PARAMS` holds the parameters as they were given."""
    code = "import os, sys; print(open(os.environ['BAY_PARAMS']).read())"
    said = bay("run", "lr=1e-5", "--", "python3", "-c", code)

    assert json.loads(said.out) == {"lr": "1e-5"}


def test_typed_command_is_three_words_and_one(bay: Bay) -> None:
    """A quoted argument stays one argument; a script runs with python."""
    bay.write("t.py", "import sys; print(sys.argv[1:])")
    said = bay("run", "t.py", "--msg", "a b")

    assert said.out == "['--msg', 'a b']\n"


def test_numbers_are_kept_as_written(bay: Bay) -> None:
    """No number is read and written again."""
    values = ["0.000000008192", "1.50", "010", "true"]
    bay.write("bay.yaml", f"command: echo <v>\nparams:\n  v: [{', '.join(values)}]\n")
    plan = bay.json("plan")

    assert [row["command"] for row in plan] == [f"echo {value}" for value in values]


def read(record: Path) -> dict[str, list[str]]:
    return dict(json.loads(line) for line in record.read_text().splitlines())
