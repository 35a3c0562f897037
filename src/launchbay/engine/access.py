"""Going where runs run: logging in, a shell, a port, a place to work, what is free there."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from launchbay.core.backend import (
    Capacity,
    Development,
    Finding,
    Forwarding,
    Interactive,
    Room,
    Staging,
    Trial,
)
from launchbay.core.errors import BadRequest, BayError, TargetError, Unsupported
from launchbay.core.job import Argv, Job, Policy
from launchbay.core.naming import run_id
from launchbay.core.python import render_setup
from launchbay.core.run import State
from launchbay.hosts.reach import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from launchbay.core.job import Recipe
    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.launch import Draft
    from launchbay.engine.steps import Step
    from launchbay.engine.targets import Place
    from launchbay.sync.snapshot import Snapshot

DEV_TIME = timedelta(hours=1)
TRIALS = 3
"""Plans that a target is asked about; others are like them."""
SKEW_S = 60.0
"""A difference of clocks that people notice."""


def host_of(lab: Lab, target: str) -> str:
    """The `host:` of a target; empty for this machine.

    Raises:
        BadRequest: when there is no target of that name.
    """
    from launchbay.engine.catalogue import find_target  # noqa: PLC0415

    return str(find_target(lab.settings, target).written.get("host") or "")


def log_in(host: str, target: str, call: Callable[[Sequence[str]], int]) -> None:
    """Have the shared connection to a host anew, which may ask the person at the terminal.

    Args:
        host: as `ssh` takes it.
        target: what it is for.
        call: runs a command in the terminal; returns its exit code.

    Raises:
        TargetError: when nobody could log in.
    """
    from launchbay.hosts.ssh import SSHHost  # noqa: PLC0415

    there = SSHHost(host, target=target)
    there.close()
    try:
        # Where keys are enough there is nothing to ask; and a connection of the user's own stays.
        there.run(["true"])
    except TargetError:
        call(there.login_argv())
        there.run(["true"])


def shell_argv(lab: Lab, run: Run, command: Sequence[str]) -> list[str]:
    """What a terminal executes to be where the run runs.

    Raises:
        BadRequest: when it does not run.
        Unsupported: when its target lets nobody in.
    """
    _check_sent(run)
    backend = lab.targets.reopen(run)
    if not isinstance(backend, Interactive):
        raise Unsupported(f"`{run.target}` lets nobody in where a run runs")
    return backend.shell_argv(run.handle, command)


def forward_argv(lab: Lab, run: Run, port: int, to_port: int) -> list[str]:
    """What stays in the foreground as long as `port` here is the run's `to_port`.

    Raises:
        BadRequest: when it does not run.
        Unsupported: when its target cannot.
    """
    _check_sent(run)
    backend = lab.targets.reopen(run)
    if not isinstance(backend, Forwarding):
        raise Unsupported(f"`{run.target}` cannot lead a port of this machine to a run")
    return backend.forward_argv(run.handle, port, to_port)


def _check_sent(run: Run) -> None:
    if run.state is State.CREATED or not run.native_id:
        raise BadRequest(f"`{run.id}` does not run: it waits on this side", hint="`bay watch`")


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a target has, or why it does not say."""

    target: str
    rooms: tuple[Room, ...] = ()
    silence: str = ""


def ask_capacity(lab: Lab, target: str | None) -> list[Offer]:
    """What is free on a target, or on all that can tell.

    Raises:
        BadRequest: when there is no target of that name.
        Unsupported: when the target that is named cannot tell.
        TargetError: when it does not answer.
    """
    if target:
        backend = lab.targets.open(target, looking=False).backend
        if not isinstance(backend, Capacity):
            raise Unsupported(f"`{target}` cannot say what is free")
        return [Offer(target=target, rooms=tuple(backend.capacity()))]
    # Dear to load, and each waits for its own machine.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    names = lab.targets.names()
    with ThreadPoolExecutor(max_workers=8) as pool:
        return [one for one in pool.map(lambda name: _offer(lab, name), names) if one]


def _offer(lab: Lab, name: str) -> Offer | None:
    try:
        backend = lab.targets.open(name, looking=False).backend
        if not isinstance(backend, Capacity):
            return None
        return Offer(target=name, rooms=tuple(backend.capacity()))
    except BayError as err:
        return Offer(target=name, silence=str(err))


def try_plans(draft: Draft, steps: Sequence[Step]) -> list[Finding]:
    """What the target says would become of what these steps send; it is sent nothing.

    Raises:
        Unsupported: when the target cannot say.
    """
    from launchbay.engine.launch import sketch  # noqa: PLC0415

    place = draft.place
    if not isinstance(place.backend, Trial):
        message = "it cannot be asked when something would start; its limits were checked"
        return [Finding(level="ok", subject=place.name, message=message)]
    plans = sketch(draft, steps)
    findings = [one for plan in plans[:TRIALS] for one in place.backend.trial(plan)]
    if len(plans) > TRIALS:
        message = f"not asked about {len(plans) - TRIALS} more of {len(plans)} arrays"
        findings.append(Finding(level="ok", subject=place.name, message=message))
    return findings


@dataclass(frozen=True, kw_only=True)
class Development_:
    """A place to work in by hand."""

    argv: list[str]
    where: str
    """Its folder, for a person to read."""
    recipe: Recipe


def develop(lab: Lab, draft: Draft, step: Step, command: Sequence[str]) -> Development_:
    """Have the code and the Python where a step would run, and what lets a person in.

    Raises:
        Unsupported: when the target cannot do that, or not with what is asked for.
    """
    from launchbay.engine.environments import build_environments  # noqa: PLC0415
    from launchbay.engine.project import ensure_project  # noqa: PLC0415
    from launchbay.sync.snapshot import freeze  # noqa: PLC0415

    place, backend = draft.place, draft.place.backend
    if not isinstance(backend, Development):
        raise Unsupported(f"`{place.name}` gives nobody a place to work by hand")
    recipe = dev_recipe(step.recipe)
    # Before anything is written: what cannot be is said at once.
    backend.plan([_dev_job(draft, recipe, code="", entry="", name="dev-?????")])
    lab.project = project = ensure_project(lab.project)
    snapshot: Snapshot = freeze(draft.listing, project.bay)
    pythons = build_environments(
        place, [recipe.python], code=snapshot.id, tree=snapshot.tree, tell=lab.tell
    )
    if isinstance(backend, Staging):
        backend.stage(snapshot.id, snapshot.tree)
    entry = render_setup(
        modules=recipe.modules, python=pythons[recipe.python] if recipe.python else ""
    )
    name = run_id(f"{project.name}-dev")
    job = _dev_job(draft, recipe, code=snapshot.id, entry=entry, name=name)
    (plan,) = backend.plan([job])
    return Development_(
        argv=backend.dev_argv(plan, command=command),
        where=_dev_folder(place.where, name),
        recipe=recipe,
    )


def dev_recipe(recipe: Recipe) -> Recipe:
    """What one person at one terminal needs of what a run would be given."""
    need = recipe.resources
    limit = need.time_limit or DEV_TIME
    alone = replace(need, nodes=1, processes=1, time_limit=limit)
    return replace(recipe, resources=alone, policy=Policy())


def _dev_job(draft: Draft, recipe: Recipe, *, code: str, entry: str, name: str) -> Job:
    return Job(
        run_id=name,
        name=name,
        experiment=f"{draft.project.name}-dev",
        command=Argv(("sh",)),
        env=recipe.env,
        secrets=recipe.secrets,
        modules=recipe.modules,
        python=str(recipe.python or ""),
        entry=entry,
        setup=recipe.setup,
        image=recipe.image,
        resources=recipe.resources,
        options=recipe.options,
        snapshot=code,
        project_folder=str(draft.project.folder),
        links=draft.listing.links if draft.place.is_here else {},
        subfolder=draft.request.experiment.subfolder,
    )


def _dev_folder(where: Mapping[str, str], name: str) -> str:
    host = f"{where['host']}:" if where.get("host") else ""
    return f"{host}{where['root']}/dev/{name}"


def check_host(place: Place | Mapping[str, str], target: str) -> list[Finding]:
    """Whether a target's machine is reached by ssh without questions, and what time it is there.

    Raises:
        TargetError: when it is not reached.
    """
    where = place if not hasattr(place, "where") else place.where
    host = str(where.get("host") or "")
    if not host:
        return []
    before = time.time()
    done = reach(host, target).run(["date", "+%s"])
    after = time.time()
    findings = [Finding(level="ok", subject="ssh", message=f"`{host}` lets us in without asking")]
    try:
        there = float(done.stdout)
    except ValueError:
        return findings
    # It was asked somewhere in between, and counts whole seconds.
    skew = max(before - there - 1, there - after, 0.0)
    if skew <= SKEW_S:
        return [*findings, Finding(level="ok", subject="clock", message="agrees with ours")]
    side = "behind" if there < before else "ahead of"
    return [
        *findings,
        Finding(
            level="warning",
            subject="clock",
            message=f"is {skew:.0f} s {side} ours: times of its runs look wrong",
            remedy="have one of the two set by a time server",
        ),
    ]
