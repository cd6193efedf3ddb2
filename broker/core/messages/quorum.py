"""Requests between controllers, and DescribeQuorum."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.messages.common import NO_LEADER, UNKNOWN


class VoteRequest(NamedTuple):
    """Vote (52) for one candidate; with `pre_vote` (KIP-996) the epoch is the current one and no vote is spent."""

    cluster_id: str
    voter_id: int
    candidate_id: int
    candidate_epoch: int
    last_epoch: int
    last_epoch_end_offset: int
    pre_vote: bool = False


class VoteResponse(NamedTuple):
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN
    vote_granted: bool = False


class BeginQuorumEpochRequest(NamedTuple):
    cluster_id: str
    voter_id: int
    leader_id: int
    leader_epoch: int


class BeginQuorumEpochResponse(NamedTuple):
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN


class EndQuorumEpochRequest(NamedTuple):
    cluster_id: str
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...]


class EndQuorumEpochResponse(NamedTuple):
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN


class FetchSnapshotRequest(NamedTuple):
    cluster_id: str
    replica_id: int
    max_bytes: int
    current_leader_epoch: int
    snapshot_id: tuple[int, int]  # (end offset, epoch)
    position: int


class FetchSnapshotResponse(NamedTuple):
    error_code: int
    snapshot_id: tuple[int, int] = (-1, -1)
    size: int = 0
    position: int = 0
    data: bytes = b""
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN


class DescribeQuorumRequest(NamedTuple):
    """DescribeQuorum (55) of the metadata log."""


class QuorumReplica(NamedTuple):
    replica_id: int
    log_end_offset: int
    last_fetch_ms: int = -1  # milliseconds since 1970, -1 if unknown
    last_caught_up_ms: int = -1


class DescribeQuorumResponse(NamedTuple):
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN
    high_watermark: int = UNKNOWN
    voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()
