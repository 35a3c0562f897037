"""`bay toolbox`: the first tool's verbs under their old names, for the Makefile that calls them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

import click

from launchbay.cli.options import yes_option
from launchbay.cli.toolbox_words import Given
from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RUNS, PODS, DATA, DESK = "toolbox_runs", "toolbox_pods", "toolbox_data", "toolbox_desk"
VERBS = {
    "local": (RUNS, (), "Run every combination here, in this folder, one after the other"),
    "local-first": (RUNS, (), "Run only the first of them"),
    "local-dryrun": (RUNS, (), "Print the name and the command of each"),
    "job": (RUNS, ("overwrite", "yes"), "Create a Job for each that is missing or failed"),
    "dryrun": (RUNS, (), "Write the Jobs to build/, and send nothing"),
    "pod": (PODS, ("pod",), "Create an interactive pod"),
    "pod-dryrun": (PODS, ("pod",), "Write the interactive pod to build/, and send nothing"),
    "copy": (PODS, ("pod",), "Send the files of `file:` to a pod that runs"),
    "delete": (PODS, ("yes",), "Delete your pods and Jobs of this project"),
    "delete_job": (PODS, ("yes",), "Delete your Jobs of this project"),
    "delete_pod": (PODS, ("yes",), "Delete your pods of this project"),
    "clean_jobs": (PODS, ("yes",), "Delete those of your Jobs that failed"),
    "list": (DATA, ("file", "api"), "List one folder of the bucket"),
    "find": (DATA, ("file", "api"), "Find what matches in the bucket"),
    "download": (DATA, ("file", "local_path", "overwrite", "api"), "Download what matches"),
    "upload": (DATA, ("file", "local_path", "overwrite", "api"), "Upload what matches"),
    "remove": (DATA, ("file", "yes", "api"), "Remove what matches from the bucket"),
    "interactive": (DATA, ("file", "local_path", "api"), "Show what matches, and choose"),
    "monitor": (DATA, ("file", "local_path", "interval"), "Upload a folder as it grows"),
    "server": (DATA, ("port",), "Nothing: transfers need no server"),
    "debug": (DESK, ("target", "overwrite"), "Write VS Code launch entries, one a run"),
    "shell": (DESK, ("bash",), "A shell with the project's variables"),
    "tmux": (DESK, ("target",), "Run a make target in a tmux session"),
}
"""Each verb with where it is done, the variables that it takes, and what it does."""
ALIASES = {
    "ls": "list",
    "fd": "find",
    "down": "download",
    "up": "upload",
    "rm": "remove",
    "mn": "monitor",
    "sv": "server",
}


@click.command("toolbox", hidden=True)
@click.argument("verb", default="help")
@click.argument("words", nargs=-1, metavar="[NAME=VALUE]…")
@yes_option
def command(*, verb: str, words: tuple[str, ...], yes: bool) -> int:
    """The verbs of the toolbox of YAML grids and `make` targets; `bay toolbox help` lists them."""
    if verb == "help":
        click.echo(render_verbs())
        return 0
    verb = ALIASES.get(verb, verb)
    if verb not in VERBS:
        raise BadRequest(
            f"there is no verb `{verb}`", hint=suggest(verb, (*VERBS, *ALIASES), listing=True)
        )
    module, names, _ = VERBS[verb]
    values = {**parse_variables(verb, words, names), **({"yes": "true"} if yes else {})}
    # Named like the verbs, with what Python wants in names.
    function = getattr(import_module(f"launchbay.cli.{module}"), verb.replace("-", "_"))
    return cast("Callable[[Given], int]", function)(Given(verb, values))


def parse_variables(verb: str, words: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The variables that were typed.

    >>> parse_variables("upload", ["file=a b=c"], ["file"])
    {'file': 'a b=c'}

    Raises:
        BadRequest: when one is no variable, or the verb has none of that name.
    """
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            hint = f"write `{names[0]}={word}`" if names else "write nothing behind it"
            raise BadRequest(f"`{verb}` takes no `{word}`", hint=hint)
        if name not in names:
            known = suggest(name, names, listing=True) if names else "it takes none"
            raise BadRequest(f"`{verb}` has no variable `{name}`", hint=known)
        found[name] = value
    return found


def render_verbs() -> str:
    """The verbs, as `make help` lists them."""
    short = {verb: alias for alias, verb in ALIASES.items()}
    lines = []
    for verb, (_, names, what) in VERBS.items():
        spelled = f"{verb}, {short[verb]}" if verb in short else verb
        shown = [name for name in names if name != "api"]
        takes = f" ({', '.join(f'{name}=' for name in shown)})" if shown else ""
        lines.append(f"{spelled:<15} {what}{takes}")
    return "\n".join(lines)
