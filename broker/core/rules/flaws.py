"""Known flaws: each is one rule taken out of a correct generation, under a speaking name.

They prove that the harness can find what it is for. Chosen at start-up only; the normal path never asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from broker.core.log.epoch_cache import EpochCache
from broker.core.messages import UNKNOWN
from broker.core.rules import Rules
from broker.core.rules.elections import Election, ElectionRules
from broker.core.rules.generations import GENERATIONS
from broker.core.rules.producing import ProduceRules
from broker.core.rules.truncation import TruncationRules


class Flaw(NamedTuple):
    """A flaw: `number` is its id in the bug zoo, `breaks` the property it breaks, `source` where it was found."""

    name: str
    number: str
    summary: str
    breaks: str
    source: str
    apply: Callable[[Rules], Rules]


class _AcknowledgeAfterLocalAppend(ProduceRules):
    def waits_for_replicas(self, acks: int) -> bool:
        """PR-4 removed: nobody is waited for."""
        return False


class _TruncateToHighWatermark(TruncationRules):
    def on_becoming_follower(self, high_watermark: int, log_end: int) -> int | None:
        """The rule before KIP-101: cut to the own high watermark, which may lag what was committed."""
        return high_watermark

    def last_fetched_epoch(self, last_epoch_in_log: int) -> int:
        """Before KIP-101 logs were not compared by epoch."""
        return UNKNOWN

    def on_divergence(self, epochs: EpochCache, log_end: int, epoch: int, end_offset: int) -> int:
        """Never asked for, because `last_fetched_epoch` is never given."""
        return log_end


class _ElectAnyReplica(ElectionRules):
    def elect(
        self,
        leader: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        elr: tuple[int, ...],
        is_active: Callable[[int], bool],
        *,
        prefer_first: bool,
        unclean_allowed: bool,
    ) -> Election:
        """EL-9 without its condition: any active replica will do when no candidate is active."""
        return super().elect(leader, replicas, isr, elr, is_active, prefer_first=prefer_first, unclean_allowed=True)


FLAWS: dict[str, Flaw] = {
    flaw.name: flaw
    for flaw in (
        Flaw(
            "ack-before-replication",
            "B-25",
            "acks=all is answered after the leader's own append",
            "P-12 acked durability, P-15 min ISR on ack",
            "Jepsen 2013, KAFKA-1555",
            lambda rules: replace(rules, produce=_AcknowledgeAfterLocalAppend()),
        ),
        Flaw(
            "truncate-to-high-watermark",
            "B-11",
            "a replica that becomes follower cuts its log to its own high watermark",
            "P-6 no committed truncation, P-12 acked durability",
            "KIP-101 scenario 1, KAFKA-1211",
            lambda rules: replace(rules, truncation=_TruncateToHighWatermark()),
        ),
        Flaw(
            "unclean-election",
            "B-24",
            "any active replica is elected when no eligible one is there, although it was not allowed",
            "P-1 leader completeness, P-12 acked durability",
            "KIP-106, Jepsen 2013",
            lambda rules: replace(rules, elections=_ElectAnyReplica()),
        ),
    )
}


class UnknownRules(ValueError):
    """No generation or flaw of that name; the message lists those that exist."""


def rules_for(generation: str, flaws: Iterable[str]) -> Rules:
    """The rules of a generation with these flaws. Raises `UnknownRules`."""
    if generation not in GENERATIONS:
        raise UnknownRules(f"expected a generation among {', '.join(GENERATIONS)}, found {generation!r}")
    rules = GENERATIONS[generation]()
    for name in flaws:
        if name not in FLAWS:
            raise UnknownRules(f"expected a flaw among {', '.join(sorted(FLAWS))}, found {name!r}")
        rules = FLAWS[name].apply(rules)
    return rules
