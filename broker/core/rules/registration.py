"""Decides whether a registration is a duplicate, and a stop unclean (§5.1)."""

from __future__ import annotations

from broker.core.metadata.image import BrokerImage


class RegistrationRules:
    """The controller's decisions on a registering broker."""

    def is_duplicate(self, existing: BrokerImage | None, incarnation_id: str, in_contact: bool) -> bool:
        """RG-2: another incarnation holds a session that is still valid (KAFKA-19047: fenced ones do not)."""
        return existing is not None and existing.incarnation_id != incarnation_id and existing.active and in_contact

    def is_current(self, registered_epoch: int, given_epoch: int) -> bool:
        """HB-1, AP-2, RG-7: requests of an earlier incarnation of a broker are void (KIP-380)."""
        return given_epoch == registered_epoch

    def ends_earlier_incarnation(self) -> bool:
        """RG-6: in one batch with its registration a broker leaves its earlier incarnation's leaderships and ISRs."""
        return True

    def to_fence(self, expired: tuple[int, ...]) -> tuple[int, ...]:
        """HB-4: one broker at a time, the longest silent first, so each change builds on the last (KAFKA-13173)."""
        return expired[:1]

    def stopped_cleanly(self, existing: BrokerImage | None, previous_broker_epoch: int) -> bool:
        """RG-5: the stop was clean only if the broker remembers the epoch of its last registration."""
        return existing is not None and previous_broker_epoch == existing.epoch
