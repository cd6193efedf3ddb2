"""A state of the whole model: a tuple of numbers, each of which identifies a value that is stored once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Kept = TypeVar("Kept", bound=Hashable)


class ModelState(NamedTuple):
    """Numbers of the states of the controller and the three brokers, and of everything else."""

    controller: int
    first: int
    second: int
    third: int
    net: int  # messages in flight
    metadata: int  # batches that some broker lacks
    ghost: int
    budget: int


class InternTable(Generic[Kept]):
    """Interns values: each distinct value has a number."""

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
