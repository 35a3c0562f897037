"""Options that several commands share."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from launchbay.core.errors import BadRequest, BayError
from launchbay.core.nearest import suggest
from launchbay.core.run import State
from launchbay.engine.open import open_lab
from launchbay.engine.select import Selection, newest, select

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

RESOURCES = {
    "gpus": ("-n", "GPUs of a run: whole, or a fraction such as 0.5; 0 hides them"),
    "gpu-type": ("", "GPUs whose name contains this"),
    "cpus": ("", "processors of a run, on each of its nodes"),
    "memory": ("", "memory of a run, on each of its nodes: 32 (GB), 512M"),
    "disk": ("", "scratch space of a run: 100 (GB); 0 asks for none"),
    "time": ("", "time limit of a run: 90m, 8h, 2d, HH:MM:SS"),
    "nodes": ("", "machines of a run"),
    "processes": ("", "how often the command is started on each node"),
    "image": ("", "the container image; a machine runs without one"),
    "parallel": ("-j", "at most so many runs at once"),
    "pack": ("", "runs that share an allocation: 20, or node"),
    "retries": ("", "how often a failed run is tried again: 2, or by cause node=2,exit=1"),
    "resume/--no-resume": ("", "warn a run before its time limit, and continue it after"),
    "grace": ("", "how long before the limit it is warned: 2m"),
    "hold": ("", "how long a run that fails keeps its place: 30m"),
    "profile": ("", "the one of the target's profiles to take"),
}


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Suffixes and experiments that begin so, of the project that one stands in."""
    from launchbay.runstore.store import Query  # noqa: PLC0415

    words: list[str] = []
    # An error would be printed into the line that is being typed.
    with suppress(BayError):
        lab = open_lab(writing=False)
        runs = lab.store.runs(Query(project=lab.project.id, last=200))
        words = [*(run.suffix for run in runs), *dict.fromkeys(run.experiment for run in runs)]
    return [word for word in words if word.startswith(incomplete)]


def complete_targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Targets that begin so."""
    names: list[str] = []
    with suppress(BayError):
        names = open_lab(writing=False).targets.names()
    return [name for name in names if name.startswith(incomplete)]


def selection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what says which runs are meant; the command gets `lab` and `selection`."""

    @wraps(function)
    def command(  # noqa: PLR0917
        ids: tuple[str, ...],
        experiment: str | None,
        states: tuple[str, ...],
        only: tuple[str, ...],
        targets: tuple[str, ...],
        tags: tuple[str, ...],
        since: str | None,
        project: str | None,
        everywhere: bool,  # noqa: FBT001
        **rest: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        lab = open_lab()
        selection = Selection(
            ids=ids,
            experiment=experiment,
            states=parse_states(states),
            only=parse_only(only),
            targets=targets,
            tags=tags,
            since=time.time() - parse_since(since) if since else None,
            project=_project(lab, project, everywhere=everywhere),
        )
        return function(lab=lab, selection=selection, **rest)

    decorators = (
        click.argument("ids", nargs=-1, metavar="[ID]…", shell_complete=complete_runs),
        click.option("-e", "--experiment", help="runs of this experiment"),
        click.option("--state", "states", multiple=True, help="runs in this state"),
        click.option("--only", multiple=True, metavar="K=V", help="runs with this parameter"),
        click.option(
            "--target", "targets", multiple=True, help="runs on it", shell_complete=complete_targets
        ),
        click.option("--tag", "tags", multiple=True, help="runs with this tag or of this launch"),
        click.option("--since", metavar="T", help="runs made in the last 90m, 8h, 2d"),
        click.option("--project", metavar="P", help="runs of another project, by name or folder"),
        click.option("--everywhere", is_flag=True, help="runs of all projects"),
    )
    wrapped: Callable[..., Any] = command
    for decorate in reversed(decorators):
        wrapped = decorate(wrapped)
    return wrapped


def resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the resource flags; the command gets those given as `resources`."""

    @wraps(function)
    def command(**values: Any) -> Any:  # noqa: ANN401
        names = [_keyword(name) for name in RESOURCES]
        given = {name: value for name in names if (value := values.pop(name)) is not None}
        texts = {name: _text(value) for name, value in given.items()}
        return function(resources=texts, **values)

    wrapped: Callable[..., Any] = command
    for name, (short, what) in reversed(RESOURCES.items()):
        spellings = [f"--{name}", *([short] if short else [])]
        wrapped = click.option(*spellings, _keyword(name), default=None, help=what)(wrapped)
    return wrapped


def _text(value: object) -> str:
    """What is yes or no goes the way of all the others."""
    return value if isinstance(value, str) else str(value).lower()


def _keyword(flag: str) -> str:
    return flag.partition("/")[0].replace("-", "_")


class Followed(click.Command):
    """Takes what stands behind `--` as a command of the user's own: `ctx.meta["command"]`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:  # noqa: D102
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["command"] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return ["[OPTIONS] [ID] [-- COMMAND …]"]


json_option = click.option("--json", "as_json", is_flag=True, help="one JSON document")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="ids only")
yes_option = click.option("--yes", "-y", is_flag=True, help="do not ask")


def chosen(lab: Lab, selection: Selection) -> list[Run]:
    """The runs meant; nothing given means none, and that is refused.

    Raises:
        BadRequest: when nothing was said, or nothing found.
    """
    if not selection.given:
        raise BadRequest("which runs?", hint="name an id, an experiment or `--state failed`")
    return select(lab.store, selection)


def one(lab: Lab, selection: Selection) -> Run:
    """The one run meant, or the newest, and then it is said which."""
    from launchbay.cli.screen import say  # noqa: PLC0415

    if not selection.given:
        run = newest(lab.store, selection.project)
        say(f"the newest run: {run.id}")
        return run
    found = select(lab.store, selection)
    if len(found) != 1:
        listed = ", ".join(f"`{run.suffix}`" for run in found[-10:])
        raise BadRequest(
            f"{len(found)} runs are meant, not one", hint=listed and f"one of {listed}"
        )
    return found[0]


def parse_states(words: Sequence[str]) -> tuple[State, ...]:
    """States by their names; several may stand in one word, with commas."""
    names = [name for word in words for name in word.lower().split(",")]
    for name in names:
        if name not in set(State):
            raise BadRequest(f"there is no state `{name}`", hint=suggest(name, State))
    return tuple(State(name) for name in names)


def parse_only(words: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """`key=v1,v2` filters."""
    if not words:
        return {}
    from launchbay.core.sweep import parse_values  # noqa: PLC0415

    only: dict[str, Sequence[str]] = {}
    for word in words:
        key, sign, values = word.partition("=")
        if not sign:
            raise BadRequest(f"`--only {word}` has no `=`", hint="write `--only lr=0.1,0.01`")
        only[key] = parse_values(values)
    return only


def parse_since(text: str) -> float:
    """Seconds back."""
    from launchbay.core.quantity import parse_time  # noqa: PLC0415

    try:
        return parse_time(text).total_seconds()
    except ValueError as err:
        raise BadRequest(f"--since: {err}") from err


def _project(lab: Lab, name: str | None, *, everywhere: bool) -> str | None:
    if everywhere:
        return None
    if name is None:
        return lab.project.id
    from pathlib import Path  # noqa: PLC0415

    folder = Path(name).expanduser().absolute()
    projects = lab.store.projects()
    for project_id, (known, where) in projects.items():
        if name in {project_id, known} or folder == where:
            return project_id
    known_names = [known for known, _ in projects.values()]
    raise BadRequest(f"there is no project `{name}`", hint=suggest(name, known_names))
