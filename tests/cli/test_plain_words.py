"""What a newcomer reads: short lines, whole sentences, and the next thing to type."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import Terminal
from tests.stubs import write_program

from launchbay.backends.slurm.refusals import explain_refusal
from launchbay.cli.capacity import render_rooms
from launchbay.cli.main import render_help
from launchbay.cli.planning import missing_script
from launchbay.cli.screen import from_here, render_table, waiting_words
from launchbay.core.backend import Room
from launchbay.core.run import Run, State, Status
from launchbay.hosts.ssh_words import explain

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

NARROW = 80
SILENT_SLURM = """#!/bin/sh
echo 'sinfo: error: fetch_config: DNS SRV lookup failed' >&2
echo 'sinfo: fatal: Could not establish a configuration source' >&2
exit 1
"""
DEAD_SSH = """#!/bin/sh
case " $* " in *" -G "*) exit 0 ;; esac
echo 'ssh: Could not resolve hostname labb: Name or service not known' >&2
exit 255
"""
CLOSED_SSH = """#!/bin/sh
case " $* " in *" -G "*) exit 0 ;; esac
echo 'me@labb: Permission denied (publickey).' >&2
exit 255
"""


@pytest.fixture
def programs(bay: Bay, tmp_path: Path) -> Path:
    """A folder whose programs come first."""
    folder = tmp_path / "programs"
    folder.mkdir()
    bay.extra["PATH"] = f"{folder}:{os.environ['PATH']}"
    return folder


@pytest.mark.parametrize("everything", [False, True])
def test_help_fits_a_narrow_terminal(*, everything: bool) -> None:
    """No line of the first page is cut by a terminal of eighty columns."""
    assert max(map(len, render_help(everything=everything).splitlines())) <= NARROW


def test_paths_as_one_types_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is below this folder or the home is short; all else stays as it is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")

    assert from_here(f"{tmp_path}/.bay/runs") == ".bay/runs"
    assert from_here("/home/me/bay/runs") == "~/bay/runs"
    assert from_here("/home/mean/bay") == "/home/mean/bay"
    assert from_here("box:~/bay/runs") == "box:~/bay/runs"


def test_counts_of_states_are_cut_at_their_end() -> None:
    """A folded experiment shows its first counts whole."""
    rows = [("16 runs", "1 running, 12 succeeded, 3 failed"), ("2 runs", "2 failed")]
    text = render_table(("run", "state"), rows, width=27)

    assert text.splitlines()[1] == "16 runs  1 running, 12 suc…"


def test_capacity_on_a_narrow_terminal() -> None:
    """Amounts stay whole; what is to be said besides stands below; what is not told is not 0."""
    total, note = {"nodes": 2, "gpus": 4}, "others' pods may not be listed"

    room = Room(name="a100", total=total, free={"gpus": 1}, note=note)

    assert render_rooms((room,), 40) == (
        "part  free                  waiting\n"
        "a100  2 nodes, 1 of 4 gpus        0\n"
        "a100: others' pods may not be listed"
    )


def test_a_run_that_waits_on_this_side() -> None:
    """It is said once that it waits."""
    status = Status(state=State.CREATED, reason="waits on this side: no room")
    run = Run(
        id="a-12345",
        name="a",
        experiment="e",
        project="p",
        identity="a",
        target="t",
        place={},
        params={},
        status=status,
        created_at=0.0,
    )

    assert waiting_words(run) == "12345 waits: on this side: no room"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sweeep.py"], ["there is no `sweeep.py` here; did you mean `sweep.py`?"]),
        (["python3", "sweeep.py"], ["there is no `sweeep.py` here; did you mean `sweep.py`?"]),
        (["sub/train.py"], ["there is no `sub/train.py` here"]),
        (["python", "sweep.py"], []),
        (["python", "-m", "nothing.py"], []),
        (["python", "<model>.py"], []),
        (["python", "/opt/there.py"], []),
        (["make", "nothing.py"], []),
        ([], []),
    ],
)
def test_a_script_that_is_not_there(tmp_path: Path, words: list[str], said: list[str]) -> None:
    """A script that was typed wrongly is named before anything is sent."""
    (tmp_path / "sweep.py").touch()

    assert missing_script(words, tmp_path) == said


def test_plan_warns_of_a_missing_script(bay: Bay) -> None:
    """The warning comes with the plan, and stops nothing."""
    said = bay("plan", "lr=1", "python", "train.py")

    assert "warning: there is no `train.py` here\n" in said.err


def test_an_image_may_have_the_script(bay: Bay) -> None:
    """Code that is in an image is not missed here."""
    target = "{kind: kubernetes, namespace: lab, image: 'lab:1', outputs_to: none}"
    bay.write("bay.yaml", f"command: 'true'\ncode: image\ntargets:\n  lab: {target}\n")
    said = bay("plan", "-t", "lab", "python", "train.py")

    assert "there is no `train.py`" not in said.err


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("--lr=0.1", "a parameter is written `lr=VALUE`"),
        ("--traget", "did you mean `--target`?"),
        ("--dry-run", "`bay plan` shows what would run, and does nothing"),
    ],
)
def test_a_flag_that_does_not_exist(bay: Bay, flag: str, hint: str) -> None:
    """What looks like a parameter is shown as one, what looks like a flag as that flag."""
    said = bay("run", flag, "train.py", code=2).err

    assert said.startswith(f"error: there is no flag `{flag.partition('=')[0]}`\n")
    assert f"hint: {hint}; flags of your own program stand after its name\n" in said


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("status", "there is no command `status`; did you mean `ls`?"),
        ("stop", "there is no command `stop`; did you mean `cancel`?"),
        ("version", "there is no command `version`; did you mean `--version`?"),
        ("xyzzy", "there is no command `xyzzy`"),
    ],
)
def test_a_word_of_another_tool(bay: Bay, word: str, said: str) -> None:
    """Other tools' names of a command lead to ours; a word that means nothing gets no long list."""
    assert bay(word, code=2).err == f"error: {said}\n\nhint: `bay --help` explains\n"


def test_a_usage_error_is_one_line(bay: Bay) -> None:
    """What is missing stands in one line, with the choices."""
    said = bay("completion", code=2).err.splitlines()

    assert said[0].endswith("Choose from: bash, zsh, fish")


def test_the_same_line_while_it_runs(bay: Bay) -> None:
    """Whoever types it again is led to what is under way, not to results."""
    line = ("x=1", "--", "sh", "-c", "sleep 600; : <x>")
    bay("run", "--detach", *line)
    said = bay("run", *line).err
    bay("cancel", "--yes", "-e", "sh")

    assert said.endswith("`bay watch` follows what is under way\n")


def test_words_after_one_run(bay: Bay) -> None:
    """Times are those of the clock on the wall, outputs have a line, an end has its phrase."""
    said = bay("run", "true").err
    shown = bay("show").out
    again = bay("cancel", "true").err

    assert re.search(r"\w{5} succeeded after 0s\noutputs: \.bay/runs/\S+/out\n", said)
    assert re.search(r"^ended +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", shown, re.MULTILINE)
    assert again.endswith(" has succeeded already\n")


def test_nothing_to_cancel(bay: Bay) -> None:
    """Where no run is meant, that is said."""
    bay("run", "true")

    assert bay("cancel", "-e", "true", "--state", "running").err == "no such runs\n"


def test_one_file_is_no_files(bay: Bay) -> None:
    """What `bay fetch` copied is counted as people count."""
    bay("run", "true")
    bay("fetch")
    next((bay.project / "results").rglob("log*.txt")).unlink()

    assert "\n1 file (0 B) of 1 run copied to\n" in bay("fetch").err


def test_a_time_limit_as_it_was_written(bay: Bay) -> None:
    """Ten minutes are `10m`."""
    assert "at most 10m each" in bay("plan", "--time", "10m", "true").out


def test_no_gpus_here(bay: Bay) -> None:
    """Where there are none, the way out is not to ask for zero."""
    said = bay("run", "--gpus", "1", "true", code=2, through=("env", "PATH=/usr/bin:/bin")).err

    assert "error: `local` has no GPUs; " in said
    assert "hint: leave `gpus` out, or choose another target with `--target`\n" in said


def test_nobody_answers_over_ssh() -> None:
    """A machine that is silent is tried with the command that everybody knows."""
    assert explain("me@box", "lab", "ssh: connect: refused").hint == (
        "`ssh me@box` has to work in this shell"
    )


def test_a_place_that_nobody_knows(bay: Bay, programs: Path) -> None:
    """A name that is neither a machine nor a context is said to be neither."""
    write_program(programs / "ssh", DEAD_SSH)
    said = bay("target", "add", "lab", "labb", code=1).err

    assert "hint: `ssh labb` has to work in this shell; no context of your `kubectl`" in said
    assert "`--kind machine` or `--kind slurm` writes it unseen\n" in said


def test_a_place_that_lets_nobody_in(bay: Bay, programs: Path) -> None:
    """A target that is not there yet cannot be logged in to: `ssh` comes first."""
    write_program(programs / "ssh", CLOSED_SSH)
    said = bay("target", "add", "lab", "me@labb", code=1).err

    assert "hint: `ssh me@labb` has to let you in: type this in a terminal" in said
    assert "bay target login" not in said


def test_a_slurm_that_does_not_answer(bay: Bay, programs: Path) -> None:
    """What sinfo says for itself is passed on."""
    for name in ("sinfo", "scontrol", "sbatch", "sacct", "sacctmgr"):
        write_program(programs / name, SILENT_SLURM)
    said = bay("target", "add", "brc", "--kind", "slurm", "--yes", code=None).err

    assert (
        "warning: `brc` does not answer as a Slurm: "
        "sinfo: fatal: Could not establish a configuration source; so it is written"
    ) in said


def test_a_program_that_is_missing(bay: Bay, tmp_path: Path) -> None:
    """Whoever has no `kubectl` is told so, and what helps."""
    bay.extra["PATH"] = str(tmp_path)
    said = bay("target", "add", "lab", "--kind", "kubernetes", code=1).err

    assert said.startswith("error: there is no `kubectl` here\n")
    assert "hint: install it, or put it on this shell's PATH\n" in said


def test_no_slurm_in_this_shell(bay: Bay, tmp_path: Path) -> None:
    """A Slurm without its commands is said to be without."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    bay.extra["PATH"] = str(tmp_path / "bin")
    said = bay("target", "add", "brc", "--kind", "slurm", "--yes", code=None).err

    assert "`brc` does not answer as a Slurm: there is no sinfo" in said


def test_times_for_programs(bay: Bay) -> None:
    """A table for programs has no digits that nobody measured."""
    bay("run", "true")
    (_, row) = bay("results", "--csv").out.splitlines()

    assert len(row.rpartition(".")[2]) <= len("123")


def test_a_shell_that_does_not_know_its_slurm() -> None:
    """What another terminal could not send waits for one that can, and has not failed."""
    said = "sbatch: error: fetch_config: DNS SRV lookup failed\n"
    said += "sbatch: fatal: Could not establish a configuration source\n"
    refused = explain_refusal(said)

    assert refused.transient
    assert "type it where `sinfo` works" in refused.reason


def test_nothing_is_written_unless_somebody_says_so(bay: Bay) -> None:
    """Enter alone adds no target, and it is said."""
    terminal = Terminal(bay, "target", "add", "desk", "--parallel", "2")
    terminal.until("[y/N]:")
    terminal.type("\n")
    terminal.until("nothing was written")

    assert terminal.end() == 1
    assert not (bay.home / "config").exists()


def test_one_run_is_left_or_cancelled(bay: Bay) -> None:
    """After Ctrl-C it is said which keys do what, and they do."""
    terminal = Terminal(bay, "run", "--", "sh", "-c", "echo begun; sleep 600")
    terminal.until("begun")
    terminal.type("\x03")
    terminal.until("Enter leaves it, c and Enter cancels it")
    terminal.type("c\n")

    assert terminal.end() == 1
    bay("wait", "-e", "sh", code=1)
    assert bay.states() == ["cancelled"]


def test_doctor_looks_at_the_bucket(bay: Bay, tmp_path: Path) -> None:
    """A bucket that can be read is said to be; one without an answer is a problem with a remedy."""
    bay.write("bay.yaml", f"command: 'true'\nbucket: {tmp_path}\n")
    good = bay("doctor").out
    bay.write(
        "bay.yaml", "command: 'true'\nbucket: {url: s3://lab, endpoint: http://127.0.0.1:1}\n"
    )
    bad = bay("doctor", code=1).out

    assert f"ok       bucket            file://{tmp_path} can be read\n" in good
    assert "problem  bucket            http://127.0.0.1:1 refuses the connection\n" in bad
    assert "→ check the endpoint, and whether it is running\n" in bad
