"""Selects the controller to send to: the known quorum leader, otherwise each voter in turn."""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState


def try_another_controller(broker: BrokerState, leader: tuple[int, int] | None = None) -> None:
    """QU-18: the current controller did not serve; use the leader it named, or the next voter."""
    voters = sorted(broker.settings.voters)
    if leader is not None and leader[0] in broker.settings.voters:
        broker.controller_id = leader[0]
    else:
        broker.controller_id = voters[(voters.index(broker.controller_id) + 1) % len(voters)]
