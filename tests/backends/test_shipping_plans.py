"""Runs that copy their outputs, as plans and as what targets say of them."""

from __future__ import annotations

import io
import tarfile
from typing import Any

from launchbay.backends.outcome import parse_status
from launchbay.backends.plan_archive import archive_plan
from launchbay.backends.records import Record, Records
from launchbay.backends.sheet import render_document, render_sheet
from launchbay.backends.slurm.status import Doubt, judge
from launchbay.backends.slurm.words import Listed
from launchbay.core.backend import Plan
from launchbay.core.host import encoded
from launchbay.core.job import Argv, Job
from launchbay.core.run import State

ENDED = {"event": "exit", "at": 2.0, "code": 0, "signal": "", "phase": "command", "ships": 1}
LINE = {"state": "ended", "code": 0, "signal": "", "phase": "command", "stop": "", "why": ""}


def make_job(run: str, **fields: Any) -> Job:
    return Job(run_id=run, name=run, experiment="a", command=Argv(("true",)), **fields)


def test_addresses_stand_in_files_of_their_own() -> None:
    """What only one run may know is in a file beside the plan, and is not exported."""
    text = "bay_ship=s3://lab/o\n"
    jobs = [
        make_job(run, secrets=("KEY", f"bay_puts s3://lab/o/{run}"), carriage=text)
        for run in ("r1", "r2")
    ]
    document = render_document(render_sheet(jobs, target="lab", plan="p"))
    plan = Plan(id="p", jobs=tuple(jobs), document=document)
    data = encoded(archive_plan(plan, lambda name: f"value of {name}"))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {one.name: tar.extractfile(one).read().decode() for one in tar}  # type: ignore[union-attr]

    assert "value of" not in document
    assert files["secrets-0.sh"] == "export KEY='value of KEY'\n"
    assert files["own-r1.sh"] == "bay_puts='value of bay_puts s3://lab/o/r1'\n"
    assert text in files["shared.sh"].replace("'\"$bay_nl\"'", "\n")
    assert "own-$BAY_RUN_ID.sh" in document


def test_state_while_copying() -> None:
    """A machine's run that copies its outputs runs, and says so."""
    status = parse_status({"state": "running", "why": "", "copying": True})

    assert (status.state, status.reason) == (
        State.RUNNING,
        "it has ended and copies its outputs",
    )


def test_reason_of_what_was_not_copied() -> None:
    """That outputs were not copied stands beside the run's own end."""
    good = parse_status({**LINE, "unshipped": "no bucket"})
    bad = parse_status({**LINE, "code": 3, "unshipped": "no bucket"})

    words = "its outputs were not copied to where they were to go: no bucket"
    assert (good.state, good.reason) == (State.SUCCEEDED, words)
    assert (bad.state, bad.reason) == (State.FAILED, f"exit code 3; {words}")


def test_set_up_that_says_why() -> None:
    """A folder that could not be fetched is the reason, in its own words."""
    status = parse_status(
        {**LINE, "code": 1, "phase": "setup", "why": "there is nothing at s3://x"}
    )

    assert (str(status.cause), status.reason) == ("setup", "there is nothing at s3://x")


def test_slurm_while_copying() -> None:
    """A Slurm run runs until its outputs are copied, also in an allocation that it shares."""
    record = Record(marks={"claim"}, events={"started": {"host": "n1"}, "exit": ENDED})
    listed = Listed(job="7", state="RUNNING", name="a-p", nodes=("n1",))
    records = Records(attempts={1: record})
    going = judge(1, listed, records, job="", packed=True)
    record.events["unshipped"] = {"event": "unshipped", "why": "no bucket"}
    ended = judge(1, listed, records, job="", packed=True)

    assert not isinstance(going, Doubt)
    assert (going.state, going.reason) == (State.RUNNING, "it has ended and copies its outputs")
    assert not isinstance(ended, Doubt)
    assert ended.state is State.SUCCEEDED
    assert ended.reason.endswith("no bucket")
