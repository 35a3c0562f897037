"""One document from several files: what a file builds on, and private lines over it.

Maps merge, lists and single values replace; every value remembers the file that it stood in.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.config.common import Part, Profile
from launchbay.config.files import Document, Value, read_document
from launchbay.config.layers import OPPOSITE
from launchbay.config.problems import config_error
from launchbay.config.schema import Dataset, ExperimentFile, Model, RunBlock, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launchbay.config.problems import Route

BASE = "_base_"
ENTRIES: Mapping[str, type[Part]] = {"model": Model, "dataset": Dataset, "targets": Target}
"""The shape of the entries below a key of the root."""


def read_merged(file: Path) -> Document:
    """What the file says over what the files of its `_base_` say.

    Raises:
        ConfigError: when one cannot be read, or builds on itself.
    """
    return _read(file, ())


def overlay(under: Document, over: Document) -> Document:
    """Both documents as one; where both say something, `over` does."""
    merging = _Merging()
    data = merging.merge(under.data, over.data, ())
    places = {
        route: place
        for route, place in under.places.items()
        if merging.replaced.isdisjoint(_prefixes(route))
    }
    places |= {merging.renamed_route(route): place for route, place in over.places.items()}
    return Document(file=over.file, data=data, places=places)


class _Merging:
    """Lays mappings over one another, and remembers what became of their keys."""

    def __init__(self) -> None:
        self.replaced: set[Route] = set()
        """What of the lower document no longer holds."""
        self.renamed: dict[Route, Route] = {}
        """What of the upper one is spelled as in the lower."""

    def merge(
        self, under: Mapping[str, Value], over: Mapping[str, Value], route: Route
    ) -> dict[str, Value]:
        merged = dict(under)
        spellings = _spellings(route)
        for written, value in over.items():
            key = _spelled_below(written, under, over, spellings)
            if key != written:
                self.renamed[*route, written] = (*route, key)
            below = merged.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                merged[key] = self.merge(below, value, (*route, key))
            elif value is not None or key not in merged:
                self.replaced.add((*route, key))
                merged[key] = value
        for key in _taken_back(under, over, spellings):
            self.replaced.add((*route, key))
            del merged[key]
        return merged

    def renamed_route(self, route: Route) -> Route:
        for prefix in _prefixes(route):
            if prefix in self.renamed:
                return (*self.renamed[prefix], *route[len(prefix) :])
        return route


def _prefixes(route: Route) -> Iterator[Route]:
    return (route[:length] for length in range(1, len(route) + 1))


def _spellings(route: Route) -> Mapping[str, str]:
    """The keys that a mapping may have, with the field that each fills."""
    match route:
        case ():
            return ExperimentFile.spellings()
        case ("run",):
            return RunBlock.spellings()
        case (str(section), str()) if section in ENTRIES:
            return ENTRIES[section].spellings()
        case ("targets", str(), "profiles", str()):
            return Profile.spellings()
    return {}


def _spelled_below(
    written: str,
    under: Mapping[str, Value],
    over: Mapping[str, Value],
    spellings: Mapping[str, str],
) -> str:
    """How the lower document spells a key: `gpus` and `gpu_count` are the same."""
    field = spellings.get(written)
    if field is None or written in under:
        return written
    same = (key for key in under if spellings.get(key) == field and key not in over)
    return next(same, written)


def _taken_back(
    under: Mapping[str, Value], over: Mapping[str, Value], spellings: Mapping[str, str]
) -> list[str]:
    """What the lower document allows where the upper one denies, and the other way around."""
    said = {spellings.get(key) for key, value in over.items() if value is not None}
    gone = {OPPOSITE[field] for field in said if field in OPPOSITE} - said
    return [key for key in under if spellings.get(key) in gone]


def _read(file: Path, trail: tuple[Path, ...]) -> Document:
    document = read_document(file)
    trail = (*trail, file.resolve())
    merged = Document(file=file)
    for route, name in _bases(document):
        base = file.parent / Path(name).expanduser()
        if base.resolve() in trail:
            steps = " → ".join(path.name for path in (*trail, base.resolve()))
            message = f"builds on itself: {steps}"
            raise config_error([document.problem(route, message, "take one `_base_` out")])
        if not base.is_file():
            message = f"there is no file `{name}`"
            hint = f"correct it; the path counts from the folder of `{file.name}`"
            raise config_error([document.problem(route, message, hint)])
        merged = overlay(merged, _read(base, trail))
    own = {key: value for key, value in document.data.items() if key != BASE}
    return overlay(merged, Document(file=file, data=own, places=document.places))


def _bases(document: Document) -> list[tuple[Route, str]]:
    match document.data.get(BASE):
        case None:
            return []
        case str() as name:
            return [((BASE,), name)]
        case list() as names if all(isinstance(name, str) for name in names):
            return [((BASE, at), str(name)) for at, name in enumerate(names)]
    message, hint = "no file, nor a list of files", "write `_base_: a.yaml`, or `[a.yaml, b.yaml]`"
    raise config_error([document.problem((BASE,), message, hint)])
