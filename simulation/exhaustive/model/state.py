"""A state of the whole model: a tuple of numbers, each of which identifies a value that is stored once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from simulation.exhaustive.model.events import Answered, Arrives
from simulation.exhaustive.model.local import Nodes

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


class Nets:
    """Every set of messages that was ever in flight, by number; messages are identified by the numbers of their events.

    A set is kept lane by lane, in order within each: a lane is one direction of one connection.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._sets: InternTable[tuple[int, ...]] = InternTable()
        self._lanes: dict[int, int] = {}
        self._lane_numbers: dict[Hashable, int] = {}

    def __getitem__(self, number: int) -> tuple[int, ...]:
        return self._sets[number]

    def number(self, messages: Iterable[int]) -> int:
        """The number of these messages; those of one lane come in their order."""
        return self._sets.number(tuple(sorted(messages, key=self._lane)))

    def first_ones(self, number: int) -> Iterator[int]:
        """The messages that may arrive next: the first of each lane."""
        previous = -1
        for message in self._sets[number]:
            lane = self._lanes[message]
            if lane != previous:
                yield message
            previous = lane

    def without(self, number: int, message: int, instead: Iterable[int] = ()) -> int:
        """The number of the messages without the first one equal to `message`, and with `instead`."""
        messages = list(self._sets[number])
        messages.remove(message)
        return self.number([*messages, *instead])

    def _lane(self, message: int) -> int:
        lane = self._lanes.get(message)
        if lane is None:
            event = self._nodes.events[message]
            assert isinstance(event, Arrives | Answered)
            given_up = isinstance(event, Arrives) and not event.wanted  # on a connection of its own
            key = (type(event), event.client, event.server, event.channel, message if given_up else None)
            lane = self._lanes[message] = self._lane_numbers.setdefault(key, len(self._lane_numbers))
        return lane
