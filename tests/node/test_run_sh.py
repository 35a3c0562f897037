"""run.sh in every shell that a node may have, as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from runfolder import Writer
from tests.conftest import NOBODY, eventually, require_program
from tests.node.workshop import NODE, ORDINARY_PATH, is_alive, make_job, read_events

from launchbay.core import rundir

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}
WAITS = "while [ ! -e go ]; do sleep 0.02; done"
TOLD = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("told"))
print("ready")
while not os.path.exists("go"):
    time.sleep(0.02)
sys.exit(3)
"""


@dataclass
class Script:
    """run.sh as one shell runs it, with a folder for runs."""

    shell: list[str]
    root: Path

    def make(self, run: str = "run", words: list[str] | None = None, **fields: Any) -> Path:
        """Write a run's folder as `add` would."""
        private = {"environment": {"PATH": ORDINARY_PATH}, "umask": "022", "secrets": {}}
        private.update(fields.pop("private", {}))
        tree = str(fields.pop("tree", ""))
        folder = self.root / "runs" / run
        folder.parent.mkdir(parents=True, exist_ok=True)
        job = {**make_job(run, words, **fields), "target": "desk", "root": str(self.root)}
        work = str(folder / "work")
        Writer(private, ahead=False).write(str(folder), work, job, tree)
        return folder

    def start(self, folder: Path, attempt: int = 1, **options: Any) -> subprocess.Popen[bytes]:
        """Begin an attempt in a session of its own, as a worker does."""
        variables = {"PATH": ORDINARY_PATH, **options.pop("variables", {})}
        return subprocess.Popen(
            [*self.shell, str(NODE / "run.sh"), str(folder), str(attempt)],
            env=variables,
            start_new_session=True,
            **{"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, **options},
        )

    def run(self, folder: Path, attempt: int = 1, **options: Any) -> int:
        """Run an attempt to its end."""
        process = self.start(folder, attempt, **options)
        _, err = process.communicate(timeout=60)
        assert not err, err
        return process.returncode


@pytest.fixture(params=SHELLS)
def script(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Script]:
    """run.sh in each shell; what it leaves running is ended."""
    shell = SHELLS[request.param]
    yield Script([require_program(shell[0]), *shell[1:]], tmp_path)
    for path in tmp_path.glob("runs/*/attempts/*"):
        for event in read_events(path.parents[1], int(path.name)):
            with contextlib.suppress(ProcessLookupError):
                if event["event"] == "started":
                    os.killpg(event["pid"], signal.SIGKILL)


def log_of(folder: Path, attempt: int = 1) -> str:
    path = folder / f"attempts/{attempt}/log-0.txt"
    return path.read_text() if path.exists() else ""


def exit_of(folder: Path, attempt: int = 1) -> dict[str, Any]:
    """The end that an attempt recorded, without its moment."""
    event = read_events(folder, attempt)[-1]
    assert event.pop("at") > 1_600_000_000
    return event


def make_tree(root: Path) -> Path:
    """Frozen code: one read-only file in a folder."""
    tree = root / "trees" / "code"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "code.py").write_text("code\n")
    (tree / "deep" / "code.py").chmod(0o444)
    return tree


def test_claimed_once(script: Script) -> None:
    """Of eight copies of one attempt one runs; the others exit with 75."""
    folder = script.make(words=["sh", "-c", "echo once"])
    copies = [script.start(folder) for _ in range(8)]
    for process in copies:
        process.communicate(timeout=60)

    assert sorted(process.returncode for process in copies) == [0] + [75] * 7
    assert log_of(folder) == "once\n"


def test_unwritable_records_run_nothing(script: Script) -> None:
    """Where no claim can be made the script says so and exits with 74."""
    process = script.start(script.root / "none")
    _, err = process.communicate()

    assert (process.returncode, b"cannot write" in err) == (74, True)


@pytest.mark.parametrize(
    ("command", "code"),
    [("true", 0), ("exit 7", 7), ("exit 75", 75), ("no-such-program", 127), ("kill -9 $$", 137)],
)
def test_exit_code_is_recorded(script: Script, command: str, code: int) -> None:
    """The command's code is the script's own and stands in the record."""
    folder = script.make(script=command)
    returned = script.run(folder)

    assert returned == code
    assert exit_of(folder) == {"event": "exit", "code": code, "signal": "", "phase": "command"}


def test_start_is_recorded(script: Script) -> None:
    """Who runs it is recorded: host, boot, process and when that process started."""
    folder = script.make(script=f"echo ready; {WAITS}")
    process = script.start(folder)
    eventually(lambda: log_of(folder))
    (event,) = read_events(folder)
    ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (folder / "work" / "go").touch()
    process.communicate()

    assert event.pop("at") > 1_600_000_000
    assert event == {
        "event": "started",
        "host": os.uname().nodename,
        "boot": boot,
        "pid": process.pid,
        "start": ticks,
        "devices": "",
        "allocation": "",
        "task": "",
    }


def test_moments_agree_with_the_clock(script: Script) -> None:
    """A moment by the given time of boot is that of `date`."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    now = float(subprocess.check_output(["date", "+%s.%N"]))
    folder = script.make(script="date +%s.%N")
    script.run(folder, variables={"BAY_BOOT_CS": str(round((now - uptime) * 100))})
    started, ended = (event["at"] for event in read_events(folder))

    assert started - 0.5 < float(log_of(folder)) < ended + 0.5


def test_term_reaches_the_command_once(script: Script) -> None:
    """TERM to the script is one TERM for the command, whose end is recorded."""
    folder = script.make(words=["python3", "-c", TOLD])
    process = script.start(folder)
    eventually(lambda: log_of(folder))
    process.send_signal(signal.SIGTERM)
    eventually(lambda: "told" in log_of(folder))
    process.send_signal(signal.SIGTERM)
    (folder / "work" / "go").touch()
    process.communicate()

    assert log_of(folder) == "ready\ntold\n"
    assert exit_of(folder) == {"event": "exit", "code": 3, "signal": "TERM", "phase": "command"}


def test_term_ends_the_whole_group(script: Script) -> None:
    """What the command started in its group is told too."""
    folder = script.make(script="sleep 600 & echo $!; wait")
    process = script.start(folder)
    eventually(lambda: log_of(folder))
    process.send_signal(signal.SIGTERM)
    process.communicate()

    assert exit_of(folder)["code"] == 143
    eventually(lambda: not is_alive(int(log_of(folder))))


def ignores(pid: int, number: int) -> bool:
    """Whether the process takes no notice of a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = (line.split()[1] for line in lines if line.startswith("SigIgn"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_usr1_is_passed_on(script: Script) -> None:
    """USR1 reaches the command, as often as it is sent, ends nothing, and is recorded."""
    folder = script.make(script=f"trap 'echo told' USR1; echo ready; {WAITS}")
    process = script.start(folder)
    eventually(lambda: log_of(folder))
    process.send_signal(signal.SIGUSR1)
    eventually(lambda: log_of(folder).count("told") == 1)
    # While it tells the others, it does not listen.
    eventually(lambda: not ignores(process.pid, signal.SIGUSR1))
    process.send_signal(signal.SIGUSR1)
    eventually(lambda: log_of(folder).count("told") == 2)
    (folder / "work" / "go").touch()
    process.communicate()

    assert exit_of(folder) == {
        "event": "exit",
        "code": 0,
        "signal": "",
        "phase": "command",
        "warned": 1,
    }


def test_cancelled_before_it_began(script: Script) -> None:
    """A mark that is there already keeps the command from starting."""
    folder = script.make(words=["touch", "ran"])
    (folder / "attempts/1/cancel").touch()
    script.run(folder)

    assert exit_of(folder) == {"event": "exit", "code": None, "signal": "", "phase": "setup"}
    assert not (folder / "work").exists()


def test_failing_set_up_fails_the_run(script: Script) -> None:
    """The first failing line of the set-up ends it, the command does not run."""
    folder = script.make(setup="echo one\nfalse\necho two\n", script="echo ran")
    script.run(folder)

    assert log_of(folder) == "one\n"
    assert exit_of(folder) == {"event": "exit", "code": 1, "signal": "", "phase": "setup"}


@pytest.mark.parametrize(
    "command",
    [{"script": "echo $WHO; false; exit 4"}, {"words": ["sh", "-c", "echo $WHO; exit 4"]}],
)
def test_set_up_reaches_the_command(script: Script, command: dict[str, Any]) -> None:
    """What the set-up exports is there; what fails later is the command's own failure."""
    folder = script.make(setup="export WHO=me\n", **command)
    script.run(folder)

    assert log_of(folder) == "me\n"
    assert exit_of(folder) == {"event": "exit", "code": 4, "signal": "", "phase": "command"}


def test_secrets_reach_the_program(script: Script) -> None:
    """A secret is in the environment, from a file that only its owner can read."""
    private = {"secrets": {"KEY": "s3cr3t'$HOME"}}
    folder = script.make(words=["printenv", "KEY"], secrets=["KEY"], private=private)
    script.run(folder)

    assert log_of(folder) == "s3cr3t'$HOME\n"
    assert stat.S_IMODE((folder / "secrets.sh").stat().st_mode) == 0o600


def test_environment_is_exact(script: Script) -> None:
    """The program sees the given variables, as given, the run's own, and no others of ours."""
    typed = {
        "TWO_LINES": "one\ntwo\n",
        "QUOTES": 'it\'s "quoted"',
        "SUBSTITUTED": "$(id) `id` ${HOME} \\n",
        "EMPTY": "",
        "PATH": ORDINARY_PATH,
    }
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    words = ["/usr/bin/env", "python3", "-c", code]
    folder = script.make(words=words, private={"environment": typed}, env={"A": "b c"})
    script.run(folder, variables={"BAY_BOOT_CS": "1", "BAY_UID": "0"})
    seen = json.loads(log_of(folder))
    of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}

    assert {name: value for name, value in seen.items() if name not in of_the_shell} == {
        **typed,
        "A": "b c",
        "PYTHONPATH": str(folder / "work"),
        "PYTHONUNBUFFERED": "1",
        "WANDB_NAME": "name",
        "WANDB_RUN_GROUP": "experiment",
        "WANDB_RUN_ID": "run",
        "WANDB_RESUME": "allow",
        "WANDB_DIR": str(folder / "out"),
        "BAY_RUN_ID": "run",
        "BAY_NAME": "name",
        "BAY_PARAMS": str(folder / "params.json"),
        "BAY_OUT": str(folder / "out"),
        "BAY_TARGET": "desk",
        "BAY_ATTEMPT": "1",
    }


@pytest.mark.parametrize(
    ("variables", "seen"),
    [
        ({"BAY_DEVICES": "1,3"}, "1,3 PCI_BUS_ID none\n"),
        ({"BAY_DEVICES": ""}, " PCI_BUS_ID none\n"),
        ({}, "unset unset none\n"),
    ],
)
def test_devices(script: Script, variables: dict[str, str], seen: str) -> None:
    """Given devices are visible, none hides all, and unset leaves them alone."""
    text = 'echo "${CUDA_VISIBLE_DEVICES-unset}" "${CUDA_DEVICE_ORDER-unset}" "${BAY_DEVICES-none}"'
    folder = script.make(script=text)
    script.run(folder, variables=variables)

    assert log_of(folder) == seen
    assert read_events(folder)[0]["devices"] == variables.get("BAY_DEVICES", "")


WORDS = some.lists(
    some.one_of(
        some.text(some.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        some.sampled_from(["", "-x", "--", "a\nb", "it's", '"', "$(id)", "\\", "*", "~", "ü→"]),
    ),
    max_size=8,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(words=WORDS)
def test_words_arrive_verbatim(script: Script, words: list[str]) -> None:
    """Any argument vector reaches the program word for word."""
    folder = script.make(words=["printf", "%s\\0", "", *words])
    try:
        script.run(folder)
        seen = (folder / "attempts/1/log-0.txt").read_bytes().decode().split("\0")[1:-1]
    finally:
        shutil.rmtree(folder)

    assert seen == words


def test_script_runs_in_bash_where_there_is_one(script: Script) -> None:
    """A script may use what bash has."""
    require_program("bash")
    folder = script.make(script='a=(one two); echo "${a[1]}"')
    script.run(folder)

    assert log_of(folder) == "two\n"


def test_script_runs_in_sh_where_there_is_no_bash(script: Script) -> None:
    """Without bash a script still runs."""
    tools = script.root / "tools"
    tools.mkdir()
    for name in ("sh", "mkdir"):
        (tools / name).symlink_to(require_program(name))
    private = {"environment": {"PATH": str(tools)}}
    folder = script.make(script="echo ${BASH_VERSION-none}", private=private)
    script.run(folder)

    assert log_of(folder) == "none\n"


def test_metrics_go_with_the_exit(script: Script) -> None:
    """The last hundred lines of metrics are copied beside the record."""
    folder = script.make(script='seq 150 >"$BAY_OUT/metrics.jsonl"')
    script.run(folder)

    assert (folder / "attempts/1/metrics.jsonl").read_text().split() == [
        str(number) for number in range(51, 151)
    ]


def test_names_are_those_of_the_core(script: Script) -> None:
    """What the node writes is what the client reads."""
    folder = script.make(script='echo "{}" >"$BAY_OUT/metrics.jsonl"')
    script.run(folder)
    attempt = rundir.attempt_folder(folder, 1)
    names = {path.name for path in (*folder.iterdir(), *attempt.iterdir())}

    assert rundir.run_folder(script.root, "run") == folder
    assert names == {
        rundir.JOB,
        rundir.COMMAND,
        rundir.ENV,
        rundir.PARAMS,
        rundir.WORK,
        rundir.OUT,
        "attempts",
        rundir.CLAIM,
        rundir.EVENTS,
        rundir.METRICS,
        rundir.log_name(0),
    }


def test_subfolder_that_is_not_there(script: Script) -> None:
    """The log says what is missing, and the set-up is what failed."""
    folder = script.make(words=["true"], subfolder="deep/er")
    script.run(folder)

    assert "there is no folder deep/er in the code" in log_of(folder)
    assert exit_of(folder) == {"event": "exit", "code": 1, "signal": "", "phase": "setup"}


def test_working_folder_that_cannot_be_made(script: Script) -> None:
    """The log says so, and the set-up is what failed."""
    folder = script.make(words=["true"], tree=script.root / "no-such-tree")
    script.run(folder)

    assert "the working folder could not be made" in log_of(folder)
    assert exit_of(folder) == {"event": "exit", "code": 1, "signal": "", "phase": "setup"}


def test_root_works_on_copies(script: Script) -> None:
    """Root could write what is read-only, so its runs get copies of the code."""
    if os.getuid():
        pytest.skip("needs root")
    tree = make_tree(script.root)
    folder = script.make(script="echo more >>deep/code.py; cat deep/code.py", tree=tree)
    script.run(folder)

    assert log_of(folder) == "code\nmore\n"
    assert (tree / "deep/code.py").read_text() == "code\n"


def test_others_work_on_links(script: Script) -> None:
    """Anybody else's runs share the files, which they cannot write, and may add their own."""
    if os.getuid():
        pytest.skip("needs root")
    with tempfile.TemporaryDirectory(prefix="bay-others-", dir="/tmp") as place:
        theirs = Script(script.shell, Path(place))
        tree = make_tree(theirs.root)
        text = "echo more >>deep/code.py; touch deep/new && cat deep/code.py"
        folder = theirs.make(script=text, tree=tree)
        program = theirs.root / "run.sh"
        shutil.copy(NODE / "run.sh", program)
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", place], check=True)
        subprocess.run(
            [*script.shell, str(program), str(folder), "1"],
            env={"PATH": ORDINARY_PATH},
            user=NOBODY,
            group=NOBODY,
            cwd="/",
            check=True,
        )
        said = log_of(folder)
        inodes = [(path / "deep/code.py").stat().st_ino for path in (tree, folder / "work")]

    assert "ermission denied" in said
    assert said.endswith("\ncode\n")
    assert inodes[0] == inodes[1]


def test_next_attempt_begins_with_a_new_working_folder(script: Script) -> None:
    """What an attempt left in its working folder is not there for the next."""
    folder = script.make(script="ls; touch left")
    script.run(folder)
    script.make(script="ls; touch left", attempt=2)
    script.run(folder, attempt=2)

    assert [log_of(folder, attempt) for attempt in (1, 2)] == ["", ""]
    assert (folder / "work" / "left").exists()


def test_outputs_are_kept_and_found_again(script: Script) -> None:
    """What is written to a folder of outputs is the run's, and the next attempt's too."""
    outputs = ["logs", "deep/out", "unused", "odd name"]
    first = "mkdir -p logs deep/out 'odd name'; echo 1 >logs/a"
    first += "; echo 1 >deep/out/b; echo 1 >'odd name/c'"
    folder = script.make(script=first, outputs=outputs)
    script.run(folder)
    script.make(script="cat logs/a deep/out/b; echo 2 >>logs/a", outputs=outputs, attempt=2)
    script.run(folder, 2)
    out = folder / "out"

    assert log_of(folder, 2) == "1\n1\n"
    assert (out / "logs" / "a").read_text() == "1\n2\n"
    assert (out / "odd name" / "c").read_text() == "1\n"
    assert sorted(path.name for path in out.iterdir()) == ["deep", "logs", "odd name"]


def test_variables_of_the_shell_are_not_ours(script: Script) -> None:
    """A variable that is called as one of a script's own arrives all the same."""
    names = ["run", "code", "at", "here", "again", "start", "group", "attempt", "records", "shell"]
    private = {"environment": {"PATH": ORDINARY_PATH, **dict.fromkeys(names, "mine")}}
    text = "; ".join(f'echo "${name}"' for name in names)
    folder = script.make(script=text, private=private)
    script.run(folder)

    assert log_of(folder) == "mine\n" * len(names)
    assert exit_of(folder)["code"] == 0


def test_by_hand_in_the_foreground(script: Script) -> None:
    """`BAY_HERE` runs in that folder, on the terminal of whoever started it, and records it."""
    here = script.root / "project"
    here.mkdir()
    folder = script.make(script="pwd; read line; echo $line; exit 5")
    process = script.start(
        folder,
        variables={"BAY_HERE": str(here)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    out, _ = process.communicate(b"typed\n", timeout=60)

    assert out.decode() == f"{here}\ntyped\n"
    assert exit_of(folder)["code"] == 5
    assert not (folder / "work").exists()
