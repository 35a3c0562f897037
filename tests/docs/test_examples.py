"""Every example of the grammar page makes the runs that stand below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from launchbay.core.command import render
from launchbay.engine.project import read_project
from launchbay.engine.settings import Settings, Wish
from launchbay.engine.steps import Frame, Request
from launchbay.runstore.store import RunStore

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
EXAMPLE = re.compile(r"```yaml\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
EXAMPLES = [
    pytest.param(match[1], match[2], id=f"{page.stem}-{number}")
    for page in sorted(GUIDES.glob("*.md"))
    for number, match in enumerate(EXAMPLE.finditer(page.read_text()), 1)
]


@pytest.mark.parametrize(("text", "expected"), EXAMPLES)
def test_example(tmp_path: Path, text: str, expected: str) -> None:
    """Names, commands and order are those that the page prints."""
    file = tmp_path / "bay.yaml"
    file.write_text(text)
    settings = Settings(tmp_path, path=file)
    experiment, target = settings.experiment(Wish())
    frame = Frame(
        request=Request(experiment=experiment),
        project=read_project(tmp_path),
        target=target,
        same_code=(),
        store=RunStore(None),
        now=0.0,
    )

    assert [f"{step.name}: {render(step.command)}" for step in frame.steps()] == (
        expected.rstrip("\n").split("\n")
    )


def test_there_are_examples() -> None:
    """The pattern still finds them."""
    assert len(EXAMPLES) >= 13
