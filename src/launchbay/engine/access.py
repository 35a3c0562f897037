"""Going where runs run: logging in, a shell, a port, a place to work, what is free there."""

from __future__ import annotations

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
    Trial,
)
from launchbay.core.errors import BadRequest, BayError, TargetError, Unsupported
from launchbay.core.job import Argv, Job, Policy
from launchbay.core.naming import run_id, run_name
from launchbay.core.python import render_setup
from launchbay.core.run import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from launchbay.core.backend import Plan
    from launchbay.core.job import Recipe, Resources
    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab
    from launchbay.engine.launch import Draft
    from launchbay.engine.steps import Step

DEV_TIME = timedelta(hours=1)
TRIALS = 3
"""Plans that a target is asked about; others are like them."""


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
        backend = lab.targets.open(target, look="never").backend
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
        backend = lab.targets.open(name, look="never").backend
        if not isinstance(backend, Capacity):
            return None
        return Offer(target=name, rooms=tuple(backend.capacity()))
    except BayError as err:
        return Offer(target=name, silence=str(err))


def try_plans(draft: Draft, steps: Sequence[Step]) -> list[Finding]:
    """What the target says would become of what these steps send; it is sent nothing."""
    from launchbay.engine.launch import sketch  # noqa: PLC0415

    place = draft.place
    if not isinstance(place.backend, Trial):
        message = "it cannot be asked when something would start; its limits were checked"
        return [Finding(level="ok", subject=place.name, message=message)]
    plans = sketch(draft, steps)
    findings = [one for plan in plans[:TRIALS] for one in place.backend.trial(plan)]
    if len(plans) > TRIALS:
        message = f"not asked about {len(plans) - TRIALS} more of {len(plans)} parts"
        findings.append(Finding(level="ok", subject=place.name, message=message))
    return findings


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A place to work in by hand."""

    argv: list[str]
    """What a terminal executes to be there."""
    where: str
    """Its folder, for a person to read."""
    need: Resources
    stays: bool = True
    """Whether the folder is there afterwards."""


def draft_desk(
    lab: Lab, *, target: str | None, resources: Mapping[str, str], bare: bool = False
) -> Draft:
    """What a run of this project would be given there, as its file says and flags over it.

    Args:
        lab: the lab.
        target: where; None is where the project runs.
        resources: flags.
        bare: whether only the root of the files counts, and no model or dataset.

    Raises:
        BadRequest: when the file describes no run.
    """
    from launchbay.engine.launch import draft_one  # noqa: PLC0415
    from launchbay.engine.settings import Wish  # noqa: PLC0415

    words = () if lab.settings.path and not bare else ("sh",)
    return draft_one(lab, Wish(words=words, resources=resources, target=target, root=bare))


def make_desk(lab: Lab, draft: Draft, command: Sequence[str], *, subfolder: str = "") -> Desk:
    """Have the code and the Python where the draft's first run would be, and a way in.

    Raises:
        Unsupported: when the target cannot do that, or not with what is asked for.
    """
    from launchbay.engine.targets import KUBERNETES  # noqa: PLC0415

    place, backend = draft.place, draft.place.backend
    if not isinstance(backend, Development):
        raise Unsupported(f"`{place.name}` gives nobody a place to work by hand")
    plan = furnish(lab, draft, limit=DEV_TIME, subfolder=subfolder)
    (job,) = plan.jobs
    host, root = place.where.get("host"), place.where["root"]
    in_pod = place.where["kind"] == KUBERNETES
    folder = f"{root}/runs/{job.run_id}" if in_pod else f"{root}/dev/{job.run_id}"
    return Desk(
        argv=backend.dev_argv(plan, command=command, tell=lab.tell),
        where=folder if in_pod or not host else f"{host}:{folder}",
        need=job.resources,
        stays=not in_pod,
    )


def furnish(lab: Lab, draft: Draft, *, limit: timedelta | None = None, subfolder: str = "") -> Plan:
    """Have what the draft's first run would find where it would run; the plan of such a place.

    Args:
        lab: the lab.
        draft: what a run would be given.
        limit: how long it is for where nobody says.
        subfolder: where in the code one stands.

    Raises:
        Unsupported: when the target cannot give what is asked for.
    """
    from launchbay.engine.environments import build_environments  # noqa: PLC0415
    from launchbay.engine.project import ensure_project  # noqa: PLC0415
    from launchbay.engine.sending import stage  # noqa: PLC0415
    from launchbay.sync.snapshot import freeze  # noqa: PLC0415

    place, backend = draft.place, draft.place.backend
    recipe, plan = sketch_desk(lab, draft, limit=limit, subfolder=subfolder)
    (job,) = plan.jobs
    lab.project = ensure_project(lab.project)
    frozen = freeze(draft.listing, lab.project.bay)
    pythons = build_environments(
        place, [recipe.python], code=frozen.id, tree=frozen.tree, tell=lab.tell
    )
    stage(lab, backend, {frozen.id})
    python = pythons[recipe.python] if recipe.python else ""
    entry = render_setup(modules=recipe.modules, python=python)
    (plan,) = backend.plan([replace(job, snapshot=frozen.id, entry=entry)])
    return plan


def sketch_desk(
    lab: Lab, draft: Draft, *, limit: timedelta | None = None, subfolder: str = ""
) -> tuple[Recipe, Plan]:
    """The same, before anything is written: what cannot be is said at once."""
    from launchbay.engine.dev_limits import within_limits  # noqa: PLC0415

    recipe = _alone(draft.steps[0].recipe, limit)
    recipe = replace(recipe, resources=within_limits(recipe, draft.place.name, lab.tell))
    (plan,) = draft.place.backend.plan([_desk_job(draft, recipe, subfolder)])
    return recipe, plan


def _alone(recipe: Recipe, limit: timedelta | None) -> Recipe:
    """What one person at one terminal needs of what a run would be given."""
    need = recipe.resources
    need = replace(need, nodes=1, processes=1, time_limit=need.time_limit or limit)
    return replace(recipe, resources=need, policy=Policy())


def _desk_job(draft: Draft, recipe: Recipe, subfolder: str) -> Job:
    name = run_name([draft.request.experiment.project, "dev"], {})
    return Job(
        run_id=run_id(name),
        name=name,
        experiment=name,
        command=Argv(("sh",)),
        env=recipe.env,
        secrets=recipe.secrets,
        modules=recipe.modules,
        python=str(recipe.python or ""),
        setup=recipe.setup,
        image=recipe.image,
        resources=recipe.resources,
        # Nothing is kept of it, and nothing is refused for that.
        options={**recipe.options, "outputs_to": "none"},
        labels={"project_name": draft.request.experiment.project},
        project_folder=str(draft.project.folder),
        links=draft.listing.links if draft.place.is_here else {},
        folders=recipe.folders,
        subfolder=subfolder,
    )
