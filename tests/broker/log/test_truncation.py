"""TR-9: where a follower truncates a diverging log. A log is written as (epoch, number of records) runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.broker_node.requests.fetching import check_position
from broker.core.log.epoch_cache import EpochCache, truncation_offset
from broker.core.log.log import Log, LogConfig
from broker.core.messages import FetchedPartition
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch
from broker.core.replica.follower import fetch_position, take_answer
from broker.core.replica.state import Replica
from broker.core.rules.flaws import rules_for
from tests.support.memory_files import MemoryFiles

Runs = list[tuple[int, int]]
RULES = rules_for("K5", ())
LEADER = SimpleNamespace(rules=RULES, runtime=SimpleNamespace(mark=lambda mark: None))
LATEST_EPOCH = 100


def replica_of(runs: Runs) -> Replica:
    """A replica whose log has these runs, in batches of one record."""
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), clean=True)
    for epoch, records in runs:
        for _ in range(records):
            log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0), epoch)
    return Replica("t", 0, "id", 1, log, leader_epoch=LATEST_EPOCH)


def epochs_and_end(runs: Runs) -> tuple[EpochCache, int]:
    log = replica_of(runs).log
    return log.epochs, log.end_offset


def converge(leader: Runs, follower: Runs) -> tuple[int, int]:
    """The follower's log end offset once the leader accepts its fetch (FE-6), and the number of rounds."""
    leading, following = replica_of(leader), replica_of(follower)
    for rounds in range(20):
        asked = fetch_position(following, RULES, 1 << 20)
        error, diverging = check_position(LEADER, leading, asked)
        assert error == ErrorCode.NONE, "the follower's epoch is above the leader's: an unclean election"
        if diverging is None:
            return following.log.end_offset, rounds
        take_answer(following, asked, FetchedPartition("t", 0, ErrorCode.NONE, diverging_epoch=diverging), RULES)
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
