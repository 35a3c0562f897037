"""A Makefile whose targets are the first tool's verbs, and where it can be put."""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from launchbay.core.errors import BadRequest, StoreError
from launchbay.core.whole import replacing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

NAMES = ("GNUmakefile", "makefile", "Makefile")
"""In the order in which GNU make looks for them."""
PART = "bay.mk"
"""What is included where there is a Makefile already."""
MARK = "# Written by `bay init --makefile`"
SUM = re.compile(re.escape(MARK) + r" \[([0-9a-f]{8})\]\n")
RULE = re.compile(r"^([^\s#:=][^#:=]*)::?(?!=)", re.MULTILINE)
INCLUDE = re.compile(rf"^ *[-s]?include\b.*(?<!\S)(?:\./)?{re.escape(PART)}(?!\S)", re.MULTILINE)

WHOLE = """\
# Targets of your own belong into project.mk: `bay init --makefile` brings this file up to date.

.DEFAULT_GOAL := help
{rules}
-include project.mk
"""
INCLUDED = """\
# Included by your Makefile; `bay init --makefile` brings this file up to date.

# Wherever the include stands, your own first target stays what `make` alone makes.
bay.goal := $(.DEFAULT_GOAL)
{rules}
.DEFAULT_GOAL := $(bay.goal)
"""
RULES = r"""
bay.program ?= bay
bay.verbs := {verbs}
bay.variables := {variables}

# Of the variables those that were typed, as they were typed: `make upload file='a $b.txt'`.
bay.typed = $(findstring command line,$(origin $(1)))
bay.quoted = '$(subst ','\'',$(value $(1)))'
bay.word = $(if $(call bay.typed,$(1)),$(1)=$(call bay.quoted,$(1)))
bay.given = $(foreach bay.name,$(bay.variables),$(call bay.word,$(bay.name)))

# To export a variable is to expand the `$` in it.
ifneq ($(filter $(bay.verbs),$(MAKECMDGOALS)),)
unexport {variables}
endif

bay.missing = error: `$(firstword $(bay.program))` is not on PATH; install launchbay \
  (`pip install .` in its clone), or type `make $@ bay.program=/path/to/bay`
bay.refuse = echo '$(bay.missing)' >&2; exit 127

.PHONY: $(bay.verbs)
$(bay.verbs):
	@command -v $(firstword $(bay.program)) >/dev/null || {{ $(bay.refuse); }}; \
	unset MAKEFLAGS MAKELEVEL MAKEOVERRIDES MFLAGS; \
	exec $(bay.program) toolbox $@ $(bay.given)
"""


class There(StrEnum):
    """What is in the place of the file that would be written."""

    NOTHING = "nothing"
    SAME = "the very same"
    OLDER = "what another version wrote"
    EDITED = "what was written and then changed by hand"
    LINK = "a link to the first tool's"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A Makefile, or the part of one, before it is written."""

    path: Path
    text: str
    found: There
    beside: str = ""
    """The name of the user's own Makefile, which includes this or has to."""
    included: bool = True
    """Whether nothing is left to do for `make` to know the targets."""
    kept: tuple[str, ...] = ()
    """Targets that the user's own Makefile has and that are not in this."""

    @property
    def question(self) -> str:
        """What to ask before it is written; "" where nothing is lost."""
        match self.found:
            case There.LINK:
                return f"replace the link to {os.readlink(self.path)}?"  # noqa: PTH115 (as it is)
            case There.EDITED:
                return f"replace {self.path}, which was changed by hand?"
        return ""


def plan_makefile(folder: Path, verbs: Sequence[str], variables: Sequence[str]) -> Draft:
    """What to write in a folder for `make VERB NAME=VALUE` to be `bay toolbox VERB NAME=VALUE`.

    Args:
        folder: where `make` will be called.
        verbs: the targets.
        variables: what is passed on when it is typed.

    Raises:
        BadRequest: when a file of somebody else is in the way.
    """
    name = _find_makefile(folder)
    path = folder / (name or NAMES[-1])
    text = "" if name is None else _read(path)
    if name is None or is_old_link(path) or text.startswith(MARK):
        whole = render_makefile(verbs, variables)
        return Draft(path=path, text=whole, found=_look(path, whole))
    kept = _targets(text) & {*verbs}
    part = render_makefile([verb for verb in verbs if verb not in kept], variables, part=True)
    return Draft(
        path=folder / PART,
        text=part,
        found=_look(folder / PART, part),
        beside=path.name,
        included=bool(INCLUDE.search(text)),
        kept=tuple(verb for verb in verbs if verb in kept),
    )


def render_makefile(verbs: Sequence[str], variables: Sequence[str], *, part: bool = False) -> str:
    """The whole file, or the part that another one includes."""
    rules = RULES.format(verbs=" ".join(verbs), variables=" ".join(variables))
    body = (INCLUDED if part else WHOLE).format(rules=rules)
    return f"{MARK} [{_sum(body)}]\n{body}"


def write_makefile(draft: Draft) -> None:
    """Write it in one step; a link is replaced, and never written through.

    Raises:
        StoreError: when the folder cannot be written.
    """
    path = draft.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as fresh:
            fresh.write_text(draft.text, encoding="utf-8")
    except OSError as err:
        hint = "choose a folder that you can write"
        raise StoreError(f"cannot write `{path}`: {err.strerror}", hint=hint) from err


def is_old_link(path: Path) -> bool:
    """Whether it is a link to the file of that name in the first tool's folder."""
    if not path.is_symlink():
        return False
    target = path.readlink()
    return target.name == path.name and target.parent.name.lower().endswith("toolbox")


def is_written(folder: Path) -> bool:
    """Whether the folder has a Makefile, or a part, from here."""
    return any(_read(folder / name).startswith(MARK) for name in (*NAMES, PART))


def _find_makefile(folder: Path) -> str | None:
    """The name of the one that `make` reads; where case does not count, as it is spelled."""
    there: Collection[str] = os.listdir(folder) if folder.is_dir() else ()  # noqa: PTH208 (names)
    return next(
        (
            name
            for name in NAMES
            if name in there and ((folder / name).exists() or is_old_link(folder / name))
        ),
        None,
    )


def _look(path: Path, text: str) -> There:
    if is_old_link(path):
        return There.LINK
    if not os.path.lexists(path):
        return There.NOTHING
    there = _read(path)
    if there == text:
        return There.SAME
    if not there.startswith(MARK):
        hint = "rename it, then type it again"
        raise BadRequest(f"`{path}` is there already, and not from `bay`", hint=hint)
    match = SUM.match(there)
    untouched = match and match[1] == _sum(there[match.end() :])
    return There.OLDER if untouched else There.EDITED


def _targets(text: str) -> set[str]:
    return {name for match in RULE.finditer(text) for name in match[1].split()}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _sum(body: str) -> str:
    return f"{zlib.crc32(body.encode(errors='surrogateescape')):08x}"
