"""The predefined models: those in which the correct protocol is searched, and one that shows each known flaw.

`MODEL` gives, for comparison, how long the shortest counterexample is in the published TLA+ model with the same rule
removed (KIP-966 model of Vanlightly/kafka-tlaplus, breadth first; the number of states, the initial one included).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from common.names import unknown
from simulation.exhaustive.spec import BROKERS, MIN_ISR, ModelBudget, ModelSpec, reassign
from simulation.scenario.overrides import check_names

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


_KEYS = ("world", "isr", "prefixes", "moves", *(field for field in ModelBudget._fields if field != "orders"))


def specs_of(generation: str | None, flaws: Sequence[str], settings: Iterable[str]) -> list[ModelSpec]:
    """The models to search: the one that the settings describe, else those that show the flaws, else all predefined.

    Raises ValueError: what was expected, what was found.
    """
    generation = generation or "K5"
    check_names(generation, flaws)
    given = dict(_parse(settings))
    if given:
        return [replace(_described(given), generation=generation, flaws=tuple(flaws))]
    if not flaws:
        return [replace(spec, generation=generation) for spec in CORRECT]
    unknown = [flaw for flaw in flaws if flaw not in HUNTS]
    if unknown:
        raise ValueError(
            f"expected a flaw with a model of its own ({', '.join(sorted(HUNTS))}), found {unknown[0]}: "
            "describe a model with --set, for example --set records=2 --set fences=1"
        )
    return [replace(HUNTS[flaw], generation=generation) for flaw in flaws]


def _parse(settings: Iterable[str]) -> Iterable[tuple[str, str]]:
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"expected KEY=VALUE, found {setting!r}")
        if key not in _KEYS:
            raise ValueError(unknown(key, _KEYS, "a setting of models"))
        yield key, value


def _described(given: dict[str, str]) -> ModelSpec:
    name = given.pop("world", None)
    stated = {spec.name: spec for spec in (*CORRECT, *HUNTS.values())}
    if name is not None and name not in stated:
        raise ValueError(f"world: {unknown(name, stated)}")
    spec = ModelSpec() if name is None else stated[name]
    changes: dict[str, Any] = {}
    budget = spec.budget
    for key, value in given.items():
        if key == "isr":
            changes["initial_isr"] = _number(key, value, MIN_ISR, len(BROKERS))
        elif key == "prefixes":
            changes["keeps_prefix"] = bool(_number(key, value, 0, 1))
        elif key == "moves":
            changes["orders"] = reassign(*_moves(value))
            budget = budget._replace(orders=len(changes["orders"]))
        else:
            budget = budget._replace(**{key: _number(key, value, 0, 9)})
    return replace(spec, budget=budget, **changes)


def _number(key: str, value: str, low: int, high: int) -> int:
    if not value.isdecimal() or not low <= int(value) <= high:
        raise ValueError(f"expected {key} from {low} to {high}, found {value!r}")
    return int(value)


def _moves(value: str) -> list[tuple[int, ...]]:
    """`1.2/1.2.3`: to brokers 1 and 2, then to all three."""
    moves = []
    for target in value.split("/"):
        members = tuple(int(member) for member in target.split(".") if member.isdecimal())
        if not members or len(set(members)) < len(members) or not set(members) <= set(BROKERS):
            raise ValueError(f"expected replicas like 1.2/1.2.3 for moves, found {value!r}")
        moves.append(members)
    return moves
