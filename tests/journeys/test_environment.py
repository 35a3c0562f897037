"""Variables and secrets: the same values everywhere, and in nothing that is shown."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.config.test_config_dotenv import NASTY
from tests.conftest import Bay, require_program

if TYPE_CHECKING:
    from pathlib import Path

SHOW = """
import json, os, pathlib
pathlib.Path(os.environ.get("BAY_OUT", "."), "env.json").write_text(json.dumps(dict(os.environ)))
"""
KEY = "sk-53cr3t'$(id)\"-value"


def start(bay: Bay, *, dotenv: str = "", file: str = "") -> None:
    """A project whose program prints its environment."""
    bay.write("show.py", SHOW)
    bay.write("bay.yaml", f"command: python show.py\n{file}")
    if dotenv:
        bay.write(".env", dotenv)


def seen(bay: Bay, *words: str) -> dict[str, str]:
    """The environment that a run had."""
    bay("run", "-q", *words)
    return read(folder(bay) / "out")


def read(where: Path) -> dict[str, str]:
    """What the program noted."""
    found: dict[str, str] = json.loads((where / "env.json").read_text())
    return found


def folder(bay: Bay) -> Path:
    """The newest run's own folder."""
    return max((bay.project / ".bay" / "runs").iterdir())


def test_nasty_values_arrive_here_and_in_the_script(bay: Bay) -> None:
    """Every value of `.env` is the same in a local run and in the script that a shell reads."""
    names = {f"V{at}": pair for at, pair in enumerate(NASTY)}
    start(bay, dotenv="".join(f"{name}{written}\n" for name, (written, _) in names.items()))
    expected = {name: value for name, (_, value) in names.items()}
    here = seen(bay)
    require_program("dash")
    script = f'. "{folder(bay)}/secrets.sh"; exec python3 show.py'
    subprocess.run(["dash", "-c", script], cwd=bay.project, env={"PATH": "/usr/bin"}, check=True)

    assert len(expected) >= 30
    assert {name: here[name] for name in expected} == expected
    assert {name: read(bay.project)[name] for name in expected} == expected


def test_secrets_are_in_nothing_that_is_shown(bay: Bay) -> None:
    """The value reaches the program; plan, records, index, arguments and code do not hold it."""
    start(bay, dotenv=f"API_KEY='{KEY.replace(chr(39), '')}'\n", file="secrets: [OTHER_TOKEN]\n")
    plain = KEY.replace("'", "")
    bay.extra = {"OTHER_TOKEN": "t0ken-of-the-shell"}
    planned = bay("plan", "--document").out + bay("plan", "--json").out + bay("plan").out
    had = seen(bay, "--note", f"with {plain}")
    record = (folder(bay) / "job.json").read_text()
    stored = b"".join(path.read_bytes() for path in (bay.home / "state").rglob("*.sqlite*"))
    snapshots = [path.name for path in (bay.project / ".bay" / "snapshots").rglob("*")]
    private = folder(bay) / "secrets.sh"

    assert (had["API_KEY"], had["OTHER_TOKEN"]) == (plain, "t0ken-of-the-shell")
    for shown in (planned, record, bay("show").out, bay("show", "--json").out):
        assert "t0ken-of-the-shell" not in shown
        assert plain not in shown
    assert b"t0ken" not in stored
    assert '"--note"' in stored.decode(errors="replace")
    assert ".env" not in snapshots
    assert private.stat().st_mode & 0o777 == 0o600


def test_secret_from_a_file(bay: Bay) -> None:
    """A mapping names the file that holds the value, from the project's folder or the home."""
    start(bay, file="secrets: {HF_TOKEN: ~/token}\n")
    (bay.home / "token").write_text("hf-abc\n")

    assert seen(bay)["HF_TOKEN"] == (bay.home / "token").read_text().strip()


def test_rerun_asks_for_secrets_anew(bay: Bay) -> None:
    """What was rotated since is used, and nothing old was kept for it."""
    start(bay, dotenv="API_KEY=old-value\n")
    first = seen(bay)["API_KEY"]
    bay.write(".env", "API_KEY=new-value\n")
    bay("rerun", "--yes", folder(bay).name)
    second = read(folder(bay) / "out")["API_KEY"]

    assert (first, second) == ("old-value", "new-value")


def test_rerun_without_its_secret_changes_nothing(bay: Bay) -> None:
    """The value is gone: one line says which, and the run stays as it was."""
    start(bay, dotenv="API_KEY=old-value\n")
    bay("run", "-q")
    (bay.project / ".env").unlink()
    said = bay("rerun", "--yes", folder(bay).name, code=2)

    assert "secret `API_KEY` is not set" in said.err
    assert [(row["state"], row["attempt"]) for row in bay.json("ls")] == [("succeeded", 1)]


def test_file_beats_dotenv_and_flag_beats_file(bay: Bay) -> None:
    """Flags > env of the file > .env > the shell; where two differ, a line says who wins."""
    text = "env: {A: file, B: file}\n"
    start(bay, dotenv="A=dotenv\nB=dotenv\nC=dotenv\nD=dotenv\n", file=text)
    bay.extra = {"A": "shell", "B": "shell", "C": "shell", "E": "shell"}
    said = bay("plan", "--env", "B=flag").err
    had = seen(bay, "--env", "B=flag")

    assert [had[name] for name in "ABCDE"] == ["file", "flag", "dotenv", "dotenv", "shell"]
    assert "`A` of file is used; .env says something else" in said


def test_target_is_below_dotenv(bay: Bay) -> None:
    """What a user's target sets is a default."""
    start(bay, dotenv="A=dotenv\n")
    bay("config", "set", "targets.local", "{env: {A: target, B: target}}")
    had = seen(bay)

    assert (had["A"], had["B"]) == ("dotenv", "target")


def test_devices_of_dotenv_are_not_passed_on(bay: Bay) -> None:
    """Which GPUs a run sees is the queue's to say."""
    start(bay, dotenv="CUDA_VISIBLE_DEVICES=3\nA=1\n")

    assert seen(bay).get("CUDA_VISIBLE_DEVICES", "") == ""
    assert "`CUDA_VISIBLE_DEVICES` of .env is left out" in bay("plan").err


def test_variables_of_the_shell_are_not_passed_on(bay: Bay) -> None:
    """Setting one would end the run before it begins; a line says so."""
    start(bay, dotenv="UID=1000\nbay_run=x\nA=1\n")
    said = bay("plan").err

    assert seen(bay)["A"] == "1"
    assert said.count("it belongs to the shell that starts a run") == 2


def test_python_path_of_dotenv_is_added_to(bay: Bay) -> None:
    """The frozen code stays importable, once, and so is what `.env` names."""
    start(bay, dotenv="PYTHONPATH=lib\n")
    parts = seen(bay)["PYTHONPATH"].split(":")

    assert [part.rpartition("/")[2] for part in parts] == ["work", "lib"]


@pytest.mark.parametrize("key", ["require", "secrets"])
def test_missing_variable_is_an_error_before_anything_is_sent(bay: Bay, key: str) -> None:
    """File, line and remedy; no run, no folder."""
    start(bay, file=f"{key}: [WANDB_API_KEY]\n")
    said = bay("run", code=2)

    assert "bay.yaml:2:" in said.err
    assert "`WANDB_API_KEY` is not set" in said.err
    assert "export WANDB_API_KEY=" in said.err
    assert not (bay.project / ".bay" / "runs").exists()
    assert bay.json("ls") == []


def test_typed_command_gets_the_secrets_that_are_there(bay: Bay) -> None:
    """What the file declares reaches it too, and what is missing stops nobody."""
    start(bay, file="secrets: [THERE_KEY, GONE_KEY, LOST_KEY: keys/lost]\n")
    bay.extra = {"THERE_KEY": "here"}
    bay("run", "-q", "python", "show.py")
    names = json.loads((folder(bay) / "job.json").read_text())["secrets"]

    assert names == ["THERE_KEY"]


def test_required_variable_may_come_from_anywhere(bay: Bay) -> None:
    """The shell, `.env` and `env:` all do."""
    start(bay, dotenv="B=1\n", file="require: [A, B, C]\nenv: {C: 1}\n")
    bay.extra = {"A": "1"}

    assert seen(bay)["A"] == "1"


def test_printed_commands_mask_what_is_secret(bay: Bay) -> None:
    """A value that somebody put into a command is stars in the plan, in `show` and in the index."""
    start(bay, dotenv="API_KEY=abcdef-123\n")
    typed = ["token=abcdef-123", "python", "show.py"]
    planned = bay("plan", *typed).out
    bay("run", "-q", *typed)
    stored = b"".join(path.read_bytes() for path in (bay.home / "state").rglob("*.sqlite*"))

    assert "--token ***" in planned
    assert "--token ***" in bay("show").out
    assert b"--token abcdef" not in stored


def test_typed_secret_is_not_remembered_as_typed(bay: Bay) -> None:
    """The arguments of a launch are kept, the value of a variable that is called a key is not."""
    start(bay)
    typed = "typed-value"
    had = seen(bay, "--env", f"MY_TOKEN={typed}", "--env", "PLAIN=shown")
    stored = b"".join(path.read_bytes() for path in (bay.home / "state").rglob("*.sqlite*"))

    assert had["MY_TOKEN"] == typed
    assert b"MY_TOKEN=***" in stored
    assert b"typed-value" not in stored
    assert b"PLAIN=shown" in stored


def test_dirty_tree_is_refused_when_asked(bay: Bay) -> None:
    """`--require-clean` names what is not committed; a clean tree passes."""
    start(bay)
    bay.git("init", "-q")
    bay.git("add", "-A")
    bay.git("commit", "-qm", "first")
    bay("plan", "--require-clean")
    bay.write("show.py", SHOW + "#\n")
    bay.write("new.py", "")
    said = bay("run", "--require-clean", code=1)

    assert "not committed: show.py, new.py" in said.err
    assert bay.json("ls") == []
