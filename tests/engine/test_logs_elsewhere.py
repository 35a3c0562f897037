"""Logs of runs whose target is not here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from launchbay.cli.following import follow
from launchbay.core import rundir
from launchbay.core.backend import LogChunk
from launchbay.core.errors import Unreachable
from launchbay.engine.logs import bring_log, last_error, pieces, read_all, read_end

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engine.conftest import Bench

    from launchbay.core.run import Run


def text_of(bench: Bench, run: Run, *, copies: bool = True) -> str:
    return "".join(chunk.text for chunk in pieces(bench.lab, run, copies=copies))


def path_of(bench: Bench, run: Run) -> Path:
    return rundir.attempt_folder(bench.lab.folder(run), 1) / rundir.log_name()


def ended(bench: Bench) -> Run:
    """A run that has ended, and of whose log nothing is here."""
    bench.apply()
    bench.backend.work()
    bench.look()
    run = bench.stored()[0]
    return replace(run, place={**run.place, "host": "me@box"})


def test_log_that_is_here_is_asked_for_no_more(bench: Bench) -> None:
    """Once a run has ended and all of its log is here, its target may be gone."""
    run = ended(bench)
    bring_log(bench.lab, run)
    bench.backend.silent = True

    assert text_of(bench, run) == read_all(bench.lab, run) == read_end(bench.lab, run) == "ok\n"
    assert last_error(bench.lab, run) == "ok"


def test_what_nobody_brought_is_not_to_be_had(bench: Bench) -> None:
    """Whoever wants to see it is told why; whoever only looks for words finds none."""
    run = ended(bench)
    bench.backend.silent = True

    with pytest.raises(Unreachable):
        text_of(bench, run)
    assert read_all(bench.lab, run) == read_end(bench.lab, run) == ""


def test_what_was_fetched_will_do(bench: Bench) -> None:
    """But not for those who follow: nobody could go on from it."""
    run = ended(bench)
    path = path_of(bench, run)
    path.parent.mkdir(parents=True)
    path.write_text("all of it\n")
    bench.backend.silent = True

    assert text_of(bench, run) == "all of it\n"
    with pytest.raises(Unreachable):
        text_of(bench, run, copies=False)


def test_what_was_fetched_will_do_where_the_target_has_forgotten(bench: Bench) -> None:
    """Its folder there may have been removed."""
    run = ended(bench)
    path = path_of(bench, run)
    path.parent.mkdir(parents=True)
    path.write_text("all of it\n")
    bench.backend.texts.clear()

    assert text_of(bench, run) == "all of it\n"


def test_log_that_is_not_given_out_does_not_hide_how_it_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever follows a run reads why its last lines are missing, and that it succeeded."""

    def refuse(*_: object, **__: object) -> LogChunk:
        raise Unreachable("the node has lost it")

    monkeypatch.setattr(bench.backend, "read_log", refuse)
    run = ended(bench)

    assert follow(bench.lab, bench.stored()[:1]) == 0
    said = capsys.readouterr().err
    assert "the node has lost it" in said
    assert f"{run.suffix} succeeded" in said


def test_target_that_promises_more_and_gives_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left alone until the next look."""
    run = ended(bench)
    stuck = LogChunk(text="", cursor="7", more=True)
    monkeypatch.setattr(bench.backend, "read_log", lambda *_, **__: stuck)

    assert [chunk.text for chunk in pieces(bench.lab, run, cursor="7")] == [""]
