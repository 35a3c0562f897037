"""The flags of resources and policies, as commands are given them."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from launchbay.cli.options import RESOURCES, resource_options
from launchbay.config.resources import FLAGS


@click.command()
@resource_options
def shown(*, resources: dict[str, str]) -> None:
    """Prints what it was given."""
    click.echo(", ".join(f"{key}={value}" for key, value in resources.items()))


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], ""),
        (["-n", "2", "--gpu-type", "a100"], "gpus=2, gpu_type=a100"),
        (["--processes", "4"], "processes=4"),
        (["--pack", "node", "--grace", "2m"], "pack=node, grace=2m"),
        (["--retries", "node=2,exit=1"], "retries=node=2,exit=1"),
        (["--resume"], "resume=true"),
        (["--no-resume"], "resume=false"),
        (["--profile", "gpu"], "profile=gpu"),
    ],
)
def test_given(words: list[str], given: str) -> None:
    """A command is given the flags that were typed, each as text, and no others."""
    said = CliRunner().invoke(shown, words)

    assert (said.exit_code, said.output.strip()) == (0, given)


def test_every_flag() -> None:
    """What may be a flag is one, and nothing else."""
    names = [name.partition("/")[0].replace("-", "_") for name in RESOURCES]

    assert sorted(names) == sorted(FLAGS)
