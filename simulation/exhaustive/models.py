"""The predefined models: those in which the correct protocol is searched, and one that shows each known flaw.

`MODEL` gives, for comparison, how long the shortest counterexample is in the published TLA+ model with the same rule
removed (KIP-966 model of Vanlightly/kafka-tlaplus, breadth first; the number of states, the initial one included).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from simulation.exhaustive.spec import ModelBudget, ModelSpec, reassign

_MOVED_AWAY_AND_BACK = reassign((1, 2), (1, 2, 3))

CORRECT: tuple[ModelSpec, ...] = (
    ModelSpec(name="lost-answer", budget=ModelBudget(lost_answers=1)),
    ModelSpec(name="moves", budget=ModelBudget(orders=2), initial_isr=3, orders=_MOVED_AWAY_AND_BACK),
    ModelSpec(name="late-request", budget=ModelBudget(late_requests=1)),
    ModelSpec(name="three-records", budget=ModelBudget(records=3)),
    ModelSpec(name="shrink", budget=ModelBudget(shrinks=1)),
    ModelSpec(name="kill", budget=ModelBudget(kills=1), initial_isr=3),
    ModelSpec(name="two-records-shrink", budget=ModelBudget(records=2, shrinks=1), initial_isr=3),
    ModelSpec(name="power-loss", budget=ModelBudget(power_losses=1), initial_isr=3),
    ModelSpec(name="fence", budget=ModelBudget(records=2, fences=1), initial_isr=3),
)
"""The models in which the correct protocol is searched, smallest first."""

_HUNTS: Mapping[str, ModelSpec] = {
    "advance-below-min-isr": ModelSpec(budget=ModelBudget(fences=1)),
    "eager-shrink": ModelSpec(budget=ModelBudget(shrinks=1)),
    "fenced-joins-isr": ModelSpec(),
    "unclean-stays-eligible": ModelSpec(budget=ModelBudget(power_losses=1)),
    "current-isr-only": ModelSpec(),
    "join-below-high-watermark": ModelSpec(),
    "eligible-never-emptied": ModelSpec(budget=ModelBudget(fences=1), initial_isr=3),
    "partition-epoch-unchecked": ModelSpec(budget=ModelBudget(fences=1, shrinks=1), initial_isr=3),
    "rebooted-joins-isr": ModelSpec(budget=ModelBudget(power_losses=1)),
    "remembered-after-reassignment": ModelSpec(
        budget=ModelBudget(orders=2), initial_isr=3, orders=_MOVED_AWAY_AND_BACK
    ),
    "join-below-epoch-start": ModelSpec(budget=ModelBudget(fences=1)),
    "rollback-on-any-error": ModelSpec(budget=ModelBudget(lost_answers=1)),
    "old-metadata-applied": ModelSpec(budget=ModelBudget(fences=1, shrinks=1), initial_isr=3),
    "min-isr-of-maximal-isr": ModelSpec(budget=ModelBudget(fences=1)),
    "keep-last-in-sync": ModelSpec(budget=ModelBudget(fences=1, power_losses=1)),
    "logs-not-compared": ModelSpec(budget=ModelBudget(records=2, fences=1), initial_isr=3),
    "high-watermark-from-log-end": ModelSpec(budget=ModelBudget(records=2, kills=1), initial_isr=3),
    "believe-fetch-offset": ModelSpec(budget=ModelBudget(records=2, kills=1), initial_isr=3),
    "truncate-to-high-watermark": ModelSpec(budget=ModelBudget(records=2, kills=1), initial_isr=3),
    "high-watermark-before-cut": ModelSpec(budget=ModelBudget(records=2, fences=1), initial_isr=3),
    "diverging-fetch-counts": ModelSpec(budget=ModelBudget(records=2, fences=1), initial_isr=3),
    "ack-before-replication": ModelSpec(),
    "leader-epoch-unchecked": ModelSpec(budget=ModelBudget(orders=2), initial_isr=3, orders=_MOVED_AWAY_AND_BACK),
    "behind-follower-counts": ModelSpec(budget=ModelBudget(orders=2), initial_isr=3, orders=_MOVED_AWAY_AND_BACK),
}

HUNTS: Mapping[str, ModelSpec] = MappingProxyType(
    {flaw: replace(spec, name=flaw, flaws=(flaw,)) for flaw, spec in _HUNTS.items()}
)
"""By flaw: a model that shows it."""

MODEL: Mapping[str, int] = MappingProxyType(
    {
        "advance-below-min-isr": 4,
        "eager-shrink": 5,
        "fenced-joins-isr": 6,
        "unclean-stays-eligible": 11,
        "current-isr-only": 12,
        "join-below-high-watermark": 12,
        "eligible-never-emptied": 12,
        "partition-epoch-unchecked": 12,
        "rebooted-joins-isr": 14,
        "remembered-after-reassignment": 14,
        "join-below-epoch-start": 15,
        "rollback-on-any-error": 15,
        "old-metadata-applied": 16,
        "min-isr-of-maximal-isr": 10,
        "keep-last-in-sync": 8,
        "logs-not-compared": 15,
    }
)
"""By flaw: states of the shortest counterexample of the TLA+ model."""
