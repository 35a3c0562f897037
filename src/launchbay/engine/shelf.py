"""What the choosers show and do: a folder of the bucket and the same folder here, together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchbay.core.quantity import render_size
from launchbay.engine.browsing import Row
from launchbay.engine.transfers import (
    Moving,
    Removal,
    carry_out,
    delete_local,
    local_files,
    plan_transfers,
    remove_all,
)
from launchbay.sync.address import WILDCARD
from launchbay.sync.families import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from launchbay.engine.data import Data

NAMED = 3


class Shelf:
    """One folder, or all that matches a pattern, on both sides."""

    def __init__(self, data: Data, text: str, *, flat: bool | None = None) -> None:
        self._data = data
        self._area = data.area(text)
        key = self._area.texts[0]
        self._flat = bool(WILDCARD.search(key)) if flat is None else flat
        self._folder = f"{key.rstrip('/')}/" if key else ""
        self.well = True
        """Whether everything that was asked for could be done."""

    @property
    def title(self) -> str:
        """Where we are."""
        key = self._area.texts[0] if self._flat else self._folder
        return f"{self._area.bucket.url.rstrip('/')}/{key}"

    def rows(self) -> list[Row]:
        """What there is: folders first, in natural order."""
        found = self._matches() if self._flat else self._level()
        return sorted(found, key=lambda row: (not row.folder, natural(row.key)))

    def enter(self, key: str) -> None:
        """Go into a folder."""
        self._folder = key

    def leave(self) -> str:
        """Go to the folder above; the key of the one that we come from."""
        if self._flat or not self._folder:
            return ""
        left = self._folder
        above = left.rstrip("/").rpartition("/")[0]
        self._folder = f"{above}/" if above else ""
        return left

    def do(self, verb: str, keys: Sequence[str]) -> str:
        """Do it with these files and folders; what to say of it."""
        area = self._area.narrowed(keys)
        if verb == "delete":
            gone = delete_local(area)
            return f"deleted {_files(len(gone))} here"
        if verb == "remove":
            entries = list(area.entries())
            remove_all([Removal(area=area, entries=tuple(entries))])
            return f"removed {_files(len(entries))} from the bucket"
        moving = Moving(up=verb == "upload")
        result = carry_out(self._data, plan_transfers(self._data, [area], moving), moving)
        self.well = not result.failed
        said = f"{verb}ed {_files(len(result.done))}, {render_size(result.bytes)}"
        said += f"; {result.same} unchanged" if result.same else ""
        for name, why in (*result.failed, *result.left_out)[:NAMED]:
            said += f"; {name}: {why}"
        return said

    def _level(self) -> Iterator[Row]:
        level = self._area.bucket.level(self._folder)
        there = dict.fromkeys(level.folders, 0) | {one.key: one.size for one in level.entries}
        return self._union(there, self._local_level())

    def _local_level(self) -> dict[str, int]:
        found = {}
        try:
            entries = list((self._area.folder / self._folder).iterdir())
        except OSError:
            return {}
        for path in entries:
            key = f"{self._folder}{path.name}"
            if path.name.startswith(".bay"):
                continue
            if path.is_dir():
                found[f"{key}/"] = 0
            elif path.is_file():
                found[key] = path.stat().st_size
        return found

    def _matches(self) -> Iterator[Row]:
        there = {entry.key: entry.size for entry in self._area.entries()}
        return self._union(there, local_files(self._area))

    def _union(self, there: dict[str, int], here: dict[str, int]) -> Iterator[Row]:
        keys: Iterable[str] = dict.fromkeys([*there, *here])
        for key in keys:
            name = self._area.name(key) if self._flat else key[len(self._folder) :]
            size = there.get(key, here.get(key, 0))
            yield Row(key=key, name=name, there=key in there, here=key in here, size=size)


def _files(number: int) -> str:
    return f"{number} file{'s' * (number != 1)}"
