"""`bay carry`: what nodes call to copy between a folder and object storage."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("carry", hidden=True)
@click.argument("way", type=click.Choice(["up", "down"]))
@click.argument("source")
@click.argument("goal")
@click.option("--endpoint", default="", help="where the service answers")
@click.option("--region", default="", help="the region that it is in")
@click.option("--account", default="", help="the storage account")
@click.option("--anonymous", is_flag=True, help="ask without keys")
def command(
    *,
    way: str,
    source: str,
    goal: str,
    endpoint: str,
    region: str,
    account: str,
    anonymous: bool,
) -> None:
    """Copy what is new of a folder up to a URL, or of a URL down to a folder.

    Keys are those of the environment; no file of a project is read. What is there stays.
    """
    from launchbay.engine.carrying import Outside, carry_down, carry_up  # noqa: PLC0415

    outside = Outside(endpoint=endpoint, region=region, account=account, anonymous=anonymous)
    if way == "up":
        carry_up(Path(source), goal, outside)
    else:
        carry_down(source, Path(goal), outside)
