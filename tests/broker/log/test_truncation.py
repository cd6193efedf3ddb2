"""TR-9: where a follower truncates a diverging log. A log is written as (epoch, number of records) runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.log.epoch_cache import EpochCache, truncation_offset
from tests.support.memory_files import MemoryFiles

Runs = list[tuple[int, int]]


def epochs_and_end(runs: Runs) -> tuple[EpochCache, int]:
    cache = EpochCache(MemoryFiles(), "t-0")
    end = 0
    for epoch, records in runs:
        cache.assign(epoch, end)
        end += records
    return cache, end


def converge(leader: Runs, follower: Runs) -> tuple[int, int]:
    """The follower's log end offset once the leader accepts its fetch (FE-6), and the number of rounds."""
    leader_cache, leader_end = epochs_and_end(leader)
    cache, end = epochs_and_end(follower)
    for rounds in range(20):
        last_epoch = cache.epoch_at(end - 1) if end else -1
        found = leader_cache.end_offset(last_epoch, leader_end)
        if last_epoch < 0 or (found is not None and found[0] == last_epoch and found[1] >= end):
            return end, rounds
        assert found is not None, "the follower's epoch is above the leader's: an unclean election"
        end = truncation_offset(cache, end, *found)
        cache.truncate_from_end(end)
    raise AssertionError("no agreement after 20 rounds")


@pytest.mark.parametrize(
    ("leader", "follower", "end"),
    [
        pytest.param([(1, 4)], [(1, 2)], 2, id="A the follower lags"),
        pytest.param([(1, 2), (2, 2)], [(1, 2)], 2, id="B the follower lags by an epoch"),
        pytest.param([(1, 2)], [(1, 4)], 2, id="C the follower has more of the same epoch"),
        pytest.param([(1, 2), (3, 2)], [(1, 2), (2, 2)], 2, id="D the leader lacks the follower's last epoch"),
        pytest.param([(1, 2), (4, 3)], [(1, 2), (2, 1), (3, 2)], 2, id="E fork after a common prefix"),
        pytest.param([(1, 3), (3, 1)], [(1, 1), (2, 3)], 1, id="F the leader has more of the common epoch"),
        pytest.param([(5, 3)], [(1, 2), (2, 2)], 0, id="G nothing in common"),
    ],
)
def test_the_follower_ends_where_the_logs_part(leader: Runs, follower: Runs, end: int) -> None:
    assert converge(leader, follower)[0] == end


def test_a_follower_with_older_epochs_of_its_own_needs_a_step_for_each() -> None:
    leader = [(1, 2), (3, 2), (5, 2), (8, 1)]
    follower = [(1, 2), (2, 2), (4, 2), (6, 1)]
    assert converge(leader, follower) == (2, 3)


def test_a_leader_epoch_above_all_of_the_followers_bounds_only_by_the_end() -> None:
    cache, end = epochs_and_end([(1, 5)])
    assert truncation_offset(cache, end, 3, 4) == 4
    assert truncation_offset(cache, end, 3, 9) == 5


FORKS = st.lists(st.integers(1, 3), max_size=4)


@given(common=st.lists(st.integers(1, 3), max_size=4), leader=FORKS, follower=FORKS)
def test_logs_that_forked_agree_on_their_common_prefix(
    common: list[int], leader: list[int], follower: list[int]
) -> None:
    prefix = [(epoch, records) for epoch, records in enumerate(common)]
    theirs = prefix + [(10 + 2 * index, records) for index, records in enumerate(follower)]
    ours = prefix + [(11 + 2 * index, records) for index, records in enumerate(leader)] + [(99, 1)]
    end, rounds = converge(ours, theirs)
    assert end == sum(common)
    assert rounds <= len(follower) + 1
