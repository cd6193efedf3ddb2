"""Snapshots of the metadata log (§18.6): when one is taken, what a leader serves, what a follower takes over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.messages import FetchRequest, FetchSnapshotRequest, FetchSnapshotResponse
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image
from broker.core.metadata.records import encode_change
from broker.core.ports.files import StorageError
from broker.core.quorum import replication, snapshots
from broker.core.quorum.state import Quorum, QuorumRole
from broker.core.records import encode_batch
from tests.broker.quorum.voters import CLUSTER, END, EPOCH, LAST, ME, OTHER, UNKNOWN, sent, voter

TAKEN = (2, LAST)
"""Id of the snapshot that the tests begin with."""


def image(end_offset: int = TAKEN[0], number: int = 7) -> Image:
    return Image(end_offset, next_producer_id=number)


def with_snapshot(role: QuorumRole = QuorumRole.LEADER) -> Quorum:
    quorum = voter(role, OTHER)
    quorum.high_watermark = TAKEN[0]
    snapshots.take(quorum, image())
    return quorum


# --- QU-20: taking ----------------------------------------------------------------------------------------------------


def test_qu_20_a_snapshot_stands_for_the_log_before_it() -> None:
    quorum = with_snapshot()
    assert (quorum.snapshot_id, quorum.log.start_offset, quorum.log.end_offset) == (TAKEN, TAKEN[0], END)
    assert snapshots.find(quorum.files, "metadata") == [TAKEN]
    quorum.snapshot_id = (0, UNKNOWN)
    assert snapshots.load_latest(quorum) == image()
    assert quorum.snapshot_id == TAKEN


@pytest.mark.parametrize(
    "end_offset", [pytest.param(END, id="not committed"), pytest.param(TAKEN[0], id="taken"), pytest.param(1, id="old")]
)
def test_qu_20_no_snapshot_of_what_is_not_committed_or_not_new(end_offset: int) -> None:
    quorum = with_snapshot()
    snapshots.take(quorum, image(end_offset, 8))
    assert (quorum.snapshot_id, quorum.log.start_offset) == (TAKEN, TAKEN[0])
    assert snapshots.find(quorum.files, "metadata") == [TAKEN]
    assert snapshots.load_latest(quorum) == image()


def test_qu_20_a_newer_snapshot_takes_the_place_of_the_older() -> None:
    quorum = with_snapshot()
    quorum.high_watermark = END
    snapshots.take(quorum, image(END, 8))
    assert snapshots.find(quorum.files, "metadata") == [(END, LAST)]
    assert snapshots.load_latest(quorum) == image(END, 8)


def test_qu_20_a_snapshot_has_the_epoch_of_the_last_record_that_it_covers() -> None:
    quorum = with_snapshot()
    quorum.high_watermark = END
    quorum.log.append_as_leader(encode_batch([(None, b"of the next epoch")], END, EPOCH, 0), EPOCH)
    snapshots.take(quorum, image(END, 8))
    assert quorum.snapshot_id == (END, LAST)
    assert snapshots.find(quorum.files, "metadata") == [(END, LAST)]


def test_qu_20_a_snapshot_that_cannot_be_written_leaves_the_log_before_it() -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.high_watermark = TAKEN[0]
    quorum.files.fail = lambda operation, name: operation == "replace" and name.endswith(".checkpoint")
    with pytest.raises(StorageError):
        snapshots.take(quorum, image())
    quorum.files.fail = None
    assert snapshots.find(quorum.files, "metadata") == []
    for log in (quorum.log, voter(files=quorum.files).log):
        assert (log.start_offset, log.end_offset, log.epochs.entries) == (0, END, ((LAST, 0),))


# --- QU-21: serving ---------------------------------------------------------------------------------------------------

ASKED = FetchSnapshotRequest(CLUSTER, OTHER, 1 << 20, EPOCH, TAKEN, 0)


@pytest.mark.parametrize(
    ("asked", "role", "error"),
    [
        pytest.param(
            ASKED._replace(cluster_id="other"),
            QuorumRole.LEADER,
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            id="another cluster",
        ),
        pytest.param(
            ASKED._replace(current_leader_epoch=EPOCH - 1),
            QuorumRole.LEADER,
            ErrorCode.FENCED_LEADER_EPOCH,
            id="old epoch",
        ),
        pytest.param(
            ASKED._replace(current_leader_epoch=EPOCH + 1),
            QuorumRole.LEADER,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            id="new epoch",
        ),
        pytest.param(ASKED, QuorumRole.FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="no leader"),
        pytest.param(
            ASKED._replace(snapshot_id=(1, LAST)), QuorumRole.LEADER, ErrorCode.SNAPSHOT_NOT_FOUND, id="it is gone"
        ),
        pytest.param(
            ASKED._replace(position=-1), QuorumRole.LEADER, ErrorCode.POSITION_OUT_OF_RANGE, id="before its begin"
        ),
    ],
)
def test_qu_2_qu_21_pieces_that_are_refused(asked: FetchSnapshotRequest, role: QuorumRole, error: ErrorCode) -> None:
    quorum = with_snapshot(role)
    leader = ME if role is QuorumRole.LEADER else OTHER
    answer = snapshots.handle(quorum, asked)
    assert answer == FetchSnapshotResponse(error, asked.snapshot_id, leader_id=leader, leader_epoch=EPOCH)


def test_qu_21_there_is_nothing_at_the_end_of_a_snapshot() -> None:
    quorum = with_snapshot()
    size = snapshots.handle(quorum, ASKED).size
    assert snapshots.handle(quorum, ASKED._replace(position=size - 1)).error_code == ErrorCode.NONE
    assert snapshots.handle(quorum, ASKED._replace(position=size)).error_code == ErrorCode.POSITION_OUT_OF_RANGE


def test_qu_21_brokers_need_not_know_the_epoch_nor_name_the_cluster() -> None:
    answer = snapshots.handle(with_snapshot(), ASKED._replace(cluster_id="", current_leader_epoch=UNKNOWN))
    assert answer.error_code == ErrorCode.NONE
    assert len(answer.data) == answer.size > 0


@pytest.mark.parametrize(
    ("asked_bytes", "allowed_bytes", "found_bytes"), [(10, 1 << 20, 10), (1 << 20, 11, 11), (0, 1 << 20, 1)]
)
def test_qu_21_a_piece_is_as_large_as_asked_for_and_allowed_and_never_empty(
    asked_bytes: int, allowed_bytes: int, found_bytes: int
) -> None:
    quorum = with_snapshot()
    whole = snapshots.handle(quorum, ASKED)
    quorum.settings = replace(quorum.settings, metadata_snapshot_fetch_max_bytes=allowed_bytes)
    piece = snapshots.handle(quorum, ASKED._replace(max_bytes=asked_bytes, position=3))
    assert piece == whole._replace(position=3, data=whole.data[3 : 3 + found_bytes])


# --- QU-21: taking over -----------------------------------------------------------------------------------------------

OFFERED = (9, LAST)
DATA = encode_change(image().to_records(), 0, LAST)
PIECE = FetchSnapshotResponse(ErrorCode.NONE, OFFERED, len(DATA), 0, DATA[:20], OTHER, EPOCH)


def taking_over() -> Quorum:
    """A follower that awaits the first piece."""
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    quorum.log.mark_flushed(END, quorum.log.truncations)
    snapshots.begin_transfer(quorum, OFFERED)
    return quorum


def awaited(quorum: Quorum) -> int:
    """The position of the piece that was asked for last."""
    request = sent(quorum, FetchSnapshotRequest)[OTHER]
    assert isinstance(request, FetchSnapshotRequest)
    assert (request.cluster_id, request.replica_id, request.snapshot_id) == (CLUSTER, ME, OFFERED)
    assert request.current_leader_epoch == EPOCH
    return request.position


def test_qu_21_a_follower_asks_piece_by_piece_and_begins_its_log_where_the_snapshot_ends() -> None:
    quorum = taking_over()
    assert awaited(quorum) == 0
    assert snapshots.arrived(quorum, PIECE) is None
    assert awaited(quorum) == 20
    replication.fetch(quorum)
    assert sent(quorum, FetchRequest) == {}
    assert quorum.log.end_offset == END
    assert snapshots.arrived(quorum, PIECE._replace(position=20, data=DATA[20:])) == image(OFFERED[0])
    assert (quorum.log.start_offset, quorum.log.end_offset) == (OFFERED[0], OFFERED[0])
    assert (quorum.high_watermark, quorum.snapshot_id) == (OFFERED[0], OFFERED)
    assert snapshots.load_latest(quorum) == image(OFFERED[0])
    replication.fetch(quorum)
    asked = sent(quorum, FetchRequest)[OTHER]
    assert isinstance(asked, FetchRequest)
    assert (asked.partitions[0].fetch_offset, asked.partitions[0].last_fetched_epoch) == OFFERED


@pytest.mark.parametrize(
    ("answer", "role"),
    [
        pytest.param(None, QuorumRole.FOLLOWER, id="none came"),
        pytest.param(FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, OFFERED), QuorumRole.FOLLOWER, id="an error"),
        pytest.param(PIECE._replace(snapshot_id=(8, LAST)), QuorumRole.FOLLOWER, id="of another snapshot"),
        pytest.param(PIECE._replace(position=20), QuorumRole.FOLLOWER, id="of another place"),
        pytest.param(PIECE._replace(data=DATA), QuorumRole.CANDIDATE, id="to one that follows no more"),
        pytest.param(PIECE._replace(data=DATA[:-1] + b"?"), QuorumRole.FOLLOWER, id="damaged"),
    ],
)
def test_qu_21_a_transfer_that_goes_wrong_is_given_up(answer: FetchSnapshotResponse | None, role: QuorumRole) -> None:
    quorum = taking_over()
    quorum.role = role
    assert snapshots.arrived(quorum, answer) is None
    assert quorum.snapshot_transfer is None
    assert (quorum.log.end_offset, quorum.high_watermark, quorum.snapshot_id) == (END, 0, (0, UNKNOWN))
    assert snapshots.find(quorum.files, "metadata") == []
    assert snapshots.arrived(quorum, PIECE._replace(data=DATA)) is None


def test_qu_21_a_piece_that_nobody_awaits_is_passed_over() -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    assert snapshots.arrived(quorum, PIECE._replace(data=DATA)) is None
    assert (quorum.log.end_offset, quorum.leader) == (END, OTHER)
    assert sent(quorum, FetchSnapshotRequest) == {}
