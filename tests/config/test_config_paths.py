"""Where files are looked for."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from launchbay.config.paths import (
    find_experiment_file,
    find_project,
    project_of,
    shown_path,
    state_folder,
    user_config_path,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, with none of the variables that point elsewhere."""
    folder = tmp_path / "home" / "me"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    for name in ("BAY_CONFIG", "BAY_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def make(root: Path, *names: str) -> None:
    """Empty files; a name that ends in `/` is a folder."""
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


@pytest.mark.parametrize(
    ("tree", "start", "found"),
    [
        (["p/bay.yaml"], "p", "p/bay.yaml"),
        (["p/launch.yaml"], "p", "p/launch.yaml"),
        (["p/config/launch.yaml"], "p", "p/config/launch.yaml"),
        (["p/bay.yaml", "p/launch.yaml", "p/config/launch.yaml"], "p", "p/bay.yaml"),
        (["p/launch.yaml", "p/config/launch.yaml"], "p", "p/launch.yaml"),
        (["p/bay.yaml", "p/a/b/"], "p/a/b", "p/bay.yaml"),
        (["p/bay.yaml", "p/a/launch.yaml"], "p/a", "p/a/launch.yaml"),
        (["p/bay.yaml", "p/.git/", "p/a/"], "p/a", "p/bay.yaml"),
        (["bay.yaml", "p/.git/", "p/a/"], "p/a", None),
        (["bay.yaml", "p/.git", "p/a/"], "p/a", None),
        (["p/bay.yaml/"], "p", None),
        (["home/bay.yaml", "home/me/bay.yaml", "home/me/p/"], "home/me/p", None),
        (["home/bay.yaml", "home/me/.git/", "home/me/p/"], "home/me/p", None),
        (["home/bay.yaml", "home/me/bay.yaml"], "home/me", "home/me/bay.yaml"),
        (["home/bay.yaml"], "home/me", None),
        (["bay.yaml", "home/"], "home", "bay.yaml"),
    ],
)
def test_experiment_file(
    tmp_path: Path, home: Path, tree: list[str], start: str, found: str | None
) -> None:
    """The nearest file counts, up to the git root, never one of the home folder from below it."""
    make(tmp_path, *tree)

    assert find_experiment_file(tmp_path / start) == (tmp_path / found if found else None)


@pytest.mark.parametrize(
    ("tree", "start", "project"),
    [
        (["p/bay.yaml", "p/a/"], "p/a", "p"),
        (["p/config/launch.yaml", "p/a/"], "p/a", "p"),
        (["p/config/launch.yaml"], "p/config", "p"),
        (["p/launch.yaml"], "p", "p"),
        (["p/.git/", "p/a/"], "p/a", "p"),
        (["p/.git/", "p/a/bay.yaml"], "p/a", "p/a"),
        (["home/me/.git/", "home/me/p/"], "home/me/p", "home/me/p"),
        (["home/me/p/"], "home/me/p", "home/me/p"),
    ],
)
def test_project(tmp_path: Path, home: Path, tree: list[str], start: str, project: str) -> None:
    """The project is the file's folder, else the git root, else where one stands."""
    make(tmp_path, *tree)

    assert find_project(tmp_path / start) == tmp_path / project


def test_project_of_a_file(tmp_path: Path) -> None:
    """Only `config/launch.yaml` belongs to the folder above its own."""
    assert project_of(tmp_path / "config" / "launch.yaml") == tmp_path
    assert project_of(tmp_path / "config" / "bay.yaml") == tmp_path / "config"


@pytest.mark.parametrize(
    ("platform", "variables", "config", "state"),
    [
        ("linux", {}, ".config/launchbay/config.yaml", ".local/state/launchbay"),
        (
            "linux",
            {"XDG_CONFIG_HOME": "/x/config", "XDG_STATE_HOME": "/x/state"},
            "/x/config/launchbay/config.yaml",
            "/x/state/launchbay",
        ),
        (
            "linux",
            {"XDG_CONFIG_HOME": "relative", "XDG_STATE_HOME": ""},
            ".config/launchbay/config.yaml",
            ".local/state/launchbay",
        ),
        (
            "darwin",
            {"XDG_CONFIG_HOME": "/x/config"},
            "Library/Application Support/launchbay/config.yaml",
            "Library/Application Support/launchbay",
        ),
        ("linux", {"BAY_CONFIG": "/c.yaml", "BAY_HOME": "/h"}, "/c.yaml", "/h"),
        ("darwin", {"BAY_CONFIG": "~/c.yaml", "BAY_HOME": "~/h"}, "c.yaml", "h"),
        (
            "linux",
            {"BAY_CONFIG": "", "BAY_HOME": ""},
            ".config/launchbay/config.yaml",
            ".local/state/launchbay",
        ),
    ],
)
def test_platform_folders(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    platform: str,
    variables: dict[str, str],
    config: str,
    state: str,
) -> None:
    """The user's files are where the variables say, else where the platform keeps such files."""
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert (user_config_path(), state_folder()) == (home / config, home / state)


def test_shown_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message names a file relative to the working folder where it is below it."""
    make(tmp_path, "p/a/")
    monkeypatch.chdir(tmp_path / "p")

    assert shown_path(tmp_path / "p" / "a" / "bay.yaml") == "a/bay.yaml"
    assert shown_path(tmp_path / "bay.yaml") == str(tmp_path / "bay.yaml")


def test_start_up_is_cheap() -> None:
    """Looking for files loads neither yaml nor pydantic."""
    code = (
        "import sys, launchbay.config.paths; print(sorted({'yaml', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
