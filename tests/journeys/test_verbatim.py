"""What is typed reaches the program byte for byte."""

from __future__ import annotations

import json
import random
import string
from typing import TYPE_CHECKING

import pytest
from tests.conftest import STRESS, Bay, eventually

from launchbay.backends.machine.backend import MachineBackend, MachineOptions
from launchbay.core.job import Argv, Job
from launchbay.core.run import Handle
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from pathlib import Path

    from launchbay.core.backend import Refusal

COUNT = 10_000 if STRESS else 1_000
PIECES = [
    *string.printable,
    "\\n",
    "$(id)",
    "`id`",
    "${HOME}",
    "ü",
    "日本",
    "🚀",
    "\u200b",
    "--",
    "<v>",
    "{{",
    "'\"'",
]
RECORDER = """#!/bin/sh
# Its arguments, each ended by a NUL, in its own outputs.
for word; do printf '%s\\0' "$word"; done >"$BAY_OUT/words"
"""


def word(chance: random.Random, *, empty: bool = True) -> str:
    """A nasty word."""
    length = chance.choice([0, 1, 1, 2, 3, 5, 8] if empty else [1, 1, 2, 3, 5, 8])
    text = "".join(chance.choice(PIECES) for _ in range(length))
    return f"-{text}" if chance.random() < 0.1 else text


@pytest.fixture
def recorder(bay: Bay) -> str:
    """A program that records its arguments."""
    path = bay.write("record.sh", RECORDER)
    path.chmod(0o755)
    return str(path)


def received(run: Path) -> list[str]:
    """What the recorder of a run was given."""
    return (run / "out" / "words").read_bytes().decode().split("\0")[:-1]


@pytest.mark.slow
def test_argument_vectors_arrive(bay: Bay, recorder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated argument vectors, through plan, queue and run.sh to the program."""
    chance = random.Random(1)
    sent = {
        f"v-a{number}": [word(chance) for _ in range(chance.randrange(6))]
        for number in range(COUNT)
    }
    monkeypatch.setenv("XDG_STATE_HOME", str(bay.home / "state"))
    backend = MachineBackend("local", MachineOptions(root=bay.home, parallel=4), LocalHost())
    jobs = [
        Job(run_id=run_id, name="v", experiment="v", command=Argv((recorder, *words)))
        for run_id, words in sent.items()
    ]
    handles = [answer for plan in backend.plan(jobs) for answer in backend.submit(plan)]
    assert all(isinstance(handle, Handle) for handle in handles)
    eventually(lambda: _all_ended(backend, handles), within_s=600)

    assert {run_id: received(bay.home / "runs" / run_id) for run_id in sent} == sent


def _all_ended(backend: MachineBackend, handles: list[Handle | Refusal]) -> bool:
    known = [handle for handle in handles if isinstance(handle, Handle)]
    return all(status.state.final for status in backend.poll(known).values())


def test_typed_vectors_arrive(bay: Bay, recorder: str) -> None:
    """The same, typed: every word after the command's first belongs to the command."""
    chance = random.Random(3)
    sent = [[word(chance) for _ in range(5)] for _ in range(8)]
    sent += [["--", "-h", "--help", "lr=1", "x.yaml", "-q"]]
    ids = [bay("run", "-q", "--", recorder, *words).out.strip() for words in sent]

    assert [received(bay.project / ".bay/runs" / run_id) for run_id in ids] == sent


@pytest.mark.slow
def test_parameter_values_arrive_bare_and_quoted(bay: Bay, recorder: str) -> None:
    """Values through `<v>` bare, in "…" and in '…'; empty ones only inside quotes."""
    chance = random.Random(2)
    values = sorted({word(chance, empty=False) for _ in range(COUNT)})
    bay.write(
        "bay.yaml",
        f"""command: |
  {recorder} "<v>" '<v>' x<v>y "a <v> b" 'a <v> b' <v>
params: {{v: {json.dumps(values, ensure_ascii=False)}}}
parallel: 2
""",
    )
    bay("run", "-q", "--yes")
    rows = bay.json("ls", "--all")
    seen = [received(bay.project / ".bay/runs" / row["id"]) for row in rows]

    assert [row["params"]["v"] for row in rows] == values
    assert seen == [
        [value, value, f"x{value}y", f"a {value} b", f"a {value} b", value] for value in values
    ]


def test_empty_value_arrives_inside_quotes(bay: Bay, recorder: str) -> None:
    """An empty value in quotes is a word, standing alone it is none."""
    bay.write("bay.yaml", f"""command: {recorder} "<v>" '<v>' <v> x\nparams: {{v: ['']}}\n""")
    bay("run", "-q")
    (row,) = bay.json("ls", "--all")

    assert received(bay.project / ".bay/runs" / row["id"]) == ["", "", "x"]


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
