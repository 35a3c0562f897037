"""What commands download is no code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from launchbay.engine.downloads import fetched_by
from launchbay.engine.settings import Wish, read_settings_of

if TYPE_CHECKING:
    from pathlib import Path

FILE = """\
command: '[](make download file=data/;) python a.py'
targets:
  box: {kind: machine, host: me@box}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with some data."""
    for name in ("data/1.txt", "data2/1.txt", "my data/1.txt", "one.bin", "a.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "fetched"),
    [
        ("make download file=data/; python a.py", ("data",)),
        ("make down overwrite=true file=data && make download file=one.bin", ("data", "one.bin")),
        ("make download file='my data/'", ("my data",)),
        ('bay toolbox download file="data/" | cat', ("data",)),
        ("time make download file=data/", ("data",)),
        ("""bash -c 'make download file=data/' && python a.py""", ("data",)),
        ("""bash -c "cd . && make download file='my data/'; python a.py" """, ("my data",)),
        ("(make download file=data/)", ("data",)),
        ("until make download file=data/; do sleep 5; done", ("data",)),
        ("if ! make download file=data/; then exit 1; fi", ("data",)),
        ("env A=b timeout 60 make download file=data/", ("data",)),
        ("x=`make download file=data/`", ("data",)),
        ("make download \\\n  file='my data/' \\\n  && python a.py", ("my data",)),
        ("make upload file=data/", ()),
        ("make download file=missing/", ()),
        ("make download file='data*'", ()),
        ("make download file=$FOLDER/", ()),
        ("make download file=../data2", ()),
        ("make download file=/", ()),
        ("make download; python a.py file=data/", ()),
        ("python make download file=data/", ()),
    ],
)
def test_what_a_command_fetches(project: Path, command: str, fetched: tuple[str, ...]) -> None:
    """Only what is named in full, is downloaded, and is of the project."""
    assert fetched_by([command], project) == fetched


def test_it_does_not_travel(project: Path) -> None:
    """Elsewhere the code is without the folder that the remote part downloads; here with it."""
    (project / "bay.yaml").write_text(FILE)
    settings = read_settings_of(project / "bay.yaml")

    def paths(target: str) -> set[str]:
        experiment, _ = settings.experiment(Wish(target=target))
        listing = settings.scan(experiment, project / ".bay")
        return {entry.path.partition("/")[0] for entry in listing.entries}

    assert paths("local") - paths("box") == {"data"}
    assert "data2" in paths("box")
