"""Checks that no write waits for what has happened (V-30): a leader answers it in the step in which it learns of that.

Of acks=all that is that the high watermark has passed its records; of acks=1 that they are in the leader's log, and
synced where only that counts. What the answer says P-12, P-15 and P-31 judge.
"""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.replica.state import Role
from simulation.invariants.properties import Violation


def check(state: BrokerState) -> None:
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
