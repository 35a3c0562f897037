"""A project with the files that have a say, and what comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from launchbay.config.build import build_experiment, surround
from launchbay.config.configuration import (
    Configuration,
    choose_target,
    load_configuration,
    load_file,
    load_user_config,
)
from launchbay.core.command import fill, render
from launchbay.core.errors import BayError, ConfigError
from launchbay.core.sweep import Choice

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from launchbay.config.schema import ExperimentFile, UserConfig
    from launchbay.core.job import Recipe
    from launchbay.core.sweep import Experiment

VARIABLES = ("BAY_DEFAULT_TARGET", "BAY_SITE_CONFIG", "KUBERNETES_SERVICE_HOST", "NODE_NAME")


class Project:
    """A folder with `bay.yaml`, and the user's `user.yaml` beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> Path:
        """A file of this text."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def file(self, text: str) -> ExperimentFile:
        """The experiment file of this text, loaded."""
        return load_file(self.write("bay.yaml", text))

    def user(self, text: str) -> UserConfig:
        """The user's configuration of this text, loaded."""
        return load_user_config(self.write("user.yaml", text))

    def config(self) -> Configuration:
        """What all files say that were written."""
        path = self.folder / "bay.yaml"
        return load_configuration(
            file=load_file(path) if path.is_file() else None,
            user=load_user_config(self.folder / "user.yaml"),
            folder=self.folder,
        )

    def build(
        self,
        text: str | None = None,
        overrides: dict[str, Any] | None = None,
        *,
        target: str = "local",
        **around: Any,
    ) -> Experiment:
        """The experiment of this text, or of the file as it is, on a target."""
        if text is not None:
            self.write("bay.yaml", text)
        config = self.config()
        assert config.file is not None
        chosen = (target, choose_target(target, config))
        return build_experiment(
            config.file,
            surround(config, chosen, **around),
            project_name="demo",
            overrides=overrides or {},
        )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project of its own, in whose folder files are named shortly."""
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return Project(tmp_path)


def refusal(
    action: Callable[[], object], kind: type[BayError] = ConfigError
) -> tuple[str, str | None]:
    """What an action that must fail says, and its hint."""
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value), caught.value.hint


def points(experiment: Experiment) -> list[dict[str, str]]:
    """Every point that would be run, in order."""
    return [dict(point) for _, point in Choice()(experiment.branches)]


def commands(experiment: Experiment) -> list[str]:
    """What each run would do, in order."""
    return [
        render(fill(branch.command, point, unlisted=branch.unlisted))
        for branch, point in Choice()(experiment.branches)
    ]


def recipes(experiment: Experiment) -> list[Recipe]:
    """What each run would be given, in order."""
    return [branch.recipe(point) for branch, point in Choice()(experiment.branches)]
