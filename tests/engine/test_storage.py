"""Files to a claim and back, where the claim is a folder of this machine."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from launchbay.core.backend import Claim, Claims
from launchbay.core.errors import BadRequest, Rejected
from launchbay.engine.storage import gather, list_below, parse_place, pull, push
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from launchbay.core.host import Host
    from launchbay.sync.steps import Progress


class Cupboard(Claims):
    """Claims that are folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def list_claims(self) -> list[Claim]:
        return []

    def make_claim(
        self, name: str, *, size_mib: int, storage_class: str = "", shared: bool = True
    ) -> tuple[Claim, bool]:
        raise NotImplementedError

    @contextmanager
    def open_claim(self, name: str, *, tell: Callable[[str], None]) -> Iterator[tuple[Host, str]]:
        tell(f"opens {name}")
        yield LocalHost(), str(self.folder / name)


def quiet(line: str) -> None:
    """Hears what is waited for."""
    assert line


@pytest.fixture
def claims(tmp_path: Path) -> Cupboard:
    """A place with one claim, `data`."""
    (tmp_path / "claims" / "data").mkdir(parents=True)
    return Cupboard(tmp_path / "claims")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files, which one stands in."""
    made = tmp_path / "project"
    for name in ("a.txt", "set/b.txt", "set/deep/c.txt"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    monkeypatch.chdir(made)
    return made


def below(folder: Path) -> list[str]:
    """Every file."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("project")
def test_where_files_go() -> None:
    """A file and a folder go by their names, a folder with `/` without; no two to one place."""
    assert [one.place for one in gather(["a.txt", "set"], "to")] == [
        "to/a.txt",
        "to/set/b.txt",
        "to/set/deep/c.txt",
    ]
    assert [one.place for one in gather(["set/"], "")] == ["b.txt", "deep/c.txt"]
    with pytest.raises(BadRequest, match=r"would both be `b\.txt`"):
        gather(["set/b.txt", "set/"], "")
    with pytest.raises(BadRequest, match="there is no file `none`"):
        gather(["none"], "")


def test_only_what_is_new_goes(claims: Cupboard, project: Path) -> None:
    """What is there by size and time stays; what changed goes again, and how far it is is shown."""
    shown: list[Progress] = []
    first = push(claims, ["a.txt", "set"], "data:x/", tell=quiet, show=shown.append)
    again = push(claims, ["a.txt", "set"], "data:x", tell=quiet)
    os.utime(project / "a.txt", (1, 1))
    changed = push(claims, ["a.txt", "set"], "data:/x/", tell=quiet)

    assert below(claims.folder / "data") == ["x/a.txt", "x/set/b.txt", "x/set/deep/c.txt"]
    assert (len(first.files), first.size, first.same) == (3, 28, 0)
    assert (again.files, again.same) == ((), 3)
    assert (changed.files, changed.same) == ((("x/a.txt", 5),), 2)
    assert (shown[-1].files, shown[-1].of_files, shown[-1].bytes) == (3, 3, 28)


@pytest.mark.usefixtures("project")
def test_files_are_listed_and_come_back(claims: Cupboard, tmp_path: Path) -> None:
    """Paths are kept; what is here stays; what nothing matches is said with what is near."""
    push(claims, ["set"], "data:", tell=quiet)
    back = tmp_path / "back"
    got = pull(claims, "data:set/*.txt", back, tell=quiet)
    again = pull(claims, "data:", back, tell=quiet)
    listed = list_below(claims, "data:set/deep", tell=quiet)
    with pytest.raises(BadRequest, match="nothing of `data` matches `sett`") as err:
        pull(claims, "data:sett", back, tell=quiet)

    assert below(back) == ["set/b.txt", "set/deep/c.txt"]
    assert (len(got.files), again.files, again.same) == (2, (), 2)
    assert [file.place for file in listed] == ["set/deep/c.txt"]
    assert "`set`" in str(err.value.hint)


def test_an_empty_claim(claims: Cupboard, tmp_path: Path) -> None:
    """A claim that holds nothing says so; one that is not there is an error in words."""
    with pytest.raises(BadRequest, match="`data` is empty"):
        pull(claims, "data:", tmp_path, tell=quiet)
    with pytest.raises(Rejected, match="cannot list it"):
        pull(claims, "none:", tmp_path, tell=quiet)


@pytest.mark.parametrize("text", ["", ":a", "data", "a/b:c", "data:../x", "data:a/../../b"])
def test_what_is_no_place(text: str) -> None:
    """A place is a claim and a path below it."""
    with pytest.raises(BadRequest):
        parse_place(text, needs_path=True)
