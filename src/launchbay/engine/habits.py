"""What commands from elsewhere are used to, and what to write where it is different here."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from launchbay.config.schema import KUBE, KUBERNETES
from launchbay.core.command import render
from launchbay.core.errors import BayError
from launchbay.engine.calls import UP, find_calls
from launchbay.engine.makefile import is_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from launchbay.core.job import Recipe
    from launchbay.core.sweep import Branch, Experiment
    from launchbay.engine.calls import Call

OF_A_CLONE = frozenset({"fetch", "pull", "reset", "checkout", "switch", "merge", "submodule"})
OWN_CLONE = re.compile(r"\bgit\s+(?:clone|init)\b|\bgit\s+-C\b")
OWN_CONDA = re.compile(r"/conda\.sh\b|\bconda\s+shell\.|\bconda-hook\b|\bmicromamba\s+shell\b")
SCRIPTS = ("startup_script", "extra_startup_script")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where commands will run, as far as it matters to them."""

    kind: str
    lent: bool = False
    """Whether `make download` works in any image that has a program for it."""
    image: str = ""
    in_image: bool = False
    """Whether the code is the image's own."""
    has_makefile: bool = False
    """Whether the project has the Makefile of these targets."""
    has_conda: bool = False
    """Whether conda is set up before the command."""

    @property
    def is_kubernetes(self) -> bool:
        """Whether it runs in a pod."""
        return self.kind == KUBERNETES

    @property
    def where(self) -> str:
        """Where programs have to be."""
        if not self.is_kubernetes:
            return "on PATH there"
        return f"in image `{self.image}`" if self.image else "in the image"


class Remark(NamedTuple):
    """A sentence about a command."""

    text: str
    works: bool = False
    """Whether it works as it is written, and this only says how."""


def habits_of(experiment: Experiment, target: str, kind: str, folder: Path) -> list[Remark]:
    """The remarks on what an experiment's runs do on a target that is not here, each once.

    Args:
        experiment: with its commands as they are for that target.
        target: its name.
        kind: what drives it.
        folder: the project's.
    """
    found: list[Remark] = []
    makefile = is_written(folder)
    for branch in experiment.branches:
        recipe = _recipe_of(branch)
        options = recipe.options if recipe else {}
        place = Place(
            kind=kind,
            lent=kind == KUBERNETES and target == KUBE,
            image=recipe.image if recipe else "",
            in_image=experiment.in_image,
            has_makefile=makefile,
            has_conda=_enters_conda(recipe) if recipe else False,
        )
        texts = [render(branch.command), recipe.setup if recipe else ""]
        texts += [str(options.get(name) or "") for name in SCRIPTS]
        found += find_habits(texts, place)
    return list(dict.fromkeys(found))


def find_habits(texts: Iterable[str], place: Place) -> list[Remark]:
    """The remarks on shell texts that run in a place, each once.

    >>> find_habits(["git pull; python x.py"], Place(kind="slurm"))[0].text
    '`git pull`: a frozen folder has no .git, and its code is as it was at submit; take it out'
    """
    whole = "\n".join(texts)
    found: dict[Remark, None] = {}
    told = set()
    for call in find_calls(whole):
        remark = REMARKS[call.program](call, whole, place)
        # One word about each is enough, however often it is called.
        if remark and call.program not in told:
            told.add(call.program)
            found[remark] = None
    return list(found)


def _on_targets(call: Call, whole: str, place: Place) -> Remark | None:  # noqa: ARG001
    """On `make download` and `bay toolbox download`."""
    if not call.moves:
        return None
    called = f"`{call.program} {call.moves}`"
    with_make = call.program == "make"
    if place.lent:
        remark = f"{called} uses bay where the image has it, else s5cmd, python3 or aws"
        remark += ", whichever comes first"
        if place.has_makefile or not with_make:
            return Remark(remark, works=True)
        lacking = "; an image with make wants a Makefile: `bay init --makefile` writes one"
        return Remark(remark + lacking)
    needed = "make and bay" if with_make else "bay"
    instead = "`folders: {data: s3://…}` brings data without"
    if call.moves in UP:
        instead = "`outputs_to: s3://…` copies outputs without"
    return Remark(f"{called} needs {needed} {place.where}; {instead}")


def _on_git(call: Call, whole: str, place: Place) -> Remark | None:
    (verb,) = call.words[:1] or [""]
    if place.in_image or verb not in OF_A_CLONE or OWN_CLONE.search(whole):
        return None
    remark = (
        f"`git {verb}`: a frozen folder has no .git, and its code is as it was at submit; "
        "take it out"
    )
    instead = ", or `code: image` runs in the image's own clone" * place.is_kubernetes
    return Remark(remark + instead)


def _on_conda(call: Call, whole: str, place: Place) -> Remark | None:
    if call.words[:1] != ["activate"] or place.has_conda or OWN_CONDA.search(whole):
        return None
    (name,) = call.words[1:2] or ["base"]
    called = f"`conda activate {name}`"
    if place.is_kubernetes:
        # Its set-up looks there.
        where = "works where the image keeps conda in /opt/conda or its home folder"
        return Remark(f"{called} {where}; `conda_env_name: {name}` says so itself", works=True)
    return Remark(
        f"{called} works only where ~/.bashrc sets conda up for shells without a terminal; "
        f"write `python: conda:{name}` instead"
    )


def _on_s5cmd(call: Call, whole: str, place: Place) -> Remark | None:  # noqa: ARG001
    instead = "`make upload` and `make download` do without"
    if not place.lent:
        instead = "`folders:` and `outputs_to:` copy with what is there"
    return Remark(f"`s5cmd` has to be {place.where}; {instead}")


def _on_sleep(call: Call, whole: str, place: Place) -> Remark | None:  # noqa: ARG001
    if call.words[:1] not in (["infinity"], ["inf"]):
        return None
    never = "`sleep infinity` never ends, and neither would the run"
    return Remark(f"{never}; `bay dev` is a place to work in")


REMARKS: dict[str, Callable[[Call, str, Place], Remark | None]] = {
    "make": _on_targets,
    "bay toolbox": _on_targets,
    "git": _on_git,
    "conda": _on_conda,
    "s5cmd": _on_s5cmd,
    "sleep": _on_sleep,
}


def _recipe_of(branch: Branch) -> Recipe | None:
    """What the first of its runs is given; what is wrong with it others will say."""
    with suppress(BayError):
        for point in branch:
            return branch.recipe(point)
    return None


def _enters_conda(recipe: Recipe) -> bool:
    options = recipe.options
    named = options.get("conda_env_name") or options.get("conda_home")
    return bool(named) or (recipe.python is not None and recipe.python.kind == "conda")
