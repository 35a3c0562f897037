"""`bay data ls` and `find`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from launchbay.cli.data_words import count_files, patterns_argument, print_lines, tell_missing
from launchbay.cli.options import json_option
from launchbay.cli.screen import say
from launchbay.core.quantity import render_size
from launchbay.engine.data import find, list_level, nearest, open_data, printable, unmatched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launchbay.engine.data import Area, Found
    from launchbay.sync.bucket import Entry


@click.command("ls")
@click.argument("path", default="")
@json_option
def show_level(*, path: str, as_json: bool) -> int:
    """List one folder of the bucket.

    Its folders come first, then its files with size and time.
    """
    return print_level(path, as_json=as_json)


def print_level(path: str, *, as_json: bool = False) -> int:
    """Print one folder of the bucket; 1 when there is none of that name."""
    data = open_data()
    area = data.area(path or ".")
    level = list_level(area)
    names = [*level.folders, *(entry.key for entry in level.entries)]
    start = _common(names)
    if as_json:
        rows = [
            {"name": name[len(start) :], "key": name, "kind": "folder"} for name in level.folders
        ]
        rows += [_record(entry, entry.key[len(start) :]) for entry in level.entries]
        click.echo(json.dumps(rows, indent=1))
        return 0
    if not names and path:
        forgot = path.strip("/") in data.buckets.entries
        hint = f"the bucket of that name is `{path.strip('/')}:`" if forgot else nearest(area)
        tell_missing(f"there is no `{path}` in {area.bucket.url}", hint)
        return 1
    lines = [f"{'':>10}  {'':16}  {name[len(start) :]}" for name in level.folders]
    for entry in level.entries:
        size, moment = render_size(entry.size), _moment(entry.modified)
        lines.append(f"{size:>10}  {moment}  {printable(entry.key[len(start) :])}")
    print_lines(lines)
    say(_total(area, len(level.folders), [entry.size for entry in level.entries]))
    return 0


@click.command("find")
@patterns_argument
@json_option
def find_all(*, patterns: tuple[str, ...], as_json: bool) -> int:
    """List everything that matches, in all folders.

    A pattern that ends with `/` lists folders, with what is below them.
    """
    data = open_data()
    areas = data.areas(patterns)
    found = [(area, find(area)) for area in areas]
    if as_json:
        rows = [_found_record(one) for _, part in found for one in part]
        click.echo(json.dumps(rows, indent=1))
    else:
        listed = (one for _, part in found for one in part)
        print_lines([f"{render_size(one.size):>10}  {one.name}" for one in listed])
    missing = tell_unfound(found)
    if not as_json and not missing:
        files = [one for _, part in found for one in part if one.count is None]
        folders = sum(len(part) for _, part in found) - len(files)
        say(_sum(folders, [one.size for one in files]))
    return int(missing)


def tell_unfound(found: Sequence[tuple[Area, Sequence[Found]]]) -> bool:
    """Name the patterns that nothing matches; whether there are any."""
    missing = False
    for area, part in found:
        for text in unmatched(area, (f"{one.key}." if one.count else one.key for one in part)):
            missing = True
            tell_missing(
                f"nothing in {area.bucket.url} matches `{area.name(text)}`",
                nearest(area.only(text)),
            )
    return missing


def _common(names: list[str]) -> str:
    """The folder that all names lie in, which need not be said again and again."""
    return (
        names[0].rstrip("/").rpartition("/")[0] + "/"
        if names and "/" in names[0].rstrip("/")
        else ""
    )


def _total(area: Area, folders: int, sizes: list[int]) -> str:
    return f"{_sum(folders, sizes)} in {area.bucket.url}"


def _sum(folders: int, sizes: list[int]) -> str:
    parts = [f"{folders} folder{'s' * (folders != 1)}"] if folders else []
    if sizes or not folders:
        parts.append(f"{count_files(len(sizes))}, {render_size(sum(sizes))}")
    return " and ".join(parts)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _record(entry: Entry, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "key": entry.key,
        "kind": "file",
        "size": entry.size,
        "modified": entry.modified,
        "etag": entry.etag,
    }


def _found_record(one: Found) -> dict[str, Any]:
    record: dict[str, Any] = {"name": one.name, "key": one.key, "size": one.size}
    if one.count is not None:
        return {**record, "kind": "folder", "files": one.count}
    return {**record, "kind": "file", "modified": one.modified, "etag": one.etag}
