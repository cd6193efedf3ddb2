"""When the metadata is told, and when it is taken (§2.1, §4)."""

from __future__ import annotations


class MetadataRules:
    """Decisions of the controller about its answers, of brokers about what they hear."""

    def answers_wait_for_commit(self) -> bool:
        """CT-1: a controller says nothing that its quorum could still lose (QU-24)."""
        return True

    def is_news(self, partition_epoch: int, known_epoch: int) -> bool:
        """MD-3: only a later state of a partition replaces an earlier one (KAFKA-12686)."""
        return partition_epoch > known_epoch

    def refreshes_leader(self) -> bool:
        """ISR-5: a leader takes the ISR and the partition epoch that the controller has decided (KAFKA-2729)."""
        return True
