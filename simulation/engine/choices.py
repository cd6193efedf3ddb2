"""The choice sequence: every random decision of a simulation, as bounded, labelled draws in separate streams.

A seed only fills the sequence. Value 0 is always the simplest choice: no fault, the shortest delay, the first in order.
So a sequence can be replayed, cut and lowered without knowing what its draws mean, which is all that shrinking needs;
and because streams are separate, removing a fault does not shift the draws of the network.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SEED_FORMAT = 2
"""Version of the meaning of seeds and choice sequences. It changes whenever an old one would mean something else."""

STREAMS = (
    *("configuration", "schedule", "workload", "network", "disk", "names", "groups", "topics", "settings"),
    *("zookeeper", "directories", "recipes", "questions", "traffic", "examination", "compaction", "balancing"),
    "racks",
)

_HASH_FACTOR = 0x100000001B3
_HASH_MASK = (1 << 64) - 1

LATER_STREAMS = STREAMS[STREAMS.index("settings") :]
"""Streams that count in a simulation's hash only where something was drawn from them, so that older hashes stay."""


class Draw(NamedTuple):
    """One decision: `value` of 0 … `bound` - 1."""

    label: str
    bound: int
    value: int


class Stream:
    """One stream of draws: from a seed, or from given values and then zeros."""

    __slots__ = ("_random", "draws", "given", "position", "values")

    def __init__(self, source: random.Random | None, given: Sequence[int] | None, keep_draws: bool) -> None:
        self._random = source
        self.given = given
        self.position = 0
        self.values: list[int] = []
        self.draws: list[Draw] | None = [] if keep_draws else None

    def draw(self, label: str, bound: int) -> int:
        """A number from 0 to `bound` - 1. A given value that is out of range counts as the largest."""
        if bound <= 1:
            return 0
        if self._random is not None:
            value = int(self._random.random() * bound)
        elif self.given is not None and self.position < len(self.given):
            value = min(self.given[self.position], bound - 1)
            self.position += 1
        else:
            value = 0
        self.values.append(value)
        if self.draws is not None:
            self.draws.append(Draw(label, bound, value))
        return value

    def chance(self, label: str, of_1000: int) -> bool:
        """True in `of_1000` of 1000 cases; False is the simplest outcome."""
        return self.draw(label, 1000) >= 1000 - of_1000 if of_1000 else False

    def pick(self, label: str, choices: Sequence[int]) -> int:
        """One of the choices; the first is the simplest."""
        return choices[self.draw(label, len(choices))]


class ChoiceSequence:
    """All streams of one simulation."""

    __slots__ = ("seed", "streams")

    def __init__(
        self,
        seed: int | None = None,
        given: Mapping[str, Sequence[int]] | None = None,
        *,
        keep_draws: bool = False,
    ) -> None:
        """Draw from a seed, or take given values; with both, the seed fills the streams that are not given.

        Without a seed streams that are not given are all zeros.
        """
        if seed is None and given is None:
            raise ValueError("expected a seed or given values")
        self.seed = seed
        self.streams = {
            name: Stream(None, given.get(name, ()), keep_draws)
            if given is not None and (seed is None or name in given)
            else Stream(random.Random(f"{SEED_FORMAT}/{seed}/{name}"), None, keep_draws)
            for name in STREAMS
        }

    def __getitem__(self, name: str) -> Stream:
        return self.streams[name]

    def values(self) -> dict[str, list[int]]:
        """What was drawn, without the zeros at the end of each stream; enough to replay."""
        drawn = {}
        for name, stream in self.streams.items():
            values = stream.values
            length = len(values)
            while length and values[length - 1] == 0:
                length -= 1
            drawn[name] = values[:length]
        return drawn


class RollingHash:
    """A hash over all events in order; equal hashes mean equal simulations."""

    __slots__ = ("count", "value")

    def __init__(self) -> None:
        self.value = 0xCBF29CE484222325
        self.count = 0

    def add(self, number: int) -> None:
        """Hash one number."""
        self.value = ((self.value ^ (number & _HASH_MASK)) * _HASH_FACTOR) & _HASH_MASK
        self.count += 1

    def add_all(self, numbers: Sequence[int]) -> None:
        """Hash a list of numbers as one number."""
        self.add(zlib.crc32(repr(list(numbers)).encode()))

    def __str__(self) -> str:
        return f"{self.value:016x}"
