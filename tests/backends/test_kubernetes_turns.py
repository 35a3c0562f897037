"""Whose turn it is when only so many runs may go on at once."""

from __future__ import annotations

from typing import Any

from launchbay.backends.kubernetes.turns import choose_next


def job(name: str, *, suspended: bool = True, **about: Any) -> dict[str, Any]:
    """A Job of experiment `e` that may run beside one other."""
    index = about.get("index", int(name[1:]))
    annotations = {"launchbay/parallel": "2", "launchbay/index": str(index)}
    annotations |= about.get("annotations", {})
    conditions = [{"type": one, "status": "True"} for one in about.get("conditions", ())]
    return {
        "metadata": {
            "name": name,
            "labels": {
                "project": "p",
                "launchbay/experiment": about.get("experiment", "e"),
                "launchbay/target": "lab",
                "launchbay/plan": about.get("plan", "plan1"),
            },
            "annotations": {key: text for key, text in annotations.items() if text},
            "creationTimestamp": about.get("made", "2026-01-01T00:00:00Z"),
        },
        "spec": {"suspend": suspended},
        "status": {"conditions": conditions},
    }


def test_first_ones_go_in_their_order() -> None:
    """As many as may run are let go, by their place in the sweep and not by their names."""
    jobs = [job("a10"), job("a9"), job("a2")]

    assert choose_next(jobs) == ["a2", "a9"]


def test_those_that_run_count() -> None:
    """A place is free only once one has ended."""
    running = job("a0", suspended=False)
    ended = job("a1", suspended=False, conditions=["Complete"])

    assert choose_next([running, ended, job("a2"), job("a3")]) == ["a2"]


def test_nothing_goes_while_all_places_are_taken() -> None:
    """Two that run leave no place."""
    jobs = [job("a0", suspended=False), job("a1", suspended=False), job("a2")]

    assert choose_next(jobs) == []


def test_cancelled_ones_neither_go_nor_count() -> None:
    """What somebody ended gives its place to the next, and is not let go."""
    gone = job("a0", annotations={"launchbay/cancelled": "yes"})

    assert choose_next([gone, job("a1"), job("a2"), job("a3")]) == ["a1", "a2"]


def test_each_experiment_has_its_own_places() -> None:
    """One sweep does not wait for another."""
    others = [
        job("b1", suspended=False, experiment="f"),
        job("b2", suspended=False, experiment="f"),
    ]

    assert choose_next([*others, job("a1")]) == ["a1"]


def test_target_may_have_fewer_places_than_its_experiments() -> None:
    """Both caps hold: the target's own counts all experiments together."""
    cap = {"launchbay/target-parallel": "1"}
    busy = job("b1", suspended=False, experiment="f")

    assert choose_next([busy, job("a1", annotations=cap)]) == []
    assert choose_next([job("a1", annotations=cap), job("a2", annotations=cap)]) == ["a1"]


def test_job_that_somebody_else_holds_is_left_alone() -> None:
    """A suspended Job without a cap of ours is not let go."""
    assert choose_next([job("a1", annotations={"launchbay/parallel": ""})]) == []


def test_earlier_sweep_goes_first() -> None:
    """Of two launches of one experiment, the first one's runs come first, whatever their places."""
    first = job("a9", plan="plan2", made="2026-01-01T00:00:00Z")
    second = [job("a1", made="2026-01-01T00:00:05Z"), job("a2", made="2026-01-01T00:00:05Z")]

    assert choose_next([*second, first]) == ["a9", "a1"]
