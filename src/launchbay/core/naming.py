"""Names that people read and every target accepts."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

NAME_LENGTH = 54
SUFFIX_LENGTH = 5
MARK_LENGTH = 6
NEGATIVE = re.compile(r"-(?=[0-9.])")
LETTERS = "abcdefghijkmnpqrstuvwxyz"
ALPHABET = LETTERS + "23456789"
SUFFIXES = len(LETTERS) * len(ALPHABET) ** (SUFFIX_LENGTH - 1)
"""How many ends of ids there are."""
ADJECTIVES = """
amber bold brave brisk calm clear coral crisp deep eager early even fair fast fine
fresh gentle glad golden green happy keen kind late light lively lucky mellow merry
mild misty neat nimble noble olive plain proud quick quiet rapid ready royal rosy
sharp shiny silent silver smart smooth snowy soft solid steady still sunny swift
tidy vivid warm wide wild wise young
""".split()  # noqa: SIM905 (a list would take a page)
NOUNS = """
anchor badger beacon bear birch bison brook cedar cloud comet coral crane creek dawn
deer delta dune eagle ember falcon fern finch fjord forest fox garden glade grove
gull harbor hare hawk heron hill island lake larch lark lynx maple marsh meadow
moose moth oak ocean orchid otter owl pine plover pond quail raven reef river robin
sail seal shore spruce stone stork swan tern tide trout valley wave willow wren
""".split()  # noqa: SIM905 (a list would take a page)


@lru_cache(maxsize=4096)
def slug(text: str) -> str:
    """The text as lower-case letters, digits and single hyphens.

    >>> slug("Batch_Size 1.50")
    'batch-size-1-50'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def slug_value(text: str) -> str:
    """A value in a name; a negative number is not the positive one.

    >>> slug_value("-1"), slug_value("1e-3"), slug_value("a b")
    ('m1', '1e-3', 'a-b')
    """
    return slug(NEGATIVE.sub("m", text, count=1) if text.startswith("-") else text)


def run_name(
    words: Iterable[str],
    params: Mapping[str, str],
    *,
    hidden: Collection[str] = (),
    ambiguous: bool = False,
) -> str:
    """A readable name of at most 54 characters, the same wherever it is made.

    Where the plain name is too long, words become initials and a hash is added; so it is where
    other parameters have the same plain name (`ambiguous`).

    >>> run_name(["demo"], {"lr": "0.1", "seed": "-1"})
    'demo-lr-0-1-seed-m1'
    >>> run_name(["demo"], {"opt": "Adam"}, ambiguous=True)
    'demo-opt-adam-mb8n5t'
    """
    words = list(words)
    pairs = [(key, slug_value(params[key])) for key in params if key not in hidden]
    name = _join([*words, *(text for pair in pairs for text in pair)])
    if name and not ambiguous and len(name) <= NAME_LENGTH:
        return name
    for shorter in (_shorten_keys, _shorten_all):
        if len(name) + 1 + MARK_LENGTH > NAME_LENGTH:
            name = _join([*words, *(shorter(key, value) for key, value in pairs)])
    return marked(name, [words, sorted(params.items())])


def marked(name: str, content: object) -> str:
    """The name, cut where it must be, and a hash of what it stands for."""
    number = int(digest(content), 16)
    mark = ""
    for _ in range(MARK_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        mark += ALPHABET[digit]
    room = NAME_LENGTH - 1 - MARK_LENGTH
    return f"{name[:room].rstrip('-') or 'run'}-{mark}"


def _join(texts: Iterable[str]) -> str:
    return "-".join(part for part in map(slug, texts) if part)


def _shorten_keys(key: str, value: str) -> str:
    return f"{_initials(key)}-{value}"


def _shorten_all(key: str, value: str) -> str:
    return f"{_initials(key)}-{_initials(value)}"


def _initials(text: str) -> str:
    """`learning_rate` as `lr`; what has digits stays.

    >>> _initials("learning_rate"), _initials("lr2-0.5")
    ('lr', 'lr2-0-5')
    """
    parts = slug(text).split("-")
    if any(character.isdigit() for character in text):
        return "-".join(parts)
    return "".join(part[:1] for part in parts) if len(parts) > 1 else parts[0][:3]


def run_id(name: str) -> str:
    """The name and five random characters, the first a letter, so that no number is one."""
    # One draw: asking the system for each character is the dearest part of a large sweep's ids.
    number, first = divmod(secrets.randbelow(SUFFIXES), len(LETTERS))
    tail = ""
    for _ in range(SUFFIX_LENGTH - 1):
        number, at = divmod(number, len(ALPHABET))
        tail += ALPHABET[at]
    return f"{name}-{LETTERS[first]}{tail}"


def launch_tag() -> str:
    """A random memorable name for one launch."""
    number = secrets.randbelow(1000)
    return f"{secrets.choice(ADJECTIVES)}-{secrets.choice(NOUNS)}-{number:03d}"


def digest(value: object) -> str:
    """A hash of plain data that depends on nothing but the data."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
