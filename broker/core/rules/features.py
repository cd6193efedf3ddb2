"""The features that a node tells of in ApiVersions (KIP-584): what follows from its generation, and nothing else.

`metadata.version` is not among them: it stands for the format of Kafka's metadata records, and Harrow has its own.
Nor are the versions of transactions and of newer group protocols, which it does not have.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.core.rules.generations import GENERATIONS

_FIRST_WITH_ELR = "K4"


class Feature(NamedTuple):
    """A feature: the levels that the program can have, and the one that is in force; 0 is off."""

    name: str
    lowest: int
    highest: int
    level: int


def features_of(generation: str) -> tuple[Feature, ...]:
    """The features of a node of a generation. Raises ValueError if there is no such generation."""
    names = tuple(GENERATIONS)
    at = names.index(generation)
    return (
        Feature("eligible.leader.replicas.version", 0, 1, int(at >= names.index(_FIRST_WITH_ELR))),
        Feature("harrow.generation", 1, len(names), at + 1),
    )
