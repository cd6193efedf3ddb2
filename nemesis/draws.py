"""Draws bounded numbers from a seed: the same on every machine and in every version of Python."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Draws:
    """One stream of draws. Streams of the same seed with different names are independent of each other."""

    def __init__(self, seed: int, stream: str) -> None:
        digest = hashlib.sha256(f"{stream}:{seed}".encode()).digest()
        # Python guarantees the same numbers across versions for `random()` only: everything else is built on it.
        self._random = random.Random(int.from_bytes(digest[:8], "big"))  # noqa: S311 (chaos, not secrets)

    def below(self, bound: int) -> int:
        """Draw a whole number from 0 to `bound` - 1; `bound` is at most 2**32."""
        return int(self._random.random() * bound)

    def between(self, low: int, high: int) -> int:
        """Draw a whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def choice(self, values: Sequence[_T]) -> _T:
        """Draw one of `values`."""
        return values[self.below(len(values))]

    def shuffled(self, values: Sequence[_T]) -> list[_T]:
        """All of `values` in a drawn order."""
        left = list(values)
        return [left.pop(self.below(len(left))) for _ in range(len(left))]
