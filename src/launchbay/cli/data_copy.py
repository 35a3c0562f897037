"""`bay data cp` and `url`."""

from __future__ import annotations

import click

from launchbay.cli.data_move import finish, show_plan
from launchbay.cli.data_progress import showing
from launchbay.cli.options import json_option
from launchbay.cli.screen import say
from launchbay.core.errors import BadRequest
from launchbay.core.quantity import parse_time, render_span
from launchbay.engine.copies import carry_copy, plan_copies
from launchbay.engine.data import open_data, sign


@click.command("cp")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--overwrite", is_flag=True, help="replace also what is newer there")
@click.option("--dry-run", is_flag=True, help="show what would be copied, and why")
@json_option
def copy(*, source: str, target: str, overwrite: bool, dry_run: bool, as_json: bool) -> int:
    """Copy between buckets, or a bucket and any place here.

    A file of this machine is written `./x` or `/…`. Between two buckets nothing is stored here;
    a service copies by itself where it can. What is below a folder or matches a pattern goes
    below TO; one object goes to TO, or into it when it ends with `/`.
    """
    data = open_data()
    copying = plan_copies(data, source, target, overwrite=overwrite)
    if dry_run:
        return show_plan([copying.transfer], as_json=as_json)
    with showing("copying") as progress:
        result = carry_copy(data, copying, progress=progress)
    return finish("copied", result, as_json=as_json)


@click.command("url")
@click.argument("key")
@click.option("--for", "span", default="1h", metavar="T", help="how long it works: 90m, 8h, 7d")
@click.option("--put", is_flag=True, help="one to upload to, in place of one to read")
def make_url(*, key: str, span: str, put: bool) -> int:
    """Print an address that works for a while without a login."""
    try:
        seconds = int(parse_time(span).total_seconds())
    except ValueError as err:
        raise BadRequest(f"--for: {err}") from err
    click.echo(sign(open_data().area(key), seconds=seconds, put=put))
    what = "write" if put else "read"
    say(f"whoever has this address can {what} it for {render_span(seconds)}")
    return 0
