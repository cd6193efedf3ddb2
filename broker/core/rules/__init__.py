"""The protocol's decisions: one object per subject, one method per rule.

A node consults `Rules`. A protocol version (*generation*) is a set of rules; a *flaw* replaces one of them by what it
would be without the protocol's precaution (`broker.core.rules.flaws`).
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.rules.cluster_metadata import MetadataRules, ReassignmentRules, RegistrationRules
from broker.core.rules.elections import ElectionRules
from broker.core.rules.high_watermark import HighWatermarkRules
from broker.core.rules.insync_replicas import AlterPartitionRules, InsyncReplicaRules
from broker.core.rules.log import StorageRules, TruncationRules
from broker.core.rules.quorum import QuorumRules
from broker.core.rules.requests import FetchRules, ProduceRules


@dataclass(frozen=True, slots=True)
class Rules:
    """All decisions of one protocol version, possibly with flaws."""

    produce: ProduceRules
    fetch: FetchRules
    high_watermark: HighWatermarkRules
    isr: InsyncReplicaRules
    truncation: TruncationRules
    elections: ElectionRules
    registration: RegistrationRules
    alter_partition: AlterPartitionRules
    quorum: QuorumRules
    reassignment: ReassignmentRules
    metadata: MetadataRules
    storage: StorageRules
