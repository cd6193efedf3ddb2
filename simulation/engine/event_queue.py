"""Simulated time: a queue of actions, ordered by the time at which each is due."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

MS = 1_000
"""Microseconds in a millisecond."""


class EventQueue:
    """Actions and when they are due, in integer microseconds; those due at one time run in the order of the calls."""

    def __init__(self) -> None:
        self.now_us = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def at(self, at_us: int, action: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        """Schedule an action at a time."""
        self._sequence += 1
        heapq.heappush(self._heap, (at_us, self._sequence, action, arguments))

    def after(self, delay_us: int, action: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        """Schedule an action after a delay."""
        self.at(self.now_us + delay_us, action, *arguments)

    def run_until(self, end_us: int, done: Callable[[], bool] | None = None, every_us: int = MS) -> bool:
        """Run actions up to `end_us`, or until `done`, evaluated `every_us`; returns the last value of `done`."""
        heap = self._heap
        ask_us = 0 if done is not None else end_us + 1
        while heap and heap[0][0] <= end_us:
            at_us, _, action, arguments = heapq.heappop(heap)
            self.now_us = at_us
            action(*arguments)
            if at_us >= ask_us:
                ask_us = at_us + every_us
                if done is not None and done():
                    return True
        self.now_us = max(self.now_us, end_us)
        return done is not None and done()
