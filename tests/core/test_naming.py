"""Names: readable, valid everywhere, short. That they differ is a matter of plans."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from launchbay.core.naming import launch_tag, run_id, run_name

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
PARAMS = st.dictionaries(
    st.from_regex(r"[A-Za-z_][\w.-]{0,9}", fullmatch=True), st.text(max_size=30)
)


def test_name_reads_like_its_parameters() -> None:
    """Keys and values are there, in order."""
    assert run_name(["Demo"], {"lr": "0.1", "batch_size": "64"}) == "demo-lr-0-1-batch-size-64"


def test_hidden_key_is_left_out() -> None:
    """It is not shown; where it alone tells runs apart, a hash of everything does."""
    one, two = ({"fn": value, "a": "1"} for value in ("x", "y"))

    assert run_name(["d"], one, hidden={"fn"}) == "d-a-1"
    assert run_name(["d"], one, hidden={"fn"}, ambiguous=True) != run_name(
        ["d"], two, hidden={"fn"}, ambiguous=True
    )


def test_long_names_become_initials_and_a_hash() -> None:
    """Words are shortened before anything is cut; numbers stay."""
    params = {"learning_rate": "0.001", "weight_decay": "1e-4", "optimizer_name": "adamw"}
    name = run_name(["some-project-name"], params)

    assert re.fullmatch(r"some-project-name-lr-0-001-wd-1e-4-on-adamw-[a-z2-9]{6}", name)


@given(PARAMS)
def test_names_are_valid_and_short(params: dict[str, str]) -> None:
    """A name and five characters fit Kubernetes, Slurm and file systems."""
    name = run_name(["project"], params)

    assert LABEL.fullmatch(name)
    assert len(name) <= 54


def test_long_names_that_cut_alike_differ() -> None:
    """A cut name ends in a hash of everything."""
    one, two = (run_name(["p"], {"a": "x" * 80 + end}) for end in "12")

    assert one != two
    assert len(one) == len(two) == 54


def test_run_id_ends_in_a_suffix_that_is_no_number() -> None:
    """The suffix begins with a letter, so that `-2` can only be an attempt."""
    suffixes = {run_id("name").rpartition("-")[2] for _ in range(200)}

    assert all(re.fullmatch(r"[a-z][a-z0-9]{4}", suffix) for suffix in suffixes)


def test_launch_tags_are_words() -> None:
    """A launch has a name that one can remember."""
    assert re.fullmatch(r"[a-z]+-[a-z]+-\d{3}", launch_tag())
