"""`bay init`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from launchbay.cli.options import complete_runs, one, yes_option
from launchbay.cli.screen import confirm, say
from launchbay.cli.toolbox import ALIASES, VERBS
from launchbay.core.errors import BadRequest, StoreError
from launchbay.engine.makefile import (
    Draft,
    There,
    is_old_link,
    is_written,
    plan_makefile,
    write_makefile,
)
from launchbay.engine.open import open_lab
from launchbay.engine.project import write_schema
from launchbay.engine.scaffold import FILE, find_file, first_files, render_repeat
from launchbay.engine.select import Selection

KUBE = "config/kube.yaml"


@click.command("init")
@click.argument(
    "folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False)
)
@click.option(
    "--from",
    "source",
    metavar="ID",
    help="write the file that repeats this run",
    shell_complete=complete_runs,
)
@click.option("--makefile", is_flag=True, help="write a Makefile of the toolbox's targets instead")
@yes_option
def command(*, folder: Path | None, source: str | None, makefile: bool, yes: bool) -> int:
    """Write a small runnable example; in a folder with code only bay.yaml.

    Nothing is ever overwritten. With `--makefile`, `make local`, `make upload file=data/` and
    the other targets of the Kubernetes toolbox call `bay`; a link to its Makefile is replaced
    after asking, and beside a Makefile of your own the targets are in `bay.mk`.
    """
    place = (folder or Path()).absolute()
    if source and makefile:
        raise BadRequest("`--from` and `--makefile` are two things", hint="choose one of them")
    if makefile:
        return _write_targets(place, typed=folder, yes=yes)
    if source:
        _write_repeat(place, source, typed=folder)
    elif there := find_file(place):
        say(f"{place / there} is there already; it was left alone")
        if (place / KUBE).exists() and not is_written(place):
            say("`bay init --makefile` writes the Makefile that goes with it")
        _say_next(folder, "bay plan", "bay run")
    else:
        _write_first(place, typed=folder)
    return 0


def _write_first(place: Path, *, typed: Path | None) -> None:
    files = first_files(place)
    for name, text in files.items():
        _write_new(place / name, text)
        say(f"wrote {place / name}")
    write_schema(place)
    if len(files) > 1:
        _say_next(typed, "bay run", "bay results --over seed")
    else:
        _say_next(typed, "bay plan", "bay run")


def _write_targets(place: Path, *, typed: Path | None, yes: bool) -> int:
    variables = dict.fromkeys(name for _, names, _ in VERBS.values() for name in names)
    draft = plan_makefile(place, ["help", *VERBS, *ALIASES], list(variables))
    if draft.question and not confirm(draft.question, yes=yes):
        say("nothing was written")
        return 1
    if draft.found is not There.SAME:
        write_makefile(draft)
    say(_describe(draft))
    if draft.kept:
        say(f"without {', '.join(draft.kept)}: {draft.beside} has its own")
    if not draft.included:
        say(f"\nadd this line to {place / draft.beside}:\n  include {draft.path.name}")
    script = place / "launch.py"
    if is_old_link(script):
        say(f"launch.py is a link to {script.readlink()}; bay does not need it")
    _say_next(typed, "make help", *(["make local"] if find_file(place) else []))
    return 0


def _describe(draft: Draft) -> str:
    match draft.found:
        case There.SAME:
            return f"{draft.path} is up to date"
        case There.OLDER | There.EDITED:
            return f"brought {draft.path} up to date"
    return f"wrote {draft.path}: `make VERB` is `bay toolbox VERB`"


def _write_repeat(place: Path, source: str, *, typed: Path | None) -> None:
    lab = open_lab()
    run = one(lab, Selection(ids=(source,), project=lab.project.id))
    # A file that is there may be the very one that the run came from.
    name = f"bay-{run.suffix}.yaml" if find_file(place) else FILE
    text = render_repeat(lab.read_job(run), target=run.target, folder=place)
    _write_new(place / name, text)
    write_schema(place)
    say(f"wrote {place / name}")
    words = "" if name == FILE else f" {name}"
    _say_next(typed, f"bay plan{words}", f"bay run{words}")


def _write_new(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as err:
        hint = f"remove or rename it, or choose another folder: `bay init {path.parent}-2`"
        raise BadRequest(f"`{path}` is there already; nothing was overwritten", hint=hint) from err
    except OSError as err:
        raise StoreError(
            f"cannot write `{path}`: {err.strerror}", hint="choose a folder that you can write"
        ) from err


def _say_next(folder: Path | None, *commands: str) -> None:
    away = folder is not None and folder.absolute() != Path.cwd()
    enter = f"cd {shlex.quote(str(folder))} && " if away else ""
    say(f"\nnext:\n  {enter}" + "\n  ".join(commands))
