"""What `.env` says of this machine alone does not travel, or is remarked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Bay

KUBE = "namespace: lab\nuser: me\nimage: x\n"
LEFT_OUT = "`WANDB_MODE` of .env is left out"


@pytest.fixture
def project(bay: Bay) -> Bay:
    """A project with a cluster, and a tracker that is offline on this machine."""
    bay.write("config/kube.yaml", KUBE)
    bay.write("bay.yaml", "command: echo mode ${WANDB_MODE-unset}\n")
    bay.write(".env", "WANDB_MODE=offline\n")
    return bay


def test_offline_work_here_does_not_make_runs_elsewhere_offline(project: Bay) -> None:
    """They are not given it, and the plan says so and what to write."""
    said = project("plan", "--target", "kube", "--document")

    assert LEFT_OUT in said.err
    assert "`env: {WANDB_MODE: offline}`" in said.err
    assert "secretRef" not in said.out
    assert "export WANDB_MODE" not in said.out


def test_runs_here_have_it(project: Bay) -> None:
    """On this machine it holds as ever, and nothing is said."""
    said = project("run")

    assert LEFT_OUT not in said.err
    assert "mode offline" in said.out


def test_what_the_file_says_holds_everywhere(project: Bay) -> None:
    """`env:` of the file is for runs wherever they run."""
    project.write("bay.yaml", "command: echo\nenv: {WANDB_MODE: offline}\n")
    said = project("plan", "--target", "kube", "--document")

    assert LEFT_OUT not in said.err
    assert "WANDB_MODE=offline" in said.out


def test_a_tracker_that_is_turned_off_stays_so(project: Bay) -> None:
    """Who wants none at all is obeyed everywhere."""
    project.write(".env", "WANDB_MODE=disabled\n")
    said = project("plan", "--target", "kube", "--document")

    assert LEFT_OUT not in said.err
    assert "secretRef" in said.out


@pytest.mark.parametrize(
    ("address", "more", "told"),
    [
        ("http://127.0.0.1:9000", "", True),
        ("http://localhost:9000", "", True),
        ("https://s3.example.org", "", False),
        ("http://127.0.0.1:9000", "endpoints: {'http://127.0.0.1:9000': 'http://s3'}\n", False),
    ],
)
def test_storage_that_only_this_machine_reaches(
    project: Bay, address: str, more: str, *, told: bool
) -> None:
    """An address of loopback means the pod itself there; plan says so, and what to write."""
    project.write("config/kube.yaml", KUBE + more)
    project.write(".env", f"S3_ENDPOINT_URL={address}\n")
    said = project("plan", "--target", "kube").err

    assert ("of .env means another machine there" in said) == told
    assert "means another machine" not in project("plan").err
