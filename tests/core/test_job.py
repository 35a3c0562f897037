"""Jobs as plain data."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from launchbay.core.job import Argv, Command, Job, Resources, Script, from_record, to_record


@pytest.mark.parametrize("command", [Argv(("p", "a b")), Script("p | q")])
def test_a_record_gives_the_job_back(command: Command) -> None:
    """What is written to `job.json` is the whole job, also after JSON."""
    job = Job(
        run_id="r-aaaaa",
        attempt=2,
        name="r",
        experiment="e",
        command=command,
        params={"a": "1"},
        env={"X": "y"},
        secrets=("KEY",),
        resources=Resources(gpus=0.5, gpu_types=("a100",), time_limit=timedelta(minutes=5)),
        outputs=("out",),
        labels={"project": "p"},
    )

    assert from_record(json.loads(json.dumps({**to_record(job), "added": "by a backend"}))) == job
