"""What the configuration says, read when it is first needed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from launchbay.config.paths import find_experiment_file, user_config_path
from launchbay.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.config.schema import ExperimentFile, UserConfig
    from launchbay.core.job import Job
    from launchbay.core.sweep import Experiment
    from launchbay.engine.again import Rerun
    from launchbay.sync.snapshot import Listing


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What was typed or called: a command of its own, or a file; and what goes over it."""

    words: tuple[str, ...] = ()
    script: str = ""
    params: Mapping[str, Sequence[str]] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    """Flags of resources, as text."""
    target: str | None = None
    name: str | None = None
    style: Literal["flags", "hydra"] = "flags"


class Settings:
    """The experiment file and the user's configuration, as far as they are needed."""

    def __init__(self, folder: Path, *, path: Path | None = None) -> None:
        self.folder = folder
        """The project's folder."""
        self.path = path
        """The experiment file; None where there is none."""

    @cached_property
    def file(self) -> ExperimentFile | None:
        """The experiment file, checked."""
        # pydantic and yaml are dear, and most commands do without.
        from launchbay.config.build import load_file  # noqa: PLC0415

        return load_file(self.path) if self.path else None

    @cached_property
    def user(self) -> UserConfig:
        """The user's own configuration, checked."""
        from launchbay.config.build import load_user_config  # noqa: PLC0415

        return load_user_config(user_config_path())

    def targets(self) -> dict[str, dict[str, Any]]:
        """Every target's options, `kind` among them."""
        from launchbay.config.build import resolve_targets  # noqa: PLC0415

        return {
            name: {"kind": target.kind or "machine", **target.options}
            for name, target in resolve_targets(self.user, self.file).items()
        }

    def experiment(self, wish: Wish) -> tuple[Experiment, str]:
        """What is to be run, and on which target.

        Raises:
            BadRequest: when nothing was typed and there is no file, or a name is unknown.
            ConfigError: when the file is wrong.
        """
        from launchbay.config import build  # noqa: PLC0415

        experiment = self._described(wish)
        if wish.name:
            experiment = replace(experiment, name=wish.name)
        name = wish.target or build.default_target(self.file, self.user)
        target = build.choose_target(name, file=self.file, user=self.user)
        experiment = build.apply_target_defaults(experiment, target)
        return build.with_resources(experiment, wish.resources), name

    def scan(self, experiment: Experiment, store: Path) -> Listing:
        """The project's code as it stands; writes nothing."""
        from launchbay.sync.snapshot import scan  # noqa: PLC0415

        limit_mib = self.file.snapshot_limit if self.file else 100
        return scan(
            self.folder,
            store=store,
            code=experiment.code,
            outputs=experiment.outputs,
            limit_bytes=limit_mib * 1_000_000,
        )

    def scan_for(self, job: Job, store: Path) -> Listing:
        """The code as it stands, by the rules of a job that was made before."""
        from launchbay.sync.snapshot import scan  # noqa: PLC0415

        code = self.file.code if self.file else ()
        return scan(self.folder, store=store, code=code, outputs=job.outputs)

    def rerun_with(self, resources: Mapping[str, str], *, fresh: bool, target: str | None) -> Rerun:
        """How to run again with flags of resources over what a job had."""
        from launchbay.config.build import with_resources  # noqa: PLC0415
        from launchbay.core.job import Argv, Resources  # noqa: PLC0415
        from launchbay.core.sweep import Experiment  # noqa: PLC0415
        from launchbay.engine.again import Rerun  # noqa: PLC0415

        def changed(need: Resources) -> Experiment:
            bare = Experiment(name="", project="", command=Argv(()), resources=need)
            return with_resources(bare, resources)

        return Rerun(
            fresh=fresh,
            target=target,
            resources=lambda need: changed(need).resources,
            parallel=changed(Resources()).parallel,
        )

    def _described(self, wish: Wish) -> Experiment:
        from launchbay.config import build  # noqa: PLC0415
        from launchbay.core.job import Script  # noqa: PLC0415

        project = (self.file.project if self.file else None) or self.folder.name
        if wish.words or wish.script:
            typed = build.typed_experiment(
                wish.words or ("sh",),
                wish.params,
                project_name=project,
                subfolder=_inside(self.folder),
                style=wish.style,
            )
            if wish.script:
                typed = replace(typed, command=Script(wish.script), name=project, append="")
            return typed
        if self.file is None:
            raise BadRequest(
                "there is nothing to run: no command was typed and there is no `bay.yaml` here",
                hint="type `bay run python train.py`, or `bay init` for an example",
            )
        return build.build_experiment(self.file, project_name=project, overrides=wish.params)


def read_settings(start: Path) -> Settings:
    """The settings of the project that `start` is in."""
    from launchbay.config.paths import find_project  # noqa: PLC0415

    return Settings(find_project(start), path=find_experiment_file(start))


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
