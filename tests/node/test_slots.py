"""Who may start: caps, processors, memory, and GPUs whole or shared."""

from __future__ import annotations

from typing import Any

import pytest
from entries import Entry
from hypothesis import given
from hypothesis import strategies as some
from slots import Room

FOUR = ["0", "1", "2", "3"]


def entry(**needs: Any) -> Entry:
    caps = needs.pop("caps", {})
    devices = needs.pop("given", None)
    record = {"run": "r", "attempt": 1, "folder": "/r", "needs": needs, "caps": caps}
    return Entry({**record, "devices": devices})


def gpu(amount: float, **fields: Any) -> Entry:
    return entry(**{"gpus": amount, "devices": FOUR, **fields})


def room(*held: Entry, busy: frozenset[str] = frozenset()) -> Room:
    return Room(held, cpus=8, memory_mib=1000, busy_gpus=lambda: set(busy))


def given_to(place: Entry | str) -> list[str] | None:
    assert isinstance(place, Entry), place
    return place.devices


@pytest.mark.parametrize(
    ("wanted", "held", "expected"),
    [
        (gpu(1), [], ["0"]),
        (gpu(2), [gpu(1, given=["0"])], ["1", "2"]),
        (gpu(4), [], FOUR),
        (gpu(0.5), [gpu(1, given=["0"])], ["1"]),
        (gpu(0.5), [gpu(0.5, given=["2"])], ["2"]),
        (gpu(0.5), [gpu(0.5, given=["0"]), gpu(0.5, given=["0"])], ["1"]),
        (gpu(0.3), [gpu(0.3, given=["0"])] * 2, ["0"]),
        (gpu(0.3), [gpu(0.3, given=["0"])] * 3, ["1"]),
        (gpu(0.1), [gpu(0.1, given=["0"])] * 9, ["0"]),
        (gpu(1), [gpu(0.1, given=["0"])], ["1"]),
        (gpu(1, devices=["3", "1"]), [], ["3"]),
        (gpu(1.5), [], ["0", "1"]),
    ],
)
def test_devices_are_given(wanted: Entry, held: list[Entry], expected: list[str]) -> None:
    """Whole GPUs that nobody has; a fraction where the GPU is fullest."""
    assert given_to(room(*held).place(wanted)) == expected


def test_third_part_fits_three_times() -> None:
    """Thirds add up to one."""
    third = 1 / 3
    held = [gpu(third, given=["0"])] * 2

    assert given_to(room(*held).place(gpu(third))) == ["0"]


@given(some.lists(some.sampled_from([0.1, 0.25, 0.3, 1 / 3, 0.5, 0.7, 1, 2, 3, 4]), max_size=30))
def test_no_gpu_is_given_beyond_itself(amounts: list[float]) -> None:
    """Whatever is asked for, shares of one GPU never exceed it, and none is given twice in one."""
    place = room()
    used = dict.fromkeys(FOUR, 0.0)
    for amount in amounts:
        found = place.place(gpu(amount))
        if isinstance(found, Entry):
            place.take(found)
            devices = found.devices or []
            assert len(set(devices)) == max(1, int(amount))
            for device in devices:
                used[device] += min(1, amount)

    assert all(share <= 1 + 1e-9 for share in used.values())


def test_nobody_overtakes_who_waits_for_gpus() -> None:
    """One that fits waits behind one that does not, if it needs the same devices."""
    place = room(gpu(1, given=["0"]))

    assert place.place(gpu(4)) == "it needs 4 GPU, too few are free"
    assert place.place(gpu(1)) == "another run waits for GPUs before it"
    assert given_to(place.place(entry())) is None


def test_other_devices_may_be_taken() -> None:
    """Who needs other GPUs does not wait behind somebody."""
    place = room(gpu(1, given=["0"]))
    place.place(gpu(2, devices=["0", "1"]))

    assert given_to(place.place(gpu(1, devices=["1", "2"]))) == ["2"]


def test_gpus_of_others_are_left_out() -> None:
    """With `auto` a GPU on which somebody else works is not given."""
    place = room(busy=frozenset({"0", "1"}))

    assert given_to(place.place(gpu(1, auto=True))) == ["2"]
    assert given_to(place.place(gpu(1))) == ["0"]
    assert place.place(gpu(3, auto=True)) == "it needs 3 GPU, too few are free"


def test_cap_counts_those_that_share_it() -> None:
    """A cap holds for the runs that carry it, and all caps hold."""
    target, sweep = {"target desk": [2, "`parallel` of `desk`"]}, {"sweep e": [1, "`e`"]}
    place = room(entry(caps=target), entry(caps={**target, **sweep}))

    assert place.place(entry(caps=target)) == "`parallel` of `desk` lets 2 run at once"
    assert place.place(entry(caps=sweep)) == "`e` lets 1 run at once"
    assert isinstance(place.place(entry(caps={"host": [1, "this machine"]})), Entry)


@pytest.mark.parametrize(
    ("held", "wanted", "obstacle"),
    [
        ({"cpus": 6}, {"cpus": 4}, "it needs 4 cpus, 2 are free"),
        ({"memory_mib": 600}, {"memory_mib": 500}, "it needs 500 MiB memory, 400 are free"),
    ],
)
def test_processors_and_memory_are_counted(
    held: dict[str, Any], wanted: dict[str, Any], obstacle: str
) -> None:
    """What is asked for must be free; who waits for it is not overtaken."""
    place = room(entry(**held))
    (kind,) = wanted

    assert place.place(entry(**wanted)) == obstacle
    assert isinstance(place.place(entry(**{kind: 1})), str)
    assert isinstance(place.place(entry()), Entry)


def test_unknown_memory_limits_nobody() -> None:
    """Where the system does not say how much memory it has, none is counted."""
    place = Room([], cpus=8, memory_mib=None, busy_gpus=set)

    assert isinstance(place.place(entry(memory_mib=10**9)), Entry)
