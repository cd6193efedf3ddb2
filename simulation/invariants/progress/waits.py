"""Checks that no write and no fetch waits for what has happened (V-30): it is answered when its node learns of that.

A write of acks=all waits until the high watermark has passed its records; one of acks=1 until they are in the leader's
log, and synced where only that counts. A fetch that asks for no certain number of bytes waits until there is a record,
and one of the metadata also until its high watermark has moved. What the answers say other properties judge.
"""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.messages import FetchPartition
from broker.core.replica.state import Role
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.node_views import broker_state, controllers
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.properties import Violation


def check_writes(state: BrokerState) -> None:
    """V-30, after a step of a broker that has writes to answer."""
    for replica in state.replicas.values():
        if replica.role is not Role.LEADER:
            continue
        for required, by_replicas in replica.waiting_produces.values():
            reached = replica.high_watermark if by_replicas else replica.reported_end
            if reached >= required:
                what = "its high watermark" if by_replicas else "its log, which suffices,"
                raise Violation(
                    "V-30",
                    f"{replica.topic}-{replica.partition}: leader {state.broker_id} has not answered a write up to "
                    f"offset {required}, though {what} is at {reached}",
                )


def check_fetches(known: Knowledge, cluster: SimulatedCluster) -> None:
    """V-30, twice a virtual second."""
    for broker_id in known.brokers:
        state = broker_state(cluster.machines[broker_id].node)
        for waiting in state.fetches.values() if state is not None else ():
            fetch = waiting.fetch
            if fetch.request.min_bytes > 1:
                continue
            for part in fetch.request.partitions:
                entry = fetch.entry(part)
                if entry is None or entry.rest is None:
                    _check(state, fetch.request.replica_id, part)


def check_metadata_fetches(cluster: SimulatedCluster) -> None:
    """V-30, twice a virtual second."""
    for node_id, state in controllers(cluster):
        quorum = state.quorum
        for waiting in state.fetches.values():
            fetcher, offset = waiting.request.replica_id, waiting.request.partitions[0].fetch_offset
            readable = quorum.log.end_offset if fetcher in quorum.voters else quorum.high_watermark
            news = ""
            if not quorum.leads:
                news = "it does not lead the quorum any more"
            elif offset < readable:
                news = f"there are records up to {readable}"
            elif waiting.told_high_watermark < quorum.high_watermark:
                news = f"the high watermark has moved from {waiting.told_high_watermark} to {quorum.high_watermark}"
            if news:
                fetch = f"node {fetcher}'s fetch of the metadata from {offset}"
                raise Violation("V-30", f"controller {node_id} lets {fetch} wait, though {news}")


def _check(state: BrokerState | None, follower: int, part: FetchPartition) -> None:
    """A partition of a fetch that waits. Compaction may have left no record up to the end."""
    assert state is not None
    replica = state.replicas.get((part.topic, part.partition))
    if replica is None:
        raise Violation(
            "V-30",
            f"{part.topic}-{part.partition}: broker {state.broker_id} lets a fetch from {part.fetch_offset} wait, "
            "though it has no such replica any more",
        )
    if replica.role is not Role.LEADER or replica.log.config.compaction is not None:
        return
    is_certain = replica.high_watermark >= replica.leader_epoch_start
    end = replica.log.end_offset if follower >= 0 else replica.high_watermark if is_certain else -1
    if replica.log.start_offset <= part.fetch_offset < end:
        raise Violation(
            "V-30",
            f"{replica.topic}-{replica.partition}: leader {state.broker_id} lets a fetch from {part.fetch_offset} "
            f"wait, though there are records up to {end}",
        )
