"""`bay doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from launchbay.cli.findings import exit_code, finding_records, print_findings
from launchbay.cli.options import complete_targets, json_option
from launchbay.engine.checkup import check_up


@click.command("doctor")
@click.argument("target", required=False, shell_complete=complete_targets)
@json_option
def command(*, target: str | None, as_json: bool) -> int:
    """Check what works, and say how to mend the rest; exit 1 when there is a problem.

    Looks at this computer, the project, the configuration and every target, or the one named.
    """
    findings = check_up(Path.cwd(), target)
    if as_json:
        click.echo(json.dumps(finding_records(findings), indent=1))
        return exit_code(findings)
    return print_findings(findings)
