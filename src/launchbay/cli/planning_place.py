"""What a plan says of the place that runs would go to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from launchbay.core.backend import Survey
from launchbay.core.quantity import render_span
from launchbay.engine.launch import sketch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from launchbay.core.job import Recipe
    from launchbay.engine.launch import Draft
    from launchbay.engine.steps import Step

COUNTED = 2000
"""Runs that are laid out to count the arrays they make; more would take longer than the plan."""
NAMED = 8
WORDS = ("partition", "account", "qos", "queue", "priority_class")
JUST_NOW_S = 5


@dataclass
class Sent:
    """What would be sent, noted while the steps of a plan pass by."""

    steps: list[Step] = field(default_factory=list)
    """The first ones."""
    count: int = 0
    recipes: dict[int, Recipe] = field(default_factory=dict)

    def add(self, step: Step) -> Step:
        """Note a step, and hand it on."""
        if step.action == "submit":
            self.count += 1
            if len(self.steps) < COUNTED:
                self.steps.append(step)
            # Points that agree in what they are given share one recipe.
            self.recipes.setdefault(id(step.recipe), step.recipe)
        return step


def place_lines(draft: Draft, sent: Sent) -> Iterator[str]:
    """How the target takes it, what is known of it, and what is there of the project."""
    ways = list(_ways(sent.recipes.values()))
    if draft.place.where["kind"] == "slurm" and 1 < sent.count <= COUNTED:
        arrays = len(sketch(draft, sent.steps))
        ways.append(f"in {arrays} array{'s' * (arrays != 1)}")
    if ways:
        yield " · ".join(ways)
    if not draft.place.is_here and isinstance(draft.place.backend, Survey):
        yield _known(draft)
        yield from (draft.place.facts.details.get("unknown") or () if draft.place.facts else ())
    if draft.place.where["kind"] == "kubernetes" and sent.count:
        yield from _kept(sent.recipes.values())
    yield from _data(draft, sent.recipes.values())
    yield from _links(draft)
    yield from draft.request.experiment.notes


def _ways(recipes: Iterable[Recipe]) -> Iterator[str]:
    """What was set of how runs are treated, each value once."""
    found: dict[str, dict[str, None]] = {}
    for recipe in recipes:
        for key, text in _way(recipe):
            found.setdefault(key, {})[text] = None
    for key, texts in found.items():
        yield f"{key} {', '.join(filter(None, texts))}".rstrip()


def _way(recipe: Recipe) -> Iterator[tuple[str, str]]:
    policy = recipe.policy
    if policy.pack:
        yield "pack", policy.pack
    if policy.retries:
        yield "retries", ", ".join(f"{key} {count}" for key, count in policy.retries.items())
    if policy.resume:
        yield "resume", ""
        yield "grace", render_span(policy.grace_s)
    for key in WORDS:
        if value := recipe.options.get(key):
            yield key, value if isinstance(value, str) else ",".join(map(str, value))


def _known(draft: Draft) -> str:
    name, facts = draft.place.name, draft.place.facts
    if facts is None:
        return (
            f"nothing is known of {name} yet: its limits are not checked; `bay doctor {name}` looks"
        )
    age_s = time.time() - facts.seen_at
    when = "just now" if age_s < JUST_NOW_S else f"{render_span(age_s)} ago"
    return f"limits of {name} as seen {when}"


def _kept(recipes: Iterable[Recipe]) -> Iterator[str]:
    """What becomes of outputs and logs where nothing but the pod has them."""
    if any(recipe.ship is None for recipe in recipes):
        yield (
            "outputs end with the pods (`outputs_to: none`); of a log the cluster keeps the last "
            "10 MB, and what somebody follows is kept here"
        )


def _data(draft: Draft, recipes: Iterable[Recipe]) -> Iterator[str]:
    """What is brought, linked and copied, and by what; each once."""
    given = [recipe for recipe in recipes if recipe.folders or recipe.ship or recipe.fetch]
    if not given:
        return
    # Few plans have any.
    from launchbay.engine.shipping import describe  # noqa: PLC0415

    lines = (line for recipe in given for line in describe(draft, recipe))
    yield from dict.fromkeys(lines)


def _links(draft: Draft) -> Iterator[str]:
    fetched = draft.request.experiment.fetched
    if fetched:
        yield f"not sent: {', '.join(fetched)} (what commands download is no code)"
    links = sorted(set(draft.listing.links) - set(fetched))
    if not links:
        return
    more = f" and {len(links) - NAMED} more" if len(links) > NAMED else ""
    named = f"{', '.join(links[:NAMED])}{more}"
    if draft.place.is_here:
        yield f"linked from the project: {named}"
    else:
        yield f"not there: {named} (they are ignored by git and stay on this machine)"
