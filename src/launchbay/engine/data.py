"""`bay data` without a terminal: which objects are meant, and looking at them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import BadRequest, DataError
from launchbay.core.nearest import suggest
from launchbay.engine.buckets import open_buckets
from launchbay.sync.address import WILDCARD, join_url, parse_named
from launchbay.sync.bucket import LONGEST_ADDRESS_S
from launchbay.sync.families import natural
from launchbay.sync.patterns import Pattern, compile_patterns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from launchbay.engine.buckets import Buckets, Located
    from launchbay.sync.bucket import Bucket, BucketOptions, Entry, Level
    from launchbay.sync.memory import Memory

PROBE = "\x00"
"""A name that no object has, to ask a pattern about a folder."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What narrows the patterns down."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Area:
    """Patterns in one bucket, and the folder here that mirrors it."""

    options: BucketOptions
    folder: Path
    """`folder / key` is the file here."""
    texts: tuple[str, ...]
    """The patterns, as keys of this bucket."""
    pattern: Pattern
    label: str
    """What stands before a key when people name it."""
    offset: str
    """Where a typed path begins to count: a folder of the mirror, "" at its root."""

    @cached_property
    def bucket(self) -> Bucket:
        """The store; nothing is asked of it yet."""
        from launchbay.sync.bucket import open_bucket  # noqa: PLC0415

        return open_bucket(self.options)

    def entries(self) -> Iterator[Entry]:
        """The objects that match, in order of key."""
        from launchbay.sync.mirror import matching  # noqa: PLC0415

        return matching(self.bucket, self.pattern)

    def name(self, key: str) -> str:
        """The key as one would type it here."""
        whole = printable(f"{self.label}{key}")
        if not self.offset:
            return whole
        slash = "/" * whole.endswith("/")
        return os.path.relpath(f"/{whole}", f"/{self.offset}") + slash

    def only(self, text: str) -> Area:
        """The same place, and one of its patterns."""
        return replace(self, texts=(text,), pattern=compile_patterns([text]))

    def narrowed(self, keys: Iterable[str]) -> Area:
        """The same place, and of its objects only these; a key that ends with `/` is all below."""
        return replace(self, pattern=pick(keys))


@dataclass(frozen=True, kw_only=True)
class Found:
    """An object that matches, or with `count` a folder of such."""

    name: str
    key: str
    size: int
    modified: float
    etag: str = ""
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Picked(Pattern):
    """These keys, and what is below those that end with `/`; however many there are."""

    keys: frozenset[str]

    def matches(self, key: str) -> bool:
        """Whether the key is one of them."""
        if key in self.keys:
            return True
        ends = (at + 1 for at, letter in enumerate(key) if letter == "/")
        return any(key[:end] in self.keys for end in ends)


def pick(keys: Iterable[str]) -> Picked:
    """A pattern that means exactly these.

    >>> pick(["a/x", "a/b/"]).folder, pick(["b/"]).matches("b/c/d"), pick(["b"]).matches("b/c")
    ('a/', True, False)
    """
    chosen = frozenset(keys)
    folders = [f"/{key.rpartition('/')[0]}" for key in chosen]
    shared = os.path.commonpath(folders).strip("/") if folders else ""
    folder = f"{shared}/" if shared else ""
    return Picked(**{**vars(compile_patterns([])), "folder": folder, "keys": chosen})


class Data:
    """The buckets that a folder knows, and what lies in them."""

    def __init__(self, buckets: Buckets, *, here: Path, local: Path | None = None) -> None:
        self.buckets = buckets
        self.here = here
        self.local = local
        """The folder that mirrors the bucket, when it is not the project."""

    @cached_property
    def memory(self) -> Memory:
        """What earlier transfers saw."""
        return self.buckets.memory()

    def area(self, text: str) -> Area:
        """Where one path or pattern is."""
        located = self.buckets.locate(text)
        return self._area(located, [located.key], text, Choice())

    def areas(self, texts: Sequence[str], choice: Choice | None = None) -> list[Area]:
        """Where the patterns are, those of one bucket together; `!` takes matches away.

        Raises:
            BadRequest: when a text names no bucket, or a path outside of the project.
        """
        choice = choice or Choice()
        positive = [text for text in texts if not text.startswith("!")] or [""]
        groups: dict[tuple[str, str, Path], tuple[Located, str, list[str]]] = {}
        for text in positive:
            located = self.buckets.locate(text)
            group = groups.setdefault(_place(located), (located, text, []))
            group[2].append(located.key)
        self._take_away(groups, [text[1:] for text in texts if text.startswith("!")])
        return [self._area(located, keys, text, choice) for located, text, keys in groups.values()]

    def _take_away(
        self,
        groups: Mapping[tuple[str, str, Path], tuple[Located, str, list[str]]],
        negative: Sequence[str],
    ) -> None:
        for text in negative:
            located = self.buckets.locate(text)
            own = groups.get(_place(located))
            if own:
                own[2].append(f"!{located.key}")
                continue
            # Said without a bucket, it is meant for all that were named.
            for _, _, keys in groups.values():
                keys.append(f"!{text}")

    def _area(self, located: Located, keys: Sequence[str], text: str, choice: Choice) -> Area:
        label, offset = self._naming(located, text)
        folder = located.folder
        if self.local is not None:
            folder = self.local.absolute() / folder.relative_to(self.buckets.root)
        return Area(
            options=located.options,
            folder=folder,
            texts=tuple(keys),
            pattern=compile_patterns(keys, include=choice.include, exclude=choice.exclude),
            label=label,
            offset=offset,
        )

    def _naming(self, located: Located, text: str) -> tuple[str, str]:
        """What to put before keys, and the folder that typed paths count from."""
        if "://" in text:
            return join_url(located.options.url, "").rstrip("/") + "/", ""
        named = parse_named(text)
        if named and named[0] in self.buckets.entries:
            return f"{named[0]}:", ""
        root, here = self.buckets.root, self.here.resolve()
        label = located.folder.relative_to(root).as_posix()
        offset = here.relative_to(root).as_posix() if here.is_relative_to(root) else "."
        return "" if label == "." else f"{label}/", "" if offset == "." else offset


def printable(name: str) -> str:
    """The name as text: that of a file may be any bytes."""
    return os.fsencode(name).decode(errors="replace")


def open_data(here: Path | None = None, *, local: Path | None = None) -> Data:
    """What the project around a folder knows of object storage."""
    here = (here or Path.cwd()).absolute()
    return Data(open_buckets(here), here=here, local=local)


def list_level(area: Area) -> Level:
    """What lies directly in a folder, folders first, in natural order.

    Raises:
        BadRequest: when a wildcard stands in a folder's name.
    """
    from launchbay.sync.bucket import Level  # noqa: PLC0415

    (text,) = area.texts
    parent, slash, last = text.rpartition("/")
    if WILDCARD.search(parent):
        hint = f"`bay data find '{text}'` looks through all folders"
        raise BadRequest(f"`ls` shows one folder, and `{text}` may be many", hint=hint)
    if not WILDCARD.search(last):
        return _sorted(_level_of(area, text))
    folder = compile_patterns([f"{parent}{slash}"]).folder
    wanted = compile_patterns([last])
    whole = area.bucket.level(folder)
    return _sorted(
        Level(
            [name for name in whole.folders if wanted.matches(name[len(folder) : -1])],
            [one for one in whole.entries if wanted.matches(one.key[len(folder) :])],
        )
    )


def _level_of(area: Area, text: str) -> Level:
    from launchbay.sync.bucket import Level  # noqa: PLC0415

    level = area.bucket.level(f"{text.rstrip('/')}/" if text else "")
    if level.folders or level.entries or not text or text.endswith("/"):
        return level
    entry = area.bucket.head(text)
    return Level([], [entry] if entry else [])


def _sorted(level: Level) -> Level:
    return replace(
        level,
        folders=sorted(level.folders, key=natural),
        entries=sorted(level.entries, key=lambda entry: natural(entry.key)),
    )


def find(area: Area) -> list[Found]:
    """What matches: objects, or folders where a pattern ends with `/`."""
    entries = list(area.entries())
    positive = [text for text in area.texts if not text.startswith("!")]
    folders = [text for text in positive if text.endswith("/")]
    files = [text for text in positive if not text.endswith("/")]
    wanted = compile_patterns(files) if files else None
    found = [_found(area, entry) for entry in entries if wanted and wanted.matches(entry.key)]
    if folders:
        found = [*_folders(area, entries, compile_patterns(folders)), *found]
    return sorted(found, key=lambda one: natural(one.key))


def _folders(area: Area, entries: Iterable[Entry], pattern: Pattern) -> Iterator[Found]:
    sums: dict[str, tuple[int, int, float]] = {}
    for entry in entries:
        parts = entry.key.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[:depth]) + "/"
            if pattern.matches(folder + PROBE):
                count, size, newest = sums.get(folder, (0, 0, 0.0))
                sums[folder] = (count + 1, size + entry.size, max(newest, entry.modified))
    for folder, (count, size, newest) in sums.items():
        name = area.name(folder)
        yield Found(name=name, key=folder, size=size, modified=newest, count=count)


def _found(area: Area, entry: Entry) -> Found:
    return Found(
        name=area.name(entry.key),
        key=entry.key,
        size=entry.size,
        modified=entry.modified,
        etag=entry.etag,
    )


def nearest(area: Area) -> str:
    """A hint for a pattern that nothing matches: what lies where it looked."""
    folder, missing = _last_folder(area)
    level = area.bucket.level(folder)
    names = [area.name(name) for name in level.folders]
    names += [area.name(entry.key) for entry in level.entries]
    if not names:
        return f"{area.bucket.url} is empty"
    return suggest(area.name(f"{folder}{missing}"), names) or ""


def nearest_here(area: Area) -> str:
    """The same for files of this machine."""
    parts = [part for part in area.pattern.folder.split("/") if part]
    rest = area.texts[0][len(area.pattern.folder) :].split("/")[0]
    while parts and not (area.folder / "/".join(parts)).is_dir():
        rest = f"{parts.pop()}/"
    folder = "".join(f"{part}/" for part in parts)
    try:
        found = [path.name + "/" * path.is_dir() for path in (area.folder / folder).iterdir()]
    except OSError:
        return f"there is no folder `{area.folder / folder}`"
    names = [area.name(f"{folder}{name}") for name in found if not name.startswith(".bay/")]
    return suggest(area.name(f"{folder}{rest}"), names) or f"`{area.folder}` is empty"


def _last_folder(area: Area) -> tuple[str, str]:
    """The deepest folder of the pattern that is there, and the name that is missing in it."""
    parts = [part for part in area.pattern.folder.split("/") if part]
    rest = area.texts[0][len(area.pattern.folder) :].split("/")[0]
    while parts:
        folder = "/".join(parts) + "/"
        level = area.bucket.level(folder)
        if level.folders or level.entries:
            return folder, rest
        rest = f"{parts.pop()}/"
    return "", rest


def _place(located: Located) -> tuple[str, str, Path]:
    return located.options.url, located.options.endpoint, located.folder


def unmatched(area: Area, keys: Iterable[str]) -> list[str]:
    """The patterns of the area that none of the keys matches."""
    left = {text: compile_patterns([text]) for text in area.texts if not text.startswith("!")}
    for key in keys:
        for text in [text for text, pattern in left.items() if pattern.matches(key)]:
            del left[text]
        if not left:
            break
    return list(left)


def sign(area: Area, *, seconds: int, put: bool = False) -> str:
    """An address of one object that works for a while without any login.

    Raises:
        BadRequest: when it is a pattern, or longer than stores sign for.
        DataError: when there is no such object to read.
    """
    key = area.pattern.literal
    if not key:
        raise BadRequest(f"`{area.name(area.texts[0])}` is no name of one object")
    if seconds > LONGEST_ADDRESS_S:
        raise BadRequest("an address works for 7 days at most", hint="`--for 7d`")
    if not put and area.bucket.head(key) is None:
        raise DataError(f"there is no `{area.name(key)}` in {area.bucket.url}", hint=nearest(area))
    return area.bucket.sign(key, seconds=seconds, method="PUT" if put else "GET")
