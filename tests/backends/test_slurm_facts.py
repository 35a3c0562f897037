"""What a look round a Slurm cluster says, read from captured answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launchbay.backends.slurm.facts import (
    CAPACITY_SCRIPT,
    SURVEY_SCRIPT,
    parse_capacity,
    parse_gres,
    parse_survey,
    split_sections,
    submit_limit,
)
from launchbay.core.backend import Room

DATA = Path(__file__).parent.parent / "data" / "slurm"


def survey(version: str) -> dict[str, Any]:
    return parse_survey((DATA / f"survey-{version}.txt").read_text())


def capacity(version: str) -> list[Room]:
    return parse_capacity((DATA / f"capacity-{version}.txt").read_text())


def partition(details: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in details["partitions"] if one["name"] == name)
    return found


def test_a_real_cluster_is_described() -> None:
    """A captured look round gives version, limits, who I am and where files can go."""
    details = survey("22.05")
    plain = {key: value for key, value in details.items() if not isinstance(value, list)}
    assert plain == {
        "version": "22.05.8",
        "cluster": "lab1",
        "user": "me",
        "uid": "1001",
        "home": "/home/me",
        "max_array": 101,
        "max_jobs": 5000,
        "accounting": True,
        "preempt_mode": "OFF",
        "default_account": "lab",
        "submit_limit": 500,
    }
    assert [folder["path"] for folder in details["folders"]] == ["/home/me"]


def test_facts_are_plain_data() -> None:
    """Details survive a file of JSON, for that is how facts are kept."""
    for version in ("22.05", "25.05", "bare"):
        details = survey(version)
        assert json.loads(json.dumps(details)) == details


def test_a_partition_of_a_real_cluster() -> None:
    """A partition has its times, its counts and the nodes it is made of."""
    assert partition(survey("22.05"), "gpu") == {
        "name": "gpu",
        "default": False,
        "state": "UP",
        "max_minutes": 120,
        "default_minutes": 30,
        "nodes": 2,
        "max_nodes": None,
        "cpus_per_node": 4,
        "memory_mib_per_node": 4000,
        "gpus": {"a100": 2},
        "features": ["fast", "ib"],
        "kinds": [
            {
                "count": 2,
                "names": "n1,n2",
                "cpus": 4,
                "memory_mib": 4000,
                "disk_mib": 0,
                "gpus": {"a100": 2},
                "features": ["fast", "ib"],
            }
        ],
        "qos": "",
        "accounts_allowed": [],
        "accounts_denied": [],
        "qos_allowed": [],
        "preempt_mode": "OFF",
    }


def test_partitions_without_a_limit_have_none() -> None:
    """UNLIMITED and NONE are no number; the default partition is marked."""
    cpu = partition(survey("22.05"), "cpu")
    assert (cpu["max_minutes"], cpu["default_minutes"], cpu["default"]) == (None, None, True)
    assert partition(survey("22.05"), "all")["max_nodes"] == 3


def test_a_mixed_partition_keeps_its_kinds_of_nodes() -> None:
    """Nodes that differ in state only are one kind; GPUs are counted by type."""
    gpu = partition(survey("25.05"), "gpu")
    assert [(kind["count"], kind["names"], kind["gpus"]) for kind in gpu["kinds"]] == [
        (4, "g[01-03],g04", {"a100": 4}),
        (2, "g[05-06]", {"h100": 6}),
    ]
    assert gpu["gpus"] == {"a100": 4, "h100": 6}
    assert (gpu["cpus_per_node"], gpu["memory_mib_per_node"]) == (96, 515000)
    assert gpu["accounts_allowed"] == ["lab", "vision"]
    assert (gpu["qos"], gpu["qos_allowed"]) == ("gpu", ["gpu", "long"])


def test_a_partition_may_give_less_than_a_node_has() -> None:
    """The partition's own caps count, not only the size of its nodes."""
    scavenge = partition(survey("25.05"), "scavenge")
    assert (scavenge["cpus_per_node"], scavenge["memory_mib_per_node"]) == (32, 200000)
    assert (scavenge["preempt_mode"], scavenge["accounts_denied"]) == ("REQUEUE", ["guests"])


def test_my_accounts_know_the_limits_above_them() -> None:
    """The limit of an account is the smallest of its own and of those it belongs to."""
    lab, guests = survey("25.05")["accounts"]
    assert lab == {
        "name": "lab",
        "cluster": "big",
        "partition": "",
        "default_qos": "gpu",
        "qos": ["gpu", "long", "normal"],
        "max_submit": 1000,
        "group_submit": 600,
    }
    assert (guests["max_submit"], guests["group_submit"]) == (10, None)


def test_my_qos_are_marked() -> None:
    """Of all QoS there are, those of my accounts are mine."""
    mine = {entry["name"]: entry["mine"] for entry in survey("22.05")["qos"]}
    assert mine == {"normal": True, "long": True, "express": False}
    long = next(entry for entry in survey("25.05")["qos"] if entry["name"] == "long")
    assert (long["max_minutes"], long["max_submit"], long["max_jobs"]) == (7 * 24 * 60, 10, 2)


@pytest.mark.parametrize(
    ("where", "limit"),
    [
        ({}, 400),
        ({"account": "guests"}, 10),
        ({"qos": "long"}, 10),
        ({"qos": "normal"}, 600),
        ({"qos": "normal", "partition": "gpu"}, 400),
    ],
)
def test_the_smallest_submit_limit_counts(where: dict[str, str], limit: int) -> None:
    """Account, the accounts above it, QoS and the partition's QoS all limit what is sent."""
    assert submit_limit(survey("25.05"), **where) == limit


def test_limits_that_are_not_enforced_are_none() -> None:
    """A site that only writes down what is used refuses nothing."""
    details = {**survey("25.05"), "enforced": ["associations"]}
    assert submit_limit(details) is None


def test_a_host_without_slurm_knows_little() -> None:
    """Where no program answers, what it would have said is unknown, not zero."""
    details = survey("bare")
    assert (details["version"], details["max_array"], details["submit_limit"]) == ("", None, None)
    assert details["accounting"] is False
    assert details["partitions"] == []
    assert details["folders"] == [{"path": "/home/me", "free_mib": None}]


def test_a_folder_is_named_once() -> None:
    """The same folder under two names of the environment is one candidate."""
    assert survey("25.05")["folders"] == [
        {"path": "/scratch/me", "free_mib": 1048576},
        {"path": "/home/me", "free_mib": 51200},
    ]


def test_an_empty_answer_is_no_error() -> None:
    """A script that was cut off says nothing, and nothing is known."""
    assert parse_survey("")["partitions"] == []
    assert parse_capacity("") == []


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", {}),
        ("gpu:2", {"": 2}),
        ("gpu:a100:4(S:0-1)", {"a100": 4}),
        ("gpu:a100:3(IDX:0,2-3)", {"a100": 3}),
        ("gpu:a100:4,gpu:1g.10gb:7,lustre:1", {"a100": 4, "1g.10gb": 7}),
        ("gres/gpu:h100=2", {"h100": 2}),
    ],
)
def test_gpus_of_a_node(gres: str, gpus: dict[str, int]) -> None:
    """GPUs are found among the generic resources, in the ways that versions write them."""
    assert parse_gres(gres) == gpus


def test_room_on_a_real_cluster() -> None:
    """A captured answer says what is there, free, used by whom, and how many wait."""
    rooms = {room.name: room for room in capacity("22.05")}
    assert rooms["gpu"] == Room(
        name="gpu",
        total={"nodes": 2, "cpus": 8, "gpus": 4},
        free={"nodes": 1, "cpus": 6, "gpus": 2},
        users={"me": {"cpus": 2, "gpus": 2}},
        note="free: 2 of 4 a100",
    )
    assert rooms["cpu"] == Room(
        name="cpu",
        total={"nodes": 2, "cpus": 8},
        free={"nodes": 0, "cpus": 0},
        waiting=16,
        users={"me": {"cpus": 4, "gpus": 0}},
        note="1 node is down or drained",
    )


def test_room_of_several_types() -> None:
    """Drained nodes have nothing free, sleeping ones do, and a job may wait for two partitions."""
    gpu, scavenge = capacity("25.05")
    assert gpu == Room(
        name="gpu",
        total={"nodes": 6, "cpus": 448, "gpus": 28},
        free={"nodes": 2, "cpus": 160, "gpus": 9},
        waiting=127,
        users={"ada": {"cpus": 192, "gpus": 12}, "me": {"cpus": 32, "gpus": 3}},
        note="free: 9 of 16 a100, 0 of 12 h100; 1 node is down or drained",
    )
    assert (scavenge.name, scavenge.free, scavenge.waiting) == (
        "scavenge",
        {"nodes": 100, "cpus": 6400},
        120,
    )


@pytest.mark.parametrize("script", [SURVEY_SCRIPT, CAPACITY_SCRIPT])
def test_scripts_run_where_no_slurm_is(script: str, tmp_path: Path) -> None:
    """Both scripts end well in a plain shell, each section there, with no Slurm on the path."""
    for program in ("id", "df", "awk", "grep", "sort", "uniq", "timeout"):
        found = subprocess.run(
            ["sh", "-c", f"command -v {program}"], capture_output=True, text=True, check=True
        )
        (tmp_path / program).symlink_to(found.stdout.strip())
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=script,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
    )
    sections = split_sections(done.stdout)
    assert list(sections)[-1] == "end"
    assert sections["nodes"] == []
    assert done.stderr == ""
