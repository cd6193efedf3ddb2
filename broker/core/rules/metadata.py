"""Decides when metadata is sent, and when it is adopted (§2.1, §4)."""

from __future__ import annotations


class MetadataRules:
    """The controller's decisions on its responses, and the brokers' on received metadata."""

    def answers_wait_for_commit(self) -> bool:
        """CT-1: a controller reports nothing that its quorum could still lose (QU-24)."""
        return True

    def is_news(self, partition_epoch: int, known_epoch: int) -> bool:
        """MD-3: only a later state of a partition replaces an earlier one (KAFKA-12686)."""
        return partition_epoch > known_epoch

    def refreshes_leader(self) -> bool:
        """ISR-5: a leader adopts the ISR and the partition epoch that the controller decided (KAFKA-2729)."""
        return True

    def publishes_min_isr(self) -> bool:
        """PR-2: the cluster's min ISR is in the metadata, so that controllers and brokers use the same one."""
        return True
