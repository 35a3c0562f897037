"""What a check-up found, for people and scripts."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.core.backend import Finding

COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def print_findings(findings: Sequence[Finding]) -> int:
    """A line for each, with its remedy below; 1 when there is any problem."""
    size = max((len(finding.subject) for finding in findings), default=0)
    for finding in findings:
        level = click.style(f"{finding.level:<7}", fg=COLOURS[finding.level])
        click.echo(
            f"{level}  {finding.subject:<{size}}  {finding.message}",
            color=False if os.environ.get("NO_COLOR") else None,
        )
        if finding.remedy:
            click.echo(f"{'':7}  {'':{size}}  → {finding.remedy}")
    return exit_code(findings)


def exit_code(findings: Sequence[Finding]) -> int:
    """1 when there is any problem; a warning is none."""
    return int(any(finding.level == "problem" for finding in findings))


def finding_records(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings as plain data."""
    return [asdict(finding) for finding in findings]
