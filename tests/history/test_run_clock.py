"""The clock of a run: monotonic, and the time of day at which it began."""

from __future__ import annotations

import time

from history.clock import RunClock


def test_the_time_of_day_at_the_origin_stays_the_same_while_the_clock_goes_on() -> None:
    before_ms = time.time_ns() // 1_000_000
    clock = RunClock.starting_now()
    after_ms = time.time_ns() // 1_000_000
    hour = RunClock(clock.origin_ns - 3_600_000_000_000)
    assert before_ms - 1 <= clock.origin_unix_ms() <= after_ms + 1
    assert before_ms - 3_600_001 <= hour.origin_unix_ms() <= after_ms - 3_599_999
