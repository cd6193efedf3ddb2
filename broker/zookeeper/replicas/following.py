"""A replica as follower: truncates to its high watermark, then fetches from the leader without end."""

from __future__ import annotations

from broker.core.broker_node import storage
from broker.core.log.validation import AppendError
from broker.core.messages import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import GetData
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Role
from broker.zookeeper import paths
from broker.zookeeper.choices import RAW_HIGH_WATERMARK
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import read_ids
from broker.zookeeper.replicas import leading
from broker.zookeeper.replicas.leading import BecomeLeader
from broker.zookeeper.requests.producing import NO_EPOCH
from broker.zookeeper.state import Hosted, ZooKeeperState

FOLLOWS = sometimes("zookeeper: a replica follows a leader")
CUT = sometimes("zookeeper: a follower cuts off what is above its high watermark (Z-01)")
REFUSED = sometimes("zookeeper: a follower's fetch is refused, and goes on with the same leader (Z-20)")
DOES_NOT_FIT = sometimes("zookeeper: a follower cannot append what its leader sends (Z-04)")

ANY_EPOCH = 0x7FFFFFFF
FETCH = "replica-fetch"
RETRY = "replica-fetch-retry"
CHANNEL = "replication"


def become_follower(zk: ZooKeeperState, hosted: Hosted, become_leader: BecomeLeader) -> Steps[None]:
    """`becomeFollower`: stop, truncate to the high watermark, fetch from the leader that the znode names.

    If it names this broker, which has won a race that it had given up, it leads instead.
    """
    named = yield from read_ids(paths.leader(hosted.key))
    if not named:
        return  # there will be an election
    if named[0] == zk.broker_id:
        yield from leading.take_up(zk, hosted, become_leader)
        return
    leader = named[0]
    address = yield GetData(paths.broker(leader))
    if address.error is None:
        zk.addresses[leader] = paths.decoded_address(address.data, paths.broker(leader))
    zk.procedures.cancel((leading.COMMIT, hosted.key))
    leading.step_down(zk, hosted)
    replica = hosted.replica
    before = replica.log.end_offset
    end = replica.log.truncate_to(replica.high_watermark)
    replica.high_watermark = min(replica.high_watermark, end)
    if end < before:
        zk.broker.runtime.mark(CUT)
        zk.broker.runtime.log("info", f"{hosted}: cut from {before} to {end}")
    replica.role = Role.FOLLOWER
    replica.leader = leader
    hosted.open_fetch = None
    zk.broker.runtime.mark(FOLLOWS)
    fetch(zk, hosted)


def fetch(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Ask the leader for what follows our log end, unless such a request is open."""
    replica = hosted.replica
    if replica.role is not Role.FOLLOWER or hosted.open_fetch is not None:
        return
    settings = zk.broker.settings
    part = FetchPartition(*hosted.key, replica.log.end_offset, settings.replica_fetch_max_bytes)
    hosted.open_fetch = zk.broker.runtime.send(
        replica.leader,
        FetchRequest((part,), replica_id=zk.broker_id, max_wait_ms=settings.replica_fetch_wait_max_ms),
        channel=CHANNEL,
        timeout_ms=settings.replica_fetch_wait_max_ms + settings.request_timeout_ms,
        purpose=FETCH,
        context=hosted.key,
    )


def fetched(zk: ZooKeeperState, hosted: Hosted, request_id: int, response: FetchResponse | None) -> None:
    """Append what the leader sent, take over its high watermark, and go on; after a refusal, later."""
    if hosted.open_fetch != request_id:
        return  # of an earlier leader
    hosted.open_fetch = None
    if response is not None and response.partitions[0].error_code == ErrorCode.NONE:
        try:
            _append(zk, hosted, response.partitions[0])
        except AppendError as error:
            zk.broker.runtime.mark(DOES_NOT_FIT)
            zk.broker.runtime.log("error", f"{hosted}: {error}")
        else:
            fetch(zk, hosted)
            return
    else:
        zk.broker.runtime.mark(REFUSED)
    zk.broker.runtime.set_timer((RETRY, hosted.key), zk.broker.settings.replica_fetch_backoff_ms)


def _append(zk: ZooKeeperState, hosted: Hosted, answer: FetchedPartition) -> None:
    replica = hosted.replica
    if answer.records:
        if zk.has_epochs:
            replica.log.append_as_follower(answer.records, max_epoch=ANY_EPOCH, takes_any_epoch=True)
        else:
            replica.log.append_as_follower(answer.records, max_epoch=NO_EPOCH)
        storage.appended(zk.broker, replica)
    high_watermark = answer.high_watermark
    if not zk.chose(RAW_HIGH_WATERMARK):
        high_watermark = min(high_watermark, replica.log.end_offset)
    replica.high_watermark = high_watermark
