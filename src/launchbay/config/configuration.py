"""Every file that has a say, read; and the targets and layers that come of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.config.files import Document, read_document
from launchbay.config.layers import Layer
from launchbay.config.merging import overlay, read_merged
from launchbay.config.paths import OVERLAY
from launchbay.config.problems import config_error
from launchbay.config.schema import (
    KEYS_OF,
    KUBE,
    KUBERNETES,
    LOCAL,
    MACHINE,
    ExperimentFile,
    KubeFile,
    SiteFile,
    Target,
    UserConfig,
)
from launchbay.config.validation import kind_problems, validate
from launchbay.core.errors import BadRequest
from launchbay.core.nearest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launchbay.config.problems import Problem

KUBE_FILE = "config/kube.yaml"
SITE_VARIABLE = "BAY_SITE_CONFIG"


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What all files say."""

    file: ExperimentFile | None = None
    user: UserConfig
    kube: KubeFile | None = None
    sites: tuple[SiteFile, ...] = ()
    """The weakest first."""


def load_file(path: Path, *, folder: Path | None = None, runs: bool = True) -> ExperimentFile:
    """The experiment file at `path` with its bases, and the private overlay of the project.

    Args:
        path: the file.
        folder: the project's; unset is where the file is.
        runs: whether it must say what to run.

    Raises:
        ConfigError: when anything is wrong with it, with everything that is.
    """
    document = read_merged(path)
    private = (folder or path.parent) / OVERLAY
    if private.is_file() and private.resolve() != path.resolve():
        merged = overlay(document, read_merged(private))
        # What no line says is still a matter of the file itself.
        places = {**merged.places, (): document.places[()]}
        document = replace(merged, file=document.file, places=places)
    return validate(document, ExperimentFile, runs=runs)


def load_user_config(path: Path) -> UserConfig:
    """The user's configuration at `path`; an empty one where there is no file.

    Raises:
        ConfigError: when anything is wrong with it, with everything that is.
    """
    if not path.exists():
        return UserConfig()
    return validate(read_document(path), UserConfig)


def load_configuration(
    *, file: ExperimentFile | None, user: UserConfig, folder: Path
) -> Configuration:
    """What all files of a project say.

    Raises:
        ConfigError: when one of them is wrong.
    """
    kube = folder / KUBE_FILE
    return Configuration(
        file=file,
        user=user,
        kube=validate(read_merged(kube), KubeFile) if kube.is_file() else None,
        sites=tuple(_load_sites(file, user)),
    )


def resolve_targets(config: Configuration) -> dict[str, Target]:
    """Every target by its name, each entry merged over the weaker ones of that name.

    `local` is always one. Nothing is checked that matters only to who uses a target, so that an
    unfinished one is in nobody's way: `choose_target` checks.
    """
    targets = {LOCAL: Target(kind=MACHINE)}
    for entries in _entries(config):
        for name, target in entries.items():
            targets[name] = targets.get(name, Target()).merged_with(target)
    # The user's own `local` has no project behind it.
    targets[LOCAL] = targets[LOCAL].model_copy(update={"kind": MACHINE})
    return targets


def default_target(config: Configuration) -> str:
    """Where to run when no flag says so."""
    written = config.file.target if config.file else None
    return written or os.environ.get("BAY_DEFAULT_TARGET") or config.user.use or LOCAL


def choose_target(name: str, config: Configuration) -> Target:
    """The target of that name, ready to be opened.

    Raises:
        BadRequest: when there is none.
        ConfigError: when its entry cannot work.
    """
    targets = resolve_targets(config)
    if name not in targets:
        raise BadRequest(f"there is no target `{name}`", hint=suggest(name, targets))
    if problems := list(_target_problems(name, targets[name], config)):
        raise config_error(problems)
    return targets[name]


def is_this_machine(target: Target) -> bool:
    """Whether it is where we are, be that somebody's desk or a pod."""
    return (target.kind or MACHINE) == MACHINE and target.host is None


def is_local(target: Target) -> bool:
    """Whether `[local](remote)` means its first half there."""
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ or "NODE_NAME" in os.environ
    return is_this_machine(target) and not in_pod


def layers_below(config: Configuration, target: str, *, root: bool = True) -> list[Layer]:
    """What is weaker than a dataset's and a model's own words, the weakest first.

    Args:
        config: what all files say.
        target: where it will run.
        root: whether the file's own root counts; a typed command leaves it out.
    """
    sites = [Layer(level="site", values=s.written, document=s.document) for s in config.sites]
    layers = [replace(layer, own=False) for layer in sites]
    for site in config.sites:
        layers += _target_layer(f"site, target {target}", site.targets, site.document, target)
    layers += _target_layer(
        f"your target {target}", config.user.targets, config.user.document, target
    )
    if config.kube and target == KUBE:
        # What the first tool's pods wrote beside their volumes was lost: its files keep working.
        values = {"outputs_to": "none", **config.kube.written}
        kube = Layer(level=KUBE_FILE, values=values, document=config.kube.document)
        layers.append(replace(kube, own=False))
    if config.file and root:
        layers.append(
            Layer(level="file", values=config.file.written, document=config.file.document)
        )
    if config.file:
        document = config.file.document
        level = f"target {target} of the file"
        layers += _target_layer(level, config.file.targets, document, target, own=True)
    return layers


def _target_layer(
    level: str,
    targets: Mapping[str, Target],
    document: Document,
    name: str,
    *,
    own: bool = False,
) -> list[Layer]:
    if name not in targets:
        return []
    target = targets[name]
    entry = Layer(
        level=level, values=target.written, document=document, route=("targets", name), own=own
    )
    profiles = {
        one: replace(
            entry,
            level=f"profile {one} of {level}",
            values=profile.written,
            route=(*entry.route, "profiles", one),
        )
        for one, profile in (target.profiles or {}).items()
    }
    return [replace(entry, profiles=profiles)]


def _entries(config: Configuration) -> Iterator[Mapping[str, Target]]:
    """The targets of each place, the weakest first."""
    yield from (site.targets for site in config.sites)
    yield config.user.targets
    if config.kube:
        fields = config.kube.model_dump(exclude_unset=True, exclude={"project", "prefix"})
        yield {KUBE: Target.model_validate({"kind": KUBERNETES}).model_copy(update=fields)}
    if config.file:
        yield config.file.targets


def _load_sites(file: ExperimentFile | None, user: UserConfig) -> Iterator[SiteFile]:
    if named := os.environ.get(SITE_VARIABLE):
        path = Path(named).expanduser().absolute()
        if not path.is_file():
            raise BadRequest(
                f"${SITE_VARIABLE} names `{named}`, which is no file",
                hint=f"ask who set it, or `unset {SITE_VARIABLE}`",
            )
        yield validate(read_merged(path), SiteFile)
    for written, document in _includes(file, user):
        for at, name in enumerate(written):
            # The line may stand in a file that this one builds on.
            place = document.find_place(("include", at))
            around = place.file if place else document.file
            path = around.absolute().parent / Path(name).expanduser()
            if not path.is_file():
                hint = f"correct it; the path counts from the folder of `{around.name}`"
                message = f"there is no file `{name}`"
                raise config_error([document.problem(("include", at), message, hint)])
            yield validate(read_merged(path), SiteFile)


def _includes(
    file: ExperimentFile | None, user: UserConfig
) -> Iterator[tuple[list[str], Document]]:
    yield list(user.include), user.document
    # The same key of an experiment file may also add points, which are mappings.
    if file and isinstance(file.include, list):
        names = [name for name in file.include if isinstance(name, str)]
        if len(names) == len(file.include):
            yield names, file.document
        elif names:
            message = "files and points in one list"
            hint = "put the points into the list of `include` below `params`"
            raise config_error([file.document.problem(("include",), message, hint)])


def _target_problems(name: str, target: Target, config: Configuration) -> Iterator[Problem]:
    parts: list[ExperimentFile | UserConfig | SiteFile] = [config.file] if config.file else []
    parts += [config.user, *reversed(config.sites)]
    documents = [part.document for part in parts]

    def document_of(key: str) -> Document:
        routes = (("targets", name, key), ("targets", name))
        found = (one for route in routes for one in documents if route in one.places)
        return next(found, Document())

    if target.kind is None:
        document = document_of("kind")
        yield document.problem(("targets", name, "kind"), "missing", "write `kind: machine`")
    if target.kind not in KEYS_OF:
        return
    for key in target.options:
        yield from kind_problems(document_of(key), target.kind, ("targets", name), [key])
    for part in parts:
        entry = part.targets.get(name)
        for one, profile in ((entry and entry.profiles) or {}).items():
            route = ("targets", name, "profiles", one)
            yield from kind_problems(part.document, target.kind, route, profile.written)
