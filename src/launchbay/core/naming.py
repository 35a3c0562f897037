"""Names that people read and every target accepts."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAME_LENGTH = 54
SUFFIX_LENGTH = 5
LETTERS = "abcdefghijkmnpqrstuvwxyz"
ALPHABET = LETTERS + "23456789"
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


def slug(text: str) -> str:
    """The text as lower-case letters, digits and single hyphens.

    >>> slug("Batch_Size 1.50")
    'batch-size-1-50'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def run_name(words: Iterable[str], params: Mapping[str, str]) -> str:
    """A readable name of at most 54 characters, different for different parameters.

    Keys that begin with `_` are left out. A hash is added where the plain name would be cut,
    or could also be that of other parameters.

    >>> run_name(["demo"], {"lr": "0.1", "seed": "0"})
    'demo-lr-0-1-seed-0'
    """
    shown = {key: value for key, value in params.items() if not key.startswith("_")}
    parts = [slug(word) for word in words]
    parts += [f"{slug(key)}-{slug(value)}".strip("-") for key, value in shown.items()]
    name = "-".join(part for part in parts if part) or "run"
    faithful = all(re.fullmatch(r"[a-z0-9]+(\.[a-z0-9]+)*", value) for value in shown.values())
    if faithful and shown == params and len(name) <= NAME_LENGTH:
        return name
    mark = digest(list(params.items()))[:6]
    return f"{name[: NAME_LENGTH - 7].rstrip('-')}-{mark}"


def run_id(name: str) -> str:
    """The name and five random characters, the first a letter, so that no number is one."""
    tail = "".join(secrets.choice(ALPHABET) for _ in range(SUFFIX_LENGTH - 1))
    return f"{name}-{secrets.choice(LETTERS)}{tail}"


def launch_tag() -> str:
    """A random memorable name for one launch."""
    number = secrets.randbelow(1000)
    return f"{secrets.choice(ADJECTIVES)}-{secrets.choice(NOUNS)}-{number:03d}"


def digest(value: object) -> str:
    """A hash of plain data that depends on nothing but the data."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
