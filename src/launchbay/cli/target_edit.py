"""`bay target edit`, `rm` and `use`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click

from launchbay.cli.options import complete_targets, yes_option
from launchbay.cli.screen import confirm, say
from launchbay.config.configuration import load_user_config
from launchbay.config.paths import user_config_path
from launchbay.config.user_file import remove_target, set_value
from launchbay.core.errors import BadRequest, ConfigError
from launchbay.engine.catalogue import find_own, find_stronger_default, find_target
from launchbay.engine.open import open_lab
from launchbay.runstore.store import Query

if TYPE_CHECKING:
    from pathlib import Path

    from launchbay.engine.lab import Lab
    from launchbay.engine.settings import Settings


@click.command("edit")
@click.argument("name", shell_complete=complete_targets)
def edit(*, name: str) -> None:
    """Open your configuration in your editor.

    That is $VISUAL, else $EDITOR. What cannot be is not taken over: the old text stays.
    """
    _check_own(open_lab(writing=False).settings, name)
    # A link, as into a folder of dotfiles, stays one.
    path = user_config_path().resolve()
    backup = path.with_name(f"{path.name}.backup")
    before = path.read_bytes()
    shutil.copy2(path, backup)
    click.edit(filename=str(path))
    _check_edit(path, backup)
    backup.unlink()
    say("nothing was changed" if path.read_bytes() == before else f"{path} is changed")


@click.command("rm")
@click.argument("name", shell_complete=complete_targets)
@yes_option
def remove(*, name: str, yes: bool) -> int:
    """Remove a target; its runs stay."""
    lab = open_lab(writing=False)
    _check_own(lab.settings, name)
    path = user_config_path()
    left = _count_unfinished(lab, name)
    note = f" ({left} of its runs have not ended; they go on)" if left else ""
    if not confirm(f"remove target `{name}` from {path}?{note}", yes=yes):
        return 1
    used = lab.settings.user.use == name
    remove_target(path, name)
    say(f"removed `{name}`" + ("; `local` is used now" if used else ""))
    return 0


@click.command("use")
@click.argument("name", shell_complete=complete_targets)
def use(*, name: str) -> None:
    """Make a target the one that runs go to."""
    settings = open_lab(writing=False).settings
    find_target(settings, name)
    set_value(user_config_path(), "use", name)
    stronger = find_stronger_default(settings)
    note = f"; here {stronger} says otherwise and wins" if stronger else ""
    say(f"runs go to `{name}` now{note}")


def _check_own(settings: Settings, name: str) -> None:
    """Refuse a target that the user's own configuration does not write."""
    if find_own(settings, name) is not None:
        return
    entry = find_target(settings, name)
    path = user_config_path()
    if entry.sources:
        raise BadRequest(f"`{name}` is not in {path}", hint=f"edit {entry.sources[0]}")
    hint = f"`bay target add {name} --parallel 2` gives it options"
    raise BadRequest(f"`{name}` is always there, without being written", hint=hint)


def _check_edit(path: Path, backup: Path) -> None:
    """Put the old text back when the new one cannot be."""
    try:
        load_user_config(path)
    except ConfigError as err:
        rejected = path.with_name(f"{path.name}.rejected")
        path.replace(rejected)
        backup.replace(path)
        raise ConfigError(
            f"{err}; {err.hint}" if err.hint else str(err),
            hint=f"the configuration is as it was; your text is in {rejected}",
        ) from err


def _count_unfinished(lab: Lab, name: str) -> int:
    return sum(not run.state.final for run in lab.store.runs(Query(targets=[name])))
