"""Obeys the controller: leads, follows and stops replicas, keeps what clients may know. Earlier epochs are ignored."""

from __future__ import annotations

from broker.core.messages import NO_LEADER, UNKNOWN
from broker.core.messages.errors import ErrorCode
from broker.core.messages.leadership import (
    LEADER_DURING_DELETE,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    OrderRequest,
    PartitionLeadership,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Role
from broker.zookeeper.designs.controller import following, leading
from broker.zookeeper.replicas import hosting
from broker.zookeeper.replicas.leading import step_down
from broker.zookeeper.state import ZooKeeperState

STALE_CONTROLLER = sometimes("zookeeper: a request of an earlier controller is refused")
STALE_LEADER = sometimes("zookeeper: a request of an earlier leader epoch, or of the same, is ignored")
NO_LEADER_NOW = sometimes("zookeeper: a broker hears of a partition without a leader, and keeps its role")
STOPPED = sometimes("zookeeper: a replica is stopped by the controller")


def obey(zk: ZooKeeperState, request_id: int, request: OrderRequest) -> None:
    """Do what a controller asks, unless a later one has asked before; answer."""
    control = zk.controlled
    error = ErrorCode.NONE
    if request.controller_epoch < control.controller_epoch:
        zk.broker.runtime.mark(STALE_CONTROLLER)
        error = ErrorCode.STALE_CONTROLLER_EPOCH
    else:
        control.controller_epoch = request.controller_epoch
        control.controller_id = request.controller_id
    match request:
        case LeaderAndIsrRequest(_, _, partitions, live):
            if error == ErrorCode.NONE:
                zk.addresses |= {one.node_id: (one.host, one.port) for one in live}
                for one in partitions:
                    _take_role(zk, one)
            zk.broker.runtime.reply(request_id, LeaderAndIsrResponse(error))
        case StopReplicaRequest(_, _, keys, deletes):
            if error == ErrorCode.NONE:
                for key in keys:
                    _stop(zk, key)
                    if deletes:
                        _delete(zk, key)
            zk.broker.runtime.reply(request_id, StopReplicaResponse(error))
        case UpdateMetadataRequest(_, _, partitions, live):
            if error == ErrorCode.NONE:
                zk.addresses |= {one.node_id: (one.host, one.port) for one in live}
                control.live = live
                control.partitions.update({one.key: one for one in partitions})
                for one in partitions:
                    if one.leader == LEADER_DURING_DELETE:
                        del control.partitions[one.key]
            zk.broker.runtime.reply(request_id, UpdateMetadataResponse(error))


def _take_role(zk: ZooKeeperState, state: PartitionLeadership) -> None:
    if zk.broker_id not in state.replicas:
        return
    hosted = hosting.host(zk, state.key)
    if hosted is None:
        return  # its disk has failed
    if state.leader_epoch <= hosted.replica.leader_epoch:
        zk.broker.runtime.mark(STALE_LEADER)
    elif state.leader == zk.broker_id:
        leading.become_leader(zk, hosted, state)
    elif state.leader == NO_LEADER:
        zk.broker.runtime.mark(NO_LEADER_NOW)
    else:
        following.become_follower(zk, hosted, state)


def _stop(zk: ZooKeeperState, key: tuple[str, int]) -> None:
    """Neither lead nor follow; the log stays."""
    hosted = zk.hosted.get(key)
    if hosted is None:
        return
    zk.broker.runtime.mark(STOPPED)
    zk.procedures.cancel((leading.COMPARE, key))
    zk.procedures.cancel((leading.ISR, key))
    if hosted.is_open:
        step_down(zk, hosted)
    hosted.replica.role = Role.NONE
    hosted.replica.leader = UNKNOWN
    hosted.open_fetch = None


def _delete(zk: ZooKeeperState, key: tuple[str, int]) -> None:
    """Delete the log, too: of whatever topic of the name it is (KIP-570 gave the request an epoch)."""
    hosted = zk.hosted.get(key)
    if hosted is not None:
        hosting.close(zk, hosted)
    elif key in zk.broker.replicas:
        hosting.delete(zk, key)
