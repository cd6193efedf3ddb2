"""The contract allows a loss by what the record was promised and by what has failed since."""

from __future__ import annotations

import pytest

from history.contract import ACKS_ALL, ACKS_LEADER, ACKS_NONE, loss_is_allowed, shutdowns_survived, too_many_shutdowns


@pytest.mark.parametrize(
    ("acks", "allowed"),
    [
        # neither failed, the leader alone, replicas alone, both
        (ACKS_ALL, (False, False, True, True)),
        (ACKS_LEADER, (False, True, True, True)),
        (ACKS_NONE, (True, True, True, True)),
        (None, (False, False, False, False)),
    ],
)
def test_a_loss_is_allowed_by_the_promise_and_by_what_failed(acks: int | None, allowed: tuple[bool, ...]) -> None:
    cases = [(False, False), (False, True), (True, False), (True, True)]
    assert tuple(loss_is_allowed(acks, replicas_failed=one, leader_failed=other) for one, other in cases) == allowed


@pytest.mark.parametrize("min_insync_replicas", [1, 2, 3])
def test_one_shutdown_more_than_a_record_survives_is_too_many(min_insync_replicas: int) -> None:
    survived = shutdowns_survived(min_insync_replicas)
    assert not too_many_shutdowns(survived, min_insync_replicas)
    assert too_many_shutdowns(survived + 1, min_insync_replicas)
