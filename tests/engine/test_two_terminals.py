"""Two terminals, one project: nothing is begun twice, nothing is lost, all see the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import BadRequest, Overtaken, Unreachable
from launchbay.core.run import State
from launchbay.engine.again import Rerun
from launchbay.engine.care import list_remains, remove_runs
from launchbay.engine.lab import Lab
from launchbay.engine.project import owned_launch
from launchbay.runstore.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.engine.conftest import Bench

    from launchbay.core.backend import Plan, Refusal
    from launchbay.core.job import Job
    from launchbay.core.run import Handle, Run

CREATED, QUEUED, DONE, CANCELLED = (
    State.CREATED,
    State.QUEUED,
    State.SUCCEEDED,
    State.CANCELLED,
)


def second_terminal(bench: Bench) -> Lab:
    """Another bay on the same project, index and target."""
    lab = bench.lab
    return Lab(
        lab.project,
        RunStore(lab.store.path),
        targets=lab.targets,
        settings=lab.settings,
        clock=lab.clock,
        sleep=bench.clock.sleep,
    )


def failed_runs(bench: Bench) -> list[Run]:
    """Three runs that have just failed once, and may fail often."""
    outcomes = iter([1, 1, 1])
    bench.backend.program = lambda job: (next(outcomes, 0), "")
    runs = bench.apply_with_retries({"any": 5})
    bench.backend.work()
    return runs


def test_two_watchers_try_again_once(bench: Bench) -> None:
    """Who comes second with the same failed run finds that it has a further attempt."""
    failed = bench.lab.refresh(failed_runs(bench)).runs
    first, second = bench.lab.retry(failed), bench.lab.retry(failed)

    assert ([run.attempt for run in first], second) == ([2] * 3, [])


def while_planning(bench: Bench, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Have something done in another terminal when the next attempt is made ready."""
    plan = bench.backend.plan

    def plan_later(jobs: Sequence[Job]) -> list[Plan]:
        monkeypatch.undo()
        do()
        return plan(jobs)

    monkeypatch.setattr(bench.backend, "plan", plan_later)


def while_sending(bench: Bench, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Have something done in another terminal when the next plan is about to be taken."""
    submit = bench.backend.submit

    def submit_later(plan: Plan) -> Iterator[Handle | Refusal]:
        monkeypatch.undo()
        do()
        yield from submit(plan)

    monkeypatch.setattr(bench.backend, "submit", submit_later)


def test_two_watchers_at_the_same_instant_try_again_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both decide to try again before either has begun: one does, the other finds out."""
    failed = bench.lab.refresh(failed_runs(bench)).runs
    other = second_terminal(bench)
    others: list[Run] = []
    told: list[str] = []
    bench.lab.tell = told.append
    while_planning(bench, monkeypatch, lambda: others.extend(other.retry(failed)))
    own = bench.lab.retry(failed)

    assert ([run.id for run in others], own) == ([run.id for run in failed], [])
    assert [run.launch for run in bench.stored()] == [run.launch for run in others]
    assert told == []


def test_rerun_typed_in_two_terminals_begins_one_attempt(bench: Bench) -> None:
    """The second is told, and starts nothing."""
    failed = bench.lab.refresh(failed_runs(bench)).runs
    second_terminal(bench).rerun(failed, Rerun())
    with pytest.raises(Overtaken, match="begun again, cancelled or removed in another terminal"):
        bench.lab.rerun(failed, Rerun())

    assert [run.attempt for run in bench.stored()] == [2] * 3


@pytest.mark.parametrize("look_every_s", [0.0, 10.0])
def test_follower_follows_what_another_tries_again(bench: Bench, look_every_s: float) -> None:
    """Its runs are those of the new attempt, from before they are sent until they end well."""
    runs = failed_runs(bench)
    bench.backend.look_every_s = look_every_s
    other = second_terminal(bench)
    states: list[list[State]] = []
    for seen in bench.lab.follow(runs):
        states.append([run.state for run in seen.runs])
        if len(states) == 1:
            other.retry(other.refresh(runs).runs)
        bench.backend.work()
    attempts = [
        [(one.status.state, one.status.reason) for one in bench.lab.store.attempts(run.id)]
        for run in runs
    ]

    assert states[-1] == [DONE] * 3
    assert [run.native_id for run in seen.runs] == bench.backend.starts[3:]
    assert attempts == [[(State.FAILED, "exit code 1"), (DONE, "")]] * 3


def test_follower_meets_what_another_is_just_sending(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that is remembered and not yet sent is looked up again, and seen to its end."""
    runs = failed_runs(bench)
    follower = bench.lab.follow(runs)
    looks: list[list[State]] = []

    def look() -> None:
        looks.append([run.state for run in next(follower).runs])

    def look_twice() -> None:
        look()
        look()

    while_sending(bench, monkeypatch, look_twice)
    other = second_terminal(bench)
    other.retry(other.refresh(runs).runs)
    bench.backend.work()
    look()

    assert looks == [[CREATED, State.FAILED, State.FAILED], [CREATED, QUEUED, QUEUED], [DONE] * 3]
    assert len(bench.backend.starts) == 6


def test_cancelled_run_is_not_tried_again(bench: Bench) -> None:
    """Whoever cancels in another terminal wants no further attempt, however the run ended."""
    runs = failed_runs(bench)
    other = second_terminal(bench)
    other.store.request_cancel([run.id for run in runs])

    assert bench.lab.retry(bench.lab.refresh(runs).runs) == []


def test_runs_are_cancelled_as_they_are_now(bench: Bench) -> None:
    """Whoever still has them as unsent ends what was sent meanwhile, and their names stay."""
    bench.backend.room = 0
    unsent = bench.apply()
    bench.backend.room = None
    second_terminal(bench).refresh(unsent)
    bench.lab.cancel(unsent)

    assert bench.look() == [CANCELLED] * 3
    assert all(run.native_id for run in bench.stored())
    assert {one.state for one in bench.backend.statuses.values()} == {CANCELLED}


def test_newest_attempt_is_cancelled(bench: Bench) -> None:
    """Whoever still has the attempt before ends the one that runs."""
    failed = failed_runs(bench)
    other = second_terminal(bench)
    other.retry(other.refresh(failed).runs)
    bench.lab.cancel(failed)

    assert bench.look() == [CANCELLED] * 3
    assert [run.attempt for run in bench.stored()] == [2] * 3


def test_cancelling_none_cancels_none(bench: Bench) -> None:
    """An empty choice is not all there are."""
    bench.apply()
    bench.lab.cancel([])

    assert bench.look() == [QUEUED] * 3
    assert not any(run.cancel_requested for run in bench.stored())


def test_what_is_cancelled_while_it_is_sent_is_ended_by_the_sender(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cancels does not know its name there yet; whoever sends hears of it."""
    other = second_terminal(bench)
    while_sending(bench, monkeypatch, lambda: other.cancel(bench.stored()[:1]))
    bench.apply()
    bench.backend.work()

    assert bench.look() == [CANCELLED, DONE, DONE]
    assert len(bench.backend.starts) == 2


def test_sender_that_cannot_end_it_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs are sent, and what is still to be done is told."""
    told: list[str] = []
    bench.lab.tell = told.append
    other = second_terminal(bench)

    def refuse(handles: object) -> None:
        raise Unreachable("nobody answers")

    def cancel_and_break() -> None:
        other.cancel(bench.stored()[:1])
        monkeypatch.setattr(bench.backend, "cancel", refuse)

    while_sending(bench, monkeypatch, cancel_and_break)
    runs = bench.apply()

    assert [run.state for run in runs] == [QUEUED] * 3
    assert told == [
        f"cancelled, and not ended yet: nobody answers; `bay cancel {runs[0].suffix}` asks again"
    ]


def test_what_nobody_sends_any_more_is_cancelled_by_the_next_look(bench: Bench) -> None:
    """A wish that came while somebody was at it is remembered after that one has gone."""
    bench.backend.room = 0
    runs = bench.apply()
    folder = bench.lab.project.launch_folder(runs[0].launch)
    folder.rename(folder.with_name("before"))
    with owned_launch(bench.lab.project, runs[0].launch):
        bench.lab.cancel(runs)
        meanwhile = [run.state for run in bench.stored()]

    assert (meanwhile, bench.look()) == ([CREATED] * 3, [CANCELLED] * 3)


def test_what_is_sent_again_is_wanted_again(bench: Bench) -> None:
    """The same line typed after a cancel that came too late for the sender."""
    bench.backend.room = 0
    runs = bench.apply()
    bench.lab.store.request_cancel([run.id for run in runs])
    bench.backend.room = None
    bench.apply()
    bench.backend.work()

    assert bench.look() == [DONE] * 3


def test_retrying_many_can_be_stopped(bench: Bench) -> None:
    """What has not had its turn when somebody cancels stays as it is."""
    failed = bench.lab.refresh(failed_runs(bench)).runs
    other = second_terminal(bench)
    bench.lab.tell = lambda _: other.cancel(failed[1:])
    again = bench.lab.retry(failed)

    assert [run.id for run in again] == [failed[0].id]
    assert [run.attempt for run in bench.stored()] == [2, 1, 1]


def test_cancelled_between_decision_and_beginning(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel that comes while the next attempt is made ready is in time."""
    failed = bench.lab.refresh(failed_runs(bench)).runs
    other = second_terminal(bench)
    while_planning(bench, monkeypatch, lambda: other.cancel(failed))

    assert bench.lab.retry(failed) == []
    assert [run.attempt for run in bench.stored()] == [1] * 3


def test_what_was_refused_meanwhile_is_news(bench: Bench) -> None:
    """A follower tells of a run that another terminal saw fail before it was ever sent."""
    bench.backend.room = 0
    runs = bench.apply()
    follower = bench.lab.follow(runs)
    next(follower)
    failed = [replace(run, status=replace(run.status, state=State.FAILED)) for run in runs]
    second_terminal(bench).store.update(failed)
    seen = next(follower)

    assert [run.state for run in seen.news] == [State.FAILED] * 3


def test_follower_of_a_removed_run_ends(bench: Bench) -> None:
    """Nobody waits for what nobody knows any more."""
    bench.backend.room = 0
    runs = bench.apply()
    follower = bench.lab.follow(runs)
    next(follower)
    second_terminal(bench).store.forget([run.id for run in runs])
    (seen,) = follower

    assert [(run.state, run.status.reason) for run in seen.runs] == [
        (CANCELLED, "it was removed")
    ] * 3


def test_removing_spares_what_has_begun_again(bench: Bench) -> None:
    """Between the question and the answer somebody may run it again."""
    failed = bench.lab.refresh(failed_runs(bench)).runs
    remains = list_remains(bench.lab, failed)
    second_terminal(bench).rerun(failed[:1], Rerun())
    bench.backend.work()
    with pytest.raises(BadRequest, match="was begun again meanwhile; nothing was removed"):
        remove_runs(bench.lab, remains, sleep=bench.clock.sleep)

    assert len(bench.stored()) == 3


def test_wish_to_end_outlives_what_a_target_counts_on(bench: Bench) -> None:
    """Cancelled by one while another sees that the target went on: nothing tries it again."""
    (run, *_) = bench.apply()
    bench.backend.give(run.native_id, state=State.RUNNING, attempt=2)
    second_terminal(bench).store.request_cancel([run.id])
    bench.lab.refresh([run])

    assert [(one.attempt, one.cancel_requested) for one in bench.stored()] == [
        (2, True),
        (1, False),
        (1, False),
    ]


def test_what_was_taken_is_ended_though_its_sender_broke_off(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that breaks right after somebody cancelled leaves nothing running."""
    bench.backend.fails_after = 2
    other = second_terminal(bench)
    while_sending(bench, monkeypatch, lambda: other.cancel(bench.stored()[:1]))
    with pytest.raises(Unreachable):
        bench.apply()

    assert [one.state for one in bench.backend.statuses.values()] == [CANCELLED, QUEUED]


def test_plans_that_nobody_wants_any_more_are_not_sent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are cancelled while the first of three plans is sent: the others stay here."""
    bench.backend.chunk = 1
    other = second_terminal(bench)
    while_sending(bench, monkeypatch, lambda: other.cancel(bench.stored()))
    bench.apply()

    assert len(bench.backend.jobs) == 1
    assert bench.look() == [CANCELLED] * 3


def test_silent_target_keeps_what_it_may_have_taken(bench: Bench) -> None:
    """Whether a launch that broke off was heard, only the target knows; it is asked again."""
    bench.backend.fails_after = 0
    with pytest.raises(Unreachable):
        bench.apply()
    bench.backend.silent = True
    bench.lab.cancel(bench.stored())
    meanwhile = [run.state for run in bench.stored()]
    bench.backend.silent = False

    assert (meanwhile, bench.look()) == ([CREATED] * 3, [CANCELLED] * 3)


def test_what_another_saw_succeed_is_not_tried_again(bench: Bench) -> None:
    """It looked lost to one, and had ended well after all."""
    failed = bench.lab.refresh(failed_runs(bench)).runs
    second_terminal(bench).store.update(
        replace(run, status=replace(run.status, state=DONE)) for run in failed
    )

    assert bench.lab.retry(failed) == []


def test_runs_of_other_projects_are_not_tried_again_here(bench: Bench) -> None:
    """Their code and their folders are theirs."""
    failed = bench.lab.refresh(failed_runs(bench)).runs
    lab = second_terminal(bench)
    lab.project = replace(lab.project, id="another")

    assert lab.retry(failed) == []


def test_lost_runs_are_caught_up_on_too(bench: Bench) -> None:
    """Nobody knows when they ended; when they were missed counts."""
    runs = bench.apply_with_retries({"lost": 1})
    for run in runs:
        bench.backend.forget(run.native_id)
    bench.lab.refresh(runs)
    bench.clock.sleep(61)
    lost = bench.lab.refresh(bench.stored()).runs

    assert [run.state for run in lost] == [State.LOST] * 3
    assert [run.attempt for run in bench.lab.catch_up(lost)] == [2] * 3
