"""Checks how leaders ask for changes of the ISR: one at a time, and each that is pending (P-22)."""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.messages import AlterPartitionRequest
from broker.core.replica.state import Role
from simulation.invariants.knowledge import BrokerMirror, Knowledge


def request_sent(known: Knowledge, broker: BrokerMirror, request_id: int, request: AlterPartitionRequest) -> None:
    """P-22: at most one change of one state of a partition is in flight."""
    part = request.partitions[0]
    change = (part.topic, part.partition, part.leader_epoch, part.partition_epoch)
    if change in broker.alterations.values():
        ghost = known.ghost_of(part.topic, part.partition)
        if ghost is not None:
            known.fail(
                ghost,
                "P-22",
                f"broker {broker.broker_id} sent a second AlterPartition for leader epoch {part.leader_epoch}, "
                f"partition epoch {part.partition_epoch} while the first is not answered",
            )
    broker.alterations[request_id] = change


def check(known: Knowledge, broker: BrokerMirror, state: BrokerState) -> None:
    """P-22, when changes have become pending in a step, whose requests were noted: nobody else asks for them later."""
    proposed, broker.proposed = broker.proposed, []
    for replica in proposed:
        pending = replica.pending_isr
        if pending is None or replica.role is not Role.LEADER or state.rules.isr.ms_until_request():
            continue
        request = pending.request
        if (*replica.key, request.leader_epoch, request.partition_epoch) not in broker.alterations.values():
            known.fail(
                known.ghost(replica.topic, replica.topic_id, replica.partition),
                "P-22",
                f"broker {broker.broker_id} counts with the ISR {list(pending.isr)}, and has not asked for it",
            )
