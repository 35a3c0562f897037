"""Runs on targets elsewhere: what waits on this side, the call budget, further attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import BadRequest, Unreachable
from launchbay.core.run import Cause, State
from launchbay.engine.plans import kept_plans
from launchbay.runstore.store import Query, RunStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine.conftest import Bench

    from launchbay.core.backend import Plan
    from launchbay.core.run import Handle, Run

CREATED, QUEUED, DONE = State.CREATED, State.QUEUED, State.SUCCEEDED


def follow(bench: Bench, runs: list[Run]) -> list[Run]:
    """Look until all have ended, while the target works."""
    for seen in bench.lab.follow(runs):
        runs = list(seen.runs)
        bench.backend.work()
    return runs


def test_what_has_no_room_waits_here_and_says_why(bench: Bench) -> None:
    """A refusal that may pass leaves the runs on this side, in their order."""
    bench.backend.chunk, bench.backend.room = 1, 1
    runs = bench.apply()

    assert [run.state for run in runs] == [QUEUED, CREATED, CREATED]
    assert [run.status.reason for run in bench.stored()] == [
        "",
        *["waits on this side: there is no room"] * 2,
    ]


def test_looking_sends_what_waits_here(bench: Bench) -> None:
    """As soon as there is room, the next look sends the rest, each once."""
    bench.backend.chunk, bench.backend.room = 1, 1
    runs = bench.apply()
    full = bench.look()
    ended = follow(bench, runs)

    assert full == [QUEUED, CREATED, CREATED]
    assert [run.state for run in ended] == [DONE] * 3
    assert len(bench.backend.starts) == len(set(bench.backend.starts)) == 3


def test_who_cannot_send_what_waits_sees_all_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that only another shell has keeps nobody from looking."""

    def lacking(plan: Plan) -> Iterator[Handle]:
        raise BadRequest(f"secret `TOKEN` of {plan.id} is not set")

    bench.backend.chunk, bench.backend.room = 1, 1
    bench.apply()
    bench.backend.work()
    told: list[str] = []
    bench.lab.tell = told.append
    monkeypatch.setattr(bench.backend, "submit", lacking)

    assert bench.look() == [DONE, CREATED, CREATED]
    assert [line.partition(":")[0] for line in told] == ["memory cannot be fed"]


def test_nothing_overtakes_what_waits(bench: Bench) -> None:
    """After the first plan that is refused no later one is tried."""
    bench.backend.chunk, bench.backend.room = 2, 1
    bench.apply()

    assert bench.look() == [CREATED] * 3


def test_looking_finishes_a_launch_that_broke_off(bench: Bench) -> None:
    """What a launch kept and did not send is sent by the next look, under the same ids."""
    bench.backend.fails_after = 1
    with pytest.raises(Unreachable):
        bench.apply()
    before = [run.id for run in bench.stored()]
    states = bench.look()
    bench.backend.work()

    assert (states, bench.look()) == ([QUEUED] * 3, [DONE] * 3)
    assert [run.id for run in bench.stored()] == before
    assert len(bench.backend.starts) == 3


def test_run_cancelled_while_it_waits_here_never_starts(bench: Bench) -> None:
    """Its plan is sent for the others; it is revoked before that."""
    bench.backend.room = 0
    runs = bench.apply()
    bench.lab.cancel([runs[1]])
    bench.backend.room = None
    bench.look()
    bench.backend.work()

    assert bench.look() == [DONE, State.CANCELLED, DONE]
    assert not any(native.startswith(runs[1].id) for native in bench.backend.starts)


def test_plan_is_kept_until_it_is_sent(bench: Bench) -> None:
    """The launch's folder says what was not sent, and what the rest is called there."""
    bench.backend.chunk, bench.backend.room = 2, 2
    runs = bench.apply()
    folder = bench.lab.project.launch_folder(runs[0].launch)
    first, second = kept_plans(folder)

    assert [kept.run_ids for kept in kept_plans(folder, unsent=True)] == [[runs[2].id]]
    assert first.names() == {run.id: run.native_id for run in runs[:2]}
    assert (second.names(), second.plan().document) == ({}, f"{runs[2].id} 1 true --seed 2\n")


def test_targets_are_asked_within_their_budget(bench: Bench) -> None:
    """Another look within ten seconds, from whatever terminal, takes what the first one saw."""
    bench.backend.look_every_s = 10.0
    bench.apply()
    bench.look()
    bench.backend.work()
    bench.clock.sleep(9)
    early = bench.look()
    bench.clock.sleep(2)

    assert (early, bench.backend.looks) == ([QUEUED] * 3, 1)
    assert (bench.look(), bench.backend.looks) == ([DONE] * 3, 2)


def test_budget_is_shared_between_terminals(bench: Bench) -> None:
    """A second index over the same file has no turn of its own."""
    bench.backend.look_every_s = 10.0
    bench.apply()
    bench.look()
    other = RunStore(bench.lab.store.path)
    now = bench.clock()

    assert not any(other.claim_look(place, now=now + 5, every_s=10.0) for place in _places(other))
    assert all(other.claim_look(place, now=now + 11, every_s=10.0) for place in _places(other))


def _places(store: RunStore) -> list[str]:
    return [row["place"] for row in store._rows("SELECT place FROM looks", ())]


def test_feeding_keeps_to_the_budget(bench: Bench) -> None:
    """What waits here is not offered again before it is our turn to call."""
    bench.backend.chunk, bench.backend.room, bench.backend.look_every_s = 1, 1, 10.0
    bench.apply()
    bench.look()
    bench.backend.room = 3
    early = bench.look()
    bench.clock.sleep(11)

    assert (early, bench.look()) == ([QUEUED, CREATED, CREATED], [QUEUED] * 3)


@pytest.mark.parametrize(
    ("retries", "cause", "starts"),
    [
        ({"node": 2}, Cause.NODE, 3),
        ({"node": 2}, Cause.EXIT, 1),
        ({"any": 1}, Cause.OOM, 2),
        ({"any": 3, "exit": 0}, Cause.EXIT, 1),
        ({"no such luck": 1}, Cause.EXIT, 2),
        ({"something else": 1}, Cause.EXIT, 1),
    ],
)
def test_failures_are_retried_as_said(
    bench: Bench,
    retries: dict[str, int],
    cause: Cause,
    starts: int,
) -> None:
    """By their cause, by any, or by a pattern of the log; never more often than said."""
    bench.backend.program = lambda job: (1, "no such luck\n")
    runs = bench.apply_with_retries(retries)
    for _ in bench.lab.follow(runs):
        bench.backend.work()
        for native, status in bench.backend.statuses.items():
            if status.state is State.FAILED:
                bench.backend.give(native, cause=cause)

    assert len(bench.backend.starts) == 3 * starts
    assert [run.attempt for run in bench.stored()] == [starts] * 3


def test_listing_alone_retries_nothing(bench: Bench) -> None:
    """Whoever only looks starts no further attempt."""
    bench.backend.program = lambda job: (1, "")
    bench.apply_with_retries({"any": 5})
    bench.backend.work()
    bench.look()

    assert bench.look() == [State.FAILED] * 3


def test_target_may_count_attempts_on(bench: Bench) -> None:
    """What a target continued by itself is a further attempt of the same run."""
    (run, *_) = bench.apply()
    bench.backend.give(run.native_id, state=State.RUNNING, attempt=1)
    bench.look()
    bench.backend.give(run.native_id, state=State.RUNNING, attempt=2)
    bench.look()
    bench.backend.give(run.native_id, state=DONE, attempt=2)
    bench.look()
    (now,) = bench.lab.store.runs(Query(ids=[run.id]))
    attempts = [(one.number, one.status.reason) for one in bench.lab.store.attempts(run.id)]

    assert (now.attempt, now.state) == (2, DONE)
    assert attempts == [(1, "it went on as attempt 2"), (2, "")]


def test_lost_index_is_rebuilt_from_kept_plans(bench: Bench) -> None:
    """Runs elsewhere come back with their names there and what became of them."""
    bench.backend.chunk, bench.backend.room = 2, 2
    before = {run.id: run.native_id for run in bench.apply()}
    bench.lab.store.forget(list(before))
    bench.backend.work()
    bench.backend.room = 0
    count = bench.lab.rebuild()
    after = bench.lab.store.runs(Query())

    assert (count, {run.id: run.native_id for run in after}) == (3, before)
    assert sorted(run.state for run in after) == sorted([DONE, DONE, CREATED])
