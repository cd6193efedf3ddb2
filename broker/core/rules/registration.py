"""What makes a registration a duplicate, and a stop unclean (§5.1)."""

from __future__ import annotations

from broker.core.metadata.image import BrokerImage


class RegistrationRules:
    """Decisions of the controller about a broker that registers."""

    def is_duplicate(self, existing: BrokerImage | None, incarnation_id: str, in_contact: bool) -> bool:
        """RG-2: another incarnation holds a session that is still valid (KAFKA-19047: fenced ones do not)."""
        return existing is not None and existing.incarnation_id != incarnation_id and existing.active and in_contact

    def stopped_cleanly(self, existing: BrokerImage | None, previous_broker_epoch: int) -> bool:
        """RG-5: the stop was clean only if the broker remembers the epoch of its last registration."""
        return existing is not None and previous_broker_epoch == existing.epoch
