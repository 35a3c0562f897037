"""The lab over a target in memory: remember, then act; look, and judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import BadRequest, Unreachable
from launchbay.core.job import Argv, Recipe, Resources
from launchbay.core.run import State
from launchbay.core.sweep import Grid
from launchbay.engine.launch import preview

if TYPE_CHECKING:
    from tests.engine.conftest import Bench


def test_applied_twice_is_sent_once(bench: Bench) -> None:
    """What succeeded, and what still waits, is not sent again."""
    bench.apply()
    waiting = bench.draft()
    bench.backend.work()
    bench.look()
    done = bench.draft()

    assert [step.why[:9] for step in waiting.steps] == ["queued as"] * 3
    assert (done.to_submit, len(bench.backend.starts)) == ([], 3)


def test_failed_run_gets_the_next_attempt(bench: Bench) -> None:
    """The same run, tried once more, with both attempts on record."""
    bench.backend.program = lambda job: (int(job.attempt == 1), "")
    first = bench.apply()
    bench.backend.work()
    bench.look()
    again = bench.apply()
    bench.backend.work()

    assert bench.look() == [State.SUCCEEDED] * 3
    assert [run.id for run in again] == [run.id for run in first]
    assert [a.status.state for a in bench.lab.store.attempts(first[0].id)] == [
        State.FAILED,
        State.SUCCEEDED,
    ]


def test_only_changed_code_is_told_and_redone_when_asked(bench: Bench) -> None:
    """A success under older code counts, unless somebody says otherwise."""
    bench.apply()
    bench.backend.work()
    bench.look()
    (bench.lab.project.folder / "code.py").write_text("22")
    draft = bench.draft()

    assert (len(draft.under_older_code), draft.to_submit) == (3, [])
    assert [step.why for step in bench.draft(changed_code=True).steps] == [
        "the code has changed"
    ] * 3


def test_again_makes_new_runs(bench: Bench) -> None:
    """Everything once more, under new ids."""
    first = bench.apply()
    bench.backend.work()
    bench.look()
    again = bench.apply(again=True)

    assert not {run.id for run in first} & {run.id for run in again}
    assert len(bench.stored()) == 6


def test_another_command_is_another_run(bench: Bench) -> None:
    """Identity covers the command as written."""
    bench.apply()
    bench.apply(bench.experiment(command=Argv(("false",))))

    assert len(bench.stored()) == 6


def test_command_without_parameters_always_runs(bench: Bench) -> None:
    """Typing a plain command again runs it again."""
    plain = bench.experiment(grid=Grid(), always=True)
    bench.apply(plain)
    bench.backend.work()
    bench.look()
    bench.apply(plain)

    assert len(bench.stored()) == 2


def test_single_value_is_a_list_of_one(bench: Bench) -> None:
    """`a: 1` and `a: [1]` are the same run."""
    bench.apply(bench.experiment(grid=Grid.of({"a": ("1",)})))
    draft = bench.draft(bench.experiment(grid=Grid.of({"a": ["1", "2"]})))

    assert [step.action for step in draft.steps] == ["skip", "submit"]


def test_broken_off_submit_goes_on_where_it_stopped(bench: Bench) -> None:
    """Handles that came are stored, the rest is sent under the same ids, nothing twice."""
    bench.backend.fails_after = 1
    with pytest.raises(Unreachable):
        bench.apply()
    between = [run.state for run in bench.stored()]
    again = bench.apply()
    bench.backend.work()

    assert between == [State.QUEUED, State.CREATED, State.CREATED]
    assert [run.id for run in again] == [run.id for run in bench.stored()[1:]]
    assert bench.look() == [State.SUCCEEDED] * 3
    assert len(bench.backend.starts) == 3


def test_silence_is_reported_and_changes_nothing(bench: Bench) -> None:
    """A target that does not answer leaves its runs as last seen."""
    bench.apply()
    bench.backend.silent = True
    seen = bench.lab.refresh(bench.stored())

    assert (seen.silences, seen.news) == ({"memory": "nobody answers"}, ())


def test_lost_is_believed_at_the_second_look(bench: Bench) -> None:
    """One look is not enough, a minute later is; the exit record that comes late wins."""
    (run, *_) = bench.apply()
    status = bench.backend.statuses[run.native_id]
    bench.backend.forget(run.native_id)
    states = []
    for wait_s in (0, 30, 31):
        bench.clock.sleep(wait_s)
        states.append(bench.look()[0])
    bench.backend.statuses[run.native_id] = status
    bench.backend.work()

    assert states == [State.QUEUED, State.QUEUED, State.LOST]
    assert bench.look()[0] is State.SUCCEEDED


def test_lost_once_and_then_seen_is_healthy(bench: Bench) -> None:
    """A look that found nothing is forgotten when the next one finds it."""
    (run, *_) = bench.apply()
    status = bench.backend.statuses.pop(run.native_id)
    bench.look()
    bench.clock.sleep(100)
    bench.backend.statuses[run.native_id] = status
    bench.look()

    assert bench.stored()[0].suspect_since is None


def test_cancelled_before_it_was_sent(bench: Bench) -> None:
    """A run that nobody sent can be cancelled, and stays so."""
    bench.backend.fails_after = 0
    with pytest.raises(Unreachable):
        bench.apply()
    bench.lab.cancel(bench.stored())

    assert [run.state for run in bench.stored()] == [State.CANCELLED] * 3


def test_replace_cancels_and_sends_anew(bench: Bench) -> None:
    """What waits with other resources is ended first, then tried as the next attempt."""
    bench.apply()
    bigger = bench.experiment(recipe=lambda _: Recipe(resources=Resources(cpus=2)))
    untouched = bench.draft(bigger)
    bench.apply(bigger, replace=True)

    assert untouched.to_submit == []
    assert [(run.attempt, run.state) for run in bench.stored()] == [(2, State.QUEUED)] * 3
    assert [s.state for s in bench.backend.statuses.values()][:3] == [State.CANCELLED] * 3


def test_a_later_attempt_is_not_overwritten_by_an_older_look(bench: Bench) -> None:
    """What somebody saw of attempt 1 does not touch attempt 2."""
    bench.backend.program = lambda job: (1, "")
    bench.apply()
    bench.backend.work()
    bench.look()
    stale = bench.stored()
    bench.apply()
    bench.lab.store.update(stale)

    assert [(run.attempt, run.state) for run in bench.stored()] == [(2, State.QUEUED)] * 3


def test_preview_is_what_would_be_sent(bench: Bench) -> None:
    """The document leaves only the random end of each id open, and nothing is stored."""
    draft = bench.draft()
    documents = preview(draft, draft.to_submit)

    assert "".join(documents).splitlines() == [
        "demo-seed-0-????? 1 true --seed 0",
        "demo-seed-1-????? 1 true --seed 1",
        "demo-seed-2-????? 1 true --seed 2",
    ]
    assert bench.stored() == []
    assert not bench.lab.project.bay.exists()


def test_unknown_target_suggests_the_nearest(bench: Bench) -> None:
    """A typo is told."""
    with pytest.raises(BadRequest) as caught:
        bench.lab.targets.open("memry")

    assert (str(caught.value), caught.value.hint) == (
        "there is no target `memry`",
        "did you mean `memory`?",
    )


def test_points_that_are_the_same_run_once(bench: Bench) -> None:
    """A value given twice is one run."""
    bench.apply(bench.experiment(grid=Grid.of({"a": ["1", "1", "2"]})))

    assert len(bench.stored()) == 2
