"""Names over a whole plan: valid, short, distinct, and the same on every machine."""

from __future__ import annotations

import json
import random
import re
import string
from typing import TYPE_CHECKING

from tests.conftest import STRESS

if TYPE_CHECKING:
    from tests.conftest import Bay

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
COUNT = 10_000 if STRESS else 1_000
LETTERS = string.ascii_letters + string.digits + "_.-"
VALUES = string.printable[:95] + "äßЖ漢🙂"


def parameter_sets(seed: int) -> list[dict[str, str]]:
    """Keys and values of all kinds: many alike but for a sign, a case, or a late letter."""
    rng = random.Random(seed)
    long = "".join(rng.choices(VALUES, k=70))
    found = []
    for _ in range(COUNT):
        keys = {
            rng.choice(["", "_"])
            + rng.choice("abcXYZ")
            + "".join(rng.choices(LETTERS, k=rng.randint(0, 12)))
            for _ in range(rng.randint(0, 5))
        }
        # What would be read otherwise: paired lists, nested keys that clash.
        clean = {key.strip("_"): key.replace(".", "-").rstrip("_") for key in sorted(keys)}
        found.append({key: _value(rng, long) for key in clean.values()})
    return found


def _value(rng: random.Random, long: str) -> str:
    kinds = (
        lambda: rng.choice(["a", "A", "-1", "1", "1.0", "1-0", "", " ", "é", "E"]),
        lambda: long + rng.choice("xyz"),
        lambda: "".join(rng.choices(VALUES, k=rng.randint(0, 20))),
    )
    return rng.choice(kinds)()


def test_names_of_many_parameter_sets(bay: Bay) -> None:
    """Each is a label of at most 54 characters; different parameters have different names."""
    sets = parameter_sets(7)
    file = {"project": "p", "prefix": "me", "command": "true", "params": sets}
    bay.write("bay.yaml", json.dumps(file, ensure_ascii=False))
    rows = bay.json("plan")
    distinct = {json.dumps(sorted(row["params"].items())) for row in rows}

    assert len(rows) == len(distinct) > COUNT * 0.6
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert LABEL.fullmatch(row["name"]), row
        assert len(row["name"]) <= 54, row
        assert row["name"].startswith("me-p"), row


def test_names_are_the_same_on_another_machine(bay: Bay) -> None:
    """Neither language, time zone, hash seed, home nor folder has a part in them."""
    file = {"project": "p", "command": "true", "params": parameter_sets(8)[:200]}
    bay.write("bay.yaml", json.dumps(file, ensure_ascii=False))
    here = [row["name"] for row in bay.json("plan")]
    elsewhere = bay.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "bay.yaml").write_text(json.dumps(file, ensure_ascii=False))
    bay.project = elsewhere
    bay.extra = {"LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "3", "USER": "other"}
    there = [row["name"] for row in bay.json("plan")]

    assert here == there
