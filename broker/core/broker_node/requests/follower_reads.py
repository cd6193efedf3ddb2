"""Lets consumers that name a rack read from a follower in it (KIP-392): the leader's choice.

A replica selector other than the leader itself has to be set (`replica.selector.class`). A consumer goes to the replica
that it is told for some minutes, and comes back to the leader when it meets an error there.
"""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.configuration.settings import CLIENT_LISTENER
from broker.core.messages import NO_PREFERRED_REPLICA, FetchPartition
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Replica

SENT_TO_FOLLOWER = sometimes("fetch: the leader sends a consumer to a follower in its rack (FE-13)")


def preferred_replica(broker: BrokerState, replica: Replica, rack: str, part: FetchPartition) -> int:
    """FE-13: the follower that a consumer in a rack should read from; `NO_PREFERRED_REPLICA`: this leader.

    Of the followers that qualify it is the one whose log is known to reach furthest.
    """
    if broker.settings.replica_selector != "rack-aware" or not rack or rack == broker.settings.rack:
        return NO_PREFERRED_REPLICA
    qualified = [
        (-remote.log_end, -remote.caught_up_ms, member)
        for member, remote in replica.remotes.items()
        if _is_reachable(broker, member, rack)
        and broker.rules.fetch.may_be_preferred(
            member in replica.isr, part.fetch_offset, remote.log_start, remote.log_end
        )
    ]
    if not qualified:
        return NO_PREFERRED_REPLICA
    broker.runtime.mark(SENT_TO_FOLLOWER)
    return min(qualified)[-1]


def _is_reachable(broker: BrokerState, member: int, rack: str) -> bool:
    found = broker.image.brokers.get(member)
    return found is not None and found.active and found.rack == rack and found.address(CLIENT_LISTENER) is not None
