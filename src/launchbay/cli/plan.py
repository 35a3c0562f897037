"""`bay plan`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from launchbay.cli.options import json_option
from launchbay.cli.planning import TypedCommand, headline, plan_options, prepare
from launchbay.cli.planning_place import Sent, place_lines
from launchbay.cli.screen import render_table, say, screen_width
from launchbay.core.command import render
from launchbay.engine.launch import Check, preview
from launchbay.engine.steps import Tally, render_resources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from launchbay.cli.planning import Prepared
    from launchbay.core.sweep import Point
    from launchbay.engine.launch import Draft
    from launchbay.engine.steps import Step

SHOWN = 50
STANDINGS = ("done", "running", "waiting", "failed", "lost", "cancelled", "missing")


@click.command("plan", cls=TypedCommand)
@plan_options
@click.option("--document", is_flag=True, help="exactly what would be sent")
@click.option("--check", "checking", is_flag=True, help="ask the target what would become of it")
@click.option("--diff", "differing", is_flag=True, help="only what is not as it is stored")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    document: bool,
    checking: bool,
    differing: bool,
    as_json: bool,
    **flags: Any,  # noqa: ANN401
) -> int:
    """Show what `bay run` would do: each run, whether it would be submitted, and why.

    Writes nothing and contacts nothing; what became of runs is taken as last seen. With `--check`
    the target is asked when it would start, or why not; exit 1 when it would be refused.
    """
    prepared = prepare(ctx.meta["typed"], flags, writing=False)
    if checking:
        # What is known of it is as of now.
        prepared.lab.targets.open(prepared.target)
    draft, decided = prepared.outline()
    if any(branch.varied for branch in draft.request.experiment.branches):
        # What cannot be done is said before anything is printed.
        for _ in map(Check(draft), prepared.outline()[1]):
            pass
    sent = Sent()
    steps = map(sent.add, map(Check(draft), decided))
    if differing:
        _print_differences(prepared, draft, steps, as_json=as_json)
    elif document:
        chosen = [step for step in steps if step.action == "submit"]
        click.echo("".join(preview(draft, chosen)), nl=False)
    elif as_json:
        _print_json(draft, steps)
    else:
        _print_plan(draft, steps, sent)
    return _check(draft, sent, words=as_json or document) if checking else 0


def _check(draft: Draft, sent: Sent, *, words: bool) -> int:
    """Ask the target; 1 when it would refuse something."""
    from launchbay.cli.findings import exit_code, print_findings  # noqa: PLC0415
    from launchbay.engine.access import try_plans  # noqa: PLC0415

    if not sent.steps:
        say("nothing would be sent, so there is nothing to ask about")
        return 0
    findings = try_plans(draft, sent.steps)
    if not words:
        return print_findings(findings)
    for finding in findings:
        say(f"{finding.level}: {finding.message}")
    return exit_code(findings)


def _print_json(draft: Draft, steps: Iterable[Step]) -> None:
    """One JSON list, written while the steps are decided: there may be many."""
    before = "["
    for step in steps:
        sys.stdout.write(f"{before}\n {json.dumps(_row(step, draft))}")
        before = ","
    sys.stdout.write("[]\n" if before == "[" else "\n]\n")


def _row(step: Step, draft: Draft) -> dict[str, Any]:
    return {
        "name": step.name,
        "params": dict(step.params),
        "command": draft.vault.mask(render(step.command)),
        "target": draft.place.name,
        "resources": render_resources(step.recipe.resources),
        "identity": step.identity,
        "action": step.action,
        "why": step.why,
    }


@dataclass
class _Seen:
    """What is kept of steps that pass by: the first ones, and which parameters vary."""

    first: list[Step] = field(default_factory=list)
    pythons: dict[str, None] = field(default_factory=dict)
    images: dict[str, None] = field(default_factory=dict)
    _constant: dict[str, str | None] = field(default_factory=dict)
    varying: dict[str, None] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        if len(self.first) < SHOWN:
            self.first.append(step)
        self._compare(step.params, beginning=not self._constant and len(self.first) == 1)
        if step.recipe.python:
            self.pythons[str(step.recipe.python)] = None
        if step.recipe.image:
            self.images[step.recipe.image] = None

    def _compare(self, point: Point, *, beginning: bool) -> None:
        if beginning:
            self._constant = dict(point)
            return
        for key in {*self._constant, *point} - self.varying.keys():
            if self._constant.get(key) != point.get(key):
                self.varying[key] = None

    def columns(self) -> list[str]:
        """The parameters that vary, in the order of the points."""
        order = dict.fromkeys(key for step in self.first for key in step.params)
        return [key for key in dict.fromkeys([*order, *self.varying]) if key in self.varying]


def _print_plan(draft: Draft, steps: Iterable[Step], sent: Sent) -> None:
    tally, seen = Tally(), _Seen()
    for step in steps:
        seen.add(tally.add(step))
    click.echo(headline(tally, draft))
    for line in place_lines(draft, sent):
        click.echo(line)
    if seen.pythons:
        click.echo(f"python: {', '.join(seen.pythons)}")
    if seen.images and draft.place.where["kind"] == "machine":
        say(f"a machine runs without the image {', '.join(seen.images)}")
    _print_standings(tally)
    _print_steps(draft, seen, tally)


def _print_standings(tally: Tally) -> None:
    """How many points of each model and dataset stand where."""
    if len(tally.standings) < 2:  # noqa: PLR2004
        return
    words = [word for word in STANDINGS if any(word in one for one in tally.standings.values())]
    named = [any(pair[at] for pair in tally.standings) for at in (0, 1)]
    heads = [word for word, there in zip(("model", "dataset"), named, strict=True) if there]
    rows = [
        (
            *(name for name, there in zip(pair, named, strict=True) if there),
            str(sum(counts.values())),
            *(str(counts[word] or "") for word in words),
        )
        for pair, counts in list(tally.standings.items())[:SHOWN]
    ]
    columns = (*heads, "runs", *words)
    click.echo(render_table(columns, rows, width=screen_width(), keep=frozenset(columns)))
    if len(tally.standings) > SHOWN:
        click.echo(f"… and {len(tally.standings) - SHOWN} more")
    click.echo()


def _print_steps(draft: Draft, seen: _Seen, tally: Tally) -> None:
    keys = seen.columns()
    rows = [
        (
            step.action,
            step.why,
            *(step.params.get(key, "") for key in keys),
            _one_line(draft.vault.mask(render(step.command))),
        )
        for step in seen.first
    ]
    columns = ("action", "why", *keys, "command")
    click.echo(render_table(columns, rows, width=screen_width(), keep=frozenset({"command"})))
    if tally.runs > SHOWN:
        click.echo(f"… and {tally.runs - SHOWN} more; `--json` lists all")


def _one_line(text: str) -> str:
    """A script in a table."""
    return " ⏎ ".join(line.strip() for line in text.splitlines() if line.strip())


def _print_differences(
    prepared: Prepared, draft: Draft, steps: Iterable[Step], *, as_json: bool
) -> None:
    from launchbay.engine.difference import differences  # noqa: PLC0415

    found = list(differences(prepared.lab, draft, steps))
    if as_json:
        click.echo(json.dumps([vars(change) for change in found], indent=1))
        return
    for change in found:
        click.echo(f"{change.sign} {change.name}  {change.what}")
    if not found:
        say("everything is as the file says")
