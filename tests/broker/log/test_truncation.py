"""TR-9: where a follower truncates a diverging log. A log is written as (epoch, number of records) runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.broker_node.requests.fetching import check_position
from broker.core.log.epoch_cache import EpochCache, truncation_offset
from broker.core.log.log import Log, LogConfig
from broker.core.log.validation import EpochOutOfRange
from broker.core.messages import FetchedPartition
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch
from broker.core.replica.follower import AppendOutcome, fetch_position, restart_at, take_answer, truncate
from broker.core.replica.state import Replica, Role
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
    leading.role = Role.LEADER
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


def answer(epoch: int, offset: int) -> FetchedPartition:
    records = encode_batch([(None, b"value")], offset, epoch, 0)
    return FetchedPartition("t", 0, ErrorCode.NONE, 0, log_start_offset=0, records=records)


def test_tr_6_a_follower_takes_no_records_of_a_later_epoch_than_it_follows() -> None:
    following = replica_of([(1, 2)])
    asked = fetch_position(following, RULES, 1 << 20)
    take_answer(following, asked, answer(LATEST_EPOCH, 2), RULES)
    assert following.log.end_offset == 3
    asked = fetch_position(following, RULES, 1 << 20)
    with pytest.raises(EpochOutOfRange):
        take_answer(following, asked, answer(LATEST_EPOCH + 1, 3), RULES)
    assert following.log.end_offset == 3


def test_rt_5_and_fe_6_every_fetch_says_which_epoch_the_log_ends_in() -> None:
    following = replica_of([(1, 2)])
    for offset, epoch in ((2, 7), (3, 8)):
        asked = fetch_position(following, RULES, 1 << 20)
        assert asked.last_fetched_epoch == following.log.last_epoch
        take_answer(following, asked, answer(epoch, offset), RULES)
    assert fetch_position(following, RULES, 1 << 20).last_fetched_epoch == 8


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, AppendOutcome(wait_for_metadata=True)),
        (ErrorCode.OFFSET_OUT_OF_RANGE, AppendOutcome(out_of_range=True)),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, AppendOutcome(retry=True)),
    ],
)
def test_tr_7_tr_8_what_follows_an_error(error: ErrorCode, outcome: AppendOutcome) -> None:
    following = replica_of([(1, 2)])
    asked = fetch_position(following, RULES, 1 << 20)
    assert take_answer(following, asked, answer(1, 2)._replace(error_code=error), RULES) == outcome
    assert following.log.end_offset == 2


def test_tr_5_an_answer_to_another_fetch_is_passed_over() -> None:
    following = replica_of([(1, 2)])
    asked = fetch_position(following, RULES, 1 << 20)
    for other in (asked._replace(fetch_offset=1), asked._replace(current_leader_epoch=1)):
        assert take_answer(following, other, answer(1, 2), RULES) == AppendOutcome()
    assert following.log.end_offset == 2


def test_hw_8_truncation_takes_the_high_watermark_back() -> None:
    following = replica_of([(1, 4)])
    following.high_watermark = 3
    assert truncate(following, 2) == 2
    assert (following.high_watermark, following.log.end_offset) == (2, 2)
    following.high_watermark = 1
    truncate(following, 2)
    assert following.high_watermark == 1


def test_lo_3_hw_5_a_follower_takes_over_the_leaders_bounds_within_its_own_log() -> None:
    following = replica_of([(1, 4)])
    asked = fetch_position(following, RULES, 1 << 20)
    told = FetchedPartition("t", 0, ErrorCode.NONE, 9, log_start_offset=2)
    take_answer(following, asked, told, RULES)
    assert (following.log.start_offset, following.high_watermark, following.log.end_offset) == (2, 4, 4)
    take_answer(following, asked, told._replace(log_start_offset=1, high_watermark=3), RULES)
    assert (following.log.start_offset, following.high_watermark) == (2, 3)


def test_tr_8_a_follower_that_ends_inside_its_leaders_first_batch_takes_it_whole_and_forgets_its_own() -> None:
    """Offset 4 is of epoch 2 at the leader, whose log begins at 5: no epoch tells that the logs differ before it."""
    following = replica_of([(1, 5)])
    asked = fetch_position(following, RULES, 1 << 20)
    first = encode_batch([(None, b"value")] * 3, 4, 2, 0)
    told = FetchedPartition("t", 0, ErrorCode.NONE, 7, log_start_offset=5, records=first)
    assert take_answer(following, asked, told, RULES) == AppendOutcome(appended=2)
    assert (following.log.start_offset, following.log.end_offset, following.high_watermark) == (5, 7, 7)
    assert following.log.read(5, 1 << 20, 7) == first
    assert following.log.epochs.entries == ((2, 4),)


def test_tr_8_a_log_that_starts_again_is_empty_and_committed_there() -> None:
    following = replica_of([(1, 4)])
    following.high_watermark = 2
    restart_at(following, 9, 1, RULES)
    assert (following.log.start_offset, following.log.end_offset, following.high_watermark) == (9, 9, 9)


def test_tr_5_a_cut_is_made_at_once_unless_the_flaw_that_delays_it_is_planted() -> None:
    told = FetchedPartition("t", 0, ErrorCode.NONE, diverging_epoch=(1, 2))
    for rules, outcome, end in (
        (RULES, AppendOutcome(truncated_to=2), 2),
        (rules_for("K5", ("late-cut",)), AppendOutcome(cut_later_to=2), 4),
    ):
        following = replica_of([(1, 4)])
        assert take_answer(following, fetch_position(following, rules, 1 << 20), told, rules) == outcome
        assert following.log.end_offset == end


def test_lo_3_what_a_cut_leaves_below_the_leaders_log_start_goes_too() -> None:
    """Nobody can tell any more whether it is what the leader had there."""
    following = replica_of([(0, 8)])
    following.high_watermark = 3
    told = FetchedPartition("t", 0, ErrorCode.NONE, log_start_offset=5, diverging_epoch=(0, 5))
    assert take_answer(following, fetch_position(following, RULES, 1 << 20), told, RULES).truncated_to == 5
    assert (following.log.start_offset, following.log.end_offset, following.high_watermark) == (5, 5, 5)


@pytest.mark.parametrize("generation", ["K4", "K5"])
def test_st_6_what_follows_deleted_records_of_a_later_epoch_survives_the_death_of_the_process(generation: str) -> None:
    """The leader was elected uncleanly, and has records of epoch 2 where this replica has deleted those of epoch 3."""
    rules = rules_for(generation, ())
    files = MemoryFiles()
    following = Replica("t", 0, "id", 1, Log.open(files, "t-0", LogConfig(), clean=True), leader_epoch=4)
    following.log.append_as_leader(encode_batch([(None, b"deleted")] * 6, 0, 0, 0, 5, 0, 0), 3)
    following.log.append_as_leader(encode_batch([(None, b"cut off")], 0, 0, 0), 3)
    following.log.advance_start(6)
    for told in (
        FetchedPartition("t", 0, ErrorCode.NONE, diverging_epoch=(2, 8)),
        FetchedPartition("t", 0, ErrorCode.NONE, 0, records=encode_batch([(None, b"value")] * 2, 6, 2, 0)),
    ):
        take_answer(following, fetch_position(following, rules, 1 << 20), told, rules)
    for log in (following.log, Log.open(files, "t-0", LogConfig(), clean=False)):
        assert (log.start_offset, log.end_offset, log.epochs.entries) == (6, 8, ((2, 6),))
        assert log.recovery.reason == ""
    assert not following.log.producers.states, "those of the deleted records are not the leader's"


def test_lo_3_deleted_records_stay_in_the_file_if_what_follows_them_is_of_no_earlier_epoch() -> None:
    following = replica_of([(2, 4)])
    following.log.advance_start(4)
    asked = fetch_position(following, RULES, 1 << 20)
    told = FetchedPartition("t", 0, ErrorCode.NONE, 0, records=encode_batch([(None, b"value")], 4, 2, 0))
    assert take_answer(following, asked, told, RULES) == AppendOutcome(appended=1)
    assert following.log.segment_offsets == (0,)
