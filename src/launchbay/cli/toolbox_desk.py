"""The first tool's verbs for work at the desk: a debugger's entries, a shell, a tmux session."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launchbay.cli.planning import Typed, plain_flags, prepare
from launchbay.cli.screen import say
from launchbay.core.command import render
from launchbay.core.errors import BadRequest
from launchbay.engine.settings import read_settings
from launchbay.engine.vscode import FILE, find_python, make_entry, write_entries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.cli.toolbox_words import Given
    from launchbay.engine.steps import Step

OWN_FILE = "launch.yaml"
MOST = 100
"""Entries for one file of experiments; nobody scrolls through more."""
NO_SESSION_NAME = re.compile(r"[^\w-]+")
KEPT = re.compile(r"PATH|VIRTUAL_ENV|KUBECONFIG|CONDA_\w+|BAY_\w+")
"""What a session needs of this shell: a server that runs has the variables of an older one."""
STAYS = 'printf "\\n%s: exit code %s\\n" {what} "$?"; exec "${{SHELL:-/bin/sh}}"'


def debug(given: Given) -> int:
    """Write launch entries of VS Code for runs, or for a target of make."""
    target = given.text("target", OWN_FILE)
    overwrite = given.truth("overwrite")
    folder = read_settings(Path.cwd(), runs=False).folder
    if target.endswith((".yaml", ".yml")):
        entries = _entries_of_runs(None if target == OWN_FILE else Path(target), folder)
    else:
        entries = [_entry_of_make(target, folder)]
    outcomes = write_entries(folder / FILE, entries, overwrite=overwrite)
    for entry, outcome in zip(entries, outcomes, strict=True):
        click.echo(f"{outcome} {entry['name']}")
    if "exists" in outcomes:
        say("those that exist are left as they are; `overwrite=true` replaces them")
    return 0


def shell(given: Given) -> int:
    """Become a shell in the project's folder, with its variables."""
    wants_bash = given.truth("bash")
    settings = read_settings(Path.cwd(), runs=False)
    program = _shell_program(bash=wants_bash)
    environment = {
        **os.environ,
        **settings.dotenv,
        "PYTHONPATH": _python_path(settings.folder, settings.dotenv),
        "BAY_PROJECT": settings.project_name,
    }
    os.chdir(settings.folder)
    sys.stdout.flush()
    os.execve(program, [program], environment)  # noqa: S606


def tmux(given: Given) -> int:
    """Run a target of make in a session of tmux that goes on by itself."""
    words = shlex.split(given.needed("target", "which target of make?"))
    folder = read_settings(Path.cwd(), runs=False).folder
    program = shutil.which("tmux")
    if program is None:
        raise BadRequest(
            "tmux is not installed",
            hint="`bay run --detach` leaves runs to themselves without it; or install tmux",
        )
    _ask_make(words, folder)
    name = NO_SESSION_NAME.sub("_", words[0])
    # With `=`, a name that only begins so is another session.
    if _call(program, "has-session", "-t", f"={name}").returncode == 0:
        say(f"there is a session `{name}` already: `tmux attach -t {name}`")
        return 1
    done = _call(program, "new-session", "-d", "-s", name, "-c", str(folder), _session(words))
    if done.returncode:
        raise BadRequest(f"tmux: {done.stderr.strip()}")
    click.echo(name)
    say(f"`make {shlex.join(words)}` runs in a session: `tmux attach -t {name}` shows it,")
    say("`tmux ls` lists all, and Ctrl-b d leaves one running")
    return 0


def _entries_of_runs(file: Path | None, folder: Path) -> list[dict[str, object]]:
    """An entry for each run that a file describes."""
    typed = Typed(file=file, params={}, words=())
    prepared = prepare(typed, plain_flags(target="local"), writing=False)
    _, steps = prepared.outline()
    chosen = list(islice(steps, MOST + 1))
    if len(chosen) > MOST:
        say(f"only the first {MOST} runs get an entry")
    made = [_entry_of_run(step, folder) for step in chosen[:MOST]]
    return [entry for entry in made if entry]


def _entry_of_run(step: Step, folder: Path) -> dict[str, object] | None:
    found = find_python(render(step.command))
    if found is None:
        say(f"{step.name}: its command runs no file or module with python; left out")
        return None
    if any(re.search(r"[$`]", word) for word in found.args):
        say(f"{step.name}: VS Code does not replace the variables of its arguments")
    return make_entry(step.name, found, step.recipe.env, folder)


def _entry_of_make(target: str, folder: Path) -> dict[str, object]:
    words = shlex.split(target)
    found = find_python(_ask_make(words, folder))
    if found is None:
        raise BadRequest(
            f"`make {target}` runs no file or module with python",
            hint=f"`make -n {target}` shows what it does; `target={OWN_FILE}` is all runs",
        )
    return make_entry(words[0], found, {}, folder)


def _ask_make(words: Sequence[str], folder: Path) -> str:
    """The commands of a target, which are not run.

    Raises:
        BadRequest: when there is no make, or no such target.
    """
    program = shutil.which("make")
    if program is None:
        raise BadRequest("make is not installed", hint="install it, or use `bay` itself")
    done = _call(program, "-n", "--no-print-directory", "--", *words, cwd=folder)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        hint = "name a target of the project's Makefile; `bay init --makefile` writes one"
        raise BadRequest(said, hint=hint)
    return done.stdout


def _session(words: Sequence[str]) -> str:
    """What the session runs; at the end a shell keeps it, and all that was printed."""
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    sets = "".join(f"export {name}={shlex.quote(value)}; " for name, value in kept.items())
    line = shlex.join(["make", *words])
    # The user's own shell may be one that spells this differently.
    return shlex.join(["/bin/sh", "-c", f"{sets}{line}; {STAYS.format(what=shlex.quote(line))}"])


def _call(*argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def _shell_program(*, bash: bool) -> str:
    names = ["bash"] if bash else [os.environ.get("SHELL", ""), "bash", "sh"]
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise BadRequest("there is no bash here", hint="leave `bash=true` out")


def _python_path(folder: Path, dotenv: Mapping[str, str]) -> str:
    """The project's own code first, as local runs have it."""
    own = [str(one) for one in (folder / "src", folder) if one.is_dir()]
    given = dotenv.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return os.pathsep.join([*own, *(one for one in given.split(os.pathsep) if one)])
