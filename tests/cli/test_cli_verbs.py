"""Commands that go where runs run, as far as this machine shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.conftest import eventually

from launchbay.cli.capacity import render_rooms, render_users
from launchbay.cli.port import parse_ports
from launchbay.core.backend import Room
from launchbay.core.errors import BadRequest
from launchbay.core.run import State, Status
from launchbay.engine.arrival import describe_slurm
from launchbay.runstore.store import Query, RunStore

if TYPE_CHECKING:
    from tests.conftest import Bay

ROOMS = (
    Room(
        name="gpu",
        total={"nodes": 2, "cpus": 8, "gpus": 4},
        free={"nodes": 1, "cpus": 3.5, "gpus": 1},
        waiting=12,
        users={"me": {"cpus": 1, "gpus": 1}, "you": {"cpus": 3, "gpus": 2}},
        note="1 node is down or drained",
    ),
    Room(name="box", total={"memory_mib": 2048}, free={"memory_mib": 1024}),
)


def test_table_of_capacity() -> None:
    """Parts as they are, amounts in words, memory in its unit."""
    assert render_rooms(ROOMS) == (
        "part  free                                      waiting  note\n"
        "gpu   1 of 2 nodes, 3.5 of 8 cpus, 1 of 4 gpus       12  1 node is down or drained\n"
        "box   1.1 GB of 2.1 GB memory                         0"
    )


def test_table_of_users() -> None:
    """Whoever uses most GPUs comes first."""
    assert render_users(ROOMS) == (
        "part  user  uses\ngpu   you   3 cpus, 2 gpus\ngpu   me    1 cpus, 1 gpus"
    )
    assert render_users(ROOMS[1:]) == "nobody uses anything"


def test_capacity_of_this_machine(bay: Bay) -> None:
    """It is a target that can tell; a name that does not exist is answered."""
    (row,) = bay.json("capacity")
    (part,) = row["parts"]

    assert (row["target"], row["silence"]) == ("local", "")
    assert part["total"]["cpus"] >= part["free"]["cpus"] > 0
    assert "did you mean `local`?" in bay("capacity", "locl", code=2).err


@pytest.mark.parametrize("text", ["", "x", "0", "70000", "1:0", "1:2:3", "-1"])
def test_what_is_no_port(text: str) -> None:
    """A port is a number that there is."""
    with pytest.raises(BadRequest):
        parse_ports(text)


def test_shell_and_port_of_this_machine(bay: Bay) -> None:
    """A command enters a running run and passes its code on; a port needs no leading here."""
    bay("run", "-q", "-d", "sleep", "300")
    eventually(lambda: bay.states() == ["running"])
    (row,) = bay.json("ls")
    said = bay("shell", "--", "sh", "-c", 'echo "$BAY_RUN_ID" "$@"; exit 6', "sh", "--", code=6)
    port = bay("port", row["id"], "8888", code=2)
    bay("cancel", row["id"])
    bay("wait", row["id"], code=1)

    assert said.out == f"{row['id']} --\n"
    assert said.err == f"the newest run: {row['id']}\n"
    assert port.err.startswith("error: this machine needs no forwarding\n")
    assert "does not run: it was cancelled" in bay("shell", row["id"], code=2).err


def test_dev_on_this_machine(bay: Bay) -> None:
    """The frozen code and what git ignores beside it; it stays, and is nobody's run."""
    bay.git("init", "-q")
    bay.write(".gitignore", "data\n")
    bay.write("data/numbers", "1\n")
    bay.write("main.py", "print(1)\n")
    text = "cat data/numbers; ls -A; echo >>main.py; exit 4"
    said = bay("dev", "--", "sh", "-c", text, code=4)
    (folder,) = (bay.project / ".bay" / "dev").iterdir()

    assert said.out.split() == ["1", ".gitignore", "data", "main.py"]
    assert said.err == f"on local for 1h, in {folder}/work\nthe folder stays: {folder}\n"
    assert (folder / "work" / "main.py").read_text() == "print(1)\n\n"
    assert (bay.project / "main.py").read_text() == "print(1)\n"
    assert bay.states() == []


def test_dev_that_this_machine_cannot_do(bay: Bay) -> None:
    """More GPUs than there are are refused, and nothing is made."""
    said = bay("dev", "--gpus", "99", code=2)

    assert "GPUs" in said.err
    assert not (bay.project / ".bay").exists()


def test_runs_that_wait_on_this_side(bay: Bay) -> None:
    """They say so, in the table and below it."""
    bay("run", "-q", "x=1,2", "true")
    store = RunStore(bay.home / "state" / "launchbay" / "index.sqlite")
    waits = Status(state=State.CREATED, reason="waits on this side: 500 jobs are there")
    first, second = store.runs(Query())
    far, unheard = {**first.place, "host": "box"}, Status(state=State.CREATED)
    store.add([replace(first, native_id="", place=far, status=waits)])
    store.add([replace(second, native_id="", place=far, status=unheard)])
    store.close()
    said = bay("ls", "--no-refresh")

    assert [line.partition("waits")[2] for line in said.out.splitlines()[-2:]] == [
        " on this side: 500 jobs are there",
        " on this side",
    ]
    assert said.err == (
        "2 runs wait on this side; `bay watch` or the next bay command sends what has room\n"
    )
    assert bay("show", first.suffix, "--no-refresh").out.startswith("created: waits on this side: ")
    assert "waits on this side" in bay("shell", second.suffix, code=2).err


PARTITION = {
    "name": "gpu",
    "default": False,
    "max_minutes": 2880,
    "nodes": 1,
    "cpus_per_node": 64,
    "gpus": {"": 8},
}


def test_cluster_with_accounts_and_scratch() -> None:
    """The default partition and account, and a folder that is not the home, are proposed."""
    seen = describe_slurm(
        {
            "version": "24.05",
            "home": "/home/me",
            "folders": [
                {"path": "/home/me", "free_mib": 10},
                {"path": "/scratch/me", "free_mib": 2000},
            ],
            "max_array": 1001,
            "submit_limit": 500,
            "accounts": [{"name": "lab"}, {"name": "guest"}],
            "default_account": "guest",
            "partitions": [PARTITION, {**PARTITION, "name": "main", "default": True}],
        }
    )

    assert {one.key: one.default for one in seen.questions} == {
        "partition": "main",
        "account": "guest",
        "root": "/scratch/me/bay",
    }
    assert seen.lines == (
        "Slurm 24.05",
        "partition gpu: at most 2d00h, 1 node, 64 cpus a node, 8 GPU a node",
        "partition main (the default): at most 2d00h, 1 node, 64 cpus a node, 8 GPU a node",
        "accounts: lab, guest",
        "limits: arrays of 1001, 500 jobs at once",
        "folder /scratch/me: 2.1 GB free",
    )


def test_plan_names_what_is_set(bay: Bay) -> None:
    """Policy and the words of a Slurm stand in one line; what is unset is not there."""
    bay.write(
        "bay.yaml",
        "command: 'true'\nparams: {x: [1, 2]}\ntarget: brc\n"
        "targets: {brc: {kind: slurm, host: me@box, partition: gpu, account: lab}}\n"
        "resume: true\ntime: 1h\nretries: {node: 2}\n",
    )
    lines = bay("plan").out.splitlines()

    assert lines[1:3] == [
        "retries node 2 · resume · grace 2m00s · partition gpu · account lab · in 1 array",
        "nothing is known of brc yet: its limits are not checked; `bay doctor brc` looks",
    ]
    assert len(json.loads(bay("plan", "--json").out)) == 2


def test_json_of_a_run_that_has_nothing_to_do(bay: Bay) -> None:
    """Standard output is one JSON document, also when all is done already."""
    bay.write("bay.yaml", "command: echo <x>\nparams: {x: 1}\n")
    first = json.loads(bay("run", "--json").out)
    second = json.loads(bay("run", "--json").out)

    assert ([row["state"] for row in first], second) == (["succeeded"], [])


def test_show_tells_the_image(bay: Bay) -> None:
    """What a run was to run in is in its record; here nothing runs in one."""
    bay.write("bay.yaml", "command: 'true'\nimage: team/x:1\n")
    bay("run")

    assert bay.json("show")["image"] == "team/x:1"
