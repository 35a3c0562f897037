"""What the configuration says, read when it is first needed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from launchbay.config.paths import OVERLAY, find_experiment_file, user_config_path
from launchbay.core.errors import BadRequest
from launchbay.core.job import IN_IMAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.config.branches import Around
    from launchbay.config.configuration import Configuration
    from launchbay.config.grids import Params
    from launchbay.config.schema import ExperimentFile, Target, UserConfig
    from launchbay.core.job import Job
    from launchbay.core.sweep import Experiment
    from launchbay.engine.again import Rerun
    from launchbay.engine.vault import Vault
    from launchbay.sync.snapshot import Listing


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What was typed or called: a command of its own, or a file; and what goes over it."""

    words: tuple[str, ...] = ()
    script: str = ""
    params: Mapping[str, Sequence[str]] = field(default_factory=dict)
    grids: tuple[Params, ...] = ()
    """In the place of `params`, for a command of its own: a union of what a file may say."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Flags of resources, as text."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that were typed."""
    target: str | None = None
    name: str | None = None
    style: Literal["flags", "hydra"] = "flags"
    root: bool = False
    """Whether the file's root counts also for a command of its own."""


class Settings:
    """The experiment file and the user's configuration, as far as they are needed."""

    def __init__(self, folder: Path, *, path: Path | None = None, runs: bool = True) -> None:
        self.folder = folder
        """The project's folder."""
        self.path = path
        """The experiment file; None where there is none."""
        self._runs = runs

    @cached_property
    def file(self) -> ExperimentFile | None:
        """The experiment file, checked."""
        if not self.path:
            return None
        # pydantic and yaml are dear, and most commands do without.
        from launchbay.config.configuration import load_file  # noqa: PLC0415

        return load_file(self.path, folder=self.folder, runs=self._runs)

    @cached_property
    def user(self) -> UserConfig:
        """The user's own configuration, checked."""
        from launchbay.config.configuration import load_user_config  # noqa: PLC0415

        return load_user_config(user_config_path())

    @cached_property
    def config(self) -> Configuration:
        """Every file that has a say."""
        from launchbay.config.configuration import load_configuration  # noqa: PLC0415

        return load_configuration(file=self.file, user=self.user, folder=self.folder)

    def mentions(self, key: str) -> bool:
        """Whether any file could say something of a key; reading them as files is dear."""
        files = (self.path, self.folder / OVERLAY, user_config_path())
        texts = [file.read_bytes() for file in files if file and file.is_file()]
        elsewhere = (b"include", b"_base_")
        return bool(os.environ.get("BAY_SITE_CONFIG")) or any(
            word in text for text in texts for word in (key.encode(), *elsewhere)
        )

    @cached_property
    def dotenv(self) -> Mapping[str, str]:
        """What the project's `.env` says."""
        from launchbay.config.dotenv import read_env_file  # noqa: PLC0415

        return read_env_file(self.folder / ".env")

    @cached_property
    def vault(self) -> Vault:
        """The values of secrets."""
        from launchbay.engine.vault import Vault  # noqa: PLC0415

        files = self.file.secrets if self.file else {}
        return Vault(self.folder, dotenv=self.dotenv, files=files)

    def own_files(self) -> set[str]:
        """The files of the project that only say what to run, by their paths inside of it."""
        parts = (self.file, self.config.kube, *self.config.sites)
        files = {place.file for part in parts if part for place in part.document.places.values()}
        folder = self.folder.resolve()
        resolved = (file.resolve() for file in files)
        return {str(file.relative_to(folder)) for file in resolved if file.is_relative_to(folder)}

    def secret(self, name: str, endpoints: Mapping[str, str] | None = None) -> str:
        """The value of a secret; the files are read only when one is wanted.

        Args:
            name: what it is called.
            endpoints: addresses that whoever is given it knows by another name.
        """
        if name.startswith("bay_"):
            from launchbay.engine.signing import sign  # noqa: PLC0415

            return sign(self, name, endpoints)
        value = self.vault(name)
        return (endpoints or {}).get(value, value)

    @property
    def project_name(self) -> str:
        """What the project is called."""
        named = (self.file, self.config.kube)
        return next((part.project for part in named if part and part.project), self.folder.name)

    def targets(self) -> dict[str, dict[str, Any]]:
        """Every target's options, `kind` among them."""
        from launchbay.config.configuration import resolve_targets  # noqa: PLC0415

        return {
            name: {"kind": target.kind or "machine", **target.options}
            for name, target in resolve_targets(self.config).items()
        }

    def experiment(self, wish: Wish) -> tuple[Experiment, str]:
        """What is to be run, and on which target.

        Raises:
            BadRequest: when nothing was typed and there is no file, or a name is unknown.
            ConfigError: when the file is wrong.
        """
        name, target = self._chosen_target(wish.target)
        experiment = self._described(wish, name, target)
        experiment = self._placed(experiment, name, target)
        experiment = self._remarked(experiment, name, target)
        if wish.name:
            experiment = replace(experiment, name=wish.name)
        if "parallel" in wish.resources:
            from launchbay.config.build import parse_flag  # noqa: PLC0415

            experiment = replace(
                experiment, parallel=parse_flag("parallel", wish.resources["parallel"])
            )
        return experiment, name

    def _remarked(self, experiment: Experiment, name: str, target: Target) -> Experiment:
        """The experiment with a word on what its commands are used to from elsewhere."""
        from launchbay.config.configuration import is_this_machine  # noqa: PLC0415

        if is_this_machine(target):
            return experiment
        from launchbay.engine.habits import habits_of  # noqa: PLC0415

        found = habits_of(experiment, name, target.kind or "machine", self.folder)
        warnings = [remark.text for remark in found if not remark.works]
        return replace(
            experiment,
            warnings=(*experiment.warnings, *warnings),
            notes=tuple(remark.text for remark in found if remark.works),
        )

    def scan(self, experiment: Experiment, store: Path) -> Listing:
        """The project's code as it stands; writes nothing."""
        from launchbay.sync.snapshot import scan  # noqa: PLC0415

        return scan(
            self.folder,
            store=store,
            code=experiment.code,
            laid=experiment.laid,
            fetched=experiment.fetched,
            in_image=experiment.in_image,
            outputs=experiment.outputs,
            limit_bytes=self._limit_bytes,
        )

    def scan_for(self, job: Job, target: str, store: Path) -> Listing:
        """The code as it stands, by the rules of a job that was made before."""
        from launchbay.config.configuration import is_local, resolve_targets  # noqa: PLC0415
        from launchbay.sync.snapshot import scan  # noqa: PLC0415

        in_image = job.options.get("code") == IN_IMAGE
        entry = resolve_targets(self.config).get(target)
        at_home = entry is not None and is_local(entry)
        laid, fetched = ((), ()) if at_home else self._apart(target, in_image=in_image)
        return scan(
            self.folder,
            store=store,
            code=() if in_image or not self.file else self.file.code,
            laid=laid,
            fetched=fetched,
            in_image=in_image,
            outputs=job.outputs,
            limit_bytes=self._limit_bytes,
        )

    @property
    def _limit_bytes(self) -> int:
        return (self.file.snapshot_limit if self.file else 100) * 1_000_000

    def _apart(self, target: str, *, in_image: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What travels to a target although it is ignored, and what does not for it is fetched."""
        from launchbay.engine.downloads import find_downloads  # noqa: PLC0415

        fetched = () if in_image else find_downloads(self.file, self.folder)
        return self.laid_files(target), fetched

    def laid_files(self, target: str) -> tuple[str, ...]:
        """What any place says of files that travel although they are ignored."""
        from launchbay.config.configuration import layers_below  # noqa: PLC0415

        entries = []
        if self.file:
            entries = [*(self.file.model or {}).values(), *(self.file.dataset or {}).values()]
        said = [layer.values.get("file") for layer in layers_below(self.config, target)]
        said += [entry.file for entry in entries if entry]
        return tuple(dict.fromkeys(name for names in said for name in names or ()))

    def _placed(self, experiment: Experiment, name: str, target: Target) -> Experiment:
        """The experiment with what only other machines have to be given.

        Raises:
            ConfigError: when the code is in an image, and the target runs no images.
        """
        from launchbay.config.configuration import is_local  # noqa: PLC0415
        from launchbay.config.fields import CODE_IN_IMAGE  # noqa: PLC0415
        from launchbay.config.problems import config_error  # noqa: PLC0415
        from launchbay.config.schema import KUBERNETES  # noqa: PLC0415

        in_image = self.file is not None and CODE_IN_IMAGE in self.file.code
        if is_local(target) and not in_image:
            return experiment
        if in_image and self.file and target.kind != KUBERNETES:
            message = f"the code is in an image, and `{name}` does not run the image's own"
            hint = "choose a Kubernetes with `--target`, or take `code: image` out"
            raise config_error([self.file.document.problem(("code",), message, hint)])
        laid, fetched = self._apart(name, in_image=in_image)
        return replace(experiment, laid=laid, fetched=fetched, in_image=in_image)

    def rerun_with(self, resources: Mapping[str, str], *, fresh: bool, target: str | None) -> Rerun:
        """How to run again with flags of resources over what a job had."""
        from launchbay.config.build import (  # noqa: PLC0415
            parse_flag,
            with_policy,
            with_resources,
        )
        from launchbay.engine.again import Rerun  # noqa: PLC0415

        for key, text in resources.items():
            parse_flag(key, text)
        parallel = resources.get("parallel")
        return Rerun(
            fresh=fresh,
            target=target,
            resources=lambda need: with_resources(need, resources),
            policy=lambda policy: with_policy(policy, resources),
            parallel=int(parallel) if parallel else None,
            image=resources.get("image"),
        )

    def _chosen_target(self, typed: str | None) -> tuple[str, Target]:
        """The target that was typed, or else the one that the files name."""
        from launchbay.config.configuration import choose_target, default_target  # noqa: PLC0415
        from launchbay.config.problems import config_error  # noqa: PLC0415

        name = typed or default_target(self.config)
        try:
            return name, choose_target(name, self.config)
        except BadRequest as err:
            if typed or not self.file or self.file.target != name:
                raise
            problem = self.file.document.problem(("target",), str(err), err.hint)
            raise config_error([problem]) from err

    def _described(self, wish: Wish, name: str, target: Target) -> Experiment:
        """What the file, or what was typed, says that runs on a target are."""
        from launchbay.config import build  # noqa: PLC0415
        from launchbay.config.configuration import is_this_machine  # noqa: PLC0415
        from launchbay.config.schema import KUBE  # noqa: PLC0415
        from launchbay.engine.surroundings import (  # noqa: PLC0415
            check_variables,
            find_differences,
            private_of,
            with_python_path,
        )

        typed = bool(wish.words or wish.script)
        here = is_this_machine(target)
        if self.file is None and not typed:
            raise BadRequest(
                "there is nothing to run: no command was typed and there is no `bay.yaml` here",
                hint="type `bay run python train.py`, or `bay init` for an example",
            )
        around = build.surround(
            self.config,
            (name, target),
            flags=wish.resources,
            env=wish.env,
            private=private_of(self, typed=typed, here=here),
            root=not typed or wish.root,
            folder=self.folder,
        )
        around = with_python_path(around, self.dotenv)
        warnings = tuple(find_differences(self, around, target))
        if self.file is None or typed:
            return replace(self._typed(wish, around), warnings=warnings)
        experiment = build.build_experiment(
            self.file, around, project_name=self.project_name, overrides=wish.params
        )
        check_variables(self, experiment, target)
        if name == KUBE and self.config.kube and self.file.prefix is None:
            experiment = replace(experiment, prefix=self.config.kube.prefix or "")
        return replace(experiment, warnings=(*experiment.warnings, *warnings))

    def _typed(self, wish: Wish, around: Around) -> Experiment:
        from launchbay.config import build  # noqa: PLC0415
        from launchbay.core.job import Script  # noqa: PLC0415

        experiment = build.typed_experiment(
            wish.words or ("sh",),
            wish.params,
            around,
            project_name=self.project_name,
            grids=wish.grids,
            subfolder=_inside(self.folder),
            style=wish.style,
        )
        if not wish.script:
            return experiment
        scripted = tuple(
            replace(branch, command=Script(wish.script), written=wish.script)
            for branch in experiment.branches
        )
        return replace(experiment, branches=scripted, name=self.project_name, append="")


def read_settings(start: Path, *, runs: bool = True) -> Settings:
    """The settings of the project that `start` is in; its file must say what to run, if `runs`.

    `$BAY_FILE` is read in place of the file that would be found.
    """
    from launchbay.config.paths import find_project  # noqa: PLC0415

    chosen = os.environ.get("BAY_FILE")
    path = Path(chosen) if chosen else find_experiment_file(start)
    return Settings(find_project(start), path=path, runs=runs)


def read_settings_of(file: Path) -> Settings:
    """The settings of the project that an experiment file belongs to."""
    from launchbay.config.paths import project_of  # noqa: PLC0415

    path = file.absolute()
    if not path.is_file():
        raise BadRequest(f"there is no file `{file}`", hint="`bay init` writes an example")
    return Settings(project_of(path), path=path)


def _inside(folder: Path) -> str:
    """Where in the project we stand."""
    try:
        relative = Path.cwd().relative_to(folder)
    except ValueError:
        return ""
    return "" if relative == Path() else str(relative)
