"""Files that are wrong, each with the text that a person reads.

`tests/data/broken` holds a file, or a folder where it needs neighbours, and beside it what
`bay plan` prints; `pytest --rewrite-golden` writes those texts anew, to be read aloud.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from launchbay.cli.screen import complain
from launchbay.config import nodes
from launchbay.config.files import parse_document
from launchbay.config.schema import ExperimentFile
from launchbay.config.validation import find_problems
from launchbay.core.errors import BayError
from launchbay.engine.settings import Wish, read_settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Bay

    Told = Callable[[str], tuple[str, int]]

BROKEN = Path(__file__).parent.parent / "data" / "broken"
NAMES = sorted(path.stem for path in BROKEN.iterdir() if path.is_dir() or path.suffix == ".yaml")
SEVERAL = re.compile(r"error: \d+ problems\n")
PLACE = re.compile(r"(?P<file>[\w./-]+):(?P<line>\d+):(?P<column>\d+): \S")
FIX = re.compile(r"(; |\nhint: )\S")
MACHINERY = re.compile(
    r"Traceback|Error\b|Exception|pydantic|(?<!!!)\b(str|dict|int|float|bool|None|NoneType|tuple)\b"
)
LONGEST = 160


def file_of(name: str) -> Path:
    """The experiment file of a case."""
    return BROKEN / name / "bay.yaml" if (BROKEN / name).is_dir() else BROKEN / f"{name}.yaml"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """What `bay plan FILE` says of a case, and the exit code that it ends with."""

    def tell(name: str) -> tuple[str, int]:
        file = file_of(name)
        monkeypatch.chdir(file.parent)
        for variable in ("BAY_SITE_CONFIG", "BAY_DEFAULT_TARGET"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("BAY_CONFIG", "user.yaml")
        with pytest.raises(BayError) as caught:
            read_settings_of(Path(file.name)).experiment(Wish())
        complain(str(caught.value), caught.value.hint)
        return capsys.readouterr().err, caught.value.exit_code

    return tell


def test_every_case_has_its_text() -> None:
    """There are forty and more, and no text is left over."""
    assert len(NAMES) > 40
    assert sorted(path.stem for path in BROKEN.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_text(told: Told, golden: Callable[[str, str], None], name: str) -> None:
    """A broken file is told in the very words that were read aloud."""
    text, _ = told(name)

    golden(f"broken/{name}.txt", text)


@pytest.mark.parametrize("name", NAMES)
def test_says_where_and_what_to_do(told: Told, name: str) -> None:
    """Every problem comes with its file, its line and a fix, in the order of the file."""
    text, code = told(name)
    several = SEVERAL.match(text)
    problems = text.splitlines()[1:] if several else [text.removeprefix("error: ")]
    places = [place for place in map(PLACE.match, problems) if place]
    lines = [(place["file"], int(place["line"]), int(place["column"])) for place in places]

    assert code == 2
    assert len(places) == len(problems)
    assert all((file_of(name).parent / file).is_file() for file, _, _ in lines)
    assert lines == sorted(lines)
    assert all(FIX.search(problem) for problem in problems)


@pytest.mark.parametrize("name", NAMES)
def test_is_told_in_words_of_people(told: Told, name: str) -> None:
    """No machinery, no paths of one machine, no line that fills the screen, quotes in pairs."""
    text, _ = told(name)

    assert not MACHINERY.search(text)
    assert str(BROKEN) not in text
    assert not [line for line in text.splitlines() if len(line) > LONGEST]
    assert all(line.count("`") % 2 == 0 for line in text.splitlines())


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("yaml_")])
def test_both_parsers_say_the_same(told: Told, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Where PyYAML comes without its C library a slip is told in the same words."""
    monkeypatch.setattr(nodes, "LOADER", yaml.SafeLoader)

    assert told(name)[0] == (BROKEN / f"{name}.txt").read_text()


ANYTHING = ["", "x", "''", "[]", "[a]", "[[a]]", "{a: b}", "{a: }", "{a: {b: c}}", "[{a: b}]", "-1"]


@pytest.mark.parametrize("written", ANYTHING)
def test_any_value_of_any_key(written: str) -> None:
    """Whatever stands behind a key, what is wrong with it has a line and a fix."""
    for key in ExperimentFile.spellings():
        text = f"{'' if key == 'command' else 'command: x'}\n{key}: {written}\n"
        for problem in find_problems(parse_document(text, Path("bay.yaml")), ExperimentFile):
            assert problem.line
            assert problem.hint
            assert not MACHINERY.search(f"{problem}; {problem.hint}")


@pytest.mark.parametrize("name", ["unknown_key_root", "several_problems", "kube_unknown_key"])
def test_the_command_says_the_same(bay: Bay, name: str) -> None:
    """`bay plan` prints that text, nothing else, and writes nothing anywhere."""
    file = file_of(name)
    if file.parent == BROKEN:
        shutil.copy(file, bay.project)
    else:
        shutil.copytree(file.parent, bay.project, dirs_exist_ok=True)
    before = sorted(bay.project.parent.rglob("*"))
    said = bay("plan", file.name, code=2)

    assert said.err == (BROKEN / f"{name}.txt").read_text()
    assert said.out == ""
    assert sorted(bay.project.parent.rglob("*")) == before
