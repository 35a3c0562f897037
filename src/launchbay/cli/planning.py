"""What `bay plan` and `bay run` share: reading what was typed, and drafting the launch."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from launchbay.cli.options import complete_targets, parse_only, resource_options
from launchbay.cli.screen import say
from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest
from launchbay.core.quantity import render_limit
from launchbay.core.sweep import Choice, Span, parse_values
from launchbay.engine.open import open_lab
from launchbay.engine.settings import Wish, read_settings, read_settings_of
from launchbay.engine.steps import Request, Tally
from launchbay.engine.tidy import require_clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from launchbay.core.sweep import Experiment
    from launchbay.engine.lab import Lab
    from launchbay.engine.launch import Draft
    from launchbay.engine.origin import Origin
    from launchbay.engine.steps import Step
    from launchbay.sync.snapshot import Listing

CLOSE = 0.75
PYTHON = re.compile(r"python[\d.]*")
KEY = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Typed:
    """The words that were typed, apart from flags."""

    file: Path | None = None
    params: Mapping[str, Sequence[str]]
    words: tuple[str, ...]


class TypedCommand(click.Command):
    """Takes flags only up to the first word of the user's own command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:  # noqa: D102
        valued = {
            spelling
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for spelling in option.opts
        }
        flags, rest = split_flags(args, valued)
        ctx.meta["typed"] = parse_typed(rest)
        try:
            return super().parse_args(ctx, flags)
        except click.NoSuchOption as err:
            raise _no_such_flag(err, self) from err

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102
        return ["[flags] [FILE.yaml] [KEY=VALUES…] [--] [COMMAND …]"]


def _no_such_flag(err: click.NoSuchOption, command: click.Command) -> BadRequest:
    """What was meant: a flag that is nearly the same, or a parameter."""
    from difflib import get_close_matches  # noqa: PLC0415 (only for a mistake)

    flags = [name for param in command.params for name in param.opts]
    near = get_close_matches(err.option_name, flags, n=1, cutoff=CLOSE)
    key = err.option_name.lstrip("-")
    meant = f"did you mean `{near[0]}`?" if near else f"a parameter is written `{key}=VALUE`"
    if key.replace("-", "") == "dryrun":
        meant = "`bay plan` shows what would run, and does nothing"
    return BadRequest(
        f"there is no flag `{err.option_name}`",
        hint=f"{meant}; flags of your own program stand after its name",
    )


def split_flags(args: Sequence[str], valued: set[str]) -> tuple[list[str], list[str]]:
    """Flags, wherever they stand before the command, and all else in its order.

    >>> split_flags(["--detach", "lr=1", "-n", "2", "python", "-v"], {"-n"})
    (['--detach', '-n', '2'], ['lr=1', 'python', '-v'])
    """
    flags: list[str] = []
    rest: list[str] = []
    at = 0
    while at < len(args):
        word = args[at]
        if word == "--" or not (word.startswith("-") or KEY.fullmatch(word) or _is_file(word)):
            return flags, rest + list(args[at:])
        if not word.startswith("-") or word == "-":
            rest.append(word)
        else:
            flags.append(word)
            if word in valued and at + 1 < len(args):
                at += 1
                flags.append(args[at])
        at += 1
    return flags, rest


def parse_typed(words: Sequence[str]) -> Typed:
    """The file, the parameters and the command among words that are no flags."""
    file: Path | None = None
    params: dict[str, Sequence[str]] = {}
    left = list(words)
    while left and left[0] != "--":
        match = KEY.fullmatch(left[0])
        if match:
            if match[1] in params:
                raise BadRequest(
                    f"`{match[1]}` is given twice", hint=f"{match[1]}=a,b for two values"
                )
            params[match[1]] = parse_values(match[2])
        elif _is_file(left[0]) and file is None:
            file = Path(left[0])
        else:
            break
        left.pop(0)
    command = left[1:] if left[:1] == ["--"] else left
    if file and command:
        raise BadRequest(f"a file and a command, `{command[0]}`", hint="give one of the two")
    return Typed(file=file, params=params, words=tuple(command))


def _is_file(word: str) -> bool:
    return word.endswith((".yaml", ".yml"))


def plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags of `bay plan` and `bay run`."""
    options = (
        click.option("--target", "-t", help="where to run", shell_complete=complete_targets),
        click.option("--name", help="the experiment's name"),
        click.option(
            "--only", multiple=True, metavar="K=V1,V2", help="keep runs with these values"
        ),
        click.option("--set", "sets", multiple=True, metavar="K=VALUES", help="as KEY=VALUES"),
        click.option("--first", is_flag=True, help="only the first run"),
        click.option("--limit", type=click.IntRange(min=1), help="at most so many runs"),
        click.option("--shuffle", type=int, metavar="SEED", help="in another order"),
        click.option("--repeat", type=click.IntRange(min=1), help="each so many times"),
        click.option("--again", is_flag=True, help="also what succeeded, as new runs"),
        click.option("--changed-code", is_flag=True, help="also what succeeded under other code"),
        click.option(
            "--replace",
            "replacing",
            is_flag=True,
            help="also what waits or runs with other resources",
        ),
        click.option("--anywhere", is_flag=True, help="count successes on other targets"),
        click.option("--env", multiple=True, metavar="NAME=VALUE", help="a variable of the runs"),
        click.option("--require-clean", is_flag=True, help="refuse when git has changes to commit"),
        click.option(
            "--style",
            type=click.Choice(["flags", "hydra"]),
            default="flags",
            help="how unused keys are appended: --key value, key=value",
        ),
    )
    wrapped = resource_options(function)
    for decorate in reversed(options):
        wrapped = decorate(wrapped)
    return wrapped


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What a launch is made from."""

    lab: Lab
    request: Request
    target: str
    listing: Listing

    def draft(self) -> Draft:
        """All of it, decided."""
        return self.lab.draft(self.request, target=self.target, listing=self.listing)

    def outline(self) -> tuple[Draft, Iterator[Step]]:
        """The same, a step at a time."""
        return self.lab.outline(self.request, target=self.target, listing=self.listing)

    def look(self) -> None:
        """Ask the targets what became of runs that may have news."""
        if self.lab.project.id:
            self.lab.refresh(self.lab.unfinished(self.lab.project.id))


def prepare(
    typed: Typed, flags: Mapping[str, Any], *, writing: bool, origin: Origin | None = None
) -> Prepared:
    """From what was typed to a request.

    Args:
        typed: words.
        flags: those of `plan_options`.
        writing: whether the index may be made where there is none; `bay plan` writes nothing.
        origin: whose outputs `$BAY_FROM` names.
    """
    params = {**typed.params, **_parse_sets(flags["sets"])}
    settings = read_settings_of(typed.file) if typed.file else read_settings(Path.cwd())
    lab = open_lab(settings=settings, writing=writing)
    wish = Wish(
        words=typed.words,
        params=params,
        resources=flags["resources"],
        env=_parse_env(flags["env"]),
        target=flags["target"],
        name=flags["name"],
        style=flags["style"],
    )
    experiment, target = settings.experiment(wish)
    lab.project = replace(lab.project, name=experiment.project)
    listing = settings.scan(experiment, lab.project.bay)
    if listing.unreadable:
        say(f"warning: not readable, left out: {', '.join(listing.unreadable[:5])}")
    frozen = () if experiment.in_image else typed.words
    for warning in (*experiment.warnings, *missing_script(frozen, Path.cwd())):
        say(f"warning: {warning}")
    if flags["require_clean"]:
        require_clean(lab.project.folder)
    request = Request(
        experiment=experiment,
        choice=parse_choice(flags, experiment),
        again=flags["again"],
        changed_code=flags["changed_code"],
        replace=flags["replacing"],
        anywhere=flags["anywhere"],
        note=settings.vault.mask(flags.get("note") or ""),
        tags=tuple(flags.get("tags") or ()),
        origin=origin,
    )
    return Prepared(lab=lab, request=request, target=target, listing=listing)


def missing_script(words: Sequence[str], folder: Path) -> list[str]:
    """A warning where a typed command names a Python script that is not there."""
    bare = words[1:] if words and PYTHON.fullmatch(words[0]) else words[:1]
    script = bare[0] if bare else ""
    # A path from the root, or with a value in it, is the target's own affair.
    if not re.fullmatch(r"[^/~<$][^<$]*\.py", script) or (folder / script).exists():
        return []
    above = (folder / script).parent
    others = [path.name for path in above.glob("*.py")] if above.is_dir() else []
    hint = suggest(Path(script).name, others) or ""
    return [f"there is no `{script}` here; {hint}".rstrip("; ")]


def plain_flags(**given: Any) -> dict[str, Any]:  # noqa: ANN401
    """The flags of `plan_options` where nobody typed any but these."""
    nothing = dict.fromkeys(("target", "name", "limit", "shuffle", "repeat"))
    off = dict.fromkeys(
        ("first", "again", "changed_code", "replacing", "anywhere", "require_clean"), False
    )
    many = dict.fromkeys(("only", "sets", "env"), ())
    return {**nothing, **off, **many, "style": "flags", "resources": {}, **given}


def parse_choice(flags: Mapping[str, Any], experiment: Experiment) -> Choice:
    """Which points of the grid the flags want."""
    only = parse_only(flags["only"])
    branches = experiment.branches
    known = dict.fromkeys(key for branch in branches for key in branch.keys)
    repeat = {"repeat": Span(0, flags["repeat"] - 1)} if flags["repeat"] else {}
    for key, values in only.items():
        if key not in known and key not in repeat:
            raise BadRequest(
                f"--only: there is no parameter `{key}`", hint=suggest(key, [*known, *repeat])
            )
        columns = [branch.values_of(key) for branch in branches] + [repeat.get(key, ())]
        for value in values:
            if not any(value in column for column in columns):
                some = [one for column in columns for one in column[:1000]]
                raise BadRequest(f"--only: `{key}` is never `{value}`", hint=suggest(value, some))
    return Choice(
        only=only,
        limit=1 if flags["first"] else flags["limit"],
        shuffle=flags["shuffle"],
        repeat=flags["repeat"],
    )


def headline(tally: Tally, draft: Draft) -> str:
    """Runs, done, to submit, target, code, at most so many GPU-hours."""
    parts = [f"{tally.runs} run{'s' * (tally.runs != 1)}"]
    if tally.done:
        parts.append(f"{tally.done} done")
    others = tally.runs - tally.done - tally.submit
    if others:
        parts.append(f"{others} under way")
    parts += [f"{tally.submit} to submit", f"target {draft.place.name}", f"code {draft.listing.id}"]
    if tally.submit and tally.gpu_hours:
        parts.append(f"at most {tally.gpu_hours:g} GPU-hours")
    elif tally.longest_s:
        parts.append(f"at most {render_limit(timedelta(seconds=tally.longest_s))} each")
    return " · ".join(parts)


def _parse_env(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.isidentifier() or not name.isascii():
            raise BadRequest(
                f"`--env {word}` is no NAME=VALUE", hint="write `--env OMP_NUM_THREADS=1`"
            )
        found[name] = value
    return found


def _parse_sets(words: Sequence[str]) -> dict[str, Sequence[str]]:
    params = {}
    for word in words:
        match = KEY.fullmatch(word)
        if not match:
            raise BadRequest(f"`--set {word}` is no KEY=VALUES", hint="write `--set lr=0.1,0.01`")
        params[match[1]] = parse_values(match[2])
    return params
