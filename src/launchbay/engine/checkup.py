"""What works and what does not, each problem with its remedy."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.config.configuration import load_file, load_user_config
from launchbay.config.paths import (
    find_experiment_file,
    find_project,
    state_folder,
    user_config_path,
)
from launchbay.core.backend import Diagnosis, Discovery, Finding
from launchbay.core.errors import BadRequest, BayError, ConfigError, StoreError
from launchbay.core.quantity import render_size, render_span
from launchbay.engine.access import host_of
from launchbay.engine.buckets import Buckets
from launchbay.engine.catalogue import check_target
from launchbay.engine.lab import Lab
from launchbay.engine.open import open_lab
from launchbay.engine.project import read_project
from launchbay.engine.settings import read_settings
from launchbay.engine.targets import Targets
from launchbay.hosts.reach import reach
from launchbay.runstore.store import Query, RunStore, index_path
from launchbay.sync.git import run_git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from launchbay.core.backend import Backend

LEAST_FREE_BYTES = 1_000_000_000
LOG_AGE_S = 7 * 24 * 3600
LOG_TAIL_BYTES = 4096
RETRIES_VARIABLE, QUICK_RETRIES = "BAY_DATA_RETRIES", "2"
SKEW_S = 60.0
"""A difference of clocks that people notice."""


def check_up(start: Path, target: str | None = None) -> list[Finding]:
    """Everything about this side, the project that `start` is in, and one target or all.

    Raises:
        BadRequest: when there is no target of that name.
    """
    config = list(check_config(start))
    findings = [
        *check_client(start),
        *check_index(),
        *config,
        *check_project(start),
        *check_queue(),
    ]
    if any(finding.level == "problem" for finding in config):
        skipped = Finding(level="warning", subject="targets", message="not checked before that")
        return [*findings, skipped]
    lab = _open(start)
    findings += [] if target else check_bucket(lab, start)
    for name in [target] if target else lab.targets.names():
        findings += check_place(lab, name)
    return findings


def check_client(start: Path) -> Iterator[Finding]:
    """What this side runs with."""
    version = platform.python_version()
    yield Finding(level="ok", subject="python", message=f"{version}, {sys.executable}")
    git = run_git(str(start), "--version")
    if git:
        yield Finding(level="ok", subject="git", message=git.decode(errors="replace").strip())
        return
    yield Finding(
        level="warning",
        subject="git",
        message="not found; code is what `.gitignore` and `.bayignore` leave, without its history",
        remedy="install git",
    )


def check_index() -> Iterator[Finding]:
    """Whether what this side remembers can be read and written."""
    path = index_path(state_folder())
    note = "" if path.parent == state_folder() else f"; {state_folder()} is on a network disk"
    if not path.exists():
        yield Finding(level="ok", subject="index", message=f"{path}, made with the first run{note}")
    else:
        yield _check_index_file(path, note)
    damaged = path.with_name(f"{path.name}.damaged")
    if damaged.exists():
        yield Finding(
            level="warning",
            subject="index",
            message=f"was damaged and begun anew; the old one is {damaged}",
            remedy=f"in each project `bay ls --rebuild`, then rm '{damaged}'",
        )


def check_config(start: Path) -> Iterator[Finding]:
    """Whether the files can be understood."""
    user, file = user_config_path(), find_experiment_file(start)
    for path, load in ((user, load_user_config), (file, load_file)):
        if path is None or not path.exists():
            continue
        try:
            load(path)
        except ConfigError as err:
            remedy = err.hint or f"edit {path}"
            yield Finding(level="problem", subject="config", message=str(err), remedy=remedy)
        else:
            yield Finding(level="ok", subject="config", message=str(path))
    if not user.exists():
        yield Finding(level="ok", subject="config", message=f"{user} is not there, nor needed")


def check_project(start: Path) -> Iterator[Finding]:
    """Whether the project can keep runs."""
    folder = find_project(start)
    kept = folder / ".bay" if (folder / ".bay").exists() else folder
    if os.access(kept, os.W_OK):
        yield Finding(level="ok", subject="project", message=str(folder))
    else:
        yield Finding(
            level="problem",
            subject="project",
            message=f"`{kept}` is not writable, and keeps frozen code and runs",
            remedy=f"chmod u+w '{kept}', or work on a copy of the project",
        )
    free = shutil.disk_usage(folder).free
    enough = free >= LEAST_FREE_BYTES
    yield Finding(
        level="ok" if enough else "warning",
        subject="disk",
        message=f"{render_size(free)} free in {folder}",
        remedy="" if enough else "`bay clean`, `bay rm` and your own cleaning make room",
    )


def check_queue() -> Iterator[Finding]:
    """Whether the one that works on this machine's queue had trouble lately."""
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    log = Path(state) / "launchbay" / "hosts" / os.uname().nodename / "pack.log"
    try:
        age_s = time.time() - log.stat().st_mtime
        lines = log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").split("\n")
    except OSError:
        return
    said = [line for line in lines if line.strip()]
    if said and age_s < LOG_AGE_S:
        yield Finding(
            level="warning",
            subject="queue",
            message=f"had trouble {render_span(age_s)} ago: {said[-1].strip()}",
            remedy=f"read {log}; remove it when that is settled",
        )


def check_bucket(lab: Lab, start: Path) -> Iterator[Finding]:
    """Whether the bucket that mirrors the project answers, where there is one."""
    try:
        options = Buckets(lab.settings, start.absolute()).default()
    except BadRequest:
        return
    # Somebody waits for the answer: a transfer would try for longer.
    options = replace(options, env={RETRIES_VARIABLE: QUICK_RETRIES, **options.env})
    try:
        from launchbay.sync.bucket import open_bucket  # noqa: PLC0415 (dear, and few have one)

        next(iter(open_bucket(options).walk()), None)
    except BayError as err:
        remedy = err.hint or "`bay data ls` asks it again"
        yield Finding(level="problem", subject="bucket", message=str(err), remedy=remedy)
    else:
        yield Finding(level="ok", subject="bucket", message=f"{options.url} can be read")


def check_place(lab: Lab, name: str) -> list[Finding]:
    """Whether a target can be used, and whether it runs what nobody here knows.

    Raises:
        BadRequest: when there is no target of that name.
    """
    found: list[Finding] = []
    try:
        check_target(lab.settings, name)
        found += _check_host(lab, name)
        backend = lab.targets.open(name).backend
        found += backend.diagnose() if isinstance(backend, Diagnosis) else []
        if not any(one.level == "problem" for one in found):
            found += _find_orphans(lab, backend)
    except BadRequest:
        raise
    except BayError as err:
        remedy = err.hint or f"`bay target show {name}` shows how it is set"
        found.append(Finding(level="problem", subject="", message=str(err), remedy=remedy))
    if not found:
        found = [Finding(level="ok", subject="", message="can be opened")]
    return [replace(one, subject=f"{name} {one.subject}".rstrip()) for one in found]


def _check_host(lab: Lab, name: str) -> Iterator[Finding]:
    """Whether a target's machine lets us in without asking, and what time it is there."""
    host = host_of(lab, name)
    if not host:
        return
    before = time.time()
    done = reach(host, name).run(["date", "+%s"])
    after = time.time()
    yield Finding(level="ok", subject="ssh", message=f"`{host}` lets us in without asking")
    if not done.stdout.strip().isdecimal():
        return
    there = int(done.stdout)
    # It was asked somewhere in between, and counts whole seconds.
    skew = max(before - there - 1, there - after, 0.0)
    if skew <= SKEW_S:
        yield Finding(level="ok", subject="clock", message="agrees with ours")
        return
    yield Finding(
        level="warning",
        subject="clock",
        message=f"is {render_span(skew)} {'behind' if there < before else 'ahead of'} ours",
        remedy="have both set by a time server; till then the times of its runs look wrong",
    )


def _open(start: Path) -> Lab:
    """The lab, with an empty index where the real one cannot be used."""
    try:
        return open_lab(start, writing=False)
    except StoreError:
        settings = read_settings(start)
        project = read_project(settings.folder)
        targets = Targets(project, settings.targets, secret=settings.secret)
        return Lab(project, RunStore(None), targets=targets, settings=settings)


def _check_index_file(path: Path, note: str) -> Finding:
    try:
        store = RunStore(path)
        store.runs(Query(last=1))
        store.close()
    except StoreError as err:
        return Finding(level="problem", subject="index", message=str(err), remedy=err.hint or "")
    return Finding(level="ok", subject="index", message=f"{path}{note}")


def _find_orphans(lab: Lab, backend: Backend) -> list[Finding]:
    if not isinstance(backend, Discovery):
        return []
    there = {one.run_id for one in backend.discover() if one.target == backend.target}
    known = lab.store.named(sorted(there)).keys()
    unknown = sorted(there - known)
    if not unknown:
        return []
    named = ", ".join(unknown[:3]) + (" …" if len(unknown) > 3 else "")  # noqa: PLR2004
    return [
        Finding(
            level="warning",
            subject="runs",
            message=f"{len(unknown)} that the index does not know: {named}",
            remedy="`bay ls --rebuild`",
        )
    ]
