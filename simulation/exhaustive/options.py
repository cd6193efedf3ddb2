"""Parses the options of an exhaustive search: which models to search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from common.names import unknown
from simulation.exhaustive.models import CORRECT, HUNTS
from simulation.exhaustive.spec import BROKERS, MIN_ISR, ModelBudget, ModelSpec, reassign
from simulation.scenario.rules import check_names

_KEYS = ("world", "isr", "prefixes", "moves", *(field for field in ModelBudget._fields if field != "orders"))


def specs(generation: str | None, flaws: Sequence[str], settings: Iterable[str]) -> list[ModelSpec]:
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
