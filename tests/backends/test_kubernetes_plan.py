"""Plans for a Kubernetes: what is sent, and what is not in it."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from launchbay.backends.kubernetes import words
from launchbay.backends.kubernetes.manifest import Frame
from launchbay.backends.kubernetes.packing import (
    PART_BYTES,
    pack_code,
    render_code,
    render_programs,
)
from launchbay.backends.kubernetes.plan import MOST_JOBS, Planner, prepared
from launchbay.backends.kubernetes.sending import SEPARATOR, secrets_of
from launchbay.core.errors import Unsupported
from launchbay.core.job import Argv, Job, Script

if TYPE_CHECKING:
    from pathlib import Path

PLANNER = Planner(Frame(target="lab", namespace="lab", user="me"))
SECRET = "hunter2 $(no)"  # noqa: S105


def make_job(number: int = 0, **fields: Any) -> Job:
    given = {
        "run_id": f"run-aa{number:03d}",
        "name": "run",
        "experiment": "sweep",
        "command": Argv(("python", "train.py", "--lr", "0.1")),
        "params": {"lr": "0.1"},
        "image": "python:3.12",
        "labels": {"project_name": "Proj 1"},
        "options": {"outputs_to": "none"},
        **fields,
    }
    return Job(**given)


def objects_of(*jobs: Job) -> list[dict[str, Any]]:
    (plan,) = PLANNER.plan(jobs)
    return list(yaml.safe_load_all(plan.document))


def test_plan_is_one_object_for_all_and_one_job_a_run() -> None:
    """What the runs have in common is sent once."""
    shared, *jobs = objects_of(make_job(0), make_job(1))

    assert (shared["kind"], [one["kind"] for one in jobs]) == ("ConfigMap", ["Job", "Job"])
    assert [one["metadata"]["name"] for one in jobs] == ["run-aa000", "run-aa001"]
    assert shared["immutable"] is True


def test_further_attempt_is_a_job_of_its_own() -> None:
    """The name of a Job is the claim of one attempt."""
    _, job = objects_of(make_job(attempt=3))

    assert job["metadata"]["name"] == "run-aa000-3"
    assert job["spec"]["backoffLimit"] == 0


def test_documents_come_apart_where_they_were_joined() -> None:
    """Slices of a plan are whole objects, whatever texts are in them."""
    jobs = [make_job(n, command=Script(f"echo {n}\n---\necho x\n")) for n in range(5)]
    (plan,) = PLANNER.plan(jobs)
    documents = plan.document.removesuffix("\n").split(SEPARATOR)

    assert len(documents) == 6
    assert all(isinstance(yaml.safe_load(one), dict) for one in documents)


def test_many_runs_are_several_plans() -> None:
    """An object holds only so much."""
    plans = PLANNER.plan([make_job(n) for n in range(MOST_JOBS + 1)])

    assert [len(plan.jobs) for plan in plans] == [MOST_JOBS, 1]


def test_value_of_a_secret_is_in_no_plan() -> None:
    """A plan names Secrets; what is in them is asked for when it is sent."""
    job = make_job(secrets=("API_KEY", "bay_puts s3://lab/run"))
    (plan,) = PLANNER.plan([job])
    _, made = yaml.safe_load_all(plan.document)
    container = made["spec"]["template"]["spec"]["containers"][0]
    sent = list(secrets_of(plan.id, plan.jobs, lambda _: SECRET, PLANNER.labels()))
    env, files = sorted(sent, key=lambda one: "API_KEY" not in one["data"])

    assert SECRET not in plan.document
    assert container["envFrom"] == [{"secretRef": {"name": env["metadata"]["name"]}}]
    assert list(env["data"]) == ["API_KEY"]
    assert b64decode(env["data"]["API_KEY"]).decode() == SECRET
    assert list(files["data"]) == ["own-run-aa000.sh"]
    assert files["metadata"]["name"] in json.dumps(made)


def test_runs_that_agree_share_their_secrets() -> None:
    """A sweep has one Secret, not one for each run."""
    jobs = [make_job(n, secrets=("API_KEY",)) for n in range(3)]

    assert len(list(secrets_of("p", jobs, str, PLANNER.labels()))) == 1


def test_start_up_comes_before_set_up_in_order() -> None:
    """Conda, the start-up script, what is added to it, and `setup`, then the command."""
    options = {
        "conda_env_name": "my env",
        "startup_script": "echo first",
        "extra_startup_script": "echo second",
    }
    lines = prepared(make_job(options=options, setup="echo third\n")).setup.splitlines()

    assert lines[-3:] == ["echo first", "echo second", "echo third"]
    assert lines[1].startswith("conda activate 'my env' ||")


def test_missing_conda_fails_with_its_name() -> None:
    """An image without the environment fails before the command, and says which."""
    options = {"conda_env_name": "proj", "conda_home": "/nowhere"}
    setup = prepared(make_job(options=options)).setup
    done = subprocess.run(["sh", "-ec", setup], capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert "the image has no conda environment proj" in done.stderr


def test_conda_that_a_command_activates_itself_is_found(tmp_path: Path) -> None:
    """`source ~/.bashrc; conda activate X` works though the shell has no terminal."""
    home = tmp_path / "miniconda3" / "etc" / "profile.d"
    home.mkdir(parents=True)
    (home / "conda.sh").write_text('conda() { echo "conda $*"; }\n')
    command = Script("source ~/.bashrc; conda activate X")
    text = f"set -e\n{prepared(make_job(command=command)).setup}\nset +e\n{command.text}"
    done = subprocess.run(
        ["bash", "-c", text],
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.endswith("conda activate X\n")
    assert prepared(make_job(command=Script("python conda.py"))).setup == ""


def test_project_names_the_conda_environment_that_nobody_names() -> None:
    """With a home of conda alone it is the project's environment, as in the first tool."""
    setup = prepared(make_job(options={"conda_home": "/opt/conda"})).setup

    assert "conda activate 'Proj 1'" in setup


def test_command_that_no_object_holds_is_refused() -> None:
    """Too long a command is said before anything is sent."""
    with pytest.raises(Unsupported, match="more than an object of the cluster holds"):
        PLANNER.plan([make_job(command=Script("x" * 300_000))])


def test_code_is_cut_into_parts_that_objects_hold(tmp_path: Path) -> None:
    """Parts come in an order in which the first, which counts them, is the last."""
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    data = pack_code(tmp_path)
    parts = [b"x" * PART_BYTES, b"y"]
    made = render_code("c0de", parts, {})

    assert len(data) == 1
    assert [one["metadata"]["name"] for one in made] == ["bay-code-c0de-1", "bay-code-c0de-0"]
    assert made[1]["data"] == {"parts": "2\n"}
    assert b64decode(made[0]["binaryData"]["code.1"]) == b"y"


def test_programs_are_those_that_pods_need() -> None:
    """The object of programs has pod.sh and what it calls, and is small."""
    made = render_programs({})

    assert {"pod.sh", "task.sh", "run.sh", "enter.sh", "read.sh"} <= made["data"].keys()
    assert len(json.dumps(made)) < 200_000


def test_job_names_keep_to_the_rules_of_kubernetes() -> None:
    """The longest id and a late attempt still fit."""
    assert len(words.job_name("a" * 54 + "-bbbbb", 99)) <= words.LONGEST_VALUE
    assert words.label("x" * 80) == "x" * 63


def test_image_is_not_entered_again() -> None:
    """run.sh is inside of the image already, with its Python as `python:` says."""
    job = replace(make_job(), entry=". /venv/bin/activate\n", setup="echo up\n")
    shared, made = objects_of(job)
    text = shared["data"]["shared.sh"] + json.dumps(made)

    assert "bay_image" not in text
    assert ". /venv/bin/activate" in text
