"""`bay init`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from launchbay.cli.options import complete_runs, one
from launchbay.cli.screen import say
from launchbay.core.errors import BadRequest, StoreError
from launchbay.engine.open import open_lab
from launchbay.engine.project import write_schema
from launchbay.engine.scaffold import FILE, find_file, first_files, render_repeat
from launchbay.engine.select import Selection


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
def command(*, folder: Path | None, source: str | None) -> None:
    """Write a small runnable example; in a folder with code only bay.yaml.

    Nothing is ever overwritten.
    """
    place = (folder or Path()).absolute()
    if source:
        _write_repeat(place, source, typed=folder)
        return
    there = find_file(place)
    if there:
        say(f"{place / there} is there already; it was left alone")
        _say_next(folder, "bay plan", "bay run")
        return
    files = first_files(place)
    for name, text in files.items():
        _write_new(place / name, text)
        say(f"wrote {place / name}")
    write_schema(place)
    if len(files) > 1:
        _say_next(folder, "bay run", "bay results --over seed")
    else:
        _say_next(folder, "bay plan", "bay run")


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


def _say_next(folder: Path | None, first: str, second: str) -> None:
    enter = f"cd {shlex.quote(str(folder))} && " if folder else ""
    say(f"\nnext:\n  {enter}{first}\n  {second}")
