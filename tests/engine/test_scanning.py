"""The code as it stands is the same for a launch and for whoever runs something again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import ConfigError
from launchbay.core.job import Argv, Job
from launchbay.engine.settings import Settings, Wish, read_settings_of

if TYPE_CHECKING:
    from pathlib import Path

FILE = """\
command: make download file=data/; python a.py
file: [secret.txt]
snapshot_limit: 1M
targets:
  lab: {kind: kubernetes, namespace: lab, file: [extra.txt]}
"""
JOB = Job(run_id="a-b2c3d", name="a", experiment="a", command=Argv(("true",)))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A project that downloads data and sends files that git ignores."""
    names = ("data/1.txt", "secret.txt", "extra.txt", "a.py")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".bayignore").write_text("*.txt\n!data/\n!data/1.txt\n")
    (tmp_path / "bay.yaml").write_text(FILE)
    return read_settings_of(tmp_path / "bay.yaml")


@pytest.mark.parametrize(("target", "there"), [("local", "data"), ("lab", "secret.txt")])
def test_rerun_sees_what_run_sees(settings: Settings, target: str, there: str) -> None:
    """Here with the data, elsewhere without it and with the files that are to be sent."""
    store = settings.folder / ".bay"
    experiment, _ = settings.experiment(Wish(target=target))
    launched = settings.scan(experiment, store)
    again = settings.scan_for(JOB, target, store)

    assert again.id == launched.id
    assert there in {entry.path.partition("/")[0] for entry in again.entries}


def test_the_limit_of_the_file_holds_for_both(settings: Settings) -> None:
    """What is too big for one is too big for the other."""
    (settings.folder / "big.bin").write_bytes(bytes(2_000_000))
    experiment, _ = settings.experiment(Wish(target="local"))

    with pytest.raises(ConfigError, match="snapshot_limit"):
        settings.scan(experiment, settings.folder / ".bay")
    with pytest.raises(ConfigError, match="snapshot_limit"):
        settings.scan_for(JOB, "local", settings.folder / ".bay")
