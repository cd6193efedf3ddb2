"""Worker threads that report failures and stop together, and the rate at which they work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

SECOND_NS: Final = 1_000_000_000
STOP_TIMEOUT_S: Final = 5.0


class WorkerThreads:
    """Threads that run until `stop`."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._failure: Exception | None = None
        self._threads: list[threading.Thread] = []

    def failure(self) -> Exception | None:
        """Return the exception that ended a thread, if any did."""
        return self._failure

    def run(self, name: str, work: Callable[[], None]) -> None:
        """Start a thread."""
        thread = threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def run_steps(self, name: str, step: Callable[[], float], close: Callable[[], None]) -> None:
        """Start a thread that calls `step` repeatedly, sleeps as long as it returns, and calls `close` at the end."""

        def work() -> None:
            while not self.stopping.is_set():
                self.stopping.wait(step())
            close()

        self.run(name, work)

    def stop(self) -> None:
        """Signal all threads to stop, and wait up to `STOP_TIMEOUT_S` for each."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # Any exception: a thread that ended without a report would look like an idle cluster.
            self._failure = error


class TokenBucket:
    """Grants one token per operation that is due. Unused tokens are kept up to `burst_s` seconds' worth.

    So the rate is kept through short stalls of a busy machine, but after an outage of ten seconds the cluster does not
    get ten seconds' worth of operations at once.
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
