"""The first tool's verbs that run: here one after the other, or as Jobs of the target `kube`."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launchbay.cli.here import perform
from launchbay.cli.planning import Typed, plain_flags, prepare
from launchbay.cli.screen import say
from launchbay.config.schema import KUBE, LOCAL
from launchbay.core.command import render
from launchbay.core.errors import BadRequest
from launchbay.core.run import State
from launchbay.engine.launch import Check
from launchbay.engine.settings import read_settings
from launchbay.engine.workloads import require_kube

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from launchbay.cli.planning import Prepared
    from launchbay.cli.toolbox_words import Given
    from launchbay.core.run import Run
    from launchbay.engine.launch import Draft
    from launchbay.engine.steps import Step

INTERRUPTED = 130
MANY = 100
NAMED = 10


def local(given: Given) -> int:  # noqa: ARG001
    """Run everything in the project's folder, one after the other, whatever ran before."""
    return _run_all(_prepare(LOCAL))


def local_first(given: Given) -> int:  # noqa: ARG001
    """Run the first of them."""
    return _run_all(_prepare(LOCAL, first=True))


def local_dryrun(given: Given) -> int:  # noqa: ARG001
    """Print what `local` would run, a line each."""
    draft, steps = _prepare(LOCAL, writing=False).outline()
    for step in steps:
        click.echo(f"{step.name}: {draft.vault.mask(render(step.command))}")
    return 0


def job(given: Given) -> int:
    """Create the Jobs that are missing or failed, and say of all others why not."""
    overwrite = given.truth("overwrite")
    prepared = _prepare(KUBE, again=overwrite, replacing=overwrite)
    prepared.look()
    draft = prepared.draft()
    for _ in map(Check(draft), draft.steps):
        pass
    new = len(draft.to_submit)
    if new > MANY and not given.agreed(f"create {new} Jobs?"):
        return 1
    prepared.lab.tell = say
    runs = prepared.lab.launch(draft) if new else []
    by_name = {run.name: run for run in runs}
    for step in draft.steps:
        click.echo("\n".join(_job_lines(step, by_name.get(step.name))))
    _tell_more(draft)
    return int(any(run.state.final for run in runs))


def dryrun(given: Given) -> int:  # noqa: ARG001
    """Write the Jobs as they would be sent."""
    from launchbay.engine.manifests import job_texts, write_manifests  # noqa: PLC0415

    prepared = _prepare(KUBE, writing=False, again=True, replacing=True)
    draft, steps = prepared.outline()
    texts = job_texts(draft, [replace(step, how="new", run=None) for step in steps])
    for path in write_manifests(prepared.lab.project.folder, texts):
        click.echo(path)
    return 0


def _prepare(target: str, *, writing: bool = True, **flags: Any) -> Prepared:  # noqa: ANN401
    settings = read_settings(Path.cwd())
    if settings.path is None:
        raise BadRequest(
            "there is no `config/launch.yaml` here, nor above",
            hint="go to the project's folder, or write one: `bay init` has an example",
        )
    if target == KUBE:
        require_kube(settings)
    typed = Typed(params={}, words=())
    return prepare(typed, plain_flags(target=target, **flags), writing=writing)


def _run_all(prepared: Prepared) -> int:
    draft = prepared.draft()
    failed: list[Run] = []
    for at, step in enumerate(draft.steps):
        run = perform(prepared.lab, replace(draft, steps=(step,)), partial(_announce, step))
        if run.state is not State.SUCCEEDED:
            failed.append(run)
        if run.status.exit_code == INTERRUPTED:
            left = len(draft.steps) - at - 1
            say(f"interrupted; {left} not run" if left else "interrupted")
            return INTERRUPTED
    if failed:
        say(f"{len(failed)} of {len(draft.steps)} failed; `bay show ID` tells why:")
        for run in failed[:NAMED]:
            say(f"  {run.suffix}  {run.name}: {run.status.reason or run.state}")
        if len(failed) > NAMED:
            say(f"  and {len(failed) - NAMED} more: `bay ls --state failed`")
    return int(bool(failed))


def _announce(step: Step, run: Run) -> None:
    click.echo(f"Running {json.dumps(written_params(step), indent=4)} ... \n\n{run.command}\n")


def written_params(step: Step) -> Mapping[str, str]:
    """The parameters of a run as its file spells them."""
    hidden, keys = step.branch.hidden, set(step.branch.grid.keys)
    return {
        f"_{key}" if key in hidden else key: value
        for key, value in step.params.items()
        if key in keys
    }


def _job_lines(step: Step, run: Run | None) -> Iterator[str]:
    """What became of a Job, as the first tool said it."""
    name = f"Job '{step.name}'"
    if step.action == "skip":
        yield f"{name} already {step.why}. Doing nothing."
        return
    before = step.run
    match step.how:
        case "attempt" if before:
            yield f"{name} {before.state}. Creating attempt {before.attempt + 1}."
        case "replace" if before:
            yield f"{name} is {before.state}. Overwriting it."
        case "new" if before:
            yield f"{name} {before.state}. Overwriting it."
        case "resend":
            yield f"{name} was never sent. Creating the job."
        case _:
            yield f"{name} not found. Creating the job."
    if run is None:
        yield f"{name} is another bay's by now."
    elif run.state.final:
        yield f"job.batch/{run.id} refused: {run.status.reason}"
    elif run.native_id:
        yield f"job.batch/{run.native_id} created"
    else:
        yield f"job.batch/{run.id} waits on this side: {run.status.reason or 'not sent yet'}"


def _tell_more(draft: Draft) -> None:
    older: Sequence[Run] = draft.under_older_code
    if older:
        say(
            f"{len(older)} of these succeeded under older code;"
            " `bay run --target kube --changed-code` runs those again,"
            " `make job overwrite=true` all"
        )
    if draft.to_submit:
        say("`bay ls` shows what becomes of them, `bay logs NAME` what they print")
