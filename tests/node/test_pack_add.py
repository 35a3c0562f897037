"""Taking runs in: each once, whoever sends it, and nothing that is too new."""

from __future__ import annotations

import json
import threading

from tests.node.workshop import Desk, make_job, read_events


def test_added_twice_runs_once(desk: Desk) -> None:
    """What waits, runs or has ended is in already, and is said to be."""
    job = make_job("r", script='echo x >>"$BAY_OUT/times"')
    answers = [desk.add(job), desk.add(job)]
    desk.until("ended", "r")
    answers.append(desk.add(job))
    desk.until("ended", "r")

    assert answers == [["r"]] * 3
    assert (desk.run("r") / "out/times").read_text() == "x\n"


def test_two_adders_at_once(desk: Desk) -> None:
    """Two processes that send the same plan at once add each run once."""
    runs = [f"r{number}" for number in range(20)]
    plan = desk.plan(*(make_job(run, script='echo x >>"$BAY_OUT/times"') for run in runs))
    adders = [desk.start("add") for _ in range(4)]
    outs: list[str] = []
    threads = [
        threading.Thread(target=lambda adder=adder: outs.append(adder.communicate(plan)[0]))
        for adder in adders
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desk.until("ended", *runs)

    assert [[json.loads(line)["ok"] for line in out.splitlines()] for out in outs] == [runs] * 4
    assert {(desk.run(run) / "out/times").read_text() for run in runs} == {"x\n"}
    assert desk.errors() == ""


def test_adder_that_died_half_way(desk: Desk) -> None:
    """A folder without an entry, files missing, is written anew and runs."""
    (desk.run("r") / "attempts/1").mkdir(parents=True)
    (desk.run("r") / "command.sh").write_text("exec fals")
    desk.add(make_job("r", ["true"]))
    (seen,) = desk.until("ended", "r")

    assert seen["code"] == 0


def test_newer_plan_is_refused(desk: Desk) -> None:
    """An older pack.py says that it is too old, and takes nothing in."""
    process = desk.start("add")
    out, _ = process.communicate(desk.plan(make_job("r", ["true"]), form=999))

    assert json.loads(out) == {
        "error": "this host's launchbay is too old for these runs; update it"
    }
    assert process.returncode == 1
    assert not desk.run("r").exists()


def test_unwritable_root_is_an_answer(desk: Desk) -> None:
    """What cannot be written is said with its path."""
    desk.root.write_text("a file")
    process = desk.start("add")
    out, err = process.communicate(desk.plan(make_job("r", ["true"])))

    assert json.loads(out) == {"error": f"Not a directory: {desk.root}/runs"}
    assert (process.returncode, err) == (1, "")


def test_prepared_run_waits_for_nobody(desk: Desk) -> None:
    """`prepare` writes the folder, points to the project's own code, and queues nothing."""
    project = desk.folder / "project"
    job = make_job("r", ["true"], project_folder=str(project))
    answer = desk.call("prepare", desk.plan(job))

    assert answer == [{"ok": "r", "folder": str(desk.run("r"))}]
    assert f"export PYTHONPATH={project}\n" in (desk.run("r") / "env.sh").read_text()
    assert not desk.queue.exists()
    assert read_events(desk.run("r")) == []
