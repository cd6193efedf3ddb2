"""Keeping a rate."""

from __future__ import annotations

from typing import Final

SECOND_NS: Final = 1_000_000_000


class TokenBucket:
    """One token per operation that is due. What was not used is kept for a short while only.

    So a rate is kept through the hiccups of a busy machine, and a cluster that was away for ten seconds is
    not greeted with ten seconds' worth of operations at once.
    """

    def __init__(self, rate_per_s: float, now_ns: int, burst_s: float = 0.1) -> None:
        if rate_per_s <= 0:
            raise ValueError(f"a rate must be positive, found {rate_per_s}")
        self._rate_per_s = rate_per_s
        self._most = max(1.0, rate_per_s * burst_s)
        self._tokens = 0.0
        self._filled_ns = now_ns

    def take(self, wanted: int, now_ns: int) -> int:
        """Take up to `wanted` tokens; returns how many there were."""
        earned = (now_ns - self._filled_ns) * self._rate_per_s / SECOND_NS
        self._tokens = min(self._most, self._tokens + earned)
        self._filled_ns = now_ns
        taken = min(wanted, int(self._tokens))
        self._tokens -= taken
        return taken
