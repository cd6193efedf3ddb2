"""A replica as follower: finds out how much of its log the leader has too, and fetches from there on.

| version | how |
|---|---|
| C1 | cuts to its high watermark, which lags behind the leader's by one fetch (B-11) |
| C2 | asks where the epoch of its last record ends at the leader, and cuts to that offset (KIP-101) |
| C3 | the answer says of which epoch the offset is; if of an earlier one, asks again with its own next one (KIP-279) |
"""

from __future__ import annotations

from broker.core.log.epoch_cache import truncation_offset
from broker.core.messages import (
    UNKNOWN,
    EpochEnd,
    EpochEndPartition,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.leadership import PartitionLeadership
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Role
from broker.zookeeper.choices import C1, C2
from broker.zookeeper.designs.controller import leading
from broker.zookeeper.procedures import Ask, Sleep, Steps
from broker.zookeeper.replicas import following
from broker.zookeeper.replicas.leading import step_down
from broker.zookeeper.state import Cut, Hosted, ZooKeeperState

SAME_LEADER = sometimes("zookeeper: a follower hears of a later epoch of its leader, and does not compare logs (B-18)")
CUT_TO_HIGH_WATERMARK = sometimes("zookeeper: a follower cuts to its high watermark (C1)")
UNDEFINED = sometimes("zookeeper: the leader does not know the follower's epoch, it cuts to its high watermark (B-17)")
CUT_TO_EPOCH = sometimes("zookeeper: a follower cuts to where its last epoch ends at the leader (KIP-101)")
AGAIN = sometimes("zookeeper: a follower asks for an earlier epoch of its own (KIP-279)")
OUT_OF_RANGE = sometimes("zookeeper: a follower's log is longer than its leader's, cut without comparing")

_LATEST = -1


def become_follower(zk: ZooKeeperState, hosted: Hosted, state: PartitionLeadership) -> None:
    """Follow a leader; one that was followed already is followed on, without a look at the logs (B-18)."""
    replica = hosted.replica
    is_same = replica.leader == state.leader and not hosted.is_open
    if is_same:
        zk.broker.runtime.mark(SAME_LEADER)
        leading.adopt_as_follower(zk, hosted, state)
        return
    if hosted.is_open:
        step_down(zk, hosted)
    leading.adopt_as_follower(zk, hosted, state)
    replica.role = Role.NONE  # until it has compared the logs
    hosted.open_fetch = None
    zk.broker.runtime.mark(following.FOLLOWS)
    zk.procedures.start((leading.COMPARE, hosted.key), _compare(zk, hosted))


def fetched(zk: ZooKeeperState, hosted: Hosted, request_id: int, response: FetchResponse | None) -> None:
    """Take what the leader sent; a log that ends behind the leader's is cut to its end."""
    is_beyond = response is not None and response.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    if hosted.open_fetch == request_id and is_beyond:
        hosted.open_fetch = None
        hosted.replica.role = Role.NONE
        zk.procedures.start((leading.COMPARE, hosted.key), _shorten(zk, hosted))
        return
    following.fetched(zk, hosted, request_id, response)


def _begin_to_fetch(zk: ZooKeeperState, hosted: Hosted) -> None:
    hosted.replica.role = Role.FOLLOWER
    following.fetch(zk, hosted)


# --- comparing -------------------------------------------------------------------------------------------------------


def _compare(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    replica = hosted.replica
    generation = zk.broker.settings.generation
    log = replica.log
    if generation == C1 or log.epochs.latest == UNKNOWN:
        _cut(zk, hosted, replica.high_watermark, Cut(to_high_watermark=True))
        _begin_to_fetch(zk, hosted)
        return
    epoch = log.epochs.latest
    while True:
        end = yield from _ask_for_end(zk, hosted, epoch)
        answered = Cut(end.leader_epoch, end.end_offset)
        if end.end_offset == UNKNOWN:
            zk.broker.runtime.mark(UNDEFINED)
            _cut(zk, hosted, replica.high_watermark, Cut(to_high_watermark=True))
            break
        zk.broker.runtime.mark(CUT_TO_EPOCH)
        if generation == C2:
            _cut(zk, hosted, min(end.end_offset, log.end_offset), answered)
            break
        own = log.epochs.end_offset(end.leader_epoch, log.end_offset)
        _cut(zk, hosted, truncation_offset(log.epochs, log.end_offset, end.leader_epoch, end.end_offset), answered)
        if own is None or own[0] == end.leader_epoch or log.epochs.latest == UNKNOWN:
            break
        zk.broker.runtime.mark(AGAIN)
        epoch = own[0]
    _begin_to_fetch(zk, hosted)


def _ask_for_end(zk: ZooKeeperState, hosted: Hosted, epoch: int) -> Steps[EpochEnd]:
    """Ask the leader until it answers."""
    settings = zk.broker.settings
    part = EpochEndPartition(*hosted.key, UNKNOWN, epoch)
    while True:
        request = OffsetForLeaderEpochRequest((part,), zk.broker_id)
        response = yield Ask(hosted.replica.leader, request, settings.request_timeout_ms)
        if response is not None and response.partitions[0].error_code == ErrorCode.NONE:
            end: EpochEnd = response.partitions[0]
            return end
        yield Sleep(settings.replica_fetch_backoff_ms)


def _shorten(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """Cut to the leader's log end, whatever is below."""
    settings = zk.broker.settings
    request = ListOffsetsRequest((ListOffsetsPartition(*hosted.key, _LATEST),), zk.broker_id)
    while True:
        response = yield Ask(hosted.replica.leader, request, settings.request_timeout_ms)
        if response is not None and response.partitions[0].error_code == ErrorCode.NONE:
            break
        yield Sleep(settings.replica_fetch_backoff_ms)
    zk.broker.runtime.mark(OUT_OF_RANGE)
    end = response.partitions[0].offset
    _cut(zk, hosted, min(end, hosted.replica.log.end_offset), Cut(end_offset=end))
    _begin_to_fetch(zk, hosted)


def _cut(zk: ZooKeeperState, hosted: Hosted, offset: int, why: Cut) -> None:
    replica = hosted.replica
    before = replica.log.end_offset
    end = replica.log.truncate_to(offset)
    replica.high_watermark = min(replica.high_watermark, end)
    hosted.last_cut = why
    if end < before:
        if why.to_high_watermark:
            zk.broker.runtime.mark(CUT_TO_HIGH_WATERMARK)
        zk.broker.runtime.log("info", f"{hosted}: cut from {before} to {end}")
