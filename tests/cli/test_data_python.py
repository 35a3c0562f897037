"""`launchbay.data` and `launchbay.compat.toolbox` with a folder as the bucket."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually

from launchbay import data
from launchbay.compat import toolbox
from launchbay.core.errors import BadRequest, DataError

if TYPE_CHECKING:
    from tests.cli.conftest import Place


@pytest.fixture
def here(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The project as the working folder of this process."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, place.bay.environment[name])
    monkeypatch.setenv("BAY_CACHE", str(place.bay.home / "cache"))
    monkeypatch.chdir(place.bay.project)
    return place


def test_verbs_return_what_they_did(here: Place) -> None:
    """Keys of what went up, files of what came down, keys of what is gone."""
    here.bay.write("d/a", "1")
    here.bay.write("d/b.tmp", "2")
    sent = data.up("d/", exclude=["*.tmp"])
    came = data.down("d/", local_path="out")

    assert (sent, data.up("d/a")) == (["d/a"], [])
    assert [path.relative_to(Path.cwd()) for path in came] == [Path("out/d/a")]
    assert data.cp("d/", "e/") == ["d/a"] or here.objects() == ["d/a", "e/a"]
    assert (data.find("*"), data.ls("d"), data.rm("e/*")) == (["d/a", "e/a"], ["d/a"], ["e/a"])
    assert here.objects() == ["d/a"]


def test_what_did_not_come_raises(here: Place) -> None:
    """A program must not go on with half of its data."""
    here.put(d__x="1")
    (here.bay.project / "d" / "x" / "inside").mkdir(parents=True)
    with pytest.raises(DataError):
        data.down("d/", overwrite=True)


def test_everything_is_not_removed_by_accident(here: Place) -> None:
    """An empty pattern, as from a variable that is not set, removes nothing."""
    here.put(x="1")
    with pytest.raises(BadRequest, match="everything"):
        data.rm("")
    assert here.objects() == ["x"]


def test_open_remote_reads_and_writes(here: Place) -> None:
    """Written whole when closed; read from the cache until a refresh, or until written here."""
    with data.open_remote("d/x", "w") as file:
        file.write("one")
    with data.open_remote("d/x", "r") as file:
        first = file.read()
    here.put(d__x="other")
    with data.open_remote("d/x") as file:
        second = file.read()
    with data.open_remote("d/x", refresh=True) as file:
        third = file.read()

    with data.open_remote("d/x", "wb") as file:
        file.write(b"mine")
    with data.open_remote("d/x") as file:
        fourth = file.read()

    assert (first, second, third, fourth) == ("one", b"one", b"other", b"mine")
    with pytest.raises(BadRequest, match="no name of one object"):
        data.open_remote("d/*")
    with pytest.raises(FileNotFoundError):
        data.open_remote("d/nothing")


def test_watch_once(here: Place) -> None:
    """What is whole is sent, and the call returns."""
    here.bay.write("d/a", "1")

    assert data.watch("d", interval_s=0.01, once=True)
    assert here.objects() == ["d/a"]


def test_toolbox_paths_count_from_the_bucket(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever folder a program stands, keys are whole and files are below `local_path`."""
    here.put(Data__x="1")
    inside = here.bay.project / "src"
    inside.mkdir()
    monkeypatch.chdir(inside)

    assert toolbox.download_s3_path("Data/") == ["Data/x"]
    assert (inside / "Data" / "x").read_text() == "1"
    assert toolbox.get_local_files("Data/*") == ["Data/x"]
    assert toolbox.download_s3_objects([]) == []


def test_the_monitor_mirrors_until_it_is_ended(here: Place) -> None:
    """New files go up, deleted ones are removed, both are in its log; TERM ends it."""
    here.bay.write("d/a", "1")
    sent = here.bucket / "d" / "a"
    program = "from launchbay.compat.toolbox import monitor; monitor('d', 0.2, 'log')"
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=here.bay.project, env=here.bay.environment
    )
    try:
        eventually(sent.exists)
        (here.bay.project / "d" / "a").unlink()
        eventually(lambda: not sent.exists())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
    log = (here.bay.project / "log").read_text()

    assert "uploaded d/a" in log
    assert "removed d/a" in log
