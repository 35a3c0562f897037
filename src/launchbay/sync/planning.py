"""A plan that grows entry by entry, with what only the content can tell looked at in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from launchbay.sync.bucket import kept_time_ns, why_refused
from launchbay.sync.checksums import same_content, says_content
from launchbay.sync.crew import Crew, Ended
from launchbay.sync.deciding import Differing, may_replace
from launchbay.sync.memory import file_mark, mark_of, object_mark, read_mark
from launchbay.sync.steps import MirrorPlan, Step

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from launchbay.sync.bucket import Bucket, Entry
    from launchbay.sync.deciding import Why
    from launchbay.sync.memory import Memory
    from launchbay.sync.patterns import Pattern

    Pair = tuple[Entry, os.stat_result]

COMPARE_AT_ONCE = 4
EVERY_S = 0.5


@dataclass(kw_only=True)
class Planner:
    """A plan that grows; what only the content can tell is looked at in the end."""

    bucket: Bucket
    folder: Path
    memory: Memory
    up: bool
    overwrite: bool
    known: Mapping[str, str] = field(default_factory=dict)
    sends: dict[str, Step] = field(default_factory=dict)
    deletions: list[Step] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: list[Pair] = field(default_factory=list)
    learnt: list[tuple[str, str]] = field(default_factory=list)
    same: int = 0
    same_bytes: int = 0

    def recall(self, pattern: Pattern) -> None:
        """Look up what earlier transfers saw of these."""
        prefix = pattern.folder if pattern.literal is None else pattern.literal
        self.known = self.memory.recall(self.bucket.url, self.folder, prefix)

    def add_file(self, key: str, status: os.stat_result) -> None:
        """A file that the bucket does not have."""
        why = why_refused(key) if self.bucket.parts else ""
        if self.bucket.url.startswith("az:") and "\\" in key:
            why = "Azure takes `\\` for a slash"
        if why:
            self.left_out[key] = f"the store cannot take its name: {why}"
            return
        self.sends[key] = Step(
            key=key,
            folder=self.folder,
            size=status.st_size,
            why="new",
            modified=status.st_mtime,
        )

    def add_object(self, entry: Entry) -> None:
        """An object that the folder does not have."""
        self.sends[entry.key] = self._step(entry, size=entry.size, why="new")

    def leave_folders(self, sizes: Mapping[str, int]) -> None:
        """Objects named like folders of others: empty ones only mark the folder."""
        folders: set[str] = set()
        for key in sizes:
            folder = key.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        for key in folders & sizes.keys():
            del self.sends[key]
            if sizes[key]:
                self.left_out[key] = "other objects lie below it as in a folder"

    def compare(self, entry: Entry, status: os.stat_result) -> None:
        """A file and an object of one name."""
        mark = self.known.get(entry.key)
        if not self.overwrite and mark == mark_of(file_mark(status), object_mark(entry)):
            self._equal(entry)
        elif entry.size != status.st_size:
            self._differ(entry, status)
        else:
            self.doubts.append((entry, status))

    def remove(self, key: str, *, size: int, modified: float, etag: str = "") -> None:
        """What is on the target side alone."""
        step = Step(
            key=key, folder=self.folder, size=size, why="gone", modified=modified, etag=etag
        )
        self.deletions.append(step)

    def finish(self, stale: Iterable[Path] = ()) -> MirrorPlan:
        """The plan."""
        self._settle_doubts()
        if self.learnt:
            self.memory.remember(self.bucket.url, self.folder, self.learnt)
        return MirrorPlan(
            up=self.up,
            bucket_url=self.bucket.url,
            folder=self.folder,
            sends=tuple(self.sends[key] for key in sorted(self.sends)),
            deletions=tuple(sorted(self.deletions, key=lambda step: step.key)),
            same=self.same,
            same_bytes=self.same_bytes,
            left_out=tuple(sorted(self.left_out.items())),
            stale=tuple(stale),
        )

    def _settle_doubts(self) -> None:
        """Compare what has equal sizes: several at once, for files are read and stores asked."""
        crew: Crew[Pair] = Crew(self._is_same, lambda _: 0)
        for ended in crew.run(self.doubts, at_once=COMPARE_AT_ONCE, every_s=EVERY_S):
            if not isinstance(ended, Ended):
                continue
            entry, status = ended.job
            if isinstance(ended.error, OSError):
                self.left_out[entry.key] = f"it cannot be read: {ended.error.strerror}"
            elif ended.error is not None:
                raise ended.error
            elif ended.result:
                self._equal(entry)
                mark = mark_of(file_mark(status), object_mark(entry))
                self.learnt.append((entry.key, mark))
            else:
                self._differ(entry, status)

    def _is_same(self, pair: Pair) -> bool:
        entry, status = pair
        if entry.size == 0:
            return True
        if says_content(entry.etag):
            told = same_content(self.folder / entry.key, entry.size, entry.etag)
            if told is not None:
                return told
        return not self.overwrite and self._same_time(entry, status)

    def _same_time(self, entry: Entry, status: os.stat_result) -> bool:
        """Up: the object is no older than the file. Down: the file has the time we gave it."""
        if self.up:
            return status.st_mtime <= entry.modified
        if status.st_mtime_ns == round(entry.modified * 1e9) or status.st_mtime == entry.modified:
            return True
        return status.st_mtime_ns == kept_time_ns(self.bucket.details(entry.key))

    def _equal(self, entry: Entry) -> None:
        self.same += 1
        self.same_bytes += entry.size

    def _differ(self, entry: Entry, status: os.stat_result) -> None:
        size = status.st_size if self.up else entry.size
        if self.overwrite:
            self.sends[entry.key] = self._step(entry, size=size, why="overwrite")
            return
        known = self.known.get(entry.key)
        mark = read_mark(known) if known else None
        why_not = may_replace(
            Differing(
                up=self.up,
                file_changed=mark and mark.file != file_mark(status),
                object_changed=mark and mark.object != object_mark(entry),
                file_time=status.st_mtime,
                object_time=entry.modified,
            )
        )
        if why_not:
            self.left_out[entry.key] = why_not
        else:
            self.sends[entry.key] = self._step(entry, size=size, why="changed")

    def _step(self, entry: Entry, *, size: int, why: Why) -> Step:
        return Step(
            key=entry.key,
            folder=self.folder,
            size=size,
            why=why,
            modified=entry.modified,
            etag=entry.etag,
        )
