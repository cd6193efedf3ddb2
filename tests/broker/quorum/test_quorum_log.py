"""The metadata log of the quorum (§18.4, §18.5): what a fetch is answered, what counts, what a follower takes over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.messages import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_TOPIC
from broker.core.quorum import elections, replication
from broker.core.quorum.state import FetchProgress, Quorum, QuorumRole
from broker.core.records import encode_batch
from tests.broker.quorum.voters import END, EPOCH, LAST, ME, NOBODY, OTHER, THIRD, UNKNOWN, sent, timer, voter

# --- QU-11, QU-16 to QU-19, QU-22: the metadata log -------------------------------------------------------------------


def part(offset: int, last_epoch: int = UNKNOWN, epoch: int = EPOCH, topic: str = METADATA_TOPIC) -> FetchPartition:
    return FetchPartition(topic, 0, offset, 1 << 20, epoch, last_epoch)


@pytest.mark.parametrize(
    ("asked", "role", "error"),
    [
        pytest.param(part(0, topic="t"), QuorumRole.LEADER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="another topic"),
        pytest.param(
            part(0)._replace(partition=1),
            QuorumRole.LEADER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            id="no partition",
        ),
        pytest.param(part(0, epoch=EPOCH - 1), QuorumRole.LEADER, ErrorCode.FENCED_LEADER_EPOCH, id="old epoch"),
        pytest.param(part(0, epoch=EPOCH + 1), QuorumRole.LEADER, ErrorCode.UNKNOWN_LEADER_EPOCH, id="new epoch"),
        pytest.param(part(0), QuorumRole.FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="no leader"),
        pytest.param(part(END + 1), QuorumRole.LEADER, ErrorCode.OFFSET_OUT_OF_RANGE, id="beyond the end"),
        pytest.param(part(END, LAST + 1), QuorumRole.LEADER, ErrorCode.OFFSET_OUT_OF_RANGE, id="unknown epoch"),
    ],
)
def test_qu_3_qu_16_fetches_that_are_refused(asked: FetchPartition, role: QuorumRole, error: ErrorCode) -> None:
    answer = replication.check_fetch(voter(role, OTHER), asked)
    assert answer is not None
    assert answer.error_code == error


@pytest.mark.parametrize(
    "asked", [part(0), part(END), part(END, LAST), part(END, epoch=UNKNOWN), part(1, LAST), part(0, LAST)]
)
def test_qu_16_fetches_that_may_read(asked: FetchPartition) -> None:
    assert replication.check_fetch(voter(QuorumRole.LEADER), asked) is None


@pytest.mark.parametrize(("offset", "last_epoch", "diverging"), [(END + 2, LAST, (LAST, END)), (2, 3, (3, 0))])
def test_qu_16_the_leader_says_where_the_logs_part(offset: int, last_epoch: int, diverging: tuple[int, int]) -> None:
    answer = replication.check_fetch(voter(QuorumRole.LEADER), part(offset, last_epoch))
    assert answer is not None
    assert (answer.error_code, answer.diverging_epoch) == (ErrorCode.NONE, diverging)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "offered"),
    [
        pytest.param(4, 2, True, id="before the log"),
        pytest.param(6, 2, False, id="exactly the end of the snapshot"),
        pytest.param(6, 1, True, id="at its end, of another epoch"),
        pytest.param(6, LAST, True, id="at its end, of a later epoch"),
        pytest.param(7, 1, True, id="an epoch that is forgotten"),
        pytest.param(7, LAST, False, id="in the log"),
    ],
)
def test_qu_16_a_snapshot_is_offered_where_the_log_has_forgotten(offset: int, last_epoch: int, offered: bool) -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.log.truncate_fully(6)
    for _ in range(3):
        quorum.log.append_as_leader(encode_batch([(None, b"record")], 0, 0, 0), LAST)
    quorum.snapshot_id = (6, 2)
    answer = replication.check_fetch(quorum, part(offset, last_epoch))
    assert (answer is not None and answer.snapshot_id == (6, 2)) is offered
    assert offered or answer is None


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        pytest.param(7, 2, (2, 6), id="the epoch of the snapshot went on for the fetcher"),
        pytest.param(7, 5, (LAST, 9), id="an epoch that the leader has never seen"),
        pytest.param(10, LAST, (LAST, 9), id="an epoch that was longer for the fetcher"),
    ],
)
def test_qu_16_the_logs_part_after_a_snapshot(offset: int, last_epoch: int, diverging: tuple[int, int]) -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.log.truncate_fully(6)
    for epoch in (LAST, LAST, LAST, LAST + 2):
        quorum.log.append_as_leader(encode_batch([(None, b"record")], 0, 0, 0), epoch)
    quorum.snapshot_id = (6, 2)
    answer = replication.check_fetch(quorum, part(offset, last_epoch))
    assert answer is not None
    assert (answer.error_code, answer.diverging_epoch, answer.snapshot_id) == (ErrorCode.NONE, diverging, None)


def fetch_by(replica: int, offset: int) -> FetchRequest:
    return FetchRequest((part(offset),), replica_id=replica)


def test_qu_11_voters_count_and_observers_do_not() -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.epoch_start = 1
    quorum.runtime.now_ms = 50
    quorum.log.mark_flushed(END, quorum.log.truncations)
    assert not replication.record_fetch(quorum, fetch_by(1, END))
    assert not replication.record_fetch(quorum, fetch_by(NOBODY, END))
    assert quorum.high_watermark == 0
    assert replication.record_fetch(quorum, fetch_by(OTHER, 2))
    assert quorum.high_watermark == 2
    assert quorum.voters[OTHER] == FetchProgress(2, 50, UNKNOWN)
    assert quorum.observers == {1: FetchProgress(END, 50, 50)}
    assert not replication.record_fetch(quorum, fetch_by(THIRD, 2))
    assert not replication.advance_high_watermark(voter(QuorumRole.FOLLOWER, OTHER))


def test_qu_11_a_deposed_leader_commits_nothing_by_the_fetches_that_it_saw() -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.log.mark_flushed(END, quorum.log.truncations)
    quorum.voters[OTHER].log_end = END
    elections.become_follower(quorum, EPOCH + 1, THIRD)
    assert not replication.advance_high_watermark(quorum)
    assert quorum.high_watermark == 0


def test_qu_13_a_fetch_that_proves_nothing_still_shows_that_the_voter_lives() -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.runtime.now_ms = 70
    replication.touch_fetcher(quorum, OTHER)
    replication.touch_fetcher(quorum, 1)
    assert quorum.voters == {OTHER: FetchProgress(UNKNOWN, 70, UNKNOWN), THIRD: FetchProgress()}


def test_qu_25_brokers_read_what_is_committed_and_voters_everything() -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.high_watermark = 1
    assert not replication.record_fetch(quorum, fetch_by(0, 1))
    assert list(quorum.observers) == [0]
    whole, committed = (len(replication.read(quorum, fetch_by(one, 0)).records) for one in (OTHER, 1))
    assert whole == 3 * committed > 0
    assert replication.read(quorum, fetch_by(1, 1)).records == b""
    assert replication.read(quorum, fetch_by(OTHER, END)).records == b""


@pytest.mark.parametrize(("asked", "allowed", "batches"), [(3.0, 3.0, 3), (1.5, 3.0, 1), (3.0, 2.5, 2), (0.5, 3.0, 1)])
def test_qu_16_a_fetch_gets_as_much_as_it_asks_for_and_the_leader_allows(
    asked: float, allowed: float, batches: int
) -> None:
    quorum = voter(QuorumRole.LEADER)
    size = len(replication.read(quorum, fetch_by(OTHER, 0)).records) // 3
    quorum.settings = replace(quorum.settings, metadata_fetch_max_bytes=int(allowed * size))
    request = FetchRequest((part(0)._replace(max_bytes=int(asked * size)),), replica_id=OTHER)
    assert len(replication.read(quorum, request).records) == batches * size


def test_qu_12_a_follower_fetches_from_what_is_on_its_disk() -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    quorum.log.flushed_offset = END - 1
    replication.fetch(quorum)
    assert sent(quorum, FetchRequest) == {}
    quorum.log.flushed_offset = END
    replication.fetch(quorum)
    asked = sent(quorum, FetchRequest)[OTHER]
    assert isinstance(asked, FetchRequest)
    assert asked.partitions[0][2] == END
    assert (asked.partitions[0].current_leader_epoch, asked.partitions[0].last_fetched_epoch) == (EPOCH, LAST)
    before = len(quorum.runtime.effects)
    replication.fetch(quorum)
    assert len(quorum.runtime.effects) == before
    for other in (voter(QuorumRole.UNATTACHED), voter(QuorumRole.LEADER)):
        other.log.mark_flushed(END, other.log.truncations)
        replication.fetch(other)
        assert sent(other, FetchRequest) == {}


def following(asked_epoch: int = EPOCH, offset: int = END, **answer: object) -> Quorum:
    """A follower that has been answered."""
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    quorum.fetching = True
    fields = {"current_leader": (OTHER, EPOCH), "high_watermark": 0, **answer}
    error = fields.pop("error_code", ErrorCode.NONE)
    told = FetchedPartition(METADATA_TOPIC, 0, error, **fields)  # type: ignore[arg-type]
    asked = FetchRequest((part(offset, LAST, asked_epoch),), replica_id=ME)
    replication.fetched(quorum, OTHER, asked, FetchResponse((told,)))
    return quorum


RECORD = encode_batch([(None, b"record")], END, EPOCH, 0)


def test_qu_17_a_follower_appends_and_takes_over_the_high_watermark_within_its_log() -> None:
    quorum = following(records=RECORD, high_watermark=END + 9)
    assert (quorum.log.end_offset, quorum.high_watermark, quorum.has_fetched) == (END + 1, END + 1, True)
    quorum = following(high_watermark=2)
    assert quorum.high_watermark == 2
    asked = FetchRequest((part(END, LAST),), replica_id=ME)
    told = FetchedPartition(METADATA_TOPIC, 0, ErrorCode.NONE, 1, current_leader=(OTHER, EPOCH))
    quorum.high_watermark = 2
    replication.fetched(quorum, OTHER, asked, FetchResponse((told,)))
    assert quorum.high_watermark == 2


@pytest.mark.parametrize(
    "answer",
    [
        {"asked_epoch": EPOCH - 1},
        {"offset": END - 1},
        {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"records": encode_batch([(None, b"record")], END + 5, EPOCH, 0)},
    ],
    ids=["of an earlier epoch", "to another fetch", "an error", "records that do not fit"],
)
def test_qu_4_answers_that_are_passed_over(answer: dict[str, object]) -> None:
    quorum = following(**{"records": RECORD, "high_watermark": END, **answer})  # type: ignore[arg-type]
    assert (quorum.log.end_offset, quorum.high_watermark) == (END, 0)


@pytest.mark.parametrize("answer", [None, FetchResponse((), ErrorCode.INCONSISTENT_CLUSTER_ID)])
def test_qu_17_a_fetch_that_brings_nothing_is_repeated_after_a_pause(answer: FetchResponse | None) -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    quorum.fetching = True
    quorum.log.mark_flushed(END, quorum.log.truncations)
    replication.fetched(quorum, OTHER, fetch_by(ME, END), answer)
    assert timer(quorum, replication.FETCH) == quorum.settings.metadata_retry_backoff_ms
    assert sent(quorum, FetchRequest) == {}
    replication.fetch(quorum)
    assert list(sent(quorum, FetchRequest)) == [OTHER]


def test_qu_4_who_seeks_pre_votes_takes_nothing_more_from_the_leader() -> None:
    quorum = voter(QuorumRole.PROSPECTIVE, OTHER)
    told = FetchedPartition(METADATA_TOPIC, 0, ErrorCode.NONE, END, records=RECORD, current_leader=(OTHER, EPOCH))
    replication.fetched(quorum, OTHER, FetchRequest((part(END, LAST),)), FetchResponse((told,)))
    assert (quorum.role, quorum.log.end_offset, quorum.high_watermark) == (QuorumRole.PROSPECTIVE, END, 0)


def test_qu_4_an_answer_need_not_name_the_leader() -> None:
    quorum = following(records=RECORD, high_watermark=END, current_leader=None)
    assert (quorum.leader, quorum.log.end_offset, quorum.high_watermark) == (OTHER, END + 1, END)


def test_qu_4_an_answer_may_bring_a_newer_epoch() -> None:
    quorum = following(records=RECORD, current_leader=(THIRD, EPOCH + 1))
    assert (quorum.leader, quorum.epoch, quorum.log.end_offset) == (THIRD, EPOCH + 1, END)


def test_qu_17_a_follower_cuts_where_the_logs_part_and_never_what_is_committed() -> None:
    quorum = following(diverging_epoch=(LAST, 2))
    assert quorum.log.end_offset == 2
    quorum = following(diverging_epoch=(LAST, 9))
    assert quorum.log.end_offset == END
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    quorum.high_watermark = END
    with pytest.raises(AssertionError, match="below high watermark"):
        replication._truncate(quorum, LAST, 2)


def test_qu_17_a_follower_cuts_where_its_own_records_of_the_epoch_end() -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    for _ in range(3):
        quorum.log.append_as_leader(encode_batch([(None, b"record")], 0, 0, 0), LAST + 2)
    replication._truncate(quorum, LAST + 1, END + 2)
    assert (quorum.log.end_offset, quorum.log.last_epoch) == (END, LAST)


def test_qu_21_a_follower_that_is_offered_a_snapshot_asks_for_it() -> None:
    quorum = following(snapshot_id=(9, LAST))
    assert quorum.snapshot_transfer == ((9, LAST), b"")


def test_qu_22_the_leader_describes_who_has_fetched_lately() -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.runtime.now_ms = 400_000
    quorum.observers = {1: FetchProgress(2, 399_000, 1), 2: FetchProgress(2, 100_000, 1)}
    description = replication.describe(quorum)
    assert [one.replica_id for one in description.voters] == [ME, OTHER, THIRD]
    assert [one.replica_id for one in description.observers] == [1]
    assert replication.describe(voter(QuorumRole.FOLLOWER, OTHER)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
