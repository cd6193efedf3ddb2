"""The threads of a workload: none of them dies in silence, and all end together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

STOP_TIMEOUT_S: Final = 5.0


class WorkerThreads:
    """Threads that work until they are told to stop."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._failure: Exception | None = None
        self._threads: list[threading.Thread] = []

    def failure(self) -> Exception | None:
        """Tell what broke a thread."""
        return self._failure

    def run(self, name: str, work: Callable[[], None]) -> None:
        """Start a thread."""
        thread = threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def run_steps(self, name: str, step: Callable[[], float], close: Callable[[], None]) -> None:
        """Start a thread that does step after step, resting as long as each says, and closes at the end."""

        def work() -> None:
            while not self.stopping.is_set():
                self.stopping.wait(step())
            close()

        self.run(name, work)

    def stop(self) -> None:
        """Tell all threads to stop, and wait for them for a while."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # Whatever it is: a thread that dies in silence would look like an idle cluster.
            self._failure = error
