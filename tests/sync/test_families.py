"""Of numbered checkpoints the newest."""

from __future__ import annotations

import pytest

from launchbay.sync.families import keep_latest, natural


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        (["iter_1/w", "iter_2/w", "iter_10/w", "iter_10/x"], ["iter_10/w", "iter_10/x"]),
        (["checkpoint-100/a", "checkpoint-90/a"], ["checkpoint-100/a"]),
        (["epoch=9-step=10.ckpt", "epoch=10-step=1.ckpt"], ["epoch=10-step=1.ckpt"]),
        (["a/step_2", "b/step_1"], ["a/step_2", "b/step_1"]),
        (["last.ckpt", "epoch_1.ckpt", "epoch_2.ckpt"], ["last.ckpt", "epoch_2.ckpt"]),
        (["seed_1/x", "seed_2/x"], ["seed_1/x", "seed_2/x"]),
        (["criterion_1", "criterion_2"], ["criterion_1", "criterion_2"]),
        (["iter_2/rank_0", "iter_2/rank_1"], ["iter_2/rank_0", "iter_2/rank_1"]),
        (
            [
                "ckpt-2.data-00000-of-00002",
                "ckpt-3.data-00000-of-00002",
                "ckpt-3.data-00001-of-00002",
            ],
            ["ckpt-3.data-00000-of-00002", "ckpt-3.data-00001-of-00002"],
        ),
        (["iter_007/w", "iter_0010/w"], ["iter_0010/w"]),
        ([], []),
    ],
)
def test_only_the_newest_of_each_family_is_kept(keys: list[str], kept: list[str]) -> None:
    """Numbers count as numbers, families by folder and shape; shards and seeds are no progress."""
    assert keep_latest(keys) == kept


def test_names_stand_in_the_order_of_their_numbers() -> None:
    """`iter_9` is before `iter_10`, and digits are before letters."""
    assert sorted(["iter_10", "iter_9", "b", "1", "a2", "a10"], key=natural) == [
        "1",
        "a2",
        "a10",
        "b",
        "iter_9",
        "iter_10",
    ]
