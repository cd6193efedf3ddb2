"""A state of the whole world: a few numbers, each the name of something that is kept once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Kept = TypeVar("Kept", bound=Hashable)


class State(NamedTuple):
    """The controller, the three brokers, and what is between and around them."""

    controller: int
    first: int
    second: int
    third: int
    net: int  # messages on their way
    metadata: int  # batches that some broker lacks
    ghost: int
    budget: int


class Table(Generic[Kept]):
    """Values, each with a number."""

    def __init__(self) -> None:
        self.values: list[Kept] = []
        self._numbers: dict[Kept, int] = {}

    def __getitem__(self, number: int) -> Kept:
        return self.values[number]

    def number(self, value: Kept) -> int:
        """The number of a value; equal values have one."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found
