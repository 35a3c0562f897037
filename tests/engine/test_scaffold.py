"""The first files of an experiment."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.config.branches import Around
from launchbay.config.build import build_experiment
from launchbay.config.configuration import load_file
from launchbay.config.files import parse_document
from launchbay.core.command import fill
from launchbay.core.job import Argv, Job, Policy, Resources, Script
from launchbay.engine.scaffold import (
    FILE,
    MODELINE,
    escape,
    find_file,
    first_files,
    render_command,
    render_repeat,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = st.lists(st.text(alphabet="<>:\\ab_-'\"$` #|(", min_size=1), min_size=1)
PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]))


@pytest.mark.parametrize("names", [[], [".git", ".gitignore", "README.md", "LICENSE"]])
def test_no_code(tmp_path: Path, names: Sequence[str]) -> None:
    """A folder without code gets a script and a file that runs it."""
    for name in names:
        (tmp_path / name).touch()

    files = first_files(tmp_path)

    assert (list(files), files[FILE].startswith(MODELINE)) == (["train.py", "bay.yaml"], True)


@pytest.mark.parametrize(
    ("scripts", "command"),
    [
        (["aux.py", "main.py", "train.py"], "train.py"),
        (["aux.py", "main.py", "run.py"], "main.py"),
        (["aux.py", "run.py"], "run.py"),
        (["my experiment.py"], "'my experiment.py'"),
        (["one.py", "two.py"], "train.py"),
        (["notes.txt"], "train.py"),
    ],
)
def test_script_is_guessed(tmp_path: Path, scripts: Sequence[str], command: str) -> None:
    """Beside code only the file is written, with the script that one would run."""
    for name in scripts:
        (tmp_path / name).touch()
    files = first_files(tmp_path)
    data = parse_document(files[FILE], tmp_path / FILE).data

    assert (list(files), data) == ([FILE], {"command": f"python {command}"})
    assert files[FILE].startswith(MODELINE)


def test_unknown_script_is_said(tmp_path: Path) -> None:
    """Where no script can be guessed, the file says that the command is not meant."""
    (tmp_path / "notes.txt").touch()

    assert "put your own command here" in first_files(tmp_path)[FILE]


def test_taught_keys_are_keys(tmp_path: Path) -> None:
    """Every key that the example only mentions is right as it stands."""
    text = first_files(tmp_path)[FILE]
    (tmp_path / FILE).write_text(re.sub(r"(?m)^# (?=[a-z]+: )", "", text))
    file = load_file(tmp_path / FILE)

    assert (file.name, file.gpus, file.memory, file.time, file.parallel) == (
        "first-try",
        1.0,
        8192,
        timedelta(hours=2),
        4,
    )
    assert (file.env, file.setup, file.metrics, file.target) == (
        {"OMP_NUM_THREADS": "1"},
        "module load cuda",
        {"acc": "acc=([0-9.]+)"},
        "local",
    )


@pytest.mark.parametrize("name", ["bay.yaml", "launch.yaml", "config/launch.yaml"])
def test_existing_file(tmp_path: Path, name: str) -> None:
    """A folder has an experiment file under any of the names that are looked for."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()

    assert find_file(tmp_path) == name


def test_repeat(tmp_path: Path) -> None:
    """The file that repeats a run says what was run, with its values, resources and names."""
    job = Job(
        run_id="demo-lr-0-1-abcde",
        name="demo-lr-0-1",
        experiment="first",
        command=Argv(("python", "train.py", "--lr", "0.1", "--mark", "<lr>")),
        params={"lr": "0.1", "note": "a: b"},
        env={"MODE": "1"},
        setup="echo a\necho b",
        resources=Resources(
            gpus=0.5,
            gpu_types=("a100",),
            cpus=2,
            memory_mib=512,
            time_limit=timedelta(minutes=90),
        ),
        parallel=2,
        snapshot="0123456789ab",
        subfolder="sub folder",
        outputs=("out",),
        metrics={"acc": "acc=(.*)"},
        labels={"project_name": "demo"},
    )
    text = render_repeat(job, target="desk", folder=tmp_path)

    assert (
        text
        == """\
# yaml-language-server: $schema=.bay/schema.json
# Repeats demo-lr-0-1-abcde, whose code was 0123456789ab; it runs today's code.
project: demo
name: first
# To sweep a parameter, write `<key>` in the place of its value and give it a list.
command: |-
  cd 'sub folder' || exit
  python train.py --lr 0.1 --mark '\\<lr>'
params:
  lr: 0.1
  note: "a: b"
gpus: 0.5
gpu_type: [a100]
cpus: 2
memory: 512M
time: 90m
parallel: 2
target: desk
env:
  MODE: 1
setup: "echo a\\necho b"
outputs: [out]
metrics:
  acc: "acc=(.*)"
"""
    )


def test_repeat_can_be_read(tmp_path: Path) -> None:
    """A run of one command needs only the command, and reading the file gives it back."""
    words = ("sh", "-c", 'echo "$0" <x> \\<y> | cat # z', "a\nb")
    job = Job(run_id="x-abcde", name="x", experiment=tmp_path.name, command=Argv(words))
    (tmp_path / FILE).write_text(render_repeat(job, target="local", folder=tmp_path))
    file = load_file(tmp_path / FILE)
    (branch,) = build_experiment(file, Around(), project_name=tmp_path.name).branches

    assert fill(branch.command, {}) == Script(shlex.join(words))


@given(WORDS)
def test_escaped_words_are_no_placeholders(words: list[str]) -> None:
    """Whatever a command's words are, filling what was escaped gives them back."""
    text = shlex.join(words)

    assert fill(Script(escape(text)), {}) == Script(text)


@given(st.lists(PRINTABLE, min_size=1).map("\n".join).filter(str.strip))
def test_command_in_yaml(text: str) -> None:
    """However a command is written, YAML reads the same text."""
    written = f"command: {render_command(text)}\n"

    assert parse_document(written, Path()).data == {"command": text}


def test_policy_and_options_are_repeated(tmp_path: Path) -> None:
    """What was said about retrying, packing and the cluster stands in the file, too."""
    job = Job(
        run_id="a-b2c3d",
        name="a",
        experiment="a",
        command=Argv(("true",)),
        policy=Policy(pack="20", retries={"node": 2}, resume=True, hold_s=1800),
        options={"partition": "gpu", "exclusive": True, "sbatch": ("--mail-type=END",)},
    )
    text = render_repeat(job, target="brc", folder=tmp_path)

    assert read_policy_lines(text) == [
        "pack: 20",
        "retries:",
        "  node: 2",
        "resume: true",
        "hold: 30m",
        "partition: gpu",
        "exclusive: true",
        'sbatch: ["--mail-type=END"]',
        "target: brc",
    ]


def read_policy_lines(text: str) -> list[str]:
    """What stands below the command."""
    return text.partition("command: ")[2].splitlines()[1:]
