"""A plan's sheet: what stands in it, and what a shell makes of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.conftest import require_program

from launchbay.backends.sheet import (
    nest,
    parse_document,
    render_document,
    render_exports,
    render_sheet,
    secret_groups,
)
from launchbay.core.host import encoded
from launchbay.core.job import Argv, Job, Script, from_record

if TYPE_CHECKING:
    from collections.abc import Sequence

NODE = Path(__file__).parents[2] / "src" / "launchbay" / "node"
SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}
VALUES = (
    "plain",
    "",
    "two words",
    "first\nsecond\n\nlast\n",
    "it's \"quoted\" 'twice'",
    "$HOME `date` $(id) ${x:-y} $'n'",
    "back\\slash \\n \\\\",
    "größe ✓ 数",
    "\udcff\udc80 not UTF-8",
    "==> sheet <==\n",
    "\ttab\rreturn\x01",
    "-n",
    "* ? [a-z] ~ # ; & | < >",
)
TOLD = 'printf %s "$1" >"$BAY_OUT/word"; printf %s "$VALUE" >"$BAY_OUT/variable"'


def job(number: int = 0, **fields: Any) -> Job:
    given = {
        "run_id": f"lr-{number}-aaaaa",
        "name": f"lr-{number}",
        "experiment": "sweep",
        "command": Argv(("true",)),
    }
    return Job(**{**given, **fields})


def sheet(jobs: Sequence[Job], after: str = "") -> dict[str, str]:
    return render_sheet(jobs, target="brc", plan="plan", after=after)


def run_all(root: Path, shell: str, jobs: Sequence[Job]) -> None:
    """Write the plan and have a shell make and run each of its runs."""
    words = SHELLS[shell]
    shutil.copytree(NODE, root / "node" / "v", ignore=shutil.ignore_patterns("__pycache__"))
    plan = root / "plans" / "plan"
    plan.mkdir(parents=True)
    for name, text in parse_document(render_document(sheet(jobs))).items():
        (plan / name).write_bytes(encoded(text))
    for index in range(len(jobs)):
        argv = [require_program(words[0]), *words[1:], str(root / "node/v/task.sh"), str(plan)]
        subprocess.run([*argv, str(index)], check=True, env={"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("shell", SHELLS)
def test_every_value_arrives_verbatim(tmp_path: Path, shell: str) -> None:
    """Words, variables, parameters and set-up are the same bytes on the other side."""
    jobs = [
        job(
            number,
            command=Argv(("sh", "-c", TOLD, "sh", value)),
            env={"VALUE": value},
            params={"value": value},
            setup=f": <<'END'\n{value}\nEND\n",
        )
        for number, value in enumerate(VALUES)
    ]
    run_all(tmp_path, shell, jobs)

    for one, value in zip(jobs, VALUES, strict=True):
        run = tmp_path / "runs" / one.run_id
        assert (run / "out/word").read_bytes() == encoded(value)
        assert (run / "out/variable").read_bytes() == encoded(value)
        assert json.loads((run / "params.json").read_text()) == {"value": value}
        assert (run / "setup.sh").read_bytes() == encoded(one.setup)
        assert from_record(json.loads((run / "job.json").read_text())) == one


@pytest.mark.parametrize("shell", SHELLS)
def test_what_all_have_in_common(tmp_path: Path, shell: str) -> None:
    """Text that all runs share stands once in the plan, and in every run's folder."""
    text = 'printf %s "$A $BAY_NAME" >"$BAY_OUT/said"\n# it\'s the same\n'
    jobs = [job(number, command=Script(text), env={"A": "a 'b'"}) for number in range(3)]
    files = sheet(jobs)
    run_all(tmp_path, shell, jobs)

    assert (files["shared.sh"].count("the same"), files["sheet"].count("the same")) == (2, 0)
    for one in jobs:
        run = tmp_path / "runs" / one.run_id
        assert (run / "out/said").read_text() == f"a 'b' {one.name}"
        assert from_record(json.loads((run / "attempts/1/job.json").read_text())) == one
        assert [path.name for path in run.glob("attempts/1/draft*")] == []


def test_line_is_short() -> None:
    """A run of a large sweep takes little more than what is its own."""
    jobs = [job(number, params={"lr": str(number)}) for number in range(1000)]

    assert len(sheet(jobs)["sheet"]) < 450 * len(jobs)


def test_one_line_a_run() -> None:
    """Whatever a value holds, the line of a run begins with its id and attempt."""
    jobs = [job(number, command=Script(value or ":")) for number, value in enumerate(VALUES)]
    lines = sheet(jobs)["sheet"].split("\n")

    assert lines.pop() == ""
    assert [line.split(" ")[:2] for line in lines] == [[one.run_id, "1"] for one in jobs]


def test_run_says_who_it_is() -> None:
    """Nobody's `env:` changes what tells a run who it is; the trackers' names it does."""
    own = {"BAY_RUN_ID": "x", "WANDB_NAME": "mine", "BAY_TARGET": "y"}
    (text,) = sheet([job(env=own)])["sheet"].splitlines()

    assert "export BAY_RUN_ID=lr-0-aaaaa" in text
    assert "export BAY_TARGET=brc" in text
    assert "export WANDB_NAME=mine" in text
    assert "BAY_RUN_ID=x" not in text
    assert "WANDB_NAME=lr-0" not in text


def test_secrets_are_named_not_told() -> None:
    """Runs with the same secrets read the same file, and no value stands in the sheet."""
    jobs = [job(0, secrets=("A",)), job(1, secrets=("A", "B")), job(2, secrets=("A",))]
    lines = sheet(jobs)["sheet"].splitlines()

    assert secret_groups(jobs) == [("A",), ("A", "B")]
    assert [line.count("secrets-0.sh") for line in lines] == [1, 0, 1]
    assert [line.count("secrets-1.sh") for line in lines] == [0, 1, 0]


def test_exports_leave_out_what_no_shell_can_set() -> None:
    """Names that are no names, our own and the shell's are left out; the rest is quoted."""
    values = {"A": "it's", "b c": "x", "bay_run": "x", "UID": "0", "1A": "x", "_": "x"}

    assert render_exports(values) == "export A='it'\"'\"'s'\n"


def test_parameters_are_nested() -> None:
    """Dotted keys become objects, unless a value is there already."""
    given_params = {"m.lr": "1", "m.deep.x": "2", "seed": "0", "seed.y": "3"}

    assert nest(given_params) == {
        "m": {"lr": "1", "deep": {"x": "2"}},
        "seed": "0",
        "seed.y": "3",
    }


LINES = some.text(max_size=20).map(
    lambda text: "".join(f"{line}\n" for line in text.split("\n") if not line.startswith("==> "))
)


@given(some.dictionaries(some.sampled_from(["job.sh", "sheet", "pack.json", "behind"]), LINES))
def test_document_is_taken_apart_again(files: dict[str, str]) -> None:
    """The files of a plan come back from the one text that they are shown as."""
    assert parse_document(render_document(files)) == files


def test_folder_of_a_run(tmp_path: Path) -> None:
    """A run's folder holds what is its own, closed to everybody else."""
    run_all(tmp_path, "dash", [job(), job(1)])
    run = tmp_path / "runs" / "lr-0-aaaaa"

    names = {"attempts", "command.sh", "env.sh", "job.json", "out", "params.json", "work"}
    assert {path.name for path in run.iterdir()} == names
    assert [path.stat().st_mode & 0o077 for path in run.iterdir()] == [0] * len(names)


@pytest.mark.parametrize("shell", SHELLS)
def test_modules_of_the_project_are_those_of_the_code(tmp_path: Path, shell: str) -> None:
    """A path into the project is led to the run's own copy; others stay, whatever is in them."""
    asked = job(
        command=Script('printf %s "$PYTHONPATH" >"$BAY_OUT/seen"'),
        project_folder="/home/me/my project",
        env={"PYTHONPATH": "/home/me/my project/a b:lib:/other's"},
    )
    run_all(tmp_path, shell, [asked])
    work = tmp_path / "runs" / asked.run_id / "work"
    seen = (work.parent / "out" / "seen").read_text()

    assert seen == f"{work}:{work}/a b:{work}/lib:/other's"
